"""Reading a run in memory along: the events of `Runner.run_streamed` without a server."""

import pytest

from outlast import (
    Agent,
    MaxTurnsExceeded,
    RawResponsesStreamEvent,
    RunItemStreamEvent,
    RunResultStreaming,
    function_tool,
)
from outlast.testing import ScriptedModel, call, run_in_memory, run_in_memory_streamed


@function_tool
async def look_up(order_id: str) -> str:
    """Look an order up."""
    return f"{order_id} is on its way"


@function_tool(needs_approval=True)
async def refund(amount: int) -> str:
    """Pay back."""
    return f"paid {amount}"


async def note_names(stream: RunResultStreaming, names: list[str]) -> None:
    async for event in stream.stream_events():
        names += [event.name] if isinstance(event, RunItemStreamEvent) else []


async def item_names(stream: RunResultStreaming) -> list[str]:
    names: list[str] = []
    await note_names(stream, names)
    return names


async def test_deltas_add_up_to_the_answer_and_come_before_its_item() -> None:
    model = ScriptedModel([call("look_up", "c1", order_id="A-17")], "It is on its way.")
    stream = run_in_memory_streamed(Agent("A", tools=[look_up]), "Where is it?", model=model)
    told: list[str] = []
    async for event in stream.stream_events():
        if isinstance(event, RawResponsesStreamEvent):
            if event.data.type == "response.output_text.delta":
                told.append(event.data.delta)
        elif isinstance(event, RunItemStreamEvent):
            told.append(f"<{event.name}>")
    text = "".join(told)
    assert text.startswith("<tool_called><tool_output>")
    assert text.endswith("It is on its way.<message_output_created>")
    assert (stream.final_output, stream.is_complete) == ("It is on its way.", True)


async def test_a_run_that_waited_is_read_along_from_where_it_was() -> None:
    agent = Agent("A", tools=[refund])
    model = ScriptedModel([call("refund", "c1", amount=5)], "done")
    waiting = await run_in_memory(agent, "Pay.", model=model)
    state = waiting.to_state()
    state.approve(waiting.interruptions[0])
    stream = run_in_memory_streamed(agent, state, model=model)
    assert await item_names(stream) == ["tool_output", "message_output_created"]


async def test_the_error_comes_after_everything_that_happened_before() -> None:
    model = ScriptedModel(always=[call("look_up", "c1", order_id="A-17")])
    stream = run_in_memory_streamed(Agent("A", tools=[look_up]), "?", model=model, max_turns=1)
    names: list[str] = []
    with pytest.raises(MaxTurnsExceeded):
        await note_names(stream, names)
    assert names == ["tool_called", "tool_output"]


async def test_a_cancel_ends_the_events_without_an_error() -> None:
    model = ScriptedModel([call("look_up", "c1", order_id="A-17")], "never")
    stream = run_in_memory_streamed(Agent("A", tools=[look_up]), "?", model=model)
    async for event in stream.stream_events():
        if isinstance(event, RunItemStreamEvent):
            stream.cancel()
    assert stream.final_output is None
