"""Agents as tools: rows 40 and 54 of the table."""

from typing import Any

import pytest
from pydantic import BaseModel

import outlast
from outlast import Agent, AgentsException, function_tool
from outlast.testing import ScriptedModel, call
from tests.conformance.executors import Executor, row
from tests.conformance.views import offered, outputs, shapes


class Order(BaseModel):
    number: str
    copies: int


@function_tool
async def look_up() -> str:
    return "found"


@row(40)
async def test_what_a_nested_agent_may_not_decide_surfaces_outside(executor: Executor) -> None:
    log: list[str] = []
    refunded: list[int] = []

    class Watching(outlast.RunHooks):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            log.append(f"run {tool.name}")

        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            log.append(f"ran {tool.name}: {result}")

    @function_tool(needs_approval=True)
    async def refund(amount: int) -> str:
        refunded.append(amount)
        return "refunded"

    inner = Agent(name="Refunds", tools=[refund])
    tool = inner.as_tool(
        tool_name="ask_refunds", tool_description="Ask about refunds.", needs_approval=True
    )
    outer = Agent(name="Desk", tools=[tool])
    model = ScriptedModel(
        [call("ask_refunds", "c1", input="Refund A-17.")],
        [call("refund", "n1", amount=5)],
        "It is refunded.",
        "Your money is on its way.",
    )
    hooks = Watching()
    result = await executor.execute(outer, model=model, hooks=hooks)
    (item,) = result.interruptions
    assert (item.tool_name, item.agent.name) == ("ask_refunds", "Desk")
    assert (log, model.calls) == ([], 1)

    state = result.to_state()
    state.approve(item)
    result = await executor.resume(outer, state, hooks=hooks)
    (item,) = result.interruptions
    assert (item.tool_name, item.agent.name) == ("refund", "Refunds")
    assert (result.final_output, refunded) == (None, [])
    assert log == ["run ask_refunds"]
    assert "tool_call_output_item" not in [one.type for one in result.new_items]

    state = result.to_state()
    state.approve(item)
    result = await executor.resume(outer, state, hooks=hooks)
    assert (result.final_output, result.interruptions) == ("Your money is on its way.", [])
    assert refunded == [5]
    assert log == ["run ask_refunds", "ran ask_refunds: It is refunded."]
    assert outputs(model.requests[3]) == {"c1": "It is refunded."}


@row(40)
async def test_a_rejected_call_of_a_nested_agent_is_told_to_that_agent(executor: Executor) -> None:
    refunded: list[int] = []

    @function_tool(needs_approval=True)
    async def refund(amount: int) -> str:
        refunded.append(amount)
        return "refunded"

    inner = Agent(name="Refunds", tools=[refund])
    outer = Agent(name="Desk", tools=[inner.as_tool("ask_refunds", "Ask about refunds.")])
    model = ScriptedModel(
        [call("ask_refunds", "c1", input="Refund A-17.")],
        [call("refund", "n1", amount=5)],
        "It is not refunded.",
        "I am sorry.",
    )
    result = await executor.execute(outer, model=model)
    state = result.to_state()
    state.reject(result.interruptions[0], rejection_message="Too much.")
    result = await executor.resume(outer, state)
    assert (result.final_output, refunded) == ("I am sorry.", [])
    assert outputs(model.requests[2]) == {"n1": "Too much."}


@row(54)
async def test_a_nested_agent_answers_a_question_of_its_own(executor: Executor) -> None:
    inner = Agent(name="Order Desk", instructions="Find it.", tools=[look_up])
    tool = inner.as_tool(tool_name=None, tool_description="Ask about orders.")
    outer = Agent(name="Desk", tools=[tool])
    model = ScriptedModel(
        [call("order_desk", "c1", input="Where is A-17?")],
        [call("look_up", "n1")],
        "It is here.",
        "We have it.",
    )
    result = await executor.execute(outer, "Hello", model=model)
    assert result.final_output == "We have it."
    assert offered(model.requests[0]) == ["order_desk"]
    spec = model.requests[0].tools[0]
    assert spec.description == "Ask about orders."
    assert spec.parameters["properties"]["input"]["type"] == "string"
    assert model.requests[1].instructions == "Find it."
    assert shapes(model.requests[1].input) == ["Where is A-17?"]
    assert outputs(model.requests[3]) == {"c1": "It is here."}
    assert len(result.raw_responses) == 2
    assert result.last_agent.name == "Desk"
    assert result.context_wrapper.usage.requests == 4


@row(54)
async def test_an_extractor_makes_the_output_of_a_nested_agent(executor: Executor) -> None:
    async def count(nested: Any) -> str:
        return f"{nested.final_output} after {len(nested.new_items)} items"

    inner = Agent(name="Orders", tools=[look_up])
    tool = inner.as_tool("ask", "Ask.", custom_output_extractor=count)
    model = ScriptedModel([call("ask", "c1", input="?")], [call("look_up", "n1")], "Here.", "done")
    await executor.execute(Agent(name="Desk", tools=[tool]), model=model)
    assert outputs(model.requests[3]) == {"c1": "Here. after 3 items"}


@row(54)
@pytest.mark.parametrize("told", [True, False])
async def test_a_nested_agent_has_turns_of_its_own(executor: Executor, told: bool) -> None:
    """What goes wrong inside is told to the outer model, unless the tool may not tell."""
    inner = Agent(name="Orders", tools=[look_up])
    options: dict[str, Any] = {} if told else {"failure_error_function": None}
    tool = inner.as_tool("ask", "Ask.", max_turns=1, **options)
    outer = Agent(name="Desk", tools=[tool])
    model = ScriptedModel([call("ask", "c1", input="?")], [call("look_up", "n1")], "I am sorry.")
    if told:
        result = await executor.execute(outer, model=model, max_turns=2)
        assert result.final_output == "I am sorry."
        assert isinstance(outputs(model.requests[2])["c1"], str)
        assert result.context_wrapper.usage.requests == 3, "what failed inside was paid, too"
    else:
        with pytest.raises(AgentsException):
            await executor.execute(outer, model=model, max_turns=2)
        assert model.calls == 2


@row(54)
async def test_a_nested_agent_may_take_structured_input(executor: Executor) -> None:
    inner = Agent(name="Orders")
    tool = inner.as_tool("print_order", "Print.", parameters=Order)
    model = ScriptedModel([call("print_order", "c1", number="A-17", copies=2)], "Printed.", "done")
    result = await executor.execute(Agent(name="Desk", tools=[tool]), model=model)
    assert result.final_output == "done"
    assert set(model.requests[0].tools[0].parameters["properties"]) == {"number", "copies"}
    (asked,) = shapes(model.requests[1].input)
    assert "A-17" in asked
    assert outputs(model.requests[2]) == {"c1": "Printed."}


@row(54)
async def test_a_nested_agent_shares_the_context_and_not_the_history(executor: Executor) -> None:
    @function_tool
    async def count(ctx: outlast.ToolContext[dict[str, int]]) -> str:
        ctx.context["counted"] += 1
        return "counted"

    inner = Agent(name="Orders", tools=[count])
    outer = Agent(name="Desk", tools=[inner.as_tool("ask", "Ask."), count])
    model = ScriptedModel(
        [call("count", "c1")],
        [call("ask", "c2", input="?")],
        [call("count", "n1")],
        "Here.",
        "done",
    )
    result = await executor.execute(outer, "Hello", model=model, context={"counted": 0})
    assert result.context_wrapper.context == {"counted": 2}
    assert shapes(model.requests[2].input) == ["?"]


@row(54)
async def test_hooks_hear_of_a_silent_agent_what_the_model_reads(executor: Executor) -> None:
    heard: list[Any] = []

    class Listening(outlast.RunHooks):
        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            heard.append((tool.name, result))

    inner = Agent(name="Orders", tools=[look_up])
    outer = Agent(name="Desk", tools=[inner.as_tool("ask", "Ask.")])
    model = ScriptedModel([call("ask", "c1", input="?")], [call("look_up", "n1")], "", "Done.")
    await executor.execute(outer, model=model, hooks=Listening())
    found = outputs(model.requests[3])["c1"]
    assert found
    assert ("ask", found) in heard
