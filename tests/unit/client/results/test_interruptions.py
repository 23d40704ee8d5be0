"""Calls that wait for a person, as a program sees them."""

from dataclasses import replace
from typing import Any

from outlast.agents.agent import Agent
from outlast.agents.items.run_items import ToolApprovalItem
from outlast.agents.items.tool_origin import ToolOrigin, ToolOriginType
from outlast.agents.tools.function_tool import function_tool
from outlast.client.results.interruptions import interruption, pending_in_order, place_of_call
from outlast.client.results.local_definitions import LocalDefinitions
from outlast.extensions.machine.shell import ShellTool
from tests.laws.driver import Play, gated, nested, thought

TRIAGE = Agent[Any](name="Triage")


def waiting() -> Play:
    play = Play.ready()
    play.replies(thought(), gated("refund", "c1", '{"amount": 5}', reason="It is a lot."))
    return play


def test_an_interruption_has_the_call_and_the_request() -> None:
    state = waiting().state
    (request,) = state.approvals
    item = interruption(request, state.items, LocalDefinitions(TRIAGE))
    assert isinstance(item, ToolApprovalItem)
    assert (item.type, item.agent, item.tool_name) == ("tool_approval_item", TRIAGE, "refund")
    assert (item.id, item.approval_id, item.name, item.call_id) == ("a1", "a1", "refund", "c1")
    assert (item.arguments, item.request.reason) == ('{"amount": 5}', "It is a lot.")
    assert (item.request.args_digest, item.request.requested_at_ms) == (
        request.args_digest,
        request.requested_at_ms,
    )
    assert (item.request.handoff_path, item.request.status, item.run_id) == (
        ("Triage",),
        "pending",
        "",
    )
    assert item.request.decision is None
    assert item.raw_item.call_id == "c1"


def test_an_interruption_says_where_the_tool_comes_from() -> None:
    @function_tool
    def refund(amount: int) -> str:
        return f"{amount} paid"

    (request,), items = waiting().state.approvals, waiting().state.items
    item = interruption(request, items, LocalDefinitions(Agent[Any](name="Triage", tools=[refund])))
    assert item.tool_origin == ToolOrigin(ToolOriginType.FUNCTION)
    helper = Agent[Any](name="Helper").as_tool("refund", "Refunds.")
    item = interruption(request, items, LocalDefinitions(Agent[Any](name="Triage", tools=[helper])))
    assert item.tool_origin is not None
    assert item.tool_origin.agent_name == "Helper"
    assert interruption(request, items, LocalDefinitions()).tool_origin is None


def test_a_call_that_is_not_in_the_transcript_is_made_of_the_request() -> None:
    state = waiting().state
    item = interruption(state.approvals[0], (), LocalDefinitions())
    assert item.to_call() == {
        "type": "function_call",
        "name": "refund",
        "call_id": "c1",
        "arguments": '{"amount": 5}',
    }


def test_the_call_is_the_newest_of_its_id() -> None:
    state = waiting().state
    assert place_of_call(state.approvals[0], state.items) == 2
    assert place_of_call(state.approvals[0], (*state.items, state.items[2])) == 3
    assert place_of_call(state.approvals[0], state.items[:2]) is None


def test_a_decision_is_seen() -> None:
    play = waiting()
    play.decided("a1", "reject", by="ann")
    item = interruption(play.state.approvals[0], play.state.items, LocalDefinitions())
    assert item.request.status == "rejected"
    assert item.request.decision is not None
    assert item.request.decision.by == "ann"


def test_a_call_that_is_elsewhere_has_the_form_of_its_tool() -> None:
    request = replace(
        waiting().state.approvals[0], name="shell", arguments='{"action":{"commands":["ls"]}}'
    )
    triage = Agent[Any](name="Triage", tools=[ShellTool(str)])
    item = interruption(request, (), LocalDefinitions(triage))
    assert item.to_call() == {
        "type": "shell_call",
        "call_id": "c1",
        "action": {"commands": ["ls"]},
    }
    assert (item.tool_name, item.arguments) == ("shell", '{"action":{"commands":["ls"]}}')


def test_what_waits_is_in_the_order_of_the_calls_and_not_of_the_asking() -> None:
    play = Play.ready()
    play.replies(gated("ban", "c1"), nested("Refunds", "c2"), gated("refund", "c3"))
    (own, last) = play.state.approvals
    play.reported(replace(own, id="e3.a1", run_id="nested"))
    assert [one.id for one in play.state.pending_approvals] == ["a1", "a2", "e3.a1"]
    assert [one.id for one in pending_in_order(play.state)] == ["a1", "e3.a1", "a2"]
    play.decided(own.id)
    assert [one.id for one in pending_in_order(play.state)] == ["e3.a1", last.id]


def test_a_redacted_argument_is_in_no_part_of_an_interruption() -> None:
    state = waiting().state
    (request,) = state.approvals
    hidden = replace(
        request,
        terms=replace(request.terms, redact=("amount",)),
        arguments='{"amount": "[redacted]"}',
    )
    item = interruption(hidden, state.items, LocalDefinitions())
    assert item.arguments == item.to_call()["arguments"] == '{"amount": "[redacted]"}'
    assert item.raw_item.call_id == "c1"
