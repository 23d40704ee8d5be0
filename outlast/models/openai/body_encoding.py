"""Encodes request bodies as JSON."""

import json


def encode(value: object) -> bytes:
    """Return a value as compact JSON in UTF-8.

    Fields of pydantic objects that are None are left out.

    Raises:
        ValueError: the value has no JSON.
    """
    from pydantic_core import to_json

    text = to_json(value, by_alias=True, exclude_none=True)
    if b"NaN" in text or b"Infinity" in text:  # perhaps in a string
        json.dumps(value, allow_nan=False, default=str)
    return text
