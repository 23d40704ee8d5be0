"""What search attributes can hold, and the note of a namespace that lacks them."""

import json

from hypothesis import given
from hypothesis import strategies as st

from outlast.contract.searchability import (
    LARGEST_BYTES,
    LARGEST_VALUE,
    is_lacking,
    note,
    searchable,
)


@given(st.text(max_size=300) | st.text(alphabet="😀é", max_size=900))
def test_a_value_fits_and_is_the_beginning_of_the_text(text: str) -> None:
    value = searchable(text)
    assert text.startswith(value)
    assert len(value) <= LARGEST_VALUE
    assert len(json.dumps(value)) <= LARGEST_BYTES
    assert value == text or len(value) > 150


def test_a_namespace_lacks_attributes_until_they_are_seen_again() -> None:
    assert not is_lacking("one")
    note("one", lacks=True)
    assert is_lacking("one")
    assert not is_lacking("another")
    note("one", lacks=False)
    assert not is_lacking("one")
