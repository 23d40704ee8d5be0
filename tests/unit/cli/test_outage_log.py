"""An outage of the server is one line of a worker, and another one when it is over."""

import asyncio
import logging
from typing import Any

import pytest
from temporalio.service import RPCError, RPCStatusCode

from outlast.cli import outage_log
from outlast.cli.outage_log import CORE, OutageLog
from tests.eventually import eventually


class Server:
    """A client of a server, which may be away."""

    def __init__(self, *, is_away: bool) -> None:
        self.is_away = is_away

    @property
    def workflow_service(self) -> "Server":
        return self

    @property
    def service_client(self) -> Any:
        class At:
            config = type("Config", (), {"target_host": "temporal:7233"})

        return At

    async def get_system_info(self, *_: object, **_more: object) -> None:
        if self.is_away:
            raise RPCError("tcp connect error", RPCStatusCode.UNAVAILABLE, b"")


def record(name: str) -> logging.LogRecord:
    return logging.LogRecord(name, logging.WARNING, "", 0, "gRPC call retried 6 times", None, None)


RETRY = record(f"{CORE}-sdk_core::temporalio_client::retry")


async def say(server: Server, lines: int) -> None:
    log = OutageLog()
    watched: Any = server
    log.watch(watched)
    assert not any([await asyncio.to_thread(log.filter, RETRY) for _ in range(lines)])
    await asyncio.sleep(0)
    server.is_away = False
    await eventually(lambda: not log.is_watching())


async def test_an_outage_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(outage_log, "_ASKS_SECONDS", 0.0)
    await say(Server(is_away=True), lines=430)
    first, last = " ".join(capsys.readouterr().err.split()).split("warning: ")[1:]
    assert first.startswith(
        "The Temporal server at temporal:7233 does not answer: tcp connect error."
    )
    assert last.startswith("The Temporal server at temporal:7233 answers again, after ")


async def test_a_moment_is_not_said(capsys: pytest.CaptureFixture[str]) -> None:
    await say(Server(is_away=False), lines=3)
    assert capsys.readouterr().err == ""


async def test_other_lines_of_the_core_stay() -> None:
    assert OutageLog().filter(record(f"{CORE}-sdk_core::temporalio_sdk_core::worker"))
