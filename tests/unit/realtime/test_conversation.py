"""The history of a session loses nothing when the provider sends an item again."""

from typing import Any, cast

from outlast.realtime.conversation import Conversation
from outlast.realtime.port import model_events as events
from outlast.realtime.port.items import (
    AssistantAudio,
    AssistantMessageItem,
    AssistantText,
    InputAudio,
    InputImage,
    InputText,
    RealtimeItem,
    RealtimeToolCallItem,
    UserMessageItem,
)


def after(*given: events.RealtimeModelEvent) -> Conversation:
    conversation = Conversation()
    for event in given:
        conversation = conversation.take(event)
    return conversation


def updated(item: RealtimeItem) -> events.RealtimeModelItemUpdatedEvent:
    return events.RealtimeModelItemUpdatedEvent(item=item)


def user(item_id: str, *content: Any, previous: str | None = None) -> Any:
    return updated(
        UserMessageItem(item_id=item_id, content=list(content), previous_item_id=previous)
    )


def part(conversation: Conversation, item_id: str, index: int = 0) -> Any:
    return cast("Any", conversation.find(item_id)).content[index]


def test_a_new_item_stands_after_the_item_that_it_names() -> None:
    conversation = after(
        user("a", InputText(text="1")),
        user("c", InputText(text="3")),
        user("b", InputText(text="2"), previous="a"),
        user("d", InputText(text="4"), previous="unknown"),
    )
    assert [item.item_id for item in conversation.items] == ["a", "b", "c", "d"]


def test_a_transcript_stays_when_the_item_comes_again_without_it() -> None:
    transcript = events.RealtimeModelInputAudioTranscriptionCompletedEvent(
        item_id="u", transcript="Where is it?"
    )
    conversation = after(user("u", InputAudio()), transcript, user("u", InputAudio()))
    assert part(conversation, "u").transcript == "Where is it?"
    assert part(after(transcript), "u").text == "Where is it?", "an item that is new"


def test_speech_grows_and_stays_when_the_item_comes_without_it() -> None:
    first, second = (
        events.RealtimeModelTranscriptDeltaEvent(item_id="a", delta=delta, response_id="r")
        for delta in ("On its ", "way.")
    )
    empty = updated(AssistantMessageItem(item_id="a", content=[AssistantAudio()]))
    conversation = after(empty, first, second, empty)
    assert part(conversation, "a").transcript == "On its way."
    assert after(first, events.RealtimeModelTurnEndedEvent()).growing == {}


def test_text_and_images_stay() -> None:
    image = InputImage(image_url="data:image/png;base64,AA")
    conversation = after(
        user("u", InputText(text="Look"), image), user("u", InputText(), InputText(text="again"))
    )
    item = cast("Any", conversation.find("u"))
    assert [one.type for one in item.content] == ["input_image", "input_text", "input_text"]
    assert [one.text for one in item.content[1:]] == ["Look", "again"]
    text = updated(AssistantMessageItem(item_id="a", content=[AssistantText(text="Yes")]))
    nothing = updated(AssistantMessageItem(item_id="a", content=[]))
    assert part(after(text, nothing), "a").text == "Yes"


def test_a_call_is_replaced_by_the_call_with_its_output() -> None:
    open_call = RealtimeToolCallItem(
        item_id="c", call_id="c1", status="in_progress", arguments="{}", name="track"
    )
    done = open_call.model_copy(update={"status": "completed", "output": "sent"})
    conversation = after(updated(open_call), updated(done))
    assert conversation.items == (done,)


def test_a_deleted_item_is_gone() -> None:
    conversation = after(
        user("a", InputText(text="1")), events.RealtimeModelItemDeletedEvent(item_id="a")
    )
    assert conversation.items == ()
