"""Repairs half characters in the JSON of servers that cut a text within a surrogate pair."""

from typing import Any, TypeAlias, cast

from outlast.agents.json_values import as_object

_Place: TypeAlias = tuple[object, ...]


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
        if isinstance(value, dict):
            members = cast("dict[str, object]", value)
            return {
                _whole(name): self._repaired(one, (*place, name)) for name, one in members.items()
            }
        if isinstance(value, list):
            entries = cast("list[object]", value)
            return [self._repaired(one, (*place, index)) for index, one in enumerate(entries)]
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
