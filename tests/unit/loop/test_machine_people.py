"""People's decisions in the loop: edits, responses, quorum, claims, expiry, answers."""

import json
from dataclasses import replace
from typing import Any

import pytest

from outlast.contract import records
from outlast.contract.records import RunInput
from outlast.loop import phrases
from outlast.loop.approvals import (
    ApprovalTerms,
    Audience,
    DecisionType,
    EscalationStep,
    OnExpiry,
)
from outlast.loop.effects import (
    CallModel,
    FinalizeAnswer,
    NotifyParent,
    RunAgent,
    RunHandoff,
)
from outlast.loop.items import message_of_person
from outlast.loop.start import Customer, Parent
from outlast.loop.state import items_of, visible_item_count
from outlast.loop.transcript import record_prepared_input
from outlast.loop.values import Json, JsonObject
from tests.laws.driver import (
    Part,
    Play,
    gated,
    hosted,
    nested,
    reply_of,
    said,
    thought,
    tool,
    transfer,
)

ANY_OBJECT: JsonObject = {"type": "object"}
TWO = ApprovalTerms(quorum=2)
MINUTE = 60_000
HOUR = ApprovalTerms(expires_in_ms=60 * MINUTE)


def waiting(*parts: Part, terms: ApprovalTerms = HOUR, **start: Any) -> Play:
    """A run that waits for the approval a1 of a refund, and for what else its reply has."""
    play = Play.ready(**start)
    refund = gated("refund", "c1", '{"cents": 500}', terms=terms, schema=ANY_OBJECT)
    play.replies(refund, *parts)
    return play


def ignored(play: Play) -> list[str]:
    """What had no effect."""
    return [note.what for note in play.state.ignored]


# --- Edits and answers ---------------------------------------------------------------------------


def test_an_edited_call_runs_with_the_persons_arguments_and_the_model_reads_that() -> None:
    play = waiting()
    play.decided("a1", "edit", by="ann", edited_arguments={"cents": 400})
    assert json.loads(play.running("c1").arguments) == {"cents": 400}
    assert play.running("c1").approved
    play.returns("c1", "refunded")
    text = play.outputs["c1"]
    assert isinstance(text, str)
    assert text.startswith('A person changed the arguments of this call to {"cents": 400}')
    assert text.endswith("\nrefunded")
    (call,) = [item.raw for item in play.state.items if item.kind == "tool_call"]
    assert call["arguments"] == '{"cents": 500}', "what the model wrote stays"


def test_the_model_reads_why_a_person_changed_its_call() -> None:
    play = waiting()
    play.decided("a1", "edit", edited_arguments={"cents": 400}, message="One is not ours.")
    play.returns("c1", "refunded")
    text = str(play.outputs["c1"])
    assert text.endswith(" before it ran. The reason: One is not ours.\nIts output:\nrefunded")


@pytest.mark.parametrize(
    ("output", "rest"),
    [
        ([{"type": "input_text", "text": "a"}], [{"type": "input_text", "text": "a"}]),
        ({"n": 1}, [{"type": "input_text", "text": {"n": 1}}]),
    ],
)
def test_outputs_of_other_forms_follow_the_note(output: Json, rest: Json) -> None:
    note, *others = list(phrases.edited(output, "{}"))
    assert note["type"] == "input_text"
    assert others == rest


def test_a_persons_response_is_the_output_of_the_call_that_does_not_run() -> None:
    play = waiting()
    play.decided("a1", "respond", response="I refunded it by hand.")
    assert play.outputs == {"c1": "I refunded it by hand."}
    assert play.state.approvals[0].status == "responded"
    assert not [one for one in play.issued if one.kind == "run_tool"]


def test_a_structured_response_is_read_as_json() -> None:
    play = waiting(terms=ApprovalTerms(response_schema={"type": "object"}))
    play.decided("a1", "respond", response={"done": True})
    assert play.outputs == {"c1": '{"done": true}'}


def test_a_provider_does_not_run_a_call_that_a_person_edited() -> None:
    """It would run the arguments that the model wrote."""
    play = Play.ready()
    play.replies(hosted("delete", "r1", needs_approval=True))
    play.decided("a1", "edit", edited_arguments={})
    (answer,) = [item.raw for item in play.state.items if item.kind == "tool_output"]
    assert (answer["approve"], answer["reason"]) == (False, phrases.EDITED_ELSEWHERE)


# --- Several people ------------------------------------------------------------------------------


def test_a_call_with_a_quorum_runs_when_enough_different_people_agree() -> None:
    play = waiting(terms=TWO)
    play.decided("a1", by="ann")
    assert play.running_ids == []
    play.decided("a1", by="ann")
    assert "a different person" in play.state.ignored[0].why
    play.decided("a1", by="bob")
    assert play.running_ids == ["c1"]


def test_a_call_never_runs_with_arguments_that_too_few_people_have_seen() -> None:
    play = waiting(terms=TWO)
    play.decided("a1", by="ann")
    play.decided("a1", "edit", by="bob", edited_arguments={"cents": 1})
    assert play.running_ids == []
    play.decided("a1", by="ann")
    assert json.loads(play.running("c1").arguments) == {"cents": 1}


def test_a_vote_with_the_same_key_is_the_same_vote() -> None:
    play = waiting(terms=TWO)
    play.decided("a1", by="ann", idempotency_key="k")
    before = play.state
    play.decided("a1", by="ann", idempotency_key="k")
    assert play.state is before
    play.decided("a1", by="bob", idempotency_key="k")
    assert play.state.approvals[0].status == "approved", "the key of somebody else is another"


def test_only_verified_people_decide_where_the_terms_demand_it() -> None:
    play = waiting(terms=ApprovalTerms(unverified=False))
    play.decided("a1", by="ann")
    assert play.state.approvals[0].status == "pending"
    play.decided("a1", by="ann", verified=True)
    assert play.running_ids == ["c1"]


def test_the_person_for_whom_a_run_works_may_be_excluded() -> None:
    terms = ApprovalTerms(audience=Audience(exclude_requester=True))
    play = waiting(terms=terms, customer=Customer("ann"))
    play.decided("a1", by="ann")
    assert "somebody else" in play.state.ignored[0].why
    play.decided("a1", by="bob")
    assert play.running_ids == ["c1"]


OTHERS = ApprovalTerms(audience=Audience(exclude_requester=True))


def refund(call_id: str) -> Part:
    return gated("refund", call_id, '{"cents": 500}', terms=OTHERS, schema=ANY_OBJECT)


def asking(play: Play, call_id: str, *authors: str) -> Play:
    """A run of which members of the team ask for a refund, which waits for approval."""
    play.holds("lea")  # so that all messages are one question
    for number, author in enumerate(authors):
        play.hears(f"m{call_id}{number}", "Refund, please.", "steer", author)
    play.releases("lea")
    play.replies(refund(call_id))
    return play


def test_the_authors_of_a_question_may_be_excluded_each_of_them() -> None:
    play = Play.ready(customer=Customer("rob"), keep_open=True)
    play.replies(said("Hello."))
    asking(play, "c1", "ann", "bob", "ann", "")
    assert play.state.question.authors == ("ann", "bob")
    for asker in ("rob", "ann", "BOB"):
        play.decided("a1", by=asker)
        assert "somebody else has to decide" in play.state.ignored[-1].why
    play.decided("a1", by="cy")
    evidence = play.running("c1").evidence
    assert evidence is not None
    assert evidence.authors == ("ann", "bob")


def test_the_next_question_has_its_own_authors_and_a_retried_one_keeps_them() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("Hello."))
    play.hears("m1", "Refund, please.", "steer", "ann")
    play.fails(play.only(CallModel))
    assert play.state.question.authors == ()
    play.retried()
    play.replies(refund("c1"))
    play.decided("a1", by="ann")
    assert "somebody else" in play.state.ignored[-1].why
    play.decided("a1", by="bob")
    play.returns("c1")
    play.replies(said("Refunded."))
    assert play.state.answers[-1].authors == ("ann",)
    asking(play, "c2", "bob")
    play.decided("a2", by="ann")
    assert play.running_ids == ["c2"]


def test_a_remembered_decision_does_not_cover_what_its_author_asks_for() -> None:
    play = Play.ready(keep_open=True)
    play.replies(refund("c1"))
    play.decided("a1", by="ann", remember=True)
    play.returns("c1")
    play.replies(said("Refunded."))
    asking(play, "c2", "ann")
    assert [one.id for one in play.state.pending_approvals] == ["a2"]
    play.decided("a2", by="bob")
    play.returns("c2")
    play.replies(said("Refunded."))
    asking(play, "c3", "bob")
    evidence = play.running("c3").evidence
    assert evidence is not None
    assert (evidence.decisions[0].by, evidence.authors) == ("ann", ("bob",))


def test_the_first_message_keeps_its_authors_as_a_nested_run_has_them() -> None:
    play = Play.ready()
    play.replies(said("Hello."))
    first = records.first_message_of(RunInput(input="Refund.", authors=("ann",)), 1)
    assert first is not None
    state = replace(play.state, inbox=(first,))
    assert record_prepared_input(state, [], ()).inbox[0].authors == ("ann",)


def test_a_nested_run_works_for_the_authors_of_the_question() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("Hello."))
    play.hears("m1", "Refund, please.", "steer", "ann")
    play.replies(nested("Billing", "c1"))
    assert play.only(RunAgent).authors == ("ann",)


def test_whoever_gives_a_conversation_back_with_words_has_asked_for_what_follows() -> None:
    for note, authors in (("Refund it.", ("ann",)), ("", ())):
        play = Play.ready(keep_open=True)
        play.replies(said("Hello."))
        play.holds("ann")
        play.hears("m1", "My money, please.")
        play.releases("ann", note=note)
        assert play.state.question.authors == authors
        play.replies(refund("c1"))
        play.decided("a1", by="ann")
        assert play.running_ids == ([] if note else ["c1"])


# --- Claims --------------------------------------------------------------------------------------


def test_nobody_else_decides_what_a_person_works_on() -> None:
    play = waiting()
    play.claimed("a1", "ann", minutes=1)
    play.decided("a1", by="bob")
    assert "ann is working on it" in play.state.ignored[-1].why
    play.claimed("a1", "bob")
    assert ignored(play)[-1] == "claim of a1 by bob"
    play.claimed("a1", "bob", force=True)
    claim = play.state.approvals[0].claim
    assert claim is not None
    assert claim.by == "bob"
    play.passes(6 * MINUTE)
    play.decided("a1", by="ann")
    assert play.running_ids == ["c1"]


def test_a_rejection_without_a_time_counts_when_the_claim_of_another_has_ended() -> None:
    play = waiting()
    play.claimed("a1", "ann", minutes=1)
    play.passed_ms += MINUTE
    play.decided("a1", "reject", by="bob")
    assert play.state.approvals[0].status == "rejected"


def test_a_vote_ends_its_authors_claim_so_that_the_next_person_can_vote() -> None:
    play = waiting(terms=TWO)
    play.claimed("a1", "ann")
    play.decided("a1", by="ann")
    assert play.state.approvals[0].claim is None
    play.decided("a1", by="bob")
    assert play.state.approvals[0].status == "approved"


def test_a_nameless_person_claims_nothing() -> None:
    play = waiting()
    play.claimed("a1", "")
    assert ignored(play) == ["claim of a1"]


# --- Remembered decisions ------------------------------------------------------------------------


def test_a_remembered_decision_also_settles_what_waits_already() -> None:
    others = gated("refund", "c2"), gated("look_up", "c3"), gated("refund", "c4", terms=TWO)
    play = waiting(*others)
    play.decided("a1", remember=True, by="ann")
    assert play.running_ids == ["c1", "c2"]
    assert [one.id for one in play.state.pending_approvals] == ["a3", "a4"]


def test_a_decision_may_be_remembered_for_the_same_arguments_only() -> None:
    play = waiting(gated("refund", "c2", '{"cents": 6}'), gated("refund", "c3", '{"cents":500}'))
    play.decided("a1", remember=True, remember_scope="tool_with_args")
    assert play.running_ids == ["c1", "c3"]
    play.decided("a2", "reject")
    play.returns("c1")
    play.returns("c3")
    assert play.only(CallModel).decided == ()
    play.replies(gated("refund", "c4", '{ "cents": 500 }'), gated("refund", "c5"))
    assert play.running_ids == ["c4"]
    assert [one.call_id for one in play.state.pending_approvals] == ["c5"]


def test_a_decision_for_exactly_these_arguments_comes_before_one_for_all_calls() -> None:
    play = waiting()
    play.decided("a1", "reject", remember=True, remember_scope="tool_with_args", message="Never.")
    play.replies(gated("refund", "c2", '{"cents": 5}'))
    play.decided("a2", remember=True)
    play.returns("c2")
    play.replies(gated("refund", "c3", '{"cents": 500}'), gated("refund", "c4"))
    assert play.running_ids == ["c4"]
    play.returns("c4")
    assert play.outputs["c3"] == "Never."


def test_a_decision_may_be_remembered_for_the_question_only() -> None:
    play = waiting(keep_open=True)
    play.decided("a1", remember=True, remember_until="run")
    play.returns("c1")
    assert play.only(CallModel).decided == ("refund",)
    play.replies(gated("refund", "c2"))
    play.returns("c2")
    play.replies(said("Done."))
    play.hears("m2")
    assert play.only(CallModel).decided == ()
    play.replies(gated("refund", "c3"))
    assert play.state.status == "waiting"


def test_a_remembered_approval_holds_only_for_requests_that_would_accept_it() -> None:
    """The call of another day may be riskier, and its terms stricter."""
    proof = ApprovalTerms(unverified=False)
    for verified in (False, True):
        play = waiting(terms=ApprovalTerms())
        play.decided("a1", by="ann", verified=verified, remember=True)
        play.returns("c1")
        lead = ApprovalTerms(audience=Audience(subjects=("lead",)))
        play.replies(
            gated("refund", "c2", terms=TWO),
            gated("refund", "c3", terms=lead),
            gated("refund", "c4", terms=proof),
            gated("refund", "c5"),
        )
        assert play.running_ids == (["c4", "c5"] if verified else ["c5"])


# --- Handoffs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("callback", [False, True])
def test_a_handoff_waits_for_its_approval(callback: bool) -> None:
    play = Play.ready()
    play.replies(transfer("Billing", "h1", needs_approval=True, callback=callback))
    (request,) = play.state.pending_approvals
    assert (request.kind, request.name) == ("handoff", "transfer_to_billing")
    play.decided("a1")
    if callback:
        assert play.only(RunHandoff).target == "Billing"
        play.called_back()
    assert play.state.agent == "Billing"


def test_a_rejected_handoff_leaves_the_agent_where_it_is() -> None:
    play = Play.ready()
    play.replies(transfer("Billing", "h1", needs_approval=True))
    play.decided("a1", "reject", message="Stay.")
    assert (play.state.agent, play.state.phase) == ("Triage", "thinking")
    assert play.outputs == {"h1": "Stay."}


# --- Time ----------------------------------------------------------------------------------------


def test_a_request_that_nobody_decides_in_time_is_rejected() -> None:
    play = waiting(gated("look_up", "c2"))
    play.passes(61 * MINUTE)
    assert play.state.approvals[0].status == "expired"
    assert play.state.status == "waiting", "the other request never expires"
    play.decided("a1")
    assert play.state.ignored[0].why == "Approval a1 is already expired."
    play.decided("a2", "reject")
    assert play.outputs["c1"] == phrases.EXPIRED
    assert play.state.phase == "thinking"


def test_what_is_due_happens_before_the_event_that_tells_the_time() -> None:
    play = waiting()
    play.passed_ms = 61 * MINUTE
    play.decided("a1", by="ann")
    assert play.state.approvals[0].status == "expired"
    assert play.running_ids == []


@pytest.mark.parametrize(
    ("on_expiry", "phase"), [("approve", "acting"), ("escalate", "thinking"), ("fail", "closed")]
)
def test_an_expiry_does_what_its_terms_say(on_expiry: OnExpiry, phase: str) -> None:
    play = waiting(terms=replace(HOUR, on_expiry=on_expiry))
    play.passes(61 * MINUTE)
    assert play.state.phase == phase
    if on_expiry == "approve":
        assert play.running_ids == ["c1"]
    if on_expiry == "fail":
        assert play.finish.failure is not None
        assert play.finish.failure.code == "approval_expired"
        assert play.finish.failure.message == "Nobody decided the approval a1 of refund in time."


def test_an_edit_that_lacks_votes_runs_if_its_terms_approve_what_expires() -> None:
    play = waiting(terms=replace(HOUR, quorum=2, on_expiry="approve"))
    play.decided("a1", "edit", by="ann", edited_arguments={"cents": 1})
    play.passes(61 * MINUTE)
    assert json.loads(play.running("c1").arguments) == {"cents": 1}


def test_time_escalates_and_reminds() -> None:
    step = EscalationStep(after_ms=MINUTE, audience=Audience(subjects=("boss",)))
    terms = ApprovalTerms(
        audience=Audience(subjects=("ann",)), remind_every_ms=2 * MINUTE, escalations=(step,)
    )
    play = waiting(terms=terms)
    play.decided("a1", by="boss")
    play.passes(MINUTE)
    assert [one.escalated for one in play.state.approvals] == [1]
    play.passes(MINUTE)
    assert [one.reminders for one in play.state.approvals] == [1]
    play.decided("a1", by="boss")
    assert play.running_ids == ["c1"]
    assert len(play.state.ignored) == 1


def test_time_changes_nothing_where_nothing_waits() -> None:
    play = Play.ready()
    before = play.state
    assert play.passes(10**9) == ()
    assert play.state is before


def test_the_parent_hears_what_votes_and_time_do() -> None:
    play = waiting(terms=TWO, parent=Parent(run_id="root", prefix="e3."))
    play.decided("e3.a1", by="ann")
    told = [one for one in play.commands if isinstance(one, NotifyParent)]
    assert [len(one.record.requests[0].votes) for one in told] == [0, 1]


# --- Answers that need approval ------------------------------------------------------------------


def answered(terms: ApprovalTerms = HOUR, **start: Any) -> Play:
    """A run whose answer waits for a person."""
    play = Play.ready(**start)
    play.replies(said("You get 500."), answer_terms=terms)
    return play


def test_an_answer_waits_for_its_approval() -> None:
    play = answered()
    assert (play.state.phase, play.state.status) == ("asking", "waiting")
    (request,) = play.state.pending_approvals
    assert (request.kind, request.name, request.call_id) == ("output", "answer", "")
    assert json.loads(request.arguments) == {"answer": "You get 500."}
    play.decided("a1")
    assert play.finish.final_output == "You get 500."


def test_an_answer_needs_its_quorum() -> None:
    play = answered(TWO)
    play.decided("a1", by="ann")
    assert play.state.phase == "asking"
    play.decided("a1", by="bob")
    assert play.finish.final_output == "You get 500."


@pytest.mark.parametrize("session", [False, True])
def test_a_rejected_answer_is_made_anew(session: bool) -> None:
    play = answered(session=session)
    play.decided("a1", "reject", message="It is 400.")
    note = play.state.items[-1].raw
    assert note["role"] == "developer"
    assert note["content"].endswith("has not seen it: It is 400. Answer anew.")
    play.replies(said("You get 400."))
    assert play.finish.final_output == "You get 400." if not session else play.saved()


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("edit", {"edited_arguments": {"answer": "You get 400."}}),
        ("respond", {"response": "You get 400."}),
    ],
)
def test_a_person_may_change_an_answer_or_give_another(
    kind: DecisionType, fields: dict[str, Any]
) -> None:
    play = answered()
    play.decided("a1", kind, **fields)
    assert play.finish.final_output == "You get 400."
    (said_item,) = [item for item in play.state.items if item.kind == "message"]
    assert said_item.raw["content"][0]["text"] == "You get 400."
    assert play.state.answers[0].item == 1


def test_an_answer_that_one_edits_and_another_approves_is_the_edited_one() -> None:
    play = answered(TWO)
    play.decided("a1", "edit", by="ann", edited_arguments={"answer": "You get 400."})
    play.decided("a1", by="bob")
    assert play.finish.final_output == "You get 400."


def test_an_answer_without_an_item_gets_one_when_a_person_changes_it() -> None:
    play = Play.ready()
    play.replies(thought(), final="value", value={"cents": 500}, answer_terms=HOUR)
    play.decided("a1", "edit", edited_arguments={"answer": {"cents": 400}})
    assert play.finish.final_output == {"cents": 400}
    assert play.state.items[-1].raw["content"][0]["text"] == '{"cents": 400}'
    assert play.state.answers[0].item == len(play.state.items) - 1


def test_a_rejected_answer_without_an_item_leaves_no_draft() -> None:
    play = Play.ready()
    play.replies(thought(), final="value", value={"cents": 500}, answer_terms=HOUR)
    play.decided("a1", "reject", message="It is 400.")
    assert [item.kind for item in play.state.items] == ["input", "reasoning", "note"]


def test_an_edit_of_an_answer_has_the_form_of_one() -> None:
    play = answered()
    play.decided("a1", "edit", edited_arguments={"text": "You get 400."})
    assert "answer is missing" in play.state.ignored[0].why


def test_an_answer_that_reviewers_do_not_see_is_given_unread() -> None:
    play = answered(ApprovalTerms(redact=("answer",)))
    assert "500" not in play.state.approvals[0].arguments
    play.decided("a1", "edit", edited_arguments={"answer": "[redacted]"})
    assert play.finish.final_output == "You get 500."


@pytest.mark.parametrize(
    ("on_expiry", "phase"),
    [("reject", "thinking"), ("approve", "closed"), ("escalate", "thinking"), ("fail", "closed")],
)
def test_the_expiry_of_an_answer_does_what_its_terms_say(on_expiry: OnExpiry, phase: str) -> None:
    play = answered(replace(HOUR, on_expiry=on_expiry))
    play.passes(61 * MINUTE)
    assert play.state.phase == phase
    if phase == "thinking":
        assert phrases.ANSWER_EXPIRED in play.state.items[-1].raw["content"]
    else:
        assert play.finish.status == ("failed" if on_expiry == "fail" else "completed")


def test_an_answer_is_finalized_before_a_person_reads_it() -> None:
    play = Play.ready()
    play.replies(said("Hello."), required_steps=("finalize_answer",), answer_terms=HOUR)
    assert play.state.phase == "finalizing"
    play.concluded(replaced=True, output="Good day.")
    assert json.loads(play.state.approvals[0].arguments) == {"answer": "Good day."}
    play.decided("a1")
    assert play.finish.final_output == "Good day."


def test_a_cancel_after_the_turn_does_not_wait_for_the_approval_of_an_answer() -> None:
    play = Play.ready(session=True)
    play.cancelled("after_turn")
    play.saved()
    play.replies(said("You get 500."), answer_terms=HOUR)
    assert play.finish.status == "cancelled"
    assert [one.status for one in play.state.approvals] == ["cancelled"]
    assert play.state.saving.queued_up_to == 1, "nobody approved it, so nobody gets it"


@pytest.mark.parametrize("mode", ["immediate", "after_turn"])
def test_a_cancel_ends_the_wait_for_an_answer(mode: Any) -> None:
    play = answered()
    play.cancelled(mode)
    assert play.finish.status == "cancelled"
    assert play.state.gate is None


def test_what_is_said_on_a_line_does_not_free_an_answer_from_its_approval() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("You get 500."), required_steps=("finalize_answer",), answer_terms=HOUR)
    play.attached()
    play.speaks(said("One moment."))
    play.concluded()
    assert play.state.phase == "asking"
    assert isinstance(play.issued[-2], FinalizeAnswer)


def test_a_reader_sees_no_answer_before_its_approval() -> None:
    play = answered()
    assert (len(play.state.items), visible_item_count(play.state)) == (2, 1)
    play.decided("a1")
    assert visible_item_count(play.state) == 2


def test_the_answer_of_an_error_handler_is_not_read_before_its_approval_either() -> None:
    play = Play.ready(handled=("*",))
    play.replies(tool("look_up", "c1"), answer_terms=HOUR)
    play.returns("c1")
    play.fails(play.only(CallModel))
    play.concluded(replaced=True, output="Sorry.", message=message_of_person("Sorry."))
    assert play.state.phase == "asking"
    assert visible_item_count(play.state) == len(play.state.items) - 1


@pytest.mark.parametrize("ends", ["rejected", "expired", "superseded"])
def test_an_error_handlers_answer_that_is_not_approved_is_not_made_anew(ends: str) -> None:
    play = Play.ready(handled=("*",), max_turns=1, keep_open=True)
    play.replies(tool("look_up", "c1"), answer_terms=HOUR)
    play.returns("c1")
    play.concluded(replaced=True, output="Sorry.", message=message_of_person("Sorry."))
    match ends:
        case "rejected":
            play.decided("a1", "reject")
        case "expired":
            play.passes(61 * MINUTE)
        case _:
            play.hears("m2", mode="interrupt")
    assert [one.status for one in play.state.approvals] == [ends]
    assert play.answers()[0] == (("start",), "max_turns_exceeded")
    assert "draft" in {item.kind for item in play.state.items}
    assert play.state.phase == ("thinking" if ends == "superseded" else "idle")


@pytest.mark.parametrize("ends", ["reject", "interrupt", "immediate", "after_turn", "expires"])
def test_a_user_never_reads_an_answer_that_was_not_approved(ends: str) -> None:
    play = Play.ready(keep_open=True, session=True)
    play.saved()
    play.replies(thought(), said("You get 500."), answer_terms=replace(HOUR, on_expiry="fail"))
    match ends:
        case "reject":
            play.decided("a1", "reject", message="It is 400.")
        case "interrupt":
            play.hears("m2", mode="interrupt")
        case "expires":
            play.passes(61 * MINUTE)
        case _:
            play.cancelled("immediate" if ends == "immediate" else "after_turn")
    draft = play.state.items[2]
    assert (draft.kind, draft.raw["content"][0]["text"]) == ("draft", "You get 500.")
    assert {1, 2} <= set(play.state.hidden), "the session gets neither it nor its reasoning"
    if ends in {"reject", "interrupt"}:
        texts = [str(item.raw) for item in items_of(play.state, play.only(CallModel))]
        assert any("You get 500." in text for text in texts), "the model reads its draft"
        assert [item.kind for item in play.state.items][3] == "note"


def test_a_tools_output_as_the_answer_needs_approval_too() -> None:
    play = Play.ready()
    play.replies(tool("look_up", "c1", final=True), answer_terms=HOUR)
    play.returns("c1", "found")
    assert play.state.phase == "asking"
    assert reply_of(said("x")).answer_terms is None


def test_what_was_read_before_a_handlers_answer_waits_stays_readable() -> None:
    """A stream would show it twice."""
    play = Play.ready(handled=("max_turns_exceeded",), max_turns=1)
    play.replies(tool("look_up", "c1"), answer_terms=HOUR)
    play.returns("c1", "found")
    before = visible_item_count(play.state)
    assert before == len(play.state.items) == 3
    play.concluded(message=message_of_person("I gave up."), output="I gave up.", replaced=True)
    assert play.state.phase == "asking"
    assert visible_item_count(play.state) == before
    play.decided("a1")
    assert visible_item_count(play.state) == before + 1


def test_a_parent_never_reads_an_answer_that_was_not_approved() -> None:
    play = Play.ready(parent=Parent(run_id="root", prefix="e3."))
    play.replies(said("You get 500."), answer_terms=HOUR)
    play.decided("e3.a1", "reject")
    play.replies(said(""), answer_terms=HOUR)
    play.decided("e3.a2")
    assert play.finish.final_output == ""
