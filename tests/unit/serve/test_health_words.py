"""How the installation is, in words: what is not known is said to be so."""

from outlast.monitor.health import Health, QueueHealth
from outlast.serve.health_words import facts_of, summary_of

HOUR = 3_600_000


def lines(health: Health | None) -> dict[str, tuple[str, str]]:
    return {one.name: (one.words, one.colour) for one in facts_of(health)}


def test_what_is_not_known_is_not_said_to_be_well() -> None:
    assert lines(None) == {"Temporal server": ("not known yet", "is-quiet")}
    assert summary_of(facts_of(None)).words == "Temporal server: not known yet"
    away = lines(Health(at_ms=1, answers=False, kept=0))
    assert away == {"Temporal server": ("does not answer", "is-bad")}
    partly = lines(Health(at_ms=HOUR, is_whole=False))
    assert partly["Kept decisions"][1] == "is-quiet"
    early = lines(Health(at_ms=2 * HOUR, since_ms=2 * HOUR - 300_000))["Model errors"]
    assert early == ("none seen in the last 5 min, and not noted before", "is-ok")


def test_each_trouble_has_its_words() -> None:
    queues = (
        QueueHealth(name="a", workers=2, versions={"desk:1": 1, "desk:2": 1}),
        QueueHealth(name="b", workers=0, tasks=1, age_seconds=30),
        QueueHealth(name="c", workers=1, tasks=4, age_seconds=300),
    )
    health = Health(at_ms=HOUR, queues=queues, model_errors=1, kept=2, overdue=3)
    assert lines(health) == {
        "Temporal server": ("answers", "is-ok"),
        "Queue a": ("2 workers (desk:1: 1, desk:2: 1)", "is-ok"),
        "Queue b": ("0 workers, 1 task waiting, the oldest for 30 s", "is-bad"),
        "Queue c": ("1 worker, 4 tasks waiting, the oldest for 5 min", "is-wait"),
        "Model errors": ("1 conversation seen in the last hour", "is-wait"),
        "Kept decisions": ("2 conversations", "is-bad"),
        "Overdue waits": ("3 conversations", "is-bad"),
    }
    found = summary_of(facts_of(health))
    assert found.words == "Queue b: 0 workers, 1 task waiting, the oldest for 30 s; 2 more"
    assert summary_of(facts_of(Health(at_ms=HOUR))).words == "All well"
