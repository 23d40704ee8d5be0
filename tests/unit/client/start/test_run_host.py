"""Who carries a run, and when it is not waited for any more."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from outlast.agents.agent import Agent
from outlast.agents.context.codec import ProgramContext
from outlast.agents.errors import (
    MaxTurnsExceeded,
    RunAlreadyStarted,
    RunNotFound,
    ServerUnavailable,
)
from outlast.agents.registry import Registry
from outlast.agents.run_objects import RunKey, RunObjects, RunObjectTable
from outlast.client.handle import RunHandle
from outlast.client.results.local_definitions import LocalDefinitions
from outlast.client.results.run_state import ENGINE
from outlast.client.start import run_host
from outlast.client.start.run_host import RunHost
from outlast.loop.state import LoopState
from outlast.views.run import snapshot_of
from tests.unit.client.recorded import FakeClient, Recording

A = Agent[Any](name="A")
OWN = "outlast-local-desk-A"
FIRST = RunKey("default", "run-1")


class Serving:
    """A run in the engine."""

    def __init__(self, calls: list[tuple[Any, ...]], agent: Agent[Any], queue: str | None) -> None:
        self.queue = queue or OWN
        self.definitions = Registry([agent], tell_apart=True)
        self._given = queue
        self._calls = calls

    def leave(self) -> None:
        self._calls.append(("leave", self._given))

    def release(self) -> None:
        self._calls.append(("let go", self._given))


class Engine:
    """An engine that notes what it is asked for."""

    def __init__(self) -> None:
        self.client = FakeClient(Recording().events)
        self.calls: list[tuple[Any, ...]] = []

    async def shared(self) -> "Engine":
        return self

    async def serve(self, agent: Any, *, queue: str | None) -> Any:
        self.calls.append(("serve", agent, queue))
        return Serving(self.calls, agent, queue)


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> RunObjectTable:
    monkeypatch.setattr(run_host, "RUN_OBJECTS", table := RunObjectTable())
    return table


def agent_of(table: RunObjectTable, key: RunKey) -> Any:
    """Return the agent that an execution has, or None."""
    objects = table.get(key)
    return objects and objects.definitions and objects.definitions.agent("A")


def is_awaited(table: RunObjectTable, key: RunKey) -> bool:
    """Whether a caller waits for an execution, which then keeps what it has."""
    before = agent_of(table, key)
    newer = Registry([Agent[Any](name="A")], tell_apart=True)
    table.bring(key, RunObjects(definitions=newer))
    return agent_of(table, key) is before


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, table: RunObjectTable) -> Engine:
    one = Engine()
    monkeypatch.setattr(run_host, "local_engine", lambda: one)
    return one


async def handle_of(one: RunHost) -> RunHandle:
    return await one.handle("support-42", LocalDefinitions())


async def test_an_agent_is_carried_by_the_engine_until_it_is_not_waited_for(
    engine: Engine, table: RunObjectTable
) -> None:
    with RunHost(A, None, None) as one:
        assert await one.queue() == OWN
        assert (await handle_of(one)).kept_client == ENGINE
        assert table.is_empty, "nobody knows which execution it is"
        one.has_begun("default", "run-1")
        assert agent_of(table, FIRST) is A
        assert is_awaited(table, FIRST)
    assert engine.calls == [("serve", A, None), ("leave", None)]
    assert agent_of(table, FIRST) is A, "the run continues"
    assert not is_awaited(table, FIRST)


async def test_a_run_gets_all_that_its_start_brought(engine: Engine, table: RunObjectTable) -> None:
    context = SimpleNamespace(n=1, pool=object())
    with RunHost(A, None, None, ProgramContext(context)) as one:
        name = one.objects.references.name(context)
        await one.queue()
        one.has_begun("default", "run-1")
    objects = table.get(FIRST)
    assert objects is not None
    assert objects is one.objects
    assert objects.references[name] is context
    assert objects.live == {("pool",): context.pool}
    assert objects.context_type is SimpleNamespace
    assert objects.caller is not None


@pytest.mark.parametrize("ended", [True, False])
async def test_a_run_that_settled_is_let_go(
    engine: Engine, table: RunObjectTable, *, ended: bool
) -> None:
    with RunHost(A, None, None) as one:
        await one.queue()
        one.has_begun("default", "run-1")
        one.release(ended=ended)
        assert agent_of(table, FIRST) is (None if ended else A)
        assert not is_awaited(table, FIRST)
    assert engine.calls[1:] == [("let go", None)]


@pytest.mark.parametrize(
    ("state", "call", "is_kept"),
    [
        (LoopState(phase="closed", outcome="completed"), "let go", False),
        (LoopState(), "let go", True),
        (None, "leave", True),
    ],
)
async def test_a_run_that_was_read_along_is_let_go_where_it_settled(
    engine: Engine, table: RunObjectTable, state: LoopState | None, call: str, *, is_kept: bool
) -> None:
    one = RunHost(A, None, None)
    await one.queue()
    one.has_begun("default", "run-1")
    one.end_reading(None if state is None else snapshot_of(state))
    assert engine.calls[1:] == [(call, None)]
    assert agent_of(table, FIRST) is (A if is_kept else None)
    assert not is_awaited(table, FIRST)


async def test_a_start_that_is_accepted_after_its_caller_has_gone_is_awaited_by_nobody(
    engine: Engine, table: RunObjectTable
) -> None:
    with RunHost(A, None, None) as one:
        await one.queue()
    one.has_begun("default", "run-1")
    assert agent_of(table, FIRST) is A
    assert not is_awaited(table, FIRST)


@pytest.mark.parametrize(
    ("agent", "client", "queue", "used"),
    [
        ("A", None, None, "outlast"),
        (A, None, "support", "support"),
        (A, FakeClient(Recording().events), None, "outlast"),
        (A, FakeClient(Recording().events), "support", "support"),
    ],
)
async def test_what_is_carried_elsewhere_is_not_carried_here(
    engine: Engine, table: RunObjectTable, agent: Any, client: Any, queue: str | None, used: str
) -> None:
    one = RunHost(agent, client, queue, ProgramContext({"pool": engine}))
    name = one.objects.references.name(engine)
    assert await one.queue() == used
    handle = await handle_of(one)
    assert handle.client is (client or engine.client)
    await one.follow(handle)
    assert engine.calls == []
    objects = table.get(FIRST)
    assert objects is not None, "the workers may be in this process"
    assert objects.references[name] is engine
    assert (objects.live, objects.definitions) == ({("pool",): engine}, None)


async def test_a_run_that_was_started_before_is_carried_where_it_is(
    engine: Engine, table: RunObjectTable
) -> None:
    engine.client.task_queue = "outlast-local-shop-A"
    engine.client.first = "run-0"
    with RunHost(A, None, None) as one:
        await one.follow(await handle_of(one))
        await one.follow(await handle_of(one))
        assert agent_of(table, RunKey("default", "run-0")) is A
        assert table.get(FIRST) is None, "it belongs to the first execution"
    assert engine.calls == [
        ("serve", A, "outlast-local-shop-A"),
        ("leave", "outlast-local-shop-A"),
    ]
    assert not is_awaited(table, RunKey("default", "run-0"))


@pytest.mark.parametrize(
    ("options", "is_busy", "keeps"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"resumes": True}, True, False),
        ({"attaches": True}, True, True),
        ({"attaches": True}, False, True),
    ],
)
async def test_a_run_keeps_its_agent_unless_nobody_waits_for_it_or_it_is_resumed(
    engine: Engine, table: RunObjectTable, options: Any, *, is_busy: bool, keeps: bool
) -> None:
    other = Agent[Any](name="A", instructions="other")
    table.bring(FIRST, RunObjects(definitions=Registry([other], tell_apart=True)))
    if is_busy:
        table.attend(FIRST)
    with RunHost(A, None, None) as one:
        await one.follow(await handle_of(one), **options)
        assert agent_of(table, FIRST) is (other if keeps else A)
        assert is_awaited(table, FIRST)


@pytest.mark.parametrize("agent", [A, "A"])
async def test_who_attaches_to_a_run_brings_an_agent_to_one_that_lacks_it_and_nothing_else(
    engine: Engine, table: RunObjectTable, agent: Any
) -> None:
    table.bring(FIRST, lacking := RunObjects())
    with RunHost(agent, None, None) as one:
        await one.follow(await handle_of(one), attaches=True)
        assert agent_of(table, FIRST) is (A if agent is A else None)
        assert table.get(FIRST) is lacking
        assert is_awaited(table, FIRST) is (agent is A)


async def test_the_run_that_the_call_is_about_is_followed_also_if_another_has_its_id_now(
    engine: Engine, table: RunObjectTable
) -> None:
    description: Any = await engine.client.get_workflow_handle("support-42").describe()
    engine.client.newest = "run-2"
    engine.client.runs["run-2"] = engine.client.runs["run-1"]
    with RunHost(A, None, None) as one:
        await one.follow(await handle_of(one), description)
        assert agent_of(table, FIRST) is A
        assert table.get(RunKey("default", "run-2")) is None


@pytest.mark.parametrize("is_late", [False, True])
async def test_what_was_sent_while_nobody_carried_a_run_is_taken_in_first(
    engine: Engine, is_late: bool
) -> None:
    engine.client.pending = {"pending_workflow_task"}
    engine.client.refuses_queries = is_late
    with RunHost(A, None, None) as one:
        await one.follow(await handle_of(one))
    assert engine.client.calls[-1] == ("query state", None)


async def test_a_run_that_is_on_the_queue_of_new_ones_is_carried_once(engine: Engine) -> None:
    engine.client.task_queue = OWN
    one = RunHost(A, None, None)
    await one.queue()
    await one.follow(await handle_of(one))
    assert len(engine.calls) == 1


def test_a_program_that_carries_its_runs_has_less_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTLAST_PATIENCE_SECONDS", raising=False)
    client: Any = FakeClient()
    assert RunHost(A, None, None).patience == timedelta(seconds=45)
    assert RunHost(A, None, None, None, timedelta(hours=1)).patience == timedelta(hours=1)
    for elsewhere in (RunHost("A", None, None), RunHost(A, client, None), RunHost(A, None, "q")):
        assert elsewhere.patience == timedelta(minutes=5)
    monkeypatch.setenv("OUTLAST_PATIENCE_SECONDS", "60")
    assert RunHost(A, None, None).patience == timedelta(minutes=1)


async def test_a_run_that_has_ended_needs_nobody(engine: Engine, table: RunObjectTable) -> None:
    engine.client.status = cast("Any", "COMPLETED")
    one = RunHost(A, None, None)
    await one.follow(await handle_of(one))
    assert engine.calls == []
    assert table.is_empty


async def test_a_run_that_there_is_not_is_named(engine: Engine) -> None:
    engine.client = FakeClient()
    one = RunHost(A, None, None)
    with pytest.raises(RunNotFound, match="support-42"):
        await one.follow(await handle_of(one))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MaxTurnsExceeded("Too long."), "let go"),
        (KeyError("what a tool raised"), "let go"),
        (RunAlreadyStarted("It is somebody else's."), "let go"),
        (ServerUnavailable("Nobody answers."), "leave"),
        (asyncio.CancelledError(), "leave"),
    ],
)
async def test_what_became_of_a_run_decides_how_it_is_left(
    engine: Engine, table: RunObjectTable, error: BaseException, expected: str
) -> None:
    one = RunHost(A, None, None)
    await one.queue()
    one.has_begun("default", "run-1")
    one.__exit__(type(error), error, None)
    assert engine.calls[1:] == [(expected, None)]
    assert not is_awaited(table, FIRST)
