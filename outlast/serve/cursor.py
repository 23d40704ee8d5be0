"""A reader's position in the stream of a run."""

import re
from dataclasses import dataclass
from typing import Final, Self
from zlib import crc32

CHECK_BITS: Final = 16
"""The bits of a checksum."""

_FORM: Final = re.compile(r"(0|[1-9][0-9]{0,9})-(0|[1-9][0-9]{0,9})-([0-9a-f]{4})")


class InvalidCursor(ValueError):
    """A text is not a cursor."""


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """A position: all events before `event`, and the beginning of the text in progress.

    It does not depend on how the text was cut into pieces. `Cursor()` is the start of any run.

    Attributes:
        event: the number of the next event.
        offset: how many characters (code points) the reader has of the text in progress.
        check: a checksum of those events and of that text. Where it differs, the reader has seen
            something else than what is there now: a model call has started over, or the run was
            reset.
    """

    event: int = 0
    offset: int = 0
    check: int = 0

    def __post_init__(self) -> None:
        if self.event < 0 or self.offset < 0 or not 0 <= self.check < 1 << CHECK_BITS:
            raise InvalidCursor(
                f"{self!r} is no position: event and offset are 0 or more, and check has "
                f"{CHECK_BITS} bits."
            )

    def __str__(self) -> str:
        """Return the cursor for the `id:` of a server-sent event."""
        return f"{self.event}-{self.offset}-{self.check:04x}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a cursor from its text, such as a `Last-Event-ID`.

        Raises:
            InvalidCursor: the text is none.
        """
        found = _FORM.fullmatch(text)
        if found is None:
            raise InvalidCursor(
                f"{text[:80]!r} is no cursor. Send the id of the last event back as it came."
            )
        event, offset, check = found.groups()
        return cls(int(event), int(offset), int(check, 16))


def checksum(data: str, before: int = 0) -> int:
    """Return the checksum of a text; `before` is that of what comes before the text."""
    return crc32(data.encode("utf-8", "surrogatepass"), before)


def cursor_at(event: int, offset: int, events: int, text: int) -> Cursor:
    """Return the cursor for a position, from the checksums of its events and of its text."""
    both = events ^ text
    return Cursor(event, offset, (both ^ both >> CHECK_BITS) & (1 << CHECK_BITS) - 1)
