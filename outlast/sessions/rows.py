"""The text format of a session's items in a database row."""

import json
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, cast

from outlast.agents.config.session_input import plain_item
from outlast.agents.logs import get_logger
from outlast.loop.values import JsonObject
from outlast.ports.session import SessionABC

logger = get_logger(__name__)


def write_row(item: object, *, ensure_ascii: bool = True) -> str:
    """Return an item as JSON, in ASCII by default, which any database can store.

    Args:
        item: the item.
        ensure_ascii: False keeps non-ASCII characters, for people who read the rows. An item that
            UTF-8 cannot encode is still written in ASCII.

    Raises:
        UserError: the item is no JSON object.
    """
    plain = plain_item(item, what="add_items")
    row = json.dumps(plain, separators=(",", ":"), ensure_ascii=ensure_ascii)
    try:
        row.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return json.dumps(plain, separators=(",", ":"))
    return row


def read_rows(rows: Iterable[str], *, session_id: str) -> list[JsonObject]:
    """Return the items of rows; skip rows that are no JSON objects, with a warning.

    One damaged row must not make the rest of a conversation unreadable.
    """
    items: list[JsonObject] = []
    for row in rows:
        item = _read(row)
        if item is None:
            logger.warning(
                "The session %r holds a row that is not a JSON object, which is skipped: %.60r",
                session_id,
                row,
            )
        else:
            items.append(item)
    return items


def rows_after(
    rows: Sequence[str], items: Sequence[JsonObject], *, session_id: str
) -> list[str] | None:
    """Return the rows after the oldest items; None if the rows begin differently."""
    left = list(items)
    for at, row in enumerate(rows):
        if not left:
            return list(rows[at:])
        (item,) = read_rows([row], session_id=session_id) or [None]
        if item is not None and item != left.pop(0):
            return None
    return None if left else []


def _read(row: str) -> JsonObject | None:
    try:
        item: Any = json.loads(row)
    except (ValueError, RecursionError):
        return None
    return cast("JsonObject", item) if isinstance(item, dict) else None


class RowSession(SessionABC):
    """A session that appends rows and the key of a save in one step."""

    async def add_items(self, items: list[Any]) -> None:
        """Append items, all of them or none.

        Raises:
            UserError: an item is no JSON object, or the items are larger than the store takes.
        """
        rows = [write_row(item) for item in items]
        if rows:
            await self._append(rows, key=None)

    async def add_items_once(self, key: str, items: list[Any]) -> bool:
        """Append items, unless items were saved with this key before.

        The items and the key are written in one step.

        Returns:
            Whether the items were stored now.

        Raises:
            UserError: an item is no JSON object, or the items are larger than the store takes.
        """
        return await self._append([write_row(item) for item in items], key=key)

    @abstractmethod
    async def _append(self, rows: list[str], *, key: str | None) -> bool:
        """Append rows, unless the key is known; return whether they were stored."""
