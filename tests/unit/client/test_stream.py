"""What a reader of a run sees happen, under numbers that are the same for all readers."""

from typing import get_args

import pytest

from outlast.client import stream
from outlast.client.stream import (
    AgentUpdatedStreamEvent,
    ApprovalStreamEvent,
    RunItemStreamEvent,
    StatusStreamEvent,
    StreamEvent,
    changes,
)
from outlast.loop.items import ItemKind
from outlast.loop.machine import advance
from outlast.loop.state import RunState
from tests.loop_driver import Play, gated, said, searched, thought, tool, transfer


def seen_in(play: Play) -> list[StreamEvent]:
    """Return what a reader sees of a run that it follows from its start."""
    state, seen = RunState(), list[StreamEvent]()
    for event in play.events:
        before, (state, _) = state, advance(state, event)
        seen.extend(changes(before, state, len(seen)))
    return seen


def told(event: StreamEvent) -> str:
    """A stream event in a few words."""
    match event:
        case RunItemStreamEvent():
            return event.name
        case AgentUpdatedStreamEvent():
            return f"agent {event.new_agent.name}"
        case ApprovalStreamEvent():
            return f"{event.request.id} {event.request.status}"
        case StatusStreamEvent():
            return event.status


def busy_day() -> Play:
    """A conversation in which everything happens."""
    play = Play.ready(keep_open=True)
    play.replies(thought(), searched(), tool("look_up", "c1"), gated("refund", "c2"))
    play.returns("c1")
    play.decided("a1", by="ann")
    play.returns("c2")
    play.replies(transfer("Billing", "h1"))
    play.replies(said("Done."))
    play.cancelled("after_turn")
    return play


def test_everything_is_seen_in_the_order_in_which_it_happens() -> None:
    assert [told(event) for event in seen_in(busy_day())] == [
        "agent Triage",
        "message_input",
        "reasoning_item_created",
        "tool_called",
        "tool_called",
        "tool_called",
        "a1 pending",
        "waiting",
        "a1 approved",
        "running",
        "tool_output",
        "tool_output",
        "handoff_requested",
        "handoff_occured",
        "agent Billing",
        "message_output_created",
        "idle",
        "completed",
    ]


def test_the_numbers_have_no_gaps_and_are_the_same_on_every_reading() -> None:
    play = busy_day()
    first = seen_in(play)
    assert [event.id for event in first] == list(range(len(first)))
    assert seen_in(play) == first


def test_an_approval_is_seen_when_it_is_asked_and_when_it_is_settled() -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1"))
    play.decided("a1", "reject", by="ann")
    seen = [event.request for event in seen_in(play) if isinstance(event, ApprovalStreamEvent)]
    assert [(request.status, request.decision is not None) for request in seen] == [
        ("pending", False),
        ("rejected", True),
    ]


def test_what_changes_nothing_is_not_seen() -> None:
    state = busy_day().state
    assert list(changes(state, state, 5)) == []


def test_a_run_that_is_cancelled_says_so_last() -> None:
    play = Play.ready()
    play.cancelled()
    assert told(seen_in(play)[-1]) == "cancelled"


@pytest.mark.parametrize("kind", get_args(ItemKind))
def test_every_kind_of_item_has_a_name_of_the_field(kind: ItemKind) -> None:
    assert stream._NAMES[kind] in get_args(stream.RunItemName)


def test_no_two_kinds_have_one_name() -> None:
    assert len(set(stream._NAMES.values())) == len(get_args(ItemKind))
