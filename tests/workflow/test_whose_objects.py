"""No run ever gets another run's object: every kind of object, in every situation."""

import asyncio
import os
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import asynccontextmanager, suppress
from contextvars import Context, ContextVar
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Self, cast

import pytest
from temporalio.client import Client
from temporalio.service import RPCError

from outlast.activities import boundary
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents import run_objects
from outlast.agents.agent import Agent
from outlast.agents.context import encoding
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import OutputGuardrailTripwireTriggered, RunAlreadyStarted, UserError
from outlast.agents.references import RunReferences
from outlast.agents.registry import Registry
from outlast.agents.run_objects import RUN_OBJECTS, RunKey, RunObjects, RunObjectTable
from outlast.agents.tools.definition import ToolRetry
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.client.read.streaming import RunResultStreaming
from outlast.client.results.run_result import RunResult
from outlast.client.results.run_state import RunState
from outlast.client.start import runner
from outlast.client.start.options import run_input
from outlast.client.start.run_host import key_of
from outlast.client.start.runner import Runner
from outlast.client.start.same_run import difference, start_digest
from outlast.contract import names
from outlast.local.engine import LocalEngine
from outlast.loop.effects import Finish
from outlast.loop.state import LoopState
from outlast.ports.identity import Execution
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, say
from outlast.views.run import loop_state
from outlast.worker import AgentWorker
from tests.eventually import eventually
from tests.laws.ownership import (
    CALLER,
    KINDS,
    MIXED,
    OF_THE_START,
    OWN,
    QUESTIONS,
    SHARED,
    Customer,
    Ledger,
    Lockbox,
    desk_of,
    uncovered,
)
from tests.servers import TemporalServer, server_for_tests
from tests.workflow.test_programs import program
from tests.workflow.test_resets import reset, task_ends

PATIENCE_SECONDS = 60

# --- Hosts: the program itself, or a worker in its process ----------------------------------------


class Host:
    """Where runs are hosted: by the program that starts them.

    Attributes:
        name: of the host, for tables.
        situation: in which its runs are, for tables.
        ids: the runs that were started.
    """

    name = "program"

    def __init__(self, client: Client, ledger: Ledger) -> None:
        self.client = client
        self.ledger = ledger
        self.situation = ""
        self.ids: list[str] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        for run_id in self.ids:
            with suppress(RPCError):  # it has ended
                await self.client.get_workflow_handle(run_id).terminate()
        await self._close()

    @property
    def place(self) -> dict[str, Any]:
        """The options that place a run."""
        return {}

    async def new_process(self) -> None:
        """Lose everything that a process that is killed loses."""
        await self._close()
        vars(RUN_OBJECTS).update(vars(RunObjectTable()))

    async def _close(self) -> None:
        await LocalEngine.close_shared()

    def new_id(self, name: str = "acme") -> str:
        self.ids.append(f"{name}-{secrets.token_hex(4)}x")
        return self.ids[-1]

    def _options(self, customer: Customer, plan: str, **options: Any) -> dict[str, Any]:
        CALLER.set(customer.name)
        return {**customer.options(plan), **self.place, **options}

    def workflow(self, handle: RunHandle) -> Any:
        """Return Temporal's own handle of a run."""
        return self.client.get_workflow_handle(handle.id)

    async def start(
        self, customer: Customer, plan: str, run_id: str, asked: Any = None, **options: Any
    ) -> RunHandle:
        options = {"keep_open": plan == "questions", **options}
        options = self._options(customer, plan, id=run_id, **options)
        return await Runner.start(customer.agent, asked or customer.asks(plan), **options)

    def stream(self, customer: Customer, plan: str, run_id: str) -> RunResultStreaming:
        options = self._options(customer, plan, id=run_id)
        return Runner.run_streamed(customer.agent, customer.asks(plan), **options)

    async def resume(self, customer: Customer, plan: str, state: RunState) -> None:
        """Decide what a run waits for, go on with it, and look at what it leaves."""
        for one in state.get_interruptions():
            state.approve(one)
        CALLER.set(customer.name)
        result = None
        with suppress(OutputGuardrailTripwireTriggered):
            async with asyncio.timeout(PATIENCE_SECONDS):
                result = await Runner.run(customer.agent, state, **self.place)
        await customer.read(plan, result)

    async def run(self, customer: Customer, plan: str, run_id: str, **options: Any) -> RunResult:
        options = self._options(customer, plan, id=run_id, **options)
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await Runner.run(customer.agent, customer.asks(plan), **options)


class WorkerHost(Host):
    """Where a worker in the process of the program hosts the runs, with agents of its own."""

    name = "worker"

    def __init__(self, client: Client, ledger: Ledger, **options: Any) -> None:
        super().__init__(client, ledger)
        self.queue = f"queue-{secrets.token_hex(6)}"
        self._options_of_worker: dict[str, Any] = {"agents": [desk_of(SHARED, ledger)], **options}
        self._worker: AgentWorker | None = None

    async def __aenter__(self) -> Self:
        self._worker = AgentWorker(self.client, task_queue=self.queue, **self._options_of_worker)
        # Who runs the worker's process is none of the customers.
        await asyncio.create_task(self._worker.__aenter__(), context=Context())
        return self

    @property
    def place(self) -> dict[str, Any]:
        return {"client": self.client, "task_queue": self.queue}

    def like(self, host: Host) -> Self:
        """Return a host for tables beside another."""
        self.situation = host.situation
        return self

    async def new_process(self) -> None:
        await super().new_process()
        await self.__aenter__()

    async def _close(self) -> None:
        if self._worker is not None:
            await self._worker.__aexit__(None, None, None)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
async def host(
    request: pytest.FixtureRequest,
    client: Client,
    server: TemporalServer,
    ledger: Ledger,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Host]:
    """A host of runs at the server of the tests."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", server.address)
    monkeypatch.setenv("TEMPORAL_NAMESPACE", server.namespace)
    monkeypatch.setenv("OUTLAST_DATA_DIR", str(tmp_path))
    vars(RUN_OBJECTS).update(vars(RunObjectTable()))
    async with request.param(client, ledger) as host:
        host.situation = request.node.originalname.removeprefix("test_").replace("_", " ")
        yield host


async def until(handle: RunHandle, condition: Callable[[LoopState], object]) -> LoopState:
    """Wait until a run's state satisfies a condition, from the present on, and return that state."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        state = (await handle.wait(lambda one: bool(condition(loop_state(one))))).snapshot
    why = state.failure or state
    assert condition(loop_state(state)), f"the run ended before what was waited for: {why}"
    return loop_state(state)


# --- Runs in two halves, between which things happen ----------------------------------------------


class HalfRun:
    """A run of a customer that is half-way when `begin` returns."""

    def __init__(self, host: Host, customer: Customer, plan: str, run_id: str = "") -> None:
        self.host = host
        self.customer = customer
        self.plan = plan
        self.id = run_id or host.new_id()
        self.handle: Any = None
        self._running: asyncio.Task[RunResult] | None = None
        self._is_decided = "pay" not in plan

    async def begin(self) -> "HalfRun":
        """Bring the run to a tool that works, to a person who decides, or to its first answer."""
        host, customer = self.host, self.customer
        if "pay" in self.plan or self.plan == "questions":
            self.handle = await host.start(customer, self.plan, self.id)
            await self.half()
            return self
        customer.ledger.close_door(customer.name)
        self._running = asyncio.create_task(host.run(customer, self.plan, self.id))
        arrived = asyncio.create_task(customer.ledger.arrived(customer.name))
        await asyncio.wait([arrived, self._running], return_when=asyncio.FIRST_COMPLETED)
        if self._running.done():
            self._running.result()
        await arrived
        return self

    async def half(self) -> None:
        """Wait until the run is at its first answer, or waits for a person."""
        if self.plan == "questions":
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self.handle.wait_for_answer("start")
        else:
            await until(self.handle, lambda one: one.pending_approvals and not one.blocked)

    async def finish(self) -> None:
        """Let the run go on to its end, and look at what it leaves."""
        customer, result = self.customer, None
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                result = await self._result()
        except OutputGuardrailTripwireTriggered:
            assert "trip" in self.plan
        await customer.read(self.plan, result)

    async def _result(self) -> RunResult:
        if self._running is not None:
            self.customer.ledger.open_door(self.customer.name)
            return await self._running
        if self.plan == "questions":
            for question in QUESTIONS[1:]:
                sent = await self.handle.send(f"I am {self.customer.name}. {question}, please.")
                await sent.answer()
            first = await self.handle.wait_for_answer("start")
            await self.handle.cancel("after_turn")
            await self.handle.result()
            return first
        await self.approve()
        return await self.handle.result()

    async def approve(self) -> None:
        """Decide what the run waits for, once."""
        if self._is_decided:
            return
        self._is_decided = True
        for request in await self.handle.approvals():
            await self.handle.approve(request.id, args_digest=request.args_digest)


async def whole(host: Host, customer: Customer, plan: str, run_id: str = "") -> None:
    """Run from the start to the end."""
    await (await HalfRun(host, customer, plan, run_id).begin()).finish()


async def all_of(*waited: Awaitable[Any]) -> None:
    await asyncio.gather(*waited)


# --- The law --------------------------------------------------------------------------------------

TABLES: dict[str, dict[str, str]] = {}
"""What came out in this process: the verdicts on kinds, by situation."""

TABLE_FILE = os.environ.get("OUTLAST_OWNERSHIP_TABLE")
"""Where to write these tables as Markdown, for the documentation."""


def check(
    host: Host,
    plan: str,
    *customers: Customer,
    waited: bool = False,
    without: Collection[str] = (),
) -> None:
    """Check that the runs have used their own objects, of every kind that their plan has."""
    names = [one.name for one in customers]
    kinds = KINDS[plan.partition(" ")[0]]
    if host.name == "worker":
        kinds -= {"AgentTool.session"}
    kinds -= {*without}
    table = host.ledger.table(kinds, *names)
    situation = TABLES.setdefault(host.situation, {})
    for kind, verdict in table.items():
        words = f"waits, then {verdict}" if waited and verdict == OWN else verdict
        if verdict == MIXED or situation.get(kind, SHARED) == SHARED:
            situation[kind] = words
    own = kinds if host.name == "program" else kinds & OF_THE_START
    assert not host.ledger.mixed
    assert {
        kind: verdict for kind, verdict in table.items() if kind in own and verdict != OWN
    } == {}
    assert not {kind for kind, verdict in table.items() if verdict not in {OWN, SHARED}}


@pytest.fixture(scope="module", autouse=True)
def tables() -> Iterator[None]:
    """Write what came out, if somebody wants it."""
    yield
    if TABLE_FILE is not None:
        Path(TABLE_FILE).write_text(markdown(TABLES))


def markdown(tables: dict[str, dict[str, str]]) -> str:
    """Return the tables as one: a row for each kind, and a column for each situation."""
    kinds = sorted({kind for table in tables.values() for kind in table})
    lines = [["kind", *tables], ["---"] * (len(tables) + 1)]
    lines += [[kind, *(table.get(kind, "") for table in tables.values())] for kind in kinds]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


FACTORIES = {"program": Host, "worker": WorkerHost}


def situations(*kept: str, ending: str = "", smoke: bool = False) -> pytest.MarkDecorator:
    """Return the parameters of a situation: each plan on each host.

    Args:
        kept: the pairs that `make check` runs. Each situation has each host and each plan among them, and
            all of them together have each plan on each host. `make every-host` runs the others, too.
        ending: what plans that wait for a person add to their names.
        smoke: whether `make test` runs the plain plan of a program.
    """
    pairs = [(host, plan) for host in FACTORIES for plan in ("plain", "trip", "questions")]
    ids = [f"{host}-{plan}" for host, plan in pairs]
    assert set(kept) <= set(ids)
    return pytest.mark.parametrize(
        ("host", "plan"),
        [
            pytest.param(
                FACTORIES[host],
                plan if plan == "questions" else plan + ending,
                id=name,
                marks=[
                    *([pytest.mark.smoke] if smoke and name == "program-plain" else []),
                    *([] if name in kept else [pytest.mark.nightly]),
                ],
            )
            for (host, plan), name in zip(pairs, ids, strict=True)
        ],
        indirect=["host"],
    )


TRIPS_AT_WORKERS = "program-plain", "program-questions", "worker-trip"
QUESTIONS_AT_WORKERS = "program-plain", "program-trip", "worker-questions"

LOSING = pytest.mark.parametrize(
    ("host", "plan"),
    [
        pytest.param(Host, "plain pay", id="program-plain"),
        pytest.param(Host, "trip pay", id="program-trip"),
        pytest.param(Host, "questions", id="program-questions"),
        pytest.param(WorkerHost, "plain pay", id="worker-plain"),
    ],
    indirect=["host"],
)
"""A situation with a run for each object that a start names."""

PLAIN = pytest.mark.parametrize(
    ("host", "plan"),
    [
        pytest.param(Host, "plain", id="program-plain"),
        pytest.param(WorkerHost, "plain", id="worker-plain"),
    ],
    indirect=["host"],
)


@pytest.fixture(scope="module")
async def second() -> AsyncIterator[TemporalServer]:
    """Another server, whose namespace may have the same name."""
    async with server_for_tests(shared=False) as server:
        yield server


@pytest.fixture
def people(ledger: Ledger) -> list[Customer]:
    return [Customer(name, ledger) for name in ("ann", "bob", "cy")]


class HeldStarts:
    """Holds starts of one run before the server has them, or before their caller knows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._start = runner.start_workflow
        self._before = self._after = ""
        self._arrived, self._free = asyncio.Event(), asyncio.Event()
        self._open = 0
        monkeypatch.setattr(runner, "start_workflow", self._held)

    async def _held(self, client: Client, run: runner.NewRun, reuse: Any) -> Any:
        self._open += 1
        try:
            if run.id == self._before:
                await self._wait()
            workflow = await self._start(client, run, reuse)
            if run.id == self._after:
                await self._wait()
            return workflow
        finally:
            self._open -= 1

    async def _wait(self) -> None:
        free = self._free
        self._arrived.set()
        await free.wait()

    @asynccontextmanager
    async def held(self, *, before: str = "", after: str = "") -> AsyncGenerator[None]:
        """Hold the starts of an id, before the server gets them or after it has accepted them."""
        self._before, self._after = before, after
        self._arrived, self._free = asyncio.Event(), asyncio.Event()
        try:
            yield
        finally:
            self._before = self._after = ""
            self._free.set()

    async def arrived(self) -> None:
        """Wait until a start is held."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._arrived.wait()

    async def ended(self) -> None:
        """Wait until no start is on its way, also none whose caller has gone."""
        await eventually(lambda: self._open == 0)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> HeldStarts:
    return HeldStarts(monkeypatch)


# --- Beside each other, and one after the other ---------------------------------------------------


@situations(*TRIPS_AT_WORKERS, smoke=True)
async def test_runs_that_overlap(host: Host, people: list[Customer], plan: str):
    runs = [HalfRun(host, one, plan) for one in people]
    await all_of(*(one.begin() for one in runs))
    await all_of(*(one.finish() for one in runs))
    check(host, plan, *people)


@situations(*QUESTIONS_AT_WORKERS)
async def test_runs_in_sequence_while_another_is_open(
    host: Host, people: list[Customer], plan: str
):
    first = await HalfRun(host, people[0], plan).begin()
    for one in people[1:]:
        await whole(host, one, plan)
    await first.finish()
    check(host, plan, *people)


@situations(*TRIPS_AT_WORKERS, smoke=True)
async def test_an_id_that_is_used_again(host: Host, people: list[Customer], plan: str):
    run_id = host.new_id()
    for one in people:
        await whole(host, one, plan, run_id)
    check(host, plan, *people)


@PLAIN
async def test_an_id_below_another(host: Host, people: list[Customer], plan: str):
    run_id = host.new_id()
    ids = [run_id, f"{run_id}/x", f"{run_id}/ask_helper"]
    runs = [HalfRun(host, one, plan, own_id) for one, own_id in zip(people, ids, strict=True)]
    await all_of(*(one.begin() for one in runs))
    await all_of(*(one.finish() for one in runs))
    check(host, plan, *people)


@situations(*QUESTIONS_AT_WORKERS)
async def test_a_conversation_that_others_have_runs_beside(
    host: Host, people: list[Customer], plan: str
):
    ann, bob, _ = people
    handle = await host.start(ann, plan, host.new_id(), keep_open=True)
    first = None
    with suppress(OutputGuardrailTripwireTriggered):
        first = await handle.wait_for_answer("start")
    await whole(host, bob, plan)
    for question in QUESTIONS[1:] if plan == "questions" else [plan]:
        sent = await handle.send(f"I am ann. {question}, please.")
        with suppress(OutputGuardrailTripwireTriggered):
            await sent.answer()
    await handle.cancel("after_turn")
    await ann.read(plan, first)
    check(host, plan, *people[:2])


@pytest.mark.parametrize(
    ("host", "plan"),
    [
        pytest.param(Host, "plain", id="program-plain"),
        pytest.param(Host, "trip", id="program-trip"),
        pytest.param(WorkerHost, "plain", id="worker-plain"),
    ],
    indirect=["host"],
)
async def test_streamed_runs(host: Host, people: list[Customer], plan: str):
    async def stream(one: Customer) -> None:
        reading = host.stream(one, plan, host.new_id())
        try:
            async for _ in reading.stream_events():
                pass
        except OutputGuardrailTripwireTriggered:
            await one.read(plan)
        else:
            await one.read(plan, reading)

    await all_of(*(asyncio.create_task(stream(one)) for one in people[:2]))
    await whole(host, people[2], plan)
    check(host, plan, *people)


@PLAIN
async def test_runs_that_go_on_in_new_histories(
    host: Host, people: list[Customer], plan: str, monkeypatch: pytest.MonkeyPatch
):
    def shortened(settings: dict[str, Any] | None) -> dict[str, Any]:
        return {**(settings or {}), "roll_over_events": 10}

    monkeypatch.setattr(runner, "join_current_trace", shortened)
    runs = [HalfRun(host, one, plan) for one in people[:2]]
    await all_of(*(one.begin() for one in runs))
    await all_of(*(one.finish() for one in runs))
    for one in runs:
        description = await host.client.get_workflow_handle(one.id).describe()
        assert description.run_id != description.raw_info.first_run_id, "it has rolled over"
    check(host, plan, *people[:2])


# --- Starts that begin nothing --------------------------------------------------------------------


@situations(*TRIPS_AT_WORKERS)
async def test_starts_that_are_refused(host: Host, people: list[Customer], plan: str):
    ann, bob, cy = people
    run = await HalfRun(host, ann, plan).begin()
    for one in (bob, cy, bob):
        with pytest.raises(RunAlreadyStarted):
            await host.start(one, plan, run.id)
        with pytest.raises(RunAlreadyStarted):
            await host.run(one, plan, run.id)
    finishing = asyncio.create_task(run.finish())
    while not finishing.done():
        with suppress(RunAlreadyStarted):
            await host.start(bob, plan, run.id, keep_open=False)
            break  # it came after the end
        await asyncio.sleep(0)
    await finishing
    check(host, plan, ann)


@situations(*QUESTIONS_AT_WORKERS)
async def test_a_start_that_is_cancelled_on_its_way_and_then_refused(
    host: Host, people: list[Customer], plan: str, held: HeldStarts
):
    ann, bob, _ = people
    run = await HalfRun(host, ann, plan).begin()
    async with held.held(before=run.id):
        start = asyncio.create_task(host.start(bob, plan, run.id))
        await held.arrived()
        start.cancel()
        await asyncio.wait([start])
        assert start.cancelled()
    await held.ended()
    await run.finish()
    check(host, plan, ann)
    assert {use.run_owner for use in host.ledger.uses} == {"ann"}


@situations(*TRIPS_AT_WORKERS)
async def test_a_start_that_is_cancelled_and_accepted(
    host: Host, people: list[Customer], plan: str, held: HeldStarts
):
    ann, bob, _ = people
    run_id = host.new_id()
    async with held.held(before=run_id):
        start = asyncio.create_task(host.start(bob, plan, run_id))
        await held.arrived()
        start.cancel()
        await asyncio.wait([start])
        await whole(host, ann, plan)
    await held.ended()
    run = HalfRun(host, bob, plan, run_id)
    run.handle = await Runner.attach(run_id, agent=bob.agent, client=host.client)
    if plan == "questions":
        await run.handle.wait_for_answer("start")
        await run.finish()
    else:
        await run.finish()
    check(host, plan, ann, bob)


@situations(*QUESTIONS_AT_WORKERS, smoke=True)
async def test_effects_wait_for_a_start_whose_caller_does_not_know_it_yet(
    host: Host, people: list[Customer], plan: str, held: HeldStarts
):
    ann, bob, _ = people
    await whole(host, ann, plan)  # the id may have belonged to somebody else
    run = HalfRun(host, bob, plan, host.ids[-1])
    async with held.held(after=run.id):
        beginning = asyncio.create_task(run.begin())
        await held.arrived()
        handle = await Runner.attach(run.id, client=host.client)
        await until(handle, lambda state: state.pending)
        assert "bob" not in {use.run_owner for use in host.ledger.uses}
    await beginning
    await run.finish()
    check(host, plan, ann, bob)


@PLAIN
async def test_a_start_that_is_too_large(host: Host, people: list[Customer], plan: str):
    ann, bob, _ = people
    run_id = host.new_id()
    for _ in range(3):
        with pytest.raises(UserError, match="of at most"):
            await host.start(ann, plan, run_id, asked="I am ann." + "x" * 5_000_000)
    assert RUN_OBJECTS.is_empty
    run = await HalfRun(host, bob, plan, run_id).begin()
    with pytest.raises(UserError, match="of at most"):
        await host.start(ann, plan, run_id, asked="I am ann." + "x" * 5_000_000)
    await run.finish()
    check(host, plan, bob)
    assert {use.run_owner for use in host.ledger.uses} == {"bob"}


# --- Other servers --------------------------------------------------------------------------------


@PLAIN
async def test_a_second_server_with_the_same_id(
    host: Host, people: list[Customer], plan: str, second: TemporalServer, ledger: Ledger
):
    ann, bob, cy = people
    run = await HalfRun(host, ann, plan).begin()
    async with WorkerHost(await second.connect(), ledger) as other:
        beside = await HalfRun(other, bob, plan, run.id).begin()
        await whole(other, cy, plan)
        await all_of(run.finish(), beside.finish())
    check(host, plan, ann)
    check(WorkerHost(host.client, ledger).like(host), plan, bob, cy)


@pytest.mark.parametrize(("host", "plan"), [(Host, "plain")], indirect=["host"], ids=["program"])
async def test_a_second_engine_in_another_thread_with_the_same_id(
    host: Host,
    people: list[Customer],
    plan: str,
    second: TemporalServer,
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
):
    ann, bob, _ = people
    run = await HalfRun(host, ann, plan).begin()
    monkeypatch.setenv("TEMPORAL_ADDRESS", second.address)

    async def elsewhere() -> None:
        async with Host(await second.connect(), ledger) as other:
            await whole(other, bob, plan, run.id)

    await asyncio.to_thread(lambda: asyncio.run(elsewhere()))
    await run.finish()
    check(host, plan, ann, bob)


# --- People decide --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "plan"),
    [
        pytest.param(Host, "plain pay", id="program-plain"),
        pytest.param(Host, "trip pay", id="program-trip"),
        pytest.param(WorkerHost, "plain pay", id="worker-plain"),
        pytest.param(WorkerHost, "trip pay", id="worker-trip"),
    ],
    indirect=["host"],
)
async def test_runs_that_go_on_with_their_state(host: Host, people: list[Customer], plan: str):
    waiting = [await host.run(one, plan, host.new_id()) for one in people]
    for one, stopped in reversed(list(zip(people, waiting, strict=True))):
        await host.resume(one, plan, stopped.to_state())
    check(host, plan, *people)


@pytest.mark.parametrize(
    ("host", "plan"),
    [
        pytest.param(Host, "plain pay", marks=pytest.mark.smoke, id="program-plain"),
        pytest.param(WorkerHost, "plain pay", id="worker-plain"),
    ],
    indirect=["host"],
)
async def test_a_state_in_a_new_process(host: Host, people: list[Customer], plan: str):
    ann, bob, _ = people
    text = (await host.run(ann, plan, host.new_id())).to_state().to_string()
    await host.new_process()
    await whole(host, bob, plan)
    context = ann.options(plan)["context"]
    state = await RunState.from_string(ann.agent, text, context_override=context)
    handle = await Runner.attach(state.run_id, client=host.client)
    async with asyncio.TaskGroup() as tasks:
        resuming = tasks.create_task(host.resume(ann, plan, state))
        blocked = await until(handle, lambda one: one.blocked)
        assert blocked.blocked[0].lacks.startswith(SENTENCES), blocked.blocked
        await host.start(ann, plan, state.run_id)
        await resuming
    check(host, plan, ann, bob, waited=True)


# --- Processes that end ---------------------------------------------------------------------------

SENTENCES = (
    "This process hosts the run's task queue, but has not the agents",
    "The run uses an object that its program passed",
    "The context's ",
    "This worker has no object named",  # of a session, which workers may have a factory for
)
"""How a run says that no process has its objects."""


def _owners_since(host: Host, count: int, kind: str = "") -> set[str]:
    """Return whose runs have used an object of a kind, or any, after the first uses."""
    return {use.run_owner for use in host.ledger.uses[count:] if use.kind.startswith(kind)}


async def waits_and_goes_on(host: Host, run: HalfRun) -> None:
    """Check that a run waits for its own objects, and goes on when its start is repeated."""
    customer, handle = run.customer, run.handle
    count = len(host.ledger.uses)
    if run.plan == "questions":
        sent = asyncio.create_task(handle.send(f"I am {customer.name}. {QUESTIONS[1]}, please."))
    else:
        sent = asyncio.create_task(run.approve())
    state = await until(handle, lambda one: one.blocked)
    await sent
    assert state.blocked[0].lacks.startswith(SENTENCES), state.blocked
    if host.name == "program":
        assert customer.name not in _owners_since(host, count)
    assert not [use for use in host.ledger.uses if not use.is_own]
    run.handle = await host.start(customer, run.plan, run.id)


@situations(*QUESTIONS_AT_WORKERS, ending=" pay", smoke=True)
async def test_processes_that_end_and_start_in_another_order(
    host: Host, people: list[Customer], plan: str
):
    runs = [await HalfRun(host, one, plan).begin() for one in people[:2]]
    await host.new_process()
    await whole(host, people[2], plan)
    await waits_and_goes_on(host, runs[1])
    await waits_and_goes_on(host, runs[0])
    await all_of(*(one.finish() for one in runs))
    check(host, plan, *people, waited=True)


@situations(*TRIPS_AT_WORKERS, ending=" pay")
async def test_more_runs_than_a_process_keeps(
    host: Host, people: list[Customer], plan: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run_objects, "MOST_KEPT", 5)
    run = await HalfRun(host, people[0], plan).begin()
    others = [await HalfRun(host, people[1], plan).begin() for _ in range(5)]
    last = await HalfRun(host, people[2], plan).begin()
    await waits_and_goes_on(host, run)
    await run.finish()
    await all_of(last.finish(), *(one.finish() for one in others[-3:]))
    check(host, plan, *people, waited=True)


LOST: ContextVar[int | None] = ContextVar("lost", default=None)
"""Which of the objects that a start names is lost on the way, by number."""


@LOSING
async def test_a_run_waits_for_each_object_that_is_missing(
    host: Host, people: list[Customer], plan: str, monkeypatch: pytest.MonkeyPatch
):
    bring, counts = RUN_OBJECTS.bring, list[int]()

    def lossy(key: Any, objects: RunObjects, **options: Any) -> RunObjects:
        found, number = objects.references.objects, LOST.get()
        counts.append(len(found))
        if number is not None:
            objects.references.objects.pop(sorted(found)[number])
        return bring(key, objects, **options)

    monkeypatch.setattr(RUN_OBJECTS, "bring", lossy)
    await whole(host, people[0], plan)

    async def lose(number: int) -> None:
        # A customer for each, since a run counts as somebody's by its data.
        one = HalfRun(host, Customer(f"ann{number}", host.ledger), plan)
        LOST.set(number)
        one.handle = await host.start(one.customer, plan, one.id)
        state = await until(one.handle, lambda state: state.blocked)
        assert state.blocked[0].lacks.startswith(SENTENCES)
        LOST.set(None)
        one.handle = await host.start(one.customer, plan, one.id)
        await one.half()
        await one.finish()
        check(host, plan, one.customer, waited=True)

    await all_of(*(asyncio.create_task(lose(number)) for number in range(counts[0])))


def objects_of(run_id: str, description: Any, namespace: str) -> RunObjects:
    """Return what the table has for the newest execution with an id."""
    found = RUN_OBJECTS.get(RunKey(namespace, description.raw_info.first_run_id))
    assert found is not None, run_id
    return found


@LOSING
async def test_a_run_that_loses_an_object_half_way_never_fails_for_that(
    host: Host, people: list[Customer], plan: str
):
    faults: dict[str, str] = {}

    async def lose(number: int, one: HalfRun) -> bool:
        await one.begin()
        description = await host.client.get_workflow_handle(one.id).describe()
        objects = objects_of(one.id, description, host.client.namespace).references.objects
        if number >= len(objects):
            return False
        name = sorted(objects)[number]
        del objects[name]
        finishing = asyncio.create_task(one.finish())
        blocking = asyncio.create_task(until(one.handle, lambda state: state.blocked))
        await asyncio.wait([blocking])
        waits = blocking.exception() is None
        if waits and not blocking.result().blocked[0].lacks.startswith(SENTENCES):
            faults[name] = f"waits without a sentence: {blocking.result().blocked[0].lacks}"
        if waits:
            await host.start(one.customer, plan, one.id)
        await asyncio.wait([finishing])
        if (error := finishing.exception()) is not None:
            faults[name] = str(error)
        return waits

    # No plan names more objects than this.
    runs = [HalfRun(host, Customer(f"ann{number}", host.ledger), plan) for number in range(14)]
    waited = await asyncio.gather(*(lose(number, one) for number, one in enumerate(runs)))
    assert not faults, "\n".join(f"{name}: {error:.300}" for name, error in faults.items())
    assert any(waited)
    assert not host.ledger.mixed


# --- The law can fail -----------------------------------------------------------------------------


@pytest.mark.smoke
def test_every_field_that_may_hold_an_object_has_a_kind_or_is_data():
    assert {what: fields for what, fields in uncovered().items() if fields} == {}


class Latest:
    """A planted fault: names mean whatever was registered last, whosever it is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        name, latest = RunReferences.name, dict[str, Any]()

        def remember(references: RunReferences, entry: object, place: str = "") -> str:
            found = name(references, entry, place)
            latest[found] = entry
            return found

        def last(_references: RunReferences, key: str) -> Any:
            return latest[key]

        monkeypatch.setattr(RunReferences, "name", remember)
        monkeypatch.setattr(RunReferences, "__getitem__", last)


def _newest_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(table: Any, _key: RunKey, _run_id: str) -> RunObjects | None:
        kept = list(table._kept.values())
        return kept[-1].objects if kept else None

    _classes_shared(monkeypatch)
    monkeypatch.setattr(RunObjectTable, "find", find)


def _views_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    views: dict[int, Any] = {}
    view_of = RunObjects.view_of

    def shared(objects: RunObjects, registry: Any, *rest: Any) -> Any:
        return views.setdefault(id(registry), view_of(objects, registry, *rest))

    monkeypatch.setattr(RunObjects, "view_of", shared)


def _keyed_by_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the objects of a run under its workflow id."""
    ids: dict[str, str] = {}
    start, bring, find = runner.start_workflow, RUN_OBJECTS.bring, RUN_OBJECTS.find

    async def remember(client: Client, run: runner.NewRun, reuse: Any) -> Any:
        workflow = await start(client, run, reuse)
        ids[workflow.first_execution_run_id or ""] = run.id
        return workflow

    def bring_by_id(key: RunKey, objects: RunObjects, **options: Any) -> RunObjects:
        return bring(RunKey(key.namespace, ids[key.chain_id]), objects, **options)

    async def find_by_id(key: RunKey, run_id: str) -> RunObjects | None:
        return await find(RunKey(key.namespace, run_id.partition("/")[0]), run_id)

    _classes_shared(monkeypatch)
    monkeypatch.setattr(runner, "start_workflow", remember)
    monkeypatch.setattr(RUN_OBJECTS, "bring", bring_by_id)
    monkeypatch.setattr(RUN_OBJECTS, "find", find_by_id)


def _classes_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no run wait for a class in its context, so that it goes on with the other faults."""
    found: dict[str, type[Any]] = {}
    own_classes = encoding._own_classes

    def shared(live: Any) -> dict[str, type[Any]]:
        found.update(own_classes(live))
        return found

    monkeypatch.setattr(encoding, "_own_classes", shared)


def _refused_starts_renew(monkeypatch: pytest.MonkeyPatch) -> None:
    _classes_shared(monkeypatch)
    start = runner._start

    async def renews(client: Client, run: runner.NewRun, host: Any) -> Any:
        try:
            return await start(client, run, host)
        except RunAlreadyStarted:
            there = await client.get_workflow_handle(run.id).describe()
            host.bring(key_of(client, there), resumes=True)
            raise

    monkeypatch.setattr(runner, "_start", renews)


def _keyed_without_execution(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_key(run_id: str, _chain_id: str) -> str:
        return run_id

    monkeypatch.setattr(names, "run_key", run_key)


def _callers_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    first: list[Any] = []

    def see_as(caller: Any) -> None:
        first.append(caller)
        for variable, value in first[0].items():
            if variable is CALLER:
                variable.set(value)

    monkeypatch.setattr(boundary, "_see_as", see_as)


def _live_values_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    live: dict[Any, Any] = {}
    with_objects = WorkerDeps.with_objects

    def shared(worker: WorkerDeps, *arguments: Any) -> WorkerDeps:
        objects = next(one for one in arguments if isinstance(one, RunObjects))
        for path, value in (objects.live or {}).items():
            live.setdefault(path, value)
        return replace(with_objects(worker, *arguments), live=live)

    monkeypatch.setattr(WorkerDeps, "with_objects", shared)


async def _beside(host: Host, people: list[Customer], plan: str) -> None:
    await test_runs_in_sequence_while_another_is_open(host, people, plan)


async def _again(host: Host, people: list[Customer], plan: str) -> None:
    await test_an_id_that_is_used_again(host, people, plan)


async def _refused(host: Host, people: list[Customer], plan: str) -> None:
    await test_starts_that_are_refused(host, people, plan)


@pytest.mark.parametrize(
    ("host", "fault", "situation"),
    [
        pytest.param(Host, Latest, _beside, id="names mean what came last"),
        pytest.param(WorkerHost, _newest_found, _beside, id="the newest entry is found"),
        pytest.param(WorkerHost, _views_shared, _beside, id="runs share a view of the definitions"),
        pytest.param(WorkerHost, _refused_starts_renew, _refused, id="refused starts renew"),
        pytest.param(WorkerHost, _keyed_without_execution, _again, id="keys without the execution"),
        pytest.param(Host, _callers_shared, _beside, id="runs share the caller's variables"),
        pytest.param(WorkerHost, _live_values_shared, _beside, id="runs share live values"),
    ],
    indirect=["host"],
)
async def test_a_planted_fault_is_found(
    host: Host, fault: Any, situation: Any, people: list[Customer], monkeypatch: pytest.MonkeyPatch
):
    fault(monkeypatch)
    with suppress(Exception):
        async with asyncio.timeout(PATIENCE_SECONDS):
            await situation(host, people, "plain")
    TABLES.pop(host.situation, None)
    assert MIXED in host.ledger.table(KINDS["plain"], "ann", "bob", "cy").values()


async def test_objects_by_id_alone_are_found_to_be_mixed(
    client: Client,
    ledger: Ledger,
    people: list[Customer],
    second: TemporalServer,
    monkeypatch: pytest.MonkeyPatch,
):
    _keyed_by_id(monkeypatch)
    async with (
        WorkerHost(client, ledger) as here,
        WorkerHost(await second.connect(), ledger) as there,
    ):
        with suppress(Exception):
            async with asyncio.timeout(PATIENCE_SECONDS):
                run = await HalfRun(here, people[0], "plain").begin()
                other = await HalfRun(there, people[1], "plain", run.id).begin()
                await all_of(run.finish(), other.finish())
    assert MIXED in ledger.table(KINDS["plain"], "ann", "bob").values()


@pytest.mark.smoke
@pytest.mark.parametrize("is_planted", [False, True])
async def test_two_namespaces_with_one_execution_id(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, is_planted: bool
):
    if is_planted:  # a key without its namespace

        async def find(key: RunKey, run_id: str) -> RunObjects | None:
            return next((one for there, one in brought.items() if there[1] == key.chain_id), None)

        monkeypatch.setattr(RUN_OBJECTS, "find", find)
    brought: dict[RunKey, RunObjects] = {}
    for name in ("ann", "bob"):
        objects = RunObjects()
        used = ledger.noting("RunConfig.model_provider", name)
        assert objects.references.name(used)
        key = RunKey(f"of {name}", "one-execution")
        brought[key] = RUN_OBJECTS.bring(key, objects)
    worker = WorkerDeps(registry=Registry(), models=ScriptedModel())
    worker.state.lineages.note("one-execution", "one-execution", None)
    for name in ("ann", "bob"):
        execution = Execution(
            namespace=f"of {name}", workflow_id="acme", execution_id="one-execution"
        )
        seen = await worker.of_execution(execution, cast("Any", Finish(status="completed")))
        own = seen.registry.own_references
        assert own is not None
        for reference in own.objects.values():
            reference(f"I am {name}")  # pyright: ignore[reportCallIssue]
    expected = MIXED if is_planted else OWN
    assert set(ledger.table({"RunConfig.model_provider"}, "ann", "bob").values()) == {expected}


# --- Processes that are killed --------------------------------------------------------------------

TENANTS = """
import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from outlast import RunConfig, RunContextWrapper
from outlast.client.handle import progress_of

class TenantModels:
    def __init__(self, tenant):
        self.key = f"the key of {tenant}"

    def get_model(self, _name):
        def reply(request):
            note("used", f"{self.key} for {request.instructions} {request.input[0]['content']}")
            outputs = [one["output"] for one in request.input if "output" in one]
            return say(f"{self.key}: {outputs[0]}") if outputs else [call("work", "c1")]
        return ScriptedModel(always=reply)

    async def aclose(self):
        pass

def start(tenant):
    @dataclass
    class Case:
        customer: str
        lock: Any

    @function_tool
    async def work(ctx: RunContextWrapper[Any]) -> str:
        note("at-work", tenant)
        while not Path("door").exists():
            await asyncio.sleep(0.01)
        with ctx.context.lock:
            return f"{tenant} for {ctx.context.customer}"

    agent = Agent(name="Desk", instructions=f"You serve {tenant}.", tools=[work])
    config = RunConfig(model_provider=TenantModels(tenant), heartbeat_timeout=timedelta(seconds=2))
    context = Case(tenant, threading.Lock())
    question, case = f"I am {tenant}", f"case-{tenant}"
    return Runner.run(agent, question, id=case, context=context, run_config=config)

async def main():
    if Path("door").exists():  # after the crash
        first, second = sys.argv[1:]
        print((await start(first)).final_output)
        handle = await Runner.attach(f"case-{second}")
        async for progress in progress_of(handle):
            if progress.state.blocked:
                print(progress.state.blocked[0].lacks.split(":")[0])
                break
        print((await start(second)).final_output)
    else:
        await asyncio.gather(*(start(tenant) for tenant in sys.argv[1:]))

asyncio.run(main())
"""


async def test_tenants_of_a_program_that_is_killed_keep_their_own_keys(tmp_path: Path):
    async with program(tmp_path, "tenants.py", TENANTS, "ann", "bob") as process:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(_lines(tmp_path / "at-work")) < 2:
                assert process.returncode is None, "the program has ended"
                await asyncio.sleep(0.02)
        process.kill()
        await process.wait()
    (tmp_path / "door").touch()
    async with program(tmp_path, "tenants.py", TENANTS, "bob", "ann") as process:
        async with asyncio.timeout(PATIENCE_SECONDS):
            out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    assert out.decode().splitlines() == [
        "the key of bob: bob for bob",
        f"{SENTENCES[0]} that the run was started with",
        "the key of ann: ann for ann",
    ]
    used = {f"the key of {one} for You serve {one}. I am {one}" for one in ("ann", "bob")}
    assert set(_lines(tmp_path / "used")) == used


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


# --- What workers make, and what programs keep for a run ------------------------------------------


async def test_a_workers_factory_makes_the_objects_of_each_run_that_uses_an_id(
    client: Client, ledger: Ledger, people: list[Customer]
):
    def make(data: Any) -> Any:
        ledger.note("AgentWorker.context", data["customer"], f"I am {data['customer']}")
        return {**data, "lock": Lockbox(data["customer"])}

    agent = desk_of(SHARED, ledger)
    async with WorkerHost(client, ledger, agents=[agent], context=make) as host:
        run_id = host.new_id()
        for one in people:
            context = {"customer": one.name, "lock": Lockbox("nobody")}
            await asyncio.create_task(_as_elsewhere(host, one, run_id, context))
    table = ledger.table({"AgentWorker.context", "a live value in a dict context"}, *NAMES)
    assert set(table.values()) == {OWN}


async def _as_elsewhere(host: Host, one: Customer, run_id: str, context: Any) -> None:
    """Run without what this process has brought for it."""

    def bring(_key: RunKey, objects: RunObjects, **_options: Any) -> RunObjects:
        return objects

    options: dict[str, Any] = {**host.place, "id": run_id, "context": context}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RUN_OBJECTS, "bring", bring)
        handle = await Runner.start("Desk", one.asks("short"), **options)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await handle.result()


NAMES = ("ann", "bob", "cy")


def _counts(keys: list[tuple[str, str]]) -> Agent[Any]:
    """Make an agent with a tool that fails at first; its calls count from `c1` in each run."""

    @function_tool(retry=ToolRetry(attempts=2, initial_interval=timedelta(seconds=0.01)))
    async def pay(ctx: ToolContext[Any]) -> str:
        keys.append((ctx.run_key, ctx.idempotency_key))
        if ctx.attempt == 1:
            raise ConnectionError("not yet")
        return "paid"

    def reply(request: ModelRequest) -> Any:
        number = sum(one.get("role") == "user" for one in request.input)
        return say("Paid.") if "output" in request.input[-1] else [call("pay", f"c{number}")]

    return Agent(name="Till", tools=[pay], model=ScriptedModel(always=reply))


async def test_idempotency_keys_are_those_of_one_run(
    client: Client, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
):
    keys = list[tuple[str, str]]()

    def shortened(settings: dict[str, Any] | None) -> dict[str, Any]:
        return {**(settings or {}), "roll_over_events": 10}

    async with WorkerHost(client, ledger, agents=[_counts(keys)]) as host:
        run_id = host.new_id()
        handle = await Runner.start("Till", "Pay.", id=run_id, **host.place)
        await handle.result()
        attempts = keys[:2]
        assert len(set(attempts)) == 1, "all attempts have one key"

        execution, ends = await task_ends(cast("Any", host), handle)
        await reset(cast("Any", host), handle, execution, ends[0])
        await eventually(lambda: len(keys) == 4)
        assert keys[2:] == attempts, "and those after a reset"
        await handle.result()

        handle = await Runner.start("Till", "Pay again.", id=run_id, **host.place)
        await handle.result()
        assert keys[4] == keys[5] != attempts[0], "another run with the id has another"
        assert keys[4][0] != attempts[0][0]

        monkeypatch.setattr(runner, "join_current_trace", shortened)
        other = host.new_id()
        handle = await Runner.start("Till", "Pay.", id=other, keep_open=True, **host.place)
        await handle.wait_for_answer("start")
        await (await handle.send("Pay again.")).answer()
        description = await host.client.get_workflow_handle(other).describe()
        assert description.run_id != description.raw_info.first_run_id, "it has rolled over"
        assert keys[6][0] == keys[8][0], "later histories of a run are the same run"
        assert keys[6][1] != keys[8][1]


@pytest.mark.smoke
def test_a_start_whose_function_made_its_class_again_is_the_same_start(ledger: Ledger):
    # As after a restart: the function that makes the context is called again.
    starts = [Customer("ann", ledger) for _ in range(2)]
    contexts = [one.options("plain")["context"] for one in starts]
    records = [run_input("Desk", starts[0].asks("plain"), context=one) for one in contexts]
    first, second = (start_digest(one, None) for one in records)
    assert difference(first, second) == ""
