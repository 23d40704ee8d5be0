"""An `async def` that blocks the event loop: nobody's call is repeated, and the log names it."""

import asyncio
import logging
import threading
import time
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import Client

from outlast.activities.heartbeats import engine_heartbeat
from outlast.activities.heartbeats.fallback_poller import fits_sdk
from outlast.activities.heartbeats.heartbeats import heartbeats
from outlast.agents.agent import Agent
from outlast.agents.config.run_config import RunConfig
from outlast.agents.tools.function_tool import function_tool
from outlast.testing import ScriptedModel, call, say
from tests.workflow.desk import Desk

CONFIG = RunConfig(heartbeat_timeout=timedelta(seconds=4))
"""The engine hears of an attempt every second, so three more may pass on a machine that stalls."""

BLOCKED_SECONDS = 9.0
"""More than twice as long as a worker may be silent in these runs."""


async def test_a_blocked_loop_repeats_nobodys_call_and_is_warned_of_once(
    desk: Desk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    calls: Counter[str] = Counter()
    monkeypatch.setattr(heartbeats, "_warned", set[Any]())
    others_run, blocked = asyncio.Event(), asyncio.Event()

    @function_tool
    async def blocker() -> str:
        """Block the loop, as a call of a synchronous package does."""
        calls["blocker"] += 1
        await others_run.wait()
        time.sleep(BLOCKED_SECONDS)  # noqa: ASYNC251  this is it
        blocked.set()
        return "done"

    @function_tool
    async def other(n: int) -> str:
        """Wait as one should."""
        calls[f"other {n}"] += 1
        if sum(name.startswith("other") for name in calls) == 5:
            others_run.set()
        await blocked.wait()
        return "done"

    @function_tool
    def in_thread(n: int) -> str:
        """Run beside the loop."""
        calls[f"thread {n}"] += 1
        return "done"

    def reply(request: Any) -> Any:
        question = str(request.input[0]["content"])
        calls[f"model {question} {len(request.input)}"] += 1
        if len(request.input) > 1:
            return say("Done.")
        if question == "block":
            return [call("blocker", "c0")]
        return [call("other", "c1", n=int(question)), call("in_thread", "c2", n=int(question))]

    agent = Agent(name="Clerk", tools=[blocker, other, in_thread])
    model = ScriptedModel(always=reply)
    await desk.open(agent, model=model)
    with caplog.at_level(logging.WARNING, "outlast"):
        results = await asyncio.gather(
            *(desk.run(agent, question, run_config=CONFIG) for question in ["block", *"12345"])
        )
    assert [result.final_output for result in results] == ["Done."] * 6
    assert set(calls.values()) == {1}, calls
    warnings = [text for text in caplog.messages if "blocks the event loop" in text]
    assert len(warnings) == 1, warnings
    assert "blocker blocks the event loop (test_blocked_loop.py:" in warnings[0]
    assert f"in tool:blocker of {desk.ids[0]}" in warnings[0]
    assert "Write `def` instead of `async def`" in warnings[0]


async def test_what_arrives_while_a_loop_is_blocked_waits_and_keeps_its_attempts(desk: Desk):
    is_blocked = threading.Event()

    @function_tool
    async def blocker() -> str:
        """Block the loop."""
        is_blocked.set()
        time.sleep(BLOCKED_SECONDS)  # noqa: ASYNC251  this is it
        return "done"

    def reply(request: Any) -> Any:
        first = request.input[0]["content"] == "block" and len(request.input) == 1
        return [call("blocker", "c0")] if first else say("Done.")

    agent = Agent(name="Clerk", tools=[blocker])
    await desk.open_effects(agent, model=ScriptedModel(always=reply))

    async def elsewhere() -> list[int]:
        """Carry the runs where nothing blocks; return how often each effect was begun."""
        client = await Client.connect(desk.client.service_client.config.target_host)
        other = Desk(client, cached=desk.cached)
        other.queue = desk.queue
        await other.open_workflows(agent)
        blocked = asyncio.create_task(other.run(agent, "block", run_config=CONFIG))
        await asyncio.to_thread(is_blocked.wait)
        runs = [other.run(agent, f"{n}", run_config=CONFIG) for n in range(5)]
        results = await asyncio.gather(blocked, *runs)
        assert [result.final_output for result in results] == ["Done."] * 6
        attempts = [
            event.activity_task_started_event_attributes.attempt
            for run_id in other.ids
            async for event in client.get_workflow_handle(run_id).fetch_history_events()
            if event.HasField("activity_task_started_event_attributes")
        ]
        await other.close_all()
        return attempts

    attempts = await asyncio.to_thread(asyncio.run, elsewhere())
    # One may be on its way between the worker's core and the loop when the loop is blocked.
    assert sorted(attempts)[:-1] == [1] * (len(attempts) - 1), attempts
    assert max(attempts) <= 2, attempts


LONGER_THAN_A_TASK_SECONDS = 12.0
"""The server gives a workflow task up after ten seconds, and a local activity runs inside one."""


@pytest.mark.parametrize("kind", ["fast"])
async def test_a_fast_call_that_blocks_the_loop_is_made_once(desk: Desk, kind: str):
    """Its workflow task is lost, and the next one asks for the same call."""
    calls: Counter[int] = Counter()

    async def look(number: int) -> str:
        """Look, and block the loop for number 9."""
        calls[number] += 1
        if number == 9:
            time.sleep(LONGER_THAN_A_TASK_SECONDS)  # noqa: ASYNC251  this is it
        return "seen"

    is_read = kind == "read"
    tool = function_tool(look, effect="read") if is_read else function_tool(look, fast=True)

    def reply(request: Any) -> Any:
        question, turn = str(request.input[0]["content"]), len(request.input) // 2
        if turn < 4:  # a tool is short after three short calls
            return [call("look", f"c{turn}", number=0)]
        return [call("look", "c4", number=9)] if question == "block" and turn == 4 else say("Done.")

    agent = Agent(name="Clerk", tools=[tool])
    await desk.open(agent, model=ScriptedModel(always=reply))
    began = time.monotonic()
    results = await asyncio.gather(*(desk.run(agent, one) for one in ["block", *"1234"]))
    took = time.monotonic() - began
    assert [result.final_output for result in results] == ["Done."] * 5
    assert calls[9] == 1
    assert took < 2 * LONGER_THAN_A_TASK_SECONDS + 10, "one block, and what a loaded machine adds"


@pytest.mark.smoke
async def test_the_sdk_still_takes_heartbeats_from_any_thread(desk: Desk):
    """Should an upgrade of the SDK end this, heartbeats would stop with a blocked loop again."""
    found: list[bool] = []

    @function_tool
    async def look() -> str:
        """Look for the way to the engine's core."""
        worker = engine_heartbeat._activity_worker()
        found.append(engine_heartbeat._recorder(worker) is not None)
        found.append(not engine_heartbeat._encodes(worker))
        found.append(fits_sdk(worker))
        return "done"

    agent = Agent(name="Clerk", tools=[look])
    await desk.open(agent, model=ScriptedModel([call("look", "c1")], "Done."))
    await desk.run(agent, "look")
    assert found == [True, True, True]
