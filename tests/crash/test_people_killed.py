"""Workers and the server are killed with SIGKILL between any two steps of people."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.client import Client

from tests.crash.people import PEOPLE, STEPS, after_step, audited
from tests.crash.test_server_killed import hold_on_killed_servers
from tests.crash.trial import NewTrial, Report, Trial, hold_together
from tests.crash.verdict import check

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@pytest_asyncio.fixture(scope="module")
async def undisturbed(new_trial: NewTrial) -> Report:
    """The conversation as it goes when nobody is killed."""
    return await new_trial(talk=PEOPLE).hold()


async def test_the_conversation_has_every_step_of_people(undisturbed: Report, client: Client):
    check(undisturbed, undisturbed)
    outcome = undisturbed.outcome
    assert outcome.status == "completed"
    assert [(to, text) for to, text in outcome.answers] == [
        (("start",), "It is refunded."),
        (("m1",), "I am Ann."),
        (("m2",), "Goodbye."),
    ]
    assert [(name, status) for name, status, _ in outcome.approvals] == [
        ("refund", "edited"),
        ("gift", "expired"),
    ]
    assert [(kind, by) for kind, by, _ in outcome.approvals[0][2]] == [
        ("approve", "ann"),
        ("edit", "bob"),
        ("approve", "ann"),
    ]
    assert (outcome.done, outcome.ignored) == (("refund of 40",), 0)
    assert await audited(client, undisturbed.state.run_id) == [
        ("requested", "a1", ""),
        ("vote", "a1", "ann"),
        ("vote", "a1", "bob"),
        ("vote", "a1", "ann"),
        ("decided", "a1", "ann"),
        ("requested", "a2", ""),
        ("expired", "a2", ""),
        ("held", "", "ann"),
        ("said", "", "ann"),
        ("released", "", "ann"),
    ]


async def test_a_worker_killed_after_any_step_changes_nothing(
    new_trial: NewTrial, undisturbed: Report, client: Client
):
    expected = await audited(client, undisturbed.state.run_id)

    async def hold(trial: Trial, step: str) -> Report:
        report = await trial.hold([after_step(step)])
        assert len(report.killed_at) == 1
        check(report, undisturbed)
        assert await audited(client, trial.run_id) == expected
        return report

    trials: dict[str, Callable[[], Awaitable[Report]]] = {}
    for step in STEPS:
        trial = new_trial(talk=PEOPLE)
        trials[f"killed after {step}; see {trial.log}"] = partial(hold, trial, step)
    assert len(await hold_together(trials)) == len(STEPS)


async def test_a_worker_killed_after_every_step_changes_nothing(
    new_trial: NewTrial, undisturbed: Report
):
    report = await new_trial(talk=PEOPLE).hold([after_step(step) for step in STEPS])
    assert len(report.killed_at) == len(STEPS)
    check(report, undisturbed)


async def test_an_edited_call_whose_worker_dies_before_it_reports_happens_once(
    new_trial: NewTrial, undisturbed: Report
):
    report = await new_trial(talk=PEOPLE).hold([_refunded])
    check(report, undisturbed)
    assert "tool:refund" in report.repeated_activities


async def _refunded(trial: Trial) -> bool:
    """The moment when the refund is in the ledger and its worker has not said so."""
    while not PEOPLE.ledger_keys(trial.database):  # noqa: ASYNC110  another process writes
        await asyncio.sleep(0.01)
    return True


async def test_a_server_killed_between_steps_keeps_requests_votes_times_and_the_hold(
    tmp_path: Path, model_url: str, undisturbed: Report
):
    steps = ("request made", "first vote", "time runs", "held", "said")
    moments = [after_step(step) for step in steps]
    check(await hold_on_killed_servers(tmp_path, model_url, moments, PEOPLE), undisturbed)
