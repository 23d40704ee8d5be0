"""Memory and CPU of processes, and how fast their memory grows; Linux only."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from pathlib import Path

from benchmarks.cluster import children_of_all, tree_seconds

STUDENT: tuple[float, ...] = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""Student's t for 95 %, by the degrees of freedom from 1; 2 from there on is near enough."""

BLOCKS = 12
"""Neighboring samples are alike, so a trend is fitted to the means of so many blocks."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process and its children use.

    Attributes:
        at_s: when, by a clock that never goes back.
        cpu_s: seconds of CPU so far.
        memory_mb: private memory and a share of what is shared, in MB.
    """

    at_s: float
    cpu_s: float
    memory_mb: float


def usages(roots: Mapping[str, int]) -> dict[str, Usage]:
    """Return what processes use now, by name; those that do not run are left out."""
    children, now = children_of_all(), time.monotonic()
    found: dict[str, Usage] = {}
    for name, root in roots.items():
        if root and Path(f"/proc/{root}").exists():
            memory = sum(map(_memory_kb, _tree(root, children))) / 1000
            found[name] = Usage(now, tree_seconds(root, children), memory)
    return found


def own_usage() -> Usage:
    """Return what this process uses now, without its children."""
    return Usage(time.monotonic(), time.process_time(), _memory_kb(os.getpid()) / 1000)


def _tree(root: int, children: Mapping[int, Sequence[int]]) -> list[int]:
    return [root, *(one for child in children.get(root, ()) for one in _tree(child, children))]


def _memory_kb(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def busy_seconds() -> float:
    """Return the CPU time of everything on this machine so far."""
    fields = [int(one) for one in Path("/proc/stat").read_text().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Growth:
    """How fast a value grows.

    Attributes:
        per_hour: the slope of a straight line, for an hour.
        uncertainty: half of its interval of 95 %; infinite for too few samples.
        first: the mean of the first block.
        last: the mean of the last block.
    """

    per_hour: float
    uncertainty: float
    first: float
    last: float


def growth(samples: Sequence[tuple[float, float]]) -> Growth:
    """Fit a line to samples: pairs of seconds and a value, at least one of them.

    Samples that follow each other are not independent, so the line is fitted to means of blocks.
    """
    points = _blocks(samples)
    count = len(points)
    first, last = points[0][1], points[-1][1]
    mean_x, mean_y = (sum(point[axis] for point in points) / count for axis in (0, 1))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if count < 3 or not spread:  # a line through two points has no error
        return Growth(0.0, float("inf"), first, last)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    left = sum((y - mean_y - slope * (x - mean_x)) ** 2 for x, y in points)
    freedom = count - 2
    student = STUDENT[freedom - 1] if freedom <= len(STUDENT) else 2.0
    error = student * sqrt(left / freedom / spread)
    return Growth(slope * 3600, error * 3600, first, last)


def _blocks(samples: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    count = min(BLOCKS, len(samples))
    edges = [len(samples) * number // count for number in range(count + 1)]
    pieces = [samples[a:b] for a, b in pairwise(edges)]
    return [
        (sum(x for x, _ in piece) / len(piece), sum(y for _, y in piece) / len(piece))
        for piece in pieces
    ]
