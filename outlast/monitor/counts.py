"""What is counted in a namespace, as plain data."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from outlast.contract import names

OTHER: Final = "other"
"""The label of everything that has none of its own."""

MOST_QUEUES: Final = 50
"""How many task queues are counted by name."""

LONGEST_LABEL: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Requests that wait for people.

    Attributes:
        requests: how many there are.
        overdue: how many runs should have reminded, escalated or ended one before now.
        oldest_ms: when the oldest was made, in milliseconds since the epoch; None without any.
    """

    requests: int = 0
    overdue: int = 0
    oldest_ms: int | None = None

    def __add__(self, other: "Waiting") -> "Waiting":
        made = [one for one in (self.oldest_ms, other.oldest_ms) if one is not None]
        return Waiting(
            requests=self.requests + other.requests,
            overdue=self.overdue + other.overdue,
            oldest_ms=min(made, default=None),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """Tasks of a queue that no worker has taken."""

    tasks: int = 0
    age_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A task queue.

    Attributes:
        workers: how many workers poll it, by what they take: `workflow`, `activity`.
        backlog: its backlog, by what is taken and by the version of the workers; an empty version
            stands for all of them.
        archive_lag: for how many seconds nothing that ended was archived; None without an archive.
        versions: how many workers have each version, of those that have one.
    """

    workers: Mapping[str, int] = field(default_factory=dict[str, int])
    backlog: Mapping[tuple[str, str], Backlog] = field(
        default_factory=dict[tuple[str, str], Backlog]
    )
    archive_lag: float | None = None
    versions: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What was counted in a namespace.

    Attributes:
        at_ms: when, in milliseconds since the epoch.
        took: how many seconds it took.
        runs: how many runs there are, by status.
        by_risk: what waits for people, by the highest risk of the run.
        by_group: the same by group and risk; what several groups may decide counts for each.
        troubles: how many of the runs that were looked at have a trouble, by kind.
        oldest_kept_ms: since when the oldest decision or message waits that no worker has taken.
        undelivered: how many notices nobody has heard of, by `retrying` and `given_up`.
        queues: the task queues, by name.
        desks: whether each desk answers, by its address.
        open: how many runs are open that do not wait for a message.
        looked_at: how many of them have been looked at since they last changed.
        model_errors: how many runs were seen with a failing model call in the last hour.
        since_ms: since when they are noted.
    """

    at_ms: int
    took: float = 0.0
    runs: Mapping[str, int] = field(default_factory=dict[str, int])
    by_risk: Mapping[str, Waiting] = field(default_factory=dict[str, Waiting])
    by_group: Mapping[tuple[str, str], Waiting] = field(
        default_factory=dict[tuple[str, str], Waiting]
    )
    troubles: Mapping[str, int] = field(default_factory=dict[str, int])
    oldest_kept_ms: int | None = None
    undelivered: Mapping[str, int] = field(default_factory=dict[str, int])
    queues: Mapping[str, Queue] = field(default_factory=dict[str, Queue])
    desks: Mapping[str, bool] = field(default_factory=dict[str, bool])
    open: int = 0
    looked_at: int = 0
    model_errors: int = 0
    since_ms: int = 0


def labels_of(people: Iterable[str], known: Collection[str]) -> tuple[str, ...]:
    """Return the labels of those who may decide: the groups that the operator names, or `other`.

    A run lists persons, too, and a policy may make up names from what a model or a customer wrote.
    """
    return tuple(sorted({one if one in known else OTHER for one in people})) or (OTHER,)


def queue_labels(found: Mapping[str, int], known: Collection[str]) -> tuple[str, ...]:
    """Return the task queues that are counted by name: those that are named, and the busiest.

    Args:
        found: how many open runs each has.
        known: those that the operator names.
    """
    ranked = sorted(found, key=lambda one: (-found[one], one))
    fit = [one for one in ranked if _is_label(one) and one not in known]
    return (*dict.fromkeys(known), *fit[: max(MOST_QUEUES - len(known), 0)])


def _is_label(queue: str) -> bool:
    of_program = queue.startswith(names.PROGRAM_QUEUE_PREFIX)
    return not of_program and queue.isprintable() and 0 < len(queue) <= LONGEST_LABEL
