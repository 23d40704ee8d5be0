"""The JSON of a run's items is the same, whether it was kept or not."""

import json
from copy import deepcopy
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.loop.values import JsonObject
from outlast.models.openai.body_encoding import EncodedItems, encode
from outlast.models.openai.item_encoding import ItemEncoder
from tests.laws.strategies import examples

VALUES = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 1.0, 0.0, -1, "", "1", "é\0\u2028", "x" * 50]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=3,
)
ITEMS = st.dictionaries(st.sampled_from(["type", "id", "content"]), VALUES, max_size=3)
CALLS = st.lists(st.tuples(st.sampled_from(["one", "two", None]), st.lists(ITEMS, max_size=4)))


def written(encoder: ItemEncoder, run_id: str | None, items: list[JsonObject]) -> str:
    """Return the JSON of a request's items, with sorted fields: types of numbers differ in it."""
    body = json.loads(encode({"model": "m", "input": encoder.of_run(run_id, items)}))
    return json.dumps(body, sort_keys=True)


def expected(items: list[JsonObject]) -> str:
    return json.dumps({"model": "m", "input": items}, sort_keys=True)


@examples(300)
@given(CALLS, st.integers(0, 60))
def test_any_calls_are_sent_as_they_are(
    calls: list[tuple[str | None, list[JsonObject]]], most_bytes: int
) -> None:
    encoder = ItemEncoder(most_bytes=most_bytes)
    for run_id, items in calls:
        assert written(encoder, run_id, items) == expected(items)


@examples(300)
@given(st.lists(ITEMS, min_size=1, max_size=4), st.data())
def test_an_item_that_was_changed_in_place_is_encoded_again(
    items: list[JsonObject], data: st.DataObject
) -> None:
    encoder = ItemEncoder()
    assert written(encoder, "run", items) == expected(items)
    changed = data.draw(st.sampled_from(items))
    inner: Any = data.draw(st.sampled_from([changed, *changed.values()]))
    if isinstance(inner, dict):
        inner["new"] = data.draw(VALUES)
    elif isinstance(inner, list):
        cast("list[Any]", inner).append(data.draw(VALUES))
    assert written(encoder, "run", items) == expected(items)


@pytest.mark.parametrize(
    ("before", "after"),
    [(1, True), (True, 1), (1, 1.0), (0, False), (None, 0), ("1", 1), ([1], [True]), ([], {})],
)
def test_values_of_other_types_are_not_mistaken_for_each_other(before: Any, after: Any) -> None:
    encoder = ItemEncoder()
    for value in (before, after, before):
        assert written(encoder, "run", [{"at": value}]) == expected([{"at": value}])


def test_the_items_of_earlier_turns_are_not_encoded_again() -> None:
    encoded: list[JsonObject] = []

    def supported(item: JsonObject, *_: JsonObject | None) -> JsonObject | None:
        encoded.append(item)
        return None if item["content"] == "left out" else item

    encoder = ItemEncoder()
    conversation: list[JsonObject] = []
    for turn in range(20):
        added = {"content": "left out"} if turn == 5 else {"content": f"turn {turn}", "at": turn}
        conversation.append(added)
        sent = encoder.of_run("run", deepcopy(conversation), supported)
        assert isinstance(sent, EncodedItems)
        assert sent == [item for item in conversation if item["content"] != "left out"]
        assert encoded == conversation


def test_a_run_that_begins_like_another_call_keeps_what_is_longer() -> None:
    encoded: list[JsonObject] = []
    encoder = ItemEncoder()
    items: list[JsonObject] = [{"content": str(number)} for number in range(5)]
    for length in (5, 2, 0, 5, 3):
        sent = encoder.of_run(
            "run", items[:length], lambda item, _, __: encoded.append(item) or item
        )
        assert sent == items[:length]
    assert len(encoded) == 5


def test_what_is_kept_is_bounded_and_the_last_runs_keep_it() -> None:
    encoded: list[str] = []
    encoder = ItemEncoder(most_bytes=10_000)

    def send(run: str, length: int) -> None:
        items: list[JsonObject] = [{"of": run, "text": "x" * length}]
        encoder.of_run(run, items, lambda item, _, __: encoded.append(item["of"]) or item)

    for _ in range(2):
        for run in "abc":
            send(run, 4_000)
    assert encoded == [*"abc", *"abc"], "the third drops the first"
    send("c", 4_000)
    assert len(encoded) == 6
    send("d", 40_000)
    assert encoder._bytes == 0
    assert not encoder._runs


class _Odd:
    """Equals everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def isoformat(self) -> str:
        return "odd"


@pytest.mark.parametrize("value", [object(), float("nan"), "\ud800", {1, 2}, {(1, 2): 3}])
def test_items_without_json_are_left_to_the_caller(value: object) -> None:
    encoder = ItemEncoder()
    items: list[JsonObject] = [{"content": "fine"}, {"content": value}]
    for _ in range(2):
        sent = encoder.of_run("run", items)
        assert sent == items
        with pytest.raises((TypeError, ValueError)):
            encode({"input": sent})
    assert written(encoder, "run", items[:1]) == expected(items[:1])


def test_values_of_programs_are_encoded_each_time() -> None:
    encoder = ItemEncoder()
    odd: list[JsonObject] = [{"content": _Odd(), "at": {1: "one"}}]
    other: list[JsonObject] = [{"content": "x", "at": {1: "two"}}]
    for items, content, at in ((odd, "odd", "one"), (other, "x", "two"), (odd, "odd", "one")):
        assert json.loads(encode({"input": encoder.of_run("run", items)})) == {
            "input": [{"content": content, "at": {"1": at}}]
        }


def test_two_calls_of_one_run_at_once_do_not_mix() -> None:
    encoder = ItemEncoder()
    inner: list[str] = []

    def supported(item: JsonObject, *_: JsonObject | None) -> JsonObject:
        if item.get("asks") and not inner:
            inner.append(written(encoder, "run", [{"content": "inner"}]))
        return item

    items: list[JsonObject] = [{"content": "one"}, {"content": "two", "asks": True}]
    for _ in range(2):
        sent = encoder.of_run("run", items, supported)
        assert json.loads(encode({"input": sent})) == {"input": items}
    assert inner == [expected([{"content": "inner"}])]
    assert encoder._bytes == sum(kept.size for kept in encoder._runs.values())


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, b"{}"),
        ({"a": 1, "b": "é"}, '{"a":1,"b":"é"}'.encode()),
        ({"input": EncodedItems([], [])}, b'{"input":[]}'),
        ({"input": EncodedItems([{}], [b"{}"]), "a": None}, b'{"a":null,"input":[{}]}'),
    ],
)
def test_bodies_are_written_without_spaces(body: JsonObject, text: bytes) -> None:
    assert encode(body) == text
