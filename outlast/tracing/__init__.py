"""Traces and spans of runs.

Programs register processors, which receive traces and spans, and open spans of their own. The spans
of a run's stages come from its states (`stage_spans.py`), the spans of model and tool calls from
activities (`activities/tracing.py`).
"""

from outlast.agents.config.run_config import TracingConfig
from outlast.tracing.current import Span, Trace, gen_group_id, gen_span_id, gen_trace_id
from outlast.tracing.kinds import (
    AgentSpanData,
    CustomSpanData,
    FunctionSpanData,
    GenerationSpanData,
    GuardrailSpanData,
    HandoffSpanData,
    MCPListToolsSpanData,
    RatingSpanData,
    ResponseSpanData,
    SpanData,
    SpanError,
    TaskSpanData,
    TurnSpanData,
    WaitSpanData,
)
from outlast.tracing.processors import (
    BackendSpanExporter,
    BatchTraceProcessor,
    ConsoleSpanExporter,
    TracingExporter,
    default_exporter,
    default_processor,
    set_tracing_export_api_key,
)
from outlast.tracing.provider import (
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
from outlast.tracing.trace_provider import TraceProvider, get_trace_provider, time_iso
from outlast.tracing.user_spans import (
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

__all__ = [
    "AgentSpanData",
    "BackendSpanExporter",
    "BatchTraceProcessor",
    "ConsoleSpanExporter",
    "CustomSpanData",
    "FunctionSpanData",
    "GenerationSpanData",
    "GuardrailSpanData",
    "HandoffSpanData",
    "MCPListToolsSpanData",
    "RatingSpanData",
    "ResponseSpanData",
    "Span",
    "SpanData",
    "SpanError",
    "TaskSpanData",
    "Trace",
    "TraceProvider",
    "TracingConfig",
    "TracingExporter",
    "TracingProcessor",
    "TurnSpanData",
    "WaitSpanData",
    "add_trace_processor",
    "agent_span",
    "custom_span",
    "default_exporter",
    "default_processor",
    "flush_traces",
    "function_span",
    "gen_group_id",
    "gen_span_id",
    "gen_trace_id",
    "generation_span",
    "get_current_span",
    "get_current_trace",
    "get_trace_provider",
    "guardrail_span",
    "handoff_span",
    "mcp_tools_span",
    "response_span",
    "set_trace_processors",
    "set_tracing_disabled",
    "set_tracing_export_api_key",
    "task_span",
    "time_iso",
    "trace",
    "turn_span",
]
