"""The gauges: their names and labels for Prometheus, and what they never say."""

import pytest
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import CollectorRegistry, generate_latest

from outlast.monitor import gauges
from outlast.monitor.counts import (
    MOST_QUEUES,
    Backlog,
    Counts,
    Queue,
    Waiting,
    labels_of,
    queue_labels,
)
from tests.hostile_text import NASTY
from tests.prometheus import samples_of, value_of

NOW_MS = 1_000_000_000_000
COUNTS = Counts(
    at_ms=NOW_MS,
    took=0.5,
    runs={"waiting": 2, "completed": 7},
    by_risk={"high": Waiting(requests=2, overdue=1, oldest_ms=NOW_MS - 90_000)},
    by_group={("billing", "high"): Waiting(requests=2, oldest_ms=NOW_MS - 90_000)},
    troubles={"retry": 3, "untaken": 4, "kept": 5},
    oldest_kept_ms=NOW_MS - 30_000,
    undelivered={"retrying": 1, "given_up": 2},
    queues={
        "support": Queue(
            workers={"workflow": 2},
            backlog={("workflow", "shop:v2"): Backlog(tasks=6, age_seconds=1.5)},
            archive_lag=12.0,
        )
    },
    desks={"desk.example.com": True, "127.0.0.1:8090": False},
    open=9,
    looked_at=8,
)


def page_of(counts: Counts | None) -> str:
    registry = CollectorRegistry()
    reader = PrometheusMetricReader(scope_info_enabled=False, registry=registry)
    provider = MeterProvider([reader], shutdown_on_exit=False)
    gauges.observe(provider.get_meter("outlast"), "shop", lambda: counts)
    page = generate_latest(registry).decode()
    provider.shutdown()
    return page


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gauges, "now_ms", lambda: NOW_MS)


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("outlast_runs", {"status": "waiting"}, 2),
        ("outlast_requests_waiting", {"risk": "high"}, 2),
        ("outlast_requests_waiting", {"risk": "low"}, 0),
        ("outlast_requests_overdue", {"risk": "high"}, 1),
        ("outlast_requests_oldest_age_seconds", {"risk": "high"}, 90),
        ("outlast_requests_oldest_age_seconds", {"risk": "low"}, 0),
        ("outlast_group_requests_waiting", {"group": "billing", "risk": "high"}, 2),
        ("outlast_group_requests_overdue", {"group": "billing", "risk": "high"}, 0),
        ("outlast_group_requests_oldest_age_seconds", {"group": "billing", "risk": "high"}, 90),
        ("outlast_runs_failing", {}, 3),
        ("outlast_runs_untaken", {}, 4),
        ("outlast_decisions_kept", {}, 5),
        ("outlast_decisions_kept_age_seconds", {}, 30),
        ("outlast_notices_undelivered", {"stage": "given_up"}, 2),
        ("outlast_queue_workers", {"task_queue": "support", "taken": "workflow"}, 2),
        ("outlast_queue_backlog", {"task_queue": "support", "version": "shop:v2"}, 6),
        ("outlast_queue_backlog_age_seconds", {"taken": "workflow", "version": "shop:v2"}, 1.5),
        ("outlast_archive_lag_seconds", {"task_queue": "support"}, 12),
        ("outlast_desk_answers", {"desk": "desk.example.com"}, 1),
        ("outlast_desk_answers", {"desk": "127.0.0.1:8090"}, 0),
        ("outlast_monitor_open", {}, 9),
        ("outlast_monitor_looked_at", {}, 8),
        ("outlast_monitor_took_seconds", {}, 0.5),
    ],
)
def test_a_gauge_says_what_was_counted(name: str, labels: dict[str, str], value: float) -> None:
    assert value_of(page_of(COUNTS), name, temporal_namespace="shop", **labels) == value


def test_every_gauge_has_the_labels_that_it_names_and_no_others() -> None:
    found = [one for one in samples_of(page_of(COUNTS)) if one.name.startswith("outlast")]
    by_name = {one.name.replace(".", "_"): one for one in gauges.GAUGES}
    assert len({one.name for one in found}) == len(by_name)
    for one in found:
        gauge = by_name[one.name.removesuffix("_seconds")]
        assert set(one.labels) == {gauges.NAMESPACE, *gauge.source.labels}


def test_a_process_that_does_not_count_says_nothing() -> None:
    assert not [one for one in samples_of(page_of(None)) if one.name.startswith("outlast")]


@pytest.mark.parametrize("text", [*NASTY, "ann@example.com", "Billing", "billing "])
def test_a_group_that_nobody_named_is_no_label(text: str) -> None:
    assert labels_of([text, "billing"], {"billing"}) == ("billing", "other")
    assert labels_of([text], ()) == ("other",)
    assert labels_of([], {"billing"}) == ("other",)


def test_queues_are_the_named_and_the_busiest_and_never_too_many() -> None:
    found = {f"queue-{number:04}": number for number in range(1_000)}
    found |= {"outlast-local-ann-1": 5_000, "a\nb": 5_000, "long" * 100: 5_000, "": 5_000}
    labels = queue_labels(found, ["support"])
    assert len(labels) == MOST_QUEUES
    assert labels[:3] == ("support", "queue-0999", "queue-0998")
    assert not {"outlast-local-ann-1", "a\nb", "long" * 100, ""}.intersection(labels)
