"""Memory of processes, the line through it, and what is full first."""

import os
from math import inf

import pytest

from benchmarks.desk_load import full
from benchmarks.process_memory import growth, own_usage, usages


def test_a_process_uses_memory_and_one_that_is_gone_is_left_out() -> None:
    found = usages({"this": os.getpid(), "none": 0})
    assert found.keys() == {"this"}
    assert found["this"].memory_mb > 1
    assert found["this"].cpu_s > 0
    assert own_usage().memory_mb > 1


def test_a_line_through_memory_that_grows_evenly_has_no_error() -> None:
    found = growth([(float(at), 100 + at / 3600) for at in range(0, 7200, 10)])
    assert found.per_hour == pytest.approx(1)
    assert found.uncertainty == pytest.approx(0, abs=1e-6)
    assert found.first < found.last


def test_memory_that_goes_up_and_down_does_not_grow_beyond_its_error() -> None:
    found = growth([(float(at), 100 + (at // 100 % 2)) for at in range(3600)])
    assert abs(found.per_hour) < found.uncertainty < 2


def test_two_samples_say_nothing_of_growth() -> None:
    assert growth([(0.0, 1.0), (1.0, 2.0)]).uncertainty == inf


@pytest.mark.parametrize(
    ("cores", "busy", "expected"),
    [
        ({"desk 0": 0.9, "worker a": 0.2, "server": 0.5}, 1.6, "desk 0: its one core"),
        (
            {"desk 0": 0.3, "worker a": 0.2, "server": 0.9},
            0.9 * 1000,
            "most for other programs, then",
        ),
        ({"desk 0": 0.3, "worker a": 0.2, "server": 0.1}, 0.0, "nothing"),
    ],
)
def test_what_is_full_first_is_named(cores: dict[str, float], busy: float, expected: str) -> None:
    assert expected in full(cores, busy)
