"""Arguments that are read otherwise than they are written, as `"500"` for a number.

An approval rule is asked about what is written, and must not let pass what the tool then reads
otherwise. Owns: the comparison. Must not know: tools, and who reads.
"""

from datetime import datetime, time
from typing import Any, cast

from outlast.loop.values import JsonObject


def altered(written: JsonObject, got: JsonObject) -> str:
    """Return the names of the arguments that are not the same in both, as one text.

    Args:
        written: what a model wrote.
        got: what a tool gets of it, as JSON. It may have more, and may leave out what it ignores.
    """
    return ", ".join(
        name for name in written if name in got and not _same(written[name], got[name])
    )


def _same(written: Any, got: Any) -> bool:
    """Whether two JSON values are the same: 1 is 1.0, but true is neither."""
    if isinstance(written, dict) and isinstance(got, dict):
        one, other = cast("JsonObject", written), cast("JsonObject", got)
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(written, list) and isinstance(got, list):
        ones, others = cast("list[Any]", written), cast("list[Any]", got)
        return len(ones) == len(others) and all(map(_same, ones, others))
    if isinstance(written, bool) or isinstance(got, bool):
        return written is got
    if isinstance(written, int | float) and isinstance(got, str):  # a decimal is written as text
        return got == str(written)
    if isinstance(written, str) and isinstance(got, str) and written != got:
        return _means_the_same(written, got)
    return bool(written == got)


def _means_the_same(one: str, other: str) -> bool:
    """Whether two texts differ only as a library writes them that keeps what they mean.

    A time may say less behind its minutes, or +00:00 for Z; an address, no path at all.
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
