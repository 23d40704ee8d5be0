"""The gauges of a namespace, for OpenTelemetry and Prometheus.

Labels are statuses, risks, kinds, and names that the operator gives: nothing that a customer, a model
or a tool wrote.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar, get_args

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from outlast.edges.clock import now_ms
from outlast.loop.approvals import Risk
from outlast.monitor.counts import Backlog, Counts, Queue, Waiting

NAMESPACE: Final = "temporal_namespace"
"""The label that every gauge has; `namespace` is what Kubernetes calls something else."""

T = TypeVar("T")
Labeled: TypeAlias = Iterable[tuple[tuple[str, ...], T]]
"""What was counted, each with the values of its labels."""


@dataclass(frozen=True, slots=True)
class Source(Generic[T]):
    """What gauges are about.

    Attributes:
        labels: the labels of what was counted, beside `NAMESPACE`.
        found: returns what was counted.
    """

    labels: tuple[str, ...]
    found: Callable[[Counts], Labeled[T]]


@dataclass(frozen=True, slots=True)
class Gauge(Generic[T]):
    """A gauge.

    Attributes:
        name: its name; Prometheus writes it with underscores, and a unit of seconds after it.
        unit: its unit.
        words: what it is.
        source: what it is about.
        value: returns its value at a time; None for none.
    """

    name: str
    unit: str
    words: str
    source: Source[T]
    value: Callable[[T, int], float | None]

    def observed(self, counts: Counts, namespace: str) -> Iterable[Observation]:
        """Yield its values, with their labels."""
        now = now_ms()
        for labels, one in self.source.found(counts):
            value = self.value(one, now)
            if value is not None:
                named = dict(zip(self.source.labels, labels, strict=True))
                yield Observation(value, {NAMESPACE: namespace, **named})


def observe(meter: Meter, namespace: str, counts: Callable[[], Counts | None]) -> None:
    """Create the gauges; they have no values while there are no counts.

    Args:
        meter: creates them.
        namespace: whose they are.
        counts: returns what was counted last; None in a process that does not count.
    """

    def callback(gauge: Gauge[Any]) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observed(_options: CallbackOptions) -> Iterable[Observation]:
            found = counts()
            return () if found is None else gauge.observed(found, namespace)

        return observed

    for one in GAUGES:
        meter.create_observable_gauge(one.name, [callback(one)], one.unit, one.words)


def _by_name(found: Mapping[str, T]) -> Labeled[T]:
    return [((name,), one) for name, one in found.items()]


def _by_risk(counts: Counts) -> Labeled[Waiting]:
    # All risks, so that an alert ends.
    return [((risk,), counts.by_risk.get(risk, Waiting())) for risk in get_args(Risk)]


def _workers(counts: Counts) -> Labeled[int]:
    for name, queue in counts.queues.items():
        for taken, workers in queue.workers.items():
            yield (name, taken), workers


def _backlogs(counts: Counts) -> Labeled[Backlog]:
    for name, queue in counts.queues.items():
        for key, one in queue.backlog.items():
            yield (name, *key), one


def _age(since_ms: int | None, at_ms: int) -> float:
    return 0.0 if since_ms is None else max(at_ms - since_ms, 0) / 1_000


_ALL: Final[Source[Counts]] = Source((), lambda counts: [((), counts)])
_STATUS: Final[Source[int]] = Source(("status",), lambda counts: _by_name(counts.runs))
_RISK: Final[Source[Waiting]] = Source(("risk",), _by_risk)
_GROUP: Final[Source[Waiting]] = Source(("group", "risk"), lambda counts: counts.by_group.items())
_STAGE: Final[Source[int]] = Source(("stage",), lambda counts: _by_name(counts.undelivered))
_QUEUE: Final[Source[Queue]] = Source(("task_queue",), lambda counts: _by_name(counts.queues))
_WORKER: Final[Source[int]] = Source(("task_queue", "taken"), _workers)
_BACKLOG: Final[Source[Backlog]] = Source(("task_queue", "taken", "version"), _backlogs)
_DESK: Final[Source[bool]] = Source(("desk",), lambda counts: _by_name(counts.desks))

GAUGES: Final[tuple[Gauge[Any], ...]] = (
    Gauge("outlast.runs", "{run}", "Runs.", _STATUS, lambda runs, _: runs),
    Gauge(
        "outlast.requests.waiting",
        "{request}",
        "Requests that wait for people.",
        _RISK,
        lambda one, _: one.requests,
    ),
    Gauge(
        "outlast.requests.overdue",
        "{run}",
        "Runs with a request whose deadline nothing has acted on for a minute.",
        _RISK,
        lambda one, _: one.overdue,
    ),
    Gauge(
        "outlast.requests.oldest.age",
        "s",
        "Age of the oldest request that waits for people.",
        _RISK,
        lambda one, now: _age(one.oldest_ms, now),
    ),
    Gauge(
        "outlast.group.requests.waiting",
        "{request}",
        "Requests that a group may decide.",
        _GROUP,
        lambda one, _: one.requests,
    ),
    Gauge(
        "outlast.group.requests.overdue",
        "{run}",
        "Runs with an overdue request that a group may decide.",
        _GROUP,
        lambda one, _: one.overdue,
    ),
    Gauge(
        "outlast.group.requests.oldest.age",
        "s",
        "Age of the oldest request that a group may decide.",
        _GROUP,
        lambda one, now: _age(one.oldest_ms, now),
    ),
    Gauge(
        "outlast.runs.failing",
        "{run}",
        "Runs in which an attempt failed and is made again.",
        _ALL,
        lambda one, _: one.troubles.get("retry", 0),
    ),
    Gauge(
        "outlast.runs.untaken",
        "{run}",
        "Runs in which a step waits for a worker.",
        _ALL,
        lambda one, _: one.troubles.get("untaken", 0),
    ),
    Gauge(
        "outlast.decisions.kept",
        "{run}",
        "Runs with a decision or a delivery that no worker has taken.",
        _ALL,
        lambda one, _: one.troubles.get("kept", 0),
    ),
    Gauge(
        "outlast.decisions.kept.age",
        "s",
        "Age of the oldest decision or delivery that no worker has taken.",
        _ALL,
        lambda one, now: _age(one.oldest_kept_ms, now),
    ),
    Gauge(
        "outlast.notices.undelivered",
        "{notice}",
        "Notices that nobody has heard of.",
        _STAGE,
        lambda notices, _: notices,
    ),
    Gauge(
        "outlast.queue.workers",
        "{worker}",
        "Workers of a task queue.",
        _WORKER,
        lambda workers, _: workers,
    ),
    Gauge(
        "outlast.queue.backlog",
        "{task}",
        "Tasks that no worker has taken.",
        _BACKLOG,
        lambda one, _: one.tasks,
    ),
    Gauge(
        "outlast.queue.backlog.age",
        "s",
        "Age of the oldest task that no worker has taken.",
        _BACKLOG,
        lambda one, _: one.age_seconds,
    ),
    Gauge(
        "outlast.archive.lag",
        "s",
        "Time since everything that had ended was archived.",
        _QUEUE,
        lambda one, _: one.archive_lag,
    ),
    Gauge(
        "outlast.desk.answers",
        "{desk}",
        "1 if a desk answers, else 0.",
        _DESK,
        lambda answers, _: float(answers),
    ),
    Gauge(
        "outlast.monitor.open",
        "{run}",
        "Open runs that do not wait for a message.",
        _ALL,
        lambda one, _: one.open,
    ),
    Gauge(
        "outlast.monitor.looked_at",
        "{run}",
        "Those of them that the monitor has looked at since they last changed.",
        _ALL,
        lambda one, _: one.looked_at,
    ),
    Gauge(
        "outlast.monitor.took", "s", "Duration of the last count.", _ALL, lambda one, _: one.took
    ),
)
"""All gauges."""
