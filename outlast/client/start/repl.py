"""A chat with an agent in a terminal."""

import sys
from typing import Any, cast

from outlast.agents.agent import Agent
from outlast.agents.items.run_items import ToolCallItem, ToolCallOutputItem
from outlast.agents.items.stream_events import (
    AgentUpdatedStreamEvent,
    RawResponsesStreamEvent,
    RunItemStreamEvent,
)
from outlast.agents.threads import run_in_thread
from outlast.client.read.events import StreamEvent
from outlast.client.read.streaming import RunResultStreaming
from outlast.client.results.run_result import RunResult
from outlast.client.results.run_state import RunState
from outlast.client.start.runner import Runner
from outlast.loop.values import DEFAULT_MAX_TURNS, JsonObject


async def run_demo_loop(
    agent: Agent[Any],
    *,
    stream: bool = True,
    context: Any = None,
    max_turns: int | None = DEFAULT_MAX_TURNS,
) -> None:
    """Chat with an agent in the terminal.

    The chat ends with `exit`, `quit` or the end of the input.

    The conversation continues with the agent that answered last. A call that needs approval is
    shown with a question. With `stream`, answers are printed as they arrive.

    Raises:
        AgentsException: a run failed.
    """
    input_items: list[JsonObject] = []
    while (line := await _line(" > ")) is not None and line.lower() not in {"exit", "quit"}:
        if not line:
            continue
        run_input: list[JsonObject] | RunState = [*input_items, {"role": "user", "content": line}]
        while True:
            result = await _answer(agent, run_input, stream, context, max_turns)
            if not result.interruptions:
                break
            run_input = await _ask_decisions(result)
        last: object = result.last_agent
        agent = cast("Agent[Any]", last) if isinstance(last, Agent) else agent
        input_items = result.to_input_list()


async def _answer(
    agent: Agent[Any],
    run_input: list[JsonObject] | RunState,
    stream: bool,  # noqa: FBT001  passed on
    context: Any,
    max_turns: int | None,
) -> RunResult | RunResultStreaming:
    if not stream:
        result = await Runner.run(agent, run_input, context=context, max_turns=max_turns)
        if result.final_output is not None:
            _print(f"{result.final_output}\n")
        return result
    streamed = Runner.run_streamed(agent, run_input, context=context, max_turns=max_turns)
    async for event in streamed.stream_events():
        _print(_text_of(event))
    _print("\n")
    return streamed


async def _ask_decisions(result: RunResult | RunResultStreaming) -> RunState:
    state = result.to_state()
    for call in result.interruptions:
        answer = await _line(f"Allow {call.name}({call.arguments})? [y/N] ")
        if (answer or "").lower() in {"y", "yes"}:
            state.approve(call)
        else:
            state.reject(call)
    return state


def _text_of(event: StreamEvent) -> str:
    if isinstance(event, RawResponsesStreamEvent):
        written = event.data.type == "response.output_text.delta"
        return str(event.data.delta) if written else ""
    if isinstance(event, RunItemStreamEvent):
        if isinstance(event.item, ToolCallItem):
            return "\n[tool called]\n"
        if isinstance(event.item, ToolCallOutputItem):
            return f"\n[tool output: {event.item.output}]\n"
    if isinstance(event, AgentUpdatedStreamEvent):
        return f"\n[Agent updated: {event.new_agent.name}]\n"
    return ""


async def _line(prompt: str) -> str | None:
    """Return the next line, or None at the end of the input, without blocking runs."""
    try:
        return (await run_in_thread(input, prompt)).strip()
    except EOFError:
        _print("\n")
        return None


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
