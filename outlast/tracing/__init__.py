"""Traces and spans, for programs that listen to them or open their own.

Owns: nothing; most names are those of `outlast.ports`, gathered under the name users know.
"""

from outlast.agents.run_config import TracingConfig
from outlast.ports.spans import (
    AgentSpanData,
    CustomSpanData,
    FunctionSpanData,
    GenerationSpanData,
    GuardrailSpanData,
    HandoffSpanData,
    MCPListToolsSpanData,
    ResponseSpanData,
    SpanData,
    SpanError,
    TaskSpanData,
    TurnSpanData,
)
from outlast.ports.traces import Span, Trace, gen_group_id, gen_span_id, gen_trace_id
from outlast.ports.tracing import (
    TracingProcessor,
    add_trace_processor,
    custom_span,
    flush_traces,
    get_current_span,
    get_current_trace,
    set_trace_processors,
    set_tracing_disabled,
    trace,
)
from outlast.ports.user_spans import (
    agent_span,
    function_span,
    generation_span,
    guardrail_span,
    handoff_span,
    mcp_tools_span,
    response_span,
    task_span,
    turn_span,
)
from outlast.tracing.processors import BatchTraceProcessor, ConsoleSpanExporter, TracingExporter

__all__ = [
    "AgentSpanData",
    "BatchTraceProcessor",
    "ConsoleSpanExporter",
    "CustomSpanData",
    "FunctionSpanData",
    "GenerationSpanData",
    "GuardrailSpanData",
    "HandoffSpanData",
    "MCPListToolsSpanData",
    "ResponseSpanData",
    "Span",
    "SpanData",
    "SpanError",
    "TaskSpanData",
    "Trace",
    "TracingConfig",
    "TracingExporter",
    "TracingProcessor",
    "TurnSpanData",
    "add_trace_processor",
    "agent_span",
    "custom_span",
    "flush_traces",
    "function_span",
    "gen_group_id",
    "gen_span_id",
    "gen_trace_id",
    "generation_span",
    "get_current_span",
    "get_current_trace",
    "guardrail_span",
    "handoff_span",
    "mcp_tools_span",
    "response_span",
    "set_trace_processors",
    "set_tracing_disabled",
    "task_span",
    "trace",
    "turn_span",
]
