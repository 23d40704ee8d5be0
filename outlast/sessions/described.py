"""Sessions that another process describes as data, and which files this process opens for them."""

import os
from pathlib import Path
from typing import Any, Final

from outlast.agents.errors import UserError
from outlast.edges import lazy
from outlast.loop.values import JsonObject
from outlast.ports.session import Session

DESCRIBED = {
    "openai_conversation": (
        "outlast.models.openai.conversations_session:OpenAIConversationsSession"
    ),
    "sqlite": "outlast.sessions.sqlite:SQLiteSession",
}
"""Import paths of the sessions that can be described, by kind: their modules import this one."""

_PLACES: Final[set[str]] = set()
"""The files and directories that this process's workers were configured with."""

_CREATED: Final[set[str]] = set()
"""The files of the sessions that programs of this process created."""


def allow_place(path: str | Path) -> None:
    """Let this process's workers open the sessions in a file or directory, for any run."""
    _PLACES.add(os.path.realpath(path))


def note_created(path: str) -> None:
    """Let this process's workers open a file for the runs whose programs created its session."""
    _CREATED.add(os.path.realpath(path))


def is_allowed(path: str, *, is_own: bool = False) -> bool:
    """Whether workers of this process may open the sessions in a file."""
    real = Path(os.path.realpath(path))
    is_configured = any(str(place) in _PLACES for place in (real, *real.parents))
    return is_configured or (is_own and str(real) in _CREATED)


def session_from_description(data: JsonObject, *, is_own: bool = False) -> Session:
    """Return a session from the data of a `DescribedSession`.

    Anyone who can start a run can describe any file, so a worker opens only allowed files: those
    that it was configured with, and those of sessions that the run's own program created.

    Raises:
        UserError: the data describes no session, or one in a file that this process may not open.
    """
    path = data.get("db_path")
    if isinstance(path, str) and not is_allowed(path, is_own=is_own):
        raise UserError(
            f"The run's session is in {path!r}, which this worker may not open. To allow it, "
            "name the file or its directory: AgentWorker(sessions=[...])."
        )
    name = DESCRIBED.get(str(data.get("kind")))
    if name is None:
        raise UserError(
            f"There is no kind of session {data.get('kind')!r}. The kinds are "
            f"{', '.join(DESCRIBED)}. Is the worker older than the client?"
        )
    kind: Any = lazy.load(name)
    return kind.from_description(data)
