"""Every door counts what comes before a parser reads it."""

import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

import outlast
from outlast.edges.bodies import DOORS, BodyRefused, Door, Scan, loads
from outlast.edges.bodies.answers import AnswerTooLarge, bound_answers

TEXTS = st.text(max_size=8) | st.sampled_from(["\\", '"', '\\"', "[{,:", "]"])
VALUES = st.recursive(
    TEXTS | st.none() | st.integers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
)


def inside(value: Any) -> list[Any]:
    """Return the values in a list or object."""
    return list(cast("Any", value).values()) if isinstance(value, dict) else value


def nodes(value: Any) -> int:
    """Count brackets, commas and colons of a value."""
    if not isinstance(value, dict | list):
        return 0
    inner = inside(value)
    names = len(inner) if isinstance(value, dict) else 0
    return 1 + names + max(0, len(inner) - 1) + sum(map(nodes, inner))


def depth(value: Any) -> int:
    """Return how deep lists and objects are nested."""
    is_nested = isinstance(value, dict | list)
    return 1 + max(map(depth, inside(value)), default=0) if is_nested else 0


def takes(body: bytes, door: Door, sizes: list[int]) -> bool:
    scan, at = Scan(door), 0
    try:
        for size in sizes:
            scan.feed(body[at : at + size])
            at += size
        scan.feed(body[at:])
    except BodyRefused:
        return False
    return True


@given(VALUES, st.lists(st.integers(1, 9)), st.booleans())
def test_what_is_counted_is_what_a_parser_makes(
    value: Any, sizes: list[int], is_ascii: bool
) -> None:
    body = json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    exact = Door("It", len(body), depth(value), nodes(value))
    assert takes(body, exact, sizes)
    for name in ("size", "depth", "nodes"):
        less = getattr(exact, name) - 1
        limits: Any = {"size": len(body), "depth": 99, "nodes": 9999, name: less}
        smaller = Door("It", **limits)
        assert less < 0 or not takes(body, smaller, sizes)


@pytest.mark.parametrize("name", DOORS)
def test_every_door_refuses_each_bomb_in_a_sentence_and_is_used(name: str) -> None:
    door = DOORS[name]
    with pytest.raises(BodyRefused, match=f"^{door.what} has more than .* bytes\\. .*\\.$"):
        door.check_size(door.size + 1)
    with pytest.raises(BodyRefused, match=f"^{door.what} is nested more than .* levels deep\\. "):
        door.check(b"[" * (door.depth + 1))
    with pytest.raises(BodyRefused, match=f"^{door.what} has more than .* values\\. "):
        door.check(b"[" + b"[]," * door.nodes)
    sources = Path(outlast.__file__).parent.rglob("*.py")
    assert any(f'DOORS["{name}"]' in one.read_text(encoding="utf-8") for one in sources)


def test_the_documented_limits_are_those_of_the_table() -> None:
    page = Path(__file__).parents[4] / "docs/reference/bounds-and-errors.md"
    text = page.read_text(encoding="utf-8")
    for name, door in DOORS.items():
        row = rf"^\| {name} \| .* \| {door.size:,} \| {door.depth} \| {door.nodes:,} \|$"
        assert re.search(row, text, re.MULTILINE), name


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32-le"])
def test_other_encodings_whose_quotes_cannot_be_counted_are_no_json(encoding: str) -> None:
    body = json.dumps(["∀"], ensure_ascii=False)
    assert loads(body.encode("utf-8-sig")) == ["∀"]
    with pytest.raises(ValueError, match=r"decode|JSON|Expecting"):
        loads(body.encode(encoding))


class Answer(httpx2.AsyncByteStream):
    def __init__(self, content: bytes) -> None:
        self.content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.content


def client(content: bytes, **headers: str) -> httpx2.AsyncClient:
    def answer(request: httpx2.Request) -> httpx2.Response:
        assert request.headers["accept-encoding"] == "identity"
        return httpx2.Response(200, stream=Answer(content), headers=headers)

    made = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    bound_answers(made, Door("The answer", 50, 2, 10, "Ask for less."))
    return made


async def test_an_answer_is_counted_and_a_compressed_one_refused() -> None:
    assert (await client(b"[[1]]").get("http://a")).json() == [[1]]
    with pytest.raises(AnswerTooLarge, match=r"nested more than 2 levels deep\. Ask for less\."):
        await client(b"[[[1]]]").get("http://a")
    with pytest.raises(httpx2.DecodingError, match="Switch its compression off"):
        await client(b"", **{"content-encoding": "gzip"}).get("http://a")


async def test_each_event_of_a_stream_has_the_limits_for_itself() -> None:
    kind = {"content-type": "text/event-stream; charset=utf-8"}
    event = b"data: [1, 2, 3, 4, 5, 6]\n\n"
    assert (await client(event * 20, **kind).get("http://a")).content == event * 20
    with pytest.raises(httpx2.SSEError, match="more than 10 values"):
        await client(event + event.replace(b"\n\n", b"\n") * 2, **kind).get("http://a")


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_100_megabytes_cost_little_memory_and_no_time_at_any_door(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.bombs", str(tmp_path)]
    program = subprocess.run(command, check=True, capture_output=True, text=True)
    found = [json.loads(line) for line in program.stdout.splitlines()]
    assert len(found) == 3 * len({one["name"] for one in found}) >= 57
    for one in found:
        assert one["bytes"] <= DOORS[one["door"]].size + 50_000_000, one
        assert re.search(r"more than [\d,]+ |Log in first|is not JSON", one["said"]), one
        # Files are read by commands, which have nothing else to do meanwhile.
        assert "file" in one["name"] or one["door"] in FILES or one["pause"] < 0.1, one


FILES = {"policy", "prices", "data set", "recording"}
