"""A transcript as the items of a new realtime session, and as a session's history."""

from typing import Any

from outlast.loop.aside import Aside
from outlast.loop.items import Item
from outlast.loop.phrases import OUTPUT_LEFT_OUT, left_out
from outlast.realtime.port.item_ids import output_item_id
from outlast.realtime.port.items import RealtimeToolCallItem
from outlast.realtime.seed import history_of, output_text, session_items

TRANSCRIPT = [
    Item("input", {"role": "user", "content": "Where is A-17?"}),
    Item("reasoning", {"type": "reasoning", "summary": []}, "Desk", 1),
    Item(
        "tool_call",
        {"type": "function_call", "call_id": "c1", "name": "track", "arguments": "{}"},
        "Desk",
        1,
    ),
    Item("tool_output", {"type": "function_call_output", "call_id": "c1", "output": "sent"}),
    Item(
        "message",
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "It was sent."}],
        },
        "Desk",
        2,
    ),
    Item(
        "input",
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "This one?"},
                {"type": "input_image", "image_url": "data:image/png;base64,AA"},
                {"type": "input_file", "file_id": "f"},
            ],
        },
    ),
    Item("input", {"role": "developer", "content": "Be brief."}),
]


def test_every_item_has_the_form_of_the_session() -> None:
    items = session_items("case", TRANSCRIPT)
    assert [(item["type"], item.get("role")) for item in items] == [
        ("message", "user"),
        ("function_call", None),
        ("function_call_output", None),
        ("message", "assistant"),
        ("message", "user"),
        ("message", "system"),
    ]
    assert items[3]["content"] == [{"type": "output_text", "text": "It was sent."}]
    assert [part["type"] for part in items[4]["content"]] == ["input_text", "input_image"]


def test_an_item_has_the_same_id_whenever_it_is_sent() -> None:
    whole = session_items("case", TRANSCRIPT)
    rest = session_items("case", TRANSCRIPT[3:], 3)
    assert whole[-len(rest) :] == rest
    assert rest[0]["id"] == output_item_id("c1")
    ids = [item["id"] for item in whole]
    assert len(set(ids)) == len(ids)
    assert all(len(one) <= 32 for one in ids)
    assert session_items("other", TRANSCRIPT)[0]["id"] != ids[0]


def test_a_history_has_the_output_with_its_call() -> None:
    history = history_of("case", TRANSCRIPT)
    call = history[1]
    assert isinstance(call, RealtimeToolCallItem)
    assert (call.output, call.status) == ("sent", "completed")
    assert [item.type for item in history] == ["message", "function_call"] + ["message"] * 3


def test_outputs_are_text() -> None:
    parts: Any = [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]
    assert output_text(parts) == "a\nb"
    assert output_text({"total": 3}) == '{"total": 3}'
    assert output_text([1, 2]) == "[1, 2]"
    assert output_text("plain") == "plain"


def test_a_new_session_does_not_get_what_is_set_aside() -> None:
    aside = (
        Aside(item=4),
        Aside(item=3, reason="Flagged."),
        Aside(item=5, part=1),
        Aside(item=1),
        Aside(digest="of a summary"),
    )
    items = session_items("case", TRANSCRIPT, 0, aside)
    whole = session_items("case", TRANSCRIPT)
    assert [item["id"] for item in items] == [item["id"] for item in whole]
    assert items[2]["output"] == OUTPUT_LEFT_OUT
    assert "It was sent." not in str(items[3])
    assert [part.get("text") for part in items[4]["content"]] == ["This one?", left_out("an image")]
    assert session_items("case", TRANSCRIPT[4:], 4, aside) == items[3:]
