"""Functions that open spans of the built-in kinds, under the names of the Agents SDK.

Runs open the spans of their own effects. A program needs these functions for work outside of a run,
such as a model that it calls directly, or a tool that is not a `FunctionTool`.
Each function takes the span's data, then `span_id` (default: a new id), `parent` (the parent span
or trace; default: the current one) and `disabled` (report neither the span nor its children).
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from outlast.tracing.current import Span, Trace
from outlast.tracing.kinds import (
    AgentSpanData,
    FunctionSpanData,
    GenerationSpanData,
    GuardrailSpanData,
    HandoffSpanData,
    MCPListToolsSpanData,
    ResponseSpanData,
    TaskSpanData,
    TurnSpanData,
)
from outlast.tracing.provider import open_span

Parent: TypeAlias = Trace | Span[Any] | None


def agent_span(
    name: str,
    handoffs: list[str] | None = None,
    tools: list[str] | None = None,
    output_type: str | None = None,
    span_id: str | None = None,
    parent: Parent = None,
    disabled: bool = False,
) -> Span[AgentSpanData]:
    """Open a span for an agent's work."""
    return open_span(AgentSpanData(name, handoffs, tools, output_type), span_id, parent, disabled)


def task_span(
    name: str, span_id: str | None = None, parent: Parent = None, disabled: bool = False
) -> Span[TaskSpanData]:
    """Open a span from a question to its answer."""
    return open_span(TaskSpanData(name), span_id, parent, disabled)


def turn_span(
    turn: int,
    agent_name: str,
    span_id: str | None = None,
    parent: Parent = None,
    disabled: bool = False,
) -> Span[TurnSpanData]:
    """Open a span for a turn of an agent."""
    return open_span(TurnSpanData(turn, agent_name), span_id, parent, disabled)


def function_span(
    name: str,
    input: str | None = None,
    output: str | None = None,
    span_id: str | None = None,
    parent: Parent = None,
    disabled: bool = False,
) -> Span[FunctionSpanData]:
    """Open a span for a tool call."""
    return open_span(FunctionSpanData(name, input, output), span_id, parent, disabled)


def generation_span(
    input: Sequence[Mapping[str, Any]] | None = None,
    output: Sequence[Mapping[str, Any]] | None = None,
    model: str | None = None,
    model_config: Mapping[str, Any] | None = None,
    usage: dict[str, Any] | None = None,
    span_id: str | None = None,
    parent: Parent = None,
    disabled: bool = False,
) -> Span[GenerationSpanData]:
    """Open a span for a model call."""
    return open_span(
        GenerationSpanData(input, output, model, model_config, usage), span_id, parent, disabled
    )


def response_span(
    response: Any = None,
    span_id: str | None = None,
    parent: Parent = None,
    disabled: bool = False,
) -> Span[ResponseSpanData]:
    """Open a span for a model call with a stored response.

    The response is an object of the openai package, or its JSON.
    """
    return open_span(ResponseSpanData(response), span_id, parent, disabled)


def guardrail_span(
    name: str,
    triggered: bool = False,
    span_id: str | None = None,
    parent: Parent = None,
    disabled: bool = False,
) -> Span[GuardrailSpanData]:
    """Open a span for a guardrail's check."""
    return open_span(GuardrailSpanData(name, triggered), span_id, parent, disabled)


def handoff_span(
    from_agent: str | None = None,
    to_agent: str | None = None,
    span_id: str | None = None,
    parent: Parent = None,
    disabled: bool = False,
) -> Span[HandoffSpanData]:
    """Open a span for a handoff."""
    return open_span(HandoffSpanData(from_agent, to_agent), span_id, parent, disabled)


def mcp_tools_span(
    server: str | None = None,
    result: list[str] | None = None,
    span_id: str | None = None,
    parent: Parent = None,
    disabled: bool = False,
) -> Span[MCPListToolsSpanData]:
    """Open a span for listing an MCP server's tools."""
    return open_span(MCPListToolsSpanData(server, result), span_id, parent, disabled)
