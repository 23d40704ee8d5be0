"""What search attributes can hold."""

import json

from hypothesis import given
from hypothesis import strategies as st

from outlast.contract.searchability import (
    LARGEST_BYTES,
    LARGEST_VALUE,
    searchable,
    searchable_list,
)


@given(st.text(max_size=300) | st.text(alphabet="😀é", max_size=900))
def test_a_value_fits_and_is_the_beginning_of_the_text(text: str) -> None:
    value = searchable(text)
    assert "\0" not in value
    assert text.replace("\0", "\ufffd").startswith(value)
    assert len(value) <= LARGEST_VALUE
    assert len(json.dumps(value)) <= LARGEST_BYTES
    assert len(value) == len(text) or len(value) > 150


def test_a_value_is_as_long_as_a_store_can_hold() -> None:
    """PostgreSQL's columns have 255 characters, and a server takes 2 kB of JSON."""
    assert (LARGEST_VALUE, LARGEST_BYTES) == (255, 2_000)
    assert searchable("x" * 255) == searchable("x" * 256) == "x" * 255
    assert searchable("a\0b") == "a\ufffdb"
    fits = "x" * 88 + "é" * 1 + "😀" * 159  # 12 bytes each as JSON, and two quotes
    exact = "x" * 36 + "😀" * 163 + "xxxxxx"
    for text in (fits, exact):
        assert len(json.dumps(text)) in {2_004, 2_000}
    assert searchable(exact) == exact
    assert searchable(fits) == fits[:-8]


@given(st.lists(st.text(max_size=300), max_size=30))
def test_a_list_of_values_fits_or_says_that_there_are_more(texts: list[str]) -> None:
    values = searchable_list(texts, "*")
    assert len(json.dumps(values)) <= LARGEST_BYTES
    assert len(set(values)) == len(values)
    assert "" not in values
    whole = {searchable(text) for text in texts} - {""}
    assert set(values) == whole or (values[-1] == "*" and set(values) - {"*"} < whole)


def test_a_list_that_is_too_long_ends_with_what_stands_for_the_rest() -> None:
    names = [f"{number:03}-{'x' * 96}" for number in range(30)]
    assert searchable_list(names[:19], "*") == names[:19]
    assert searchable_list(names, "*") == [*names[:19], "*"]
    assert searchable_list(["b", "*", "b", "a"], "*") == ["b", "*", "a"]
