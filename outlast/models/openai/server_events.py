"""Server-sent events: splits the bytes of a stream into the data of its events, with whole characters."""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from outlast.agents.json_values import as_object, is_list, is_object
from outlast.edges.bodies import DOORS

_FIELD: Final = b"data"

_Place: TypeAlias = tuple[object, ...]


class EventData:
    """Collects the bytes of a stream, and yields the data of each event that is complete."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []  # the pieces of a line without its end
        self._lines: list[bytes] = []  # the data of the event so far
        self._held = 0  # bytes of the event so far
        self._skips_newline = False  # a carriage return ended the last piece

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield the data of the events that end in this piece.

        Lines end with a line feed, a carriage return or both. Comments, other fields and events
        without data are skipped. An event that the end of the stream cuts off never happened.

        Raises:
            BodyRefused: an event is too large.
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
                self._held -= sum(map(len, self._begun))
                line = b"".join((*self._begun, line))  # noqa: PLW2901
                self._begun.clear()
            if (data := self._add(line.rstrip(b"\r\n"))) is not None:
                yield data
        if unfinished:
            self._begun.append(unfinished)
            self._hold(len(unfinished))

    def _add(self, line: bytes) -> bytes | None:
        if not line:
            self._held = 0
            lines, self._lines = self._lines, []
            return b"\n".join(lines) if lines else None
        name, _, value = line.partition(b":")
        if name == _FIELD:
            self._lines.append(value.removeprefix(b" "))
            self._hold(len(value))
        return None

    def _hold(self, size: int) -> None:
        self._held += size
        DOORS["model event"].check_size(self._held)


class WholeText:
    """Reads the events of one stream: joins a pair that two events share, and drops other halves.

    Neither UTF-8 nor a record can hold half a character.
    """

    def __init__(self) -> None:
        self._halves: dict[_Place, str] = {}

    @property
    def has_half(self) -> bool:
        """Whether the last event ended in half a character."""
        return bool(self._halves)

    def of(self, value: Any) -> Any:
        """Return JSON whose texts hold whole characters only."""
        fields = as_object(value) or {}
        return self._repaired(value, (str(fields.get("type")),))

    def _repaired(self, value: object, place: _Place) -> object:
        if isinstance(value, str):
            return self._joined(value, place)
        if is_object(value):
            return {
                _whole(name): self._repaired(one, (*place, name)) for name, one in value.items()
            }
        if is_list(value):
            return [self._repaired(one, (*place, index)) for index, one in enumerate(value)]
        return value

    def _joined(self, text: str, place: _Place) -> str:
        if self._halves:
            text = self._halves.pop(place, "") + text
        if "\ud800" <= text[-1:] <= "\udbff":
            self._halves[place] = text[-1]
            text = text[:-1]
        return _whole(text)


def _whole(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "ignore")
    return text
