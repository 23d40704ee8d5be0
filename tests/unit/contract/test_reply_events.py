"""A whole reply, told as the events of a stream."""

import pytest

from outlast.contract.deltas import is_delta
from outlast.contract.reply_events import item_events, reply_events
from outlast.loop.values import JsonObject

REFUSAL: JsonObject = {"type": "refusal", "refusal": "No."}
MESSAGE: JsonObject = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [
        {"type": "output_text", "text": "Good morning.", "annotations": []},
        REFUSAL,
    ],
}
CALL: JsonObject = {
    "type": "function_call",
    "call_id": "c1",
    "name": "look",
    "arguments": '{"a":1}',
}
REASONING: JsonObject = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Hm."}],
    "content": [{"type": "reasoning_text", "text": "Well."}],
}


def kinds(item: JsonObject) -> list[str]:
    return [event["type"].removeprefix("response.") for event in item_events(item, 0)]


def test_a_message_is_told_part_by_part() -> None:
    assert kinds(MESSAGE) == [
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "content_part.added",
        "refusal.delta",
        "refusal.done",
        "content_part.done",
        "output_item.done",
    ]


def test_a_part_is_told_empty_first_and_whole_at_its_end() -> None:
    text: JsonObject = {"type": "output_text", "text": "Good morning.", "annotations": []}
    parts = [event["part"] for event in item_events(MESSAGE, 0) if "part" in event]
    assert parts == [{**text, "text": ""}, text, {"type": "refusal", "refusal": ""}, REFUSAL]


def test_calls_and_reasoning_are_told_too() -> None:
    assert kinds(CALL)[1:-1] == ["function_call_arguments.delta", "function_call_arguments.done"]
    assert kinds(REASONING)[1:-1] == [
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
    ]
    code: JsonObject = {"type": "code_interpreter_call", "code": "1 + 1"}
    assert kinds(code)[1:-1] == [
        "code_interpreter_call_code.delta",
        "code_interpreter_call_code.done",
    ]
    assert kinds({"type": "web_search_call", "id": "ws_1"}) == [
        "output_item.added",
        "output_item.done",
    ]


def test_each_command_of_a_shell_call_is_told() -> None:
    call: JsonObject = {"type": "shell_call", "action": {"commands": ["ls", "pwd"]}}
    events = list(item_events(call, 4))
    assert events[0]["item"]["action"] == {"commands": []}
    told = [(event["command_index"], event["delta"]) for event in events if is_delta(event)]
    assert told == [(0, "ls"), (1, "pwd")]
    assert kinds(call)[1:4] == [
        "shell_call_command.added",
        "shell_call_command.delta",
        "shell_call_command.done",
    ]
    assert kinds({"type": "shell_call"}) == ["output_item.added", "output_item.done"]


@pytest.mark.parametrize("item", [MESSAGE, CALL, REASONING])
def test_an_item_begins_empty_and_ends_as_it_is(item: JsonObject) -> None:
    first, *_, last = item_events(item, 3)
    assert {**last["item"], **item} == last["item"]
    assert first["output_index"] == last["output_index"] == 3
    assert first["item"]["status"] == "in_progress"
    empty = [first["item"].get(name) for name in ("content", "summary", "arguments")]
    assert not any(empty)


def test_an_item_without_an_id_gets_one_for_its_events() -> None:
    assert {event.get("item_id") or event["item"]["id"] for event in item_events(CALL, 2)} == {
        "item_2"
    }


def test_a_response_is_framed_and_cut_as_told() -> None:
    response: JsonObject = {"id": "r", "output": [MESSAGE], "usage": {"x": 1}, "completed_at": 5}
    events = list(reply_events(response, lambda text: text.split(" ")))
    begun: JsonObject = {
        **response,
        "status": "in_progress",
        "output": [],
        "usage": None,
        "completed_at": None,
    }
    assert events[0] == {"type": "response.created", "response": begun}
    assert events[-1] == {"type": "response.completed", "response": response}
    assert [event["delta"] for event in events if is_delta(event)] == ["Good", "morning.", "No."]
