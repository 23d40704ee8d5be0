"""Each status, vote, deadline and receipt has one wording, which every surface prints."""

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import pytest
from rich.console import Console

from outlast.cli import review
from outlast.client.identity import person
from outlast.client.people.actions import DecisionReceipt
from outlast.client.people.nested_requests import FoundRequest
from outlast.client.timeline import Timeline
from outlast.edges.rendering import shown_time
from outlast.loop.approvals import (
    ApprovalRequest,
    ApprovalStatus,
    ApprovalTerms,
    Audience,
    EscalationStep,
    OnExpiry,
    Person,
    RequestKind,
    VoteType,
)
from outlast.loop.calls import RequiredApproval, ToolResult
from outlast.loop.effects import EffectAnswered, RunTool
from outlast.loop.human_actions import is_queued, row_of
from outlast.loop.machine import advance
from outlast.loop.notices import Notice
from outlast.loop.state import LoopState
from outlast.loop.votes import Sender, person_problem
from outlast.notifications.texts import details, time_text
from outlast.ports.notifier import notification
from outlast.serve.access import Staff
from outlast.serve.pages.conversation_view import conversation
from outlast.serve.pages.decisions import words_of
from outlast.serve.records import request_view
from outlast.views import words
from outlast.views.proofs import NO_PROOFS
from outlast.views.run import snapshot_of
from outlast.views.words import at_desk
from outlast.workflows import presentation
from tests.laws.driver import Play, gated

HOUR_MS = 3_600_000
ANN = Staff(person("ann", groups=["billing"]), frozenset({"viewer", "decider", "operator"}))
REQUEST = ApprovalRequest(
    id="a1",
    call_id="c1",
    name="pay",
    agent="Payer",
    arguments="{}",
    args_digest="d",
    requested_at_ms=1_000,
)
LEADS = EscalationStep(after_ms=HOUR_MS, audience=Audience(groups=("leads",)))


# --- Tables are complete -----------------------------------------------------------------------------


def test_every_status_vote_and_expiry_has_words() -> None:
    assert set(words.STATUS) == set(get_args(ApprovalStatus))
    assert set(words.VOTED) == set(get_args(VoteType))
    assert set(words.ON_EXPIRY) == set(get_args(OnExpiry))


@pytest.mark.parametrize("kind", get_args(RequestKind))
@pytest.mark.parametrize("status", ["approved", "edited", "rejected", "responded"])
def test_every_decision_says_what_happens_then(kind: Any, status: Any) -> None:
    said = words.then(replace(REQUEST, kind=kind), status)
    assert said.endswith(".")
    assert ("runs" in said) == (
        kind == "tool" and status in {"approved", "edited"}
    ) or "not" in said


@pytest.mark.parametrize("status", ["pending", "expired", "cancelled", "superseded"])
def test_what_nobody_decided_says_nothing_of_calls(status: Any) -> None:
    assert words.then(REQUEST, status) == ""


# --- Receipts ----------------------------------------------------------------------------------------


def receipt(**fields: Any) -> DecisionReceipt:
    given: dict[str, Any] = {"status": "approved", "votes": 1, "votes_needed": 1, "by": "ann"}
    return DecisionReceipt(run_id="r", request_id="a1", **{**given, **fields})


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "Approved by ann. The call runs."),
        (
            {"status": "edited"},
            "Approved with changes by ann. The call runs with the changed arguments.",
        ),
        ({"status": "rejected"}, "Rejected by ann. The call does not run; the model reads why."),
        (
            {"status": "responded"},
            "Answered by ann. The call does not run; the model reads the answer as its output.",
        ),
        ({"by": None}, "Approved by somebody. The call runs."),
        ({"is_queued": True}, f"Approved by ann. {words.QUEUED}"),
        ({"is_kept": True, "status": "pending"}, words.KEPT),
        (
            {"status": "pending", "votes_needed": 2, "by": None},
            "1 of 2 votes; waits for another person.",
        ),
        ({"by": "\u0430nn"}, r"Approved by \u0430nn. The call runs."),
    ],
)
def test_a_receipt_says_what_is_so(fields: dict[str, Any], said: str) -> None:
    assert receipt(**fields).words(REQUEST) == said


def test_an_approved_call_that_others_go_before_is_not_said_to_run() -> None:
    play = Play.ready()
    play.replies(gated("pay", "c1"), gated("pay", "c2"), parallel=1)
    first, second = (one.id for one in play.state.pending_approvals)
    for one, queued in ((first, False), (second, True)):
        play.decided(one, by="ann")
        assert is_queued(play.state, one) == queued
        made = next(r.votes[-1].decision for r in play.state.approvals if r.id == one)
        assert row_of(made).receipt(play.state, made).get("is_queued", False) == queued
    play.returns("c1")
    assert not is_queued(play.state, second)


# --- A decision that does not count any more ---------------------------------------------------------


def redeployed() -> Play:
    """Ann approved a call; the worker that would run it has another policy since."""
    play = Play.ready(keep_open=True)
    play.replies(gated("pay", "c1", '{"n": 1}', terms=ApprovalTerms(redact=("iban",))))
    play.decided("a1", by="ann")
    required = RequiredApproval(
        reason="The policy has changed.", terms=ApprovalTerms(quorum=2), arguments='{"n": 1}'
    )
    effect = play.only(RunTool).effect
    result = ToolResult(output=None, required=required)
    play.take(EffectAnswered(at_ms=play.now_ms, effect=effect, result=result))
    return play


VOID = (
    "The decision does not count any more, and the call has not run. The policy has changed. It is "
    "asked again as a2."
)


def of_api(play: Play) -> str:
    view = request_view(FoundRequest(play.state.approvals[0], snapshot_of(play.state)), ANN)
    return view.void or ""


def of_conversation(play: Play) -> str:
    timeline, state = Timeline(), LoopState()
    for event in play.events:
        state, _ = advance(state, event)
        timeline.take(event, state)
    view = conversation(
        snapshot_of(state), timeline.steps, ANN, proofs=NO_PROOFS, at_ms=state.at_ms
    )
    row = next(view.row(one.number) for one in timeline.steps if one.request is not None)
    assert row.badge is not None
    assert row.badge.word == "void: asked again"
    return row.words


@pytest.mark.parametrize("surface", [of_api, of_conversation])
def test_a_decision_that_a_redeploy_made_void_says_so(surface: Callable[[Play], str]) -> None:
    assert surface(redeployed()) == VOID


def test_people_at_a_desk_read_no_ids_and_no_commands() -> None:
    play = redeployed()
    found = FoundRequest(play.state.approvals[0], snapshot_of(play.state))
    assert words_of("decided", found, ANN) == VOID.replace(
        "It is asked again as a2", "People are asked again"
    )
    for sentence, shown in (
        (
            "Approval a1: ann is working on it. Claim it with force to take it over.",
            "ann is working on it. Take it from them, or wait.",
        ),
        ("Approval a1 is already approved by bob.", "This request is already approved by bob."),
        (
            "Approval a1: ann b may not do this. It is for the group leads.",
            "It is for the group leads.",
        ),
        (
            "Approval n1.a2 cannot be decided with 'edit', only with approve, reject.",
            "This request cannot be decided so (edit).",
        ),
        ("Something else about Approval a1.", "Something else about Approval a1."),
    ):
        assert at_desk(sentence) == shown
    problem = person_problem(
        ApprovalTerms(unverified=False), (), Person(subject="ann"), Sender(at_ms=0)
    )
    assert at_desk(f"Approval a1{problem}") == (
        "This request needs proof of who decides. Ask whoever runs this desk for a key."
    )


def test_a_decision_that_counts_is_not_void() -> None:
    play = Play.ready(keep_open=True)
    play.replies(gated("pay", "c1"), gated("pay", "c2"))
    play.decided("a1", by="ann")
    approvals = play.state.approvals
    assert [words.asked_again(one, approvals) for one in approvals] == [None, None]
    play.returns("c1")
    assert words.asked_again(play.state.approvals[0], play.state.approvals) is None


def test_what_a_tool_asks_for_while_it_waits_makes_no_approval_void() -> None:
    approved = replace(REQUEST, status="approved", decided_at_ms=2_000)
    value = replace(REQUEST, id="a2", wait="parcel", requested_at_ms=3_000)
    assert words.asked_again(approved, (approved, value)) is None
    assert words.asked_again(approved, (approved, replace(value, wait=""))) is not None


# --- Deadlines ---------------------------------------------------------------------------------------

TERMS: dict[str, dict[str, Any]] = {
    "none": {},
    "expiry": {"terms": ApprovalTerms(on_expiry="fail"), "expires_at_ms": 2 * HOUR_MS},
    "escalation": {"terms": ApprovalTerms(escalations=(LEADS,))},
    "both": {"terms": ApprovalTerms(escalations=(LEADS,)), "expires_at_ms": 2 * HOUR_MS},
    "expiry first": {"terms": ApprovalTerms(escalations=(LEADS,)), "expires_at_ms": 60_000},
    "escalated": {
        "terms": ApprovalTerms(escalations=(LEADS,)),
        "escalated": 1,
        "expires_at_ms": 2 * HOUR_MS,
    },
    "paused": {"expires_at_ms": 2 * HOUR_MS, "paused_at_ms": 5_000},
    "settled": {"expires_at_ms": 2 * HOUR_MS, "status": "approved"},
}
THEN = {
    "none": [],
    "expiry": [(2 * HOUR_MS, "then the question fails")],
    "escalation": [(HOUR_MS + 1_000, "then the group leads may decide, too")],
    "both": [
        (HOUR_MS + 1_000, "then the group leads may decide, too"),
        (2 * HOUR_MS, "then it is rejected"),
    ],
    "expiry first": [
        (60_000, "then it is rejected"),
        (HOUR_MS + 1_000, "then the group leads may decide, too"),
    ],
    "escalated": [(2 * HOUR_MS, "then it is rejected")],
    "paused": [],
    "settled": [],
}


@pytest.mark.parametrize("case", TERMS)
def test_a_deadline_is_a_time_and_what_happens_then(case: str) -> None:
    found = words.deadlines(replace(REQUEST, **TERMS[case]))
    assert [(one.at_ms, one.then) for one in found] == THEN[case]


def of_command_line(request: ApprovalRequest) -> list[str]:
    console = Console(file=io.StringIO(), width=200)
    review.show_approval(console, request, "r")
    assert isinstance(console.file, io.StringIO)
    return [one for one in console.file.getvalue().splitlines() if one.strip().startswith("due ")]


def of_details(request: ApprovalRequest) -> list[str]:
    state = replace(Play.ready().state, approvals=(request,))
    return [one for one in presentation.details(state).split(" · ") if one.startswith("due ")]


def of_notice(request: ApprovalRequest) -> list[str]:
    sent = notification(Notice(event="created", request=request, at_ms=1), "r")
    return [one.text for one in details(sent) if one.label == "Until"]


def of_the_api(request: ApprovalRequest) -> list[str]:
    view = request_view(FoundRequest(request, snapshot_of(Play.ready().state)), ANN, at_ms=1_000)
    assert [one.at for one in view.deadlines][:1] == ([] if view.due_at is None else [view.due_at])
    return [f"{one.at.isoformat()} {one.then}" for one in view.deadlines]


SURFACES: dict[str, Callable[[ApprovalRequest], list[str]]] = {
    "the command line": of_command_line,
    "details": of_details,
    "notices": of_notice,
    "the API": of_the_api,
}


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("case", TERMS)
def test_every_surface_names_the_same_deadline_first(surface: str, case: str) -> None:
    shown = SURFACES[surface](replace(REQUEST, **TERMS[case]))
    assert len(shown) == (min(1, len(THEN[case])) if surface == "notices" else len(THEN[case]))
    for line, (at_ms, then) in zip(shown, THEN[case], strict=False):
        assert then in line
        times = {shown_time(at_ms), time_text(at_ms), shown_time(at_ms).replace(".000", "")}
        assert any(one[:16].replace("T", " ") in line.replace("T", " ") for one in times), line
