"""Prices are those of the examples on Temporal's own page; the bottleneck is what is full."""

import pytest

from benchmarks.cluster import bottleneck
from benchmarks.sizing import HOURS, price, storage, tiered


def test_actions_get_cheaper_by_tier() -> None:
    assert tiered(11.25) == 525
    assert tiered(100) == 250 + 225 + 400 + 1050 + 1500


def test_storage_is_billed_by_the_hour() -> None:
    assert storage(720 / HOURS, 3600 / HOURS) == pytest.approx(34.02)
    assert storage(-1, -1) == 0


def test_the_cheaper_plan_counts() -> None:
    assert price(1, 0, 0) == pytest.approx(55), "Developer: no base fee"
    assert price(102.5, 2.5, 100) == pytest.approx(3425 + 500), "Business, with what it includes"


def test_a_bottleneck_is_what_is_full() -> None:
    cores = {"workers": 0.9, "server": 0.2, "postgres": 0.1, "model": 0.0, "client": 0.0}
    assert bottleneck({**cores, "machine": 1.2}, 1) == "the worker's interpreter: one core"
    assert "nothing is full" in bottleneck({**cores, "machine": 1.2}, 2)
    full = bottleneck({**cores, "machine": 1000.0}, 2)
    assert full.endswith("most for workers, then server")
