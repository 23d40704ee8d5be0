"""Sessions of rows: the text of an item in a row, and what all such sessions share."""

import json
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, cast

from outlast.agents.config.session_input import SessionSettings, plain_item
from outlast.agents.config.settings_field import as_settings
from outlast.agents.errors import UserError
from outlast.agents.json_values import as_object
from outlast.agents.logs import get_logger
from outlast.loop.values import JsonObject
from outlast.ports.session import SessionABC, item_limit

logger: Final = get_logger(__name__)

RowsToKeep: TypeAlias = Callable[[Sequence[str]], list[str] | None]
"""Returns the rows after those to replace; None if the rows begin differently."""


def write_row(item: object, *, ensure_ascii: bool = True) -> str:
    """Return an item as JSON, in ASCII by default, which any database can store.

    Without `ensure_ascii`, only an item that UTF-8 cannot encode is written in ASCII.

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
        return as_object(json.loads(row))
    except (ValueError, RecursionError):
        return None


class RowSession(SessionABC):
    """A session of rows, one for each item. Each step of a subclass is atomic."""

    _closed = False
    _ensure_ascii = True

    def __init__(
        self, session_id: str, session_settings: SessionSettings | Mapping[str, Any] | None
    ) -> None:
        if not isinstance(cast("object", session_id), str) or not session_id or "\0" in session_id:
            raise UserError(f"{type(self).__name__}: session_id must be a non-empty string.")
        self.session_id = session_id
        self.session_settings: SessionSettings | None = as_settings(
            SessionSettings, session_settings or {}
        )

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the newest items, at most `limit` of them, oldest first.

        Rows that are no JSON objects are skipped with a warning in the log, and not counted.

        Args:
            limit: the maximum number of items; None for the limit of the session's settings, if
                any, else for all items.
        """
        at_most = count = item_limit(limit, self.session_settings)
        if count == 0:
            return []
        while True:
            rows, are_all = await self._newest(at_most)
            items = read_rows(rows, session_id=self.session_id)
            if count is None or at_most is None:
                return items
            if len(items) >= count or are_all:
                return items[-count:]
            at_most *= 2  # some rows were no items

    async def add_items(self, items: list[Any]) -> None:
        """Append items, all of them or none.

        Raises:
            UserError: an item is no JSON object, or the items are larger than the store takes.
        """
        rows = self._written(items)
        if rows or self._closed:  # a closed session says so
            await self._append(rows, key=None)

    async def add_items_once(self, key: str, items: list[Any]) -> bool:
        """Append items in one step with a key, unless items were saved with this key before.

        Returns:
            Whether the items were stored now.

        Raises:
            UserError: an item is no JSON object, or the items are larger than the store takes.
        """
        return await self._append(self._written(items), key=key)

    async def replace_items(self, old: list[Any], new: list[Any]) -> bool:
        """Replace the oldest items in one step, and keep the newer ones.

        The keys of saved items stay, so that a repeated save stays without effect.

        Args:
            old: the oldest items, as `get_items` returned them.
            new: the items to put in their place.

        Returns:
            Whether they were replaced; false if the session no longer begins with the old items.
        """
        rows_to_keep = partial(rows_after, items=old, session_id=self.session_id)
        return await self._replace(self._written(new), rows_to_keep)

    async def pop_item(self) -> Any | None:
        """Remove and return the newest item; None if the session is empty.

        Newer rows that are no JSON objects are removed, too.
        """
        while (row := await self._pop()) is not None:
            if items := read_rows([row], session_id=self.session_id):
                return items[0]
        return None

    def _written(self, items: Iterable[Any]) -> list[str]:
        return [write_row(item, ensure_ascii=self._ensure_ascii) for item in items]

    @abstractmethod
    async def _newest(self, at_most: int | None) -> tuple[list[str], bool]:
        """Return the newest rows, oldest first, and whether there are no others."""

    @abstractmethod
    async def _append(self, rows: list[str], *, key: str | None) -> bool:
        """Append rows, unless the key is known; return whether they were stored."""

    @abstractmethod
    async def _replace(self, added: list[str], rows_to_keep: RowsToKeep) -> bool:
        """Replace all rows by others and those to keep; return False if there is None to keep."""

    @abstractmethod
    async def _pop(self) -> str | None:
        """Remove and return the newest row."""


class ClientSession(RowSession):
    """A session in a server that a client reaches."""

    client: Any
    _close_client: Callable[[], Awaitable[None]] | None = None

    async def close(self) -> None:
        """Close the client, if this session created it."""
        if self._close_client is not None:
            await self._close_client()
