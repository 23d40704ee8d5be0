"""The names that operators see and that recorded histories hold. Never change one."""

from typing import Final, cast

from outlast.loop.values import Json, JsonObject

SCHEMA_VERSION: Final = 1
"""The schema version of everything in this package. Newer records are refused with a message."""

WORKFLOW: Final = "AgentRun"
TASK_QUEUE: Final = "outlast"
"""The default task queue of workers and clients."""

SIGNAL_DECIDE: Final = "decide"
SIGNAL_CANCEL: Final = "cancel"
SIGNAL_NESTED: Final = "nested"
SIGNALS: Final = frozenset({SIGNAL_DECIDE, SIGNAL_CANCEL, SIGNAL_NESTED})
UPDATE_DECIDE: Final = "decide"
UPDATE_SEND: Final = "send"

QUERY_STATE: Final = "state"
QUERY_TRANSCRIPT: Final = "transcript"
QUERY_APPROVALS: Final = "approvals"
QUERY_REQUEST: Final = "request"
QUERY_SNAPSHOT: Final = "snapshot"

ATTRIBUTE_AGENT: Final = "OutlastAgent"
ATTRIBUTE_STATUS: Final = "OutlastStatus"
ATTRIBUTE_APPROVALS: Final = "OutlastPendingApprovals"
SEARCH_ATTRIBUTES: Final = {
    ATTRIBUTE_AGENT: "Keyword",
    ATTRIBUTE_STATUS: "Keyword",
    ATTRIBUTE_APPROVALS: "Int",
}
"""The search attributes to register on the namespace, with their types."""

SETTING_SESSION: Final = "session"
"""The setting that names the run's session."""

SETTING_STREAM: Final = "stream"
"""The setting of a streamed run: its model calls stream."""

SETTING_AS_TOOL: Final = "as_tool"
"""The setting of a nested run with the tool call that it answers."""

OBSERVER: Final = "outlast_observer"
"""The extern function of a worker that observes stages: see `contract/stages.py`."""

TRACE: Final = "trace"
"""The key of a nested run's place in its parent's trace, within `SETTING_AS_TOOL`."""

SETTINGS_OF_TRACE: Final = (
    "trace_id",
    "workflow_name",
    "group_id",
    "trace_metadata",
    "trace_joined",
    "tracing_disabled",
    "trace_include_sensitive_data",
)
"""Settings that a nested run takes from its parent, whatever its own settings say."""

MEMO_INPUT_DIGEST: Final = "outlast_input_digest"
"""Tells whether a second start with the same id has the same input."""

ACTIVITY_PREPARE: Final = "prepare_run"
ACTIVITY_MODEL: Final = "call_model"
ACTIVITY_CHECK: Final = "check_input"
ACTIVITY_FINALIZE: Final = "finalize_answer"
ACTIVITY_SAVE: Final = "save_session"
ACTIVITY_OFFLOAD: Final = "offload_items"
ACTIVITY_REFUSE: Final = "refuse_effect"
"""The activity type that fails an effect for whose result the history has no room."""
TOOL_PREFIX: Final = "tool:"
HANDOFF_PREFIX: Final = "handoff:"


def question_key(run_id: str, started_at_ms: int, question: int) -> str:
    """Return the name of a question, which no other question of any run has.

    Args:
        run_id: the run's; another run may get it later.
        started_at_ms: when the run began.
        question: how many questions of the run were settled before.
    """
    return f"{run_id}@{started_at_ms}.{question}"


def tells_turns(settings: JsonObject | None) -> bool:
    """Whether a traced run has spans of tasks and turns, as by default."""
    told: Json = (settings or {}).get("tracing")
    if not isinstance(told, dict):
        return True
    return bool(cast("JsonObject", told).get("include_task_and_turn_spans", True))
