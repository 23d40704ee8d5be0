"""The names that operators see and that recorded histories hold. Never change one."""

from typing import Final, cast

from outlast.loop.values import Json, JsonObject

SCHEMA_VERSION: Final = 1
"""Version of everything in this package. Newer records than this are refused in words."""

WORKFLOW: Final = "AgentRun"
TASK_QUEUE: Final = "outlast"
"""The task queue of a worker and a client that name none."""

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
"""What has to be registered on the namespace, with the type of each."""

SETTING_SESSION: Final = "session"
"""The setting that says which session a run has."""

SETTING_STREAM: Final = "stream"
"""The setting of a run that is read along: its models stream."""

SETTING_AS_TOOL: Final = "as_tool"
"""The setting of a nested run that says which call of which tool it answers."""

TRACE: Final = "trace"
"""In the call that a nested run answers: where that run belongs in the trace of the outer one."""

SETTINGS_OF_TRACE: Final = (
    "trace_id",
    "workflow_name",
    "group_id",
    "trace_metadata",
    "trace_joined",
    "tracing_disabled",
    "trace_include_sensitive_data",
)
"""A nested run is in the trace of the outer one, whatever its own settings say of these."""

MEMO_INPUT_DIGEST: Final = "outlast_input_digest"
"""Tells a second start with the same id whether it asks the same thing."""

ACTIVITY_PREPARE: Final = "prepare_run"
ACTIVITY_MODEL: Final = "call_model"
ACTIVITY_CHECK: Final = "check_input"
ACTIVITY_FINALIZE: Final = "finalize_answer"
ACTIVITY_SAVE: Final = "save_session"
ACTIVITY_OFFLOAD: Final = "offload_items"
ACTIVITY_REFUSE: Final = "refuse_effect"
"""Runs in the place of an effect for whose result there is no room: a failure on record."""
TOOL_PREFIX: Final = "tool:"
HANDOFF_PREFIX: Final = "handoff:"


def tells_turns(settings: JsonObject | None) -> bool:
    """Whether tasks and turns have spans in a run that is traced; they have by default."""
    told: Json = (settings or {}).get("tracing")
    if not isinstance(told, dict):
        return True
    return bool(cast("JsonObject", told).get("include_task_and_turn_spans", True))
