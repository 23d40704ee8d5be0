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
    assert "\0" not in value
    assert text.replace("\0", "\ufffd").startswith(value)
    assert len(value) <= LARGEST_VALUE
    assert len(json.dumps(value)) <= LARGEST_BYTES
    assert len(value) == len(text) or len(value) > 150


def test_a_namespace_lacks_attributes_until_they_are_seen_again() -> None:
    assert not is_lacking("one", "queue")
    note("one", "queue", lacks=True)
    assert is_lacking("one", "queue")
    assert not is_lacking("another", "queue")
    note("one", "queue", lacks=False)
    assert not is_lacking("one", "queue")


def test_workers_of_one_process_at_two_servers_do_not_hear_of_each_other() -> None:
    note("default", "here", lacks=True)
    note("default", "there", lacks=False)
    assert is_lacking("default", "here")
    note("default", "here", lacks=False)
