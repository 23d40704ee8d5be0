"""How the installation is: one look for everybody, and what is not known is said to be so."""

from typing import Any

import pytest

from outlast.agents.errors import ServerUnavailable
from outlast.monitor.counts import Counts
from outlast.monitor.health import Health, QueueHealth
from outlast.serve import health_feed
from outlast.serve.health_feed import HealthFeed
from outlast.serve.pages.system import facts_of, summary_of

HOUR = 3_600_000
CLIENT: Any = None


class Source:
    """Counts, and says how often it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reported: Health | Exception | None = None
        self.asked = self.counted = 0
        self.now = 1_000_000
        monkeypatch.setattr(health_feed, "reported_health", self._report)
        monkeypatch.setattr(health_feed, "NamespaceReader", self._made)
        monkeypatch.setattr(health_feed, "now_ms", lambda: self.now)

    def _made(self, *_: Any, **__: Any) -> "Source":
        return self

    async def _report(self, _client: Any) -> Health | None:
        self.asked += 1
        if isinstance(self.reported, Exception):
            raise self.reported
        return self.reported

    async def count(self) -> Counts:
        self.counted += 1
        return Counts(at_ms=self.now)


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    return Source(monkeypatch)


async def test_many_readers_share_one_look(source: Source) -> None:
    feed = HealthFeed()
    for _ in range(20):
        async with feed.reader(CLIENT, None) as reader:
            assert (await anext(reader))[0].answers
    assert (source.asked, source.counted) == (1, 1)
    await feed.close()


async def test_what_the_monitor_says_goes_before_counting(source: Source) -> None:
    feed = HealthFeed()
    source.reported = Health(at_ms=5, kept=2)
    assert await feed.look(CLIENT) == (source.reported,)
    assert source.counted == 0


async def test_a_desk_counts_at_most_every_15_seconds(source: Source) -> None:
    feed = HealthFeed()
    for later in (0, 5_000, 9_999, 1, 5_000):
        source.now += later
        await feed.look(CLIENT)
    assert source.counted == 2


async def test_a_server_that_does_not_answer_is_said_and_ends_nothing(source: Source) -> None:
    feed = HealthFeed()
    source.reported = ServerUnavailable("away")
    assert (await feed.look(CLIENT))[0].answers is False
    source.reported = None
    assert (await feed.look(CLIENT))[0].answers


# --- Words ---------------------------------------------------------------------------------------


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
