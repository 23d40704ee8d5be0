"""Finds the sessions of runs that are to be deleted, and removes their items."""

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from outlast.activities.errors import EffectError
from outlast.activities.session import session_of
from outlast.agents.errors import ContentUnavailable, UserError
from outlast.agents.json_values import as_object
from outlast.agents.registry import Registry
from outlast.contract.names import SETTING_SESSION
from outlast.loop.start import Start
from outlast.loop.values import JsonObject
from outlast.ports.session import Session
from outlast.sessions.wrapped import EVERYTHING

OF_A_TOOL: Final = "the items in the session of an agent that is used as a tool"


@dataclass(frozen=True, slots=True)
class RunSession:
    """The session of a run, as its settings name it.

    Attributes:
        described: where it is, as the run's settings have it; empty if only a tool has it.
    """

    described: JsonObject

    @property
    def key(self) -> str:
        """A text that two runs share exactly if they use the same session."""
        told = {name: one for name, one in self.described.items() if name != "settings"}
        if told.get("session_id") and told.get("factory"):
            del told["ref"]  # the same session, whatever process has registered it
        if isinstance(path := told.get("db_path"), str):
            told["db_path"] = os.path.realpath(path)
        return json.dumps(told, sort_keys=True)

    @property
    def digest(self) -> str:
        """The session's digest, for the proof of a deletion: its id may name a customer."""
        named = self.described.get("session_id") or self.key
        return hashlib.sha256(json.dumps(["session", named]).encode()).hexdigest()

    def opened(self, registry: Registry) -> Session:
        """Return the session.

        Raises:
            UserError: it cannot be opened here.
        """
        named = self.described.get("session_id") or "of this run"
        try:
            return session_of(registry, {SETTING_SESSION: self.described})
        except (EffectError, UserError) as error:
            raise UserError(
                f"The session {named!r} cannot be opened here, and nothing was deleted: "
                f"{error.message} Allow its file with --sessions, name the workers' target with "
                "--target, or leave its items with --keep-sessions."
            ) from error


def sessions_of(starts: Iterable[Start]) -> list[RunSession]:
    """Return the sessions of runs that started so, each once."""
    found: dict[str, RunSession] = {}
    for start in starts:
        described = as_object((start.settings or {}).get(SETTING_SESSION))
        if start.session or described:
            one = RunSession(described or {})
            found.setdefault(one.key, one)
    return list(found.values())


async def count_items(session: Session) -> int:
    """Return how many items a session has.

    Raises:
        ContentUnavailable: it cannot be read.
    """
    try:
        return len(await session.get_items(limit=EVERYTHING))
    except Exception as error:  # a session may be the user's
        raise _unavailable("read", error) from error


async def clear(session: Session) -> None:
    """Remove all items of a session.

    Raises:
        ContentUnavailable: they cannot be removed.
    """
    try:
        await session.clear_session()
        left: list[Any] = await session.get_items(limit=1)
    except Exception as error:  # a session may be the user's
        raise _unavailable("cleared", error) from error
    if left:
        raise ContentUnavailable(
            "The session has items again: a program uses it. Stop it, and ask for the deletion "
            "again, to finish it."
        )


def _unavailable(done: str, error: Exception) -> ContentUnavailable:
    kind = type(error).__name__
    return ContentUnavailable(
        f"The session cannot be {done}: {kind}: {error}. Ask for the deletion again, to finish it."
    )
