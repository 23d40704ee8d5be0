"""What the model is shown of the transcript: edits of views of views, as ranges that stay few."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.loop.calls import PlannedCall
from outlast.loop.effects import CallModel, RunHandoff
from outlast.loop.items import Item
from outlast.loop.state import items_of
from outlast.loop.view import (
    WHOLE,
    Segment,
    View,
    ViewEdit,
    edited,
    places_in_transcript,
    shown,
    size,
    without,
)
from tests.laws.driver import Play, said, tool, transfer
from tests.laws.strategies import examples

ITEMS = tuple(Item("message", {"n": at}) for at in range(10))
SUMMARY: dict[str, Any] = {"role": "assistant", "content": "in short"}
ASKED: dict[str, Any] = {"role": "user", "content": "in short"}


def numbers(view: View, length: int) -> list[Any]:
    return [item.raw.get("n", "in short") for item in shown(view, ITEMS, length)]


def edit(*segments: Segment, history: int = 0) -> ViewEdit:
    return ViewEdit(segments=segments, history=history)


def test_without_a_filter_everything_is_shown() -> None:
    assert shown(WHOLE, ITEMS, 4) == ITEMS[:4]
    assert size(WHOLE, 4) == 4


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        ((), []),
        (((0, 5),), [0, 1, 2, 3, 4]),
        (((1, 3),), [1, 2]),
        (((3, 5), (0, 1)), [3, 4, 0]),
        ((SUMMARY, (4, 5)), ["in short", 4]),
        (((0, 2), SUMMARY, (2, 3)), [0, 1, "in short", 2]),
        (((0, 1), (0, 1)), [0, 0]),
        (((3, 99), (7, 9)), [3, 4]),
    ],
)
def test_an_edit_says_what_is_left_and_what_follows_is_shown(
    segments: tuple[Segment, ...], expected: list[Any]
) -> None:
    view = edited(WHOLE, 5, edit(*segments, history=1))
    assert numbers(view, 5) == expected
    assert numbers(view, 7) == [*expected, 5, 6]
    assert (view.history, size(view, 7)) == (1, len(expected) + 2)


def test_an_edit_speaks_of_the_view_before_it() -> None:
    first = edited(WHOLE, 5, edit((3, 5), SUMMARY, (0, 1)))
    assert numbers(first, 7) == [3, 4, "in short", 0, 5, 6]
    second = edited(first, 7, edit((1, 3), (5, 6)))
    assert numbers(second, 8) == [4, "in short", 6, 7]


@pytest.mark.parametrize(("raw", "kind"), [(SUMMARY, "message"), (ASKED, "input"), ({}, "input")])
def test_what_a_filter_puts_in_is_no_item_of_an_agent(raw: dict[str, Any], kind: str) -> None:
    (item,) = shown(edited(WHOLE, 5, edit(raw)), ITEMS, 5)
    assert item == Item("message" if kind == "message" else "input", raw)


def test_neighbours_become_one_range() -> None:
    view = edited(WHOLE, 6, edit((0, 2), (2, 3), (4, 6), (3, 4)))
    assert view.segments == ((0, 3), (4, 6), (3, 4))


def test_a_part_at_the_end_can_be_taken_out_of_a_view() -> None:
    assert numbers(without(WHOLE, 3, 5), 7) == [0, 1, 2, 5, 6]
    assert numbers(without(WHOLE, 0, 5), 7) == [5, 6]
    view = edited(WHOLE, 4, edit(SUMMARY, (3, 4), history=1))
    assert numbers(without(view, 5, 6), 7) == ["in short", 3, 4, 6]
    assert without(view, 5, 6).history == 1


def test_what_was_put_in_is_nowhere_in_the_transcript() -> None:
    view = edited(WHOLE, 5, edit((3, 5), SUMMARY, (0, 1)))
    assert places_in_transcript(view, 7, (0, 2, 3, 4)) == (3, 0, 5)
    assert places_in_transcript(view, 7, (-1, 99)) == ()


_RANGES = st.tuples(st.integers(0, 12), st.integers(0, 12))


@examples(40)
@given(st.lists(st.lists(_RANGES | st.just(SUMMARY), max_size=4), max_size=4), st.integers(0, 3))
def test_views_of_views_show_what_lists_of_lists_would(
    edits: list[list[Segment]], further: int
) -> None:
    """The entries themselves, cut and put together each time, are what the ranges stand for."""
    view, entries, length = WHOLE, list[Any](range(3)), 3
    for segments in edits:
        made: list[Any] = []
        for one in segments:
            made += ["in short"] if isinstance(one, dict) else entries[one[0] : one[1]]
        view = edited(view, length, edit(*segments))
        entries, length = [*made, *range(length, length + further)], min(length + further, 10)
        entries = [one for one in entries if one == "in short" or one < 10]
        assert numbers(view, length) == entries
        assert size(view, length) == len(entries)


def keep_no_tools(play: Play, run: RunHandoff) -> ViewEdit:
    """A filter that takes all calls and outputs out."""
    old = items_of(play.state, run)
    kept = [at for at, item in enumerate(old) if item.kind in {"input", "message"}]
    return ViewEdit(segments=tuple((at, at + 1) for at in kept), history=1)


def test_the_ranges_stay_few_over_many_handoffs_with_a_filter() -> None:
    play = Play.ready(max_turns=None)
    agents = ("Billing", "Triage")
    for at in range(50):
        play.replies(tool("look_up", f"c{at}"), transfer(agents[at % 2], f"h{at}", callback=True, filters=True))  # fmt: skip
        play.returns(f"c{at}")
        play.called_back(edit=keep_no_tools(play, play.only(RunHandoff)))
        call = play.only(CallModel)
        assert [item.kind for item in items_of(play.state, call)] == ["input"]
    assert play.state.view.segments == ((0, 1),)
    assert len(play.state.items) == 201
    play.replies(said("Hello."), tool("look_up", "c"))
    play.returns("c")
    assert [item.kind for item in items_of(play.state, play.only(CallModel))] == [
        "input", "message", "tool_call", "tool_output",
    ]  # fmt: skip


def test_a_handoff_without_a_filter_needs_no_transcript() -> None:
    plan = PlannedCall(item=0, kind="handoff")
    assert not plan.filters
    play = Play.ready()
    play.replies(transfer("Billing", "h1", callback=True))
    run = play.only(RunHandoff)
    assert (run.input_length, run.history, run.fresh) == (None, 0, 0)


def test_a_filter_sees_how_much_was_asked_and_how_much_is_new() -> None:
    play = Play.ready()
    play.replies(tool("look_up", "c1"))
    play.returns("c1")
    play.replies(tool("look_up", "c2"), transfer("Billing", "h1", callback=True, filters=True))
    play.returns("c2")
    run = play.only(RunHandoff)
    assert (run.input_length, run.history, run.fresh) == (6, 1, 3)


def test_what_a_filter_drops_and_adds_is_no_more_and_now_part_of_the_run() -> None:
    play = Play.ready()
    play.replies(tool("look_up", "c1"), transfer("Billing", "h1", callback=True, filters=True))
    play.returns("c1")
    added: tuple[dict[str, Any], ...] = ({"type": "message", "role": "assistant", "content": []},)
    change = ViewEdit(segments=((0, 1), SUMMARY), history=2, dropped=(1, 3, 4), added=added)
    play.called_back(edit=change)
    assert play.state.hidden == (1, 3, 4)
    assert play.kinds[-2:] == ["handoff_output", "message"]
    assert (play.state.items[-1].agent, play.state.items[-1].turn) == ("Triage", 1)
    call = play.only(CallModel)
    assert [item.raw for item in items_of(play.state, call)] == [play.state.items[0].raw, SUMMARY]
    play.replies(said("Billing here."))
    assert play.finish.final_output == "Billing here."


def test_each_question_counts_the_view_before_it_as_its_input() -> None:
    play = Play.ready(keep_open=True)
    assert play.state.view.history == 1
    play.replies(transfer("Billing", "h1", callback=True, filters=True))
    play.called_back(edit=ViewEdit(segments=((0, 1),), history=1))
    play.replies(said("Billing here."))
    play.hears("m2")
    assert play.state.view.history == 3, "what was asked, what was answered, what is asked now"
    assert play.state.question.replies_from == len(play.state.items)
