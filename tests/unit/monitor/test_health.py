"""The figures that a process that counts passes on to desks."""

import json

from outlast.contract import records
from outlast.monitor.counts import Backlog, Counts, Queue, Waiting
from outlast.monitor.health import Health, QueueHealth, health_of

COUNTS = Counts(
    at_ms=10_000,
    since_ms=4_000,
    model_errors=2,
    troubles={"kept": 3, "retry": 9},
    by_risk={"high": Waiting(overdue=1), "low": Waiting(overdue=4)},
    queues={
        "support": Queue(
            workers={"workflow": 2, "activity": 1},
            versions={"desk:1": 1},
            backlog={
                ("workflow", ""): Backlog(tasks=5, age_seconds=2.0),
                ("activity", ""): Backlog(tasks=1, age_seconds=1.0),
                ("activity", "desk:0"): Backlog(tasks=1, age_seconds=90.0),
            },
        ),
        "empty": Queue(workers={"workflow": 0, "activity": 3}),
    },
    open=7,
    looked_at=7,
)


def test_the_figures_are_those_of_the_counts() -> None:
    assert health_of(COUNTS) == Health(
        at_ms=10_000,
        since_ms=4_000,
        queues=(
            QueueHealth(name="empty", workers=0),
            QueueHealth(
                name="support", workers=1, versions={"desk:1": 1}, tasks=6, age_seconds=90.0
            ),
        ),
        model_errors=2,
        kept=3,
        overdue=5,
    )


def test_a_desk_reads_what_a_heartbeat_has() -> None:
    health = health_of(COUNTS)
    assert records.read(Health, json.loads(json.dumps(health.record()))) == health
    # A later version may say more, and an earlier one less.
    assert records.read(Health, {"at_ms": 5, "more": 1}) == Health(at_ms=5)
