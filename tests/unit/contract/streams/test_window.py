"""The window that a model call's heartbeats carry."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.contract.streams.window import (
    BURST_BYTES,
    KEPT_APART,
    KEPT_SECONDS,
    KEPT_SENDS,
    LARGEST_EVENT_SHARE,
    WINDOW_BYTES,
    DeltaWindow,
    is_delta,
    place_of,
)
from outlast.loop.values import JsonObject


def delta(text: str, number: int | None = None, **fields: Any) -> JsonObject:
    event: JsonObject = {
        "type": "response.output_text.delta",
        "item_id": "msg_1",
        "output_index": 0,
        "content_index": 0,
        "delta": text,
        "logprobs": [],
        **fields,
    }
    return event if number is None else {**event, "sequence_number": number}


def filled(*events: JsonObject, limit_bytes: int = 16_000) -> DeltaWindow:
    window = DeltaWindow(effect=3, attempt=1, limit_bytes=limit_bytes)
    for event in events:
        window.feed(event)
    return window


def test_a_window_says_whose_it_is() -> None:
    details = DeltaWindow(effect=3, attempt=2).details()
    assert details == {"effect": 3, "attempt": 2, "first": 0, "events": []}


def test_deltas_of_one_text_share_what_they_have_in_common() -> None:
    noise = delta("c", 6, obfuscation="x7Gq")
    (entry,) = filled(delta("a", 4), delta("b", 5), noise).details()["events"]
    assert (entry["deltas"], entry["at"]) == (["a", "b", "c"], 0)
    assert entry["event"]["sequence_number"] == 6
    assert "delta" not in entry["event"]
    assert "obfuscation" not in entry["event"]


@pytest.mark.parametrize(
    "other",
    [
        delta("b", 9),
        delta("b", 5, content_index=1),
        delta("b", 5, logprobs=[{"token": "b"}]),
        {**delta("b", 5), "type": "response.refusal.delta"},
    ],
)
def test_deltas_that_differ_in_more_stand_apart(other: JsonObject) -> None:
    assert len(filled(delta("a", 4), other).details()["events"]) == 2


def test_a_text_goes_on_after_another_event() -> None:
    done: JsonObject = {"type": "response.content_part.added", "output_index": 0}
    events = filled(delta("ab"), done, delta("c")).details()["events"]
    assert [entry.get("at") for entry in events] == [0, None, 2]


def test_an_event_with_the_whole_response_travels_without_it() -> None:
    response = {"id": "r", "status": "in_progress", "model": "m", "instructions": "x" * 9_000}
    window = filled({"type": "response.created", "sequence_number": 0, "response": response})
    (entry,) = window.details()["events"]
    slim: JsonObject = {"id": "r", "status": "in_progress", "model": "m", "output": []}
    assert entry["event"] == {"type": "response.created", "sequence_number": 0, "response": slim}


@pytest.mark.parametrize(
    "event",
    [
        {"type": "response.completed", "response": {"output": []}},
        {"type": "response.output_item.done", "item": {"x": "y" * (WINDOW_BYTES // 16)}},
        delta(""),
    ],
)
def test_what_the_history_tells_better_does_not_travel(event: JsonObject) -> None:
    window = filled(event)
    assert window.details()["events"] == []
    assert not window.has_news


@pytest.mark.parametrize(
    "kind", ["response.completed", "response.incomplete", "response.failed", "error"]
)
def test_the_end_of_a_stream_is_told_by_the_history(kind: str) -> None:
    assert not filled({"type": kind}).has_news


@pytest.mark.parametrize("kind", ["response.created", "response.in_progress", "response.queued"])
def test_of_a_response_that_begins_what_names_it_travels(kind: str) -> None:
    named = {"id": "r", "object": "response", "created_at": 5, "model": "m", "status": "queued"}
    window = filled({"type": kind, "response": {**named, "output": ["x"], "tools": ["t"]}})
    (entry,) = window.details()["events"]
    assert entry == {"event": {"type": kind, "response": {**named, "output": []}}}


def test_any_other_event_with_a_response_travels_as_it_is() -> None:
    event: JsonObject = {"type": "response.other", "response": {"tools": ["t"]}}
    assert filled(event).details()["events"] == [{"event": event}]


def test_only_a_text_that_goes_on_is_a_delta() -> None:
    assert is_delta({"type": "response.output_text.delta", "delta": ""})
    assert not is_delta({"type": "response.audio.delta", "delta": None})
    assert not is_delta({"type": "response.output_text.done", "delta": "x"})
    assert not is_delta({"delta": "x"})


def test_a_place_is_the_type_and_the_numbers_of_an_event() -> None:
    numbers = {"output_index": 1, "content_index": 2, "summary_index": 3, "command_index": 4}
    assert place_of({"type": "t", **numbers}) == ("t", 1, 2, 3, 4)
    assert place_of({"type": "t", "output_index": "1"}) == ("t", 0, 0, 0, 0)


def test_the_sizes_of_a_window_are_those_that_heartbeats_carry() -> None:
    assert (WINDOW_BYTES, BURST_BYTES, KEPT_APART) == (16_000, 128_000, 32)
    assert (KEPT_SECONDS, KEPT_SENDS) == (3.0, 3)
    assert LARGEST_EVENT_SHARE == 1 / 16


def test_an_event_that_takes_its_share_of_a_window_and_no_more_travels() -> None:
    def sized(size: int) -> JsonObject:
        empty = len(json.dumps({"event": {"type": "x", "text": ""}})) + 2
        return {"type": "x", "text": "y" * (size - empty)}

    assert filled(sized(1_000)).has_news
    assert not filled(sized(1_001)).has_news


def test_other_events_count_as_said_lately_like_deltas() -> None:
    window = DeltaWindow(effect=1, attempt=1)
    for number in range(300):
        window.feed({"type": "x", "n": number, "text": "y" * 100})
    assert len(json.dumps(window.details())) > 1.5 * WINDOW_BYTES


def test_a_window_has_news_until_it_is_sent() -> None:
    window = DeltaWindow(effect=1, attempt=1)
    assert not window.has_news
    window.feed(delta("a"))
    assert window.has_news
    window.note_sent(1.0)
    assert not window.has_news
    window.feed(delta("b"))
    assert window.has_news


def test_feeding_leaves_the_event_as_it_is() -> None:
    event = delta("a", 1, obfuscation="x")
    before = json.dumps(event)
    window = filled(event, delta("b", 2))
    window.details()["events"][0]["deltas"].append("z")
    assert json.dumps(event) == before
    assert window.details()["events"][0]["deltas"] == ["a", "b"]


def test_a_full_window_merges_older_deltas_before_it_drops_any() -> None:
    words = [f"w{number} " for number in range(250)]
    window = filled(*[delta(word, at) for at, word in enumerate(words)], limit_bytes=2_000)
    details = window.details()
    (entry,) = details["events"]
    assert details["first"] == 0
    assert "".join(entry["deltas"]) == "".join(words)
    assert entry["deltas"][-KEPT_APART:] == words[-KEPT_APART:]
    assert len(entry["deltas"]) < len(words)


def test_a_text_too_long_loses_its_beginning() -> None:
    text = "".join(f"{number} " for number in range(2_000))
    window = filled(*map(delta, text.split(" ")), limit_bytes=1_000)
    joined = text.replace(" ", "")
    details = window.details()
    (entry,) = details["events"]
    assert details["first"] == entry["at"] > 0
    assert "".join(entry["deltas"]) == joined[entry["at"] :]
    assert len("".join(entry["deltas"])) > 300


@given(
    st.lists(st.tuples(st.text(max_size=300), st.integers(0, 2), st.booleans()), max_size=60),
    st.integers(2_000, 6_000),
)
def test_a_window_is_never_longer_than_its_bound(
    pieces: list[tuple[str, int, bool]], limit_bytes: int
) -> None:
    window = DeltaWindow(effect=1, attempt=1, limit_bytes=limit_bytes)
    for at, (text, index, is_other) in enumerate(pieces):
        other: JsonObject = {"type": "response.x", "output_index": index, "text": text[:60]}
        window.feed(other if is_other else delta(text, at, output_index=index))
        assert len(json.dumps(window.details())) <= limit_bytes


def test_whole_texts_are_dropped_before_newer_ones_lose_any() -> None:
    note: JsonObject = {"type": "x", "n": 1}
    window = filled(
        delta("old " * 100), note, delta("mid " * 10, output_index=1), limit_bytes=1_000
    )
    assert window.details()["first"] == 0
    window.feed(delta("new " * 120, output_index=2))
    details = window.details()
    assert details["first"] == 400 + 1 + 40
    (entry,) = details["events"]
    assert (entry["at"], entry["deltas"]) == (0, ["new " * 120])
    window.feed(delta("last", output_index=2))
    assert window.details()["first"] == 441


@pytest.mark.parametrize("first", [["a" * 2_000], ["word "] * 400], ids=["cut", "merged"])
def test_what_was_shortened_before_it_was_dropped_is_not_counted_twice(first: list[str]) -> None:
    window = filled(*map(delta, first), limit_bytes=1_000)
    said = sum(map(len, first))
    for index in range(1, 6):
        window.feed(delta(str(index) * 700, output_index=index))
        said += 700
        details = window.details()
        kept = sum(len(text) for entry in details["events"] for text in entry["deltas"])
        assert details["first"] + kept == said
        assert 300 < len(json.dumps(details)) <= 1_000


def test_a_text_that_is_dropped_to_its_end_leaves_no_event_behind() -> None:
    for length in range(200, 500):
        window = filled(delta("a" * 400), delta("b" * length, output_index=1), limit_bytes=1_000)
        details = window.details()
        kept = sum(len(text) for entry in details["events"] for text in entry["deltas"])
        assert details["first"] + kept == 400 + length, length


def units_of(event: JsonObject, text: str, at: int = 0) -> list[tuple[str, int, str, int]]:
    """Return what an event counts as: each character of a delta with its place, or itself."""
    place = str(event["type"]), int(event.get("output_index", 0))
    if not text:
        return [(*place, "", int(event.get("n", 0)))]
    return [(*place, character, at + number) for number, character in enumerate(text)]


@given(
    st.lists(
        st.tuples(st.text(st.sampled_from('a"é🙂'), max_size=90), st.integers(0, 3)), max_size=60
    ),
    st.integers(700, 1_500),
)
def test_a_window_is_the_end_of_what_was_said_and_counts_what_it_dropped(
    pieces: list[tuple[str, int]], limit_bytes: int
) -> None:
    window = DeltaWindow(effect=1, attempt=1, limit_bytes=limit_bytes)
    said: list[tuple[str, int, str, int]] = []
    lengths = [0] * 4
    for number, (text, index) in enumerate(pieces):
        event = delta(text, output_index=index) if text else {"type": "x", "n": number}
        window.feed(event)
        said += units_of(event, text, lengths[index])
        lengths[index] += len(text)
        details = window.details()
        seen = [
            unit
            for entry in details["events"]
            for unit in units_of(
                entry["event"], "".join(entry.get("deltas", [])), entry.get("at", 0)
            )
        ]
        assert seen == said[details["first"] :]
        assert not details["first"] or len(json.dumps(details)) > limit_bytes / 3


SEND_SECONDS = 0.03
SENDS_KEPT = 100
"""How many sends at that pace take as long as events are kept."""


def windows(words_a_send: int, sends: int) -> tuple[DeltaWindow, list[int]]:
    """A window into which words are said at a pace, and how long it was at each send."""
    window, sizes = DeltaWindow(effect=1, attempt=1), list[int]()
    for send in range(sends):
        for word in range(words_a_send):
            window.feed(delta(f"{send}.{word:04} "))
        sizes.append(len(json.dumps(window.details())))
        window.note_sent(send * SEND_SECONDS)
    return window, sizes


def test_the_window_of_a_quick_model_holds_what_was_said_lately() -> None:
    window, sizes = windows(words_a_send=100, sends=200)
    assert WINDOW_BYTES < max(sizes) <= BURST_BYTES
    said = "".join(text for entry in window.details()["events"] for text in entry["deltas"])
    assert "150.0000" in said


def test_the_window_of_a_slow_model_stays_short() -> None:
    window, sizes = windows(words_a_send=1, sends=3_000)
    assert 10_000 < max(sizes) <= WINDOW_BYTES
    assert window.weight == 1


@pytest.mark.parametrize(("pieces_a_send", "length"), [(1, 9), (60, 9), (1, 700), (2, 400)])
def test_nothing_said_lately_is_dropped_before_a_burst_is_too_long(
    pieces_a_send: int, length: int
) -> None:
    window, ends = DeltaWindow(effect=1, attempt=1), [0]
    for send in range(250):
        for _ in range(pieces_a_send):
            window.feed(delta("x" * length))
        assert window.details()["first"] <= ends[-SENDS_KEPT:][0]
        window.note_sent(send * SEND_SECONDS)
        ends.append(ends[-1] + pieces_a_send * length)


def test_what_is_said_before_the_first_send_is_kept() -> None:
    window = filled(*map(delta, ["x" * 1_000] * 90), limit_bytes=BURST_BYTES)
    assert window.details()["first"] == 0


def test_a_reader_that_missed_one_of_rare_sends_has_no_gap() -> None:
    window = DeltaWindow(effect=1, attempt=1)
    for send in range(6):
        window.feed(delta("x" * 20_000))
        assert window.details()["first"] <= max(send - 1, 0) * 20_000
        window.note_sent(send * 60.0)
    assert window.details()["first"] > 0


def test_a_long_window_weighs_more() -> None:
    window, sizes = windows(words_a_send=100, sends=200)
    assert window.weight == sizes[-1] // WINDOW_BYTES + 1 > 1


def test_after_a_burst_the_window_is_short_again() -> None:
    window, _ = windows(words_a_send=100, sends=200)
    for send in range(200, 200 + SENDS_KEPT + 1):
        window.note_sent(send * SEND_SECONDS)
    window.feed(delta("late"))
    assert len(json.dumps(window.details())) <= WINDOW_BYTES


def test_the_commands_of_a_shell_call_are_texts_of_their_own() -> None:
    command = {"type": "response.shell_call_command.delta", "output_index": 0}
    window = filled(*({**command, "command_index": at, "delta": "ls"} for at in (0, 1)))
    assert [entry["at"] for entry in window.details()["events"]] == [0, 0]
