"""Runs that go on in a new history wherever they may lose nothing that the loop has commanded."""

from collections.abc import Awaitable, Callable
from typing import Any, get_args

import pytest

from outlast.contract import policies
from outlast.loop.effects import (
    CancelEffect,
    Command,
    Effect,
    Finish,
    LendBudget,
    NotifyAfterEnd,
    NotifyParent,
    ReportToTeam,
    RunAgent,
)
from outlast.loop.events import Event
from outlast.loop.machine import advance
from outlast.loop.state import LoopState, Step
from outlast.workflows import agent_run
from tests.workflow import test_budgets_of_nested_runs as budgets
from tests.workflow import test_cancel as cancel
from tests.workflow import test_case as cases
from tests.workflow import test_forks as forks
from tests.workflow import test_nested_approvals as nested
from tests.workflow import test_notifications as notifications
from tests.workflow import test_team as teams
from tests.workflow.desk import Desk
from tests.workflow.teams import busy, config, team
from tests.workflow.test_resets import reset, task_ends

Scenario = Callable[[Desk], Awaitable[None]]


async def reset_while_a_nested_run_asks(desk: Desk) -> None:
    agent, model = team("Helper"), busy(4)
    await desk.open(agent, model=model)
    handle = await desk.start(agent, run_config=config(model_calls=3))
    await budgets.request_of(desk, handle)
    execution, points = await task_ends(desk, handle)
    await reset(desk, handle, execution, points[0])
    await budgets.request_of(desk, handle)
    await handle.edit("a1", {"extend_by": 1_000}, by="ann")
    assert (await desk.result(handle)).final_output == "Done."


SCENARIOS: dict[str, tuple[Scenario, type[Any]]] = {
    "a nested run asks for more, and gets it": (
        budgets.test_nested_turns_ask_at_the_call_that_goes_beyond_the_budget,
        LendBudget,
    ),
    "a nested run waits for a person, two levels down": (
        nested.test_requests_two_levels_down_have_one_address_at_the_root,
        NotifyParent,
    ),
    "a sync tool is cancelled": (
        cancel.test_a_sync_tool_cannot_be_stopped_and_its_result_counts_no_more,
        CancelEffect,
    ),
    "a conversation is assigned to a team": (
        cases.test_colleagues_share_a_conversation_and_a_word_of_the_customer_reopens_it,
        ReportToTeam,
    ),
    "a conversation comes back to its team, and is cancelled": (
        teams.test_conversations_go_round_and_back_to_the_team_when_their_people_have_answered,
        ReportToTeam,
    ),
    "people hear of the end": (
        notifications.test_people_hear_that_the_end_of_a_run_cancels_their_request,
        NotifyAfterEnd,
    ),
    "a fork": (forks.test_an_allowed_tool_runs_with_other_arguments, Finish),
    "a reset while a nested run asks for more": (reset_while_a_nested_run_asks, RunAgent),
}
"""What happens in a run, and a command of it."""


@pytest.fixture
def commanded(monkeypatch: pytest.MonkeyPatch) -> list[Command]:
    """Let runs go on in a new history at every step, and return what the loop commands."""
    found: list[Command] = []

    def noting(state: LoopState, event: Event) -> Step:
        after, commands = advance(state, event)
        found.extend(commands)
        return after, commands

    def rolls_over(_state: LoopState, *, events: int, size_bytes: int) -> bool:
        del size_bytes
        return events > 4  # otherwise it would do nothing else

    monkeypatch.setattr(agent_run, "advance", noting)
    monkeypatch.setattr(policies, "rolls_over", rolls_over)
    return found


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_command_is_carried_out_although_a_new_history_begins(
    name: str, commanded: list[Command], desk: Desk
):
    scenario, kind = SCENARIOS[name]
    await scenario(desk)
    assert any(isinstance(one, kind) for one in commanded)


def test_every_command_that_is_no_effect_has_a_scenario():
    others = set(get_args(Command)) - set(get_args(Effect))
    assert others == {kind for _, kind in SCENARIOS.values()} - {RunAgent}
