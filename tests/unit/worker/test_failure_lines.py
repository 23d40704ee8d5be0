"""Failed attempts on a script's terminal."""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from temporalio import activity
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from outlast.activities.attempt_error import AttemptError
from outlast.activities.errors import of_user_code
from outlast.contract import failures, names
from outlast.worker.failure_lines import FailureLines, log_failures_in_lines

LOGGER = logging.getLogger("temporalio.activity")


@pytest.fixture(autouse=True)
def lines() -> Iterator[None]:
    one = FailureLines()
    LOGGER.addFilter(one)
    yield
    LOGGER.removeFilter(one)


def users_code() -> None:
    raise ValueError("No such order.")


def failure(*, retryable: bool = True, attempts: int | None = None) -> ApplicationError:
    """Return what the engine gets of a tool that raised."""
    with pytest.raises(ValueError, match="No such order") as raised:
        users_code()
    told = of_user_code("look_up", raised.value)
    error: ApplicationError = ActivityEnvironment().run(
        lambda: AttemptError(
            told.message,
            of=raised.value,
            attempts=attempts,
            type=told.code,
            non_retryable=not retryable,
        )
    )
    error.__cause__ = raised.value
    return error


def told(
    error: BaseException,
    caplog: pytest.LogCaptureFixture,
    *,
    attempt: int = 1,
    most: int = 3,
    workflow_type: str = names.WORKFLOW,
) -> str:
    """Return what is printed of an attempt that failed."""
    environment = ActivityEnvironment()
    environment.info = replace(
        environment.info,
        activity_type="tool:look_up",
        attempt=attempt,
        retry_policy=RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=most),
        workflow_id="support-42",
        workflow_type=workflow_type,
    )

    def log() -> None:
        activity.logger.warning("Completing activity as failed", exc_info=error)

    caplog.clear()
    environment.run(log)
    return caplog.handler.format(caplog.records[0])


@pytest.mark.parametrize(
    ("case", "tries", "again"),
    [
        ({}, "(attempt 1 of 3)", True),
        ({"attempt": 3}, "(attempt 3 of 3)", False),
        ({"most": 0, "attempt": 7}, "(attempt 7)", True),
        ({"most": 10, "attempts": 2}, "(attempt 1 of 2)", True),
        ({"most": 10, "attempts": 2, "attempt": 2}, "(attempt 2 of 2)", False),
        ({"retryable": False}, "(attempt 1, not retried)", False),
        ({"retryable": False, "attempt": 2}, "(attempt 2, not retried)", False),
        ({"retryable": False, "attempt": 3}, "(attempt 3 of 3)", False),
    ],
)
def test_an_attempt_that_failed_is_one_line_with_the_place_in_the_users_code(
    caplog: pytest.LogCaptureFixture, case: dict[str, Any], tries: str, *, again: bool
) -> None:
    error = failure(**{k: v for k, v in case.items() if k in {"retryable", "attempts"}})
    line = told(error, caplog, **{k: v for k, v in case.items() if k in {"attempt", "most"}})
    assert "\n" not in line
    assert f"outlast: look_up failed in support-42 {tries}: look_up raised ValueError" in line
    assert "No such order (test_failure_lines.py:" in line
    assert " in users_code)" in line
    assert ("; will be retried in " in line) == again


def test_an_effect_that_is_scheduled_anew_has_further_attempts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    error = ApplicationError("No.", type=failures.FAILED_ON_CAPABLE_WORKER, non_retryable=True)
    assert told(error, caplog).endswith("support-42 (attempt 1): No")


def test_what_is_ours_has_no_place(caplog: pytest.LogCaptureFixture) -> None:
    assert told(ApplicationError("Refused."), caplog).endswith("Refused; will be retried in 1 s")


@pytest.mark.parametrize(
    ("attempt", "asked", "seconds"),
    [(1, None, "1"), (2, None, "2"), (5, None, "16"), (9999, None, "100"), (2, 300.0, "300")],
)
def test_a_line_says_when_the_next_attempt_follows(
    caplog: pytest.LogCaptureFixture, attempt: int, asked: float | None, seconds: str
) -> None:
    delay = None if asked is None else timedelta(seconds=asked)
    error = ApplicationError("Too busy.", next_retry_delay=delay)
    line = told(error, caplog, attempt=attempt, most=0)
    assert line.endswith(f"Too busy; will be retried in {seconds} s")


def test_a_wait_for_a_worker_is_said_at_once_and_then_ever_more_rarely(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = ApplicationError("No tool 'f'.", type=failures.WORKER_LACKS, non_retryable=True)
    line = told(first, caplog)
    assert "look_up in support-42 waits for a worker that can carry it out: No tool 'f'" in line
    assert "attempt" not in line
    assert "retried" not in line
    again = ApplicationError("No tool 'f'.", type=failures.WORKER_LACKS)
    said: list[int] = []
    for attempt in range(1, 61):
        with contextlib.suppress(IndexError):  # no record
            told(again, caplog, attempt=attempt, most=0)
            said.append(attempt)
    assert said == [4, 8, 16, 32]


def test_who_looks_for_a_mistake_gets_the_stack_trace(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "outlast"):
        assert "in users_code" in told(failure(), caplog)


def test_every_other_record_stays_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    line = told(failure(), caplog, workflow_type="TheirOwn")
    assert "Completing activity as failed" in line
    assert "in users_code" in line
    caplog.clear()
    LOGGER.warning("Something %s", "else")
    assert caplog.messages == ["Something else"]


def test_a_second_call_changes_nothing() -> None:
    before = list(LOGGER.filters)
    LOGGER.filters.clear()
    try:
        log_failures_in_lines()
        log_failures_in_lines()
        assert len(LOGGER.filters) == 1
    finally:
        LOGGER.filters[:] = before


@pytest.mark.parametrize(
    ("attempt", "ending"), [(1, "; will be retried in 1 s"), (3, "stood still")]
)
def test_an_attempt_that_was_silent_for_too_long_is_a_line_too(
    caplog: pytest.LogCaptureFixture, attempt: int, ending: str
) -> None:
    line = told(asyncio.CancelledError("Activity cancelled"), caplog, attempt=attempt)
    assert line.count("\n") == 0
    assert f"look_up was stopped in support-42 (attempt {attempt} of 3): no heartbeat" in line
    assert line.endswith(ending)


def test_an_error_that_is_none_of_the_effects_is_a_line_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert told(ValueError("bad payload"), caplog).endswith(
        "ValueError: bad payload; will be retried in 1 s"
    )


def test_hostile_text_is_one_line_that_steers_no_terminal(caplog: pytest.LogCaptureFixture) -> None:
    line = told(ApplicationError("\x1b[2Kfine\nall is well\u202e" + 5_000 * "x"), caplog)
    assert line.isprintable()
    assert r"\u001b[2Kfine\u000aall is well\u202exxx" in line
    assert "… (cut: 1,000 of 5,021 characters)" in line
    assert len(line) < 1_300


def test_texts_of_exceptions_stay_out_where_the_environment_says_so(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_LOG_EXCEPTION_TEXTS", "0")
    with caplog.at_level(logging.DEBUG, "outlast"):
        line = told(failure(), caplog)
    assert "No such order" not in line
    assert "\n" not in line
    assert "ValueError (text not logged) (test_failure_lines.py:" in line
