"""The loggers of the package, with or without the texts of exceptions.

The text of an exception may contain customer data. `OUTLAST_LOG_EXCEPTION_TEXTS=0` removes these
texts, and the stack traces that end with them.
"""

import logging
import os
import sys
from typing import Final

from outlast.agents.errors import UserError
from outlast.rendering import LogFormatter, visible

EXCEPTION_TEXTS: Final = "OUTLAST_LOG_EXCEPTION_TEXTS"
"""The environment variable that removes exception texts if 0, false, no or off."""

LEFT_OUT: Final = "(text not logged)"


def enable_verbose_stdout_logging() -> None:
    """Print all log records of outlast to standard output.

    A second call does nothing.
    """
    logger = logging.getLogger("outlast")
    logger.setLevel(logging.DEBUG)
    if not any(isinstance(handler, _ToStdout) for handler in logger.handlers):
        handler = _ToStdout(sys.stdout)
        handler.setFormatter(LogFormatter())
        logger.addHandler(handler)


def get_logger(name: str) -> logging.Logger:
    """Return the logger of a module; its records obey `OUTLAST_LOG_EXCEPTION_TEXTS`.

    The arguments of a record are escaped to fit on one line, so that no text of a model or customer
    looks like a line of the log.
    """
    logger = logging.getLogger(name)
    for kind in (_WithoutTexts, _InOneLine):
        if not any(isinstance(installed, kind) for installed in logger.filters):
            logger.addFilter(kind())
    return logger


def logs_exception_texts() -> bool:
    """Whether logs may contain the texts of exceptions; the default is yes."""
    return os.environ.get(EXCEPTION_TEXTS, "").strip().lower() not in {"0", "false", "no", "off"}


class _WithoutTexts(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if logs_exception_texts():
            return True
        if isinstance(record.args, tuple):
            record.args = tuple(_without_text(argument) for argument in record.args)
        if record.exc_info:
            kind = record.exc_info[0]
            record.msg = f"{record.msg} [{kind.__name__ if kind else 'no exception'}]"
            record.exc_info = record.exc_text = None
        return True


def _without_text(argument: object) -> object:
    if isinstance(argument, BaseException) and not isinstance(argument, UserError):
        return type(argument).__name__
    return argument


class _InOneLine(logging.Filter):
    """Escapes control and invisible characters in the arguments of a record."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(_shown(argument) for argument in record.args)
        return True


def _shown(argument: object) -> object:
    if isinstance(argument, str):
        return argument if argument.isprintable() else visible(argument)
    return _ShownError(argument) if isinstance(argument, BaseException) else argument


class _ShownError:
    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __str__(self) -> str:
        return visible(str(self._error))

    def __repr__(self) -> str:
        return visible(repr(self._error))


class _ToStdout(logging.StreamHandler):  # pyright: ignore[reportMissingTypeArgument]  generic for the type checker only
    """The handler type by which `enable_verbose_stdout_logging` finds its handler."""
