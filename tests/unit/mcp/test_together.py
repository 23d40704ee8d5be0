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
    assert "'last' could not be let go" in caplog.text
