"""The gauges of a namespace, for OpenTelemetry and Prometheus.

Labels are statuses, risks, kinds, and names that the operator gives: nothing that a customer, a model
or a tool wrote.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, get_args

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from outlast.edges.clock import now_ms
from outlast.loop.approvals import Risk
from outlast.monitor.counts import Counts, Waiting

NAMESPACE: Final = "temporal_namespace"
"""The label that every gauge has; `namespace` is what Kubernetes calls something else."""

Values: TypeAlias = Iterator[tuple[float, dict[str, str]]]


@dataclass(frozen=True, slots=True)
class Gauge:
    """A gauge.

    Attributes:
        name: its name; Prometheus writes it with underscores, and a unit of seconds after it.
        unit: its unit.
        words: what it is.
        labels: its labels, beside `NAMESPACE`.
        values: its values, with their labels.
    """

    name: str
    unit: str
    words: str
    labels: tuple[str, ...]
    values: Callable[[Counts, int], Values]


def observe(meter: Meter, namespace: str, counts: Callable[[], Counts | None]) -> None:
    """Create the gauges; they have no values while there are no counts.

    Args:
        meter: creates them.
        namespace: whose they are.
        counts: returns what was counted last; None in a process that does not count.
    """

    def callback(gauge: Gauge) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observed(_options: CallbackOptions) -> Iterable[Observation]:
            found = counts()
            if found is None:
                return ()
            return [
                Observation(value, {NAMESPACE: namespace, **labels})
                for value, labels in gauge.values(found, now_ms())
            ]

        return observed

    for one in GAUGES:
        meter.create_observable_gauge(one.name, [callback(one)], one.unit, one.words)


def _one(value: Callable[[Counts], float]) -> Callable[[Counts, int], Values]:
    def values(counts: Counts, _now_ms: int) -> Values:
        yield value(counts), {}

    return values


def _each(
    label: str, found: Callable[[Counts], Mapping[str, float]]
) -> Callable[[Counts, int], Values]:
    def values(counts: Counts, _now_ms: int) -> Values:
        for name, value in found(counts).items():
            yield value, {label: name}

    return values


def _by_risk(value: Callable[[Waiting, int], float]) -> Callable[[Counts, int], Values]:
    def values(counts: Counts, at_ms: int) -> Values:
        for risk in get_args(Risk):  # all of them, so that an alert ends
            yield value(counts.by_risk.get(risk, Waiting()), at_ms), {"risk": risk}

    return values


def _by_group(value: Callable[[Waiting, int], float]) -> Callable[[Counts, int], Values]:
    def values(counts: Counts, at_ms: int) -> Values:
        for (group, risk), waits in counts.by_group.items():
            yield value(waits, at_ms), {"group": group, "risk": risk}

    return values


def _backlog(value: Callable[[int, float], float]) -> Callable[[Counts, int], Values]:
    def values(counts: Counts, _now_ms: int) -> Values:
        for name, queue in counts.queues.items():
            for (taken, version), one in queue.backlog.items():
                labels = {"task_queue": name, "taken": taken, "version": version}
                yield value(one.tasks, one.age_seconds), labels

    return values


def _workers(counts: Counts, _now_ms: int) -> Values:
    for name, queue in counts.queues.items():
        for taken, workers in queue.workers.items():
            yield workers, {"task_queue": name, "taken": taken}


def _lags(counts: Counts, _now_ms: int) -> Values:
    for name, queue in counts.queues.items():
        if queue.archive_lag is not None:
            yield queue.archive_lag, {"task_queue": name}


def _kept_age(counts: Counts, at_ms: int) -> Values:
    yield _age(counts.oldest_kept_ms, at_ms), {}


def _requests(waits: Waiting, _now_ms: int) -> float:
    return waits.requests


def _overdue(waits: Waiting, _now_ms: int) -> float:
    return waits.overdue


def _oldest(waits: Waiting, at_ms: int) -> float:
    return _age(waits.oldest_ms, at_ms)


def _age(since_ms: int | None, at_ms: int) -> float:
    return 0.0 if since_ms is None else max(at_ms - since_ms, 0) / 1_000


_RISK: Final = ("risk",)
_GROUP: Final = ("group", "risk")
_QUEUE: Final = ("task_queue", "taken")
_VERSION: Final = (*_QUEUE, "version")

GAUGES: Final = (
    Gauge("outlast.runs", "{run}", "Runs.", ("status",), _each("status", lambda one: one.runs)),
    Gauge(
        "outlast.requests.waiting",
        "{request}",
        "Requests that wait for people.",
        _RISK,
        _by_risk(_requests),
    ),
    Gauge(
        "outlast.requests.overdue",
        "{run}",
        "Runs with a request whose deadline nothing has acted on for a minute.",
        _RISK,
        _by_risk(_overdue),
    ),
    Gauge(
        "outlast.requests.oldest.age",
        "s",
        "Age of the oldest request that waits for people.",
        _RISK,
        _by_risk(_oldest),
    ),
    Gauge(
        "outlast.group.requests.waiting",
        "{request}",
        "Requests that a group may decide.",
        _GROUP,
        _by_group(_requests),
    ),
    Gauge(
        "outlast.group.requests.overdue",
        "{run}",
        "Runs with an overdue request that a group may decide.",
        _GROUP,
        _by_group(_overdue),
    ),
    Gauge(
        "outlast.group.requests.oldest.age",
        "s",
        "Age of the oldest request that a group may decide.",
        _GROUP,
        _by_group(_oldest),
    ),
    Gauge(
        "outlast.runs.failing",
        "{run}",
        "Runs in which an attempt failed and is made again.",
        (),
        _one(lambda one: one.troubles.get("retry", 0)),
    ),
    Gauge(
        "outlast.runs.untaken",
        "{run}",
        "Runs in which a step waits for a worker.",
        (),
        _one(lambda one: one.troubles.get("untaken", 0)),
    ),
    Gauge(
        "outlast.decisions.kept",
        "{run}",
        "Runs with a decision or a delivery that no worker has taken.",
        (),
        _one(lambda one: one.troubles.get("kept", 0)),
    ),
    Gauge(
        "outlast.decisions.kept.age",
        "s",
        "Age of the oldest decision or delivery that no worker has taken.",
        (),
        _kept_age,
    ),
    Gauge(
        "outlast.notices.undelivered",
        "{notice}",
        "Notices that nobody has heard of.",
        ("stage",),
        _each("stage", lambda one: one.undelivered),
    ),
    Gauge("outlast.queue.workers", "{worker}", "Workers of a task queue.", _QUEUE, _workers),
    Gauge(
        "outlast.queue.backlog",
        "{task}",
        "Tasks that no worker has taken.",
        _VERSION,
        _backlog(lambda tasks, _age: tasks),
    ),
    Gauge(
        "outlast.queue.backlog.age",
        "s",
        "Age of the oldest task that no worker has taken.",
        _VERSION,
        _backlog(lambda _tasks, age: age),
    ),
    Gauge(
        "outlast.archive.lag",
        "s",
        "Time since everything that had ended was archived.",
        ("task_queue",),
        _lags,
    ),
    Gauge(
        "outlast.desk.answers",
        "{desk}",
        "1 if a desk answers, else 0.",
        ("desk",),
        _each("desk", lambda one: {desk: float(yes) for desk, yes in one.desks.items()}),
    ),
    Gauge(
        "outlast.monitor.open",
        "{run}",
        "Open runs that do not wait for a message.",
        (),
        _one(lambda one: one.open),
    ),
    Gauge(
        "outlast.monitor.looked_at",
        "{run}",
        "Those of them that the monitor has looked at since they last changed.",
        (),
        _one(lambda one: one.looked_at),
    ),
    Gauge(
        "outlast.monitor.took", "s", "Duration of the last count.", (), _one(lambda one: one.took)
    ),
)
"""All gauges."""
