"""Queries of Temporal's visibility store: the quoting of texts, and the store's errors."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import takewhile
from typing import TYPE_CHECKING

from outlast.agents.errors import AgentsException, ServerUnavailable, UserError, no_namespace

if TYPE_CHECKING:
    from temporalio.service import RPCError

NOT_FOUND_BY_SERVERS = '"\\?'
"""Characters that break a search. Servers on SQL escape the first two once too often, and then find
nothing. Servers on PostgreSQL read a question mark as a parameter, and the search fails."""


QUOTE = "'"
"""Servers strip this character from both ends of a text, together with the enclosing quotes."""


def is_findable(text: str) -> bool:
    """Whether a server can search for exactly this text."""
    return text == text.strip(QUOTE) and all(map(_is_findable_sign, text))


def equals(attribute: str, text: str) -> str | None:
    """Return a condition that every run with this value meets, or None.

    If the text cannot be searched for, the condition matches its beginning, and the caller must
    compare the results.
    """
    if is_findable(text):
        return f"{attribute} = {_quoted(text)}"
    return starts_with(attribute, text)


def starts_with(attribute: str, text: str) -> str | None:
    """Return a condition that every run with a value that begins so meets, or None.

    The condition may match further runs, so the caller must compare the results.
    """
    if text.startswith(QUOTE):
        return None
    beginning = "".join(takewhile(_is_findable_sign, text)).rstrip(QUOTE)
    return f"{attribute} STARTS_WITH {_quoted(beginning)}" if beginning else None


def is_any_of(attribute: str, texts: Sequence[str]) -> str | None:
    """Return a condition that every run with one of these values meets, or None.

    Without a condition, the caller must compare the results.
    """
    if not all(map(is_findable, texts)):
        return None
    return f"{attribute} IN ({', '.join(map(_quoted, texts))})"


def before(attribute: str, time: datetime) -> str:
    """Return a condition that a time is before another one."""
    return f"{attribute} < '{time_text(time, 'microseconds')}'"


def time_text(time: datetime, spec: str = "seconds") -> str:
    """Return a time as searches take it; `strftime` writes years before 1000 too short."""
    return f"{time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=spec)}Z"


def search_error(namespace: str, error: "RPCError") -> AgentsException:
    """Return the error for a server's refusal of a search."""
    from temporalio.service import RPCStatusCode

    if error.status is RPCStatusCode.NOT_FOUND:
        return no_namespace(namespace)
    if error.status is RPCStatusCode.INVALID_ARGUMENT:
        return UserError(
            f"The server cannot search for this: {error.message}. Where its search attributes are "
            "missing, `outlast doctor --fix` adds them."
        )
    if error.status in {RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED}:
        return ServerUnavailable(f"The Temporal server does not answer: {error.message}")
    return AgentsException(f"The Temporal server refused: {error.message}")


def _is_findable_sign(sign: str) -> bool:
    return sign.isprintable() and sign not in NOT_FOUND_BY_SERVERS


def _quoted(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"
