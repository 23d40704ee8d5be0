"""Which files of tests wait, and in which order files are taken."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final, TypeVar

import pytest

TESTS: Final = Path(__file__).parents[1]

WAIT_FOR_OTHERS: Final = ("crash", "clients", "workflow", "unit/cli")
"""Folders whose tests mostly wait: for processes to start, to be missed when they are killed, for time to pass.

Those that wait longest come first.
"""

File = TypeVar("File", bound=pytest.Module)


def waits(file: pytest.Module) -> bool:
    """Whether the tests of a file mostly wait."""
    return _turn(file.path) < len(WAIT_FOR_OTHERS)


def longest_first(files: Iterable[File]) -> list[File]:
    """Return files in the order in which they are taken, so that no long one is left for the end.

    Files that are not in a folder of those that wait are taken by their size.
    """
    return sorted(
        files, key=lambda file: (_turn(file.path), -file.path.stat().st_size, file.nodeid)
    )


def _turn(path: Path) -> int:
    turns = (n for n, folder in enumerate(WAIT_FOR_OTHERS) if path.is_relative_to(TESTS / folder))
    return next(turns, len(WAIT_FOR_OTHERS))
