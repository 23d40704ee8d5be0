"""Agents as tools: rows 40 and 54 of the table."""

from typing import Any

import pytest
from pydantic import BaseModel

import outlast
from outlast import (
    Agent,
    AgentsException,
    AgentToolStreamEvent,
    AgentUpdatedStreamEvent,
    RawResponsesStreamEvent,
    RunItemStreamEvent,
    function_tool,
    handoff,
)
from outlast.extensions.handoff_filters import remove_all_tools
from outlast.testing import ScriptedModel, call, fail_after, say
from tests.conformance.executors import Executor, also_on_server, row
from tests.conformance.views import offered, outputs, shapes
from tests.workflow.replies import model_error


class Order(BaseModel):
    number: str
    copies: int


@function_tool
async def look_up() -> str:
    return "found"


@pytest.mark.smoke
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
        asked = nested.agent_tool_invocation
        what = f"{asked.tool_name} {asked.tool_call_id} {asked.tool_arguments}"
        return f"{nested.final_output} after {len(nested.new_items)} items for {what}"

    inner = Agent(name="Orders", tools=[look_up])
    tool = inner.as_tool("ask", "Ask.", custom_output_extractor=count)
    model = ScriptedModel([call("ask", "c1", input="?")], [call("look_up", "n1")], "Here.", "done")
    result = await executor.execute(Agent(name="Desk", tools=[tool]), model=model)
    read = 'Here. after 3 items for ask c1 {"input": "?"}'
    assert outputs(model.requests[3]) == {"c1": read}
    assert result.agent_tool_invocation is None


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


@also_on_server
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


@row(54)
async def test_nothing_that_a_guardrail_has_not_seen_takes_the_place_of_an_empty_answer(
    executor: Executor,
) -> None:
    seen: list[Any] = []

    @outlast.output_guardrail
    def checked(context: Any, agent: Any, output: Any) -> outlast.GuardrailFunctionOutput:
        seen.append(output)
        return outlast.GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)

    inner = Agent(name="Orders", tools=[look_up], output_guardrails=[checked])
    outer = Agent(name="Desk", tools=[inner.as_tool("ask", "Ask.")])
    model = ScriptedModel([call("ask", "c1", input="?")], [call("look_up", "n1")], "", "Done.")
    await executor.execute(outer, model=model)
    assert (seen, outputs(model.requests[3])["c1"]) == ([""], "")


class Screen:
    """An `on_stream` that shows what it is told, without what a model says bit by bit."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.events: list[AgentToolStreamEvent] = []

    async def show(self, told: AgentToolStreamEvent) -> None:
        self.events.append(told)
        event = told["event"]
        if isinstance(event, AgentUpdatedStreamEvent):
            what = f"now {event.new_agent.name}"
        elif isinstance(event, RunItemStreamEvent):
            what = f"{event.name}: {getattr(event.item, 'output', '')}".removesuffix(": ")
        elif event.data.type == "response.completed":
            what = "said"
        else:
            return
        self.lines.append(f"{told['tool_call'].call_id} {told['agent'].name}: {what}")

    def show_at_once(self, told: AgentToolStreamEvent) -> None:
        self.events.append(told)


@also_on_server
@pytest.mark.smoke
@row(54)
async def test_on_stream_is_told_everything_in_its_order(executor: Executor) -> None:
    @function_tool
    async def note(text: str) -> str:
        return f"noted {text}"

    screen = Screen()
    closer = Agent(name="Closer")
    inner = Agent(name="Orders", tools=[look_up, note], handoffs=[closer])
    outer = Agent(name="Desk", tools=[inner.as_tool("ask", "Ask.", on_stream=screen.show)])
    model = ScriptedModel(
        [call("ask", "c1", input="?")],
        [call("look_up", "n1"), call("note", "n2", text="it")],
        [*say("Over to you."), call("look_up", "n3"), call("transfer_to_closer", "h1")],
        "It is closed.",
        "done",
    )
    result = await executor.execute(outer, model=model)
    assert result.final_output == "done"
    assert screen.lines == [
        "c1 Orders: now Orders",
        "c1 Orders: said",
        "c1 Orders: tool_called",
        "c1 Orders: tool_called",
        "c1 Orders: tool_output: found",
        "c1 Orders: tool_output: noted it",
        "c1 Orders: said",
        "c1 Orders: message_output_created",
        "c1 Orders: tool_called",
        "c1 Orders: handoff_requested",
        "c1 Orders: tool_output: found",
        "c1 Orders: handoff_occured",
        "c1 Closer: now Closer",
        "c1 Closer: said",
        "c1 Closer: message_output_created",
    ]
    first: Any = screen.events[0]
    assert (first["agent"], first["event"].new_agent) == (inner, inner)
    assert (first["tool_call"].name, first["tool_call"].arguments) == ("ask", '{"input": "?"}')
    spoken = [
        one["event"].data.delta
        for one in screen.events
        if isinstance(one["event"], RawResponsesStreamEvent)
        and one["event"].data.type == "response.output_text.delta"
    ]
    assert "".join(spoken) == "Over to you.It is closed."


@row(54)
async def test_on_stream_is_told_of_its_own_run_only(executor: Executor) -> None:
    above, below = Screen(), Screen()
    deep = Agent(name="Deep", tools=[look_up])
    inner = Agent(name="Inner", tools=[deep.as_tool("dig", "Dig.", on_stream=below.show)])
    outer = Agent(name="Desk", tools=[inner.as_tool("ask", "Ask.", on_stream=above.show)])
    model = ScriptedModel(
        [call("ask", "c1", input="?")],
        [call("dig", "n1", input="?")],
        [call("look_up", "d1")],
        "Deep down.",
        "Here.",
        "done",
    )
    await executor.execute(outer, model=model)
    assert above.lines == [
        "c1 Inner: now Inner",
        "c1 Inner: said",
        "c1 Inner: tool_called",
        "c1 Inner: tool_output: Deep down.",
        "c1 Inner: said",
        "c1 Inner: message_output_created",
    ]
    assert below.lines == [
        "n1 Deep: now Deep",
        "n1 Deep: said",
        "n1 Deep: tool_called",
        "n1 Deep: tool_output: found",
        "n1 Deep: said",
        "n1 Deep: message_output_created",
    ]


@row(54)
@pytest.mark.parametrize("filters", [remove_all_tools, None])
async def test_a_filter_hides_nothing_from_on_stream(executor: Executor, filters: Any) -> None:
    screen = Screen()
    closer = Agent(name="Closer", tools=[look_up], tool_use_behavior="stop_on_first_tool")
    inner = Agent(name="Orders", tools=[look_up], handoffs=[handoff(closer, input_filter=filters)])
    outer = Agent(name="Desk", tools=[inner.as_tool("ask", "Ask.", on_stream=screen.show)])
    model = ScriptedModel(
        [call("ask", "c1", input="?")],
        [call("look_up", "n1"), call("transfer_to_closer", "h1")],
        [call("look_up", "n2")],
        "done",
    )
    await executor.execute(outer, model=model)
    assert [line.split(": ", 1)[1] for line in screen.lines] == [
        "now Orders",
        "said",
        "tool_called",
        "handoff_requested",
        "tool_output: found",
        "handoff_occured",
        "now Closer",
        "said",
        "tool_called",
        "tool_output: found",
    ]
    assert outputs(model.requests[3]) == {"c1": "found"}


@row(54)
async def test_on_stream_is_told_of_the_turns_before_there_were_too_many(
    executor: Executor,
) -> None:
    screen = Screen()
    inner = Agent(name="Orders", tools=[look_up])
    tool = inner.as_tool("ask", "Ask.", on_stream=screen.show, max_turns=1)
    model = ScriptedModel([call("ask", "c1", input="?")], [call("look_up", "n1")], "I am sorry.")
    await executor.execute(Agent(name="Desk", tools=[tool]), model=model)
    assert screen.lines[-2:] == ["c1 Orders: tool_called", "c1 Orders: tool_output: found"]


@also_on_server
@row(40, 54)
async def test_on_stream_hears_again_who_works_when_people_have_decided(
    executor: Executor,
) -> None:
    @function_tool(needs_approval=True)
    async def refund(amount: int) -> str:
        return f"refunded {amount}"

    screen = Screen()
    inner = Agent(name="Refunds", tools=[look_up, refund])
    outer = Agent(name="Desk", tools=[inner.as_tool("ask", "Ask.", on_stream=screen.show)])
    model = ScriptedModel(
        [call("ask", "c1", input="?")],
        [call("look_up", "n1"), call("refund", "n2", amount=5)],
        "It is refunded.",
        "done",
    )
    result = await executor.execute(outer, model=model)
    state = result.to_state()
    state.approve(result.interruptions[0])
    result = await executor.resume(outer, state)
    assert result.final_output == "done"
    assert [line.removeprefix("c1 Refunds: ") for line in screen.lines] == [
        "now Refunds",
        "said",
        "tool_called",
        "tool_called",
        "now Refunds",
        "tool_output: found",
        "tool_output: refunded 5",
        "said",
        "message_output_created",
    ]


@row(54)
@pytest.mark.parametrize("reads_along", [True, False])
async def test_on_stream_may_fail_and_costs_no_model_call(
    executor: Executor, reads_along: bool, caplog: pytest.LogCaptureFixture
) -> None:
    screen = Screen()

    def show(told: AgentToolStreamEvent) -> None:
        screen.show_at_once(told)
        raise ValueError("no screen")

    inner = Agent(name="Orders", tools=[look_up])
    outer = Agent(name="Desk", tools=[inner.as_tool("ask", "Ask.", on_stream=show)])
    model = ScriptedModel([call("ask", "c1", input="?")], [call("look_up", "n1")], "Here.", "done")
    if reads_along:
        result = await executor.stream(outer, model=model)
        async for _ in result.stream_events():
            pass
    else:
        result = await executor.execute(outer, model=model)
    assert result.final_output == "done"
    assert model.calls == 4
    kinds = [one["event"].type for one in screen.events]
    assert (kinds[0], kinds[-1]) == ("agent_updated_stream_event", "run_item_stream_event")
    assert caplog.text.count("on_stream of the tool 'ask' raised ValueError: no screen") == len(
        kinds
    )


@also_on_server
@row(54)
async def test_on_stream_is_told_again_what_is_tried_again(executor: Executor) -> None:
    screen = Screen()
    inner = Agent(name="Orders")
    outer = Agent(name="Desk", tools=[inner.as_tool("ask", "Ask.", on_stream=screen.show_at_once)])
    broken = fail_after(6, model_error(retryable=True), "It is on its way.")
    model = ScriptedModel([call("ask", "c1", input="?")], broken, "It is here.", "done")
    result = await executor.execute(outer, model=model)
    assert result.final_output == "done"
    raws = [
        one["event"].raw
        for one in screen.events
        if isinstance(one["event"], RawResponsesStreamEvent)
    ]
    at = next(at for at, raw in enumerate(raws) if raw["type"] == "outlast.attempt_restarted")
    assert (at, raws[at]["attempt"]) == (6, 2)
    assert "".join(str(raw.get("delta", "")) for raw in raws[at:]) == "It is here."
    names = [getattr(one["event"], "name", "") for one in screen.events]
    assert names.count("message_output_created") == 1
