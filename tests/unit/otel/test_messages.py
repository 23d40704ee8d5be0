"""Messages in the conventions' words, from items of the Responses API."""

import json
from typing import Any

from outlast.otel.messages import LARGEST, LONGEST_TEXT, as_messages, short, without_system


def read(items: Any) -> Any:
    text = as_messages(items)
    return None if text is None else json.loads(text)


def test_each_kind_of_item_has_a_role_and_parts() -> None:
    items = [
        {"role": "user", "content": "Where?"},
        {"type": "function_call", "call_id": "c1", "name": "find", "arguments": '{"id": 7}'},
        {"type": "function_call_output", "call_id": "c1", "output": "here"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A"}]},
        {"type": "web_search_call", "id": "w1"},
    ]
    user, asked, told, thought, said, other = read(items)
    assert user == {"role": "user", "parts": [{"type": "text", "content": "Where?"}]}
    assert asked["parts"] == [
        {"type": "tool_call", "id": "c1", "name": "find", "arguments": {"id": 7}}
    ]
    assert told == {
        "role": "tool",
        "parts": [{"type": "tool_call_response", "id": "c1", "response": "here"}],
    }
    assert thought["parts"] == [{"type": "reasoning", "content": "Hm."}]
    assert said["parts"] == [{"type": "text", "content": "A"}]
    assert other["parts"] == [{"type": "web_search_call"}]


def test_a_message_that_a_limit_cut_off_says_so() -> None:
    said: dict[str, Any] = {"type": "message", "role": "assistant", "content": []}
    said["status"] = "completed"
    whole, cut = read([said, {**said, "status": "incomplete"}])
    assert (whole["finish_reason"], cut["finish_reason"]) == ("stop", "length")


def test_a_picture_is_named_without_its_bytes() -> None:
    parts = [{"type": "input_image", "image_url": "data:image/png;base64,QUJD"}]
    assert read([{"role": "user", "content": parts}])[0]["parts"] == [{"type": "input_image"}]
    output = [{"type": "function_call_output", "call_id": "c", "output": parts}]
    assert "QUJD" not in str(as_messages(output))


def test_long_texts_are_cut_and_of_a_long_talk_the_newest_stay() -> None:
    (message,) = read([{"role": "user", "content": "x" * (LONGEST_TEXT + 1_000)}])
    assert message["parts"][0]["content"].endswith("… (1,000 more characters)")
    talk = [{"role": "user", "content": f"{at:04} " + "y" * 10_000} for at in range(100)]
    text = as_messages(talk)
    assert text is not None
    assert len(text) < LARGEST + 20_000
    assert json.loads(text)[-1]["parts"][0]["content"].startswith("0099")
    assert len(short({"x": "y" * LARGEST})) < LARGEST + 100


def test_what_a_model_wrote_never_fails_a_span() -> None:
    odd: list[Any] = [
        {},
        {"type": "function_call", "arguments": "{not json"},
        {"type": "function_call", "arguments": None},
        {"role": "user", "content": None},
        {"role": "user", "content": [None, 7, {"type": "input_text"}]},
        {"type": "reasoning", "summary": "text"},
    ]
    assert len(read(odd)) == len(odd)
    assert as_messages(None) is None
    assert as_messages([]) is None
    assert read("Where?")[0]["role"] == "user"


def test_instructions_are_apart() -> None:
    system = {"role": "system", "content": "Be kind."}
    text, rest = without_system([system, {"role": "user", "content": "Hi"}])
    assert json.loads(text or "") == [{"type": "text", "content": "Be kind."}]
    assert rest == [{"role": "user", "content": "Hi"}]
    assert without_system("Hi") == (None, "Hi")
