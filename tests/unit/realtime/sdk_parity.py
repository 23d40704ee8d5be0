"""Compares a record with the record of the same name in the OpenAI Agents SDK."""

import dataclasses
from typing import Any


def shape(record: Any) -> object:
    """Return the fields of a dataclass, a TypedDict or a pydantic model, with their defaults."""
    if dataclasses.is_dataclass(record):
        return [(one.name, _default(one.default)) for one in dataclasses.fields(record)]
    if hasattr(record, "model_fields"):
        return {name: _default(one.default) for name, one in record.model_fields.items()}
    if hasattr(record, "__required_keys__"):
        return sorted(record.__required_keys__ | record.__optional_keys__)
    return None


def _default(value: object) -> object:
    return value if value is None or isinstance(value, str | int | bool) else "other"
