"""The port to a session: what remembers a conversation between runs.

Owns: the protocols and the base class that users and the adapters in `outlast.sessions`
implement. Must not know: any storage, Temporal, or when a run reads and writes.
"""

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

from outlast import lazy
from outlast.agents.config.session_input import SessionSettings
from outlast.agents.errors import UserError
from outlast.loop.values import JsonObject

DESCRIBED = {"sqlite": "outlast.sessions.sqlite:SQLiteSession"}
"""By kind, the sessions that can be described. They are found by name: they stand above here."""


@runtime_checkable
class Session(Protocol):
    """A protocol for objects that store the items of a conversation.

    A session may also have an attribute `session_settings` (a `SessionSettings`): how it is read
    where the run does not say otherwise.

    Saving may be tried again after a crash. An `IdempotentSession` knows what it has saved; any
    other is asked for its newest items before a second try.
    """

    session_id: str

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the newest items, at most `limit` of them, oldest first; all of them for None."""
        ...

    async def add_items(self, items: list[Any]) -> None:
        """Put items behind those that are there."""
        ...

    async def pop_item(self) -> Any | None:
        """Take the newest item away and return it; None when there is none."""
        ...

    async def clear_session(self) -> None:
        """Forget everything."""
        ...


class SessionABC(ABC):
    """A base class for sessions; the protocol `Session` works without it.

    Attributes:
        session_id: names the conversation.
        session_settings: how the session is read where the run does not say otherwise.
    """

    session_id: str
    session_settings: SessionSettings | None = None

    @abstractmethod
    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the newest items, at most `limit` of them, oldest first; all of them for None."""

    @abstractmethod
    async def add_items(self, items: list[Any]) -> None:
        """Put items behind those that are there."""

    @abstractmethod
    async def pop_item(self) -> Any | None:
        """Take the newest item away and return it; None when there is none."""

    @abstractmethod
    async def clear_session(self) -> None:
        """Forget everything."""


@runtime_checkable
class IdempotentSession(Protocol):
    """A session that can be told to save something once, however often it is told."""

    async def add_items_once(self, key: str, items: list[Any]) -> bool:
        """Put items behind those that are there, unless this was done under this key before.

        The items and the note of the key are stored together or not at all. Forgetting the
        session forgets its keys.

        Returns:
            Whether the items were stored now.
        """
        ...


@runtime_checkable
class DescribedSession(Protocol):
    """A session that another process can make again from plain data."""

    def describe(self) -> JsonObject | None:
        """Return the data, with its `kind`; None when this session lives in this process only."""
        ...


_PLACES: Final[set[str]] = set()
"""The files of the sessions that this process has made or was given."""


def allow_place(path: str | Path) -> None:
    """Let workers of this process open the sessions of a file, or of all files in a directory."""
    _PLACES.add(os.path.realpath(path))


def is_allowed(path: str) -> bool:
    """Whether workers of this process may open the sessions of a file."""
    real = Path(os.path.realpath(path))
    return any(str(place) in _PLACES for place in (real, *real.parents))


def session_from_description(data: JsonObject) -> Session:
    """Return the session that a `DescribedSession` described, perhaps in another process.

    Whoever may start a run can describe any file, so a worker opens only those it was given.

    Raises:
        UserError: the data describes no session, or one that this process was not given.
    """
    path = data.get("db_path")
    if isinstance(path, str) and not is_allowed(path):
        raise UserError(
            f"The run's session is in {path!r}, which this worker was not given. If it should "
            "open it, name the file or its directory: AgentWorker(sessions=[...])."
        )
    name = DESCRIBED.get(str(data.get("kind")))
    if name is None:
        raise UserError(
            f"No kind of session is called {data.get('kind')!r}; there is "
            f"{', '.join(DESCRIBED)}. Is the worker older than the client?"
        )
    kind: Any = lazy.load(name)
    return kind.from_description(data)


def item_limit(limit: int | None, settings: SessionSettings | None) -> int | None:
    """Return how many items to read: as the call says, or else as the settings say."""
    if limit is not None:
        return SessionSettings(limit).limit
    return settings.limit if settings is not None else None
