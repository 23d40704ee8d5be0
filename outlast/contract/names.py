"""The names that operators see and that recorded histories hold. Never change one."""

from typing import Final, Literal, TypeAlias, cast
from urllib.parse import quote

from outlast.loop.human_actions import ACTION_NAMED
from outlast.loop.values import Json, JsonObject

SCHEMA_VERSION: Final = 1
"""The schema version of everything in this package. Newer records are refused with a message."""

WORKFLOW: Final = "AgentRun"
WORKFLOW_NOTICES: Final = "PeopleNotices"
"""The workflow that delivers the notices which the end of a run leaves."""

WORKFLOW_SCHEDULED: Final = "ScheduledMessage"
"""The workflow that a schedule starts to send a message to a conversation."""

WORKFLOW_ERRAND: Final = "Errand"
"""The workflow that executes an operation for a call, and delivers its result."""

WORKFLOW_MONITOR: Final = "Monitor"
"""The workflow that lets one process of a namespace count its runs."""

WORKFLOW_TEAM: Final = "Team"
"""The workflow that says whose the conversations of a team are."""

SIGNAL_REPORT: Final = "report"
UPDATE_DUTY: Final = "duty"
UPDATE_TERMS: Final = "terms"
QUERY_TEAM: Final = "team"

MONITOR_QUEUE: Final = "outlast-monitor"
"""The task queue of the processes that count, and the id of the workflow: there is one of it."""

CALL_DROPPED: Final = "the call does not wait any more"
"""Why an errand is cancelled whose result no call would get."""

WORKFLOWS: Final = frozenset(
    {
        WORKFLOW,
        WORKFLOW_NOTICES,
        WORKFLOW_SCHEDULED,
        WORKFLOW_ERRAND,
        WORKFLOW_MONITOR,
        WORKFLOW_TEAM,
    }
)

TASK_QUEUE: Final = "outlast"
"""The default task queue of workers and clients."""

PROGRAM_QUEUE_PREFIX: Final = f"{TASK_QUEUE}-local-"
"""What the task queues of programs that host their own runs begin with."""

WORKER_INDEX: Final = "OUTLAST_WORKER_INDEX"
WORKER_PROCESSES: Final = "OUTLAST_WORKER_PROCESSES"
"""The environment variables of the workers of one parent: which one, counted from 0, of how many."""

SIGNAL_CANCEL: Final = "cancel"
SIGNAL_NESTED: Final = "nested"
SIGNAL_LEND: Final = "lend"
SIGNAL_LINE_REPLY: Final = "line_reply"
SIGNAL_ASSIGNED: Final = "assigned"
"""A team's answer to a run's newest report: whose the conversation is."""

UPDATE_SEND: Final = "send"
UPDATE_RETRY: Final = "retry"
UPDATE_ATTACH_LINE: Final = "attach_line"
UPDATE_RATE: Final = "rate"
DELIVER: Final = "deliver"
"""Delivers a value from outside: an update, which is refused in words; or a signal, which the server
keeps where no worker runs."""
WITHDRAW: Final = "withdraw"
"""Takes a message back, as an update of a program or as a signal from the Temporal UI."""

SIGNALS: Final = frozenset(
    {
        SIGNAL_CANCEL,
        SIGNAL_NESTED,
        SIGNAL_LEND,
        SIGNAL_LINE_REPLY,
        SIGNAL_ASSIGNED,
        WITHDRAW,
        DELIVER,
        *ACTION_NAMED,
    }
)
"""Every signal; `ACTION_NAMED` has those of people, whose updates have the same names."""

QUERY_STATE: Final = "state"
QUERY_TRANSCRIPT: Final = "transcript"
QUERY_APPROVALS: Final = "approvals"
QUERY_REQUEST: Final = "request"
QUERY_SNAPSHOT: Final = "snapshot"

ATTRIBUTE_AGENT: Final = "OutlastAgent"
ATTRIBUTE_STATUS: Final = "OutlastStatus"
ATTRIBUTE_APPROVALS: Final = "OutlastPendingApprovals"
ATTRIBUTE_WAITS_FOR: Final = "OutlastWaitsFor"
ATTRIBUTE_GROUPS: Final = "OutlastWaitingGroups"
ATTRIBUTE_RISK: Final = "OutlastRisk"
ATTRIBUTE_DUE: Final = "OutlastDue"
ATTRIBUTE_TENANT: Final = "OutlastTenant"
ATTRIBUTE_CUSTOMER: Final = "OutlastCustomer"
ATTRIBUTE_TEAM: Final = "OutlastTeam"
ATTRIBUTE_ASSIGNEE: Final = "OutlastAssignee"
ATTRIBUTE_TAGS: Final = "OutlastTags"
ATTRIBUTE_CASE_DUE: Final = "OutlastCaseDue"
ATTRIBUTE_RATING: Final = "OutlastRating"
SEARCH_ATTRIBUTES: Final = {
    ATTRIBUTE_AGENT: "Keyword",
    ATTRIBUTE_STATUS: "Keyword",
    ATTRIBUTE_APPROVALS: "Int",
    ATTRIBUTE_WAITS_FOR: "Keyword",
    ATTRIBUTE_GROUPS: "KeywordList",
    ATTRIBUTE_RISK: "Keyword",
    ATTRIBUTE_DUE: "Datetime",
    ATTRIBUTE_TENANT: "Keyword",
    ATTRIBUTE_CUSTOMER: "Keyword",
    ATTRIBUTE_TEAM: "Keyword",
    ATTRIBUTE_ASSIGNEE: "Keyword",
    ATTRIBUTE_TAGS: "KeywordList",
    ATTRIBUTE_CASE_DUE: "Datetime",
    ATTRIBUTE_RATING: "Int",
}
"""The search attributes to register on the namespace, with their types.

A namespace of a server on SQL has room for 10 attributes of the type Keyword, and for 3 of each
other type, so a new one has to be worth its place.
"""

ATTRIBUTES_OF_OWNERS: Final = (ATTRIBUTE_TENANT, ATTRIBUTE_CUSTOMER)
"""The search attributes that say whose a run is, which only runs with a tenant or a customer have."""

ATTRIBUTES_OF_CASE: Final = frozenset(
    {
        ATTRIBUTE_TEAM,
        ATTRIBUTE_ASSIGNEE,
        ATTRIBUTE_TAGS,
        ATTRIBUTE_CASE_DUE,
        ATTRIBUTE_RATING,
    }
)
"""The search attributes that a run has once colleagues share it, or its customer rates it."""

ATTRIBUTES_OF_ALL: Final = {
    name: kind
    for name, kind in SEARCH_ATTRIBUTES.items()
    if name not in (*ATTRIBUTES_OF_OWNERS, *ATTRIBUTES_OF_CASE)
}
"""The search attributes of every run."""

ListedStatus: TypeAlias = Literal[
    "running",
    "waiting",
    "parked",
    "held",
    "blocked",
    "idle",
    "on_call",
    "snoozed",
    "resolved",
    "completed",
    "failed",
    "cancelled",
    "terminated",
]
"""The status of a run in lists; `on_call` while people speak with its agent."""

RESTING: Final[frozenset[str]] = frozenset({"idle", "snoozed", "resolved"})
"""The statuses of a conversation in which nothing waits for an answer of the agent or of a person."""

WAITING: Final[frozenset[str]] = RESTING | {"on_call", "waiting", "parked", "held", "blocked"}
"""The statuses of open runs that do not work: they wait for somebody, or for their time."""

ANYBODY_MAY: Final = "*"
"""In `ATTRIBUTE_GROUPS`: a pending request is not only for some people."""

MORE_TAGS: Final = "*"
"""In `ATTRIBUTE_TAGS`: the conversation has more tags than a search attribute can hold."""

SETTING_SESSION: Final = "session"
"""The setting that names the run's session."""

SETTING_STREAM: Final = "stream"
"""The setting of a streamed run: its model calls stream."""

SETTING_RUN_START: Final = "on_run_start"
"""The setting of a run whose hooks are called when it begins, which needs an activity."""

SETTING_AS_TOOL: Final = "as_tool"
"""The setting of a nested run with the tool call that it answers."""

SETTING_CUSTOMER: Final = "customer"
"""The setting with the person for whom a run works."""

SETTING_TAKEOVER: Final = "takeover"
"""The setting with the terms under which people take the conversation over."""

SETTING_BUDGETS: Final = "budgets"
SETTING_RESOLVED_STAYS: Final = "resolved_stays_ms"
SETTING_REPLY_TIMES: Final = "reply_times"
"""The setting with what a run may spend before a person decides whether it goes on."""

SETTING_INSTRUCTIONS: Final = "instructions"
"""The setting of a fork with other instructions, by the agent's name."""

SETTING_CALLER: Final = "traceparent"
"""The setting with the caller's span, as W3C Trace Context writes it."""

SETTING_FOLLOWS: Final = "follows"
"""The setting with the id of the conversation that a run follows."""

METHOD_NAMED: Final = "named"
"""The method of a person whom somebody else named, such as with `--by`: it proves nothing."""

OWNER_KEY: Final = "outlast_data_dir"
"""The key of a namespace's data that names the project's data directory, whose server it is."""

IDENTITY_DIR: Final = "outlast_identity_dir"
"""A namespace's own key of the embedded server: the directory with the identity key."""

VERIFIER: Final = "outlast_verifier"
"""The name under which workers lend workflows the function that checks proofs."""

OBSERVER: Final = "outlast_observer"
"""The extern function of a worker that observes stages: see `contract/stages.py`."""

WORKER_STATE: Final = "outlast_worker_state"
"""The name under which workers lend workflows their `WorkerState`."""

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

MEMO_FORKED_FROM: Final = "outlast_forked_from"
"""The id of the run that a run was forked from."""

MEMO_FOLLOWS: Final = "outlast_follows"
"""The id of the first of the conversations of which a run is a later one."""

MEMO_BEGUN_BY: Final = "outlast_begun_by"
"""The program that began a run, such as the name of an API key of the desk."""

MEMO_MESSAGE: Final = "outlast_message"
"""The id of the scheduled message with which a schedule started a conversation."""

MEMO_SCHEDULE: Final = "outlast_schedule"
"""A schedule's own memo: what it does and when, for lists."""

ACTIVITY_PREPARE: Final = "prepare_run"
ACTIVITY_MODEL: Final = "call_model"
ACTIVITY_CHECK: Final = "check_input"
ACTIVITY_FINALIZE: Final = "finalize_answer"
ACTIVITY_SAVE: Final = "save_session"
ACTIVITY_OFFLOAD: Final = "offload_items"
ACTIVITY_COMPACT: Final = "compact_view"
ACTIVITY_LINE: Final = "keep_line_open"
ACTIVITY_NOTIFY: Final = "notify_people"
ACTIVITY_HOURS: Final = "count_hours"
ACTIVITY_REFUSE: Final = "refuse_effect"
"""The activity type that fails an effect for whose result the history has no room."""
ACTIVITY_FREE_ID: Final = "free_nested_id"
"""The activity type that ends a nested run that an abandoned history of its parent left open."""
ACTIVITY_SCHEDULED: Final = "send_scheduled_message"
"""The activity type that sends a scheduled message, or starts its conversation with it."""
ACTIVITY_MONITOR: Final = "count_runs"
"""The activity type that counts the runs of a namespace, for as long as its process lives."""
TOOL_PREFIX: Final = "tool:"
ACTIVITY_CANCEL_RESPONSE: Final = "cancel_response"
CLEANUP_PREFIX: Final = "clean_up:"
HANDOFF_PREFIX: Final = "handoff:"


KEY_CHARACTERS: Final = 12
"""How many characters of an execution's id tell it from others with the same workflow id."""


def run_key(run_id: str, chain_id: str) -> str:
    """Return what tells a run from others that use its id: the id, and its first execution."""
    return f"{run_id}@{chain_id[-KEY_CHARACTERS:]}" if chain_id else run_id


def notices_id(execution: str, number: int = 0) -> str:
    """Return the id of a workflow that delivers the notices at the end of an execution.

    Args:
        execution: Temporal's run id of the execution that ended.
        number: which of its workflows; there are several only for very large notices.
    """
    return f"notices-{execution}-{number}"


def team_id(team: str, tenant: str = "") -> str:
    """Return the id of the workflow of a team; each tenant has teams of its own."""
    whose = f"{quote(tenant, safe='')}/" if tenant else ""
    return f"outlast-team/{whose}{quote(team, safe='')}"


def errand_id(run_id: str, key: str) -> str:
    """Return the id of the workflow that executes an operation for a call of a run."""
    return f"{run_id}/errand-{key}"


def question_key(run_id: str, started_at_ms: int, question: int) -> str:
    """Return the name of a question, which no other question of any run has.

    Args:
        run_id: the run's; another run may get it later.
        started_at_ms: when the run began.
        question: how many questions of the run were settled before.
    """
    return f"{run_id}@{started_at_ms}.{question}"


def run_of_key(key: str) -> str:
    """Return the id of the run that a question's key names."""
    return key.rpartition("@")[0] or key


def tells_turns(settings: JsonObject | None) -> bool:
    """Whether a traced run has spans of tasks and turns, as by default."""
    tracing: Json = (settings or {}).get("tracing")
    if not isinstance(tracing, dict):
        return True
    return bool(cast("JsonObject", tracing).get("include_task_and_turn_spans", True))
