"""Checks of a run's input, and of the modes of messages and cancellations, before anything is sent."""

import json
from typing import cast, get_args

from outlast.agents.errors import UserError
from outlast.agents.items.raw_items import plain
from outlast.loop.items import SendMode
from outlast.loop.values import JsonObject


def check_input(value: object) -> str | list[JsonObject]:
    """Return the input as plain data; refuse anything else before it is sent."""
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
    return cast("list[JsonObject]", entries)


def check_cancel_mode(mode: object) -> None:
    """Refuse an unknown cancel mode, which the run would ignore."""
    if mode not in ("immediate", "after_turn"):
        raise UserError(f"cancel(mode=...) must be 'immediate' or 'after_turn', not {mode!r}.")


def check_send_mode(mode: object) -> None:
    """Refuse an unknown send mode."""
    if mode not in get_args(SendMode):
        raise UserError(
            f"send(mode=...) must be 'queue', 'steer' or 'interrupt', not {mode!r:.80}."
        )
