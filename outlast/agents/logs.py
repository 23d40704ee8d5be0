"""What the package logs, shown.

Owns: `enable_verbose_stdout_logging`. Every module logs under its own name, below `outlast`, and
configures nothing.
"""

import logging
import sys


def enable_verbose_stdout_logging() -> None:
    """Print everything that the package logs to standard output. A second call does nothing."""
    logger = logging.getLogger("outlast")
    logger.setLevel(logging.DEBUG)
    if not any(isinstance(handler, _ToStdout) for handler in logger.handlers):
        logger.addHandler(_ToStdout(sys.stdout))


class _ToStdout(logging.StreamHandler):  # pyright: ignore[reportMissingTypeArgument]  generic for the type checker only
    """Told apart from handlers that a program has added itself."""
