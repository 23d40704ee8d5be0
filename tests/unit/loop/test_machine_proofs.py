"""Signed actions of people, and calls for which a worker finds that approval is missing."""

from dataclasses import replace
from typing import Any

import pytest

from outlast.loop.actions import HoldAction, ReleaseAction
from outlast.loop.approvals import ApprovalTerms, Audience, Decision, Evidence, Seen
from outlast.loop.calls import HandoffResult, RequiredApproval, ToolResult
from outlast.loop.effects import EffectAnswered, RunAgent, RunHandoff, RunTool
from outlast.loop.events import (
    LineReplied,
    NestedReported,
    PersonActed,
    TimePassed,
)
from outlast.loop.lines import tokens
from outlast.loop.machine import NONCES_KEPT_MS, advance
from outlast.loop.revision import revised
from outlast.loop.start import Parent
from outlast.loop.state import LoopState
from outlast.loop.values import Failure
from tests.laws.driver import Play, gated, nested, reply_of, said, tool, transfer
from tests.unit.loop.test_acting import asked

TWO = ApprovalTerms(audience=Audience(groups=("billing",)), quorum=2, unverified=False)
HOUR_MS = 3_600_000


def vote(play: Play, by: str, nonce: str, **fields: Any) -> PersonActed[Decision]:
    request = play.state.approvals[-1]
    decision = Decision(
        request_id=request.id,
        type=fields.pop("type", "approve"),
        by=by,
        groups=("billing",),
        seen=fields.pop("seen", request.seen),
    )
    made: dict[str, Any] = {"verified": True, "at_ms": play.now_ms, "made_at_ms": play.now_ms}
    return PersonActed(action=decision, nonce=nonce, **{**made, **fields})


def required(**fields: Any) -> RequiredApproval:
    given: dict[str, Any] = {"reason": "Money leaves.", "terms": TWO, "arguments": '{"n": 5}'}
    return RequiredApproval(**{**given, **fields})


# --- The worker's word ---------------------------------------------------------------------------


def test_a_call_that_a_worker_does_not_run_asks_people() -> None:
    play = Play.ready()
    play.replies(tool("pay", "c1", '{"n": 5}'), tool("look", "c2"))
    effect = next(one for one in play.state.pending if isinstance(one, RunTool))
    filled = '{"n": 5, "currency": "EUR"}'  # with the tool's default: what the worker would run
    asked_by = required(tool_digest="t1", source="bank", arguments=filled)
    result = ToolResult(output=None, required=asked_by)
    play.take(EffectAnswered(at_ms=play.now_ms, effect=effect.effect, result=result))
    (request,) = play.state.pending_approvals
    assert (request.name, request.arguments, request.terms) == ("pay", filled, TWO)
    assert (request.source, request.tool_digest, request.reason) == ("bank", "t1", "Money leaves.")
    play.take(vote(play, "ann", "n1"))
    play.take(vote(play, "bob", "n2"))
    again = [one for one in play.state.pending if isinstance(one, RunTool) and one.name == "pay"]
    assert [(one.call_id, one.arguments) for one in again] == [("c1", filled)]
    evidence = again[0].evidence
    assert evidence is not None
    assert [one.by for one in evidence.decisions] == ["ann", "bob"]


def test_an_approved_call_may_ask_again_and_forgets_its_evidence() -> None:
    play = Play.ready()
    play.replies(gated("pay", "c1", '{"n": 1}'))
    play.decided("a1", by="ann")
    effect = play.only(RunTool)
    assert effect.evidence is not None
    result = ToolResult(output=None, required=required(reason="The tool has changed."))
    play.take(EffectAnswered(at_ms=play.now_ms, effect=effect.effect, result=result))
    assert [one.status for one in play.state.approvals] == ["approved", "pending"]
    assert play.state.calls[0].evidence is None
    assert play.state.status == "waiting"


def test_a_handoff_that_a_worker_does_not_let_happen_asks_people() -> None:
    play = Play.ready()
    play.replies(transfer("Billing", "c1", callback=True))
    effect = play.only(RunHandoff)
    result = HandoffResult(required=required(arguments="{}"))
    play.take(EffectAnswered(at_ms=play.now_ms, effect=effect.effect, result=result))
    assert (play.state.phase, play.state.agent) == ("acting", "Triage")
    (request,) = play.state.pending_approvals
    assert request.kind == "handoff"
    play.take(vote(play, "ann", "n1"))
    play.take(vote(play, "bob", "n2"))
    second = play.only(RunHandoff)
    assert second.evidence is not None
    play.take(EffectAnswered(at_ms=play.now_ms, effect=second.effect, result=HandoffResult()))
    assert play.state.agent == "Billing"


def test_evidence_has_the_arguments_before_each_edit() -> None:
    play = Play.ready()
    terms = ApprovalTerms(quorum=2)
    play.replies(gated("pay", "c1", '{"n": 1}', terms=terms))
    play.decided("a1", "edit", edited_arguments={"n": 2}, by="ann")
    play.decided("a1", "edit", edited_arguments={"n": 3}, by="bob")
    play.decided("a1", by="cid")
    evidence = play.only(RunTool).evidence
    assert evidence is not None
    assert evidence.edited == ('{"n": 1}', '{"n": 2}')
    assert [one.by for one in evidence.decisions] == ["bob", "cid"]


def test_an_approval_by_time_is_evidence_of_no_person() -> None:
    play = Play.ready()
    terms = ApprovalTerms(expires_in_ms=HOUR_MS, on_expiry="approve")
    play.replies(gated("pay", "c1", terms=terms))
    play.take(TimePassed(at_ms=play.now_ms + 2 * HOUR_MS))
    evidence = play.only(RunTool).evidence
    assert evidence is not None
    assert (evidence.expired, evidence.decisions) == (True, ())


def test_a_remembered_decision_is_the_evidence_of_further_calls() -> None:
    play = Play.ready()
    play.replies(gated("pay", "c1", tool_digest="t1"))
    request = play.state.approvals[0]
    play.decided("a1", remember=True, by="ann", seen=request.seen)
    play.returns("c1")
    play.replies(gated("pay", "c2", tool_digest="t1"))
    evidence = play.only(RunTool).evidence
    assert evidence is not None
    assert [one.request_id for one in evidence.decisions] == ["a1"]
    play.returns("c2")
    play.replies(gated("pay", "c3", tool_digest="t2"))
    assert play.state.status == "waiting", "the tool has changed"


def test_a_call_says_which_question_it_is_made_for_whatever_the_state_remembers() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("Hello."))
    play.hears("m2")
    play.replies(gated("pay", "c1"))
    seen = play.state.approvals[0].seen
    assert seen.question == 1
    play.decided("a1", remember=True, remember_until="run", seen=seen)
    assert play.only(RunTool).evidence == replace(
        play.state.calls[0].evidence or Evidence(), question=1
    )
    play.returns("c1")
    play.replies(said("Done."))
    (kept,) = play.state.remembered
    play.state = revised(play.state, remembered=(replace(kept, question=None),))  # it is forged
    play.hears("m3")
    play.replies(gated("pay", "c2"))
    evidence = play.only(RunTool).evidence
    assert evidence is not None
    assert (evidence.question, evidence.decisions[0].seen) == (2, seen)


def test_a_nested_run_works_on_the_question_of_its_root() -> None:
    play = Play.ready(parent=Parent(run_id="root", prefix="e3.", question=4))
    play.replies(nested("Billing", "c1"), gated("pay", "c2"))
    assert play.only(RunAgent).root_question == 4
    (request,) = play.state.approvals
    assert request.seen.question == 4
    play.decided(request.id, remember=True, remember_until="run")
    assert [one.question for one in play.state.remembered] == [4]


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ("call_id", "another call"),
        ("arguments", "other arguments"),
        ("shown", "other arguments"),
        ("tool", "a tool that has changed or moved"),
        ("policy", "a policy that has changed"),
        ("question", "another question of the conversation"),
    ],
)
def test_a_vote_is_for_what_was_seen(part: str, why: str) -> None:
    play = Play.ready()
    play.replies(gated("pay", "c1", '{"iban": "BOB"}', terms=TWO, tool_digest="t1"))
    changes: dict[str, Any] = {part: "other"}
    seen = replace(play.state.approvals[0].seen, **changes)
    play.take(vote(play, "ann", "n1", seen=seen))
    assert play.state.approvals[0].votes == ()
    assert why in play.state.ignored[-1].why


def test_an_answer_of_a_person_is_one_vote_where_several_are_needed() -> None:
    play = Play.ready()
    play.replies(said("Yes."), answer_terms=ApprovalTerms(quorum=2))
    play.decided("a1", "respond", response="No.", by="ann")
    assert play.state.status == "waiting"
    play.decided("a1", "respond", response="No.", by="ann")
    assert play.state.status == "waiting"
    play.decided("a1", "approve", by="bob")
    assert play.state.final_output == "No."


def test_names_that_look_the_same_are_one_vote() -> None:
    play = Play.ready()
    play.replies(gated("pay", "c1", terms=TWO))
    for nonce, by in enumerate(("ann", "Ann ", "a\u200dnn")):
        play.take(vote(play, by, f"n{nonce}"))
    assert (len(play.state.approvals[0].votes), play.state.status) == (1, "waiting")
    play.take(vote(play, "x" * 300, "n9"))
    assert "at most 256 characters" in play.state.ignored[-1].why


# --- Each signed action once ---------------------------------------------------------------------


def test_a_copy_of_a_signed_action_does_nothing() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("Hello."))
    hold = PersonActed(
        at_ms=play.now_ms,
        action=HoldAction(by="ann"),
        verified=True,
        nonce="n1",
    )
    play.take(hold)
    play.take(
        PersonActed(
            at_ms=play.now_ms,
            action=ReleaseAction(by="ann"),
            verified=True,
            nonce="n2",
        )
    )
    assert play.state.hold is None
    before = play.state
    play.take(replace(hold, at_ms=play.now_ms))
    play.take(replace(hold, at_ms=play.now_ms, verified=False))  # as a signal
    assert play.state == before


def test_a_signal_cannot_use_up_the_nonce_of_an_action() -> None:
    play = Play.ready()
    play.replies(gated("pay", "c1", terms=TWO))
    play.take(vote(play, "ann", "n1", verified=False))
    assert play.state.nonces == ()
    play.take(vote(play, "ann", "n1"))
    assert len(play.state.approvals[0].votes) == 1


def test_nonces_are_forgotten_when_their_signatures_are_too_old() -> None:
    play = Play.ready()
    play.replies(gated("pay", "c1", terms=replace(TWO, quorum=3)))
    play.take(vote(play, "ann", "n1"))
    play.passed_ms = NONCES_KEPT_MS
    play.take(vote(play, "bob", "n2"))
    assert [nonce for _, nonce in play.state.nonces] == ["n2"]


# --- What arrived first counts -------------------------------------------------------------------


def late(play: Play, **fields: Any) -> PersonActed[Decision]:
    """A decision that a worker takes after the expiry."""
    return vote(play, "ann", "n1", at_ms=play.now_ms + 2 * HOUR_MS, **fields)


@pytest.mark.parametrize(
    ("kind", "verified", "made_after_ms", "status"),
    [
        ("reject", False, None, "rejected"),
        ("approve", False, None, "expired"),
        ("approve", True, HOUR_MS // 2, "approved"),
        ("reject", True, HOUR_MS // 2, "rejected"),
        ("approve", True, 3 * HOUR_MS // 2, "expired"),
        ("reject", True, 3 * HOUR_MS // 2, "expired"),
        ("approve", True, -HOUR_MS, "approved"),
    ],
)
def test_a_decision_counts_when_it_was_made(
    kind: Any, verified: bool, made_after_ms: int | None, status: str
) -> None:
    """Where no worker ran meanwhile: what stops a call counts also without a time."""
    play = Play.ready()
    play.replies(gated("pay", "c1", terms=ApprovalTerms(expires_in_ms=HOUR_MS)))
    made = None if made_after_ms is None else play.now_ms + made_after_ms
    play.take(late(play, type=kind, verified=verified, made_at_ms=made))
    assert play.state.approvals[0].status == status


def test_a_rejection_before_an_approval_by_time_stops_the_call() -> None:
    play = Play.ready()
    terms = ApprovalTerms(expires_in_ms=HOUR_MS, on_expiry="approve")
    play.replies(gated("pay", "c1", terms=terms))
    play.take(late(play, type="reject", verified=False, made_at_ms=None))
    assert play.state.approvals[0].status == "rejected"
    assert not any(isinstance(one, RunTool) for one in play.state.pending)


# --- Nested runs and lines -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "forged",
    [
        asked("e3.a1", run_id="another-run"),
        asked("a1", run_id="support-42/ask_billing-3"),
        asked("e3.a1", run_id="support-42/ask_billing-33"),
    ],
)
def test_a_report_with_a_request_of_another_run_is_ignored(forged: Any) -> None:
    play = Play.ready()
    play.replies(nested("Billing", "c1"))
    nested_id = "support-42/ask_billing-3"
    report = NestedReported(at_ms=play.now_ms, nested_id=nested_id, requests=(forged,))
    play.take(report)
    assert play.state.nested == ()
    assert play.state.ignored[-1].why == "It has requests of another run."


def test_only_the_owner_of_a_line_replies_on_it() -> None:
    owner, first, second, *_ = tokens("secret")
    play = Play(silent=True, keep_open=True)
    play.prepared()
    play.attached(owner=owner)
    for forged in ("", "forged", owner):
        after = _spoken(play, forged)
        assert after.ignored[-1].why == "It does not come from the line's owner."
        assert after.items == ()
    play.speaks(said("Hi."), token=first)
    assert play.state.final_output == "Hi."
    assert _spoken(play, first).final_output == "Hi.", "a token counts once"
    play.speaks(said("Bye."), token=second)
    assert play.state.final_output == "Bye."


def _spoken(play: Play, token: str) -> LoopState:
    """The state after a reply that somebody else sends."""
    reply = reply_of(said("Forged."), response_id=f"forged-{token}")
    event = LineReplied(at_ms=play.now_ms, line="l1", reply=reply, token=token)
    return advance(play.state, event)[0]


def test_a_request_says_what_is_seen_of_it() -> None:
    request = asked(run_id="x")
    assert request.seen == Seen(
        call_id="c1",
        arguments="d",
        shown=request.seen.shown,
        tool="",
        policy=request.seen.policy,
        question=0,
    )
    assert Evidence().decisions == ()


def test_a_decision_about_nothing_that_waits_names_what_does() -> None:
    play = Play.ready()
    play.replies(nested("Billing", "c1"), gated("pay", "c2"))
    play.reported(asked("e3.a1"))
    play.decided("e3.a9")
    assert play.state.ignored[-1].why == (
        "The run has no approval 'e3.a9'. Pending: a1, e3.a1 in 'support-42/ask_billing-3'."
    )


def test_an_answer_in_the_models_place_is_weighed_where_content_is_stored() -> None:
    play = Play()
    play.prepared(stores=True)
    play.replies(said("Yes."), answer_terms=ApprovalTerms(), stores=True)
    light = play.state.storage.inline
    play.decided("a1", "respond", response="No. " * 1_000, by="ann")
    assert play.state.storage.inline > light


def test_an_agent_whose_call_lacks_approval_asks_people_and_runs_anew() -> None:
    play = Play.ready()
    play.replies(nested("Research", "c1"))
    before = play.only(RunAgent)
    failure = Failure(code="user_error", message="People have to approve this call.")
    play.worked(status="failed", failure=failure, required=required(arguments="forged"))
    (request,) = play.state.pending_approvals
    assert request.arguments == before.arguments
    assert play.state.nested == ()
    play.take(vote(play, "ann", "n1"))
    play.take(vote(play, "bob", "n2"))
    again = play.only(RunAgent)
    assert again.nested_id != before.nested_id
    assert again.arguments == before.arguments
    play.worked(final_output="Found.")
    assert play.kinds[-1] == "tool_output"
