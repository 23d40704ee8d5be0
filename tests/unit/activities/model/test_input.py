"""The input of a growing conversation is the same as if it were made anew in every turn."""

import cProfile
import gc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.activities.model.input import sent_input
from outlast.activities.worker_memory import PrefixCache
from outlast.agents.usage import Usage
from outlast.loop.items import Item, ItemKind
from outlast.loop.values import OutputTokensDetails
from tests.unit.activities.desk import invocation_of

OMIT = {"reasoning_item_id_policy": "omit"}


def called(call_id: str, name: str = "note") -> Item:
    raw = {"type": "function_call", "call_id": call_id, "name": name, "arguments": "{}"}
    return Item("tool_call", raw, "A", 1)


def returned(call_id: str) -> Item:
    raw = {"type": "function_call_output", "call_id": call_id, "output": "ok"}
    return Item("tool_output", raw, "A", 1)


def thought(item_id: str) -> Item:
    return Item("reasoning", {"type": "reasoning", "id": item_id, "summary": []}, "A", 1)


def said(kind: ItemKind, text: str) -> Item:
    return Item(kind, {"role": "user", "content": text, "status": None})


some_items = st.lists(
    st.one_of(
        st.builds(called, st.sampled_from("abcd"), st.sampled_from(["note", "märke"])),
        st.builds(returned, st.sampled_from("abcd")),
        st.builds(thought, st.sampled_from("12")),
        st.builds(said, st.sampled_from(["input", "history"]), st.just("Hi")),
    ),
    max_size=12,
)


@given(some_items, st.lists(st.integers(0, 12)), st.sampled_from([{}, OMIT]))
def test_every_turn_sends_what_it_would_send_without_the_cache(
    items: list[Item], turns: list[int], settings: dict[str, Any]
) -> None:
    invocation = invocation_of(settings=settings)
    for length in turns:
        conversation = tuple(items[:length])
        assert sent_input(invocation, conversation) == sent_input(
            invocation_of(settings=settings), conversation
        )


def test_a_turn_makes_the_input_of_new_items_only() -> None:
    invocation = invocation_of()
    items = (called("a", "märke"), returned("a"))
    first = sent_input(invocation, items)
    second = sent_input(invocation, (*items, called("b", "märke"), returned("b")))
    assert [raw["call_id"] for raw in second] == ["a", "a", "b", "b"]
    assert second[0] is first[0]  # renamed once
    assert first[0]["name"] != "märke"


def test_a_callers_own_changes_to_the_list_are_not_kept() -> None:
    invocation, items = invocation_of(), (said("input", "Hi"),)
    sent_input(invocation, items).clear()
    assert len(sent_input(invocation, items)) == 1


def test_equal_items_that_are_other_objects_are_examined() -> None:
    cache = PrefixCache[str]()
    one, two, three = said("input", "1"), said("input", "2"), said("input", "3")
    cache.keep("run", (one, two), "found")
    assert cache.find("run", (one, two, three)) == (2, "found")
    assert cache.find("run", (one, two)) == (2, "found")
    assert cache.find("run", (one,)) is None
    assert cache.find("run", (said("input", "1"), two, three)) is None
    assert cache.find("run", (one, said("input", "2"), three)) is None
    assert cache.find("other", (one, two)) is None


def test_the_cache_keeps_no_conversation_alive() -> None:
    cache = PrefixCache[None]()
    items = (said("input", "1"), said("input", "2"))
    cache.keep("run", items, None)
    assert len(cache) == 1
    del items
    gc.collect()
    assert len(cache) == 0


def test_the_end_of_an_older_conversation_drops_no_newer_entry() -> None:
    cache = PrefixCache[str]()
    old, new = (said("input", "1"),), (said("input", "2"),)
    cache.keep("run", old, "old")
    cache.keep("run", new, "new")
    del old
    gc.collect()
    assert cache.find("run", new) == (1, "new")


def test_calls_with_arguments_that_are_no_json_are_sent_with_an_object() -> None:
    raw = {**called("a").raw, "arguments": '{"zone": "Eur'}
    sent = sent_input(invocation_of(), (Item("tool_call", raw, "A", 1), returned("a")))
    assert sent[0]["arguments"] == '{"invalid_arguments": "{\\"zone\\": \\"Eur"}'
    assert raw["arguments"] == '{"zone": "Eur', "the record says what the model wrote"


def test_an_empty_answer_is_not_sent_and_the_next_turn_is_prepared_alone() -> None:
    invocation = invocation_of()
    empty = Item("message", {"type": "message", "role": "assistant", "content": []}, "A", 1)
    items = (said("input", "Hi"), empty, said("input", "Hello?"))
    first = sent_input(invocation, items)
    assert [raw["content"] for raw in first] == ["Hi", "Hello?"]
    second = sent_input(invocation, (*items, called("a", "märke"), returned("a")))
    assert all(one is other for one, other in zip(first, second, strict=False))


def test_reasoning_that_a_handoffs_filter_left_alone_is_not_sent() -> None:
    answer = {"type": "message", "role": "assistant", "content": "Hi", "id": "msg_2"}
    items = (thought("rs_1"), Item("reasoning", {**thought("rs_2").raw}, "A", 2))
    sent = sent_input(invocation_of(), (*items, Item("message", answer, "A", 2)))
    assert [raw["id"] for raw in sent] == ["rs_2", "msg_2"]


@pytest.mark.parametrize(
    ("tokens", "ids"), [(0, ["msg_1", "rs_2", "msg_2"]), (9, [None, "rs_2", "msg_2"])]
)
def test_what_another_agent_said_has_no_id_where_its_reasoning_was_cut(
    tokens: int, ids: list[str | None]
) -> None:
    """As `remove_all_tools` of a handoff does."""
    invocation = invocation_of()
    invocation.usage = Usage(output_tokens_details=OutputTokensDetails(reasoning_tokens=tokens))
    answer = {"type": "message", "role": "assistant", "content": "Hi"}
    items = (
        Item("message", {**answer, "id": "msg_1"}, "B", 1),
        Item("reasoning", thought("rs_2").raw, "B", 2),
        Item("message", {**answer, "id": "msg_2"}, "B", 2),
    )
    assert [raw.get("id") for raw in sent_input(invocation, items)] == ids


def test_a_long_history_is_not_gone_through_in_each_turn() -> None:
    """Whatever had to be repaired in it."""
    invocation = invocation_of()
    cut = {**called("c0").raw, "arguments": "{"}
    odd = [
        called("open"),
        Item("tool_call", cut, "A", 1),
        returned("c0"),
        said("input", ""),
        returned("x"),
    ]
    items = [*odd, *odd, *(said("input", f"{at}") for at in range(200))]
    sent_input(invocation, items)

    def calls_of(*more: Item) -> int:
        items.extend(more)
        profile = cProfile.Profile()
        profile.enable()
        sent_input(invocation, items)
        profile.disable()
        return sum(int(one.callcount) for one in profile.getstats())

    for at in range(3):
        assert calls_of(called(f"n{at}"), returned(f"n{at}")) < 140, (
            "few, however long the history is"
        )
