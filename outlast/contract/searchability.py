"""What search attributes can hold, and which namespaces lack them.

Owns: the length of values, and the note that a worker's look at a namespace leaves for the
workflows of its process. Must not know: who looks, and what a workflow does about it.
"""

import json
from typing import Final

LARGEST_VALUE: Final = 255
"""Characters. Stores on SQL have columns of this length."""

LARGEST_BYTES: Final = 2_000
"""As JSON. A server refuses values of more than 2 kB, and with them the workflow task."""

_lacking: set[str] = set()


def searchable(text: str) -> str:
    """Return as much of a text as a search attribute can hold."""
    shown = text[:LARGEST_VALUE]
    while len(json.dumps(shown)) > LARGEST_BYTES:
        shown = shown[:-8]
    return shown


def note(namespace: str, *, lacks: bool) -> None:
    """Note whether a namespace lacks any of the search attributes."""
    if lacks:
        _lacking.add(namespace)
    else:
        _lacking.discard(namespace)


def is_lacking(namespace: str) -> bool:
    """Whether a namespace lacked a search attribute at the last look; False before the first."""
    return namespace in _lacking
