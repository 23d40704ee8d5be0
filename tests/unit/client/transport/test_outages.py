"""Outages: what passes is waited for, as long as the caller allows, and no longer."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.errors import ServerUnavailable, UserError
from outlast.client.transport import outages
from outlast.client.transport.outages import (
    PATIENCE,
    Outage,
    is_gone,
    is_transient,
    patience_of,
    retry_during_outage,
    watched,
)
from tests.unit.client.recorded import FakeClient, refused

HERE: Any = FakeClient()
AWAY = refused(RPCStatusCode.UNAVAILABLE, "transport error")


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outages, "WAITS_SECONDS", (0,))
    monkeypatch.delenv("OUTLAST_PATIENCE_SECONDS", raising=False)


class Server:
    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)

    async def call(self) -> Any:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_a_call_outlasts_an_outage() -> None:
    assert (
        await retry_during_outage(HERE, Server(AWAY, AWAY, AWAY, "here").call, PATIENCE) == "here"
    )


async def test_a_refusal_that_will_not_pass_is_raised_at_once() -> None:
    with pytest.raises(RPCError, match="gone"):
        await retry_during_outage(
            HERE, Server(AWAY, refused(RPCStatusCode.NOT_FOUND, "gone")).call, PATIENCE
        )


async def test_an_outage_that_takes_too_long_is_a_server_that_is_unavailable() -> None:
    with pytest.raises(ServerUnavailable, match="does not answer: transport error") as raised:
        await retry_during_outage(HERE, Server(AWAY).call, timedelta(0))
    assert raised.value.__cause__ is AWAY


async def test_an_outage_begins_with_the_call_that_failed() -> None:
    calls: list[str] = []

    async def call() -> None:
        calls.append("call")
        await asyncio.sleep(0.05)  # the engine's client repeats a call for some time by itself
        raise AWAY

    with pytest.raises(ServerUnavailable, match=r"has not answered for 0.04 s.*PATIENCE_SECONDS"):
        await retry_during_outage(HERE, call, timedelta(seconds=0.04))
    assert calls == ["call"]


class Pinged:
    """A client of a server that answers pings, and long polls only after that.

    Args:
        answers: what it answers to each ping; when there is no more, the long poll is answered.
    """

    def __init__(self, *answers: Exception | None) -> None:
        self.workflow_service = self
        self.pings = 0
        self.is_cancelled = False
        self._answers = list(answers)
        self._news = asyncio.Event()

    async def get_system_info(self, _request: Any, *, timeout: timedelta) -> None:  # noqa: ASYNC109  the client's
        assert timeout < timedelta(seconds=10)
        self.pings += 1
        answer = self._answers.pop(0)
        if not self._answers:
            self._news.set()
        if answer is not None:
            raise answer

    async def poll(self) -> str:
        try:
            await self._news.wait()
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise
        return "news"


QUIET = refused(RPCStatusCode.CANCELLED, "Timeout expired")


@pytest.mark.parametrize(
    "answers",
    [
        (None,),
        (None, None, None),
        (AWAY, QUIET, None, AWAY, None),
        (refused(RPCStatusCode.PERMISSION_DENIED), refused(RPCStatusCode.RESOURCE_EXHAUSTED)),
    ],
)
async def test_a_reader_without_news_asks_whether_the_server_is_there(
    answers: tuple[Exception | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outages, "QUIET_SECONDS", 0.0)
    server: Any = Pinged(*answers)
    assert await watched(server, server.poll(), Outage(PATIENCE)) == "news"
    assert server.pings == len(answers)
    assert not is_gone(server)


async def test_readers_of_a_client_ask_together() -> None:
    server: Any = Pinged(None)
    polls = [watched(server, server.poll(), Outage(PATIENCE)) for _ in range(20)]
    reading = asyncio.gather(*polls)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outages, "QUIET_SECONDS", 0.2)
        assert await reading == ["news"] * 20
    assert server.pings == 1


async def test_a_server_that_never_says_anything_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outages, "QUIET_SECONDS", 0.0)
    server: Any = Pinged(*[QUIET] * 1_000_000)
    with pytest.raises(ServerUnavailable, match="Timeout expired"):
        await watched(server, server.poll(), Outage(timedelta(seconds=0.05)))
    await asyncio.sleep(0)
    assert server.is_cancelled
    assert is_gone(server)
    back: Any = Pinged(None)
    server.get_system_info, server.poll = back.get_system_info, back.poll
    assert await watched(server, server.poll(), Outage(PATIENCE)) == "news"
    assert not is_gone(server)


async def test_a_long_outage_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert await retry_during_outage(HERE, Server(AWAY, AWAY, "here").call, PATIENCE) == "here"
    assert caplog.messages == []
    monkeypatch.setattr(outages, "SILENT_SECONDS", 0.0)
    assert (
        await retry_during_outage(HERE, Server(AWAY, AWAY, AWAY, "here").call, PATIENCE) == "here"
    )
    (line,) = caplog.messages
    assert line.startswith("The Temporal server does not answer: transport error; waiting for it")


async def test_all_callers_of_a_client_log_an_outage_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(outages, "SILENT_SECONDS", 0.0)
    server: Any = Pinged(None)
    callers = [Outage(PATIENCE, server) for _ in range(20)]
    for _ in range(2):
        caplog.clear()
        await asyncio.gather(*(one.wait(AWAY) for one in callers for _ in range(3)))
        assert len(caplog.messages) == 1
        callers[7].is_over()


async def test_an_answer_ends_an_outage() -> None:
    outage = Outage(timedelta(seconds=0.01))
    for _ in range(3):
        await outage.wait(AWAY)
        outage.is_over()


async def test_a_call_that_worked_for_long_ends_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outages, "LONGEST_CALL_IN_OUTAGE_SECONDS", -1.0)
    outage = Outage(timedelta(seconds=0.0001))
    for _ in range(100):
        await outage.wait(AWAY)


@pytest.mark.parametrize(
    ("status", "message", "passing"),
    [
        (RPCStatusCode.UNAVAILABLE, "x", True),
        (RPCStatusCode.UNKNOWN, "transport error", True),
        (RPCStatusCode.RESOURCE_EXHAUSTED, "busy", True),
        (RPCStatusCode.RESOURCE_EXHAUSTED, "received message larger than max", False),
        (RPCStatusCode.NOT_FOUND, "x", False),
        (RPCStatusCode.INVALID_ARGUMENT, "x", False),
        (RPCStatusCode.FAILED_PRECONDITION, "x", False),
        (RPCStatusCode.PERMISSION_DENIED, "x", False),
    ],
)
def test_what_passes(status: RPCStatusCode, message: str, *, passing: bool) -> None:
    assert is_transient(refused(status, message)) is passing


def test_patience_is_as_given_or_as_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    assert patience_of(None) == PATIENCE
    monkeypatch.setenv("OUTLAST_PATIENCE_SECONDS", "1.5")
    assert patience_of(None) == timedelta(seconds=1.5)
    assert patience_of(timedelta(hours=1)) == timedelta(hours=1)


@pytest.mark.parametrize("given", [5, "x", timedelta(seconds=-1)])
def test_patience_that_is_no_duration_is_refused(given: Any) -> None:
    with pytest.raises(UserError, match="patience="):
        patience_of(given)


@pytest.mark.parametrize("text", ["soon", "1e400"])
def test_an_environment_that_makes_no_sense_is_named(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_PATIENCE_SECONDS", text)
    with pytest.raises(UserError, match="OUTLAST_PATIENCE_SECONDS"):
        patience_of(None)
