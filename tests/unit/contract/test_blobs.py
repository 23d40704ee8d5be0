"""What is split into references and blobs is joined to what it was, whatever JSON it is."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.contract import blobs
from outlast.loop.items import Item
from outlast.loop.stored import with_references
from outlast.loop.values import BLOB, Json, JsonObject, is_reference, reference
from tests.laws.strategies import examples, same_json

KEYS = st.sampled_from(["a", "type", "text", BLOB, "bytes", "part", blobs.ESCAPED, "$outlast.x"])
TEXTS = st.text(max_size=12) | st.just("\ud800 half") | st.just("sha256:" + "0" * 64)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
ITEMS = st.dictionaries(KEYS | st.just("content"), VALUES, max_size=5)


def put_back(value: Json, held: blobs.Contents) -> Json:
    """Join a value as a process would that has a store."""
    content = {
        blobs.address(ref): blobs.read_blob(held[ref[BLOB]], parts="part" in ref)
        for ref in blobs.references(value)
    }
    return blobs.join(value, lambda ref: blobs.text_in(content, ref))


@examples(200)
@given(value=VALUES, least=st.integers(0, 20))
def test_what_is_split_is_joined_to_the_same(value: Json, least: int) -> None:
    held: blobs.Contents = {}
    made = json.loads(json.dumps(blobs.split(value, least, held)))
    assert same_json(put_back(made, held), value)
    assert all(blobs.key_of(data) == key for key, data in held.items())


@examples(100)
@given(raw=ITEMS, least=st.integers(0, 20))
def test_an_item_keeps_the_fields_that_the_loop_reads(raw: dict[str, Any], least: int) -> None:
    held: blobs.Contents = {}
    made = blobs.split_item(raw, least, held)
    assert same_json(put_back(made, held), raw)
    if blobs.is_plain(raw.get("type")) and not any(key.startswith(blobs.OWN) for key in raw):
        assert made.get("type") == raw.get("type")


@examples(100)
@given(value=VALUES)
def test_a_value_with_nothing_to_put_back_is_itself(value: Json) -> None:
    if blobs.is_plain(value):
        assert same_json(blobs.join(value, lambda ref: pytest.fail(str(ref))), value)


@examples(100)
@given(raws=st.lists(ITEMS, max_size=5), least=st.integers(1, 30))
def test_what_is_offloaded_is_joined_to_the_same(raws: list[dict[str, Any]], least: int) -> None:
    held: blobs.Contents = {}
    split = [blobs.split_item(raw, 1_000, held) for raw in raws]
    items = [Item("input", raw) for raw in split]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blobs, "MOVED_ABOVE", 1)
        moved = blobs.offload(items, 0, least, held)
    again = with_references(items, moved)
    for item, raw in zip(again, raws, strict=True):
        assert same_json(put_back(json.loads(json.dumps(item.raw)), held), raw)


def test_texts_share_blobs_and_large_ones_have_their_own():
    items = [Item("tool_output", {"output": "x" * size}) for size in (300, 400, 90_000, 10)]
    held: blobs.Contents = {}
    moved = blobs.offload(items, 7, 64_000, held)
    assert [(one.item, one.bytes, one.part) for one in moved.moved] == [
        (9, 90_000, None),
        (7, 300, 0),
        (8, 400, 1),
    ]
    assert len(held) == len(moved.keys) == 2


def test_a_pack_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(blobs, "PACK_BYTES", 500)
    monkeypatch.setattr(blobs, "MOST_MOVED", 5)
    items = [Item("input", {"content": f"{number}" * 300}) for number in range(9)]
    held: blobs.Contents = {}
    moved = blobs.offload(items, 0, 64_000, held)
    assert len(moved.keys) == 3
    assert len(moved.moved) == 5


def test_the_sizes_of_stored_content_are_those_of_the_reference() -> None:
    assert (blobs.THRESHOLD_BYTES, blobs.SMALLEST_THRESHOLD) == (64_000, 1_000)
    assert (blobs.PACK_BYTES, blobs.MOST_MOVED) == (4_000_000, 20_000)
    assert (blobs.ESCAPED, blobs.OWN) == ("$outlast.json", "$outlast.")


def test_a_text_moves_from_the_threshold_on_counted_in_bytes() -> None:
    for text, least in (("x" * 10, 10), ("é" * 5, 10), ("😀" * 3, 12)):
        held: blobs.Contents = {}
        assert blobs.split(text, least + 1, held) == text
        assert held == {}
        assert is_reference(blobs.split(text, least, held))
        assert list(held.values()) == [text.encode()]


def test_packs_are_filled_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [Item("input", {"content": f"{number}" * 300}) for number in range(9)]
    for size, parts in ((601, [0, 1, 2]), (600, [0, 1]), (599, [0, 1])):
        monkeypatch.setattr(blobs, "PACK_BYTES", size)
        moved = blobs.offload(items, 0, 64_000, {}).moved
        assert [one.part for one in moved][:6] == (parts * 3)[:6]
        assert [one.key for one in moved][:6] == sorted([0, 1, 2] * len(parts))[:6]


def test_a_text_of_the_threshold_has_a_blob_of_its_own() -> None:
    items = [Item("input", {"content": "x" * size}) for size in (300, 301)]
    moved = blobs.offload(items, 0, 301, {}).moved
    assert [(one.item, one.part) for one in moved] == [(1, None), (0, 0)]


def test_no_more_is_stored_outside_than_needed_for_a_message_to_fit() -> None:
    items = [{"content": "a" * 30_000}, {"content": "b" * 15_000}]
    held: blobs.Contents = {}
    made = blobs.split_to_fit(items, 64_000, 20_000, held)
    assert is_reference(made[0]["content"])
    assert made[1] == items[1]
    whole = len(json.dumps(items))
    assert blobs.split_to_fit(items, 64_000, whole, {}) == items
    assert blobs.split_to_fit(items, 64_000, whole - 1, {}) != items


def test_a_threshold_is_lowered_until_the_message_fits():
    items = [{"role": "user", "content": f"{number:05}" * 800} for number in range(30)]
    held: blobs.Contents = {}
    made = blobs.split_to_fit(items, 64_000, 20_000, held)
    assert len(json.dumps(made)) <= 20_000
    assert [put_back(one, held) for one in made] == items


def test_small_messages_stay_as_they_are():
    items = [{"role": "user", "content": "Hello"}]
    held: blobs.Contents = {}
    assert blobs.split_to_fit(items, 64_000, 20_000, held) == items
    assert held == {}


KEY = blobs.key_of(b"x")


@pytest.mark.parametrize(
    "value",
    [
        {BLOB: "sha256:short", "bytes": 1},
        {BLOB: KEY},
        {BLOB: KEY, "bytes": "1"},
        {BLOB: KEY, "bytes": 1, "more": 1},
        {BLOB: KEY, "bytes": 1, "part": "0"},
        {BLOB: KEY, "bytes": 1, "part": None},
        {BLOB: "sha256:../" + "0" * 61, "bytes": 1},
        {BLOB: "sha256:z" + "0" * 63, "bytes": 1},
        {BLOB: 5, "bytes": 1},
        {"bytes": 1},
        KEY,
    ],
)
def test_what_is_no_reference_is_not_taken_for_one(value: Json):
    assert not is_reference(value)


LOST = blobs.lost_text(reference(KEY, 1_800_000), "the stored copy is damaged.")
WORDS = "[1,800,000 bytes of content were here and are lost: the stored copy is damaged.]"


SENDABLE: list[tuple[JsonObject, JsonObject]] = [
    ({"role": "user", "content": LOST}, {"role": "user", "content": WORDS}),
    (
        {"role": "user", "content": [{"type": "input_image", "image_url": LOST}, {"a": 1}]},
        {"role": "user", "content": [{"type": "input_text", "text": WORDS}, {"a": 1}]},
    ),
    (
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": LOST}}]},
        {"role": "user", "content": [{"type": "input_text", "text": WORDS}]},
    ),
    (
        {"role": "assistant", "content": [{"type": "output_text", "text": LOST}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": WORDS}]},
    ),
    (
        {"role": "assistant", "content": [{"type": "output_x", "x": LOST}]},
        {
            "role": "assistant",
            "content": [{"type": "output_text", "text": WORDS, "annotations": []}],
        },
    ),
    (
        {"type": "function_call_output", "call_id": "c", "output": [{"file_data": LOST}]},
        {
            "type": "function_call_output",
            "call_id": "c",
            "output": [{"type": "input_text", "text": WORDS}],
        },
    ),
    (
        {"type": "shell_call_output", "output": [{"stdout": LOST, "stderr": ""}]},
        {"type": "shell_call_output", "output": [{"stdout": WORDS, "stderr": ""}]},
    ),
    (
        {"type": "computer_call_output", "output": {"image_url": LOST}},
        {"role": "developer", "content": WORDS},
    ),
    (
        {"type": "reasoning", "encrypted_content": LOST, "summary": [{"text": LOST}]},
        {"role": "developer", "content": WORDS},
    ),
    ({"type": "x", "list": [LOST]}, {"role": "developer", "content": WORDS}),
    ({"role": "user", "content": "whole"}, {"role": "user", "content": "whole"}),
]


@pytest.mark.parametrize(("raw", "sent"), SENDABLE)
def test_an_item_with_lost_content_can_be_sent(raw: dict[str, Any], sent: dict[str, Any]):
    assert blobs.sendable(raw) == sent


def test_people_read_a_placeholder():
    value = {"output": reference(KEY, 1_800_000), "note": {blobs.ESCAPED: {BLOB: 1}}}
    assert blobs.readable(value) == {
        "output": "[1,800,000 bytes, stored outside of the run]",
        "note": {BLOB: 1},
    }
    assert blobs.readable(plain := {"a": [1]}) is plain


def test_a_blob_that_lacks_the_part_is_refused():
    with pytest.raises(ValueError, match="has no part 3"):
        blobs.text_in({(KEY, True): ["a"]}, reference(KEY, 1, 3))
    with pytest.raises(ValueError, match="does not hold a list"):
        blobs.read_blob(b"[1]", parts=True)


def test_references_of_other_code_harm_nothing():
    """An index or a path that fits nothing is left alone."""
    items = [Item("input", {"content": ["a", 5]})]
    for path in ((), ("content", 7), ("content", 1), ("nothing",), ("content", "x")):
        offload = blobs.Offload(keys=(KEY,), moved=(blobs.Moved(0, path, 1, 0),))
        assert with_references(items, offload) == tuple(items)
    beyond = blobs.Offload(keys=(KEY,), moved=(blobs.Moved(4, ("content",), 1, 0),))
    assert with_references(items, beyond) == tuple(items)
    no_key = blobs.Offload(keys=(), moved=(blobs.Moved(0, ("content", 0), 1, 0),))
    assert with_references(items, no_key) == tuple(items)
    right = blobs.Offload(keys=(KEY,), moved=(blobs.Moved(0, ("content", 0), 1, 0),))
    assert with_references(items, right)[0].raw == {"content": [reference(KEY, 1), 5]}


def test_a_value_that_is_no_object_and_no_list_has_nothing_to_put_back() -> None:
    plain: list[Json] = ["a", 1, None, True, [], {}, ["a", {"b": [1]}]]
    assert all(map(blobs.is_plain, plain))
    markers_of_others: list[Json] = [{BLOB: {}}, {blobs.ESCAPED: 5}, {blobs.ESCAPED: {}, "a": 1}]
    assert all(map(blobs.is_plain, markers_of_others))
    for ours in (reference(KEY, 1), {blobs.ESCAPED: {BLOB: 5}}):
        assert not blobs.is_plain(["a", {"b": [ours]}])


def test_an_escaped_reference_needs_no_content() -> None:
    """Reading it would ask the store for what nobody wants, again and again."""
    escaped = blobs.escape({"a": [reference(KEY, 1)]})
    assert not blobs.has_references(escaped)
    assert blobs.join(escaped, lambda ref: pytest.fail(str(ref))) == {"a": [reference(KEY, 1)]}
