"""The rules by which actions are counted."""

import pytest
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent

from benchmarks import actions
from benchmarks.actions import count_actions


def event(kind: str) -> HistoryEvent:
    return HistoryEvent(event_type=EventType.Value(f"EVENT_TYPE_{kind}"))


def started_activity(attempt: int) -> HistoryEvent:
    one = event("ACTIVITY_TASK_STARTED")
    one.activity_task_started_event_attributes.attempt = attempt
    return one


def marker(task: int) -> HistoryEvent:
    one = event("MARKER_RECORDED")
    one.marker_recorded_event_attributes.workflow_task_completed_event_id = task
    return one


def test_a_signal_with_start_is_one_action():
    start, signal = event("WORKFLOW_EXECUTION_STARTED"), event("WORKFLOW_EXECUTION_SIGNALED")
    start.event_id, signal.event_id = 1, 2
    assert count_actions([start, signal]) == {"start_workflow": 1}


def test_a_run_without_anything_is_one_start():
    history = [
        event("WORKFLOW_EXECUTION_STARTED"),
        event("WORKFLOW_TASK_SCHEDULED"),
        event("WORKFLOW_TASK_STARTED"),
        event("WORKFLOW_TASK_COMPLETED"),
        event("WORKFLOW_EXECUTION_COMPLETED"),
    ]
    assert count_actions(history) == {"start_workflow": 1}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("ACTIVITY_TASK_SCHEDULED", "schedule_activity"),
        ("TIMER_STARTED", "start_timer"),
        ("WORKFLOW_EXECUTION_SIGNALED", "signal_workflow"),
        ("WORKFLOW_EXECUTION_UPDATE_ACCEPTED", "accept_workflow_update"),
        ("START_CHILD_WORKFLOW_EXECUTION_INITIATED", "start_child_workflow"),
        ("WORKFLOW_EXECUTION_OPTIONS_UPDATED", "update_workflow_options"),
        ("NEXUS_OPERATION_SCHEDULED", "schedule_nexus_operation"),
        ("NEXUS_OPERATION_CANCEL_REQUESTED", "request_nexus_operation_cancellation"),
    ],
)
def test_an_event_is_one_action(kind: str, name: str):
    assert count_actions([event(kind), event(kind)]) == {name: 2}


@pytest.mark.parametrize(
    "kind",
    [
        "ACTIVITY_TASK_COMPLETED",
        "TIMER_FIRED",
        "TIMER_CANCELED",
        "WORKFLOW_EXECUTION_UPDATE_COMPLETED",
        "WORKFLOW_EXECUTION_CONTINUED_AS_NEW",
        "WORKFLOW_PROPERTIES_MODIFIED",
        "WORKFLOW_TASK_TIMED_OUT",
    ],
)
def test_what_follows_from_an_action_is_free(kind: str):
    assert not count_actions([event(kind)])


def test_every_attempt_after_the_first_is_a_retry():
    history = [event("ACTIVITY_TASK_SCHEDULED"), started_activity(1)]
    history += [event("ACTIVITY_TASK_SCHEDULED"), started_activity(4)]
    assert count_actions(history) == {"schedule_activity": 2, "retry_activity": 3}


def test_all_markers_of_a_workflow_task_are_one_action():
    assert count_actions([marker(4), marker(4), marker(4), marker(9)]) == {
        "record_activity_markers": 2
    }


def test_markers_of_two_histories_are_of_two_tasks():
    start = event("WORKFLOW_EXECUTION_STARTED")
    history = [start, marker(4), start, marker(4)]
    assert count_actions(history)["record_activity_markers"] == 2


def test_retries_of_local_activities_are_in_the_task_and_capped():
    task = event("WORKFLOW_TASK_COMPLETED")
    metering = task.workflow_task_completed_event_attributes.metering_metadata
    metering.nonfirst_local_activity_execution_attempts = 7
    assert count_actions([task]) == {"retry_activity_local": 7}
    metering.nonfirst_local_activity_execution_attempts = 700
    assert count_actions([task]) == {"retry_activity_local": 100}


def test_an_upsert_is_one_action_but_for_the_change_version():
    ours, versions = (event("UPSERT_WORKFLOW_SEARCH_ATTRIBUTES") for _ in range(2))
    attributes = ours.upsert_workflow_search_attributes_event_attributes.search_attributes
    attributes.indexed_fields["A"].data = b"1"
    attributes.indexed_fields["TemporalChangeVersion"].data = b"1"
    attributes = versions.upsert_workflow_search_attributes_event_attributes.search_attributes
    attributes.indexed_fields["TemporalChangeVersion"].data = b"1"
    assert count_actions([ours, versions]) == {"upsert_workflow_search_attributes": 1}


def test_a_failed_task_is_free_but_for_a_reset():
    failed, reset = event("WORKFLOW_TASK_FAILED"), event("WORKFLOW_TASK_FAILED")
    reset.workflow_task_failed_event_attributes.cause = (
        WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW
    )
    assert count_actions([failed, reset]) == {"reset_workflow": 1}


def test_counters_stand_beside_the_history():
    counted = count_actions(
        [event("WORKFLOW_EXECUTION_STARTED")],
        {"record_activity_heartbeat": 3, "query_workflow": 0},
    )
    assert counted == {"start_workflow": 1, "record_activity_heartbeat": 3}


def test_a_counter_of_what_the_history_shows_is_refused():
    with pytest.raises(ValueError, match="no counter is needed for start_timer: count only"):
        count_actions([], {"start_timer": 1})


def test_every_rule_has_a_source_and_a_name_of_its_own():
    names = [rule.name for rule in actions.RULES]
    assert len(set(names)) == len(names)
    assert all(rule.source.startswith(actions.ACTIONS_PAGE + "#") for rule in actions.RULES)


def test_a_million_actions_cost_the_list_price():
    assert actions.price(1_000_000) == 50.0
    assert actions.price(201) == pytest.approx(0.01005)
