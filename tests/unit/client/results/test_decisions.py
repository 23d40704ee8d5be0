"""What a result's context says and takes of decisions about calls."""

from dataclasses import replace
from typing import Any

import pytest

from outlast.agents.errors import UserError
from outlast.agents.items.run_items import ToolApprovalItem
from outlast.client.results.run_result import RunResult, result_of
from outlast.client.results.run_state import RunState
from outlast.loop.revision import revised
from tests.laws.driver import Play, gated


def waiting() -> tuple[Play, RunResult]:
    play = Play.ready()
    play.replies(gated("refund", "c1"), gated("refund", "c2"), gated("ban", "c3"))
    return play, result_of(play.state)


def staged(state: RunState) -> list[tuple[str, str, str | None]]:
    return [
        (one.decision.request_id, one.decision.type, one.decision.message)
        for one in state.staged_decisions()
    ]


def test_what_is_decided_in_the_context_is_in_the_state() -> None:
    _, result = waiting()
    first, second, third = result.interruptions
    result.context_wrapper.approve_tool(first)
    result.context_wrapper.reject_tool(second, rejection_message="Too much.")
    state = result.to_state()
    assert staged(state) == [("a1", "approve", None), ("a2", "reject", "Too much.")]
    state.approve(third)
    assert len(staged(result.to_state())) == 2


def test_a_context_knows_how_a_call_was_decided() -> None:
    _, result = waiting()
    wrapper = result.context_wrapper
    assert wrapper.is_tool_approved("refund", "c1") is None
    wrapper.approve_tool(result.interruptions[0])
    wrapper.reject_tool(result.interruptions[2], rejection_message="Not today.")
    assert wrapper.get_rejection_message("ban", "c3") == "Not today."
    assert wrapper.get_rejection_message("refund", "c1") is None
    assert wrapper.is_tool_approved("refund", "c1") is True
    assert wrapper.is_tool_approved("refund", "c2") is None
    assert wrapper.is_tool_approved("ban", "c3") is False
    assert wrapper.is_tool_approved("ban", "c1") is None


def test_a_decision_for_all_calls_goes_for_those_to_come() -> None:
    _, result = waiting()
    wrapper = result.context_wrapper
    wrapper.reject_tool(result.interruptions[1])
    wrapper.approve_tool(result.interruptions[0], always_approve=True)
    assert wrapper.is_tool_approved("refund", "c2") is False
    assert wrapper.is_tool_approved("refund", "c99") is True
    assert wrapper.is_tool_approved("ban", "c99") is None


def test_what_people_decided_before_is_known_too() -> None:
    play, _ = waiting()
    play.decided("a1", remember=True)
    play.decided("a3", "reject")
    wrapper = result_of(play.state).context_wrapper
    assert wrapper.is_tool_approved("refund", "c1") is True
    assert wrapper.is_tool_approved("refund", "c99") is True
    assert wrapper.is_tool_approved("ban", "c3") is False
    assert wrapper.get_approval_status("ban", "c3") is False
    assert wrapper.get_rejection_message("ban", "c3") is None


def test_a_call_that_nobody_waits_for_is_refused() -> None:
    _, result = waiting()
    foreign = ToolApprovalItem(
        agent=None, raw_item={"type": "function_call", "name": "delete", "call_id": "c9"}
    )
    with pytest.raises(UserError, match="has no pending request for 'delete'"):
        result.context_wrapper.approve_tool(foreign)


@pytest.mark.parametrize(
    ("status", "known"),
    [
        ("pending", None),
        ("approved", True),
        ("edited", True),
        ("rejected", False),
        ("responded", False),
        ("expired", False),
        ("cancelled", None),
        ("superseded", None),
    ],
)
def test_a_call_is_approved_if_it_ran_however_that_was_decided(
    status: Any, known: bool | None
) -> None:
    play, _ = waiting()
    first, *others = play.state.approvals
    settled = revised(play.state, approvals=(replace(first, status=status), *others))
    assert result_of(settled).context_wrapper.is_tool_approved("refund", "c1") is known


def test_a_decision_counts_for_the_arguments_that_were_seen() -> None:
    _, result = waiting()
    state = result.to_state()
    state.approve(result.interruptions[0])
    (one,) = state.staged_decisions()
    assert one.decision.args_digest == result.interruptions[0].request.args_digest
