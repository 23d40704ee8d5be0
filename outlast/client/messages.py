"""What can be said to a run, checked where it is said.

Owns: the checks that `Runner`, `RunHandle` and streamed results share. Must not know: how it is sent.
"""

import json
from typing import cast

from outlast.agents.errors import UserError
from outlast.agents.items.raw_items import plain
from outlast.loop.values import JsonObject


def check_input(given: object) -> str | list[JsonObject]:
    """Return what is said as plain data; refuse what is no input, before anything is sent.

    Raises:
        UserError: it is neither a text nor a list of items, or cannot be written as JSON.
    """
    if isinstance(given, str):
        return given
    try:
        items: object = plain(cast("object", given)) if isinstance(given, list) else None
        json.dumps(items)
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"The input of a run must be plain data, to travel: {error}") from None
    entries = cast("list[object]", items) if isinstance(items, list) else [None]
    if not all(isinstance(one, dict) for one in entries):
        raise UserError(
            f"The input of a run is a text or a list of items (dicts), not {given!r:.80}."
        )
    return cast("list[JsonObject]", entries)


def check_cancel_mode(mode: object) -> None:
    """Refuse a way to cancel that no run knows: it would go on without a word.

    Raises:
        UserError: it is none of the two.
    """
    if mode not in ("immediate", "after_turn"):
        raise UserError(f"cancel(mode=...) must be 'immediate' or 'after_turn', not {mode!r}.")
