"""Checks of a run's input, and of the modes of messages and cancellations, before anything is sent."""

import json
from typing import Any, cast, get_args

from outlast.agents.errors import UserError
from outlast.agents.items.pictures import check_pictures
from outlast.agents.items.raw_items import plain
from outlast.loop.values import JsonObject


def check_input(value: object) -> str | list[JsonObject]:
    """Return the input as plain data; refuse anything else before it is sent.

    Raises:
        UserError: it is no plain data, or has a new picture that is not whole.
    """
    if isinstance(value, str):
        return value
    try:
        items: object = plain(cast("object", value)) if isinstance(value, list) else None
        json.dumps(items)
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"The input of a run must be plain data (JSON): {error}") from None
    entries = cast("list[object]", items) if isinstance(items, list) else [None]
    if not all(isinstance(entry, dict) for entry in entries):
        raise UserError(
            f"The input of a run must be a string or a list of items (dicts), not {value!r:.80}."
        )
    found = cast("list[JsonObject]", entries)
    check_pictures(found)
    return found


def check_choice(argument: str, value: object, choices: Any) -> None:
    """Refuse a value that is none of the literals of a type."""
    if value not in get_args(choices):
        *others, last = map(repr, get_args(choices))
        raise UserError(f"{argument} must be {', '.join(others)} or {last}, not {value!r:.80}.")
