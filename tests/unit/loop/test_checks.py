"""Input guardrails: when they run, what they see, what they hold up, and what a tripwire stops."""

from typing import Any

import pytest

from outlast.loop import phrases
from outlast.loop.changes import Change
from outlast.loop.checks import (
    ENDS_CALLER,
    CheckResult,
    FinalizedAnswer,
    GuardrailRecord,
    RequiredStep,
)
from outlast.loop.effects import CallModel, CheckInput, RunHandoff, SaveSession
from outlast.loop.state import items_of
from outlast.loop.values import Failure, ServerThread
from tests.laws.driver import Play, gated, message, nested, said, tool, transfer

TRIPPED = Failure(code="input_guardrail_tripwire", message="The guardrail topic tripped.")
PASSED = GuardrailRecord(stage="input", name="tone", agent="Triage", info="fine")
CAUGHT = GuardrailRecord(stage="input", name="topic", agent="Triage", tripped=True)


def checked_by(*required_steps: RequiredStep, **start: Any) -> Play:
    """A run whose starting agent has guardrails."""
    play = Play(**start)
    play.prepared(required_steps=required_steps)
    return play


def out(play: Play) -> list[str]:
    return [effect.kind for effect in play.outstanding.values()]


# --- Before the model is asked -------------------------------------------------------------------


def test_a_blocking_check_comes_before_the_model_and_sees_what_was_asked() -> None:
    play = checked_by("check_first", said=message("start", "Hello"), context={"n": 1})
    check = play.only(CheckInput)
    assert (check.stage, check.agent, check.turn) == ("blocking", "Triage", 0)
    assert (check.items, check.context) == (play.state.items, {"n": 1})
    assert (play.state.phase, out(play)) == ("checking", ["check_input"])
    play.checked(results=(PASSED,), changes=(Change("set", ("n",), 2),))
    assert (play.state.phase, play.only(CallModel).context) == ("thinking", {"n": 2})
    assert play.state.question.guardrails == (PASSED,)


@pytest.mark.parametrize("keep_open", [False, True])
def test_a_blocking_tripwire_stops_the_question_before_any_model_call(*, keep_open: bool) -> None:
    play = checked_by("check_first", "check", keep_open=keep_open)
    play.checked(results=(PASSED, CAUGHT), failure=TRIPPED)
    assert play.state.turns == 0
    assert play.state.question.guardrails == (PASSED, CAUGHT), (
        "in the order in which they completed"
    )
    assert play.answers() == [(("start",), "input_guardrail_tripwire")]
    assert play.state.phase == ("idle" if keep_open else "closed")


def test_a_check_that_breaks_fails_the_question_with_its_own_failure() -> None:
    play = checked_by("check_first")
    failure = play.fails(play.only(CheckInput), "ValueError", "No.")
    assert play.finish.failure == failure


def test_a_wish_to_stop_during_a_blocking_check_makes_no_model_call() -> None:
    play = checked_by("check_first")
    play.cancelled("after_turn")
    play.checked()
    assert (play.finish.status, play.state.turns) == ("cancelled", 0)


# --- Beside the model ----------------------------------------------------------------------------


def test_a_parallel_check_starts_with_the_model_call() -> None:
    play = checked_by("check_first", "check")
    play.checked()
    assert out(play) == ["check_input", "call_model"]
    check = play.only(CheckInput)
    assert (check.stage, check.items) == ("parallel", play.state.items)


def test_a_check_that_passes_early_changes_nothing_further() -> None:
    play = checked_by("check")
    assert play.checked(results=(PASSED,)) == ()
    play.replies(said("Hello."))
    assert play.finish.final_output == "Hello."
    assert play.state.question.guardrails == (PASSED,)


def test_an_answer_waits_for_the_check_beside_it() -> None:
    play = checked_by("check")
    assert play.replies(said("Hello.")) == ()
    assert (play.state.phase, play.state.answers) == ("finalizing", ())
    play.checked()
    assert play.finish.final_output == "Hello."


def test_tools_run_beside_a_check_and_the_next_turn_waits_for_it() -> None:
    play = checked_by("check")
    play.replies(tool("look_up", "c1"))
    play.returns("c1", "found")
    assert (play.state.phase, out(play)) == ("turned", ["check_input"])
    assert play.state.status == "running"
    play.checked()
    assert play.only(CallModel).turn == 2


def test_a_handoff_takes_place_beside_a_check_and_its_agent_waits() -> None:
    play = checked_by("check")
    play.replies(transfer("Billing", "h1"))
    assert (play.state.agent, play.state.phase) == ("Billing", "turned")
    play.checked()
    assert play.only(CallModel).agent == "Billing"


def test_a_message_that_comes_while_a_turn_is_held_is_not_shown_before() -> None:
    play = checked_by("check")
    play.replies(tool("look_up", "c1"))
    play.hears("m2")
    play.returns("c1")
    assert [one.id for one in play.state.inbox] == ["m2"]
    play.checked()
    assert (play.state.inbox, play.state.phase) == ((), "thinking")


@pytest.mark.parametrize("keep_open", [False, True])
def test_a_tripwire_beside_the_model_stops_its_call(*, keep_open: bool) -> None:
    play = checked_by("check", keep_open=keep_open)
    asked = play.only(CallModel).effect
    play.checked(results=(CAUGHT,), failure=TRIPPED)
    assert play.stopped == [asked]
    assert play.state.failure == TRIPPED
    assert play.state.phase == ("idle" if keep_open else "closed")


def test_a_tripwire_stops_tools_agents_and_approvals_and_what_has_finished_counts() -> None:
    play = checked_by("check", context={})
    play.replies(tool("f", "c1"), tool("g", "c2"), nested("Orders", "c3"), gated("h", "c4"))
    play.returns("c1", "one", Change("set", ("n",), 1))
    running = [one.effect for one in play.outstanding.values() if one.kind.startswith("run")]
    play.checked(failure=TRIPPED)
    assert play.stopped == running
    assert play.outputs == {
        "c1": "one",
        "c2": phrases.CANCELLED,
        "c3": phrases.CANCELLED,
        "c4": phrases.NOT_RUN,
    }
    assert play.state.context == {"n": 1}
    assert [one.status for one in play.state.approvals] == ["cancelled"]


def test_a_tripwire_takes_an_answer_back_that_was_on_its_way() -> None:
    play = checked_by("check")
    play.replies(said("Hello."))
    play.checked(failure=TRIPPED)
    assert (play.finish.status, play.finish.failure) == ("failed", TRIPPED)
    assert play.state.final_output is None


def test_a_model_call_that_fails_stops_the_check_beside_it() -> None:
    play = checked_by("check")
    check = play.only(CheckInput).effect
    failure = play.fails(play.only(CallModel))
    assert (play.stopped, play.finish.failure) == ([check], failure)


def test_a_cancel_stops_a_check() -> None:
    play = checked_by("check")
    play.cancelled()
    assert play.finish.status == "cancelled"


def test_waiting_for_people_beside_a_check_is_not_waiting_for_people_alone() -> None:
    play = checked_by("check")
    play.replies(gated("refund", "c1"))
    assert play.state.status == "running"
    play.checked()
    assert play.state.status == "waiting"


def test_a_gentle_cancel_waits_for_the_check_but_then_not_for_people() -> None:
    play = checked_by("check")
    play.replies(gated("refund", "c1"))
    play.cancelled("after_turn")
    assert play.state.phase == "acting"
    play.checked()
    assert play.finish.status == "cancelled"


# --- Whom it concerns ----------------------------------------------------------------------------


def test_only_the_first_turn_is_checked_and_no_later_agent() -> None:
    play = checked_by("check_first", "check")
    play.checked()
    play.checked()
    play.replies(transfer("Billing", "h1", target_steps=("check_first", "check")))
    assert out(play) == ["call_model"]
    assert play.state.required_steps == ("check_first", "check")


def test_each_question_of_a_conversation_is_checked_and_has_its_own_results() -> None:
    play = checked_by("check_first", keep_open=True)
    play.checked(results=(PASSED,))
    play.replies(said("Hello."), required_steps=("check_first",))
    play.hears("m2")
    assert play.state.question.guardrails == ()
    assert [
        item.raw["content"] for item in play.only(CheckInput).items if item.kind == "input"
    ] == [
        "Hello",
        "text of m2",
    ]


@pytest.mark.parametrize("duty", ["check_first", "check"])
def test_what_is_added_later_is_checked_alone_and_before_the_model_sees_it(
    duty: RequiredStep,
) -> None:
    play = checked_by(duty)
    play.checked(results=(PASSED,))
    play.hears("m2", "And my invoice?")
    play.replies(tool("look_up", "c1"), required_steps=(duty,))
    play.returns("c1")
    check = play.only(CheckInput)
    assert (check.stage, out(play)) == ("added", ["check_input"])
    assert [item.raw["content"] for item in check.items] == ["And my invoice?"]
    play.checked(results=(CAUGHT,))
    assert play.state.question.guardrails == (PASSED, CAUGHT), "both belong to one question"
    assert play.only(CallModel).turn == 2


def test_what_is_added_later_is_checked_for_the_agent_that_is_active_then() -> None:
    play = Play.ready()
    play.hears("m2")
    play.replies(transfer("Billing", "h1", callback=True))
    play.called_back(target="Orders", target_model="big", required_steps=("check",))
    assert (play.state.model, play.only(CheckInput).agent) == ("big", "Orders")
    play.checked(failure=TRIPPED)
    assert play.answers() == [(("start", "m2"), "input_guardrail_tripwire")]


def test_an_agent_without_guardrails_takes_no_effect_for_them() -> None:
    play = Play.ready(keep_open=True)
    play.hears("m2")
    play.replies(transfer("Billing", "h1"))
    play.replies(said("Hello."))
    assert {one.kind for one in play.issued} == {"prepare_run", "call_model"}


# --- What the session gets -----------------------------------------------------------------------


@pytest.mark.parametrize("duty", ["check_first", "check"])
def test_a_question_is_saved_once_its_guardrails_pass_it(duty: RequiredStep) -> None:
    play = checked_by(duty, session=True)
    assert saves(play) == []
    play.checked()
    assert saves(play) == [(0, 1)]


@pytest.mark.parametrize("duty", ["check_first", "check"])
def test_a_blocked_question_is_not_saved(duty: RequiredStep) -> None:
    play = checked_by(duty, session=True)
    play.checked(failure=TRIPPED)
    assert (play.finish.failure, saves(play)) == (TRIPPED, [])


def test_a_turn_that_a_guardrail_may_still_take_back_is_not_saved_while_people_decide() -> None:
    play = checked_by("check", session=True)
    play.replies(gated("refund", "c1"))
    play.checked(failure=TRIPPED)
    assert (play.finish.status, saves(play)) == ("failed", [])


def test_a_question_is_saved_only_after_all_of_its_guardrails() -> None:
    play = checked_by("check_first", "check", session=True, keep_open=True)
    play.checked()
    assert saves(play) == []
    play.checked(failure=TRIPPED)
    assert saves(play) == []
    play.hears("m2")
    play.checked()
    play.checked()
    assert saves(play) == [(1, 2)]


def saves(play: Play) -> list[tuple[int, int]]:
    """The ranges of the transcript that the session was asked to save."""
    return [(one.start, one.stop) for one in play.issued if isinstance(one, SaveSession)]


# --- A question that was not passed --------------------------------------------------------------


@pytest.mark.parametrize("duty", ["check_first", "check"])
@pytest.mark.parametrize("raises", [False, True])
def test_a_blocked_question_is_not_part_of_later_questions(
    duty: RequiredStep, *, raises: bool
) -> None:
    play = checked_by(duty, keep_open=True, session=True)
    if raises:
        play.fails(play.only(CheckInput))
    else:
        play.checked(failure=TRIPPED)
    play.hears("m2")
    assert [item.raw["content"] for item in play.only(CheckInput).items] == ["text of m2"]
    play.checked()
    assert [item.raw["content"] for item in items_of(play.state, play.only(CallModel))] == [
        "text of m2"
    ]
    assert saves(play) == [(1, 2)]
    assert len(play.state.items) == 2, "people still see it"


def test_what_the_model_said_to_a_blocked_question_is_not_shown_again() -> None:
    play = checked_by("check", keep_open=True)
    play.replies(tool("f", "c1"), said("Well."), required_steps=("check",))
    play.checked(failure=TRIPPED)
    play.hears("m2")
    play.checked()
    assert [item.kind for item in items_of(play.state, play.only(CallModel))] == ["input"]


def test_a_blocked_addition_leaves_the_rest_of_the_question() -> None:
    play = checked_by("check", keep_open=True)
    play.checked()
    play.replies(tool("f", "c1"), required_steps=("check",))
    play.hears("m2")
    play.returns("c1")
    play.checked(failure=TRIPPED)
    play.hears("m3")
    play.checked()
    kinds = [item.kind for item in items_of(play.state, play.only(CallModel))]
    assert kinds == ["input", "tool_call", "tool_output", "input"]


def test_a_thread_on_the_server_is_sent_the_next_question_after_a_blocked_one() -> None:
    play = checked_by("check", keep_open=True, thread=ServerThread(chained=True))
    play.replies(said("Well."), response_id="r1", required_steps=("check",))
    play.checked(failure=TRIPPED)
    play.hears("m2")
    play.checked()
    shown = items_of(play.state, play.only(CallModel))
    assert [item.raw["content"] for item in shown] == ["text of m2"]


# --- Guardrails that a deploy adds ----------------------------------------------------------------


@pytest.mark.parametrize("duty", ["check_first", "check"])
def test_a_guardrail_that_the_worker_has_since_is_run_before_the_model(duty: RequiredStep) -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("Hello."))
    play.hears("m2")
    assert play.only(CallModel).required_steps == ()
    play.replies(unchecked=True, required_steps=(duty,))
    check = play.only(CheckInput)
    assert [item.raw["content"] for item in check.items if item.kind == "input"] == [
        "Hello",
        "text of m2",
    ]
    assert check.stage == ("blocking" if duty == "check_first" else "parallel")
    play.checked(failure=TRIPPED)
    assert play.answers()[1:] == [(("m2",), "input_guardrail_tripwire")]


def test_a_further_guardrail_takes_the_place_of_the_check_that_runs() -> None:
    play = checked_by("check")
    before = play.only(CheckInput)
    play.replies(unchecked=True, required_steps=("check_first", "check"))
    assert play.stopped == [before.effect]
    assert play.only(CheckInput).stage == "blocking"
    play.checked()
    assert (play.only(CheckInput).stage, play.only(CallModel).turn) == ("parallel", 1)
    assert play.only(CallModel).required_steps == ("check_first", "check")


# --- The records ---------------------------------------------------------------------------------


def test_a_check_passes_and_a_conclusion_lets_the_answer_stand_unless_they_say_otherwise() -> None:
    assert CheckResult().failure is None
    conclusion = FinalizedAnswer()
    assert conclusion.final
    assert (conclusion.replaced, conclusion.declined) == (False, False)
    assert conclusion.failure is None


def test_a_callback_runs_beside_a_check_too() -> None:
    play = checked_by("check")
    play.replies(transfer("Billing", "h1", callback=True))
    running = play.only(RunHandoff).effect
    play.checked(failure=TRIPPED)
    assert play.stopped == [running]
    assert (play.state.agent, play.outputs["h1"]) == ("Triage", phrases.NOT_RUN)


def test_the_name_that_recorded_failures_hold_never_changes() -> None:
    assert ENDS_CALLER == "ends_caller"
