"""What a reader of a run sees happen, under numbers that are the same for all readers."""

from dataclasses import replace
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.items.stream_events import (
    AgentUpdatedStreamEvent,
    RawResponsesStreamEvent,
    RunItemStreamEvent,
)
from outlast.client.read.events import (
    ApprovalStreamEvent,
    BlockedStep,
    NumberedEvent,
    StatusStreamEvent,
    changes,
)
from outlast.client.results.local_definitions import LocalDefinitions
from outlast.loop.approvals import ApprovalTerms
from outlast.loop.checks import GuardrailRecord
from outlast.loop.effects import CallModel, RunAgent, RunTool
from outlast.loop.events import EffectBlocked
from outlast.loop.items import text_of
from outlast.loop.machine import advance
from outlast.loop.state import LoopState
from outlast.loop.values import Failure
from tests.laws.driver import Play, gated, nested, said, searched, thought, tool, transfer
from tests.unit.client.parked import parked_play


def seen_in(play: Play) -> list[NumberedEvent]:
    """Return what a reader sees of a run that it follows from its start."""
    state, seen = LoopState(), list[NumberedEvent]()
    for event in play.events:
        before, (state, _) = state, advance(state, event)
        seen.extend(changes(before, state, len(seen)))
    return seen


def told(event: NumberedEvent) -> str:
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


def test_a_reader_learns_what_blocks_a_run_and_that_it_goes_on() -> None:
    play = Play.ready()
    effect = play.only(CallModel).effect
    for lacks in ("This worker has no agent 'Triage'.", ""):
        play.take(EffectBlocked(at_ms=play.now_ms, effect=effect, lacks=lacks))
    blocked, over = (one for one in seen_in(play) if isinstance(one, StatusStreamEvent))
    assert (blocked.status, over.status) == ("blocked", "running")
    assert blocked.blocked[0].step == "The model call of Triage"
    assert blocked.reason == (
        "No worker can go on. The model call of Triage: This worker has no agent 'Triage'. "
        "Start a worker that has this; the run then continues by itself."
    )
    assert (over.blocked, over.reason) == ((), "")


def test_a_reader_learns_what_blocks_a_nested_run() -> None:
    inner = Play.ready()
    inner.replies(tool("look_up", "c1"))
    effect = inner.only(RunTool).effect
    inner.take(EffectBlocked(at_ms=inner.now_ms, effect=effect, lacks="There is no 'look_up'."))
    (request,) = inner.state.own_requests
    play = Play.ready()
    play.replies(nested("Billing", "n1"))
    seen = len(seen_in(play))
    request = replace(request, id=f"e{play.only(RunAgent).effect}.{request.id}")
    for requests in ((request,), (replace(request, reminders=1),), ()):
        play.reported(*requests)
    blocked, over = seen_in(play)[seen:]
    assert isinstance(blocked, StatusStreamEvent)
    assert isinstance(over, StatusStreamEvent)
    assert blocked.status == over.status == "running"
    assert blocked.blocked == (
        BlockedStep(step="look_up of Triage", lacks="There is no 'look_up'."),
    )
    assert (over.blocked, over.reason) == ((), "")


def test_a_reader_learns_who_has_the_conversation() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("Hello."))
    play.holds()
    held = [one for one in seen_in(play) if isinstance(one, StatusStreamEvent)][-1]
    assert (held.status, held.held_by) == ("held", "ann")
    assert held.reason == "ann has the conversation; it goes on when they give it back."


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
        "tool_output",
        "waiting",
        "a1 approved",
        "running",
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


def test_agents_and_items_are_objects_where_the_reader_has_them() -> None:
    billing = Agent[Any](name="Billing")
    known = LocalDefinitions(Agent[Any](name="Triage", handoffs=[billing]))
    play = busy_day()
    seen = list(changes(LoopState(), play.state, 0, known))
    agents = [event.new_agent for event in seen if isinstance(event, AgentUpdatedStreamEvent)]
    assert agents[-1] is billing
    items = [event for event in seen if isinstance(event, RunItemStreamEvent)]
    assert [event.entry for event in items] == list(play.state.items)
    assert items[-1].item.agent is billing
    assert [event.item.type for event in items[:2]] == ["input_item", "reasoning_item"]


PROVIDERS = [
    ("web_search_call", "tool_called"),
    ("mcp_list_tools", "mcp_list_tools"),
    ("mcp_approval_request", "mcp_approval_requested"),
    ("tool_search_call", "tool_search_called"),
    ("tool_search_output", "tool_search_output_created"),
    ("compaction", "provider_item_created"),
    ("something_new", "provider_item_created"),
]


@pytest.mark.parametrize(("kind", "name"), PROVIDERS)
def test_what_a_provider_does_on_its_own_has_the_name_of_the_field(kind: str, name: str) -> None:
    play = Play.ready()
    play.replies(({"type": kind, "id": "x1"}, None), said("Done."))
    events = [event for event in seen_in(play) if isinstance(event, RunItemStreamEvent)]
    assert events[1].name == name


def test_a_piece_of_a_reply_is_an_object_of_the_providers_package() -> None:
    raw = {"type": "response.output_text.delta", "delta": "Hel", "item_id": "i", "output_index": 0}
    event = RawResponsesStreamEvent(raw=raw, next_id=4)
    assert (event.type, event.id, event.next_id) == ("raw_response_event", None, 4)
    assert (type(event.data).__name__, event.data.delta) == ("ResponseTextDeltaEvent", "Hel")
    begun = RawResponsesStreamEvent(raw={"type": "outlast.attempt_restarted", "attempt": 2})
    assert (begun.data.type, begun.data.attempt) == ("outlast.attempt_restarted", 2)


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


def test_an_answer_is_seen_once_its_guardrails_have_passed_it() -> None:
    play = Play.ready()
    play.replies(said("Hello."), required_steps=("finalize_answer", "check_output"))
    assert told(seen_in(play)[-1]) != "message_output_created"
    play.concluded()
    assert [told(event) for event in seen_in(play)][-2:] == ["message_output_created", "completed"]


def test_of_a_blocked_answer_only_the_placeholder_is_seen() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("a secret"), required_steps=("finalize_answer", "check_output"))
    blocked = Failure(code="output_guardrail_tripwire", message="It tripped.")
    record = GuardrailRecord(stage="output", name="tone", tripped=True)
    play.concluded(results=(record,), failure=blocked, withheld="Withheld.")
    entries = [event.entry for event in seen_in(play) if isinstance(event, RunItemStreamEvent)]
    assert [text_of(entry.raw) for entry in entries] == ["Hello", "Withheld."]


def test_an_answer_that_is_not_approved_is_not_seen_nor_the_note_about_it() -> None:
    play = Play.ready()
    play.replies(said("You get 500."), answer_terms=ApprovalTerms())
    play.decided("a1", "reject", message="It is 400.")
    play.replies(said("You get 400."))
    entries = [one.entry for one in seen_in(play) if isinstance(one, RunItemStreamEvent)]
    assert [text_of(one.raw) for one in entries] == ["Hello", "You get 400."]


def test_a_parked_run_says_what_it_waits_for_and_until_when() -> None:
    play = parked_play(timeout_ms=None)
    [parked] = [one for one in seen_in(play) if isinstance(one, StatusStreamEvent) and one.waits]
    [wait] = parked.waits
    assert (parked.status, wait.name, wait.tool, wait.until) == ("parked", "courier", "book", None)
    since = f"{wait.since:%Y-%m-%d %H:%M} UTC"
    assert parked.reason == f"It waits for courier (book), since {since}, without an end."
    play.delivers()
    last = seen_in(play)[-1]
    assert isinstance(last, StatusStreamEvent)
    assert (last.status, last.reason, last.waits) == ("running", "", ())
