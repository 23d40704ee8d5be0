"""The data of server-sent events, however their bytes are cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.edges.bodies import BodyRefused
from outlast.models.openai.server_events import EventData
from tests.laws.strategies import examples


def events(*pieces: bytes) -> list[bytes]:
    data = EventData()
    return [event for piece in pieces for event in data.feed(piece)]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: one\n\n", [b"one"]),
        (b"data:one\n\ndata: two\n\n", [b"one", b"two"]),
        (b"event: x\nid: 1\nretry: 5\ndata: one\n\n", [b"one"]),
        (b"data: one\r\n\r\ndata: two\r\rdata: three\n\n", [b"one", b"two", b"three"]),
        (b"data: one\ndata: two\n\n", [b"one\ntwo"]),
        (b"data:  one \n\n", [b" one "]),
        (b": a comment\n\n\n\ndata: one\n\n", [b"one"]),
        (b"event: ping\n\ndata: one\n\n", [b"one"]),
        (b"data\n\n", [b""]),
        (b"database: no\ndata: one\n\n", [b"one"]),
        (b"data: cut off", []),
        (b"data: cut off\n", []),
        (b"\n\n\r\n", []),
    ],
)
def test_every_way_to_write_an_event(stream: bytes, expected: list[bytes]) -> None:
    assert events(stream) == expected


LINES = st.sampled_from([b"data: one", b"data", b"data: \xe2\x82\xac", b": c", b"event: x", b""])
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])
STREAMS = st.lists(st.tuples(LINES, ENDS).map(b"".join)).map(b"".join)


@examples(300)
@given(STREAMS, st.lists(st.integers(0, 200)))
def test_where_the_bytes_are_cut_changes_nothing(stream: bytes, cuts: list[int]) -> None:
    at = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[start:end] for start, end in pairwise(at)]
    assert events(*pieces) == events(stream)


def test_a_long_line_is_read_in_linear_time() -> None:
    pieces = [b"data: ", *[b"x" * 1024] * 20_000, b"\n", b"\n"]
    assert [len(event) for event in events(*pieces)] == [20_000 * 1024]


@pytest.mark.parametrize("ends", [b"", b"\n"])
def test_an_event_is_bounded_however_it_comes(ends: bytes) -> None:
    piece = b"data: " + b"x" * 1_000_000 + ends
    with pytest.raises(BodyRefused, match="more than 30,000,000 bytes"):
        events(*[piece] * 31)
