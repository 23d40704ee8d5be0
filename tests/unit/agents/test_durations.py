"""Durations as users give them."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from outlast.agents.durations import DurationField, as_duration, duration_field, is_positive


@dataclass(frozen=True, kw_only=True)
class Job:
    name: str = ""
    timeout: DurationField[timedelta] = duration_field(timedelta(minutes=1))  # noqa: RUF009  a descriptor
    pause: DurationField[None] = duration_field(None)  # noqa: RUF009  likewise


@pytest.mark.parametrize("seconds", [30, 30.0, timedelta(seconds=30)])
def test_a_number_is_seconds(seconds: Any) -> None:
    assert Job(timeout=seconds, pause=seconds) == Job(
        timeout=timedelta(seconds=30), pause=timedelta(seconds=30)
    )


@pytest.mark.parametrize("value", ["30", True, None, float("nan"), float("inf"), 1e300])
def test_what_is_no_duration_stays_for_the_owner_to_refuse(value: object) -> None:
    assert as_duration(value) is value
    assert not is_positive(value)


def test_a_field_that_is_left_out_has_its_default() -> None:
    job = Job()
    assert (job.timeout, job.pause) == (timedelta(minutes=1), None)


def test_a_copy_and_another_object_have_durations_of_their_own() -> None:
    job = Job(timeout=5)
    copy = replace(job, name="copy")
    other = Job(timeout=6)
    assert (job.timeout, copy.timeout, other.timeout) == (
        timedelta(seconds=5),
        timedelta(seconds=5),
        timedelta(seconds=6),
    )
    assert hash(copy) == hash(Job(name="copy", timeout=timedelta(seconds=5)))


def test_nothing_and_less_than_nothing_is_not_positive() -> None:
    assert is_positive(timedelta(microseconds=1))
    assert not is_positive(timedelta(0))
    assert not is_positive(timedelta(seconds=-1))
