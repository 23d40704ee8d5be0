"""Names that operators see and recorded histories hold: a change here is a change of meaning."""

from typing import Any

import pytest

from outlast.contract import effects, names
from outlast.loop.effects import CallModel
from outlast.loop.values import JsonObject
from tests.laws.driver import Play, play_with_everything, tool


def all_effects() -> dict[str, Any]:
    """One effect of each kind, by kind."""
    return {one.kind: one for one in play_with_everything().issued}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("prepare_run", "prepare_run"),
        ("call_model", "call_model"),
        ("run_tool", "tool:look_up"),
        ("run_handoff", "handoff:transfer_to_billing"),
        ("check_input", "check_input"),
        ("finalize_answer", "finalize_answer"),
        ("save_session", "save_session"),
        ("run_agent", "AgentRun"),
    ],
)
def test_an_activity_is_named_after_what_it_does(kind: str, name: str) -> None:
    assert effects.activity_type(all_effects()[kind]) == name


def test_a_tool_can_never_be_taken_for_an_activity_of_ours() -> None:
    play = Play.ready()
    play.replies(tool(names.ACTIVITY_MODEL, "c1"))
    assert effects.activity_type(play.running("c1")) == "tool:call_model"
    play.returns("c1")
    assert effects.activity_type(play.only(CallModel)) == "call_model"


@pytest.mark.parametrize(
    ("settings", "tells"),
    [
        (None, True),
        ({"tracing": "typed by hand"}, True),
        ({"tracing": {}}, True),
        ({"tracing": {"include_task_and_turn_spans": True}}, True),
        ({"tracing": {"include_task_and_turn_spans": False}}, False),
    ],
)
def test_tasks_and_turns_are_told_unless_the_run_says_no(
    settings: JsonObject | None, *, tells: bool
) -> None:
    assert names.tells_turns(settings) is tells


def test_recorded_names_stay_what_they_are() -> None:
    """Running workflows and recorded histories use them."""
    recorded = {
        names.WORKFLOW: "AgentRun",
        "decide": "decide",
        names.SIGNAL_CANCEL: "cancel",
        names.SIGNAL_NESTED: "nested",
        names.SIGNAL_LEND: "lend",
        names.SIGNAL_LINE_REPLY: "line_reply",
        names.UPDATE_ATTACH_LINE: "attach_line",
        names.ACTIVITY_LINE: "keep_line_open",
        names.ACTIVITY_NOTIFY: "notify_people",
        names.ACTIVITY_HOURS: "count_hours",
        names.UPDATE_SEND: "send",
        names.QUERY_STATE: "state",
        names.QUERY_TRANSCRIPT: "transcript",
        names.QUERY_APPROVALS: "approvals",
        names.QUERY_REQUEST: "request",
        names.QUERY_SNAPSHOT: "snapshot",
        names.TASK_QUEUE: "outlast",
        names.SETTING_SESSION: "session",
        names.SETTING_STREAM: "stream",
        names.SETTING_AS_TOOL: "as_tool",
        names.TRACE: "trace",
        names.MEMO_INPUT_DIGEST: "outlast_input_digest",
        names.ACTIVITY_OFFLOAD: "offload_items",
        names.ACTIVITY_REFUSE: "refuse_effect",
        names.ACTIVITY_FREE_ID: "free_nested_id",
        names.WORKFLOW_SCHEDULED: "ScheduledMessage",
        names.ACTIVITY_SCHEDULED: "send_scheduled_message",
        names.WORKFLOW_MONITOR: "Monitor",
        names.WORKFLOW_TEAM: "Team",
        names.SIGNAL_ASSIGNED: "assigned",
        names.SIGNAL_REPORT: "report",
        names.UPDATE_DUTY: "duty",
        names.UPDATE_RATE: "rate",
        names.UPDATE_TERMS: "terms",
        names.QUERY_TEAM: "team",
        names.team_id("billing"): "outlast-team/billing",
        names.team_id("a/b", "ac me"): "outlast-team/ac%20me/a%2Fb",
        names.MONITOR_QUEUE: "outlast-monitor",
        names.ACTIVITY_MONITOR: "count_runs",
        names.MEMO_MESSAGE: "outlast_message",
        names.MEMO_SCHEDULE: "outlast_schedule",
    }
    assert all(name == value for name, value in recorded.items())
    of_people = {"claim", "hold", "say", "release", "set_aside", "case", "withdraw"}
    of_programs = {"cancel", "nested", "lend", "line_reply", "assigned", "deliver"}
    assert {"decide", *of_programs, *of_people} == names.SIGNALS
    assert names.SEARCH_ATTRIBUTES == {
        "OutlastAgent": "Keyword",
        "OutlastStatus": "Keyword",
        "OutlastPendingApprovals": "Int",
        "OutlastWaitsFor": "Keyword",
        "OutlastWaitingGroups": "KeywordList",
        "OutlastRisk": "Keyword",
        "OutlastDue": "Datetime",
        "OutlastTenant": "Keyword",
        "OutlastCustomer": "Keyword",
        "OutlastTeam": "Keyword",
        "OutlastAssignee": "Keyword",
        "OutlastTags": "KeywordList",
        "OutlastCaseDue": "Datetime",
        "OutlastRating": "Int",
    }
    assert names.SETTINGS_OF_TRACE == (
        "trace_id",
        "workflow_name",
        "group_id",
        "trace_metadata",
        "trace_joined",
        "tracing_disabled",
        "trace_include_sensitive_data",
    )


@pytest.mark.parametrize("team", [("billing", ""), ("a/b %2F", "acme/2"), ("\u202e", " ")])
def test_the_id_of_a_team_says_its_name_and_its_tenant(team: tuple[str, str]) -> None:
    assert names.team_of(names.team_id(*team)) == team
