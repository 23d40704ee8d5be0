"""Digests: what waits at the moment, once in a period, with ids that a restart keeps."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from outlast.agents.errors import UserError
from outlast.notifications import digest as digest_module
from outlast.notifications.digest import Digest
from outlast.notifications.texts import digest_headline, digest_lines
from outlast.notifications.webhook import Webhook, verify_webhook
from outlast.ports.notifier import DigestNotice, DigestNotifier, Notification, NotifierRejected
from tests.unit.notifications.hostile import CREATED
from tests.unit.notifications.receiver import receiving
from tests.unit.notifications.runs import REFUND, Runs

HOUR = timedelta(hours=1)
SECRET = "a secret of the desk"


class Collector(DigestNotifier):
    """A notifier that keeps digests, after some failures."""

    name = "collector"

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.digests: list[DigestNotice] = []
        self.calls = 0

    async def notify(self, notice: Notification) -> None:
        raise AssertionError

    async def notify_digest(self, digest: DigestNotice) -> None:
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)
        self.digests.append(digest)


class Clock:
    """A clock that sleeping turns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, now: float, most: int = 20) -> None:
        self.now = now
        self.sleeps: list[float] = []
        self._most = most
        sleep: Callable[[float], Any] = asyncio.sleep
        self._sleep = sleep
        monkeypatch.setattr(digest_module.time, "time", lambda: self.now)
        monkeypatch.setattr(digest_module.asyncio, "sleep", self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds
        if len(self.sleeps) > self._most:
            raise asyncio.CancelledError
        await self._sleep(0)


async def ticks(digest: Digest) -> None:
    with pytest.raises(asyncio.CancelledError):
        await digest.run()


async def test_a_digest_has_every_pending_request() -> None:
    runs = Runs(REFUND, replace(REFUND, id="a2"), replace(REFUND, id="a3", status="rejected"))
    collector = Collector()
    sent = await Digest(collector, runs, every=HOUR).send(7)
    assert sent is not None
    assert sent == collector.digests[0]
    assert sent.id == "digest/3600s/7"
    assert [(one.run_id, one.request_id) for one in sent.pending] == [
        ("support-42", "a1"),
        ("support-42", "a2"),
    ]


async def test_a_digest_of_nothing_is_not_sent() -> None:
    collector = Collector()
    runs = Runs(replace(REFUND, status="approved"))
    assert await Digest(collector, runs, every=HOUR).send(7) is None
    assert collector.calls == 0


async def test_a_digest_comes_at_the_end_of_each_period(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch, now=3_600 * 10 + 1_800, most=3)
    collector = Collector()
    await ticks(Digest(collector, Runs(), every=HOUR))
    assert [one.id for one in collector.digests] == [f"digest/3600s/{at}" for at in (11, 12, 13)]
    assert [one.at_ms for one in collector.digests] == [at * 3_600_000 for at in (11, 12, 13)]


async def test_a_restart_does_not_shift_the_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    ids: list[str] = []
    for started in (36_001, 39_599.5):
        Clock(monkeypatch, now=started, most=1)
        collector = Collector()
        await ticks(Digest(collector, Runs(), every=HOUR))
        ids.append(collector.digests[0].id)
        monkeypatch.undo()
    assert ids == ["digest/3600s/11"] * 2


async def test_a_clock_that_jumps_sends_one_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, now=36_000, most=2)
    collector = Collector()
    digest = Digest(collector, Runs(), every=HOUR)
    send = digest.send

    async def send_and_sleep(number: int) -> DigestNotice | None:
        sent = await send(number)
        clock.now += 10 * 3_600  # the machine was suspended
        return sent

    monkeypatch.setattr(digest, "send", send_and_sleep)
    await ticks(digest)
    assert [one.id for one in collector.digests] == ["digest/3600s/11", "digest/3600s/22"]


async def test_a_digest_that_fails_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch, now=36_000, most=4)
    collector = Collector(ConnectionError("down"), ConnectionError("down"))
    await ticks(Digest(collector, Runs(), every=HOUR))
    assert [one.id for one in collector.digests] == ["digest/3600s/11", "digest/3600s/12"]


async def test_a_digest_is_given_up_and_the_next_one_sent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Clock(monkeypatch, now=36_000, most=7)
    failures = [ConnectionError("down")] * digest_module.ATTEMPTS
    collector = Collector(*failures)
    await ticks(Digest(collector, Runs(), every=HOUR))
    assert [one.id for one in collector.digests] == ["digest/3600s/12"]
    assert "A digest was not sent by collector: down" in caplog.text


async def test_a_refused_digest_is_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch, now=36_000, most=2)
    collector = Collector(NotifierRejected("no"))
    await ticks(Digest(collector, Runs(), every=HOUR))
    assert collector.calls == 2


async def test_a_list_that_cannot_be_read_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch, now=36_000, most=3)
    runs = Runs()
    runs.failure = ConnectionError("no server")
    collector = Collector()
    digest = Digest(collector, runs, every=HOUR)
    await ticks(digest)
    assert collector.calls == 0
    runs.failure = None
    assert await digest.send(12) is not None


async def test_a_webhook_gets_digests_too() -> None:
    async with receiving() as receiver:
        await Digest(Webhook(receiver.url, SECRET), Runs(), every=HOUR).send(7)
    data = verify_webhook(receiver.bodies[0], receiver.headers[0], SECRET)
    assert (data["event"], data["id"]) == ("digest", "digest/3600s/7")
    assert data["pending"][0]["request_id"] == "a1"


@pytest.mark.parametrize("every", [3600, None, timedelta(seconds=59), timedelta(hours=-1)])
def test_a_period_is_at_least_a_minute(every: Any) -> None:
    with pytest.raises(UserError, match="every= must be a timedelta of at least a minute"):
        Digest(Collector(), Runs(), every=every)


def test_the_most_urgent_request_comes_first() -> None:
    never, late, soon = (
        replace(CREATED, request_id=name, due_at_ms=due)
        for name, due in (("never", None), ("late", 9_000_000), ("soon", 1_000_000))
    )
    lines = [one.text for one in digest_lines((never, late, soon))]
    assert [line.split(",")[1].rpartition(" ")[2] for line in lines] == ["soon", "late", "never"]
    assert digest_headline((never,)) == "1 request waits for a decision"
