"""Workers are killed with SIGKILL at every moment of a conversation, and nobody could tell."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial

import pytest
from temporalio.api.enums.v1 import EventType

from tests.crash.conversation import DESK, Talk
from tests.crash.question import ASKED, QUESTION
from tests.crash.trial import (
    Moment,
    NewTrial,
    Report,
    Trial,
    activity_types,
    after_the_last_kill,
    at_commit,
    at_event,
    at_labels,
    at_nested_event,
    hold_together,
    label,
    telling_moments,
)
from tests.crash.verdict import check

STRETCH = 4
"""How many further events a worker may cause before it is killed as the one before it was."""

SIDE_BY_SIDE = 15
"""By how many events the histories of the question may differ, because in it guardrails, saves and
the model are at work at the same time."""


async def hold_all(
    new_trial: NewTrial,
    baseline: Report,
    numbers: Sequence[int],
    kills: Callable[[int], list[Moment]],
    talk: Talk = DESK,
) -> list[Report]:
    """Hold a conversation for each number, some at a time, and check them all.

    Raises:
        ExceptionGroup: what was wrong with which of them.
    """
    activities = activity_types(baseline.events)

    async def hold(trial: Trial, number: int) -> Report:
        report = await trial.hold(kills(number))
        assert len(report.killed_at) == len(kills(number))
        check(report, baseline)
        return report

    trials: dict[str, Callable[[], Awaitable[Report]]] = {}
    for number in numbers:
        trial, event = new_trial(talk=talk), label(baseline.events[number - 1], activities)
        trials[f"killed at event {number}, {event}; see {trial.log}"] = partial(hold, trial, number)
    return await hold_together(trials)


@pytest.mark.full
async def test_the_conversation_takes_every_way_through_the_desk(baseline: Report):
    check(baseline, baseline)
    assert baseline.outcome.status == "completed"
    assert baseline.outcome.agents == ("Triage", "Orders", "Billing")
    assert [one.effect for one in baseline.outcome.ledger] == ["address_change", "refund"]
    assert baseline.outcome.approvals == (("refund_order", "approved", "ann"),)
    assert len(baseline.outcome.answers) == 3
    assert baseline.repeated_activities == []
    assert baseline.count(EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT) == 0


@pytest.mark.full
@pytest.mark.timeout(900)
async def test_a_worker_killed_at_any_event_changes_nothing(
    new_trial: NewTrial, baseline: Report, *, every_event: bool
):
    events = baseline.events
    numbers = range(1, len(events) + 1) if every_event else telling_moments(events)
    reports = await hold_all(new_trial, baseline, numbers, lambda number: [at_event(number)])
    # The kills have hit: activities were cut off and repeated, workflow tasks were lost.
    assert any(report.repeated_activities for report in reports)
    assert any(one.count(EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT) for one in reports)


@pytest.mark.full
@pytest.mark.timeout(900)
async def test_killing_the_replacement_as_well_changes_nothing(
    new_trial: NewTrial, baseline: Report, *, every_event: bool
):
    room = len(baseline.events) - 2 * STRETCH
    numbers = [number for number in telling_moments(baseline.events) if number <= room]
    again = after_the_last_kill(STRETCH)
    await hold_all(
        new_trial,
        baseline,
        numbers if every_event else numbers[::4],
        lambda number: [at_event(number), again],
    )


@pytest.mark.full
async def test_a_side_effect_whose_worker_dies_before_it_can_report_happens_once(
    new_trial: NewTrial, baseline: Report
):
    slow = timedelta(seconds=1)
    address_change, refund = await asyncio.gather(
        new_trial(tool_delay=slow).hold([at_commit(1)]),
        new_trial(tool_delay=slow).hold([at_commit(2)]),
    )
    check(address_change, baseline)
    check(refund, baseline)
    assert "tool:change_address" in address_change.repeated_activities
    assert "tool:refund_order" in refund.repeated_activities


@pytest.mark.full
async def test_the_question_takes_every_kind_of_step(asked: Report):
    check(asked, asked)
    settled = asked.outcome
    assert (settled.status, settled.answer) == ("completed", "Your money is on its way.")
    assert settled.agents == ("Front", "Back")
    assert settled.context == {
        "customer": "Ann",
        "checked": 1,
        "noted": "a leak",
        "handovers": 1,
        "refunded": 5,
        "endings": 1,
    }
    assert settled.verdicts == ("discreet", "polite", "short")
    assert settled.done == ("a leak", "refund of 5")
    # The filter has taken the handoff away before it was saved; what was saved stays.
    assert settled.session == (
        QUESTION,
        "note",
        "done: a leak",
        "ask_clerk",
        "It is refunded.",
        "Your money is on its way.",
    )
    assert len(asked.nested) == 1
    assert asked.repeated_activities == []


@pytest.mark.full
@pytest.mark.timeout(900)
async def test_a_worker_killed_at_any_event_changes_nothing_for_the_question(
    new_trial: NewTrial, asked: Report, *, every_event: bool
):
    """Guardrails, hooks, a filter, a session and a nested run with an approval: each once."""
    events = asked.events
    room = len(events) - SIDE_BY_SIDE
    telling = [number for number in telling_moments(events) if number <= room]
    numbers = range(1, room + 1) if every_event else telling[::2]
    await hold_all(new_trial, asked, numbers, lambda number: [at_event(number)], ASKED)


@pytest.mark.full
async def test_a_worker_killed_while_the_last_is_saved_changes_nothing(
    new_trial: NewTrial, asked: Report
):
    concluded = "activity_task_completed finalize_answer"
    saves = [f"activity_task_{what} save_session" for what in ("scheduled", "completed")]
    reports = await asyncio.gather(
        *(new_trial(talk=ASKED).hold([at_labels(concluded, save)]) for save in saves)
    )
    for report in reports:
        check(report, asked)


@pytest.mark.full
@pytest.mark.timeout(900)
async def test_a_worker_killed_in_the_nested_run_changes_nothing_for_the_question(
    new_trial: NewTrial, asked: Report, *, every_event: bool
):
    inner = asked.nested[0].events
    numbers = range(1, len(inner)) if every_event else telling_moments(inner)[:-1:2]
    await hold_all(new_trial, asked, numbers, lambda number: [at_nested_event(number)], ASKED)
