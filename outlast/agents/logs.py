"""The loggers of the package, with or without the texts of exceptions.

The text of an exception may contain customer data. `OUTLAST_LOG_EXCEPTION_TEXTS=0` removes these
texts, and the stack traces that end with them.
"""

import logging
import os
import sys
from typing import Final

from outlast.agents.errors import UserError
from outlast.edges.rendering import LogFormatter, visible

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
    if not any(isinstance(installed, _SafeTexts) for installed in logger.filters):
        logger.addFilter(_SafeTexts())
    return logger


def logs_exception_texts() -> bool:
    """Whether logs may contain the texts of exceptions; the default is yes."""
    return os.environ.get(EXCEPTION_TEXTS, "").strip().lower() not in {"0", "false", "no", "off"}


class _SafeTexts(logging.Filter):
    """Removes texts of exceptions if wanted, and escapes control and invisible characters."""

    def filter(self, record: logging.LogRecord) -> bool:
        has_texts = logs_exception_texts()
        if isinstance(record.args, tuple):
            record.args = tuple(_shown(one, has_texts=has_texts) for one in record.args)
        if record.exc_info and not has_texts:
            kind = record.exc_info[0]
            record.msg = f"{record.msg} [{kind.__name__ if kind else 'no exception'}]"
            record.exc_info = record.exc_text = None
        return True


def _shown(argument: object, *, has_texts: bool) -> object:
    if isinstance(argument, str):
        return argument if argument.isprintable() else visible(argument)
    if not isinstance(argument, BaseException):
        return argument
    is_shown = has_texts or isinstance(argument, UserError)
    return _ShownError(argument) if is_shown else type(argument).__name__


class _ShownError:
    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __str__(self) -> str:
        return visible(str(self._error))

    def __repr__(self) -> str:
        return visible(repr(self._error))


class _ToStdout(logging.StreamHandler):  # pyright: ignore[reportMissingTypeArgument]  generic for the type checker only
    """The handler type by which `enable_verbose_stdout_logging` finds its handler."""
