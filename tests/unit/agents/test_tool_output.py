"""What a tool returns becomes what the model reads."""

import asyncio
import datetime as dt
import json
import threading
import uuid
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import pytest
from pydantic import BaseModel

from outlast.agents.errors import UserError
from outlast.agents.items.tool_output import (
    ToolOutputFileContent,
    ToolOutputFileContentDict,
    ToolOutputImage,
    ToolOutputImageDict,
    ToolOutputText,
    decode_output,
    encode_output,
)
from tests.pictures import CUT_PNG, PNG, url_of


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 4


class Mood(StrEnum):
    GOOD = "good"


class Order(BaseModel):
    id: str
    paid: Decimal = Decimal("1.50")


@dataclass
class Address:
    street: str
    since: dt.date | None = None


class Row(TypedDict):
    a: int


class Point(NamedTuple):
    x: int
    y: int


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ("", ""),
        ('"quoted"', '"quoted"'),
        ('{"already": "JSON"}', '{"already": "JSON"}'),
        (None, "null"),
        (True, "true"),
        (3, "3"),
        (1.5, "1.5"),
        (Decimal("1.50"), "1.50"),
        (dt.date(2026, 1, 2), "2026-01-02"),
        (dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC), "2026-01-02T03:04:00Z"),
        (dt.timedelta(minutes=1), "PT1M"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Path("/a/b"), "/a/b"),
        (Colour.RED, "red"),
        (Level.HIGH, "4"),
        (Mood.GOOD, "good"),
        ({"a": [1, None], "b": {"c": True}}, '{"a":[1,null],"b":{"c":true}}'),
        ({"name": "Zoë 🚲"}, '{"name":"Zoë 🚲"}'),
        ({1: "a"}, '{"1":"a"}'),
        ([], "[]"),
        ({}, "{}"),
        ((1, "a"), '[1,"a"]'),
        ({7}, "[7]"),
        (Point(1, 2), "[1,2]"),
        (Row(a=1), '{"a":1}'),
        (Order(id="A-17"), '{"id":"A-17","paid":"1.50"}'),
        ([Order(id="A-17")], '[{"id":"A-17","paid":"1.50"}]'),
        (Address("Hauptstraße"), '{"street":"Hauptstraße","since":null}'),
        (
            {"colour": Colour.RED, "at": dt.date(2026, 1, 2)},
            '{"colour":"red","at":"2026-01-02"}',
        ),
    ],
)
def test_results_are_text_or_compact_json(value: object, text: str) -> None:
    assert encode_output(value, tool_name="t") == text


@pytest.mark.parametrize(
    ("part", "content"),
    [
        (ToolOutputText(text="hello"), {"type": "input_text", "text": "hello"}),
        (
            ToolOutputImage(image_url="data:image/png;base64,AA==", detail="low"),
            {
                "type": "input_image",
                "image_url": "data:image/png;base64,AA==",
                "detail": "low",
            },
        ),
        (
            ToolOutputImage(image_url=url_of("image/png", PNG)),
            {"type": "input_image", "image_url": url_of("image/png", PNG)},
        ),
        (
            ToolOutputImage(image_url=url_of("image/png", CUT_PNG), detail="low"),
            {
                "type": "input_text",
                "text": "[Here was an image. It was left out: it is incomplete.]",
            },
        ),
        (ToolOutputImage(file_id="file-1"), {"type": "input_image", "file_id": "file-1"}),
        (
            ToolOutputFileContent(file_data="AA==", filename="a.pdf"),
            {"type": "input_file", "file_data": "AA==", "filename": "a.pdf"},
        ),
        (
            ToolOutputFileContent(file_url="https://example.com/a.pdf"),
            {"type": "input_file", "file_url": "https://example.com/a.pdf"},
        ),
        (ToolOutputFileContent(file_id="file-2"), {"type": "input_file", "file_id": "file-2"}),
    ],
)
def test_content_parts_are_in_the_format_of_the_responses_api(
    part: object, content: dict[str, Any]
) -> None:
    assert encode_output(part, tool_name="t") == [content]


@pytest.mark.parametrize("container", [list, tuple])
def test_a_list_of_parts_stays_a_list(container: type[Any]) -> None:
    parts = container([ToolOutputText(text="see:"), ToolOutputImage(file_id="f")])

    assert encode_output(parts, tool_name="t") == [
        {"type": "input_text", "text": "see:"},
        {"type": "input_image", "file_id": "f"},
    ]


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"type": "text", "text": "hi", "more": 1}, {"type": "input_text", "text": "hi"}),
        (
            ToolOutputImageDict(type="image", file_id="f"),
            {"type": "input_image", "file_id": "f"},
        ),
        (
            ToolOutputFileContentDict(type="file", file_data="AA==", filename="a.pdf"),
            {"type": "input_file", "file_data": "AA==", "filename": "a.pdf"},
        ),
    ],
)
def test_a_part_may_be_a_dict(given: object, read: dict[str, Any]) -> None:
    assert encode_output(given, tool_name="t") == [read]
    assert encode_output([given, ToolOutputText(text="!")], tool_name="t") == [
        read,
        {"type": "input_text", "text": "!"},
    ]


@pytest.mark.parametrize(
    "data",
    [
        {"text": "hi"},
        {"type": "text", "text": 3},
        {"type": "text"},
        {"type": "image"},
        {"type": "message", "text": "hi"},
        {"type": ["text"], "text": "hi"},
        [{"type": "text", "text": "hi"}, {"type": "row"}],
    ],
)
def test_data_that_only_looks_like_a_part_is_data(data: object) -> None:
    assert encode_output(data, tool_name="t") == json.dumps(data, separators=(",", ":"))


def test_an_object_with_words_of_its_own_reads_as_these() -> None:
    class Table:
        def __repr__(self) -> str:
            return "a | b"

    assert encode_output(Table(), tool_name="t") == "a | b"


def test_so_does_one_in_a_list_or_a_dict() -> None:
    class Order:
        def __repr__(self) -> str:
            return "Order A-17"

    assert encode_output([Order()], tool_name="t") == '["Order A-17"]'
    assert encode_output({"open": {1: Order()}}, tool_name="t") == '{"open":{"1":"Order A-17"}}'


def test_an_address_in_memory_is_nothing_to_read() -> None:
    for value in (threading.Lock(), asyncio.Lock()):
        with pytest.raises(UserError, match="cannot be written as JSON"):
            encode_output(value, tool_name="t")


def test_a_list_of_parts_and_other_values_is_refused() -> None:
    with pytest.raises(UserError, match=r"Tool 'scan' returned a list .* into ToolOutputText"):
        encode_output([ToolOutputText(text="a"), "b"], tool_name="scan")


@pytest.mark.parametrize(
    "value",
    [b"\x00", bytearray(b"a"), memoryview(b"a"), [b"a"], {"data": {"more": (1, b"a")}}, {b"a"}],
)
def test_binary_data_is_refused_also_deep_inside_and_when_it_happens_to_be_text(
    value: object,
) -> None:
    with pytest.raises(
        UserError, match=r"Tool 'scan' returned (bytes|bytearray|memoryview), .*base64"
    ):
        encode_output(value, tool_name="scan")


def circle() -> list[Any]:
    entries: list[Any] = []
    entries.append(entries)
    return entries


class Connection:
    pass


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (Connection(), "a Connection that cannot"),
        ({"db": Connection()}, r"a dict that cannot .*Connection"),
        (print, "builtin_function_or_method"),
    ],
)
def test_what_is_not_json_is_refused_with_the_tool_the_type_and_the_fix(
    value: object, named: str
) -> None:
    with pytest.raises(UserError, match=named) as caught:
        encode_output(value, tool_name="scan")

    assert caught.value.message.startswith("Tool 'scan' returned")
    assert "Return a string, JSON values, a pydantic model or a dataclass." in str(caught.value)


def test_a_value_that_holds_itself_is_refused() -> None:
    with pytest.raises(UserError, match="Tool 'scan' returned a list that cannot be written"):
        encode_output(circle(), tool_name="scan")


def test_text_that_no_request_could_carry_is_repaired() -> None:
    assert encode_output("ok \ud83d no", tool_name="t") == "ok ? no"
    assert encode_output(ToolOutputText(text="\ud83d"), tool_name="t") == [
        {"type": "input_text", "text": "?"}
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (ToolOutputImage, "image_url= or file_id="),
        (ToolOutputFileContent, "file_data=, file_url= or file_id="),
    ],
)
def test_a_part_without_its_content_is_refused(make: type[Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()


class Weather(BaseModel):
    city: str


@dataclass
class Place:
    name: str


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (Weather(city="Oslo"), Weather),
        (Place("here"), Place),
        ([Weather(city="Oslo")], list[Weather]),
        (dt.date(2026, 1, 2), dt.date),
        (5, int),
        (None, Weather | None),
        ("5", int | str),
        ("text", str),
    ],
)
def test_a_result_is_found_again_in_what_the_model_read(value: object, kind: Any) -> None:
    assert decode_output(encode_output(value, tool_name="t"), kind) == value


def test_words_in_place_of_a_result_stay_words() -> None:
    assert decode_output("The tool failed.", Weather) == "The tool failed."
    assert decode_output("The tool failed.", dict[str, int]) == "The tool failed."


def test_a_result_of_no_known_type_is_what_the_model_read() -> None:
    class Unknown:
        pass

    assert decode_output('{"city": "Oslo"}', None) == '{"city": "Oslo"}'
    assert decode_output('{"city": "Oslo"}', Unknown) == '{"city": "Oslo"}'
    assert decode_output({"city": "Oslo"}, Weather) == Weather(city="Oslo")


def test_a_text_reads_like_its_text() -> None:
    assert str(ToolOutputText(text="hello")) == "hello"
