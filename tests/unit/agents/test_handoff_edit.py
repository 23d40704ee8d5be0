"""What a handoff's filter did, as an edit of the view."""

import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.agents.handoffs.edit import HandoffView, edit_of, handoff_view
from outlast.agents.handoffs.input_data import HandoffInputData
from outlast.agents.items.run_items import (
    HandoffCallItem,
    HandoffOutputItem,
    InputItem,
    MessageOutputItem,
    RunItem,
    RunItemBase,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
    raw_of,
)
from outlast.extensions.handoff_filters import remove_all_tools
from outlast.loop.items import Item
from outlast.loop.view import View, ViewEdit, edited, shown
from tests.laws.strategies import examples

DESK, BILLING = Agent[Any](name="Desk"), Agent[Any](name="Billing")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str) -> MessageOutputItem:
    content: list[dict[str, Any]] = [{"type": "output_text", "text": text, "annotations": []}]
    raw: dict[str, Any] = {"type": "message", "role": "assistant", "content": content}
    return MessageOutputItem(agent=DESK, raw_item=raw)


def called(number: int) -> tuple[RunItem, RunItem]:
    raw = {"type": "function_call", "name": "f", "call_id": f"c{number}", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": f"c{number}", "output": "same"}
    return ToolCallItem(DESK, raw), ToolCallOutputItem(DESK, output, "same")


def transfer() -> tuple[RunItem, RunItem]:
    raw = {"type": "function_call", "name": "transfer", "call_id": "h", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "h", "output": '{"assistant": "Billing"}'}
    return HandoffCallItem(DESK, raw), HandoffOutputItem(DESK, output, DESK, BILLING)


def a_view() -> HandoffView:
    """Positions: 0-1 history, 2-4 earlier (call, output, message), 5-6 the handoff."""
    history = [user("Hi"), user("My invoice is wrong.")]
    return handoff_view(history, [*called(1), said("Let me see.")], transfer())


def applied(edit: ViewEdit, raws: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
    items = [Item("input", raw) for raw in raws]
    view = edited(View(), len(items), edit)
    return [item.raw for item in shown(view, items, len(items))]


def asked_for(result: HandoffInputData) -> list[dict[str, Any]]:
    """The next model's input, as the documentation of HandoffInputData has it."""
    history = result.input_history
    first = [user(history)] if isinstance(history, str) else list(history)
    last = result.new_items if result.input_items is None else result.input_items
    items = (*result.pre_handoff_items, *last)
    return [
        *first,
        *(one.to_input_item() for one in items if not isinstance(one, ToolApprovalItem)),
    ]


def test_a_filter_that_changes_nothing_is_one_range() -> None:
    view = a_view()
    assert edit_of(view, view.data, handoff="t") == ViewEdit(segments=((0, 7),), history=2)


def test_what_is_left_out_of_the_middle_splits_the_range() -> None:
    view = a_view()
    result = view.data.clone(pre_handoff_items=view.data.pre_handoff_items[2:])
    edit = edit_of(view, result, handoff="t")
    assert edit == ViewEdit(segments=((0, 2), (4, 7)), history=2)


def test_what_is_left_out_of_this_turn_is_no_item_of_the_run_any_more() -> None:
    view = a_view()
    edit = edit_of(view, remove_all_tools(view.data), handoff="t")
    assert edit == ViewEdit(segments=((0, 2), (4, 5)), history=2, dropped=(5, 6))


def test_with_input_items_the_runs_items_stay_as_they_are() -> None:
    view = a_view()
    edit = edit_of(view, view.data.clone(input_items=(view.data.new_items[1],)), handoff="t")
    assert edit == ViewEdit(segments=((0, 5), (6, 7)), history=2)


def test_with_input_items_what_is_left_out_of_new_items_is_shown_and_not_the_runs() -> None:
    view = a_view()
    result = view.data.clone(new_items=view.data.new_items[:1], input_items=view.data.new_items)
    edit = edit_of(view, result, handoff="t")
    assert edit == ViewEdit(segments=((0, 7),), history=2, dropped=(6,))


def test_what_is_put_in_between_or_before_has_its_place() -> None:
    view = a_view()
    first, second = said("Handing over."), said("Handed over.")
    asked, output = view.data.new_items
    edit = edit_of(view, view.data.clone(new_items=(first, asked, second, output)), handoff="t")
    assert (edit.added, edit.dropped) == ((raw_of(first), raw_of(second)), ())
    assert edit.arranged == (-1, 5, -2, 6)


def test_a_call_that_is_replaced_stays_where_it_was() -> None:
    view = a_view()
    asked, output = view.data.new_items
    other = HandoffCallItem(DESK, {**raw_of(asked), "arguments": '{"reason": "***"}'})
    edit = edit_of(view, view.data.clone(new_items=(other, output)), handoff="t")
    assert (edit.added, edit.dropped, edit.arranged) == ((raw_of(other),), (5,), (-1, 6))


def test_items_in_another_order_are_arranged_each_once() -> None:
    view = a_view()
    asked, output = view.data.new_items
    edit = edit_of(view, view.data.clone(new_items=(output, asked, output)), handoff="t")
    assert (edit.added, edit.dropped, edit.arranged) == ((), (), (6, 5))


def test_earlier_items_among_the_new_ones_stay_where_they_are_in_the_run() -> None:
    view = a_view()
    pre, new = view.data.pre_handoff_items, view.data.new_items
    result = view.data.clone(pre_handoff_items=(), new_items=(*pre, *new))
    edit = edit_of(view, result, handoff="t")
    assert edit == ViewEdit(segments=((0, 7),), history=2)


def test_an_item_that_is_put_in_is_written_and_becomes_the_runs() -> None:
    view = a_view()
    note = said("Billing, please check the invoice.")
    edit = edit_of(view, view.data.clone(new_items=(*view.data.new_items, note)), handoff="t")
    assert edit == ViewEdit(segments=((0, 7), raw_of(note)), history=2, added=(raw_of(note),))


def test_a_message_that_is_put_into_the_history_is_written_and_is_not_the_runs() -> None:
    view = a_view()
    result = view.data.clone(input_history=(user("Summary"), *view.data.input_history))
    edit = edit_of(view, result, handoff="t")
    assert edit == ViewEdit(segments=(user("Summary"), (0, 7)), history=3)


def test_a_history_of_one_plain_message_is_given_as_a_string_and_known_again() -> None:
    view = handoff_view([user("Hi")], [], transfer())
    assert view.data.input_history == "Hi"
    assert edit_of(view, view.data, handoff="t") == ViewEdit(segments=((0, 3),), history=1)
    same = view.data.clone(input_history=(user("Hi"),))
    assert edit_of(view, same, handoff="t").segments == ((0, 3),)
    other = view.data.clone(input_history="Hello")
    assert edit_of(view, other, handoff="t").segments == (user("Hello"), (1, 3))


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "message", "role": "user", "content": "Hi"},
        {"role": "system", "content": "Hi"},
    ],
)
def test_a_history_of_anything_else_is_given_as_items(message: dict[str, Any]) -> None:
    view = handoff_view([message], [], transfer())
    assert view.data.input_history == (message,)
    assert edit_of(view, view.data, handoff="t").segments == ((0, 3),)


def test_a_filter_may_change_what_it_is_given_and_the_run_stays_as_it_is() -> None:
    history: list[dict[str, Any]] = [user("Card 1234"), user("Bye")]
    items = [*called(1), said("Your card 1234.")]
    view = handoff_view(history, items, transfer())
    before = deepcopy(view.raws)
    given: Any = view.data
    given.input_history[0]["content"] = "Card ****"
    given.pre_handoff_items[1].raw_item["output"] = "****"
    given.pre_handoff_items[2].raw_item.content[0].text = "Your card ****."
    edit = edit_of(view, view.data, handoff="t")
    assert view.raws == before
    assert edit.segments == (
        user("Card ****"),
        (1, 3),
        {"type": "function_call_output", "call_id": "c1", "output": "****"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Your card ****.", "annotations": []}],
        },
        (5, 7),
    )


def test_copies_of_items_are_known_by_what_they_say() -> None:
    view = a_view()
    copies = tuple(replace(item) for item in view.data.pre_handoff_items)
    history = tuple(json.loads(json.dumps(view.data.input_history)))
    result = view.data.clone(pre_handoff_items=copies, input_history=history)
    assert edit_of(view, result, handoff="t").segments == ((0, 7),)


def test_true_and_one_are_not_the_same() -> None:
    view = handoff_view([{"role": "user", "content": "x", "flag": 1}, user("y")], [], transfer())
    history = ({"role": "user", "content": "x", "flag": True}, user("y"))
    edit = edit_of(view, view.data.clone(input_history=history), handoff="t")
    assert edit.segments == (history[0], (1, 4))


def test_of_equal_items_those_that_follow_each_other_are_taken() -> None:
    history = [user("ping"), user("a"), user("ping"), user("b")]
    view = handoff_view(history, [], transfer())
    result = view.data.clone(input_history=tuple(map(dict, history[1:])))
    assert edit_of(view, result, handoff="t").segments == ((1, 6),)


def test_calls_that_wait_for_a_person_are_shown_to_nobody() -> None:
    view = a_view()
    waiting = ToolApprovalItem(agent=DESK, raw_item={"type": "function_call", "name": "f"})
    edit = edit_of(view, view.data.clone(new_items=(*view.data.new_items, waiting)), handoff="t")
    assert edit == ViewEdit(segments=((0, 7),), history=2)


def test_an_item_of_the_input_that_is_put_into_the_turn_becomes_the_runs() -> None:
    view = a_view()
    moved = InputItem(agent=None, raw_item=user("Hi"))
    edit = edit_of(view, view.data.clone(new_items=(moved, *view.data.new_items)), handoff="t")
    assert edit == ViewEdit(
        segments=((0, 5), (0, 1), (5, 7)), history=2, added=(user("Hi"),), arranged=(-1, 5, 6)
    )


def test_the_edit_of_a_long_history_is_as_long_as_what_was_removed() -> None:
    pre: list[RunItem] = []
    for number in range(1_000):
        pre += [said(f"Step {number}."), said("Same words each time.")]
        if number % 100 == 50:
            pre += called(number)
    view = handoff_view([user("Go")], pre, transfer())
    edit = edit_of(view, remove_all_tools(view.data), handoff="t")
    assert len(edit.segments) == 11
    assert len(applied(edit, view.raws)) == 2_001
    assert not any(isinstance(one, dict) for one in edit.segments)


def test_the_context_of_the_run_is_given_to_the_filter() -> None:
    context = RunContextWrapper[Any](context={"tier": "gold"})
    assert handoff_view([], [], transfer(), context).data.run_context is context


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        (None, r"returned NoneType\. It must return HandoffInputData.*data\.clone"),
        ([], r"returned list\. It must return HandoffInputData"),
        ({"input_history": None}, r"returned NoneType as input_history\. Return a string or"),
        ({"input_history": (said("x"),)}, r"put MessageOutputItem into input_history.*to_input_it"),
        ({"new_items": None}, r"returned NoneType as new_items\. Return a tuple"),
        ({"new_items": (user("x"),)}, r"put dict into new_items, which holds run items"),
        ({"pre_handoff_items": ("x",)}, r"put str into pre_handoff_items"),
        ({"input_items": (user("x"),)}, r"put dict into input_items"),
        (
            {"input_history": ({"content": {1, 2}},)},
            r"returned an item that cannot be written as JSON: .* set ",
        ),
        (
            {"input_history": ({"content": float("nan")},)},
            r"returned an item that cannot be written as JSON",
        ),
    ],
)
def test_a_filter_that_returns_something_else_is_an_error_that_names_the_handoff(
    result: Any, problem: str
) -> None:
    view = a_view()
    wrong = view.data.clone(**result) if isinstance(result, dict) else result
    with pytest.raises(UserError, match=rf"the handoff 'transfer_to_billing' {problem}") as caught:
        edit_of(view, wrong, handoff="transfer_to_billing")
    assert caught.value.code == "user_error"


TEXTS = st.sampled_from(["", "a", "b", "c"])  # few, so that equal items are common
RAWS = st.one_of(TEXTS.map(user), TEXTS.map(lambda text: raw_of(said(text))))
ITEMS = st.one_of(
    TEXTS.map(said),
    RAWS.map(lambda raw: InputItem(agent=None, raw_item=raw)),
    st.integers(0, 3).map(lambda number: called(number)[0]),
    st.integers(0, 3).map(lambda number: called(number)[1]),
)


def a_copy(one: Any) -> Any:
    return replace(one) if isinstance(one, RunItemBase) else deepcopy(one)


@st.composite
def picked(
    draw: st.DrawFn, kept: tuple[Any, ...], fresh: st.SearchStrategy[Any]
) -> tuple[Any, ...]:
    """Whatever a filter may do: drop, reorder, repeat, copy, change, and put in."""
    old = st.sampled_from(kept) if kept else fresh
    copied = old.map(a_copy)
    if draw(st.booleans()):  # keep the order, drop some
        return tuple(one for one in kept if draw(st.booleans()))
    return tuple(draw(st.lists(st.one_of(old, copied, fresh), max_size=6)))


@examples(300)
@given(
    data=st.data(),
    history=st.lists(RAWS, max_size=5),
    pre=st.lists(ITEMS, max_size=5),
    new=st.lists(ITEMS, max_size=4),
)
def test_applying_the_edit_gives_exactly_what_the_filter_asked_for(
    data: st.DataObject, history: list[Any], pre: list[RunItem], new: list[RunItem]
) -> None:
    view = handoff_view(history, pre, [*new, *transfer()])
    before = view.data
    old = before.input_history if isinstance(before.input_history, tuple) else ()
    result = before.clone(
        input_history=data.draw(st.one_of(picked(old, RAWS), TEXTS)),
        pre_handoff_items=data.draw(picked(before.pre_handoff_items, ITEMS)),
        new_items=data.draw(picked(before.new_items, ITEMS)),
        input_items=data.draw(st.none() | picked(before.new_items, ITEMS)),
    )
    edit = edit_of(view, result, handoff="t")
    assert applied(edit, view.raws) == asked_for(result)
    asked = result.input_history
    assert edit.history == (1 if isinstance(asked, str) else len(asked))
    assert json.loads(json.dumps(edit.added)) == list(edit.added)
    wanted = [raw_of(item) for item in result.new_items]
    for at in range(view.first_new_item, len(view.raws)):
        if at not in edit.dropped:
            assert view.raws[at] in wanted
    stays = [view.raws[at] for at in range(len(view.raws)) if at not in edit.dropped]
    assert all(raw in stays or raw in edit.added for raw in wanted)


@examples(100)
@given(kept=st.lists(st.booleans(), min_size=60, max_size=60))
def test_a_filter_that_keeps_the_order_gives_one_range_more_than_it_makes_gaps(
    kept: list[bool],
) -> None:
    view = handoff_view([], [said(f"{at}") for at in range(60)], transfer())
    pre = tuple(i for i, stays in zip(view.data.pre_handoff_items, kept, strict=True) if stays)
    edit = edit_of(view, view.data.clone(pre_handoff_items=pre), handoff="t")
    assert len(edit.segments) <= kept.count(False) + 1
