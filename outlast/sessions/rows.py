"""Items of a session as rows of text.

Owns: how an item is written and read. Must not know: any database.
"""

import json
import logging
from collections.abc import Iterable
from typing import Any, cast

from outlast.agents.session_memory import plain_item
from outlast.loop.values import JsonObject

logger = logging.getLogger(__name__)


def write_row(item: object) -> str:
    """Return an item as text: JSON in ASCII, which any database keeps as it is.

    Raises:
        UserError: the item is no JSON object.
    """
    return json.dumps(plain_item(item, what="add_items"), separators=(",", ":"))


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
