"""What the package logs: under `outlast`, with or without the texts of exceptions.

The text of an exception may hold what a customer wrote. `OUTLAST_LOG_EXCEPTION_TEXTS=0` keeps such
texts, and the stack traces that end with them, out of the logs; the type and the place stay.
"""

import logging
import os
import sys
from typing import Final

from outlast.agents.errors import UserError

EXCEPTION_TEXTS: Final = "OUTLAST_LOG_EXCEPTION_TEXTS"
"""The environment variable that keeps exception texts out of the logs when it is 0, false, no or off."""

LEFT_OUT: Final = "(text not logged)"


def enable_verbose_stdout_logging() -> None:
    """Print everything that the package logs to standard output. A second call does nothing."""
    logger = logging.getLogger("outlast")
    logger.setLevel(logging.DEBUG)
    if not any(isinstance(handler, _ToStdout) for handler in logger.handlers):
        logger.addHandler(_ToStdout(sys.stdout))


def get_logger(name: str) -> logging.Logger:
    """Return the logger of a module; its records obey `OUTLAST_LOG_EXCEPTION_TEXTS`."""
    logger = logging.getLogger(name)
    if not any(isinstance(one, _WithoutTexts) for one in logger.filters):
        logger.addFilter(_WithoutTexts())
    return logger


def logs_exception_texts() -> bool:
    """Return whether logs may hold the texts of exceptions. They do, unless the variable says no."""
    return os.environ.get(EXCEPTION_TEXTS, "").strip().lower() not in {"0", "false", "no", "off"}


class _WithoutTexts(logging.Filter):
    """Leaves only the types of the exceptions in a record, where their texts are not logged."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record, and let it through."""
        if logs_exception_texts():
            return True
        if isinstance(record.args, tuple):
            record.args = tuple(_without_text(one) for one in record.args)
        if record.exc_info:
            kind = record.exc_info[0]
            record.msg = f"{record.msg} [{kind.__name__ if kind else 'no exception'}]"
            record.exc_info = record.exc_text = None
        return True


def _without_text(argument: object) -> object:
    if isinstance(argument, BaseException) and not isinstance(argument, UserError):
        return type(argument).__name__
    return argument


class _ToStdout(logging.StreamHandler):  # pyright: ignore[reportMissingTypeArgument]  generic for the type checker only
    """Told apart from handlers that a program has added itself."""
