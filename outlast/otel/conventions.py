"""The names of OpenTelemetry's semantic conventions for generative AI, in the version below.

Handoffs and guardrails have no convention in this version. Their names are those of the open
proposals: pull requests 98 (handoffs) and 427 (guardrails) of semantic-conventions-genai.
"""

from typing import Final

VERSION: Final = "0.1.0"
"""The version of semantic-conventions-genai that the names are from."""

# --- Attributes -----------------------------------------------------------------------------------

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
AGENT_NAME: Final = "gen_ai.agent.name"
ERROR_TYPE: Final = "error.type"

REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_STREAM: Final = "gen_ai.request.stream"
REQUEST_SETTINGS: Final = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "max_tokens": "gen_ai.request.max_tokens",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
}
"""The attributes of a model's settings, by the name of the setting."""

RESPONSE_ID: Final = "gen_ai.response.id"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
CALL_FACTS: Final = {
    "stream": REQUEST_STREAM,
    "response_id": RESPONSE_ID,
    "response_model": RESPONSE_MODEL,
    "server_address": "server.address",
    "server_port": "server.port",
    "instructions_digest": "outlast.instructions.sha256",
    "first_piece_seconds": TIME_TO_FIRST_CHUNK,
    "tried": "outlast.model.tried",
}
"""The attributes of what a model call's span knows about the call."""

USAGE: Final = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
}
"""The attributes of a usage, by the name of its field."""

USAGE_DETAILS: Final = {
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_write.input_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
}
"""The same for parts of a usage; those that are 0 are left out."""

INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"

TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"

MCP_METHOD: Final = "mcp.method.name"

# A rating comes after the spans of its answer: a span without a length has the event's name.
EVALUATION: Final = "gen_ai.evaluation.result"
EVALUATION_NAME: Final = "gen_ai.evaluation.name"
EVALUATION_SCORE: Final = "gen_ai.evaluation.score.value"
EVALUATION_LABEL: Final = "gen_ai.evaluation.score.label"
EVALUATION_WHY: Final = "gen_ai.evaluation.explanation"

# Proposed: handoffs are calls of tools, between two agents.
HANDOFF_SOURCE: Final = "gen_ai.agent.handoff.source.name"
HANDOFF_TARGET: Final = "gen_ai.agent.handoff.target.name"

# Proposed: guardrails.
GUARDRAIL_NAME: Final = "gen_ai.guardrail.component.name"
GUARDRAIL_RESULT_TYPE: Final = "gen_ai.guardrail.result.type"
GUARDRAIL_RESULT: Final = "gen_ai.guardrail.result.value"

# --- Operations -----------------------------------------------------------------------------------

CHAT: Final = "chat"
INVOKE_AGENT: Final = "invoke_agent"
INVOKE_WORKFLOW: Final = "invoke_workflow"
EXECUTE_TOOL: Final = "execute_tool"
APPLY_GUARDRAIL: Final = "apply_guardrail"

# --- Metrics --------------------------------------------------------------------------------------

INFERENCE_DURATION: Final = "gen_ai.client.inference.duration"
INFERENCE_FIRST_CHUNK: Final = "gen_ai.client.inference.time_to_first_chunk"
INFERENCE_INPUT_TOKENS: Final = "gen_ai.client.inference.usage.input_tokens"
INFERENCE_OUTPUT_TOKENS: Final = "gen_ai.client.inference.usage.output_tokens"
AGENT_DURATION: Final = "gen_ai.invoke_agent.duration"
TOOL_DURATION: Final = "gen_ai.execute_tool.duration"

DURATION_BUCKETS: Final = (
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
)  # fmt: skip
"""The bucket boundaries of durations, in seconds."""

WAIT_BUCKETS: Final = (1, 10, 60, 300, 900, 3600, 14400, 86400, 259200, 604800)
"""The bucket boundaries of waits for people, in seconds; ours."""

# --- What outlast adds ----------------------------------------------------------------------------

RUN_ID: Final = "outlast.run.id"
QUESTION: Final = "outlast.question"
TURN: Final = "outlast.turn"
ATTEMPT: Final = "outlast.attempt"
TENANT: Final = "outlast.tenant"
USER_ID: Final = "user.id"
SESSION_ID: Final = "session.id"
INPUT_VALUE: Final = "input.value"
OUTPUT_VALUE: Final = "output.value"
INPUT_TYPE: Final = "input.mime_type"
OUTPUT_TYPE: Final = "output.mime_type"
"""OpenInference's names for what a span begins and ends with, where a trace is shown by its root."""

COST: Final = "outlast.cost.usd"
METADATA: Final = "outlast.metadata"
DATA: Final = "outlast.data"
SPAN_KIND: Final = "openinference.span.kind"
"""OpenInference's kind of a span, where Phoenix cannot tell it from the operation."""

TOTAL_USAGE: Final = {
    "input_tokens": "outlast.usage.input_tokens",
    "output_tokens": "outlast.usage.output_tokens",
    "cached_input_tokens": "outlast.usage.cached_input_tokens",
}
"""The usage of a question or turn: another name, so that nobody adds it to that of its calls."""

TOTAL_COST: Final = "outlast.usage.cost_usd"
"""The cost of a question, an agent's work or a turn, as their workers have recorded it."""

UNPRICED_CALLS: Final = "outlast.usage.unpriced_calls"
"""How many of their model calls have no known cost; absent if all have one."""

WAIT_KIND: Final = "outlast.wait.kind"
WAIT_OUTCOME: Final = "outlast.wait.outcome"
WAIT_DECIDED_BY: Final = "outlast.wait.decided_by"

COST_TOTAL: Final = "outlast.cost"
QUEUE_DURATION: Final = "outlast.queue.duration"
WAIT_DURATION: Final = "outlast.wait.duration"

# --- What somebody wrote --------------------------------------------------------------------------

ERROR_MESSAGE: Final = "error.message"
"""The name of a span's status text, for `OpenTelemetryProcessor(redact=...)`."""

WRITTEN: Final = frozenset(
    {
        SYSTEM_INSTRUCTIONS,
        INPUT_MESSAGES,
        OUTPUT_MESSAGES,
        INPUT_VALUE,
        OUTPUT_VALUE,
        TOOL_ARGUMENTS,
        TOOL_RESULT,
        EVALUATION_WHY,
        METADATA,
        DATA,
        USER_ID,
        WAIT_DECIDED_BY,
    }
)
"""The attributes that a program may redact: what people, models, tools and programs wrote."""
