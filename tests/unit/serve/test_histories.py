"""Bodies with a whole history: read in bounded memory, with the newest photos."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.exceptions import HTTPException

from outlast.serve.histories import LONG, HistoryReader

TEXTS = st.text(max_size=20) | st.sampled_from(["\\", '"', '\\"'])


@given(
    st.recursive(TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)), st.data()
)
def test_what_is_small_stays_whatever_the_pieces(value: Any, data: Any) -> None:
    body = json.dumps(value, ensure_ascii=data.draw(st.booleans())).encode("utf-8", "replace")
    reader, at = HistoryReader(), 0
    while at < len(body):
        size = data.draw(st.integers(1, 50))
        reader.feed(body[at : at + size])
        at += size
    assert reader.body() == body


def test_of_long_texts_the_newest_are_kept() -> None:
    photos = [f"{number}" + "A" * (LONG * 2) for number in range(10)]
    reader = HistoryReader(most=LONG * 5)
    reader.feed(json.dumps([*photos, "What is this?"]).encode())
    found = json.loads(reader.body())
    assert found == [*[""] * 8, *photos[-2:], "What is this?"]


@pytest.mark.parametrize(
    "body", [b'"' + b"A" * 60_000, b'"' + b"A" * 60_000 + b'"', b"[" * 60_000, b'"a",' * 20_000]
)
def test_a_text_or_a_rest_that_is_too_large_is_refused(body: bytes) -> None:
    reader = HistoryReader(most=50_000)
    with pytest.raises(HTTPException) as refused:
        reader.feed(body)
    assert refused.value.status_code == 413


def test_what_is_cut_off_stays_so() -> None:
    reader = HistoryReader()
    reader.feed(b'{"a": "b')
    assert reader.body() == b'{"a": "b'
