"""The events that programs of the field know, and what items are called in them."""

from dataclasses import replace
from typing import Any, get_args, get_type_hints

import pytest
from openai.types.responses import ResponseTextDeltaEvent

from outlast.agents.agent import Agent
from outlast.agents.items import stream_events
from outlast.agents.items.forms import run_item
from outlast.agents.items.stream_events import (
    AgentToolStreamEvent,
    AgentUpdatedStreamEvent,
    RawResponsesStreamEvent,
    RunItemStreamEvent,
    item_event,
)
from outlast.loop.items import INTERNAL_KINDS, Item, ItemKind
from outlast.loop.values import JsonObject

AGENT = Agent[Any](name="A")


def event_of(entry: Item, number: int = 0) -> RunItemStreamEvent:
    return item_event(entry, run_item(replace(entry, agent="A"), {"A": AGENT}.__getitem__), number)


def output(text: str) -> JsonObject:
    return {"type": "function_call_output", "call_id": "h1", "output": text}


@pytest.mark.parametrize("kind", get_args(ItemKind))
def test_every_kind_of_item_has_a_name_of_the_field(kind: ItemKind) -> None:
    assert stream_events._NAMES[kind] in get_args(stream_events.RunItemName)


def test_no_two_kinds_that_streams_have_share_a_name() -> None:
    streamed = {*get_args(ItemKind)} - INTERNAL_KINDS
    assert len({stream_events._NAMES[kind] for kind in streamed}) == len(streamed)


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        (Item("message", {"type": "message", "role": "assistant"}), "message_output_created"),
        (Item("other", {"type": "web_search_call"}), "tool_called"),
        (Item("other", {"type": "mcp_list_tools"}), "mcp_list_tools"),
        (Item("other", {"type": "something_new"}), "provider_item_created"),
        (Item("handoff_output", output('{"assistant": "A"}')), "handoff_occured"),
        (Item("handoff_output", output("It was ignored.")), "tool_output"),
    ],
)
def test_an_item_has_the_name_that_programs_wait_for(entry: Item, name: str) -> None:
    event = event_of(entry, 7)
    assert (event.name, event.id, event.entry, event.type) == (
        name,
        7,
        entry,
        "run_item_stream_event",
    )


def test_a_raw_event_is_typed_for_who_looks() -> None:
    raw: JsonObject = {"type": "response.output_text.delta", "delta": "Hi"}
    event = RawResponsesStreamEvent(raw=raw)
    assert isinstance(event.data, ResponseTextDeltaEvent)
    assert (event.data.delta, event.raw, event.id) == ("Hi", raw, None)


def test_a_callback_gets_the_event_the_agent_and_the_call() -> None:
    assert set(get_type_hints(AgentToolStreamEvent)) == {"event", "agent", "tool_call"}


def test_programs_may_make_events_as_in_the_agents_sdk() -> None:
    raw: JsonObject = {
        "type": "response.output_text.delta",
        "delta": "Hi",
        "item_id": "m",
        "output_index": 0,
        "content_index": 0,
        "sequence_number": 1,
        "logprobs": [],
    }
    typed = ResponseTextDeltaEvent.model_validate(raw)
    for event in (
        RawResponsesStreamEvent(data=typed),
        RawResponsesStreamEvent(typed),
        RawResponsesStreamEvent(raw),
        RawResponsesStreamEvent(raw=raw),
    ):
        assert (event.raw, event.type, event.id) == (raw, "raw_response_event", None)
        assert event.data == typed
    item: Any = object()
    made = RunItemStreamEvent("tool_called", item)
    assert (made.name, made.item, made.id) == ("tool_called", item, 0)
    assert AgentUpdatedStreamEvent("Desk").new_agent == "Desk"
