"""What can be read of a run: items, responses, the answer in its type, the way on."""

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from outlast.agents.agent import Agent
from outlast.agents.agent_tools.nested_result import AgentToolInvocation
from outlast.agents.errors import UserError
from outlast.agents.items.run_items import HandoffOutputItem, ToolCallItem
from outlast.agents.tools.function_tool import function_tool
from outlast.agents.usage import plain_usage
from outlast.client.results.local_definitions import LocalDefinitions
from outlast.client.results.run_result import result_of
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.values import Usage
from outlast.loop.view import ViewEdit
from tests.laws.driver import Play, gated, nested, said, searched, thought, tool, transfer


@dataclass
class Desk:
    name: str


class Order(BaseModel):
    number: str


@function_tool
def look_up() -> str:
    """Find an order."""
    return "found"


def kinds(result: Any) -> list[str]:
    return [item.type for item in result.new_items]


def answered(**start: Any) -> Play:
    play = Play.ready(**start)
    play.replies(thought(), tool("look_up", "c1"))
    play.returns("c1", "found")
    play.replies(said("It is on its way."))
    return play


def test_the_context_comes_back_as_the_applications_type() -> None:
    state = answered(context={"name": "Ann"}).state
    result = result_of(state)
    assert result.context == {"name": "Ann"}
    assert result.context_as(Desk) == Desk("Ann")
    with pytest.raises(UserError, match="does not fit int"):
        result.context_as(int)
    assert result.context_wrapper.context == {"name": "Ann"}
    typed = result_of(state, LocalDefinitions(context=Desk("Bob")))
    assert typed.context_wrapper.context == Desk("Ann")
    odd = result_of(state, LocalDefinitions(context=5))
    assert odd.context_wrapper.context == {"name": "Ann"}


def test_a_transcript_is_seen_as_items_of_the_known_agents() -> None:
    billing = Agent[Any](name="Billing")
    triage = Agent[Any](name="Triage", tools=[look_up], handoffs=[billing])
    play = Play.ready()
    play.replies(searched(), tool("look_up", "c1"))
    play.returns("c1", "found")
    play.replies(transfer("Billing", "h1"))
    play.replies(said("Done."))
    result = result_of(play.state, LocalDefinitions(triage))
    assert kinds(result) == [
        "tool_call_item",
        "tool_call_item",
        "tool_call_output_item",
        "handoff_call_item",
        "handoff_output_item",
        "message_output_item",
    ]
    call, moved = result.new_items[1], result.new_items[4]
    assert isinstance(call, ToolCallItem)
    assert (call.agent, call.description) == (triage, "Find an order.")
    assert isinstance(moved, HandoffOutputItem)
    assert (moved.source_agent, moved.target_agent) == (triage, billing)
    assert result.last_agent is billing
    assert result_of(play.state).last_agent.name == "Billing"


def test_the_input_is_what_was_asked() -> None:
    assert result_of(answered().state).input == "Hello"
    said_before = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}]
    play = Play()
    play.prepared(input=(*said_before, {"role": "user", "content": "Where?"}), old=(0, 1))
    play.replies(said("Here."))
    result = result_of(play.state)
    assert result.input == [*said_before, {"role": "user", "content": "Where?"}]
    assert kinds(result) == ["message_output_item"]


def test_a_run_that_did_not_get_to_its_first_turn_was_asked_something_all_the_same() -> None:
    result = result_of(Play().state)
    assert (result.input, result.new_items, result.final_output) == ("Hello", [], None)
    assert result.to_input_list() == [{"role": "user", "content": "Hello"}]


def test_every_response_has_what_its_model_wrote() -> None:
    play = Play.ready()
    usage = Usage(requests=1, input_tokens=3, output_tokens=2, total_tokens=5)
    play.replies(thought(), tool("look_up", "c1"), response_id="r1", request_id="q1", usage=usage)
    play.returns("c1")
    play.replies(said("Done."), response_id="r2")
    first, second = result_of(play.state).raw_responses
    assert (first.response_id, first.request_id) == ("r1", "q1")
    assert plain_usage(first.usage) == usage
    assert [item["type"] for item in first.to_input_items()] == ["reasoning", "function_call"]
    assert [item.type for item in second.output] == ["message"]
    assert result_of(play.state).last_response_id == "r2"
    assert result_of(Play.ready().state).last_response_id is None


def test_an_answer_has_the_type_of_its_agent() -> None:
    triage = Agent[Any](name="Triage", output_type=Order)
    play = Play.ready()
    play.replies(said('{"number": "A-17"}'), final="value", value={"number": "A-17"})
    result = result_of(play.state, LocalDefinitions(triage))
    assert result.final_output == Order(number="A-17")
    assert result.final_output_as(Order, raise_if_incorrect_type=True).number == "A-17"
    assert result.final_output_as(str) == Order(number="A-17")
    with pytest.raises(TypeError, match="of type Order, not str"):
        result.final_output_as(str, raise_if_incorrect_type=True)
    assert result_of(play.state).final_output == {"number": "A-17"}


def test_an_answer_that_does_not_fit_its_type_is_not_shown_as_if_it_did() -> None:
    triage = Agent[Any](name="Triage", output_type=Order)
    play = Play.ready()
    play.replies(said("{}"), final="value", value={"id": 5})
    result = result_of(play.state, LocalDefinitions(triage))
    with pytest.raises(UserError, match="cannot be rebuilt as Order"):
        _ = result.final_output
    assert result.status == "completed"


def test_what_a_tool_answers_need_not_be_of_the_agents_type() -> None:
    triage = Agent[Any](name="Triage", output_type=Order)
    play = Play.ready()
    play.replies(tool("look_up", "c1", final=True))
    play.returns("c1", "found")
    assert result_of(play.state, LocalDefinitions(triage)).final_output == "found"


def test_an_approval_stands_behind_the_reply_that_needs_it_also_when_it_is_decided() -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1", '{"amount": 5}'), searched())
    waiting = result_of(play.state)
    expected = ["tool_call_item", "tool_call_item", "tool_approval_item"]
    assert kinds(waiting) == expected
    (item,) = waiting.interruptions
    assert item is waiting.new_items[2]
    assert item.to_call()["call_id"] == "c1"
    types = [one.get("type") for one in waiting.to_input_list()]
    assert types == [None, "function_call", "web_search_call"]
    play.decided("a1")
    play.returns("c1")
    play.replies(said("Done."))
    done = result_of(play.state)
    assert kinds(done) == [*expected, "tool_call_output_item", "message_output_item"]
    assert done.interruptions == []


def test_what_a_nested_run_asks_is_asked_of_whoever_asked_the_run() -> None:
    play = Play.ready()
    play.replies(nested("Refunds", "c1"))
    request = ApprovalRequest(
        id="e3.a1",
        call_id="n1",
        name="refund",
        agent="Refunds",
        arguments='{"amount": 5}',
        args_digest="d",
        requested_at_ms=1,
        run_id="support-42/ask_refunds-3",
    )
    play.reported(request)
    result = result_of(play.state)
    (item,) = result.interruptions
    assert (item.id, item.run_id, item.agent.name) == (
        "e3.a1",
        "support-42/ask_refunds-3",
        "Refunds",
    )
    assert item.to_call()["arguments"] == '{"amount": 5}'
    assert kinds(result) == ["tool_call_item"]


def test_what_was_said_meanwhile_belongs_to_the_agent_that_heard_it() -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1"))
    play.hears("m2", "By card, please.")
    play.decided("a1")
    play.returns("c1", "refunded")
    heard = [
        [(one.type, one.agent.name) for one in result_of(state).new_items if one.type[:2] == "in"]
        for state in (play.state, (play.replies(transfer("Billing", "h1")), play.state)[1])
    ]
    assert heard == [[("input_item", "Triage")]] * 2


def filtered() -> Play:
    """A handoff with a filter that leaves one message of everything before."""
    play = Play.ready()
    play.replies(tool("look_up", "c1"))
    play.returns("c1")
    play.replies(transfer("Billing", "h1", callback=True))
    summary = {"role": "assistant", "content": "They said hello."}
    play.called_back(edit=ViewEdit(segments=(summary,), history=1, dropped=(1, 2)))
    play.replies(said("Done."))
    return play


def test_after_a_filter_the_input_is_what_it_left() -> None:
    result = result_of(filtered().state)
    summary = {"role": "assistant", "content": "They said hello."}
    assert result.input == [summary]
    assert kinds(result) == ["handoff_call_item", "handoff_output_item", "message_output_item"]
    types = [one.get("type", one.get("role")) for one in result.to_input_list()]
    assert types == ["assistant", "function_call", "function_call_output", "message"]
    normalized = [one.get("type", one.get("role")) for one in result.to_input_list("normalized")]
    assert normalized == ["assistant", "message"]


def test_what_a_handoff_made_part_of_the_input_is_not_there_twice() -> None:
    play = Play.ready()
    play.replies(said("I pass you on."), transfer("Billing", "h1", callback=True))
    summary = {"role": "assistant", "content": "They said hello."}
    play.called_back(edit=ViewEdit(segments=(summary, (1, 2)), history=2))
    play.replies(said("Done."))
    result = result_of(play.state)
    assert kinds(result)[0] == "message_output_item"
    listed = result.to_input_list()
    assert [one.get("type", one.get("role")) for one in listed] == [
        "assistant",
        "message",
        "function_call",
        "function_call_output",
        "message",
    ]
    result.new_items.pop()
    assert result.to_input_list() == listed[:-1]


def test_without_a_filter_there_is_one_way_to_go_on() -> None:
    result = result_of(answered().state)
    shown = [one.get("type", one.get("role")) for one in result.to_input_list()]
    assert shown == ["user", "reasoning", "function_call", "function_call_output", "message"]
    assert result.to_input_list("normalized") == result.to_input_list()
    with pytest.raises(UserError, match="'preserve_all' or 'normalized'"):
        result.to_input_list(mode="all")  # pyright: ignore[reportArgumentType]  on purpose


def test_what_is_done_to_a_result_does_not_reach_the_run() -> None:
    play = answered()
    result = result_of(play.state)
    result.to_input_list()[0]["content"] = "changed"
    result.new_items.clear()
    assert play.state.items[0].raw["content"] == "Hello"
    assert result_of(play.state).new_items


def test_reasoning_loses_its_ids_where_the_run_wants_that() -> None:
    play = Play.ready(settings={"reasoning_item_id_policy": "omit"})
    play.replies(({"type": "reasoning", "id": "rs1", "summary": []}, None), said("Done."))
    assert "id" not in result_of(play.state).to_input_list()[1]


def test_a_nested_run_says_which_call_it_answers() -> None:
    call = {"agent": "Desk", "tool": "ask", "call_id": "c1", "arguments": "{}"}
    nested_run = result_of(answered(settings={"as_tool": call}).state)
    assert nested_run.agent_tool_invocation == AgentToolInvocation("ask", "c1", "{}")
    assert result_of(answered().state).agent_tool_invocation is None
