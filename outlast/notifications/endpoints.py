"""The form of an HTTP endpoint that any server can mount."""

from collections.abc import Mapping
from typing import Final, TypeAlias

HttpReply: TypeAlias = tuple[int, dict[str, str], bytes]
"""Status, headers and body of an answer."""

LONGEST_BODY: Final = 1_000_000
"""The largest body that an endpoint accepts, in bytes."""


def header(headers: Mapping[str, str], name: str) -> str | None:
    """Return a header; names are not case-sensitive."""
    return next((value for key, value in headers.items() if key.lower() == name.lower()), None)


def plain(status: int, text: str = "", **headers: str) -> HttpReply:
    """Return an answer in plain text."""
    fields = {"Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store"}
    return status, {**fields, **headers}, text.encode()
