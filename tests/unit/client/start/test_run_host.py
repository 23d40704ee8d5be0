"""Who carries a run, and when it is not waited for any more."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from outlast.agents.agent import Agent
from outlast.agents.errors import (
    MaxTurnsExceeded,
    RunAlreadyStarted,
    RunNotFound,
    ServerUnavailable,
)
from outlast.client.handle import RunHandle
from outlast.client.results.local_definitions import LocalDefinitions
from outlast.client.results.run_state import ENGINE
from outlast.client.start import run_host
from outlast.client.start.run_host import RunHost
from outlast.loop.state import LoopState
from tests.unit.client.recorded import FakeClient, Recording

A = Agent[Any](name="A")
OWN = "outlast-local-desk-A"


class Serving:
    """A run in the engine."""

    def __init__(self, calls: list[tuple[Any, ...]], queue: str | None) -> None:
        self.queue = queue or OWN
        self._given = queue
        self._calls = calls

    def leave(self) -> None:
        self._calls.append(("leave", self._given))

    def withdraw(self) -> None:
        self._calls.append(("withdraw", self._given))

    def release(self, *, ended: bool) -> None:
        self._calls.append(("let go", self._given, ended))


class Engine:
    """An engine that notes what it is asked for."""

    def __init__(self) -> None:
        self.client = FakeClient(Recording().events)
        self.calls: list[tuple[Any, ...]] = []

    async def shared(self) -> "Engine":
        return self

    async def serve(self, agent: Any, run_id: str, *, context_type: Any, queue: str | None) -> Any:
        self.calls.append(("serve", agent, run_id, context_type, queue))
        return Serving(self.calls, queue)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    one = Engine()
    monkeypatch.setattr(run_host, "local_engine", lambda: one)
    return one


async def handle_of(one: RunHost) -> RunHandle:
    return await one.handle("support-42", LocalDefinitions())


async def test_an_agent_is_carried_by_the_engine_until_it_is_not_waited_for(
    engine: Engine,
) -> None:
    with RunHost(A, None, None, SimpleNamespace()) as one:
        assert await one.queue("support-42") == OWN
        assert (await handle_of(one)).kept_client == ENGINE
    assert engine.calls == [("serve", A, "support-42", SimpleNamespace, None), ("leave", None)]


@pytest.mark.parametrize("ended", [True, False])
async def test_a_run_that_settled_is_let_go(engine: Engine, *, ended: bool) -> None:
    with RunHost(A, None, None) as one:
        await one.queue("support-42")
        one.release(ended=ended)
    assert engine.calls[1:] == [("let go", None, ended)]


@pytest.mark.parametrize(
    ("state", "call"),
    [
        (LoopState(phase="closed"), ("let go", None, True)),
        (LoopState(), ("let go", None, False)),
        (None, ("leave", None)),
    ],
)
async def test_a_run_that_was_read_along_is_let_go_where_it_settled(
    engine: Engine, state: LoopState | None, call: tuple[Any, ...]
) -> None:
    one = RunHost(A, None, None)
    await one.queue("support-42")
    one.end_reading(state)
    assert engine.calls[1:] == [call]


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
    engine: Engine, agent: Any, client: Any, queue: str | None, used: str
) -> None:
    one = RunHost(agent, client, queue)
    assert await one.queue("support-42") == used
    handle = await handle_of(one)
    assert handle.client is (client or engine.client)
    await one.follow(handle)
    assert engine.calls == []


async def test_a_run_that_was_started_before_is_carried_where_it_is(engine: Engine) -> None:
    engine.client.task_queue = "outlast-local-shop-A"
    with RunHost(A, None, None) as one:
        await one.follow(await handle_of(one))
        await one.follow(await handle_of(one))
    assert engine.calls == [
        ("serve", A, "support-42", None, "outlast-local-shop-A"),
        ("leave", "outlast-local-shop-A"),
    ]


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
    await one.queue("support-42")
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


async def test_a_run_that_has_ended_needs_nobody(engine: Engine) -> None:
    engine.client.status = cast("Any", "COMPLETED")
    one = RunHost(A, None, None)
    await one.follow(await handle_of(one))
    assert engine.calls == []


async def test_a_run_that_there_is_not_is_named(engine: Engine) -> None:
    engine.client = FakeClient()
    one = RunHost(A, None, None)
    with pytest.raises(RunNotFound, match="support-42"):
        await one.follow(await handle_of(one))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MaxTurnsExceeded("Too long."), ("let go", None, True)),
        (KeyError("what a tool raised"), ("let go", None, True)),
        (RunAlreadyStarted("It is somebody else's."), ("withdraw", None)),
        (ServerUnavailable("Nobody answers."), ("leave", None)),
        (asyncio.CancelledError(), ("leave", None)),
    ],
)
async def test_what_became_of_a_run_decides_how_it_is_left(
    engine: Engine, error: BaseException, expected: tuple[Any, ...]
) -> None:
    one = RunHost(A, None, None)
    await one.queue("support-42")
    one.__exit__(type(error), error, None)
    assert engine.calls[1:] == [expected]
