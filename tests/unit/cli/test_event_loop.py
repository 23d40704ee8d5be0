import asyncio
import sys

import pytest
import uvloop

from outlast.cli.event_loop import run


async def kind_of_loop() -> type[asyncio.AbstractEventLoop]:
    return type(asyncio.get_running_loop())


def test_a_worker_runs_on_uvloop_where_it_is_installed() -> None:
    assert run(kind_of_loop()) is uvloop.Loop


def test_a_worker_runs_on_asyncios_loop_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert not issubclass(run(kind_of_loop()), uvloop.Loop)
