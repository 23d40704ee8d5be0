"""Workers and the server are killed with SIGKILL between any two steps of calls that wait."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from tests.crash.outside import OUTSIDE, STEPS, after_step
from tests.crash.test_server_killed import hold_on_killed_servers
from tests.crash.trial import NewTrial, Report, Trial, hold_together
from tests.crash.verdict import check

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@pytest_asyncio.fixture(scope="module")
async def undisturbed(new_trial: NewTrial) -> Report:
    """The conversation as it goes when nobody is killed."""
    return await new_trial(talk=OUTSIDE).hold()


async def test_each_delivery_counts_once_and_each_effect_happens_once(undisturbed: Report):
    check(undisturbed, undisturbed)
    outcome = undisturbed.outcome
    assert (outcome.status, outcome.answers) == ("completed", ("It is on its way.",))
    assert outcome.outputs == (
        ("c1", "A-17 was picked up by Mia at noon"),
        ("c2", "not printed"),
    )
    assert outcome.receipts == (
        ("accepted", "webhook-accepted", "courier", False),
        ("picked up", "webhook-picked up", "courier", False),
        ("voucher", "", "", True),
    )
    assert (outcome.done, outcome.ignored) == (("courier for A-17", "voucher"), 0)


async def test_a_worker_killed_after_any_step_of_a_wait_changes_nothing(
    new_trial: NewTrial, undisturbed: Report
):
    async def hold(trial: Trial, step: str) -> Report:
        report = await trial.hold([after_step(step)])
        assert len(report.killed_at) == 1
        check(report, undisturbed)
        return report

    trials: dict[str, Callable[[], Awaitable[Report]]] = {}
    for step in STEPS:
        trial = new_trial(talk=OUTSIDE)
        trials[f"killed after {step}; see {trial.log}"] = partial(hold, trial, step)
    assert len(await hold_together(trials)) == len(STEPS)


async def test_a_worker_killed_after_every_step_of_a_wait_changes_nothing(
    new_trial: NewTrial, undisturbed: Report
):
    report = await new_trial(talk=OUTSIDE).hold([after_step(step) for step in STEPS])
    assert len(report.killed_at) == len(STEPS)
    check(report, undisturbed)


async def test_what_was_begun_by_a_worker_that_died_before_its_wait_was_recorded_happens_once(
    new_trial: NewTrial, undisturbed: Report
):
    report = await new_trial(talk=OUTSIDE).hold([_booked])
    check(report, undisturbed)
    assert "tool:courier" in report.repeated_activities


async def _booked(trial: Trial) -> bool:
    """The moment when the courier is in the ledger and the run does not know that it waits."""
    while not OUTSIDE.ledger_keys(trial.database):  # noqa: ASYNC110  another process writes
        await asyncio.sleep(0.01)
    return True


async def test_a_server_killed_between_steps_keeps_waits_and_what_came(
    tmp_path: Path, model_url: str, undisturbed: Report
):
    steps = ("accepted", "accepted came", "picked up", "voucher")
    moments = [after_step(step) for step in steps]
    check(await hold_on_killed_servers(tmp_path, model_url, moments, OUTSIDE), undisturbed)
