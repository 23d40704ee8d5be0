"""How a question ends: what becomes of an answer or of a failure before anybody sees it."""

from typing import Any

import pytest

from outlast.loop import phrases
from outlast.loop.changes import Change
from outlast.loop.checks import Candidate, GuardrailRecord, RequiredStep, ToolOutcome
from outlast.loop.effects import CallModel, CheckInput, FinalizeAnswer, SaveSession
from outlast.loop.items import text_of
from outlast.loop.start import Parent
from outlast.loop.state import Answer, items_of, visible_item_count
from outlast.loop.values import Failure, Json
from tests.laws.driver import Part, Play, gated, patch, refused, said, tool, transfer, unknown

BLOCKED = Failure(code="output_guardrail_tripwire", message="The guardrail tone tripped.")
TRIPPED = GuardrailRecord(stage="output", name="tone", agent="Triage", tripped=True)
PASSED = GuardrailRecord(stage="output", name="tone", agent="Triage")
ENDS: tuple[RequiredStep, ...] = ("finalize_answer",)


def proposed(*parts: Part, required_steps: tuple[RequiredStep, ...] = ENDS, **start: Any) -> Play:
    """A run that has an answer which is not given yet."""
    play = Play.ready(**start)
    play.replies(*(parts or (said("Hello."),)), required_steps=required_steps)
    return play


def judging(*parts: Part, **start: Any) -> Play:
    """A run whose calls have ended and are to be judged."""
    play = Play.ready(**start)
    play.replies(*parts, judged=True)
    for call_id in play.running_ids:
        play.returns(call_id, f"output of {call_id}", value={"n": 1})
    return play


def ranges(play: Play) -> list[tuple[int, int]]:
    return [(one.start, one.stop) for one in play.issued if isinstance(one, SaveSession)]


# --- An answer -----------------------------------------------------------------------------------


def test_an_answer_of_a_plain_agent_is_given_at_once() -> None:
    play = Play.ready()
    play.replies(said("Hello."))
    assert [one.kind for one in play.issued] == ["prepare_run", "call_model"]
    assert play.finish.final_output == "Hello."


def test_an_answer_is_given_when_it_is_concluded() -> None:
    play = proposed(context={"n": 0})
    effect = play.only(FinalizeAnswer)
    assert effect.candidate == Candidate(output="Hello.", item=1)
    assert (effect.agent, effect.turn, effect.history, effect.input_length) == ("Triage", 1, 1, 2)
    assert items_of(play.state, effect) == play.state.items
    assert (play.state.phase, play.state.status, play.state.answers) == (
        "finalizing",
        "running",
        (),
    )
    play.concluded(results=(PASSED,), changes=(Change("set", ("n",), 1),))
    assert play.finish.final_output == "Hello."
    assert (play.state.context, play.state.question.guardrails) == ({"n": 1}, (PASSED,))
    assert play.state.answers == (Answer(("start",), 1, "Triage"),)


@pytest.mark.parametrize("output", ["other", None, {"a": 1}, ""])
def test_an_answer_can_be_replaced(output: Json) -> None:
    play = proposed()
    play.concluded(output=output, replaced=True)
    assert play.finish.final_output == output


def test_an_answer_that_is_none_lets_the_model_go_on() -> None:
    play = proposed()
    play.concluded(final=False, results=(PASSED,))
    assert play.only(CallModel).turn == 2
    play.replies(said("Now."))
    assert play.answers() == [(("start",), None)]


def test_a_message_that_comes_meanwhile_is_the_next_question() -> None:
    play = proposed()
    play.hears("m2")
    play.concluded()
    assert play.state.question.answering == ("m2",)
    play.replies(said("And this."))
    assert play.answers() == [(("start",), None), (("m2",), None)]


@pytest.mark.parametrize("keep_open", [False, True])
def test_a_blocked_answer_is_no_answer_and_no_longer_shown(*, keep_open: bool) -> None:
    play = proposed(keep_open=keep_open)
    play.concluded(results=(TRIPPED,), failure=BLOCKED)
    assert play.state.failure == BLOCKED
    assert play.answers() == [(("start",), "output_guardrail_tripwire")]
    assert (play.state.final_output, play.state.question.guardrails) == (None, (TRIPPED,))
    assert play.kinds == ["input", "message"], "it was said, and people may look at it"
    if keep_open:
        play.hears("m2")
        shown = items_of(play.state, play.only(CallModel))
        assert [item.kind for item in shown] == ["input", "input"]
        play.replies(said("Better."))
        assert play.state.final_output == "Better."


def test_only_the_blocked_turn_is_hidden() -> None:
    play = Play.ready(keep_open=True)
    play.replies(tool("look_up", "c1"))
    play.returns("c1")
    play.replies(said("Hello."), required_steps=ENDS)
    play.concluded(results=(TRIPPED,), failure=BLOCKED)
    play.hears("m2")
    shown = items_of(play.state, play.only(CallModel))
    assert [item.kind for item in shown] == ["input", "tool_call", "tool_output", "input"]


def test_an_answer_whose_end_hook_fails_stays_where_there_is_no_guardrail() -> None:
    play = proposed(keep_open=True)
    play.concluded(failure=Failure(code="ValueError", message="Oh."), results=(PASSED,))
    assert play.answers() == [(("start",), "ValueError")]
    play.hears("m2")
    assert len(items_of(play.state, play.only(CallModel))) == 3


GUARDED: tuple[RequiredStep, ...] = ("finalize_answer", "check_output")


@pytest.mark.parametrize("fails", ["raised", "given up"])
def test_an_answer_that_not_all_guardrails_passed_is_not_kept(fails: str) -> None:
    play = proposed(keep_open=True, session=True, required_steps=GUARDED)
    play.saved()
    if fails == "raised":
        play.concluded(failure=Failure(code="ValueError", message="Oh."), results=(PASSED,))
    else:
        play.fails(play.only(FinalizeAnswer), "ValueError")
    assert play.answers() == [(("start",), "ValueError")]
    assert text_of(play.state.items[1].raw) == phrases.UNCHECKED
    play.hears("m2")
    assert [item.kind for item in items_of(play.state, play.only(CallModel))] == ["input", "input"]
    assert ranges(play) == [(0, 1), (2, 3)]


def test_a_blocked_answer_is_nowhere_in_the_state() -> None:
    play = Play.ready(keep_open=True)
    play.replies(
        ({"type": "reasoning", "id": "r", "summary": [{"text": "a secret"}]}, None),
        ({"type": "image_generation_call", "id": "i", "result": "a secret"}, None),
        said("a secret"),
        required_steps=GUARDED,
    )
    assert visible_item_count(play.state) == 2, "reasoning is no answer"
    play.concluded(results=(TRIPPED,), failure=BLOCKED, withheld="Withheld.")
    assert "a secret" not in repr(play.state)
    assert [item.raw.get("type") for item in play.state.items[1:]] == [
        "reasoning",
        "image_generation_call",
        "message",
    ]
    assert visible_item_count(play.state) == 4


@pytest.mark.parametrize("form", ["function", "patch"])
def test_a_tool_output_that_is_blocked_as_the_answer_is_nowhere_in_the_state(form: str) -> None:
    play = Play.ready(keep_open=True)
    made = tool("f", "c1", final=True) if form == "function" else patch("c1", final=True)
    play.replies(made, required_steps=GUARDED)
    play.returns("c1", "a secret")
    assert visible_item_count(play.state) == 2
    play.concluded(results=(TRIPPED,), failure=BLOCKED, withheld="Withheld.")
    assert "a secret" not in repr(play.state)
    assert play.outputs["c1"] == "Withheld."


def test_a_nested_run_tells_of_a_blocked_answer_and_keeps_nothing_of_it() -> None:
    play = proposed(said("a secret"), required_steps=GUARDED)
    play.concluded(results=(TRIPPED,), output="It was blocked.", replaced=True)
    assert play.finish.final_output == "It was blocked."
    assert "a secret" not in repr(play.state.items)


def test_items_that_may_be_the_answer_are_released_when_they_are_not() -> None:
    play = Play.ready()
    play.replies(
        said("Wait."),
        tool("f", "c1", final=True),
        transfer("Billing", "h1"),
        required_steps=GUARDED,
    )
    assert visible_item_count(play.state) == 1
    play.returns("c1")
    assert visible_item_count(play.state) == len(play.state.items)


def test_a_conclusion_that_fails_fails_the_question() -> None:
    play = proposed(handled=("*",))
    failure = play.fails(play.only(FinalizeAnswer))
    assert play.finish.failure == failure


def test_a_cancel_stops_a_conclusion() -> None:
    play = proposed()
    play.cancelled()
    assert (play.finish.status, play.state.question.candidate, play.state.answers) == (
        "cancelled",
        None,
        (),
    )


def test_a_gentle_cancel_lets_an_answer_be_concluded() -> None:
    play = proposed(keep_open=True)
    play.cancelled("after_turn")
    play.concluded()
    assert (play.finish.status, play.finish.final_output) == ("completed", "Hello.")


# --- Tools that answer ---------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "output"), [(None, "42"), ({"n": 42}, {"n": 42}), (0, 0)])
def test_the_output_of_a_final_tool_is_the_answer(value: Json, output: Json) -> None:
    play = Play.ready()
    play.replies(tool("count", "c1", final=True))
    assert play.running("c1").final
    play.returns("c1", "42", value=value)
    assert play.finish.final_output == output
    assert play.state.answers == (Answer(("start",), None, "Triage"),)
    assert play.kinds == ["input", "tool_call", "tool_output"]


def test_of_several_tools_the_first_final_one_answers_when_all_are_done() -> None:
    play = Play.ready()
    play.replies(tool("f", "c1"), tool("g", "c2", final=True), tool("h", "c3", final=True))
    play.returns("c3", "three")
    play.returns("c2", "two")
    assert play.state.phase == "acting"
    play.returns("c1", "one")
    assert play.finish.final_output == "two"


def test_a_handoff_outranks_a_final_tool() -> None:
    play = Play.ready()
    play.replies(tool("f", "c1", final=True), transfer("Billing", "h1"))
    play.returns("c1")
    assert (play.state.agent, play.state.phase) == ("Billing", "thinking")


def test_a_rule_judges_the_outputs_of_all_tools_rejections_included() -> None:
    play = Play.ready()
    play.replies(gated("f", "c1"), tool("g", "c2"), unknown("nobody", "c3"), judged=True)
    assert play.running("c2").final
    play.decided("a1", "reject", message="No.")
    play.returns("c2", "two", value=2)
    outcomes = (
        ToolOutcome(name="f", call_id="c1", output="No."),
        ToolOutcome(name="g", call_id="c2", output="two", value=2),
    )
    candidate = Candidate(outcomes=outcomes, tool_made=True)
    assert play.only(FinalizeAnswer).candidate == candidate
    play.concluded(output=2, replaced=True)
    assert play.finish.final_output == 2


def test_a_rule_may_send_the_outputs_to_the_model() -> None:
    play = judging(tool("f", "c1"))
    play.concluded(final=False)
    assert play.only(CallModel).turn == 2
    play.replies(said("Done."))
    assert play.finish.final_output == "Done."


def test_calls_that_nobody_offers_are_not_judged() -> None:
    play = judging(unknown("nobody", "c1"))
    assert play.only(CallModel).turn == 2


def test_a_blocked_tool_output_is_saved_with_what_stands_for_it() -> None:
    play = judging(tool("f", "c1"), session=True)
    play.saved()
    play.concluded(results=(TRIPPED,), failure=BLOCKED, withheld="Withheld.")
    save = play.only(SaveSession)
    assert (save.start, save.stop, save.withheld) == (1, 3, "Withheld.")
    play.saved()
    assert play.finish.failure == BLOCKED


def test_a_blocked_tool_output_has_a_placeholder_where_the_worker_gave_none() -> None:
    play = judging(tool("f", "c1"), session=True)
    play.saved()
    play.concluded(results=(TRIPPED,), failure=BLOCKED)
    assert play.only(SaveSession).withheld == phrases.WITHHELD


# --- Handlers ------------------------------------------------------------------------------------


MESSAGE = said("I could not find out.")[0]


@pytest.mark.parametrize("handled", [("max_turns_exceeded",), ("x", "max_turns_exceeded"), ("*",)])
def test_a_handler_may_answer_when_the_turns_are_used_up(handled: tuple[str, ...]) -> None:
    play = Play.ready(max_turns=1, handled=handled)
    play.replies(tool("f", "c1"))
    play.returns("c1")
    failure = play.only(FinalizeAnswer).candidate.failure
    assert failure is not None
    assert failure.code == "max_turns_exceeded"
    play.concluded(output="I could not find out.", replaced=True, message=MESSAGE)
    assert (play.finish.status, play.finish.final_output) == ("completed", "I could not find out.")
    assert play.state.answers == (Answer(("start",), 3, "Triage"),)
    assert (play.state.items[3].raw, play.state.items[3].kind) == (MESSAGE, "message")


def test_an_answer_that_is_left_out_of_the_history_is_no_item() -> None:
    play = Play.ready(handled=("model_refusal",))
    play.replies(refused("I will not."))
    play.concluded(output="Sorry.", replaced=True)
    assert play.finish.final_output == "Sorry."
    assert play.kinds == ["input", "message"]
    assert play.state.answers == (Answer(("start",), None, "Triage"),)


def test_a_failure_that_nobody_handles_needs_no_conclusion() -> None:
    play = Play.ready(handled=("max_turns_exceeded",))
    play.replies(refused("I will not."))
    assert play.finish.status == "failed"
    assert "finalize_answer" not in {one.kind for one in play.issued}


@pytest.mark.parametrize("fields", [{"declined": True}, {"final": False}])
def test_a_failure_that_its_handler_declines_stands(fields: dict[str, bool]) -> None:
    play = Play.ready(max_turns=0, handled=("*",))
    play.concluded(**fields)
    assert play.finish.failure is not None
    assert play.finish.failure.code == "max_turns_exceeded"


def test_after_an_empty_answer_that_its_handler_declines_the_model_is_called_again() -> None:
    play = Play.ready(handled=("invalid_final_output",))
    play.replies(final="again", failure=Failure(code="invalid_final_output", message="Empty."))
    play.concluded(final=False)
    play.replies(said("Here."))
    assert play.finish.final_output == "Here."


def test_an_invalid_answer_that_its_handler_declines_stands() -> None:
    play = Play.ready(handled=("invalid_final_output",))
    play.replies(said("?"), failure=Failure(code="invalid_final_output", message="No JSON."))
    play.concluded(final=False, declined=True)
    assert play.finish.failure is not None


def test_a_handlers_own_failure_ends_the_question() -> None:
    play = Play.ready(max_turns=0, handled=("*",))
    failure = Failure(code="user_error", message="The handler returned nonsense.")
    play.concluded(failure=failure)
    assert play.finish.failure == failure


def test_an_answer_of_a_handler_can_be_blocked() -> None:
    play = Play.ready(max_turns=0, handled=("*",))
    play.concluded(output="Sorry.", replaced=True, results=(TRIPPED,), failure=BLOCKED)
    assert play.finish.failure == BLOCKED


def test_what_still_runs_is_stopped_before_a_handler_answers() -> None:
    play = Play.ready(handled=("*",))
    play.replies(tool("careful", "c1", fatal=True), tool("f", "c2"), gated("g", "c3"))
    sibling = play.running("c2").effect
    play.fails(play.running("c1"))
    assert play.stopped == [sibling]
    assert play.outputs["c3"] == phrases.NOT_RUN
    assert play.only(FinalizeAnswer).candidate.failure is not None
    play.concluded(output="Sorry.", replaced=True)
    assert play.finish.final_output == "Sorry."


def test_a_handler_waits_for_the_check_beside_the_turn() -> None:
    play = Play(max_turns=1, handled=("model_refusal",))
    play.prepared(required_steps=("check",))
    play.replies(refused("I will not."))
    assert play.state.phase == "finalizing"
    assert [one.kind for one in play.outstanding.values()] == ["check_input"]
    play.checked()
    play.concluded(output="Sorry.", replaced=True)
    assert play.finish.final_output == "Sorry."


@pytest.mark.parametrize("early", [False, True])
def test_a_tripwire_is_handled_whether_it_comes_before_the_reply_or_after(*, early: bool) -> None:
    play = Play(handled=("*",))
    play.prepared(required_steps=("check",))
    if not early:
        play.replies(said("Hello."))
    failure = play.fails(play.only(CheckInput), "input_guardrail_tripwire")
    assert play.only(FinalizeAnswer).candidate == Candidate(failure=failure)
    play.concluded(output="Sorry.", replaced=True)
    assert play.finish.final_output == "Sorry."


def test_a_failure_after_the_answer_is_not_handled_again() -> None:
    play = proposed(handled=("*",))
    play.concluded(results=(TRIPPED,), failure=BLOCKED)
    assert play.finish.failure == BLOCKED


@pytest.mark.parametrize("parent", [None, Parent(run_id="root", prefix="e3.")])
def test_an_agent_that_works_as_a_tool_and_ends_in_silence_tells_what_it_found(
    parent: Parent | None,
) -> None:
    play = Play.ready(parent=parent)
    play.replies(tool("look_up", "c1"))
    play.returns("c1", "It is in Dresden.")
    play.replies(said(""))
    assert play.finish.final_output == ("" if parent is None else "It is in Dresden.")


def test_an_agent_that_works_as_a_tool_may_have_nothing_to_tell() -> None:
    play = Play.ready(parent=Parent(run_id="root", prefix="e3."))
    play.replies(said(""))
    assert play.finish.final_output == ""


@pytest.mark.parametrize(
    ("stage", "answer"), [("tool_output", "Last words."), ("input", "Last words."), ("output", "")]
)
def test_last_words_stand_for_a_silent_answer_unless_guardrails_have_passed_that(
    stage: Any, answer: str
) -> None:
    play = Play.ready(parent=Parent(run_id="root", prefix="e1."))
    play.replies(tool("f", "c1"))
    play.returns("c1", "Last words.")
    play.replies(said(""), required_steps=("finalize_answer",))
    play.concluded(results=(GuardrailRecord(stage=stage, name="g", agent="Triage"),))
    assert play.finish.final_output == answer


def test_an_output_whose_guardrails_broke_is_not_saved_but_its_call_is() -> None:
    play = Play.ready(session=True)
    play.saved()
    play.replies(tool("f", "c1", final=True), required_steps=("finalize_answer", "check_output"))
    play.returns("c1", "a secret", value="a secret")
    play.fails(play.only(FinalizeAnswer))
    assert play.only(SaveSession).withheld == phrases.UNCHECKED


PARENT = Parent(run_id="root", prefix="e1.")


def test_the_value_of_a_nested_run_is_not_replaced_by_its_words() -> None:
    play = Play.ready(parent=PARENT)
    play.replies(said("In words."), final="value", value={"n": 1})
    assert play.finish.final_output == {"n": 1}


def test_a_nested_run_without_words_answers_with_those_of_its_question_only() -> None:
    play = Play(parent=PARENT)
    play.prepared(required_steps=("finalize_answer",))
    play.replies(said("First."), required_steps=("finalize_answer",))
    play.hears("m1")
    play.concluded()
    play.replies(said(""))
    assert play.finish.final_output == ""
