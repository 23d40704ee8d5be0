"""No run ever gets another run's object: every kind of object, in every situation.

`test_lost_objects.py` has the situations in which objects are gone.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest
from temporalio.client import Client

from outlast.activities import boundary
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.agent import Agent
from outlast.agents.context import encoding
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import OutputGuardrailTripwireTriggered, RunAlreadyStarted, UserError
from outlast.agents.references import RunReferences
from outlast.agents.registry import Registry
from outlast.agents.run_objects import RUN_OBJECTS, RunKey, RunObjects, RunObjectTable
from outlast.agents.tools.definition import ToolRetry
from outlast.agents.tools.function_tool import function_tool
from outlast.client.start import runner
from outlast.client.start.options import run_input
from outlast.client.start.run_host import key_of
from outlast.client.start.runner import Runner
from outlast.client.start.same_run import difference, start_digest
from outlast.contract import names
from outlast.loop.effects import Finish
from outlast.ports.identity import Execution
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, say
from tests.eventually import eventually
from tests.laws.ownership import (
    CALLER,
    KINDS,
    MIXED,
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
from tests.workflow.hosts import (
    PATIENCE_SECONDS,
    QUESTIONS_AT_WORKERS,
    TABLES,
    TRIPS_AT_WORKERS,
    HalfRun,
    Host,
    WorkerHost,
    all_of,
    check,
    host,
    ledger,
    people,
    situations,
    tables,
    until,
    whole,
)
from tests.workflow.test_resets import reset, task_ends

# Fixtures of the hosts.
__all__ = ["host", "ledger", "people", "tables"]

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
