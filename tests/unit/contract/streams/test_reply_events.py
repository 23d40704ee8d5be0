"""A whole reply, told as the events of a stream."""

import pytest

from outlast.contract.streams.reply_events import (
    item_events,
    reply_events,
    response_object,
    whole_texts,
)
from outlast.contract.streams.window import is_delta
from outlast.loop.values import JsonObject, Usage

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
    assert events[1] == {"type": "response.in_progress", "response": begun}
    assert events[-1] == {"type": "response.completed", "response": response}
    assert [event["delta"] for event in events if is_delta(event)] == ["Good", "morning.", "No."]


def test_a_response_that_does_not_say_when_it_ended_does_not_begin_to() -> None:
    first, *_ = reply_events({"id": "r", "output": []})
    assert "completed_at" not in first["response"]


def test_a_part_of_an_unknown_type_is_told_whole() -> None:
    audio: JsonObject = {"type": "audio", "data": "x"}
    message: JsonObject = {"type": "message", "id": "m", "content": [audio, "no part"]}
    place: JsonObject = {"item_id": "m", "output_index": 2, "content_index": 0, "part": audio}
    assert list(item_events(message, 2))[1:-1] == [
        {"type": "response.content_part.added", **place},
        {"type": "response.content_part.done", **place},
    ]


def test_only_output_text_has_log_probabilities() -> None:
    with_them = {event["type"] for event in item_events(MESSAGE, 0) if event.get("logprobs") == []}
    assert with_them == {"response.output_text.delta", "response.output_text.done"}
    assert not any("logprobs" in event for event in item_events(REASONING, 0))


TEXTS: list[tuple[JsonObject, str, str]] = [
    ({"type": "function_call", "name": "f"}, "response.function_call_arguments", "arguments"),
    ({"type": "custom_tool_call", "name": "c"}, "response.custom_tool_call_input", "input"),
    ({"type": "mcp_call", "name": "m"}, "response.mcp_call_arguments", "arguments"),
    ({"type": "code_interpreter_call"}, "response.code_interpreter_call_code", "code"),
]


@pytest.mark.parametrize(("item", "prefix", "field"), TEXTS)
def test_an_item_that_is_one_text_is_told_in_the_providers_words(
    item: JsonObject, prefix: str, field: str
) -> None:
    begun, delta, done, ended = item_events({**item, field: "x"}, 1)
    place: JsonObject = {"item_id": "item_1", "output_index": 1}
    named = {"name": item["name"]} if "name" in item else {}
    assert (begun["type"], begun["item"][field]) == ("response.output_item.added", "")
    assert delta == {"type": f"{prefix}.delta", **place, "delta": "x"}
    assert done == {"type": f"{prefix}.done", **place, field: "x", **named}
    assert ended["type"] == "response.output_item.done"
    assert list(whole_texts(done)) == [(f"{prefix}.delta", "x")]
    assert list(whole_texts({"type": f"{prefix}.done"})) == [(f"{prefix}.delta", "")]
    assert list(whole_texts(delta)) == []
    assert [event.get(field, "") for event in item_events(item, 1) if field in event] == [""]


def test_a_command_of_a_shell_call_begins_empty() -> None:
    call: JsonObject = {"type": "shell_call", "action": {"commands": ["ls"], "cwd": "/"}}
    begun, added, delta, done, _ = item_events(call, 3)
    place = {"output_index": 3, "command_index": 0}
    assert begun["item"]["action"] == {"commands": [], "cwd": "/"}
    assert added == {"type": "response.shell_call_command.added", **place, "command": ""}
    assert delta == {"type": "response.shell_call_command.delta", **place, "delta": "ls"}
    assert done == {"type": "response.shell_call_command.done", **place, "command": "ls"}


@pytest.mark.parametrize("action", [None, {}, {"commands": "ls"}])
def test_a_shell_call_without_a_list_of_commands_has_none(action: object) -> None:
    call: JsonObject = {"type": "shell_call", "action": action}
    assert kinds(call) == ["output_item.added", "output_item.done"]
    assert kinds({"type": "other", "action": {"commands": ["ls"]}}) == kinds(call)


def test_a_part_without_its_text_is_told_as_an_empty_one() -> None:
    message: JsonObject = {"type": "message", "id": "m", "content": [{"type": "output_text"}]}
    texts = [event["text"] for event in item_events(message, 0) if "text" in event]
    assert texts == [""]


def test_a_response_object_says_what_the_call_cost() -> None:
    usage = Usage(
        requests=1,
        input_tokens=7,
        cached_tokens=2,
        output_tokens=5,
        reasoning_tokens=3,
        cache_write_tokens=1,
    )
    made = response_object([CALL], usage, response_id="r", model="m", created_at=4)
    assert made == {
        "id": "r",
        "object": "response",
        "created_at": 4,
        "model": "m",
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "output": [CALL],
        "usage": {
            "input_tokens": 7,
            "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 1},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 3},
            "total_tokens": usage.total_tokens,
        },
    }
    unnamed = response_object([], usage)
    assert (unnamed["id"], unnamed["model"], unnamed["created_at"]) == ("", "", 0)
