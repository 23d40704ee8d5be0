"""Failures: whom they reach, what else stops, and what a conversation can still do."""

from typing import Any

import pytest

from outlast.loop import phrases
from outlast.loop.approvals import ApprovalRequest, Decision
from outlast.loop.changes import Change
from outlast.loop.effects import (
    CallModel,
    CancelEffect,
    Finish,
    PrepareRun,
    RunAgent,
    RunHandoff,
    SaveSession,
)
from outlast.loop.events import EffectBlocked, NestedReported, PersonActed, RunEnded
from outlast.loop.invariants import violations
from outlast.loop.machine import advance
from outlast.loop.state import Answer, LoopState
from outlast.loop.values import Failure, Usage
from tests.laws.driver import (
    SITUATIONS,
    Part,
    Play,
    gated,
    nested,
    play_in,
    said,
    tool,
    transfer,
    unknown,
)

BROKEN = Failure(code="model_behavior", message="Nonsense.", details={"at": 1})


@pytest.mark.parametrize("keep_open", [False, True])
def test_a_model_call_that_fails_fails_the_question(*, keep_open: bool) -> None:
    play = Play.ready(keep_open=keep_open)
    failure = play.fails(play.only(CallModel), "model_call_failed")
    assert play.state.failure == failure
    assert play.state.answers == (Answer(("start",), None, "Triage", failure),)
    assert (play.state.question.answering, play.state.question.turn, play.state.turns) == ((), 0, 1)
    if keep_open:
        assert (play.state.phase, play.state.outcome) == ("idle", None)
    else:
        assert play.finish == Finish(status="failed", failure=failure)


def test_a_failed_question_leaves_no_output_of_the_one_before() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("First."))
    play.hears("m2")
    play.fails(play.only(CallModel))
    assert play.state.final_output is None


def test_a_conversation_answers_the_next_question_after_a_failure() -> None:
    play = Play.ready(keep_open=True)
    play.fails(play.only(CallModel))
    play.hears("m2")
    assert play.only(CallModel).input_length == 2, "what was said before is still there"
    play.replies(said("Now."))
    assert (play.state.failure, play.state.final_output) == (None, "Now.")
    assert play.answers() == [(("start",), "broken"), (("m2",), None)]


REPLIES: list[tuple[list[Part], dict[str, str]]] = [
    ([said("text")], {}),
    ([tool("f", "c1"), tool("g", "c2")], dict.fromkeys(["c1", "c2"], phrases.NOT_RUN)),
    (
        [gated("f", "c1"), transfer("Billing", "h1", callback=True)],
        dict.fromkeys(["c1", "h1"], phrases.NOT_RUN),
    ),
    (
        [unknown("f", "c1", "No such tool."), tool("g", "c2")],
        {"c1": "No such tool.", "c2": phrases.NOT_RUN},
    ),
]


@pytest.mark.parametrize("keep_open", [False, True])
@pytest.mark.parametrize(("parts", "outputs"), REPLIES)
def test_a_reply_that_makes_no_sense_is_kept_and_none_of_its_calls_run(
    parts: list[Part], outputs: dict[str, str], *, keep_open: bool
) -> None:
    play = Play.ready(keep_open=keep_open, context={})
    play.replies(
        *parts,
        failure=BROKEN,
        usage=Usage(requests=1, total_tokens=9),
        changes=(Change("set", ("n",), 1),),
    )
    assert play.state.failure == BROKEN
    assert [one.kind for one in play.issued] == ["prepare_run", "call_model"]
    assert play.state.approvals == ()
    assert play.state.usage.total_tokens == 9, "it was paid for"
    assert play.state.context == {"n": 1}
    assert list(play.outputs.items()) == list(outputs.items())
    assert play.state.phase == ("idle" if keep_open else "closed")


@pytest.mark.parametrize("keep_open", [False, True])
def test_a_fatal_tool_stops_its_siblings_and_fails_the_question(*, keep_open: bool) -> None:
    play = Play.ready(keep_open=keep_open, context={"n": 0})
    play.replies(
        tool("f", "c1"),
        tool("careful", "c2", fatal=True),
        tool("g", "c3"),
        gated("h", "c4"),
        transfer("Billing", "h1"),
    )
    play.returns("c1", "one", Change("set", ("n",), 1))
    sibling = play.running("c3").effect
    failure = play.fails(play.running("c2"), "tool_failed")
    assert play.stopped == [sibling]
    assert play.state.failure == failure
    assert list(play.outputs) == ["c1", "c2", "c3", "c4", "h1"]
    assert play.outputs["c1"] == "one"
    assert play.outputs["c4"] == play.outputs["h1"] == phrases.NOT_RUN
    assert play.state.context == {"n": 1}, "what has finished counts"
    assert [one.status for one in play.state.approvals] == ["cancelled"]
    assert play.state.agent == "Triage"
    assert play.state.phase == ("idle" if keep_open else "closed")


def test_the_model_is_not_told_that_a_call_did_not_run_when_it_may_have() -> None:
    """In a conversation the model reads on, and would make the refund a second time."""
    play = Play.ready(keep_open=True)
    play.replies(tool("refund", "c1", fatal=True), tool("mail", "c2"), gated("h", "c3"))
    play.fails(play.running("c1"), "tool_timeout")
    assert play.outputs["c1"] == phrases.tool_failed("refund", "tool_timeout")
    assert play.outputs["c2"] == phrases.CANCELLED
    assert play.outputs["c3"] == phrases.NOT_RUN


def test_a_late_sibling_of_a_fatal_tool_is_ignored_in_the_next_turn() -> None:
    play = Play.ready(keep_open=True, context={})
    play.replies(tool("careful", "c1", fatal=True), tool("g", "c2"))
    late = play.running("c2")
    play.hears("m2")
    play.fails(play.running("c1"))
    assert play.state.phase == "thinking"
    before = play.state
    play.fails(late)
    assert play.state is before
    play.replies(tool("g", "c2"))
    again = play.running("c2")
    assert again.effect > late.effect
    play.returns("c2", "now")
    assert play.outputs["c2"] == "now"


def test_stops_come_before_what_is_next() -> None:
    play = Play.ready(keep_open=True)
    play.replies(tool("careful", "c1", fatal=True), tool("g", "c2"))
    play.hears("m2")
    known = len(play.commands)
    play.fails(play.running("c1"))
    assert [type(one) for one in play.commands[known:]] == [CancelEffect, CallModel]


@pytest.mark.parametrize("code", ["tool_failed", "tool_timeout", "user_error"])
def test_a_fatal_tool_passes_its_failure_on_unchanged(code: str) -> None:
    play = Play.ready()
    play.replies(tool("careful", "c1", fatal=True))
    failure = play.fails(play.running("c1"), code, "The bank said no.")
    assert play.finish == Finish(status="failed", failure=failure)


def test_a_fatal_tool_that_works_is_like_any_other() -> None:
    play = Play.ready()
    play.replies(tool("careful", "c1", fatal=True))
    play.returns("c1", "fine")
    assert play.outputs == {"c1": "fine"}


def test_of_two_fatal_tools_the_first_to_fail_counts() -> None:
    play = Play.ready()
    play.replies(tool("f", "c1", fatal=True), tool("g", "c2", fatal=True))
    first, second = play.running("c1"), play.running("c2")
    failure = play.fails(second, "second")
    play.fails(first, "first")
    assert play.finish.failure == failure


@pytest.mark.parametrize("keep_open", [False, True])
def test_a_fatal_tool_of_an_approved_call_ends_the_question(*, keep_open: bool) -> None:
    play = Play.ready(keep_open=keep_open)
    play.replies(gated("careful", "c1", fatal=True), gated("g", "c2"))
    play.decided("a1")
    play.fails(play.running("c1"))
    assert [one.status for one in play.state.approvals] == ["approved", "cancelled"]
    play.decided("a2")
    assert [one.status for one in play.state.approvals] == ["approved", "cancelled"]
    notes = [note.why for note in play.state.ignored]
    assert notes == (["Approval a2 is already cancelled."] if keep_open else [])


def test_used_up_turns_fail_the_question_and_a_conversation_stays_open() -> None:
    play = Play.ready(max_turns=1, keep_open=True)
    play.replies(tool("f", "c1"))
    play.returns("c1")
    assert play.state.phase == "idle"
    assert play.answers() == [(("start",), "max_turns_exceeded")]
    play.hears("m2")
    assert play.only(CallModel).turn == 1, "the next question has its own budget"


def test_a_conversation_that_may_not_ask_the_model_fails_each_question() -> None:
    play = Play.ready(max_turns=0, keep_open=True)
    play.hears("m2")
    assert play.answers() == [
        (("start",), "max_turns_exceeded"),
        (("m2",), "max_turns_exceeded"),
    ]
    assert play.state.phase == "idle"


def test_a_callback_that_fails_is_told_as_the_handoffs_output() -> None:
    play = Play.ready(keep_open=True)
    play.replies(transfer("Billing", "h1", callback=True), transfer("Orders", "h2"))
    play.fails(play.only(RunHandoff))
    assert play.kinds[-2:] == ["handoff_output", "handoff_output"]
    assert play.outputs["h2"] == phrases.HANDOFF_IGNORED
    assert "assistant" not in play.outputs["h1"]


# --- What no worker can carry out -----------------------------------------------------------------


def blocked(play: Play, effect: int, lacks: str = "no agent 'Triage'") -> None:
    play.take(EffectBlocked(at_ms=play.now_ms, effect=effect, lacks=lacks))


def test_a_run_says_what_no_worker_has_and_goes_on_when_one_has_it() -> None:
    play = Play.ready()
    call = play.only(CallModel)
    blocked(play, call.effect)
    (block,) = play.state.blocked
    assert (play.state.status, block.effect, block.lacks) == (
        "blocked",
        call.effect,
        "no agent 'Triage'",
    )
    assert play.state.pending == (call,), "the same request is asked again"
    play.replies(said("Hello."))
    assert (play.state.blocked, play.finish.final_output) == ((), "Hello.")


def test_a_worker_that_has_it_ends_the_block_before_the_effect_is_answered() -> None:
    play = Play.ready()
    effect = play.only(CallModel).effect
    blocked(play, effect)
    blocked(play, effect, lacks="")
    assert (play.state.status, play.state.blocked) == ("running", ())


def test_what_is_stopped_is_not_blocked_any_more() -> None:
    play = Play.ready()
    blocked(play, play.only(CallModel).effect)
    play.cancelled()
    assert (play.finish.status, play.state.blocked) == ("cancelled", ())


def test_a_block_of_an_effect_that_is_not_in_flight_changes_nothing() -> None:
    play = Play.ready()
    state = play.state
    blocked(play, 99)
    assert play.state is state


def given_up(play: Play, request_id: str, message: str | None = None) -> None:
    decision = Decision(request_id=request_id, type="reject", by="ann", message=message)
    play.take(PersonActed(at_ms=play.now_ms, action=decision))


@pytest.mark.parametrize("make", [tool, gated])
def test_a_person_rejects_a_call_that_no_worker_can_carry_out(make: Any) -> None:
    play = Play.ready()
    play.replies(make("refund", "c1", '{"amount": 5}'))
    if make is gated:
        play.decided("a1")
    effect = play.running("c1")
    blocked(play, effect.effect, "Agent 'Triage' has no tool 'refund'.")
    assert play.state.status == "blocked", "nobody has to decide: a worker may come"
    (request,) = play.state.pending_approvals
    assert (request.id, request.kind, request.name) == (f"b{effect.effect}", "worker", "refund")
    assert (request.terms.allow, request.arguments) == (("reject",), '{"amount": 5}')
    assert "has no tool 'refund'" in (request.reason or "")
    given_up(play, request.id, message="The tool is gone. I did it by hand.")
    assert play.outputs["c1"] == "The tool is gone. I did it by hand."
    assert (play.state.blocked, play.state.pending_approvals) == ((), ())
    assert play.state.approvals[-1].status == "rejected"
    assert CancelEffect(effect=effect.effect) in play.commands
    play.replies(said("Done by hand."))
    assert play.finish.final_output == "Done by hand."


def test_a_blocked_call_cannot_be_approved_and_nothing_waits_when_a_worker_comes() -> None:
    play = Play.ready()
    play.replies(tool("refund", "c1"))
    effect = play.running("c1")
    blocked(play, effect.effect)
    play.decided(f"b{effect.effect}")
    assert "only with reject" in play.state.ignored[-1].why
    blocked(play, effect.effect, lacks="")
    assert play.state.pending_approvals == ()
    given_up(play, f"b{effect.effect}")
    assert "has no approval" in play.state.ignored[-1].why
    play.returns("c1", "paid")
    assert play.outputs["c1"] == "paid"


def test_a_person_rejects_a_handoff_that_no_worker_can_carry_out() -> None:
    play = Play.ready()
    play.replies(transfer("Billing", "h1", callback=True))
    blocked(play, play.only(RunHandoff).effect)
    (request,) = play.state.pending_approvals
    assert (request.kind, request.call_id) == ("worker", "h1")
    given_up(play, request.id)
    assert play.outputs["h1"] == phrases.REJECTED
    assert (play.state.agent, play.only(CallModel).agent) == ("Triage", "Triage")


def test_a_person_gives_a_question_up_whose_agent_no_worker_has() -> None:
    play = Play.ready(keep_open=True)
    blocked(play, play.only(CallModel).effect, "This worker has no agent 'Triage'.")
    (request,) = play.state.pending_approvals
    assert (request.name, request.arguments) == ("Triage", "{}")
    given_up(play, request.id, message="It is retired.")
    assert play.state.phase == "idle"
    failure = play.state.failure
    assert failure is not None
    assert failure.message == (
        "ann gave up waiting for a worker: It is retired. This worker has no agent 'Triage'."
    )


@pytest.mark.parametrize("keep_open", [False, True])
def test_a_run_whose_first_agent_no_worker_has_ends_if_a_person_gives_it_up(
    *, keep_open: bool
) -> None:
    play = Play(keep_open=keep_open, handled=("*",))
    blocked(play, play.only(PrepareRun).effect)
    given_up(play, play.state.pending_approvals[0].id)
    assert play.finish.status == "failed"


def test_what_runs_beside_a_conversation_is_given_up_by_nobody() -> None:
    play = Play.ready(session=True, keep_open=True)
    play.replies(said("Hello."))
    blocked(play, play.only(SaveSession).effect, "no such file")
    assert (len(play.state.blocked), play.state.pending_approvals) == (1, ())


def test_a_nested_run_reports_what_no_worker_has_and_its_parent_does_not_wait_for_people() -> None:
    play = Play.ready()
    play.replies(nested("Judge", "c1"))
    run = play.only(RunAgent)
    request = ApprovalRequest(
        id=f"e{run.effect}.b1",
        kind="worker",
        call_id="",
        name="Judge",
        agent="Judge",
        arguments="{}",
        args_digest="",
        requested_at_ms=0,
        run_id=run.nested_id,
    )
    play.take(NestedReported(at_ms=play.now_ms, nested_id=run.nested_id, requests=(request,)))
    assert play.state.pending_approvals == (request,)
    assert play.state.status == "running"


# --- Runs that the engine ends ----------------------------------------------------------------------


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_run_that_the_engine_ends_is_closed_with_nothing_in_flight(situation: str) -> None:
    state = play_in(situation, keep_open=True).state
    why = Failure(code="terminated", message="The run was terminated: too large")
    ended, commands = advance(state, RunEnded(at_ms=5, outcome="terminated", failure=why))
    assert (commands, ended.pending, ended.pending_approvals) == ((), (), ())
    assert (ended.status, ended.failure, violations(ended)) == ("terminated", why, [])
    assert advance(ended, RunEnded(at_ms=6, outcome="failed"))[0] is ended


def test_a_run_may_end_before_it_began() -> None:
    ended, _ = advance(LoopState(), RunEnded(at_ms=5, outcome="cancelled"))
    assert (ended.status, ended.failure) == ("cancelled", None)
