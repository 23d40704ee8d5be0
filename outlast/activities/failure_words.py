"""A failure in the words of a log line: its text, made harmless, and the place in users' code."""

import sysconfig
import traceback
from pathlib import Path
from typing import Final

from outlast.agents.logs import LEFT_OUT, logs_exception_texts
from outlast.rendering import excerpt

LONGEST_TEXT: Final = 1_000
"""Characters of an exception's text in one line of a log; more belong into the trace."""

_NOT_THE_USERS: Final = (
    Path(__file__).parents[1],
    *(Path(sysconfig.get_path(which)) for which in ("stdlib", "purelib", "platlib")),
)


def failure_words(text: str, error: BaseException) -> str:
    """Return what a log line says of a failure: its text, and which line of users' code raised.

    Args:
        text: the failure in words; an exception's own text may be part of it.
        error: the exception, whose first cause has the place.
    """
    first = root_cause(error)
    if not logs_exception_texts():
        text = f"{type(first).__name__} {LEFT_OUT}"
    return one_line(text.rstrip(".")) + place_of(first)


def root_cause(error: BaseException) -> BaseException:
    """Return the exception that an exception was first raised from."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def place_of(error: BaseException) -> str:
    """Return which line of the user's own files raised, or nothing where none did."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if is_users(frame.filename):
            return f" ({Path(frame.filename).name}:{frame.lineno} in {frame.name})"
    return ""


def is_users(filename: str) -> bool:
    """Return whether a file is neither this package's nor an installed one."""
    path = Path(filename)
    return not any(path.is_relative_to(place) for place in _NOT_THE_USERS)


def one_line(text: str) -> str:
    """Return a text as one line, cut where it is long, that steers no terminal."""
    return excerpt(text, LONGEST_TEXT)
