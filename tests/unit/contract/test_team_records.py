"""A team as its history makes it: what it takes, what it refuses, what it carries, what it shows."""

from typing import Any

import pytest

from outlast.contract import names, records, team_records
from outlast.contract.team_records import TeamHistory, TeamInput
from outlast.loop.actions import TeamReport
from outlast.loop.open_hours import CountedHours, Durations, HoursCounted
from outlast.loop.team.state import TeamState
from outlast.loop.values import JsonObject

REPORT: JsonObject = {"chain_id": "x1", "run_id": "support-1", "report": 1}


def history(payload: Any = None) -> TeamHistory:
    return TeamHistory({"team": "billing"} if payload is None else payload, 1_000)


def test_a_report_duty_and_time_become_answers() -> None:
    team = history()
    team.take(names.SIGNAL_REPORT, REPORT, 2_000)
    team.take(names.UPDATE_TERMS, {"terms": {"return_ms": 500}, "by": "lead"}, 3_000)
    team.take(names.UPDATE_DUTY, {"subject": "ann"}, 4_000)
    team.take(names.UPDATE_DUTY, {"subject": "bob"}, 4_100)
    team.time_came(4_500)
    assert [team.answer(one) for one in team.commands] == [
        {"team": "billing", "chain_id": "x1", "report": 1},
        {"team": "billing", "chain_id": "x1", "report": 1, "to": "ann", "due_ms": 4_500},
        {"team": "billing", "chain_id": "x1", "report": 1, "to": "bob", "due_ms": 5_000},
    ]
    team.gone("x1", 4_600)
    assert team.state.cases == ()


def test_a_worker_is_asked_for_hours_and_what_it_cannot_count_stays() -> None:
    team = history()
    terms = {"return_ms": 500, "within": "support-hours"}
    team.take(names.UPDATE_TERMS, {"terms": terms, "by": "lead"}, 2_000)
    team.take(names.UPDATE_DUTY, {"subject": "ann"}, 2_000)
    assert team.hours() is None
    for run in ("1", "2"):
        report = {**REPORT, "chain_id": f"x{run}", "run_id": run}
        team.take(names.SIGNAL_REPORT, report, 3_000)
    asked = team.hours()
    assert asked is not None
    assert [(one.request_id, one.within, one.from_ms) for one in asked.requests] == [
        ("x1", "support-hours", 3_000),
        ("x2", "support-hours", 3_000),
    ]
    clock = Durations(expires_in_ms=90_000)
    found = HoursCounted(requests=(CountedHours(request_id="x1", clock=clock, from_ms=3_000),))
    team.counted(asked, found, 4_000)
    assert [one.due_ms for one in team.state.cases] == [93_000, None]
    assert team.hours() is None
    again = history(team.carried())
    assert again.state == team.state


def test_a_team_that_a_run_starts_begins_with_its_report() -> None:
    report = TeamReport(chain_id="x1", run_id="support-1", report=1)
    team = history(records.write(TeamInput(team="billing", report=report)))
    assert [one.run_id for one in team.state.cases] == ["support-1"]
    assert len(team.commands) == 1


def test_the_next_history_goes_on_where_this_one_ends() -> None:
    team = history()
    team.take(names.UPDATE_DUTY, {"subject": "ann \ud800", "capacity": 2}, 2_000)
    team.take(names.SIGNAL_REPORT, REPORT, 3_000)
    again = history(team.carried())
    assert (again.state, again.commands, again.problem) == (team.state, [], "")


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (["x"], "TeamInput"),
        ({"team": 7}, "team"),
        ({"team": "billing", "carried": {"zlib": "x"}}, "cannot be unpacked"),
        ({"team": "billing", "carried": {"members": 7}}, "TeamState"),
        (records.Unreadable("It is encrypted."), "It is encrypted."),
    ],
)
def test_an_unreadable_input_is_named(payload: Any, why: str) -> None:
    team = history(payload)
    assert team.problem.startswith("The team's input is unreadable: ")
    assert why in team.problem
    assert team.state == TeamState()


def test_what_does_not_fit_has_no_effect_and_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    team = history()
    team.take(names.UPDATE_DUTY, {"subject": "ann"}, 2_000)
    before = team.state
    for name, payload in (
        ("no such thing", REPORT),
        (names.UPDATE_DUTY, {"subject": "\n"}),
        (names.UPDATE_TERMS, {"terms": {"capacity": 0}}),
        (names.SIGNAL_REPORT, {"chain_id": "x"}),
    ):
        team.take(name, payload, 3_000)
        assert team.refusal(name, payload, 3_000)
    assert team.state == before
    assert "A signal had no effect: `This is not a TeamReport" in team.details()
    monkeypatch.setattr(team_records, "MOST_MEMBERS", 1)
    assert team.refusal(names.UPDATE_DUTY, {"subject": "bob"}, 4_000) == (
        "A team has at most 1 people."
    )
    assert team.refusal(names.UPDATE_DUTY, {"subject": "ann", "on_duty": False}, 4_000) is None


def test_people_see_who_is_on_duty_and_whose_each_conversation_is() -> None:
    team = history()
    team.take(names.UPDATE_DUTY, {"subject": "**ann** <b>", "capacity": 1}, 2_000)
    team.take(names.UPDATE_DUTY, {"subject": "bob", "on_duty": False}, 2_000)
    for number in range(team_records.CASES_SHOWN + 2):
        report = {**REPORT, "chain_id": f"x{number}", "run_id": f"support-{number}"}
        team.take(names.SIGNAL_REPORT, report, 3_000)
    assert team.details().splitlines()[:8] == [
        "**On duty**",
        "",
        "- `**ann** <b>`: 1 of 1",
        "",
        "**52 conversations**",
        "",
        "- `support-0`: `**ann** <b>`",
        "- `support-1`: nobody yet",
    ]
    assert team.details().endswith("\n- and 2 more")
