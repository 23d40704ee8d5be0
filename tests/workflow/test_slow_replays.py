"""Replays that take longer than the SDK waits for a step: the run goes on, and the worker stops."""

import asyncio
import logging
import threading
import time
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.tools.function_tool import function_tool
from outlast.contract import history
from outlast.testing import ScriptedModel, call
from tests.workflow.desk import Desk, waits_for

CALLS = 20
SLOW_SECONDS = 2.5
"""More than a step may take."""

DEADLOCK = "Potential deadlock"
SECONDS_TO_STOP = 30


@pytest.mark.timeout(90)
async def test_a_worker_stops_after_a_replay_that_took_too_long(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """The SDK never evicts a workflow that has lost the wake-up of a task."""
    answered, in_replay = history.answered, list[int]()

    def slowly(*arguments: Any, **options: Any) -> Any:
        # Readers of the history are in the main thread, and replays in others.
        if threading.current_thread() is not threading.main_thread():
            in_replay.append(1)
            if DEADLOCK not in caplog.text:
                time.sleep(SLOW_SECONDS)
        return answered(*arguments, **options)

    @function_tool
    async def look(number: int) -> str:
        return f"{number}"

    @function_tool(needs_approval=True)
    async def sign() -> str:
        return "signed"

    looks = [call("look", f"c{number}", number=number) for number in range(CALLS)]
    model = ScriptedModel([*looks, call("sign", "s1")], "Done.")
    agent = Agent[Any](name="Reader", tools=[look, sign])
    worker = await desk.open(agent, model=model)
    handle = await desk.start(agent, "Go")
    await desk.until(handle, waits_for(1))
    await desk.until(handle, lambda state: len(state.items) > CALLS)
    await desk.close(worker)

    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(history, "answered", slowly)
    worker = await desk.open(agent, model=model)
    await handle.approve("a1")
    assert (await desk.result(handle)).final_output == "Done."
    assert in_replay
    assert DEADLOCK in caplog.text
    async with asyncio.timeout(SECONDS_TO_STOP):
        await desk.close(worker)
