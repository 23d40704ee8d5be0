"""The picture of a graph of agents: what its template draws, in numbers.

A server does not know the widths of letters, so that they are estimated, and long names are cut.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from outlast import rendering
from outlast.rendering import Shown, joined
from outlast.serve.pages.agent_graph import AgentEdge, AgentGraph, AgentNode, Part, PartKind
from outlast.serve.pages.graph_layout import Line, Spacing, placed

WIDTH: Final = 248.0
_HEADER: Final = 38.0
_ROW: Final = 21.0
_FOOT: Final = 8.0
_SPACING: Final = Spacing(width=WIDTH, port=_HEADER / 2)

_PADDING: Final = 12.0
_WORDS_WIDTH: Final = 62.0
"""The column of words such as `tool`."""

MOST_ROWS: Final = 12
"""The most rows of a box; the list below the picture has all."""

WORDS: Final[dict[PartKind, str]] = {
    "tool": "tool",
    "agent tool": "agent",
    "hosted tool": "hosted",
    "MCP server": "MCP",
    "input check": "check in",
    "output check": "check out",
}
"""The words of a box for what an agent uses."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a box.

    Attributes:
        y: where its text stands.
        word: what it is.
        name: its name, as far as there is room.
        mark: what stands on the right: that a person may have to decide, and how often it ran.
        is_used: whether the run used it.
    """

    y: float
    word: str
    name: Shown
    mark: str = ""
    is_used: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A box: an agent and what it uses."""

    x: float
    y: float
    height: float
    name: Shown
    rows: tuple[Row, ...]
    visits: str
    node: AgentNode


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A line.

    Attributes:
        path: the line, for `d=` of a path.
        is_tool: whether the agent runs as a tool.
        asks: whether a person may have to decide before.
        steps: when the run went here.
        x: where the steps stand.
        y: where the steps stand.
    """

    path: str
    is_tool: bool
    asks: bool
    steps: str
    x: float
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Everything that is drawn.

    Attributes:
        width: its width.
        height: its height.
        cards: the boxes.
        ways: the lines; those that the run took are the last, and so on top.
    """

    width: float
    height: float
    cards: tuple[Card, ...]
    ways: tuple[Way, ...]


def picture_of(graph: AgentGraph) -> Picture:
    """Return the picture of a graph."""
    rows = [_rows(node) for node in graph.nodes]
    heights = [_HEADER + (len(one) * _ROW + _FOOT if one else 0) for one in rows]
    between: dict[tuple[int, int], list[AgentEdge]] = {}
    for edge in graph.edges:
        between.setdefault((edge.source, edge.target), []).append(edge)
    drawing = placed(heights, list(between), _SPACING)
    cards = tuple(
        _card(node, (box.x, box.y), height, own)
        for node, box, height, own in zip(graph.nodes, drawing.boxes, heights, rows, strict=True)
    )
    ways = [_way(line, between[line.edge]) for line in drawing.lines]
    ways.sort(key=lambda way: bool(way.steps))
    return Picture(width=drawing.width, height=drawing.height, cards=cards, ways=tuple(ways))


def fitted(text: str, width: float, size: float) -> Shown:
    """Return a name, made visible, and cut to about a width."""
    shown = rendering.named(text)
    if _length(shown, size) <= width:
        return shown
    kept = 0
    while kept < len(shown) and _length(f"{shown[: kept + 1]}…", size) <= width:
        kept += 1
    return joined(rendering.head(shown, kept), "…")


def _length(text: str, size: float) -> float:
    wide = sum(unicodedata.east_asian_width(one) in "WF" for one in text)
    capital = sum(one.isupper() for one in text)
    return size * (0.56 * (len(text) - wide - capital) + 0.7 * capital + wide)


def _rows(node: AgentNode) -> tuple[Row, ...]:
    parts = list(node.parts)
    if len(parts) > MOST_ROWS:
        # What a run used stays.
        used = sorted(parts, key=lambda part: not part.calls)[: MOST_ROWS - 1]
        parts = [part for part in parts if part in used]
    rows = [_row(at, part) for at, part in enumerate(parts)]
    if node.asks:
        rows.append(Row(_y(len(rows)), "answer", rendering.visible("each answer"), "approval"))
    if len(parts) < len(node.parts):
        more = len(node.parts) - len(parts)
        rows.append(Row(_y(len(rows)), "", rendering.visible(f"and {more} more")))
    return tuple(rows)


def _row(at: int, part: Part) -> Row:
    marks = ["approval"] if part.asks else []
    marks += [f"×{part.calls}"] if part.calls else []  # noqa: RUF001
    mark = " ".join(marks)
    is_used = part.calls > 0
    bold = 1.12 if is_used else 1.0  # bold letters are wider
    room = WIDTH - 2 * _PADDING - _WORDS_WIDTH - (_length(mark, 11 * bold) + 8 if mark else 0)
    return Row(_y(at), WORDS[part.kind], fitted(part.name, room, 12 * bold), mark, is_used)


def _y(at: int) -> float:
    return _HEADER + at * _ROW + 15


def _card(
    node: AgentNode, place: tuple[float, float], height: float, rows: tuple[Row, ...]
) -> Card:
    visits = ", ".join(map(str, node.visits[:6])) + ("…" if len(node.visits) > 6 else "")
    room = WIDTH - 2 * _PADDING - (_length(visits, 12) + 20 if visits else 0)
    return Card(
        x=place[0],
        y=place[1],
        height=height,
        name=fitted(node.name, room, 14),
        rows=rows,
        visits=visits,
        node=node,
    )


def _way(line: Line, edges: Sequence[AgentEdge]) -> Way:
    steps = sorted(step for edge in edges for step in edge.steps)
    path, (x, y) = _path(line)
    return Way(
        path=path,
        is_tool=all(edge.kind == "runs as a tool" for edge in edges),
        asks=any(edge.asks for edge in edges),
        steps=", ".join(map(str, steps[:4])) + ("…" if len(steps) > 4 else ""),
        x=x,
        y=y,
    )


def _path(line: Line) -> tuple[str, tuple[float, float]]:
    """Return the `d` of a line, and a place on it near its start."""
    points = line.points
    (x, y), (end_x, end_y) = points[0], points[-1]
    if line.is_loop:
        out = max(x, end_x) + _SPACING.loop
        return f"M{x:g} {y:g}C{out:g} {y:g} {out:g} {end_y:g} {end_x:g} {end_y:g}", (
            _on_curve(x, out, out, end_x),
            _on_curve(y, y, end_y, end_y),
        )
    sign = 1 if end_x > x else -1
    path, mark = [f"M{x:g} {y:g}"], (x, y)
    for at in range(len(points) - 1):
        (x, y), (end_x, end_y) = points[at], points[at + 1]
        if at % 2:  # level, through a column
            path.append(f"L{end_x:g} {end_y:g}")
            continue
        bend = sign * max(28.0, abs(end_x - x) / 2)
        first, second = x + bend, end_x - bend
        path.append(f"C{first:g} {y:g} {second:g} {end_y:g} {end_x:g} {end_y:g}")
        if at == 0:
            mark = (_on_curve(x, first, second, end_x), _on_curve(y, y, end_y, end_y))
    return "".join(path), mark


def _on_curve(a: float, b: float, c: float, d: float, at: float = 0.35) -> float:
    rest = 1 - at
    return rest**3 * a + 3 * rest**2 * at * b + 3 * rest * at**2 * c + at**3 * d
