"""Turns: one record for each response, with what the user said before it."""

from outlast.agents.usage import Usage
from outlast.loop.values import JsonObject
from outlast.realtime.port import model_events as events
from outlast.realtime.port.items import (
    AssistantAudio,
    AssistantMessageItem,
    InputAudio,
    InputImage,
    InputText,
    RealtimeItem,
    UserMessageItem,
)
from outlast.realtime.turns import NO_TRANSCRIPT, FinishedTurn, Turns


def updated(item: RealtimeItem) -> events.RealtimeModelItemUpdatedEvent:
    return events.RealtimeModelItemUpdatedEvent(item=item)


def typed(item_id: str, text: str) -> events.RealtimeModelItemUpdatedEvent:
    return updated(UserMessageItem(item_id=item_id, content=[InputText(text=text)]))


def spoken(item_id: str, transcript: str | None = None) -> events.RealtimeModelItemUpdatedEvent:
    return updated(UserMessageItem(item_id=item_id, content=[InputAudio(transcript=transcript)]))


def answer(item_id: str, transcript: str | None) -> events.RealtimeModelItemUpdatedEvent:
    content = [AssistantAudio(transcript=transcript)]
    return updated(AssistantMessageItem(item_id=item_id, content=[*content]))


def call(call_id: str) -> events.RealtimeModelToolCallEvent:
    return events.RealtimeModelToolCallEvent(name="track", call_id=call_id, arguments="{}")


def started(response_id: str | None = "r1") -> events.RealtimeModelTurnStartedEvent:
    return events.RealtimeModelTurnStartedEvent(response_id=response_id)


def ended(response_id: str | None = "r1") -> events.RealtimeModelTurnEndedEvent:
    return events.RealtimeModelTurnEndedEvent(response_id=response_id)


def taken(turns: Turns, *given: events.RealtimeModelEvent) -> list[FinishedTurn]:
    return [turn for event in given for turn in turns.take(event)]


def texts(turn: FinishedTurn) -> list[str]:
    return [raw["content"][0]["text"] for raw in turn.output if raw["type"] == "message"]


def said(text: str) -> JsonObject:
    return {"role": "user", "content": text}


def test_a_turn_has_what_was_said_before_it_and_what_was_answered() -> None:
    turns = Turns()
    usage = events.RealtimeModelUsageEvent(usage=Usage(requests=1, input_tokens=7, total_tokens=7))
    [turn] = taken(turns, typed("u1", "Hi"), started(), answer("a1", "Hello."), usage, ended())
    assert (turn.response_id, texts(turn), turn.usage.input_tokens) == ("r1", ["Hello."], 7)
    assert turns.take_said(turn) == (said("Hi"),)
    assert turns.take_said() == ()


def test_messages_and_calls_keep_their_order() -> None:
    [turn] = taken(
        Turns(), started(), answer("a1", "Let me look."), call("c1"), call("c2"), ended()
    )
    assert [raw["type"] for raw in turn.output] == ["message", "function_call", "function_call"]
    assert turn.calls_tools


def test_a_transcript_that_came_in_pieces_counts_where_no_item_has_it() -> None:
    pieces = [
        events.RealtimeModelTranscriptDeltaEvent(item_id="a1", delta=delta, response_id="r1")
        for delta in ("It is ", "on its way.")
    ]
    [turn] = taken(Turns(), started(), answer("a1", None), *pieces, ended())
    assert texts(turn) == ["It is on its way."]
    [other] = taken(Turns(), *pieces, ended())
    assert texts(other) == ["It is on its way."], "a response whose start did not arrive"


def test_what_is_said_during_a_response_belongs_to_the_next_one() -> None:
    turns = Turns()
    first, second = taken(
        turns,
        typed("u1", "Hi"),
        started("r1"),
        typed("u2", "And my invoice?"),
        answer("a1", "Hello."),
        ended("r1"),
        started("r2"),
        answer("a2", "It is paid."),
        ended("r2"),
    )
    assert turns.take_said(first) == (said("Hi"),)
    assert turns.take_said(second) == (said("And my invoice?"),)


def test_a_response_cut_off_before_a_word_leaves_the_question_to_the_next_one() -> None:
    turns = Turns()
    empty, second = taken(
        turns,
        typed("u1", "Hi"),
        started("r1"),
        ended("r1"),
        started("r2"),
        answer("a2", "Hello."),
        ended("r2"),
    )
    assert empty.output == ()
    assert turns.take_said(second) == (said("Hi"),)


def test_a_message_of_the_program_and_the_providers_copy_of_it_are_one() -> None:
    turns = Turns()
    turns.send("Hi")
    turns.send(
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "This one"},
                {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "low"},
            ],
        }
    )
    image = InputImage(image_url="data:image/png;base64,AA", detail="low")
    copy = UserMessageItem(item_id="u2", content=[InputText(text="This one"), image])
    [turn] = taken(turns, typed("u1", "Hi"), updated(copy), started(), call("c1"), ended())
    one, other = turns.take_said(turn)
    assert one == said("Hi")
    assert other["content"][1] == {
        "type": "input_image",
        "image_url": "data:image/png;base64,AA",
        "detail": "low",
    }


def test_a_message_counts_even_if_the_provider_does_not_repeat_it() -> None:
    turns = Turns()
    turns.send("Hi")
    [turn] = taken(turns, started(None), answer("a1", "Hello."), ended(None))
    assert turn.response_id.startswith("line-")
    assert turns.take_said(turn) == (said("Hi"),)
    assert taken(turns, typed("u1", "Hi")) == [], "a late copy"
    assert turns.take_said() == ()


def test_a_turn_waits_for_the_transcript_of_what_was_said_before_it() -> None:
    turns = Turns()
    [turn] = taken(turns, spoken("u1"), started(), call("c1"), ended())
    assert turns.waits(turn)
    turns.take(
        events.RealtimeModelInputAudioTranscriptionCompletedEvent(
            item_id="u1", transcript="Where is A-17?"
        )
    )
    assert not turns.waits(turn)
    assert turns.take_said(turn) == (said("Where is A-17?"),)


def test_a_transcript_that_comes_too_late_is_part_of_the_next_turn() -> None:
    turns = Turns()
    [first] = taken(turns, spoken("u1"), started(), call("c1"), ended())
    assert turns.take_said(first) == (said(NO_TRANSCRIPT),)
    late = events.RealtimeModelInputAudioTranscriptionCompletedEvent(
        item_id="u1", transcript="Where is A-17?"
    )
    [second] = taken(turns, late, late, started("r2"), answer("a1", "On its way."), ended("r2"))
    assert turns.take_said(second) == (said("Where is A-17?"),)
    assert taken(turns, late) == []
    assert turns.take_said() == ()


def test_items_of_the_transcript_are_not_reported_again() -> None:
    turns = Turns()
    turns.ignore_item("ol_1")
    [turn] = taken(turns, typed("ol_1", "sent by text"), started(), answer("a1", "Yes."), ended())
    assert turns.take_said(turn) == ()


def test_a_call_of_a_model_that_sends_no_turns_is_a_turn() -> None:
    turns = Turns()
    [turn] = taken(turns, call("c1"))
    assert (turn.response_id, turn.calls_tools) == ("call-c1", True)
    assert taken(turns, call("c1")) == [], "the same call again"


def test_the_end_of_the_connection_ends_the_turn() -> None:
    turns = Turns()
    delta = events.RealtimeModelOutputTextDeltaEvent(item_id="a1", delta="I am", response_id="r1")
    assert taken(turns, started(), delta) == []
    assert turns.speaks
    [turn] = turns.end()
    assert texts(turn) == ["I am"]
    assert turns.end() == []


def test_a_new_response_ends_one_whose_end_did_not_arrive() -> None:
    first, second = taken(
        Turns(), started("r1"), answer("a1", "One"), started("r2"), answer("a2", "Two"), ended("r2")
    )
    assert (texts(first), texts(second)) == (["One"], ["Two"])


def test_words_without_an_answer_are_kept_for_a_new_connection() -> None:
    turns = Turns()
    taken(turns, typed("u1", "Hi"), typed("u2", ""))
    assert turns.unanswered() == (said("Hi"),)
    taken(turns, events.RealtimeModelItemDeletedEvent(item_id="u1"))
    assert turns.unanswered() == ()
