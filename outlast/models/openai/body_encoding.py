"""Encodes request bodies as JSON."""

import json
from collections.abc import Iterable
from functools import partial
from itertools import compress
from operator import is_
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
    encoded = [*compress(body, map(_IS_ENCODED, map(type, body.values())))]
    if not encoded:
        return _dumps(body)
    others = body.copy()
    lists: list[EncodedItems] = [*map(others.pop, encoded)]
    parts = [_dumps(others)[:-1]]
    for name, items in zip(encoded, lists, strict=True):
        comma = b"" if parts == [b"{"] else b","
        parts += comma, _dumps(name), b":[", b",".join(items.data), b"]"
    return b"".join((*parts, b"}"))


_IS_ENCODED = partial(is_, EncodedItems)


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
