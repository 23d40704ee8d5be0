"""The port to a session, which stores a conversation between runs."""

from abc import ABC, abstractmethod
from typing import Any, Literal, Protocol, TypedDict, TypeGuard, runtime_checkable

from outlast.agents.config.session_input import SessionSettings
from outlast.loop.values import JsonObject


@runtime_checkable
class Session(Protocol):
    """A protocol for objects that store the items of a conversation.

    A session may also have an attribute `session_settings` (a `SessionSettings`), used for
    reading the session unless the run's settings override it.

    Saving may be retried after a crash. An `IdempotentSession` detects a repeated save. For any
    other session, the newest items are read and compared before a retry.

    Sessions of one class that may be in several stores, such as a database for each tenant, say
    which one in an attribute `store_name`: a text without secrets.
    """

    session_id: str

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the newest `limit` items, or all for None, oldest first."""
        ...

    async def add_items(self, items: list[Any]) -> None:
        """Append items."""
        ...

    async def pop_item(self) -> Any | None:
        """Remove and return the newest item; None if there is none."""
        ...

    async def clear_session(self) -> None:
        """Remove all items."""
        ...


class SessionABC(ABC):
    """A base class for sessions; the protocol `Session` works without it.

    Attributes:
        session_id: the id of the conversation.
        session_settings: settings for reading the session; the run's settings override them.
    """

    session_id: str
    session_settings: SessionSettings | None = None

    @abstractmethod
    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the newest `limit` items, or all for None, oldest first."""

    @abstractmethod
    async def add_items(self, items: list[Any]) -> None:
        """Append items."""

    @abstractmethod
    async def pop_item(self) -> Any | None:
        """Remove and return the newest item; None if there is none."""

    @abstractmethod
    async def clear_session(self) -> None:
        """Remove all items."""


@runtime_checkable
class IdempotentSession(Protocol):
    """A session that saves items once, even if the call is repeated."""

    async def add_items_once(self, key: str, items: list[Any]) -> bool:
        """Append items, unless a previous call with the same key did.

        The items and the key are stored together or not at all. Clearing the session deletes its
        keys.

        Returns:
            Whether this call stored the items.
        """
        ...


def store_name_of(session: object) -> str:
    """Return the name that a session gives its store; empty if it gives none.

    Sessions of one class and id may be in different stores. A worker that opens a session by a
    factory compares this name with that of the session which the program passed.
    """
    name: object = getattr(session, "store_name", None)
    return name if isinstance(name, str) else ""


@runtime_checkable
class DescribedSession(Protocol):
    """A session that another process can create from plain data."""

    def describe(self) -> JsonObject | None:
        """Return the data with its `kind`; None for a session of this process only."""
        ...


@runtime_checkable
class OpeningSession(Protocol):
    """A session that gets its id from a server, on first use."""

    @property
    def is_open(self) -> bool:
        """Whether the session has its id."""
        ...

    async def open(self) -> str:
        """Get the id, unless there is one, and return it."""
        ...


def is_open(session: object) -> bool:
    """Whether a session has its id; None and most sessions have nothing to wait for."""
    return not isinstance(session, OpeningSession) or session.is_open


async def open_session(session: object) -> None:
    """Give a session its id, before a run refers to it."""
    if isinstance(session, OpeningSession) and not session.is_open:
        await session.open()


class OpenAIResponsesCompactionArgs(TypedDict, total=False):
    """The arguments of a compaction.

    Attributes:
        response_id: the last response.
        compaction_mode: what the compaction reads: the provider's copy of that response, or the
            session's items.
        store: whether the provider stored the response.
        force: compact even if the session is short.
    """

    response_id: str
    compaction_mode: Literal["previous_response_id", "input", "auto"]
    store: bool
    force: bool


@runtime_checkable
class OpenAIResponsesCompactionAwareSession(Session, Protocol):
    """A protocol for sessions that can be compacted.

    The worker calls `run_compaction` after it has saved an answer.
    """

    async def run_compaction(self, args: OpenAIResponsesCompactionArgs | None = None) -> None:
        """Shorten the history, if it is worth it."""
        ...


def is_openai_responses_compaction_aware_session(
    session: Session | None,
) -> TypeGuard[OpenAIResponsesCompactionAwareSession]:
    """Return whether a session can be compacted."""
    return callable(getattr(session, "run_compaction", None))


def item_limit(limit: int | None, settings: SessionSettings | None) -> int | None:
    """Return how many items to read: the call's limit, or the settings' limit."""
    if limit is not None:
        return SessionSettings(limit).limit
    return settings.limit if settings is not None else None
