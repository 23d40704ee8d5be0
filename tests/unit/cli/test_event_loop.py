import asyncio
import gc
import sys
import time

import pytest
import uvloop

from outlast.cli.event_loop import keep_loaded, run


async def kind_of_loop() -> type[asyncio.AbstractEventLoop]:
    return type(asyncio.get_running_loop())


def test_a_worker_runs_on_uvloop_where_it_is_installed() -> None:
    assert run(kind_of_loop()) is uvloop.Loop


def test_a_worker_runs_on_asyncios_loop_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert not issubclass(run(kind_of_loop()), uvloop.Loop)


def test_what_was_loaded_is_not_gone_through_again() -> None:
    gc.collect()
    began = time.process_time()
    gc.collect()
    whole = time.process_time() - began
    keep_loaded()
    try:
        began = time.process_time()
        gc.collect()
        assert time.process_time() - began < whole / 4
    finally:
        gc.unfreeze()
