"""Which results of local activities are kept for the next attempt of the same call."""

import pytest

from outlast.activities import worker_memory
from outlast.activities.worker_memory import LateResults

KEY = ("run", "7", "tool:look")


def test_a_late_result_is_found_as_often_as_its_call_is_made_again():
    results = LateResults()
    results.keep(KEY, b"x", 15.0)
    assert [results.find(KEY) for _ in range(3)] == [b"x"] * 3
    for other in (("other", "7", "tool:look"), ("run", "8", "tool:look"), ("run", "7", "tool:x")):
        assert results.find(other) is None


def test_a_result_in_time_is_not_kept():
    results = LateResults()
    results.keep(KEY, b"x", 1.9)
    assert results.find(KEY) is None


def test_results_are_dropped_by_number_and_by_age(monkeypatch: pytest.MonkeyPatch):
    results, now = LateResults(), 1_000.0
    monkeypatch.setattr(worker_memory.time, "monotonic", lambda: now)
    for number in range(150):
        results.keep(("run", f"{number}", "t"), b"%d" % number, 3.0)
    assert [results.find(("run", f"{number}", "t")) for number in (49, 50)] == [None, b"50"]
    now += worker_memory.LATE_KEPT_SECONDS + 1
    assert results.find(("run", "149", "t")) is None
    results.keep(KEY, b"{}", 3.0)
    assert results.find(KEY) == b"{}"
    assert len(results._kept) == 1
