"""The laws that are checked after each test on a server find a fault of each kind, in open and closed runs."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.workflow import NondeterminismError

from outlast.agents.agent import Agent
from outlast.client.handle import RunHandle
from outlast.loop.effects import Effect
from outlast.loop.events import Event
from outlast.loop.state import LoopState
from outlast.testing import ScriptedModel
from outlast.workflows import agent_run
from outlast.workflows.agent_run import AgentRun
from tests.workflow.desk import Desk
from tests.workflow.laws import check_runs, terminate_if_open

HELPER = Agent[Any](name="Helper")
EACH = pytest.mark.parametrize("keep_open", [False, True], ids=["closed", "open"])


@pytest.fixture
async def desk(client: Client) -> AsyncIterator[Desk]:
    """A desk whose runs are not checked after the test, since they have faults."""
    desk = Desk(client, cached=True)
    await desk.open(HELPER, model=ScriptedModel(always="Hello."))
    yield desk
    for run_id in desk.ids:
        await terminate_if_open(client, run_id)
    await desk.close_all()


async def answered(desk: Desk, *, keep_open: bool) -> RunHandle:
    handle = await desk.start(HELPER, keep_open=keep_open)
    await desk.until(handle, lambda state: len(state.answers) == 1)
    if not keep_open:
        await desk.result(handle)
    return handle


@EACH
async def test_runs_without_a_fault_pass(desk: Desk, *, keep_open: bool) -> None:
    for _ in range(2):
        await answered(desk, keep_open=keep_open)
    await check_runs(desk.client, desk.ids)


@EACH
async def test_a_workflow_whose_state_is_not_what_its_history_folds_to_is_found(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, *, keep_open: bool
) -> None:
    loop = agent_run.advance

    def changes_more(state: LoopState, event: Event) -> Any:
        after, commands = loop(state, event)
        return replace(after, model="another"), commands

    await answered(desk, keep_open=keep_open)
    monkeypatch.setattr(agent_run, "advance", changes_more)
    handle = await answered(desk, keep_open=keep_open)
    with pytest.raises(AssertionError, match="'model'"):
        await check_runs(desk.client, [handle.id])


@EACH
async def test_a_workflow_that_does_something_else_when_it_is_replayed_is_found(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, *, keep_open: bool
) -> None:
    handle = await answered(desk, keep_open=keep_open)
    await answered(desk, keep_open=keep_open)
    type_of = agent_run.activity_type

    def another_type(effect: Effect) -> str:
        return f"another {type_of(effect)}"

    monkeypatch.setattr(agent_run, "activity_type", another_type)
    with pytest.raises(NondeterminismError):
        await check_runs(desk.client, [handle.id])


@EACH
async def test_a_workflow_task_that_failed_is_found(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, *, keep_open: bool
) -> None:
    waits, failures = AgentRun._until_there_is_news, ["the first"]

    async def fails_once(self: AgentRun) -> None:
        if failures:
            raise OSError(failures.pop())
        await waits(self)

    monkeypatch.setattr(AgentRun, "_until_there_is_news", fails_once)
    handle = await answered(desk, keep_open=keep_open)
    with pytest.raises(AssertionError, match="the first"):
        await check_runs(desk.client, [handle.id])
