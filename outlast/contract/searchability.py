"""The length of search attribute values, and which workers' namespaces lack the attributes.

A worker checks its namespace and records the result here, for the workflows of its process.
"""

import json
from collections.abc import Iterable
from typing import Final

LARGEST_VALUE: Final = 255
"""Characters. Stores on SQL have columns of this length."""

LARGEST_BYTES: Final = 2_000
"""As JSON. A server refuses values of more than 2 kB, and with them the workflow task."""

_lacking: set[tuple[str, str]] = set()
"""Namespaces and task queues. A process may have workers at two servers, and each server has a
namespace `default`."""


def searchable(text: str) -> str:
    """Return as much of a text as a search attribute can hold.

    PostgreSQL stores no NUL: the server would accept the value, and never list the run.
    """
    shown = text[:LARGEST_VALUE].replace("\0", "\ufffd")
    while len(json.dumps(shown)) > LARGEST_BYTES:
        shown = shown[:-8]
    return shown


def searchable_list(texts: Iterable[str], rest: str) -> list[str]:
    """Return as many texts, each once, as a list of keywords can hold.

    Args:
        texts: the texts.
        rest: stands at the end of the list for the texts that do not fit.
    """
    found = [one for one in dict.fromkeys(map(searchable, texts)) if one]
    if len(json.dumps(found)) <= LARGEST_BYTES:
        return found
    kept = [one for one in found if one != rest]
    while len(json.dumps([*kept, rest])) > LARGEST_BYTES:
        kept.pop()
    return [*kept, rest]


def note(namespace: str, task_queue: str, *, lacks: bool) -> None:
    """Record whether the namespace of a worker lacks any of the search attributes."""
    if lacks:
        _lacking.add((namespace, task_queue))
    else:
        _lacking.discard((namespace, task_queue))


def is_lacking(namespace: str, task_queue: str) -> bool:
    """Return the result of the worker's last check; False before the first."""
    return (namespace, task_queue) in _lacking
