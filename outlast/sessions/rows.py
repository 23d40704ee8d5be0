"""Items of a session as rows of text.

Owns: how an item is written and read. Must not know: any database.
"""

import json
from collections.abc import Iterable
from typing import Any, cast

from outlast.agents.config.session_input import plain_item
from outlast.agents.logs import get_logger
from outlast.loop.values import JsonObject

logger = get_logger(__name__)


def write_row(item: object, *, ensure_ascii: bool = True) -> str:
    """Return an item as text: JSON in ASCII, which any database keeps as it is.

    Args:
        item: the item.
        ensure_ascii: False leaves letters as they are, for people who look into the database. What
            cannot be written in UTF-8 is in ASCII all the same.

    Raises:
        UserError: the item is no JSON object.
    """
    plain = plain_item(item, what="add_items")
    row = json.dumps(plain, separators=(",", ":"), ensure_ascii=ensure_ascii)
    try:
        row.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which was cut in two
        return json.dumps(plain, separators=(",", ":"))
    return row


def read_rows(rows: Iterable[str], *, session_id: str) -> list[JsonObject]:
    """Return the items of rows; a row that is no JSON object is left out, with a warning.

    One damaged row should not cost the rest of a conversation.
    """
    items: list[JsonObject] = []
    for row in rows:
        item = _read(row)
        if item is None:
            logger.warning(
                "Session %r holds a row that is no JSON object; it is left out: %.60r",
                session_id,
                row,
            )
        else:
            items.append(item)
    return items


def _read(row: str) -> JsonObject | None:
    try:
        item: Any = json.loads(row)
    except (ValueError, RecursionError):
        return None
    return cast("JsonObject", item) if isinstance(item, dict) else None
