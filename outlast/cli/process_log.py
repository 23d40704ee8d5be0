"""The log of a process that runs for long, such as a worker or the desk."""

import logging
import sys

from outlast.cli import terminal
from outlast.edges.rendering import LogFormatter

_QUIET = ("httpx", "httpx2", "mcp")
"""Loggers that say at INFO to which address a request goes, with its query, or the id of a session:
either may be a key."""

_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def say_ready(sentence: terminal.Part, *, as_json: bool, **facts: str) -> None:
    """Say that a process does its work: in a sentence, or as a line of JSON with some facts."""
    if as_json:
        terminal.print_json_line({"status": "ready", **facts})
    else:
        terminal.say(terminal.out(), sentence)


def log_to_standard_error(level: int) -> None:
    """Print records from a level on, with every text that somebody wrote made harmless."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter(_LOG_FORMAT))
    logging.basicConfig(level=level, handlers=[handler])
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
