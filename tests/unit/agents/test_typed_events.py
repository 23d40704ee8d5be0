"""Raw events as the objects of the `openai` package."""

import subprocess
import sys

import pytest
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionCallArgumentsDeltaEvent,
    ResponseOutputItemDoneEvent,
    ResponseOutputMessage,
    ResponseTextDeltaEvent,
)

from outlast.agents.items.typed_events import load_event_types, typed_event
from outlast.contract.streams.reply_events import reply_events
from outlast.loop.values import JsonObject

DELTA: JsonObject = {
    "type": "response.output_text.delta",
    "item_id": "msg_1",
    "output_index": 0,
    "content_index": 0,
    "delta": "Hi",
    "sequence_number": 4,
    "logprobs": [],
}


def test_a_delta_is_what_programs_ask_for() -> None:
    event = typed_event(DELTA)
    assert isinstance(event, ResponseTextDeltaEvent)
    assert (event.delta, event.item_id, event.sequence_number) == ("Hi", "msg_1", 4)
    assert event.to_dict() == DELTA


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("response.function_call_arguments.delta", ResponseFunctionCallArgumentsDeltaEvent),
        ("response.output_item.done", ResponseOutputItemDoneEvent),
        ("response.completed", ResponseCompletedEvent),
    ],
)
def test_the_type_says_the_class_also_where_fields_are_missing(kind: str, expected: type) -> None:
    assert type(typed_event({"type": kind})) is expected


def test_what_is_inside_is_typed_too() -> None:
    text: JsonObject = {"type": "output_text", "text": "Hi", "annotations": []}
    message: JsonObject = {"type": "message", "id": "m", "role": "assistant", "content": [text]}
    events = [typed_event(raw) for raw in reply_events({"id": "r", "output": [message]})]
    done = next(event for event in events if isinstance(event, ResponseOutputItemDoneEvent))
    assert isinstance(done.item, ResponseOutputMessage)
    last = events[-1]
    assert isinstance(last, ResponseCompletedEvent)
    assert isinstance(last.response, Response)
    assert last.response.output_text == "Hi"


def test_an_event_that_nobody_knows_has_its_fields_as_attributes() -> None:
    event = typed_event({"type": "outlast.attempt_restarted", "attempt": 2})
    assert getattr(event, "type", None) == "outlast.attempt_restarted"
    assert getattr(event, "attempt", None) == 2
    assert getattr(typed_event({"delta": 5}), "delta", None) == 5


async def test_the_types_can_be_loaded_before_the_first_event() -> None:
    await load_event_types()
    assert isinstance(typed_event(DELTA), ResponseTextDeltaEvent)


def test_the_module_alone_does_not_import_openai() -> None:
    code = "import sys, outlast.agents.items.typed_events; sys.exit('openai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
