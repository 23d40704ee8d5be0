"""Whatever is in a history, and wherever it was cut, the next request keeps the rules of its API."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.activities.invocation import Invocation
from outlast.activities.model.input import sent_after_filter, sent_input, shown_items
from outlast.agents.config.session_input import merge_history, merge_with_callback
from outlast.agents.items.repair import Links
from outlast.agents.usage import Usage
from outlast.loop.items import Item, ItemKind
from outlast.loop.values import JsonObject, OutputTokensDetails
from outlast.models.openai.chat_request import chat_body
from outlast.models.openai.responses import responses_body
from outlast.ports.model import ModelRequest
from tests.unit.activities.desk import invocation_of
from tests.wire_rules.histories import cuts, histories
from tests.wire_rules.responses import is_by_model
from tests.wire_rules.table import Api
from tests.wire_rules.validator import faults

Items: TypeAlias = list[dict[str, Any]]
Way: TypeAlias = Callable[[st.DataObject, Invocation, Items], tuple[Items, Items]]

KINDS: dict[str, ItemKind] = {
    "function_call": "tool_call",
    "function_call_output": "tool_output",
    "reasoning": "reasoning",
    "web_search_call": "other",
}


def turns_of(items: Items) -> list[Item]:
    """Return the items of a run: each reply and its outputs have the number of their turn."""
    made: list[Item] = []
    turn, is_open = 0, False
    for raw in items:
        by_model = is_by_model(raw)
        turn += by_model and not is_open
        is_open = by_model
        kind = KINDS.get(str(raw.get("type")), "message" if by_model else "input")
        is_input = kind == "input"
        made.append(Item(kind, raw, "" if is_input else "B", 0 if is_input else turn))
    return made


def kept_by(data: st.DataObject, items: Items) -> Items:
    """Return what a cut leaves, always with the question at the end."""
    return [*data.draw(cuts(items[:-1])), items[-1]]


def nothing(data: st.DataObject, invocation: Invocation, items: Items) -> tuple[Items, Items]:
    return items, sent_input(invocation, turns_of(items))


def a_filter(data: st.DataObject, invocation: Invocation, items: Items) -> tuple[Items, Items]:
    """Cut as `call_model_input_filter` does."""
    shown = shown_items(invocation, turns_of(items))
    cut = kept_by(data, shown)
    return cut, sent_after_filter(invocation, shown, cut)


def a_handoff(data: st.DataObject, invocation: Invocation, items: Items) -> tuple[Items, Items]:
    """Cut as the filter of a handoff does: the run knows which items are of one reply."""
    cut = kept_by(data, items)
    # As `edit_of` has it; ids of messages and calls stay in the run.
    whole = zip(cut, Links.of(items).kept_in(cut), strict=True)
    left = {id(raw) for raw, kept in whole if kept is not None}
    return cut, sent_input(invocation, [item for item in turns_of(items) if id(item.raw) in left])


def a_limit(data: st.DataObject, invocation: Invocation, items: Items) -> tuple[Items, Items]:
    """Cut as the limit of a session does."""
    cut = items[data.draw(st.integers(0, len(items) - 1)) :]
    return cut, of_session(invocation, merge_history(cut[:-1], items[-1:]).items)


def of_session(invocation: Invocation, items: Sequence[JsonObject]) -> Items:
    return sent_input(invocation, [Item("history", raw) for raw in items])


def is_user(raw: JsonObject) -> bool:
    return raw.get("role") == "user"


def broken(sent: Items, api: Api, model: str, items: Items) -> list[str]:
    request = ModelRequest(instructions=None, input=sent)
    make = chat_body if api == "chat" else responses_body
    # An id that several items have says nothing of what belonged to it.
    ids = Counter(raw.get("id") for raw in items)
    known = [raw for raw in items if ids[raw.get("id")] == 1 or "id" not in raw]
    return faults(make(request, model), api, history=known)


NEXT = pytest.mark.parametrize(
    ("api", "model"),
    [("responses", "gpt-5.6-luna"), ("responses", "gpt-4.1"), ("chat", "other")],
)
"""The next model, after a handoff or a deploy."""


@NEXT
@pytest.mark.parametrize("way", [nothing, a_filter, a_handoff, a_limit])
@given(data=st.data())
def test_the_next_request_keeps_every_rule_and_every_word_of_users(
    data: st.DataObject, way: Way, api: Api, model: str
) -> None:
    items = data.draw(histories(odd=data.draw(st.booleans())))
    invocation = invocation_of()
    invocation.usage = Usage(output_tokens_details=OutputTokensDetails(reasoning_tokens=7))
    cut, sent = way(data, invocation, items)
    assert broken(sent, api, model, items) == []
    assert list(filter(is_user, sent)) == list(filter(is_user, cut))


@NEXT
@given(data=st.data())
def test_what_a_callback_chose_of_a_session_keeps_the_rules(
    data: st.DataObject, api: Api, model: str
) -> None:
    items = data.draw(histories(odd=data.draw(st.booleans())))

    async def choose(history: Items, new: Items) -> Items:
        return [*data.draw(cuts(history)), *new]

    merged = asyncio.run(merge_with_callback(items[:-1], items[-1:], choose))
    assert broken(of_session(invocation_of(), merged.items), api, model, items) == []


@given(histories())
def test_what_is_whole_is_sent_as_it_was(items: Items) -> None:
    sent = sent_input(invocation_of(), turns_of(items))
    assert all(one is raw for one, raw in zip(sent, items, strict=True))
    body = responses_body(ModelRequest(instructions=None, input=sent), "gpt-5.6-luna")
    if all(raw.get("type") != "reasoning" for raw in items):
        assert body["input"] == items
