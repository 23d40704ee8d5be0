"""Internal. Bounds what others send, in bytes, depth and number of values, before a parser reads it.

A parser makes up to a hundred bytes of memory from each byte of `[[],[],…`, and holds the
interpreter's lock meanwhile, so a thread or a timeout does not help. `DOORS` lists every place where
content of others enters a process, with its limits.
"""

import json
from collections.abc import AsyncIterable
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

_PIECE: Final = 65_536
_BRACKETS: Final = b"[]{}"
_NO_BRACKETS: Final = bytes(set(range(256)) - set(_BRACKETS))
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


class BodyRefused(ValueError):
    """What was sent is too large, nested too deep, or has too many values."""


@dataclass(frozen=True, slots=True)
class Door:
    """A place where content of others enters a process.

    Attributes:
        what: what is sent, as the subject of a sentence.
        size: the most bytes.
        depth: the deepest nesting of lists and objects.
        nodes: the most values and names: brackets, commas and colons outside of texts.
        fix: what its sender or reader can do.
    """

    what: str
    size: int
    depth: int = 200
    nodes: int = 200_000
    fix: str = "Send less at once."

    def refused(self) -> BodyRefused:
        """Return the error for too many bytes."""
        return BodyRefused(f"{self.what} has more than {self.size:,} bytes. {self.fix}")

    def check_size(self, size: int) -> None:
        """Refuse content by its size.

        Raises:
            BodyRefused: it is too large.
        """
        if size > self.size:
            raise self.refused()

    def check(self, content: bytes | bytearray | str) -> None:
        """Refuse JSON that would cost too much to parse. What is no JSON is left to its parser.

        Raises:
            BodyRefused: it is too large, too deep, or has too many values.
        """
        self.check_size(len(content))
        scan = Scan(self)
        for at in range(0, len(content), _PIECE):
            piece = content[at : at + _PIECE]
            scan.feed(piece.encode(errors="surrogatepass") if isinstance(piece, str) else piece)

    def parse(self, content: bytes | str) -> Any:
        """Return the value of JSON.

        Raises:
            BodyRefused: it would cost too much.
            ValueError: it is no JSON.
        """
        self.check(content)
        return loads(content)

    def read_file(self, path: str | Path) -> str:
        """Return the text of a file, in UTF-8.

        Raises:
            BodyRefused: it is too large.
            OSError: it cannot be read.
            UnicodeDecodeError: it is not in UTF-8.
        """
        with Path(path).open("rb") as file:
            content = file.read(self.size + 1)
        self.check_size(len(content))
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")

    async def read(self, chunks: AsyncIterable[bytes]) -> bytes:
        """Return the JSON that comes in pieces, unless it would cost too much to parse.

        Raises:
            BodyRefused: it would cost too much; the rest is not read.
        """
        scan, found = Scan(self), bytearray()
        async for chunk in chunks:
            scan.feed(chunk)
            found += chunk
        return bytes(found)


def loads(content: bytes | str) -> Any:
    """Return the value of JSON that a door has let through.

    Nothing but UTF-8 is read: in UTF-16, other bytes are quotes than those that were counted.

    Raises:
        ValueError: it is no JSON.
        RecursionError: it is nested too deep.
    """
    if not isinstance(content, str):
        content = content.decode("utf-8-sig", errors="surrogatepass")
    return json.loads(content)


class Scan:
    """Counts JSON as it comes, in pieces that may end anywhere, without parsing it.

    Args:
        door: the limits.
    """

    def __init__(self, door: Door) -> None:
        self._door = door
        self._bytes = self._nodes = self._depth = 0
        self._in_text = self._is_escaped = False

    def feed(self, chunk: bytes | bytearray) -> None:
        """Count the next piece.

        Raises:
            BodyRefused: it goes beyond the limits.
        """
        self._bytes += len(chunk)
        self._door.check_size(self._bytes)
        for at in range(0, len(chunk), _PIECE):
            self._count(bytes(chunk[at : at + _PIECE]))

    def _count(self, piece: bytes) -> None:
        if self._is_escaped:
            piece = piece[1:]
        # What is left of a backslash at the end belongs to the next piece.
        trailing = len(piece) - len(piece.rstrip(b"\\"))
        self._is_escaped = trailing % 2 == 1 and bool(piece)
        if b"\\" in piece:
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        texts = piece.split(b'"')
        outside = b"".join(texts[1::2] if self._in_text else texts[::2])
        self._in_text ^= len(texts) % 2 == 0
        self.outside(outside)

    def outside(self, outside: bytes | bytearray) -> None:
        """Count what is outside of texts.

        Raises:
            BodyRefused: it goes beyond the limits.
        """
        brackets = outside.translate(None, _NO_BRACKETS)
        opened = brackets.count(b"[") + brackets.count(b"{")
        self._nodes += opened + outside.count(b",") + outside.count(b":")
        if self._nodes > self._door.nodes:
            raise BodyRefused(
                f"{self._door.what} has more than {self._door.nodes:,} values. {self._door.fix}"
            )
        if self._depth + opened > self._door.depth:
            deepest = max(accumulate(map(_STEPS.__getitem__, brackets), initial=self._depth))
            if deepest > self._door.depth:
                raise BodyRefused(
                    f"{self._door.what} is nested more than {self._door.depth} levels deep. "
                    f"{self._door.fix}"
                )
        self._depth += 2 * opened - len(brackets)


# --- The table -----------------------------------------------------------------------------------

_REQUEST: Final = "Send less at once."
_SERVER: Final = "Ask for less at once, or have the server send less."
_FILE: Final = "Split the file."
_SETTINGS: Final = "Correct the address, or ask whoever runs the server."

DOORS: Final[dict[str, Door]] = {
    # Requests, once the desk knows who sends them.
    "api": Door("The body", 30_000_000, fix=_REQUEST),
    "wire": Door("The body", 30_000_000, fix=_REQUEST),
    "history": Door("The body", 300_000_000, nodes=100_000, fix=_REQUEST),
    "nobody": Door(
        "A request of somebody who is not logged in", 65_536, 32, 5_000, "Log in first."
    ),
    # Deliveries. GitHub sends webhooks of up to 25 MB.
    "webhook": Door("The body", 25 * 1024 * 1024, fix=_REQUEST),
    "slack": Door("The body", 1_000_000, 64, 50_000, _REQUEST),
    "notification": Door("The body", 1_000_000, 64, 50_000, _REQUEST),
    # What servers answer.
    "oidc": Door("The answer", 1_000_000, 32, 20_000, _SETTINGS),
    "a2a card": Door("The answer of the agent", 500_000, 64, 20_000, _SERVER),
    "a2a answer": Door("The answer of the agent", 20_000_000, 100, 50_000, _SERVER),
    "mcp": Door("The answer", 20_000_000, 100, 50_000, _SERVER),
    "model reply": Door("The reply", 60_000_000, nodes=1_000_000, fix=_SERVER),
    "model event": Door("An event of the reply", 30_000_000, fix=_SERVER),
    # Files that people share.
    "policy": Door("The policy", 1_000_000, 64, 50_000, _FILE),
    "prices": Door("The price list", 5_000_000, 32, 200_000, _FILE),
    "data set": Door("The data set", 10_000_000, 100, 200_000, _FILE),
    "recording": Door("The recording", 300_000_000, 200, 2_000_000, _FILE),
    "archive": Door("The file of the archive", 1_000_000, 64, 50_000, _FILE),
}
"""Every door with its limits."""
