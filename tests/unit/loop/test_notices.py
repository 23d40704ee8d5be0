"""Which notices people get of a step of a run."""

from dataclasses import replace
from typing import Any

import pytest

from outlast.loop.approvals import (
    ApprovalRequest,
    ApprovalStatus,
    ApprovalTerms,
    Audience,
    Decision,
    EscalationStep,
    Vote,
)
from outlast.loop.news import notices
from outlast.loop.notices import ALL_EVENTS, Notice, NoticeEvent
from outlast.loop.state import Hold, LoopState

LEADS = EscalationStep(after_ms=50, audience=Audience(groups=("leads",)))
BOARD = EscalationStep(after_ms=90, audience=Audience(groups=("board",)))
A1 = ApprovalRequest(
    id="a1",
    call_id="c1",
    name="refund",
    agent="Billing",
    arguments="{}",
    args_digest="d1",
    terms=ApprovalTerms(escalations=(LEADS, BOARD), remind_every_ms=20),
    requested_at_ms=1_000,
    remind_at_ms=1_020,
    expires_at_ms=2_000,
)
A2 = replace(A1, id="a2", call_id="c2")
NOW = 9_000
APPROVED = Decision(request_id="a1", type="approve", by="ann")


def states(*requests: ApprovalRequest) -> LoopState:
    return LoopState(approvals=requests)


def of_change(before: ApprovalRequest, **changes: Any) -> list[tuple[NoticeEvent, int, int]]:
    after = replace(before, **changes)
    found = notices(states(A2, before), states(A2, after), NOW)
    assert all(one.request == after for one in found)
    return [(one.event, one.number, one.at_ms) for one in found]


def test_a_new_request_is_created() -> None:
    assert notices(states(), states(A1, A2), NOW) == (
        Notice(event="created", request=A1, at_ms=1_000),
        Notice(event="created", request=A2, at_ms=1_000),
    )


def test_a_step_without_a_change_of_requests_has_no_notice() -> None:
    state = states(A1)
    assert notices(state, state, NOW) == ()
    assert notices(states(A1), states(replace(A1)), NOW) == ()


def test_a_request_that_never_waited_has_no_notice() -> None:
    assert notices(states(), states(replace(A1, status="approved", decision=APPROVED)), NOW) == ()


@pytest.mark.parametrize("status", ["approved", "edited", "rejected", "responded"])
def test_a_decision_says_who_and_when(status: ApprovalStatus) -> None:
    after = replace(A1, status=status, decision=APPROVED, decided_at_ms=1_500)
    assert notices(states(A1), states(after), NOW) == (
        Notice(event="decided", request=after, by="ann", at_ms=1_500),
    )


@pytest.mark.parametrize(
    ("status", "event"),
    [("expired", "expired"), ("cancelled", "cancelled"), ("superseded", "cancelled")],
)
def test_a_request_may_end_without_a_person(status: ApprovalStatus, event: NoticeEvent) -> None:
    assert of_change(A1, status=status, decided_at_ms=1_700) == [(event, 1, 1_700)]
    assert of_change(A1, status=status) == [(event, 1, 2_000)]
    assert of_change(replace(A1, expires_at_ms=None), status=status) == [(event, 1, 1_000)]


def test_a_settled_request_has_no_further_notice() -> None:
    settled = replace(A1, status="rejected")
    assert of_change(settled, reminders=3, votes=()) == []


def test_a_reminder_has_its_number_and_the_time_when_it_was_due() -> None:
    assert of_change(A1, reminders=1, remind_at_ms=1_040) == [("reminder", 1, 1_020)]
    assert of_change(replace(A1, remind_at_ms=None), reminders=1) == [("reminder", 1, 1_000)]


def test_an_escalation_has_the_number_of_its_step() -> None:
    assert of_change(A1, escalated=1) == [("escalated", 1, 1_050)]
    assert of_change(A1, escalated=2) == [("escalated", 2, 1_090)]
    assert of_change(replace(A1, expires_at_ms=None), escalated=1) == [("escalated", 1, 1_050)]


def test_an_escalation_by_expiry_has_the_time_of_the_expiry() -> None:
    assert of_change(replace(A1, expires_at_ms=1_030), escalated=1, expires_at_ms=1_060) == [
        ("escalated", 1, 1_030)
    ]


def test_an_edit_that_needs_more_votes_changes_the_request() -> None:
    edit = Decision(request_id="a1", type="edit", by="bob")
    votes = (Vote(decision=APPROVED, at_ms=1_100), Vote(decision=edit, at_ms=1_200))
    after = replace(A1, args_digest="d2", votes=votes)
    assert notices(states(A1), states(after), NOW) == (
        Notice(event="changed", number=2, request=after, by="bob", at_ms=1_200),
    )


def test_a_vote_alone_has_no_notice() -> None:
    assert of_change(A1, votes=(Vote(decision=APPROVED, at_ms=1_100),)) == []


def test_one_step_may_have_several_notices_of_a_request() -> None:
    assert of_change(A1, escalated=1, reminders=1) == [
        ("escalated", 1, 1_050),
        ("reminder", 1, 1_020),
    ]


def test_every_event_has_a_name() -> None:
    assert len(ALL_EVENTS) == 14


def test_a_takeover_and_its_end_are_named_by_their_time() -> None:
    free, held = states(), replace(states(), hold=Hold(by="ann", at_ms=1))
    assert notices(free, held, 1) == (Notice(event="held", number=1, by="ann", at_ms=1),)
    assert notices(held, held, 2) == ()
    assert notices(held, free, 3) == (Notice(event="released", number=3, by="ann", at_ms=3),)
