"""Encodes request bodies as JSON."""

import json
from collections.abc import Iterable
from typing import Any

from outlast.loop.values import JsonObject


class EncodedItems(list[JsonObject]):
    """Items of a request body that are encoded already."""

    __slots__ = ("data",)

    def __init__(self, items: Iterable[JsonObject], data: list[bytes]) -> None:
        super().__init__(items)
        self.data: list[bytes] = data


def encode(body: JsonObject) -> bytes:
    """Return a body as JSON in UTF-8; encoded items come last."""
    encoded = {name: value for name, value in body.items() if type(value) is EncodedItems}
    if not encoded:
        return _dumps(body)
    whole = _dumps({name: value for name, value in body.items() if name not in encoded})
    parts = [whole[:-1]]
    for name, items in encoded.items():
        comma = b"" if parts == [b"{"] else b","
        parts += comma, _dumps(name), b":[", b",".join(items.data), b"]"
    return b"".join((*parts, b"}"))


def _dumps(value: object) -> bytes:
    return _ENCODER.encode(value).encode()


def _as_json(value: Any) -> object:
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json", exclude_unset=True, by_alias=True)
    if callable(form := getattr(value, "isoformat", None)):
        return form()
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


_ENCODER = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_as_json
)
