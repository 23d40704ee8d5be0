"""The order in which files of tests are run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

import pytest

LONGEST_FIRST: Final = ("crash", "clients", "workflow", "unit/cli", "architecture", "conformance")
"""Folders whose files take long. Several processes end at the same time if the last files are short."""

WAIT_FOR_OTHERS: Final = ("crash", "clients", "workflow", "unit/cli")
"""Folders whose tests mostly wait: for processes to start, to be missed when they are killed, for time to pass."""

FIRST_PART: Final = 0.7
"""The part of all files in which those that wait are spread."""

Node = TypeVar("Node", bound=pytest.Item | pytest.Module)


def in_turn(files: Sequence[Sequence[Node]]) -> list[Node]:
    """Return the nodes of files with those that wait spread among those that compute.

    Processes take files in this order: while some of them wait, others keep the cores busy. Files
    that wait come in the first part, so that none of them is the last.
    """
    files = sorted(files, key=lambda nodes: _turn(nodes[0].path))
    waits = [any(_is_in(folder, nodes[0].path) for folder in WAIT_FOR_OTHERS) for nodes in files]
    placed: list[tuple[float, Sequence[Node]]] = []
    for kind in (True, False):
        of_kind = [nodes for nodes, one in zip(files, waits, strict=True) if one is kind]
        share = FIRST_PART if kind else 1
        placed += [(share * n / len(of_kind), nodes) for n, nodes in enumerate(of_kind)]
    placed.sort(key=lambda one: one[0])
    return [node for _, nodes in placed for node in nodes]


def _turn(path: Path) -> int:
    turns = (turn for turn, folder in enumerate(LONGEST_FIRST) if _is_in(folder, path))
    return next(turns, len(LONGEST_FIRST))


def _is_in(folder: str, path: Path) -> bool:
    return path.is_relative_to(Path(__file__).parent / folder)
