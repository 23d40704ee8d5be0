"""Places boxes in columns, and the lines between them, for a drawing of a directed graph.

    columns by distance from the start -> order with few crossings -> heights near the neighbors

It is deterministic: the same graph is the same drawing.
"""

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

Edge = tuple[int, int]
"""The numbers of the boxes that a line leads from and to."""

SWEEPS: Final = 12
"""How often the columns are ordered and placed by their neighbors; more changes nothing visible."""

_BEND_HEIGHT: Final = 10.0
"""The room of a line that passes between the boxes of a column."""


@dataclass(frozen=True, slots=True)
class Box:
    """A placed box.

    Attributes:
        x: its left side.
        y: its upper side.
        width: its width.
        height: its height.
    """

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Line:
    """A placed line, through points from the box that it leaves to the box that it reaches.

    Attributes:
        edge: the boxes.
        points: the points.
        is_loop: both boxes are in one column, and the line goes round beside it.
    """

    edge: Edge
    points: tuple[tuple[float, float], ...]
    is_loop: bool = False


@dataclass(frozen=True, slots=True)
class Drawing:
    """A placed graph.

    Attributes:
        width: the width of everything.
        height: the height of everything.
        boxes: the boxes, in the order in which they were passed.
        lines: a line for each edge.
    """

    width: float
    height: float
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spacing:
    """Distances in a drawing.

    Attributes:
        width: the width of a box.
        column: the room between two columns.
        row: the room between two boxes of a column.
        margin: the room around everything.
        port: how far below its upper side a line meets a box.
        loop: how far a line within a column goes out.
    """

    width: float = 240.0
    column: float = 84.0
    row: float = 22.0
    margin: float = 12.0
    port: float = 20.0
    loop: float = 34.0


def placed(
    heights: Sequence[float], edges: Collection[Edge], spacing: Spacing | None = None
) -> Drawing:
    """Return a drawing of boxes and of the lines between them.

    Args:
        heights: the height of each box.
        edges: the lines; one from a box to itself is left out.
        spacing: the distances.
    """
    spacing = spacing or Spacing()
    kept = [edge for edge in dict.fromkeys(edges) if edge[0] != edge[1]]
    if not heights:
        return Drawing(2 * spacing.margin, 2 * spacing.margin, (), ())
    layers = _Layers(heights, kept, spacing)
    layers.order()
    tops = layers.tops()
    return layers.drawing(tops)


def layers_of(count: int, edges: Collection[Edge]) -> list[int]:
    """Return the column of each box: how many lines it is away from where the graph starts.

    The graph starts at the box from which most others are reached.
    """
    after = _neighbours(count, edges)
    found = [-1] * count
    while -1 in found:
        left = [at for at in range(count) if found[at] < 0]
        open_ = set(left)
        start = max(left, key=lambda at: (len(_reached(at, after, open_)), len(after[at]), -at))
        found[start] = 0
        waiting = [start]
        for at in waiting:
            for target in after[at]:
                if found[target] < 0:
                    found[target] = found[at] + 1
                    waiting.append(target)
    return found


def _neighbours(count: int, edges: Iterable[Edge]) -> list[list[int]]:
    after: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        after[source].append(target)
    return after


def _reached(start: int, after: Sequence[Sequence[int]], among: Collection[int]) -> set[int]:
    seen, waiting = {start}, [start]
    for at in waiting:
        new = [one for one in after[at] if one in among and one not in seen]
        seen.update(new)
        waiting += new
    return seen


class _Layers:
    """The columns of a drawing. A line that crosses a column has a bend there, as a small box."""

    def __init__(self, heights: Sequence[float], edges: Sequence[Edge], spacing: Spacing) -> None:
        self._spacing = spacing
        self._count = len(heights)
        self._edges = edges
        self._layer = layers_of(self._count, edges)
        self._heights = list(heights)
        self._ports = [spacing.port] * self._count
        self._chains: dict[Edge, list[int]] = {}
        self._beside: list[set[int]] = [set() for _ in heights]
        for edge in edges:
            self._chains[edge] = self._with_bends(edge)
        columns = max(self._layer) + 1
        self._columns: list[list[int]] = [[] for _ in range(columns)]
        for at, layer in enumerate(self._layer):
            self._columns[layer].append(at)

    def _with_bends(self, edge: Edge) -> list[int]:
        """Return the boxes and bends of a line."""
        source, target = edge
        back = self._chains.get((target, source))
        if back is not None:
            return back[::-1]
        first, last = self._layer[source], self._layer[target]
        step = 1 if last > first else -1
        chain = [source]
        for layer in range(first + step, last, step) if first != last else ():
            chain.append(len(self._layer))
            self._layer.append(layer)
            self._heights.append(_BEND_HEIGHT)
            self._ports.append(_BEND_HEIGHT / 2)
            self._beside.append(set())
        chain.append(target)
        if first != last:
            for one, other in itertools.pairwise(chain):
                self._beside[one].add(other)
                self._beside[other].add(one)
        return chain

    def order(self) -> None:
        """Order each column by the places of the neighbors, which leaves few crossings."""
        for sweep in range(SWEEPS):
            forward = sweep % 2 == 0
            columns = self._columns if forward else self._columns[::-1]
            for column, fixed in zip(columns[1:], columns, strict=False):
                places = {one: at for at, one in enumerate(fixed)}
                key = self._mean_place(column, places)
                column.sort(key=key)

    def _mean_place(
        self, column: Sequence[int], places: Mapping[int, float]
    ) -> Callable[[int], float]:
        means: dict[int, float] = {}
        for at, one in enumerate(column):
            near = [places[other] for other in self._beside[one] if other in places]
            means[one] = sum(near) / len(near) if near else float(at)
        return means.__getitem__

    def tops(self) -> list[float]:
        """Return the upper side of everything."""
        tops = [0.0] * len(self._layer)
        for column in self._columns:
            self._place(column, tops, [0.0] * len(column))
        for sweep in range(SWEEPS):
            for column in self._columns if sweep % 2 else self._columns[::-1]:
                self._place(column, tops, [self._wish(one, tops) for one in column])
        least = min(tops)
        return [top - least + self._spacing.margin for top in tops]

    def _wish(self, one: int, tops: Sequence[float]) -> float:
        """Return the upper side at which the lines of a box would be level."""
        near = [tops[other] + self._ports[other] for other in self._beside[one]]
        return sum(near) / len(near) - self._ports[one] if near else tops[one]

    def _place(self, column: Sequence[int], tops: list[float], wishes: Sequence[float]) -> None:
        """Place a column as near to the wishes as its order and its gaps allow.

        Boxes that would overlap form a block, which goes to the mean of what its boxes wish.
        """
        offsets, offset = list[float](), 0.0
        for one in column:
            offsets.append(offset)
            offset += self._heights[one] + self._spacing.row
        blocks: list[tuple[float, int]] = []
        for wish, offset in zip(wishes, offsets, strict=True):
            total, count = wish - offset, 1
            while blocks and blocks[-1][0] / blocks[-1][1] >= total / count:
                before, size = blocks.pop()
                total, count = total + before, count + size
            blocks.append((total, count))
        starts = [total / count for total, count in blocks for _ in range(count)]
        for one, start, offset in zip(column, starts, offsets, strict=True):
            tops[one] = start + offset

    def drawing(self, tops: Sequence[float]) -> Drawing:
        """Return the drawing for the upper sides of everything."""
        space = self._spacing
        lefts = [space.margin + layer * (space.width + space.column) for layer in self._layer]
        boxes = tuple(
            Box(lefts[at], tops[at], space.width, self._heights[at]) for at in range(self._count)
        )
        lines = tuple(self._line(edge, lefts, tops) for edge in self._edges)
        right = max(lefts) + space.width
        right += space.loop if any(line.is_loop for line in lines) else 0
        bottom = max(tops[at] + self._heights[at] for at in range(len(tops)))
        return Drawing(right + space.margin, bottom + space.margin, boxes, lines)

    def _line(self, edge: Edge, lefts: Sequence[float], tops: Sequence[float]) -> Line:
        source, target = edge
        width, is_loop = self._spacing.width, self._layer[source] == self._layer[target]
        forward = self._layer[source] < self._layer[target]
        points: list[tuple[float, float]] = []
        for at in self._chains[edge]:
            y = tops[at] + self._ports[at]
            leaves_right = is_loop or (at == source) == forward
            if at < self._count:
                points.append((lefts[at] + (width if leaves_right else 0), y))
            else:
                # Level through the whole column, so that the line passes between its boxes.
                sides = [(lefts[at], y), (lefts[at] + width, y)]
                points += sides if forward else sides[::-1]
        return Line(edge, tuple(points), is_loop)
