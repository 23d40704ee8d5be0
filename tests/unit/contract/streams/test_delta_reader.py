"""Reading a model call's window: nothing twice, nothing lost while it fits, always told."""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.contract.streams.delta_reader import FILLED, GAP, RESTARTED, DeltaReader
from outlast.contract.streams.reply_events import reply_events
from outlast.contract.streams.window import DeltaWindow, is_delta, place_of
from outlast.loop.values import JsonObject
from outlast.models.openai.chat_reply import ChatReply
from tests.laws.strategies import examples

TEXTS = st.text(max_size=40)
HALVES = st.sampled_from(
    ["\ud83d", "\ude00", "a\ud83d", "\ude00b", "\ud800", "\udbff", "\udc00", "\udfff"]
)
"""Of a character that JSON writes in two; a provider may send them apart."""


def message(text: str, item_id: str = "msg_1") -> JsonObject:
    part: JsonObject = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": item_id, "role": "assistant", "content": [part]}


def tool_call(arguments: str) -> JsonObject:
    return {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "t",
        "arguments": arguments,
    }


def response_of(*output: JsonObject) -> JsonObject:
    return {"id": "resp_1", "status": "completed", "output": list(output)}


def stream_of(response: JsonObject, every: int = 2) -> list[JsonObject]:
    def split(text: str) -> list[str]:
        return [text[at : at + every] for at in range(0, len(text), every)]

    events = reply_events(response, split)
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def wire(window: DeltaWindow) -> Any:
    return json.loads(json.dumps(window.details()))


def text_of(events: Sequence[JsonObject]) -> str:
    return "".join(event["delta"] for event in events if is_delta(event))


def types_of(events: Sequence[JsonObject]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def test_a_reader_that_looks_often_sees_the_providers_events_as_they_were() -> None:
    reader, window = DeltaReader(), DeltaWindow(effect=1, attempt=1)
    stream = stream_of(response_of(message("Hello you")))
    seen: list[JsonObject] = []
    for event in stream[:-1]:
        window.feed(event)
        seen += reader.feed(wire(window))
    assert [event["sequence_number"] for event in seen] == list(range(len(stream) - 1))
    assert seen[2:] == stream[2:-1]


def test_a_reader_that_looks_once_sees_the_same() -> None:
    reader, window = DeltaReader(), DeltaWindow(effect=1, attempt=1)
    stream = stream_of(response_of(message("Hello you")))
    for event in stream:
        window.feed(event)
    assert reader.feed(wire(window))[2:] == stream[2:-1]
    assert reader.feed(wire(window)) == []


@given(
    st.lists(TEXTS | HALVES, min_size=1, max_size=30),
    st.lists(st.booleans(), min_size=30, max_size=30),
)
def test_however_it_is_cut_and_read_the_deltas_are_the_text(
    chunks: list[str], looks: list[bool]
) -> None:
    reader, window = DeltaReader(), DeltaWindow(effect=1, attempt=1)
    said = ""
    for chunk, look in zip(chunks, looks, strict=False):
        window.feed({"type": "response.output_text.delta", "output_index": 0, "delta": chunk})
        if look:
            said += text_of(reader.feed(wire(window)))
    said += text_of(reader.feed(wire(window)))
    joined = json.loads(json.dumps("".join(chunks)))
    held_back = joined[-1:] if "\ud800" <= joined[-1:] <= "\udbff" else ""
    assert said == joined.removesuffix(held_back)


def thoughts(text: str) -> JsonObject:
    summary = [{"type": "summary_text", "text": text}, {"type": "summary_text", "text": "Then."}]
    content = [{"type": "reasoning_text", "text": text}]
    return {"type": "reasoning", "summary": summary, "content": content}


def code(text: str) -> JsonObject:
    return {"type": "code_interpreter_call", "code": text}


def shell(text: str) -> JsonObject:
    return {"type": "shell_call", "call_id": "s1", "action": {"commands": [text, "ls"]}}


LONG_TEXTS = TEXTS | st.sampled_from([1, 7, 50, 300]).map(lambda number: "abc" * number)
ITEMS = st.sampled_from([message, tool_call, thoughts, code, shell]).flatmap(LONG_TEXTS.map)


@st.composite
def replies(draw: st.DrawFn) -> JsonObject:
    items = draw(st.lists(ITEMS, min_size=1, max_size=3))
    return response_of(*({**item, "id": f"i{at}"} for at, item in enumerate(items)))


@st.composite
def windows_of(draw: st.DrawFn, response: JsonObject, attempt: int) -> list[Any]:
    """Some of the windows that a model call shows until it ends or breaks off."""
    stream = stream_of(response, draw(st.sampled_from([5, 20, 300])))
    window = DeltaWindow(
        effect=1, attempt=attempt, limit_bytes=draw(st.sampled_from([500, 1_500, 16_000]))
    )
    looks = draw(st.sets(st.integers(0, len(stream) - 1), max_size=6))
    shown: list[Any] = []
    for at, event in enumerate(stream):
        window.feed(event)
        if at in looks:
            shown.append(wire(window))
    return shown


def texts_of(events: Sequence[JsonObject]) -> dict[Any, str]:
    texts: dict[Any, str] = {}
    for event in filter(is_delta, events):
        texts[place_of(event)] = texts.get(place_of(event), "") + event["delta"]
    return texts


def after_restart(seen: list[JsonObject]) -> list[JsonObject]:
    starts = [at for at, event in enumerate(seen) if event["type"] == RESTARTED]
    return seen[starts[-1] :] if starts else seen


@examples(150)
@given(replies(), replies(), st.data())
def test_whatever_windows_a_reader_sees_the_deltas_are_a_prefix_and_at_the_end_the_text(
    first: JsonObject, second: JsonObject, data: st.DataObject
) -> None:
    broken_off = data.draw(windows_of(first, 1)) if data.draw(st.booleans()) else []
    shown = broken_off + data.draw(windows_of(second, 2))
    late = data.draw(st.lists(st.sampled_from(shown), max_size=3)) if shown else []
    texts = {1: texts_of(stream_of(first, 999)), 2: texts_of(stream_of(second, 999))}
    reader, seen = DeltaReader(), list[JsonObject]()
    for window in shown + late:
        seen += reader.feed(window)
        told = texts_of(after_restart(seen))
        whole = texts[max(reader.attempt, 1)]
        assert all(whole[place].startswith(text) for place, text in told.items())
        now = types_of(after_restart(seen))
        assert GAP not in now[:-1], "after a gap there is nothing more of an attempt"
    has_gap = GAP in types_of(after_restart(seen))
    rest = reader.complete(second)
    if reader.attempt == 2 or not broken_off:
        assert texts_of(after_restart(seen + rest)) == texts[2]
    if RESTARTED not in types_of(rest):
        assert {event.get(FILLED, False) for event in rest[:-1]} <= {has_gap}
    assert rest[-1]["response"] == second


@given(
    st.lists(st.one_of(TEXTS.map(message), TEXTS.map(tool_call)), min_size=1, max_size=3),
    st.integers(1, 9),
    st.data(),
)
def test_a_call_that_ends_between_two_looks_is_told_to_its_end(
    items: list[JsonObject], every: int, data: st.DataObject
) -> None:
    output = [{**item, "id": f"i{at}"} for at, item in enumerate(items)]
    response = response_of(*output)
    stream = stream_of(response, every)
    reader, window = DeltaReader(), DeltaWindow(effect=1, attempt=1)
    seen: list[JsonObject] = []
    for event in stream[: data.draw(st.integers(0, len(stream)))]:
        window.feed(event)
        if data.draw(st.booleans()):
            seen += reader.feed(wire(window))
    seen += reader.complete(response)
    assert text_of(seen) == text_of(stream)
    once = [kind for kind in types_of(seen) if not kind.endswith(".delta")]
    assert sorted(once) == sorted(
        kind
        for kind in types_of(stream)
        if not kind.endswith(".delta") and (kind != "in_progress" or "in_progress" in once)
    )
    numbers = [event["sequence_number"] for event in seen]
    assert all(later > earlier for earlier, later in pairwise(numbers))
    assert seen[-1]["response"] == response


def test_a_reply_of_which_nothing_was_seen_is_told_with_numbers_from_zero_on() -> None:
    response = response_of(message("Hello"), tool_call("{}"))
    assert DeltaReader().attempt == 0
    told = DeltaReader().complete({**response, "usage": {"input_tokens": 1}})
    assert [event["sequence_number"] for event in told] == list(range(len(told)))
    begun: JsonObject = {**response, "status": "in_progress", "output": [], "usage": None}
    assert told[0] == {"type": "response.created", "response": begun, "sequence_number": 0}


def test_of_deltas_that_were_merged_meanwhile_the_rest_is_told() -> None:
    words = [f"{number} " for number in range(300)]
    response = response_of(message("".join(words)))
    stream = [*reply_events(response, lambda _: words)]
    reader, window = DeltaReader(), DeltaWindow(effect=1, attempt=1, limit_bytes=2_500)
    for event in stream[:100]:
        window.feed(event)
    seen = reader.feed(wire(window))
    for event in stream[100:-1]:
        window.feed(event)
    told = reader.feed(wire(window))
    assert GAP not in types_of(told)
    assert text_of(seen) + text_of(told) == "".join(words)
    longest = max(told, key=lambda event: len(event.get("delta", "")))
    assert longest["delta"].startswith(text_of(stream[100:102]))


def test_a_reply_that_was_never_seen_is_told_whole() -> None:
    response = response_of(message("Hello"))
    told = DeltaReader().complete(response)
    assert types_of(told) == [
        "created",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]


def test_a_stream_without_the_ends_of_texts_is_not_given_them_at_the_end() -> None:
    response = response_of(message("Hello"))
    reader, window = DeltaReader(), DeltaWindow(effect=1, attempt=1)
    for event in stream_of(response):
        if event["type"] != "response.output_text.done":
            window.feed(event)
    seen = reader.feed(wire(window))
    assert types_of(seen)[-1] == "output_item.done"
    assert types_of(reader.complete(response)) == ["completed"]


def test_an_item_whose_end_was_missed_is_given_all_ends() -> None:
    response = response_of(message("Hello"))
    reader, window = DeltaReader(), DeltaWindow(effect=1, attempt=1)
    for event in stream_of(response)[:4]:
        window.feed(event)
    reader.feed(wire(window))
    assert [kind for kind in types_of(reader.complete(response)) if kind.endswith("done")] == [
        "output_text.done",
        "content_part.done",
        "output_item.done",
    ]


def test_the_names_that_readers_look_for_never_change() -> None:
    assert (RESTARTED, GAP, FILLED) == (
        "outlast.attempt_restarted",
        "outlast.gap",
        "outlast.filled",
    )


def test_after_the_end_nothing_is_told() -> None:
    reader, window = DeltaReader(), DeltaWindow(effect=1, attempt=1)
    response = response_of(message("Hello"))
    reader.complete(response)
    window.feed(stream_of(response)[4])
    assert reader.is_complete
    assert reader.feed(wire(window)) == reader.complete(response) == reader.restart(2) == []


def test_a_new_attempt_says_that_what_was_told_is_void() -> None:
    reader = DeltaReader()
    first, second = (DeltaWindow(effect=1, attempt=attempt) for attempt in (1, 2))
    one, two = (stream_of(response_of(message(text))) for text in ("Good mor", "Hello"))
    for event in one[:6]:
        first.feed(event)
    assert text_of(reader.feed(wire(first))) == "Good"
    for event in two:
        second.feed(event)
    told = reader.feed(wire(second))
    assert told[0] == {"type": RESTARTED, "attempt": 2}
    assert text_of(told) == "Hello"
    assert reader.feed(wire(first)) == []
    assert (reader.attempt, reader.restart(2)) == (2, [])


def test_an_attempt_of_which_nothing_was_told_is_not_called_a_restart() -> None:
    reader, window = DeltaReader(), DeltaWindow(effect=1, attempt=3)
    window.feed(stream_of(response_of(message("Hello")))[0])
    assert types_of(reader.feed(wire(window))) == ["created"]
    assert DeltaReader().restart(2) == []


@pytest.mark.parametrize("at", [0, 4], ids=["one event", "a delta"])
def test_a_restart_is_told_before_the_new_attempt_says_anything(at: int) -> None:
    reader, window = DeltaReader(), DeltaWindow(effect=1, attempt=1)
    window.feed(stream_of(response_of(message("Hello")))[at])
    reader.feed(wire(window))
    assert reader.restart(2) == [{"type": RESTARTED, "attempt": 2}]
    assert reader.feed(wire(window)) == []


def test_a_reply_of_an_attempt_that_was_not_seen_voids_what_was() -> None:
    reader, window = DeltaReader(), DeltaWindow(effect=1, attempt=1)
    for event in stream_of(response_of(message("Good morning")))[:7]:
        window.feed(event)
    reader.feed(wire(window))
    told = reader.complete(response_of(message("Hello")))
    assert types_of(told)[:2] == [RESTARTED, "created"]
    assert text_of(told) == "Hello"


def test_a_reply_that_lost_an_item_on_its_way_into_the_history_is_no_other_reply() -> None:
    reader, window = DeltaReader(), DeltaWindow(effect=1, attempt=1)
    junk, kept = tool_call('{"a":1}'), message("Hello", "msg_2")
    for event in stream_of(response_of(junk, kept))[:-5]:
        window.feed(event)
    assert text_of(reader.feed(wire(window))) == '{"a":1}Hell'
    told = reader.complete(response_of(kept))
    assert text_of(told) == "o"
    assert {event["output_index"] for event in told if "output_index" in event} == {1}


def test_after_a_gap_the_rest_waits_for_the_recorded_reply() -> None:
    text = " ".join(map(str, range(500)))
    reader, window = DeltaReader(), DeltaWindow(effect=1, attempt=1, limit_bytes=1_000)
    response = response_of(message(text))
    stream = stream_of(response)
    for event in stream[:20]:
        window.feed(event)
    seen = reader.feed(wire(window))
    for event in stream[20 : len(stream) // 2]:
        window.feed(event)
    assert types_of(reader.feed(wire(window))) == [GAP]
    assert reader.feed(wire(window)) == []
    rest = reader.complete(response)
    assert text_of(seen) + text_of(rest) == text
    assert all(event[FILLED] for event in rest if is_delta(event))
    assert "output_item.added" not in types_of(rest)
    assert not any(FILLED in event for event in seen)


def test_a_window_whose_text_does_not_go_on_where_it_should_is_a_gap() -> None:
    delta = {"type": "response.output_text.delta", "output_index": 0}
    window = {"attempt": 1, "first": 0, "events": [{"event": delta, "at": 3, "deltas": ["lo"]}]}
    assert DeltaReader().feed(window) == [{"type": GAP, "missed": 3}]


def test_a_restart_after_a_gap_is_told() -> None:
    reader, window = DeltaReader(), DeltaWindow(effect=1, attempt=1, limit_bytes=500)
    for event in stream_of(response_of(message("ab" * 900))):
        window.feed(event)
    assert types_of(reader.feed(wire(window))) == [GAP]
    second = DeltaWindow(effect=1, attempt=2)
    for event in stream_of(response_of(message("Hello"))):
        second.feed(event)
    told = reader.feed(wire(second))
    assert (told[0]["type"], text_of(told)) == (RESTARTED, "Hello")


JUNK: list[Any] = [
    None,
    "text",
    {},
    {"attempt": "1", "first": 0, "events": []},
    {"attempt": 1, "first": 0, "events": 5},
    {"attempt": 1, "first": 0, "events": ["x"]},
    {"attempt": 1, "first": 0, "events": [{"event": None}]},
    {"attempt": 1, "first": 0, "events": [{"event": {}, "deltas": [1]}]},
    {"attempt": 1, "first": 0, "events": [{"event": {}, "deltas": ["a"], "at": "0"}]},
    {"attempt": 1, "first": 0, "events": [{"event": {}, "deltas": ["a"]}]},
    {"attempt": 1, "first": 0, "events": [{"event": {}, "deltas": None, "at": 0}]},
]


@pytest.mark.parametrize("junk", JUNK)
def test_what_is_no_window_has_no_events(junk: object) -> None:
    assert DeltaReader().feed(junk) == []


def chunk(finish_reason: str | None = None, **delta: Any) -> JsonObject:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {"id": "chatcmpl-1", "created": 1, "choices": [choice]}


def called(index: int, arguments: str, name: str | None = None) -> JsonObject:
    return {"index": index, "function": {"name": name, "arguments": arguments}}


@given(st.integers(0, 30), st.data())
def test_items_that_a_server_tells_side_by_side_are_told_to_their_ends(
    stop: int, data: st.DataObject
) -> None:
    reply = ChatReply(turn=1)
    stream = [
        *reply.add(chunk(content="One ")),
        *reply.add(chunk(tool_calls=[called(0, '{"a"', "t"), called(1, "", "u")])),
        *reply.add(chunk(content="moment.")),
        *reply.add(chunk(tool_calls=[called(1, '{"b":2}'), called(0, ":1}")])),
        *reply.add(chunk("tool_calls")),
        *reply.finish(),
    ]
    reader, window = DeltaReader(), DeltaWindow(effect=1, attempt=1)
    seen: list[JsonObject] = []
    for event in stream[:stop]:
        window.feed(event)
        if data.draw(st.booleans()):
            seen += reader.feed(wire(window))
    seen += reader.complete(stream[-1]["response"])
    texts: dict[int, str] = {}
    for event in filter(is_delta, seen):
        texts[event["output_index"]] = texts.get(event["output_index"], "") + event["delta"]
    assert texts == {0: "One moment.", 1: '{"a":1}', 2: '{"b":2}'}
    assert RESTARTED not in types_of(seen)
    ends = [event["item"]["id"] for event in seen if event["type"].endswith("item.done")]
    assert sorted(ends) == sorted(item["id"] for item in stream[-1]["response"]["output"])


@given(st.integers(0, 40), st.integers(1, 4))
def test_what_a_model_thinks_is_told_to_its_end(stop: int, every: int) -> None:
    thoughts: JsonObject = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [
            {"type": "summary_text", "text": "First."},
            {"type": "summary_text", "text": "Then."},
        ],
        "content": [{"type": "reasoning_text", "text": "Hm."}],
    }
    response = response_of(thoughts, message("Done."))
    reader, window = DeltaReader(), DeltaWindow(effect=1, attempt=1)
    stream = stream_of(response, every)
    for event in stream[:stop]:
        window.feed(event)
    seen = reader.feed(wire(window))
    seen += reader.complete(response)
    assert text_of(seen) == "First.Then.Hm.Done."
    kinds = [kind for kind in types_of(seen) if not kind.endswith((".delta", "in_progress"))]
    wanted = [kind for kind in types_of(stream) if not kind.endswith((".delta", "in_progress"))]
    assert kinds == wanted
