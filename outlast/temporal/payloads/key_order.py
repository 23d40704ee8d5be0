"""Keeps the order of keys in JSON payloads; Temporal's own converter sorts them.

A program may print a dict that went through a run, such as a guardrail's `output_info`.
"""

import json
from codecs import BOM_UTF8
from dataclasses import replace
from typing import Any, Self

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    AdvancedJSONEncoder,
    CompositePayloadConverter,
    DataConverter,
    DefaultPayloadConverter,
    JSONPlainPayloadConverter,
)

_ENCODER = AdvancedJSONEncoder(separators=(",", ":"))


class _JSONInOrder(JSONPlainPayloadConverter):
    def to_payload(self, value: Any) -> Payload | None:
        data = _ENCODER.encode(value).encode()
        return Payload(metadata={"encoding": self.encoding.encode()}, data=data)

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        data = payload.data
        if type_hint is None and b"\0" not in data and not data.startswith(BOM_UTF8):
            try:  # it is UTF-8, which the standard library would find out at some length
                return json.loads(data.decode(errors="surrogatepass"))
            except ValueError:
                pass
        return super().from_payload(payload, type_hint)


class OrderedPayloadConverter(CompositePayloadConverter):
    """Temporal's default payload converter, with the keys of JSON in their own order.

    There is one: the SDK asks for a new one in each activation of a workflow.
    """

    _one: "OrderedPayloadConverter | None" = None

    def __new__(cls) -> Self:
        """Return the one converter of the class."""
        one = cls._one
        if type(one) is not cls:
            one = cls._one = super().__new__(cls)
        return one

    def __init__(self) -> None:
        if "converters" in vars(self):
            return
        converters = DefaultPayloadConverter.default_encoding_payload_converters
        super().__init__(
            *(
                _JSONInOrder() if type(one) is JSONPlainPayloadConverter else one
                for one in converters
            )
        )


def in_key_order(converter: DataConverter) -> DataConverter:
    """Return a converter that keeps the order of keys; one with its own payloads is unchanged."""
    if converter.payload_converter_class is not DefaultPayloadConverter:
        return converter
    return replace(converter, payload_converter_class=OrderedPayloadConverter)
