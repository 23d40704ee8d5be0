"""Sessions around other sessions, and the replacement of the beginning of a history."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, cast, runtime_checkable

from outlast.agents.config.session_input import SessionSettings, check_session
from outlast.ports.session import IdempotentSession, Session, SessionABC, store_name_of

EVERYTHING = 2**31 - 1
"""A limit that no history reaches, for reading it in spite of the session's own limit."""


@runtime_checkable
class ReplaceableSession(Protocol):
    """A session that can replace its oldest items in one step."""

    async def replace_items(self, old: list[Any], new: list[Any]) -> bool:
        """Replace the oldest items, and keep the newer ones.

        Args:
            old: the oldest items, as `get_items` returned them.
            new: the items to put in their place.

        Returns:
            Whether they were replaced; false if the session no longer begins with the old items.
        """
        ...


async def replace_items(session: Session, old: Sequence[Any], new: Sequence[Any]) -> bool:
    """Replace a session's oldest items, and keep the newer ones; return whether that was done.

    A `ReplaceableSession` does so in one step. Any other session is cleared and filled again: if
    that fails, its items are put back, but a process that dies in between loses them. A session
    that no longer begins with the old items stays.
    """
    if isinstance(session, ReplaceableSession):
        return await session.replace_items(list(old), list(new))
    current = await session.get_items(limit=EVERYTHING)
    if current[: len(old)] != list(old):
        return False
    is_empty = False
    try:
        await session.clear_session()
        is_empty = True
        await session.add_items([*new, *current[len(old) :]])
    except BaseException:  # also cancelled: the session may be empty now
        await _finished(_put_back(session, current, again=is_empty))
        raise
    return True


async def _put_back(session: Session, items: list[Any], *, again: bool) -> None:
    """Store the items that a session had before it was cleared, or, `again`, filled in part."""
    left = None if again else await session.get_items(limit=EVERYTHING)
    if left == items:
        return
    if left != []:
        await session.clear_session()
    await session.add_items(items)


async def _finished(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled


class WrappedSession(SessionABC):
    """A session that stores its items in another session.

    If the other session saves items once, this one does, too: it then has `add_items_once`.

    Attributes:
        underlying_session: the session that stores the items.
    """

    def __init__(self, session_id: str, underlying_session: Session) -> None:
        """Wrap a session.

        Raises:
            UserError: the other object is no session, or the id is no text.
        """
        check_session(underlying_session)
        self.session_id = session_id
        self.underlying_session = underlying_session
        check_session(self)
        if isinstance(underlying_session, IdempotentSession):
            self.add_items_once: Final = self._add_items_once

    if not TYPE_CHECKING:  # there, it is the attribute of the base class

        @property
        def session_settings(self) -> SessionSettings | None:
            """The settings of the other session."""
            return getattr(self.underlying_session, "session_settings", None)

        @session_settings.setter
        def session_settings(self, value: SessionSettings | None) -> None:
            cast("Any", self.underlying_session).session_settings = value

    @property
    def store_name(self) -> str:
        """The store of the other session."""
        return store_name_of(self.underlying_session)

    def stored(self, items: list[Any]) -> list[Any]:
        """Return items in the form in which the other session stores them."""
        return items

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the newest `limit` items, or all for None, oldest first."""
        if limit is None:
            return await self.underlying_session.get_items()
        return await self.underlying_session.get_items(limit=limit)

    async def add_items(self, items: list[Any]) -> None:
        """Append items."""
        await self.underlying_session.add_items(self.stored(items))

    async def pop_item(self) -> Any | None:
        """Remove and return the newest item; None if there is none."""
        return await self.underlying_session.pop_item()

    async def clear_session(self) -> None:
        """Remove all items."""
        await self.underlying_session.clear_session()

    async def _add_items_once(self, key: str, items: list[Any]) -> bool:
        session = cast("IdempotentSession", self.underlying_session)
        return await session.add_items_once(key, self.stored(items))
