"""Further messages: none is lost or doubled, wherever the run is when they come."""

import pytest

from outlast.loop.effects import (
    CallModel,
    CancelResponse,
    CheckInput,
    CompactView,
    CountHours,
    FinalizeAnswer,
    KeepLineOpen,
    NotifyPeople,
    OffloadItems,
    PrepareRun,
    RunAgent,
    RunHandoff,
    RunTool,
    SaveSession,
)
from outlast.loop.events import MessageReceived
from outlast.loop.items import Message
from tests.laws.driver import BUSY, SITUATIONS, Play, gated, message, play_in, refused, said, tool


def finish_turn(play: Play) -> None:  # noqa: C901  a row for each effect
    """Answer whatever the run waits for, until the model is asked about all that was said."""
    while play.state.inbox:
        if play.state.pending_approvals:
            play.decided(play.state.pending_approvals[0].id, "reject")
            continue
        effect = next(iter(play.outstanding.values()))
        match effect:
            case PrepareRun():
                play.prepared()
            case CheckInput():
                play.checked()
            case CallModel():
                play.replies(tool("f", "c1"))
            case RunHandoff():
                play.called_back()
            case RunAgent():
                play.worked(final_output="done")
            case FinalizeAnswer():
                play.concluded(final=False)
            case KeepLineOpen():
                play.hung_up()
            case NotifyPeople():
                play.notified()
            case SaveSession():
                play.saved()
            case RunTool():
                play.returns(effect.call_id)
            case OffloadItems() | CompactView() | CancelResponse() | CountHours():
                raise AssertionError("nothing here is large, or in the background")


@pytest.mark.parametrize("situation", BUSY)
def test_a_message_to_a_busy_run_waits_for_the_next_model_call(situation: str) -> None:
    play = play_in(situation)
    phase = play.state.phase
    assert play.hears("m2", "And my invoice?") == ()
    assert play.state.phase == phase
    assert [one.id for one in play.state.inbox if one.id != "start"] == ["m2"]
    finish_turn(play)
    assert play.state.inbox == ()
    assert play.state.question.answering == ("start", "m2")
    assert play.state.items[-1].raw == {"role": "user", "content": "And my invoice?"}
    play.replies(said("Here."))
    assert play.answers() == [(("start", "m2"), None)]


@pytest.mark.parametrize("keep_open", [False, True])
def test_a_message_that_came_while_the_model_answered_is_the_next_question(
    *, keep_open: bool
) -> None:
    play = Play.ready(keep_open=keep_open)
    play.hears("m2")
    (command,) = play.replies(said("First answer."))
    assert command == play.only(CallModel)
    assert (play.state.question.answering, play.state.question.turn, play.state.turns) == (
        ("m2",),
        1,
        2,
    )
    play.replies(said("Second answer."))
    assert play.answers() == [(("start",), None), (("m2",), None)]
    assert play.state.phase == ("idle" if keep_open else "closed")
    assert play.state.final_output == "Second answer."


def test_a_message_to_an_idle_conversation_is_asked_at_once() -> None:
    play = play_in("idle", keep_open=True)
    (command,) = play.hears("m2", "And now?")
    assert command == play.only(CallModel)
    assert play.only(CallModel).input_length == 3
    assert play.state.question.answering == ("m2",)


def test_a_conversation_stays_open_after_its_answer() -> None:
    play = play_in("idle", keep_open=True)
    assert (play.state.phase, play.state.outcome) == ("idle", None)
    assert (play.state.final_output, play.state.question.turn) == ("Hello to you.", 0)


def test_messages_are_shown_in_the_order_in_which_they_came() -> None:
    play = Play()
    for name in ("m1", "m2", "m3"):
        play.hears(name)
    play.prepared()
    shown = [item.raw["content"] for item in play.state.items]
    assert shown == ["Hello", "text of m1", "text of m2", "text of m3"]
    play.replies(said("To all."))
    assert play.answers() == [(("start", "m1", "m2", "m3"), None)]


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_message_sent_twice_is_one_message(situation: str) -> None:
    play = play_in(situation, keep_open=True)
    play.hears("m2", "once")
    before = play.state
    play.hears("m2", "once")
    play.hears("m2", "with other words")
    play.hears("start")
    assert play.state is before


def test_a_message_answered_long_ago_is_still_known() -> None:
    play = Play.ready(keep_open=True)
    for number in range(4):
        play.replies(said("Done."))
        play.hears(f"m{number}")
    play.replies(said("Done."))
    before = play.state
    for number in range(4):
        play.hears(f"m{number}")
    assert play.state is before


def test_a_message_whose_question_failed_is_known_too() -> None:
    play = Play.ready(keep_open=True)
    play.fails(play.only(CallModel))
    before = play.state
    play.hears("start")
    assert play.state is before


@pytest.mark.parametrize(
    "content",
    [
        (),
        ({"role": "user", "content": "a"}, {"role": "user", "content": "b"}),
        ({"role": "developer", "content": [{"type": "input_text", "text": "x"}]},),
    ],
)
def test_a_message_may_hold_any_number_of_items(content: tuple[dict[str, object], ...]) -> None:
    play = Play.ready(said=Message("start", content))
    assert tuple(item.raw for item in play.state.items) == content
    assert play.state.question.answering == ("start",)


def test_a_message_during_an_approval_leaves_the_approval() -> None:
    play = play_in("waiting", keep_open=True)
    play.hears("m2", "Please hurry.")
    assert play.state.status == "waiting"
    play.decided("a1")
    play.returns("c1")
    assert play.state.items[-1].raw["content"] == "Please hurry."
    assert play.state.items[-2].kind == "tool_output"


def test_a_message_does_not_give_a_question_further_turns() -> None:
    play = Play.ready(max_turns=2, keep_open=True)
    play.replies(tool("f", "c1"))
    play.hears("m2")
    play.returns("c1")
    assert play.only(CallModel).turn == 2


@pytest.mark.parametrize("ending", ["model", "refusal", "fatal"])
def test_a_message_that_came_during_a_failure_is_the_next_question(ending: str) -> None:
    play = Play.ready(keep_open=True)
    if ending == "fatal":
        play.replies(tool("f", "c1", fatal=True), gated("g", "c2"))
    play.hears("m2")
    match ending:
        case "model":
            play.fails(play.only(CallModel))
        case "refusal":
            play.replies(refused("No."))
        case _:
            play.fails(play.running("c1"))
    assert play.state.phase == "thinking"
    assert (play.state.question.answering, play.state.question.turn) == (("m2",), 1)
    assert [to for to, code in play.answers() if code] == [("start",)]
    play.replies(said("This one works."))
    assert (play.state.final_output, play.state.failure) == ("This one works.", None)


def test_a_failure_of_the_question_before_is_no_failure_of_the_one_being_worked_on() -> None:
    """`failure` says why the newest message has no answer; this one is still being answered."""
    play = Play.ready(keep_open=True)
    play.fails(play.only(CallModel))
    assert play.state.failure is not None
    play.hears("m2")
    assert play.state.failure is None
    play.cancelled()
    assert (play.finish.status, play.finish.failure) == ("cancelled", None)


def test_arrival_times_are_kept_until_a_message_is_shown() -> None:
    play = Play.ready()
    at_ms = play.now_ms
    play.hears("m2")
    assert play.state.inbox == (message("m2", "", at_ms),)


def test_the_model_calls_of_a_question_stream_from_the_message_on_that_asks_for_it() -> None:
    play = Play.ready(keep_open=True)
    assert not play.only(CallModel).streams
    asks = Message("m2", message("m2", "Quickly.").content, play.now_ms, stream=True)
    play.take(MessageReceived(at_ms=play.now_ms, message=asks))
    play.replies(tool("look_up", "c1"))
    play.returns("c1")
    assert play.only(CallModel).streams, "the message has joined the question"
    play.replies(said("Here."))
    play.hears("m3", "Thanks.")
    assert not play.only(CallModel).streams, "the next question is another one"


def test_a_question_that_is_retried_streams_as_before() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("Hello."))
    asks = Message("m2", message("m2", "And now?").content, play.now_ms, stream=True)
    play.take(MessageReceived(at_ms=play.now_ms, message=asks))
    play.fails(play.only(CallModel))
    play.retried()
    assert play.only(CallModel).streams
