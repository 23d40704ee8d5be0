"""The input of a growing conversation is the same as if it were made anew in every turn."""

import gc
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from outlast.activities.invocation import Invocation
from outlast.activities.model.input import sent_input, sent_items, shown_items
from outlast.activities.worker_memory import PrefixCache
from outlast.loop.items import Item, ItemKind
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


def anew(invocation: Invocation, items: tuple[Item, ...]) -> list[dict[str, Any]]:
    return sent_items(shown_items(invocation, items))


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
        assert sent_input(invocation, conversation) == anew(invocation, conversation)


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
