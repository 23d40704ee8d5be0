"""Codes of failures, and how an activity ended.

The codes are stable; `outlast.agents.errors` has an exception for each that users see.
`EngineFailure` is filled from exceptions by the workflow and from history records by the client, so
both produce the same `Failure`.
"""

from dataclasses import dataclass
from typing import Final, Literal

from outlast.loop.values import JsonObject

USER_ERROR: Final = "user_error"
MODEL_CALL_FAILED: Final = "model_call_failed"
MODEL_WORKING: Final = "model_working"
"""The code of an attempt that found the provider still making the response; never that of a run."""

MODEL_BEHAVIOR: Final = "model_behavior"
MODEL_REFUSAL: Final = "model_refusal"
MAX_TURNS_EXCEEDED: Final = "max_turns_exceeded"
INPUT_GUARDRAIL: Final = "input_guardrail_tripwire"
OUTPUT_GUARDRAIL: Final = "output_guardrail_tripwire"
TOOL_INPUT_GUARDRAIL: Final = "tool_input_guardrail_tripwire"
TOOL_OUTPUT_GUARDRAIL: Final = "tool_output_guardrail_tripwire"
INVALID_OUTPUT: Final = "invalid_final_output"
SESSION_FAILED: Final = "session_failed"
TOOL_FAILED: Final = "tool_failed"
TOOL_TIMEOUT: Final = "tool_timeout"
CANCELLED: Final = "cancelled"
DECISION_REFUSED: Final = "decision_refused"
DELIVERY_REFUSED: Final = "delivery_refused"
APPROVAL_EXPIRED: Final = "approval_expired"
BUDGET_EXCEEDED: Final = "budget_exceeded"
RUN_CLOSED: Final = "run_closed"
CONTENT_UNAVAILABLE: Final = "content_unavailable"
CONVERSATION_FULL: Final = "conversation_full"
RUN_BUSY: Final = "run_busy"
TERMINATED: Final = "terminated"
WORKER_LACKS: Final = "worker_lacks"
"""Code of an attempt: this worker lacks the agent, tool, type or name that the effect needs."""
FAILED_ON_CAPABLE_WORKER: Final = "worker_found"
"""Code of an attempt that waited for a worker: this worker has everything, but the effect
failed."""
INTERNAL: Final = "internal_error"

EMPTY_ANSWER: Final[JsonObject] = {"empty": True}
"""The details of an `INVALID_OUTPUT` after which the model may be called again."""

CODES: Final = frozenset(
    value for name, value in list(globals().items()) if name.isupper() and isinstance(value, str)
)
"""Every code above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFailure:
    """How an activity failed, without the engine's types.

    Attributes:
        kind: an error in our or a user's code, a time-out, a cancellation, or anything else.
        code: the type of an error.
        message: the message of the failure.
        details: the details of the failure.
        spent: the usage of a failed nested run.
    """

    kind: Literal["application", "timeout", "cancelled", "other"]
    code: str = ""
    message: str = ""
    details: JsonObject | None = None
    spent: JsonObject | None = None
