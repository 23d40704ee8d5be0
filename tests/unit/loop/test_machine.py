"""The life of a run: how it starts, asks the model, and answers."""

from itertools import product

import pytest

from outlast.loop.effects import CallModel, EffectFailed, PrepareRun
from outlast.loop.events import (
    CancelRequested,
    Event,
    MessageReceived,
    RunStarted,
    SignalUnreadable,
)
from outlast.loop.machine import advance
from outlast.loop.start import Start
from outlast.loop.state import Answer, LoopState
from outlast.loop.transcript import KEPT_IGNORED
from outlast.loop.values import Failure, Usage
from tests.laws.driver import (
    BUSY,
    SITUATIONS,
    Part,
    Play,
    message,
    play_in,
    refused,
    said,
    searched,
    thought,
    tool,
    unknown,
)
from tests.laws.strategies import wrong_answer_to

# --- The start -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "event",
    [
        MessageReceived(at_ms=1, message=message("m1")),
        CancelRequested(at_ms=1),
        CancelRequested(at_ms=1, mode="after_turn"),
        SignalUnreadable(at_ms=1, name="x", problem="y"),
        EffectFailed(at_ms=1, effect=1, failure=Failure(code="a", message="b")),
    ],
)
def test_nothing_counts_before_the_start(event: Event) -> None:
    state = LoopState()
    assert advance(state, event) == (state, ())


def test_a_run_starts_with_looking_its_agent_up() -> None:
    play = Play(context={"n": 0}, max_turns=3, keep_open=True, context_type="Desk", settings={})
    state = play.state
    assert (state.phase, state.agent, state.handoff_path) == ("preparing", "Triage", ("Triage",))
    assert (state.start.max_turns, state.start.keep_open, state.start.settings) == (3, True, {})
    assert (state.context, state.start.context_type) == ({"n": 0}, "Desk")
    assert (state.run_id, state.start.started_at_ms) == (play.run_id, play.events[0].at_ms)
    assert (state.question.turn, state.turns, state.items) == (0, 0, ())
    assert [one.kind for one in play.commands if isinstance(one, PrepareRun)] == ["prepare_run"]


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_run_starts_once(situation: str) -> None:
    play = play_in(situation, keep_open=True)
    before = play.state
    play.take(
        RunStarted(at_ms=9, run_id="other", agent="Other", message=message("x"), start=Start())
    )
    assert play.state is before


def test_a_prepared_run_shows_the_question_to_the_model() -> None:
    play = Play(said=message("start", "Where is it?"))
    play.prepared(model="gpt-5")
    assert (play.state.phase, play.state.question.turn, play.state.model) == (
        "thinking",
        1,
        "gpt-5",
    )
    (item,) = play.state.items
    assert (item.kind, item.agent, item.turn) == ("input", "", 0)
    assert item.raw == {"role": "user", "content": "Where is it?"}
    assert play.state.question.answering == ("start",)


def test_a_run_that_cannot_be_prepared_fails_also_when_kept_open() -> None:
    for keep_open in (False, True):
        play = Play(keep_open=keep_open)
        failure = play.fails(play.only(PrepareRun), "user_error", "No agent Triage.")
        assert (play.finish.status, play.finish.failure) == ("failed", failure)
        assert play.state.items == ()


# --- Answers -------------------------------------------------------------------------------------

ANSWERS: list[tuple[list[Part], str, int | None]] = [
    ([said("Hello.")], "Hello.", 1),
    ([thought(), said("Hello.")], "Hello.", 2),
    ([said("Not this."), said("This.")], "This.", 2),
    ([said("This."), thought()], "This.", 1),
    ([said("")], "", 1),
    ([], "", None),
    ([thought()], "", None),
    ([searched()], "", None),
    ([refused("no"), said("Then yes.")], "Then yes.", 2),
]


@pytest.mark.parametrize(("parts", "output", "item"), ANSWERS)
def test_the_text_of_the_last_message_is_the_answer(
    parts: list[Part], output: str, item: int | None
) -> None:
    play = Play.ready()
    play.replies(*parts)
    assert (play.finish.status, play.finish.final_output) == ("completed", output)
    assert play.state.answers == (Answer(("start",), item, "Triage"),)
    assert (play.state.final_output, play.state.failure) == (output, None)
    assert (play.state.question.answering, play.state.phase) == ((), "closed")


@pytest.mark.parametrize("value", [{"a": 1}, [1], "text", "", 0, False, None])
def test_a_value_that_the_plan_found_is_the_answer(value: object) -> None:
    play = Play.ready()
    play.replies(said('{"raw": 1}'), final="value", value=value)
    assert play.finish.final_output == value
    assert play.state.answers[0].item == 1


def test_a_value_needs_no_message_and_outranks_a_refusal() -> None:
    play = Play.ready()
    play.replies(thought(), final="value", value=3)
    assert play.state.answers == (Answer(("start",), None, "Triage"),)
    play = Play.ready()
    play.replies(refused("no"), final="value", value=3)
    assert play.finish.final_output == 3


@pytest.mark.parametrize(
    "parts", [[refused("I will not.")], [said("Well."), refused("I will not.")]]
)
def test_a_refusal_in_the_last_message_is_a_failure(parts: list[Part]) -> None:
    play = Play.ready()
    play.replies(*parts)
    assert play.finish.failure == Failure(code="model_refusal", message="I will not.")
    assert play.answers() == [(("start",), "model_refusal")]
    assert len(play.state.items) == 1 + len(parts)


def test_a_reply_that_says_nothing_yet_asks_the_model_again() -> None:
    play = Play.ready()
    play.replies(searched(), final="again")
    call = play.only(CallModel)
    assert (call.turn, call.input_length, play.state.phase) == (2, 2, "thinking")
    play.replies(said("Now."))
    assert (play.finish.final_output, play.state.turns) == ("Now.", 2)


def test_text_next_to_a_call_is_no_answer() -> None:
    play = Play.ready()
    play.replies(said("I will look."), tool("look_up", "c1"))
    assert (play.state.phase, play.state.answers) == ("acting", ())
    play.returns("c1")
    play.replies(said("Found."))
    assert play.finish.final_output == "Found."


def test_a_reply_counts_its_usage_and_names_its_model() -> None:
    play = Play.ready()
    play.replies(tool("f", "c1"), usage=Usage(requests=1, input_tokens=7), model="gpt-5-mini")
    play.returns("c1")
    play.replies(said("Done."), usage=Usage(requests=1, output_tokens=2))
    assert play.state.usage == Usage(requests=2, input_tokens=7, output_tokens=2)
    assert play.state.model == "gpt-5-mini"


# --- Turns ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_turns", [1, 2, 3, 7])
def test_a_run_makes_as_many_model_calls_as_it_may_and_no_more(max_turns: int) -> None:
    play = Play.ready(max_turns=max_turns)
    for turn in range(1, max_turns + 1):
        assert play.only(CallModel).turn == turn
        play.replies(tool("f", f"c{turn}"))
        play.returns(f"c{turn}")
    assert play.finish.failure is not None
    assert play.finish.failure.code == "max_turns_exceeded"
    assert f"{max_turns} model call" in play.finish.failure.message
    assert play.state.turns == max_turns
    assert len(play.outputs) == max_turns, "the last tool has run, and its output is kept"


def test_an_answer_on_the_last_turn_counts() -> None:
    play = Play.ready(max_turns=1)
    play.replies(said("Just in time."))
    assert play.finish.status == "completed"


def test_a_run_that_may_not_ask_the_model_fails_without_asking() -> None:
    play = Play.ready(max_turns=0)
    assert play.finish.failure is not None
    assert play.finish.failure.code == "max_turns_exceeded"
    assert [one.kind for one in play.issued] == ["prepare_run"]
    assert play.answers() == [(("start",), "max_turns_exceeded")]
    assert play.kinds == ["input"]


def test_a_run_without_a_bound_goes_on() -> None:
    play = Play.ready(max_turns=None)
    for turn in range(60):
        play.replies(tool("f", f"c{turn}"))
        play.returns(f"c{turn}")
    play.replies(said("At last."))
    assert (play.finish.status, play.state.turns) == ("completed", 61)


def test_asking_again_and_handing_over_use_up_turns_too() -> None:
    play = Play.ready(max_turns=2)
    play.replies(searched(), final="again")
    play.replies(unknown("f", "c1"))
    assert play.finish.failure is not None
    assert play.finish.failure.code == "max_turns_exceeded"


def test_each_question_has_the_whole_budget_and_turns_are_counted_on() -> None:
    play = Play.ready(max_turns=2, keep_open=True)
    for number in range(3):
        play.replies(tool("f", f"c{number}"))
        play.returns(f"c{number}")
        play.replies(said("Done."))
        play.hears(f"m{number}")
    assert (play.state.question.turn, play.state.turns) == (1, 7)
    assert [item.turn for item in play.state.items if item.kind == "message"] == [2, 4, 6]


# --- What does not count -------------------------------------------------------------------------


@pytest.mark.parametrize("situation", BUSY)
def test_an_answer_of_the_wrong_type_changes_nothing(situation: str) -> None:
    play = play_in(situation)
    before = play.state
    for effect, which in product(list(play.outstanding.values()), range(3)):
        answer = wrong_answer_to(effect, which, play.now_ms)
        assert play.take(answer) == (), answer
        assert play.state is before, answer


@pytest.mark.parametrize("situation", SITUATIONS)
def test_every_event_so_far_may_come_again(situation: str) -> None:
    play = play_in(situation, keep_open=True)
    before = play.state
    for event in list(play.events):
        play.take(event)
    assert play.state is before


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_failure_of_an_effect_that_nobody_asked_for_changes_nothing(situation: str) -> None:
    play = play_in(situation, keep_open=True)
    before = play.state
    failure = Failure(code="stray", message="stray")
    for number in (0, -1, 99):
        play.take(EffectFailed(at_ms=1, effect=number, failure=failure))
        assert play.state is before, number


@pytest.mark.parametrize("situation", SITUATIONS)
def test_an_unreadable_signal_is_noted_and_has_no_effect(situation: str) -> None:
    play = play_in(situation, keep_open=True)
    at_ms = play.now_ms
    play.hears_noise()
    (note,) = play.state.ignored
    assert (note.at_ms, note.what, note.why) == (at_ms, "signal x", "No.")


def test_only_the_newest_notes_are_kept() -> None:
    play = Play.ready()
    for at_ms in range(KEPT_IGNORED + 5):
        play.take(SignalUnreadable(at_ms=at_ms, name="x", problem="y"))
    assert [note.at_ms for note in play.state.ignored] == list(range(5, KEPT_IGNORED + 5))


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
def test_a_closed_run_takes_nothing_more(end: str) -> None:
    play = play_in("mixed")
    if end == "cancelled":
        play.cancelled()
    else:
        play.returns("c1")
        play.decided("a1", "reject")
        play.replies(said("Done.") if end == "completed" else refused("No."))
    assert play.state.outcome == end
    before = play.state
    for event in list(play.events):
        play.take(event)
    play.hears("m2")
    play.decided("a1")
    play.cancelled("after_turn")
    play.hears_noise()
    assert play.state is before
