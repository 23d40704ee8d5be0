"""One connection, held by a task of its own."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

import anyio
import pytest

from outlast.mcp.connection import Connection, OpeningTimeoutError, first_cause

WHO = ContextVar("WHO", default="nobody")


class Line:
    """Opens clients, and notes what happens.

    Attributes:
        steps: what happened.
        opens: set when a client may be given out.
        breaks: set when the transport is to break.
    """

    def __init__(self, error: Exception | None = None) -> None:
        self.steps: list[str] = []
        self.opens = asyncio.Event()
        self.breaks = asyncio.Event()
        self.opens.set()
        self._error = error

    @contextlib.asynccontextmanager
    async def open_client(self) -> AsyncGenerator[Any]:
        self.steps.append(f"open for {WHO.get()}")
        task = asyncio.current_task()
        try:
            async with anyio.create_task_group() as group:
                await self.opens.wait()
                if self._error is not None:
                    raise self._error
                group.start_soon(self._break)
                yield "client"
                group.cancel_scope.cancel()
        finally:
            assert asyncio.current_task() is task
            self.steps.append("closed")

    async def _break(self) -> None:
        await self.breaks.wait()
        raise ConnectionError("cable")


def connect(line: Line, patience: timedelta = timedelta(seconds=20)) -> Connection:
    return Connection(line.open_client, name="shelf", patience=patience)


async def test_all_share_one_client_that_belongs_to_nobody() -> None:
    line = Line()
    WHO.set("me")
    connection = connect(line)
    async with connection.client() as first, connection.client() as second:
        assert first == second == "client"
        assert connection.is_in_use
    assert not connection.is_in_use
    assert not connection.is_over
    await connection.close()
    assert connection.is_over
    assert line.steps == ["open for nobody", "closed"]


async def test_it_is_entered_and_left_in_one_task_whoever_uses_it() -> None:
    line = Line()
    connection = connect(line)

    async def use() -> None:
        async with connection.client():
            pass

    await asyncio.create_task(use())
    await asyncio.create_task(connection.close())
    assert line.steps[-1] == "closed"


async def test_what_keeps_it_from_opening_is_told_to_all_who_wait() -> None:
    line = Line(OSError("no such port"))
    line.opens.clear()
    connection = connect(line)

    async def use() -> None:
        async with connection.client():
            raise AssertionError("there is no client")

    waiting = [asyncio.create_task(use()) for _ in range(2)]
    await asyncio.sleep(0)
    line.opens.set()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [repr(one) for one in outcomes] == ["OSError('no such port')"] * 2
    await connection.close()
    assert connection.is_over


async def test_patience_ends() -> None:
    line = Line()
    line.opens.clear()
    connection = connect(line, timedelta(milliseconds=1))
    with pytest.raises(OpeningTimeoutError, match=r"'shelf' did not answer within 0.001 s"):
        async with connection.client():
            pass
    assert connection.is_over
    await connection.close()


async def test_patience_ends_also_where_nobody_waits_any_more() -> None:
    line = Line()
    line.opens.clear()
    connection = connect(line, timedelta(milliseconds=500))
    with pytest.raises(OpeningTimeoutError, match=r"within 0.001 s"):
        async with connection.client(0.001):
            pass
    async with asyncio.timeout(20):
        while not connection.is_over:  # noqa: ASYNC110  it tells nobody
            await asyncio.sleep(0.01)
    await connection.close()
    assert line.steps[-1] == "closed"


async def test_who_waits_no_longer_leaves_it_to_open_for_the_next() -> None:
    line = Line()
    line.opens.clear()
    connection = connect(line)
    with pytest.raises(OpeningTimeoutError, match=r"'shelf' did not answer within 0.001 s"):
        async with connection.client(0.001):
            pass
    assert not connection.is_over
    line.opens.set()
    async with connection.client() as client:
        assert client == "client"
    await connection.close()


async def test_who_is_cancelled_while_it_opens_leaves_it_to_the_others() -> None:
    line = Line()
    line.opens.clear()
    connection = connect(line)

    async def use() -> str:
        async with connection.client() as client:
            return client

    one, other = asyncio.create_task(use()), asyncio.create_task(use())
    await asyncio.sleep(0)
    one.cancel()
    await asyncio.wait([one])
    line.opens.set()
    assert one.cancelled()
    assert await other == "client"
    await connection.close()


async def test_one_that_broke_is_over(caplog: pytest.LogCaptureFixture) -> None:
    line = Line()
    connection = connect(line)
    async with connection.client():
        line.breaks.set()
        async with asyncio.timeout(20):
            while not connection.is_over:  # noqa: ASYNC110  it tells nobody
                await asyncio.sleep(0)
    assert "'shelf' ended: ConnectionError('cable')" in caplog.text
    await connection.close()


async def test_closing_while_it_opens_is_told_to_who_waits() -> None:
    line = Line()
    line.opens.clear()
    connection = connect(line)

    async def use() -> None:
        async with connection.client():
            pass

    waiting = asyncio.create_task(use())
    await asyncio.sleep(0)
    await connection.close()
    with pytest.raises(ConnectionError, match="was closed"):
        await waiting


async def test_one_that_is_given_up_before_it_begins_tells_who_waits() -> None:
    connection = connect(Line())
    connection.abort()
    with pytest.raises(ConnectionError, match="was closed"):
        async with connection.client():
            raise AssertionError
    await connection.close()


def test_the_first_cause_is_at_the_bottom() -> None:
    cause = ValueError("x")
    assert first_cause(ExceptionGroup("a", [ExceptionGroup("b", [cause])])) is cause
    assert isinstance(first_cause(BaseExceptionGroup("a", [KeyboardInterrupt()])), ConnectionError)
