"""How the installation is, in words: a line for the server, each task queue, and what is counted."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from outlast.edges.rendering import counted, joined, named, rough
from outlast.monitor.health import Health, QueueHealth

LATE_SECONDS: Final = 60
"""From when on a task that waits for a worker is said to wait."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A line about the installation.

    Attributes:
        name: what it is about.
        words: how it is.
        colour: `is-ok`, `is-wait`, `is-bad`, or `is-quiet` for what is not known.
        why: what it means, and what to do; empty where nothing is to do.
    """

    name: str
    words: str
    colour: str = "is-ok"
    why: str = ""


def facts_of(health: Health | None) -> list[Fact]:
    """Return how an installation is, line by line; None: nobody has looked yet."""
    if health is None:
        return [Fact("Temporal server", "not known yet", "is-quiet")]
    if not health.answers:
        why = "Runs are kept. Figures come back with the server."
        return [Fact("Temporal server", "does not answer", "is-bad", why)]
    return [Fact("Temporal server", "answers"), *map(_of_queue, health.queues), *_counts(health)]


def _of_queue(queue: QueueHealth) -> Fact:
    name = f"Queue {named(queue.name)}"
    versions = ", ".join(f"{named(one)}: {count:,}" for one, count in queue.versions.items())
    words = counted(queue.workers, "worker") + (f" ({versions})" if versions else "")
    if queue.tasks:
        length = rough(timedelta(seconds=queue.age_seconds))
        words += f", {counted(queue.tasks, 'task')} waiting, the oldest for {length}"
    if not queue.workers:
        return Fact(name, words, "is-bad", "Nothing happens in its conversations. Start a worker.")
    if queue.age_seconds >= LATE_SECONDS:
        return Fact(name, words, "is-wait", "Steps take longer. Start more workers.")
    return Fact(name, words)


def _counts(health: Health) -> Iterator[Fact]:
    since = "seen in the last hour"
    if (watched := health.at_ms - health.since_ms) < 3_600_000:
        since = f"seen in the last {rough(timedelta(milliseconds=watched))}, and not noted before"
    rows = (
        ("Model errors", health.model_errors, "conversation", since, "is-wait",
         "A model call failed and is tried again. Look at the key, the quota and the provider."),
        ("Kept decisions", health.kept, "conversation", "", "is-bad",
         "Somebody decided, and no worker has taken it. It counts when one does."),
        ("Overdue waits", health.overdue, "conversation", "", "is-bad",
         "A deadline has passed and nothing has acted on it. Start a worker."),
    )  # fmt: skip
    for name, count, noun, when, colour, why in rows:
        words = joined("none" if not count else counted(count, noun), f" {when}" if when else "")
        is_unsure = not health.is_whole and name == "Kept decisions" and not count
        if is_unsure:
            yield Fact(name, "not known yet: not each conversation was looked at", "is-quiet")
        else:
            yield Fact(name, words, colour if count else "is-ok", why if count else "")


def summary_of(facts: list[Fact]) -> Fact:
    """Return the line that matters most, and how many more there are."""
    for colour in ("is-bad", "is-wait", "is-quiet"):
        found = [one for one in facts if one.colour == colour]
        if found:
            more = f"; {len(found) - 1} more" if len(found) > 1 else ""
            return Fact("", f"{found[0].name}: {found[0].words}{more}", colour)
    return Fact("", "All well")
