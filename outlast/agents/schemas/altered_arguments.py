"""Detection of arguments that change when they are parsed.

An approval rule judges the model's text, so it must not approve a call whose tool gets other
values.
"""

from datetime import datetime, time
from typing import Any

from outlast.agents.json_values import is_list, is_object
from outlast.loop.values import JsonObject


def altered(written: JsonObject, got: JsonObject) -> str:
    """Return the names of the arguments that differ, joined by commas."""
    return ", ".join(
        name for name in written if name in got and not _same(written[name], got[name])
    )


def _same(written: Any, got: Any) -> bool:
    """Return whether two JSON values are equal: 1 equals 1.0, but not true."""
    if is_object(written) and is_object(got):
        return written.keys() == got.keys() and all(_same(written[key], got[key]) for key in got)
    if is_list(written) and is_list(got):
        return len(written) == len(got) and all(map(_same, written, got))
    if isinstance(written, bool) or isinstance(got, bool):
        return written is got
    if isinstance(written, int | float) and isinstance(got, str):  # a decimal is written as text
        return got == str(written)
    if isinstance(written, str) and isinstance(got, str) and written != got:
        return _means_the_same(written, got)
    return bool(written == got)


def _means_the_same(one: str, other: str) -> bool:
    """Return whether two texts are the same time or URL in different formats.

    A time may omit zero seconds or write +00:00 for Z; a URL without a path may get a slash.
    """
    if "://" in one and other == f"{one}/":
        return True
    return _is_one_time(datetime, "2026-01-31T09:30", one, other) or _is_one_time(
        time, "09:30", one, other
    )


def _is_one_time(kind: type[datetime | time], minutes: str, one: str, other: str) -> bool:
    same = slice(len(minutes))
    try:
        return one[same] == other[same] and kind.fromisoformat(one) == kind.fromisoformat(other)
    except ValueError:
        return False
