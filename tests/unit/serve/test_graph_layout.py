"""Where the boxes and lines of a graph are drawn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.serve.pages.graph_layout import Drawing, Edge, Spacing, layers_of, placed
from tests.laws.strategies import examples


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[float], list[Edge]]:
    heights = draw(st.lists(st.sampled_from([40.0, 80.0, 200.0]), min_size=1, max_size=40))
    numbers = st.integers(0, len(heights) - 1)
    return heights, draw(st.lists(st.tuples(numbers, numbers), max_size=80))


def check_that_nothing_overlaps(drawing: Drawing) -> None:
    boxes = drawing.boxes
    for at, one in enumerate(boxes):
        assert one.x >= 0 <= one.y
        assert one.x + one.width <= drawing.width
        assert one.y + one.height <= drawing.height
        for other in boxes[at + 1 :]:
            assert (
                one.x + one.width <= other.x
                or other.x + other.width <= one.x
                or one.y + one.height <= other.y + 1e-6
                or other.y + other.height <= one.y + 1e-6
            )


@examples(200)
@given(graphs())
def test_boxes_do_not_overlap_and_lines_end_at_them(graph: tuple[list[float], list[Edge]]) -> None:
    heights, edges = graph
    drawing = placed(heights, edges)
    check_that_nothing_overlaps(drawing)
    assert drawing == placed(heights, edges)
    wanted = {edge for edge in edges if edge[0] != edge[1]}
    assert {line.edge for line in drawing.lines} == wanted
    assert len(drawing.lines) == len(wanted)
    for line in drawing.lines:
        ends = zip(line.edge, (line.points[0], line.points[-1]), strict=True)
        for at, (x, y) in ends:
            box = drawing.boxes[at]
            assert x in {box.x, box.x + box.width}
            assert box.y <= y <= box.y + box.height


@examples(200)
@given(graphs())
def test_a_line_goes_between_the_boxes_of_the_columns_that_it_crosses(
    graph: tuple[list[float], list[Edge]],
) -> None:
    drawing = placed(*graph)
    for line in drawing.lines:
        for x, y in line.points[1:-1]:
            crossed = [one for one in drawing.boxes if one.x <= x <= one.x + one.width]
            assert not [one for one in crossed if one.y + 1e-6 < y < one.y + one.height - 1e-6]


@pytest.mark.parametrize(
    ("count", "edges", "expected"),
    [
        (1, [], [0]),
        (3, [], [0, 0, 0]),
        (3, [(0, 1), (1, 2)], [0, 1, 2]),
        (3, [(1, 0), (1, 2)], [1, 0, 1]),
        (3, [(0, 1), (0, 2), (1, 0), (2, 0)], [0, 1, 1]),
        (3, [(2, 0), (2, 1), (0, 2), (1, 2)], [1, 1, 0]),
        (2, [(0, 1), (1, 0)], [0, 1]),
    ],
)
def test_the_agent_that_leads_to_most_others_comes_first(
    count: int, edges: list[Edge], expected: list[int]
) -> None:
    assert layers_of(count, edges) == expected


def test_both_directions_are_one_way() -> None:
    [there, back] = placed([40.0, 40.0], [(0, 1), (1, 0)]).lines
    assert there.points == back.points[::-1]


def test_a_start_is_beside_the_middle_of_what_it_leads_to() -> None:
    drawing = placed([60.0] * 4, [(0, 1), (0, 2), (0, 3)])
    middle = drawing.boxes[2]
    assert drawing.boxes[0].y == pytest.approx(middle.y)
    assert {box.x for box in drawing.boxes[1:]} == {middle.x}


def test_an_empty_graph_has_no_boxes() -> None:
    assert placed([], [], Spacing(margin=5)) == Drawing(10, 10, (), ())
