"""Server-sent events: splits the bytes of a stream into the data of its events."""

from collections.abc import Iterator
from typing import Final

_FIELD: Final = b"data"


class EventData:
    """Collects the bytes of a stream, and yields the data of each event that is complete."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []  # the pieces of a line without its end
        self._lines: list[bytes] = []  # the data of the event so far
        self._skips_newline = False  # a carriage return ended the last piece

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield the data of the events that end in this piece.

        Lines end with a line feed, a carriage return or both. Comments, other fields and events
        without data are skipped. An event that the end of the stream cuts off never happened.
        """
        if self._skips_newline and piece:
            self._skips_newline = False
            piece = piece.removeprefix(b"\n")
        lines = piece.splitlines(keepends=True)
        if lines and not lines[-1].endswith((b"\n", b"\r")):
            unfinished = lines.pop()
        else:
            unfinished = b""
            self._skips_newline = piece.endswith(b"\r")
        for line in lines:
            if self._begun:
                line = b"".join((*self._begun, line))  # noqa: PLW2901
                self._begun.clear()
            if (data := self._add(line.rstrip(b"\r\n"))) is not None:
                yield data
        if unfinished:
            self._begun.append(unfinished)

    def _add(self, line: bytes) -> bytes | None:
        if not line:
            lines, self._lines = self._lines, []
            return b"\n".join(lines) if lines else None
        name, _, value = line.partition(b":")
        if name == _FIELD:
            self._lines.append(value.removeprefix(b" "))
        return None
