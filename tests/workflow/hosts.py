"""Where the runs of the laws of ownership are hosted: by a program, or by a worker in its process.

Owns: hosts, runs that are half-way when things happen, and the check of what they have used. Must not
know: the situations; those are the tests'.
"""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import suppress
from contextvars import Context
from pathlib import Path
from typing import Any, Self

import pytest
from temporalio.client import Client
from temporalio.service import RPCError

from outlast.agents.errors import OutputGuardrailTripwireTriggered
from outlast.agents.run_objects import RUN_OBJECTS, RunObjectTable
from outlast.client.handle import RunHandle
from outlast.client.read.streaming import RunResultStreaming
from outlast.client.results.run_result import RunResult
from outlast.client.results.run_state import RunState
from outlast.client.start.runner import Runner
from outlast.local.engine import LocalEngine
from outlast.loop.state import LoopState
from outlast.views.run import loop_state
from outlast.worker import AgentWorker
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
    desk_of,
)
from tests.servers import TemporalServer

PATIENCE_SECONDS = 60

SENTENCES = (
    "This process hosts the run's task queue, but has not the agents",
    "The run uses an object that its program passed",
    "The context's ",
    "This worker has no object named",  # of a session, which workers may have a factory for
)
"""How a run says that no process has its objects."""

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
"""Where to write these tables as Markdown, for the documentation: one process has to run all tests."""


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


@pytest.fixture
def people(ledger: Ledger) -> list[Customer]:
    return [Customer(name, ledger) for name in ("ann", "bob", "cy")]
