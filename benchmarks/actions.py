"""Counts the billable actions of a run, as Temporal Cloud counts them, and their price.

Pure: it reads the events of a run's history, and counters of what a history does not contain. The
rules are those of https://docs.temporal.io/evaluate/cloud/actions, read in November 2026; the price
is of https://docs.temporal.io/cloud/pricing. A namespace with fairness pays a tenth more, which is
not counted here.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent

ACTIONS_PAGE: Final = "https://docs.temporal.io/evaluate/cloud/actions"
PRICE_PAGE: Final = "https://docs.temporal.io/cloud/pricing"

DOLLARS_PER_MILLION: Final = 50.0
"""The first price of Pay-As-You-Go; larger accounts pay less."""

_MOST_LOCAL_RETRIES: Final = 100
"""Retries of local activities in one workflow task are charged up to this number."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of action.

    Attributes:
        name: the name in Temporal Cloud's metrics.
        source: the section of the page with the rule.
        count: returns how many actions of this kind an event is. None: the history does not
            contain it, so a counter has to.
    """

    name: str
    source: str
    count: Callable[[HistoryEvent], int] | None = None


def _every(kind: EventType.ValueType, actions: int = 1) -> Callable[[HistoryEvent], int]:
    return lambda event: actions if event.event_type == kind else 0


def _signals(event: HistoryEvent) -> int:
    if event.event_type != EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
        return 0
    # Right after the start it is a signal-with-start, which is one action with the start.
    return int(event.event_id != 2)


def _retries(event: HistoryEvent) -> int:
    if event.event_type != EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
        return 0
    return max(0, event.activity_task_started_event_attributes.attempt - 1)


def _local_retries(event: HistoryEvent) -> int:
    if event.event_type != EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
        return 0
    metering = event.workflow_task_completed_event_attributes.metering_metadata
    return min(_MOST_LOCAL_RETRIES, metering.nonfirst_local_activity_execution_attempts)


def _resets(event: HistoryEvent) -> int:
    cause = event.workflow_task_failed_event_attributes.cause
    return int(cause == WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW)


def _upserts(event: HistoryEvent) -> int:
    if event.event_type != EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES:
        return 0
    attributes = event.upsert_workflow_search_attributes_event_attributes.search_attributes
    return int(set(attributes.indexed_fields) != {"TemporalChangeVersion"})


_WORKFLOW: Final = f"{ACTIONS_PAGE}#workflow"
_ACTIVITY: Final = f"{ACTIONS_PAGE}#activity"
_NEXUS: Final = f"{ACTIONS_PAGE}#nexus"

MARKERS: Final = Rule("record_activity_markers", _ACTIVITY)
"""All markers of one workflow task are one action, whatever they record; see `count_actions`."""

RULES: Final = (
    # A run that continues as new is charged for the start of the new one.
    Rule("start_workflow", _WORKFLOW, _every(EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED)),
    # Two actions with the child's start, which its own history shows as start_workflow.
    Rule(
        "start_child_workflow",
        _WORKFLOW,
        _every(EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED),
    ),
    Rule("upsert_workflow_search_attributes", _WORKFLOW, _upserts),
    Rule(
        "update_workflow_options",
        _WORKFLOW,
        _every(EventType.EVENT_TYPE_WORKFLOW_EXECUTION_OPTIONS_UPDATED),
    ),
    Rule("reset_workflow", _WORKFLOW, _resets),
    Rule("schedule_activity", _ACTIVITY, _every(EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)),
    Rule("retry_activity", _ACTIVITY, _retries),
    Rule("retry_activity_local", _ACTIVITY, _local_retries),
    MARKERS,
    Rule("start_timer", f"{ACTIONS_PAGE}#timer", _every(EventType.EVENT_TYPE_TIMER_STARTED)),
    Rule("signal_workflow", f"{ACTIONS_PAGE}#signal", _signals),
    Rule(
        "accept_workflow_update",
        f"{ACTIONS_PAGE}#update",
        _every(EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED),
    ),
    Rule(
        "schedule_nexus_operation",
        _NEXUS,
        _every(EventType.EVENT_TYPE_NEXUS_OPERATION_SCHEDULED),
    ),
    Rule(
        "request_nexus_operation_cancellation",
        _NEXUS,
        _every(EventType.EVENT_TYPE_NEXUS_OPERATION_CANCEL_REQUESTED),
    ),
    # What no history contains. A heartbeat counts where it reaches the server.
    Rule("record_activity_heartbeat", _ACTIVITY),
    Rule("record_workflow_heartbeat", _ACTIVITY),
    Rule("query_workflow", f"{ACTIONS_PAGE}#query"),
    Rule("reject_workflow_update", f"{ACTIONS_PAGE}#update"),
)

COUNTED_ELSEWHERE: Final = frozenset(
    rule.name for rule in RULES if rule.count is None and rule is not MARKERS
)
"""The kinds of actions that need a counter."""


def count_actions(
    events: Iterable[HistoryEvent], counters: Mapping[str, int] | None = None
) -> Counter[str]:
    """Return the actions of a run by name, without names that have none.

    Args:
        events: of its histories, in any order; of each that it continued in, and of its children.
        counters: how many there were of the kinds in `COUNTED_ELSEWHERE`.

    Raises:
        ValueError: a counter is not of these kinds.
    """
    wrong = sorted(set(counters or ()) - COUNTED_ELSEWHERE)
    if wrong:
        raise ValueError(
            f"no counter is needed for {', '.join(wrong)}: count only "
            f"{', '.join(sorted(COUNTED_ELSEWHERE))}"
        )
    actions: Counter[str] = Counter(counters or {})
    tasks_with_markers: set[tuple[int, int]] = set()
    history = 0
    for event in events:
        history += event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED
        for rule in RULES:
            if rule.count is not None:
                actions[rule.name] += rule.count(event)
        if event.event_type == EventType.EVENT_TYPE_MARKER_RECORDED:
            task = event.marker_recorded_event_attributes.workflow_task_completed_event_id
            tasks_with_markers.add((history, task))
    actions[MARKERS.name] = len(tasks_with_markers)
    return +actions


def price(actions: float) -> float:
    """Return the list price of a number of actions, in dollars."""
    return actions / 1_000_000 * DOLLARS_PER_MILLION
