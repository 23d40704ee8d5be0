"""Where keys and tables stand in a TOML text; the standard library's parser keeps no positions."""

import tomllib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, cast

KeyPath = tuple[str | int, ...]
"""The keys that lead to a place; of an array of tables, the index from 0, too."""

START: Final = (1, 1)


class TomlPlaces:
    """The places of the keys of a TOML text that is known to be valid."""

    def __init__(self, text: str) -> None:
        self._statements: dict[KeyPath, tuple[int, int, str]] = {}
        table: KeyPath = ()
        sizes: dict[KeyPath, int] = {}
        lines = text.replace("\r\n", "\n").split("\n")
        start = 0
        for end in range(1, len(lines) + 1):
            statement = "\n".join(lines[start:end])
            try:
                is_empty = not tomllib.loads(statement)
            except tomllib.TOMLDecodeError:
                continue  # a value of several lines
            line, start = start, end
            if is_empty:
                continue
            path = _path(statement)
            first = lines[line]
            column = len(first) - len(first.lstrip()) + 1
            if not first.lstrip().startswith("["):
                path = table + path
            elif first.lstrip().startswith("[["):
                self._statements.setdefault(path, (line + 1, column, statement))
                sizes[path] = sizes.get(path, 0) + 1
                table = path = (*path, sizes[path] - 1)
            else:
                table = path
            self._statements.setdefault(path, (line + 1, column, statement))

    def of(self, path: Sequence[str | int]) -> tuple[int, int]:
        """Return the line and column of a key or table, or of the nearest one around it."""
        for length in range(len(path), 0, -1):
            found = self._statements.get(tuple(path[:length]))
            if found is not None:
                line, column, statement = found
                rest = path[length:]
                return _inside(line, column, statement, rest[0] if rest else "")
        under = [one for one in self._statements if one[: len(path)] == tuple(path)]
        return self._statements[under[0]][:2] if under else START

    def of_value(self, path: Sequence[str | int], value: str, offset: int) -> tuple[int, int]:
        """Return the place of a character of a text value; that of its key if it is escaped."""
        found = self._statements.get(tuple(path))
        if found is not None:
            line, _, statement = found
            at = statement.find(value, statement.find("=") + 1)
            if at >= 0:
                return _advanced(line, statement, at + offset)
        return self.of(path)


def _path(statement: str) -> KeyPath:
    """Return the path of a header or of a key, without the keys of an inline table."""
    parts = statement.split("=")
    for length in range(1, len(parts)):  # a quoted key may hold the character
        with suppress(tomllib.TOMLDecodeError):
            return _keys(tomllib.loads("=".join(parts[:length]) + "= 0"))
    return _keys(tomllib.loads(statement))


def _keys(read: dict[str, Any]) -> KeyPath:
    path: list[str] = []
    value: Any = read
    while isinstance(value, dict) and value:
        (key,) = cast("dict[str, Any]", value)
        path.append(key)
        value = cast("dict[str, Any]", value)[key]
    return tuple(path)


def _inside(line: int, column: int, statement: str, key: str | int) -> tuple[int, int]:
    """Return the place of a key of an inline table; of an inline array, that of the whole."""
    at = statement.find(key, statement.find("=") + 1) if key and isinstance(key, str) else -1
    return _advanced(line, statement, at) if at >= 0 else (line, column)


def _advanced(line: int, statement: str, at: int) -> tuple[int, int]:
    before = statement[:at]
    return line + before.count("\n"), at - before.rfind("\n")
