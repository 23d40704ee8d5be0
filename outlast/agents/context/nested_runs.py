"""Values of runs that nested runs inherit."""

from collections.abc import Mapping
from typing import TypeVar

Value = TypeVar("Value")


def of_nearest(values: Mapping[str, Value], run_id: str) -> Value | None:
    """Return the value of a run or of its nearest outer run, or None.

    The id of a nested run begins with its parent's id and a slash.
    """
    while run_id:
        if run_id in values:
            return values[run_id]
        run_id = run_id.rpartition("/")[0]
    return None
