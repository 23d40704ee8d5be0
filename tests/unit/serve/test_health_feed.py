"""How the installation is: one look for everybody, and what is not known is said to be so."""

from typing import Any

import pytest

from outlast.agents.errors import ServerUnavailable
from outlast.monitor.counts import Counts
from outlast.monitor.health import Health
from outlast.serve import health_feed
from outlast.serve.health_feed import HealthFeed

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
