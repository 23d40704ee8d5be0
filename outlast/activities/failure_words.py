"""A failure as one line of a log, with its place in user code."""

import sysconfig
import traceback
from pathlib import Path
from typing import Final

from outlast.agents.logs import LEFT_OUT, logs_exception_texts
from outlast.edges.rendering import excerpt

LONGEST_TEXT: Final = 1_000
"""The maximum length of an exception's text in a log line; the trace has more."""

_NOT_THE_USERS: Final = (
    Path(__file__).parents[1],
    *(Path(sysconfig.get_path(which)) for which in ("stdlib", "purelib", "platlib")),
)


def failure_words(text: str, error: BaseException) -> str:
    """Return a failure's text for a log line, with the line of user code that raised."""
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
    """Return the line of the user's files that raised, or an empty text."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if is_users(frame.filename):
            return f" ({Path(frame.filename).name}:{frame.lineno} in {frame.name})"
    return ""


def is_users(filename: str) -> bool:
    """Whether a file is neither part of this package nor of an installed one."""
    path = Path(filename)
    return not any(path.is_relative_to(place) for place in _NOT_THE_USERS)


def one_line(text: str) -> str:
    """Return a text as one line, cut to a length, without terminal control codes."""
    return excerpt(text, LONGEST_TEXT)
