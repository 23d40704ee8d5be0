"""The order of keys in JSON payloads."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter

from outlast.temporal.payloads.key_order import OrderedPayloadConverter, in_key_order
from outlast.temporal.payloads.readable import raw_json, readable
from tests.workflow.codecs import Sealed


@dataclass
class Point:
    y: int
    x: int


async def test_keys_keep_their_order_and_the_format_is_that_of_temporal() -> None:
    value = {"b": [{"z": 1, "a": "ü"}], "a": Point(1, 2)}
    converter = in_key_order(DataConverter.default)
    (payload,) = await converter.encode([value])
    (sorted_payload,) = await DataConverter.default.encode([value])
    assert payload.metadata == sorted_payload.metadata
    assert list((await converter.decode([payload]))[0]) == ["b", "a"]
    assert list((await DataConverter.default.decode([payload]))[0]["a"]) == ["y", "x"]
    assert sorted(payload.data) == sorted(sorted_payload.data)


@pytest.mark.parametrize(
    "data",
    [
        b'{"b":1}',
        b'"\xed\xa0\xbd"',
        b"\xef\xbb\xbf[1]",
        '{"b":"ü"}'.encode("utf-16"),
        b"{",
        b"\xff",
    ],
)
async def test_json_is_read_as_by_temporal(data: bytes) -> None:
    def read(converter: DataConverter) -> Any:
        try:
            return converter.payload_converter.from_payload(payload)
        except Exception as error:  # noqa: BLE001  whatever it is
            return repr(error)

    payload = Payload(metadata={"encoding": b"json/plain"}, data=data)
    assert read(in_key_order(DataConverter.default)) == read(DataConverter.default)


async def test_values_that_are_no_json_are_written_as_before() -> None:
    values = [None, b"raw"]
    converter = in_key_order(DataConverter.default)
    assert await converter.encode(values) == await DataConverter.default.encode(values)


def test_a_converter_with_its_own_payloads_is_not_changed() -> None:
    assert in_key_order(pydantic_data_converter) is pydantic_data_converter


async def test_workers_keep_the_order_and_their_codec() -> None:
    converter = readable(replace(DataConverter.default, payload_codec=Sealed(b"key")))
    assert converter.payload_converter_class is OrderedPayloadConverter
    assert isinstance(converter.payload_codec, Sealed)
    (value,) = await converter.decode(await converter.encode([{"b": 1, "a": 2}]))
    assert list(value) == ["b", "a"]


def test_json_text_is_sent_as_it_is_by_the_converter_that_the_sdk_wraps() -> None:
    written = b'{"b": 1, "a": "\xc3\xbc"}'
    ordered = in_key_order(DataConverter.default).payload_converter
    assert ordered.to_payload(raw_json(ordered, written)).data == written
    assert raw_json(DataConverter.default.payload_converter, written) == {"b": 1, "a": "ü"}
