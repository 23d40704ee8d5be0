"""Several MCP servers at once."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from outlast.mcp import MCPServerManager
from tests.mcp_servers import Shelf


class Broken(Shelf):
    """A server that cannot be reached, until it is mended."""

    is_mended = False

    async def connect(self) -> None:
        await super().connect()
        if not self.is_mended:
            raise ConnectionError("nobody there")


@pytest.mark.parametrize("parallel", [False, True])
async def test_those_that_cannot_be_reached_are_left_out(parallel: bool) -> None:
    good, bad = Shelf(name="good"), Broken(name="bad")
    async with MCPServerManager([bad, good, bad], connect_in_parallel=parallel) as servers:
        assert servers.all_servers == [bad, good]
        assert servers.active_servers == [good]
        assert servers.failed_servers == [bad]
        assert str(servers.errors[bad]) == "nobody there"
    assert good.steps == ["connect", "cleanup"]


async def test_those_that_failed_can_be_tried_again() -> None:
    good, bad = Shelf(), Broken()
    async with MCPServerManager([good, bad]) as servers:
        bad.is_mended = True
        assert await servers.reconnect() == [good, bad]
        assert good.steps == ["connect"]
        await servers.reconnect(failed_only=False)
        assert good.steps == ["connect", "cleanup", "connect"]


async def test_what_failed_half_way_is_let_go_before_it_is_tried_again() -> None:
    bad = Broken()
    async with MCPServerManager([bad]) as servers:
        await servers.reconnect()
        assert bad.steps == ["connect", "cleanup", "connect"]


async def test_those_that_are_let_go_are_not_given_to_agents() -> None:
    good, bad = Shelf(name="good"), Broken(name="bad")
    servers = MCPServerManager([good, bad])
    assert servers.active_servers == [good, bad]
    async with servers:
        assert servers.active_servers == [good]
    assert servers.active_servers == []
    strict = MCPServerManager([good, bad], strict=True)
    with pytest.raises(ConnectionError):
        await strict.connect_all()
    assert strict.active_servers == []


async def test_strictly_those_that_were_open_before_stay_so() -> None:
    good, bad, worse = Shelf(name="good"), Broken(name="bad"), Broken(name="worse")
    async with MCPServerManager([good, bad, worse]) as servers:
        servers.strict = True
        with pytest.raises(ConnectionError):
            await servers.connect_all()
        assert servers.active_servers == [good]
        bad.is_mended = True
        with pytest.raises(ConnectionError):
            await servers.reconnect()
        assert servers.active_servers == [good, bad]
        assert good.steps == ["connect"]


class Rooted(Shelf):
    """A server that has to be let go in the task that connected to it."""

    async def connect(self) -> None:
        await super().connect()
        self.task = asyncio.current_task()

    async def cleanup(self) -> None:
        assert asyncio.current_task() is self.task
        await super().cleanup()


@pytest.mark.parametrize("parallel", [False, True])
async def test_a_server_is_let_go_in_the_task_that_connected_to_it(parallel: bool) -> None:
    rooted = [Rooted(name="a"), Rooted(name="b")]
    async with MCPServerManager(rooted, connect_in_parallel=parallel) as servers:
        await servers.reconnect(failed_only=False)
    assert [one.steps for one in rooted] == [["connect", "cleanup"] * 2] * 2


async def test_who_waits_for_a_connection_in_vain_may_stop_waiting() -> None:
    slow = Shelf()
    begun = asyncio.Event()

    async def connect() -> None:
        begun.set()
        await asyncio.Event().wait()

    slow.connect = connect
    servers = MCPServerManager([slow], connect_timeout_seconds=None, connect_in_parallel=True)
    waiting = asyncio.create_task(servers.connect_all())
    await begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert slow.steps == ["cleanup"]


async def test_failed_ones_stay_where_that_is_wanted() -> None:
    bad = Broken()
    async with MCPServerManager([bad], drop_failed_servers=False) as servers:
        assert servers.active_servers == [bad]
        assert servers.failed_servers == [bad]


async def test_strictly_one_that_fails_is_an_error_and_all_are_let_go() -> None:
    good = Shelf()
    with pytest.raises(ConnectionError, match="nobody there"):
        await MCPServerManager([good, Broken()], strict=True).connect_all()
    assert good.steps == ["connect", "cleanup"]


def hanging(step: str) -> Callable[[], Any]:
    async def hang() -> None:
        await asyncio.Event().wait()

    hang.__name__ = step
    return hang


async def test_what_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Shelf()
    monkeypatch.setattr(slow, "connect", hanging("connect"))
    monkeypatch.setattr(slow, "cleanup", hanging("cleanup"))
    manager = MCPServerManager([slow], connect_timeout_seconds=0.001, cleanup_timeout_seconds=0.001)
    async with manager:
        assert manager.failed_servers == [slow]


async def test_one_that_cannot_be_let_go_does_not_keep_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> None:
        raise OSError("stuck")

    first, last = Shelf(name="first"), Shelf(name="last")
    monkeypatch.setattr(last, "cleanup", fail)
    async with MCPServerManager([first, last]):
        pass
    assert first.steps == ["connect", "cleanup"]
    assert "'last' could not be disconnected" in caplog.text


class Cancelling(Shelf):
    """A server whose own work is cancelled while it connects."""

    async def connect(self) -> None:
        await super().connect()
        raise asyncio.CancelledError


@pytest.mark.parametrize("parallel", [False, True])
async def test_a_connection_that_is_cancelled_by_itself_is_a_failed_one(parallel: bool) -> None:
    good, bad = Shelf(name="good"), Cancelling(name="bad")
    servers = MCPServerManager([bad, good], connect_in_parallel=parallel)
    assert await servers.connect_all() == [good]
    assert isinstance(servers.errors[bad], asyncio.CancelledError)
    await servers.cleanup_all()


@pytest.mark.parametrize("parallel", [False, True])
async def test_or_it_cancels_who_connects(parallel: bool) -> None:
    bad = Cancelling()
    servers = MCPServerManager([bad], suppress_cancelled_error=False, connect_in_parallel=parallel)
    with pytest.raises(asyncio.CancelledError):
        await servers.connect_all()
    assert bad.steps == ["connect", "cleanup"]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (0, ValueError),
        (-1.5, ValueError),
        (float("inf"), ValueError),
        (True, TypeError),
        ("1", TypeError),
    ],
)
@pytest.mark.parametrize("name", ["connect_timeout_seconds", "cleanup_timeout_seconds"])
def test_a_time_out_that_is_none_is_refused(name: str, value: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=name):
        MCPServerManager([], **{name: value})


class Fatal(BaseException):
    """An error that is no `Exception`, and ends the task that it is raised in."""


class Dying(Shelf):
    async def connect(self) -> None:
        await super().connect()
        raise Fatal


async def test_a_server_that_ends_its_task_does_not_hold_up_the_cleanup(
    caplog: pytest.LogCaptureFixture,
) -> None:
    good, bad = Shelf(name="good"), Dying(name="bad")
    servers = MCPServerManager([good, bad], connect_in_parallel=True)
    async with asyncio.timeout(30):
        with pytest.raises(Fatal):
            await servers.connect_all()
        await servers.cleanup_all()
    assert good.steps == ["connect", "cleanup"]
    assert "'bad' could not be disconnected" in caplog.text
