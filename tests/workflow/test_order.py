"""Many things arrive in one workflow task; the fold takes them in the workflow's own order.

Effects run on one worker and workflows on another. While the second is away, everything that
arrives waits on the server, and is delivered at once when it comes back.
"""

import asyncio
import random
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.tools.definition import (
    FunctionTool,
)
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle, progress_of
from outlast.contract import names
from outlast.loop.state import LoopState
from outlast.testing import ScriptedModel, call, say
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.replies import last_user_text, outputs

TOOLS = 3
APPROVALS = 3


class Doors:
    """Tools that end when the test lets them."""

    def __init__(self) -> None:
        self.doors = [asyncio.Event() for _ in range(TOOLS)]
        self.tool: FunctionTool = function_tool(self.wait, name_override="wait")
        self.broken: FunctionTool = function_tool(self.fail, name_override="fail", retry=1)

    async def wait(self, ctx: RunContextWrapper[Any], door: int) -> str:
        await self.doors[door].wait()
        ctx.context = {**(ctx.context or {}), f"door{door}": door}
        return f"through {door}"

    async def fail(self, door: int) -> str:
        await self.doors[door].wait()
        raise OSError("stuck")


@function_tool(needs_approval=True)
async def refund(ctx: RunContextWrapper[Any], order: int) -> str:
    ctx.context = {**(ctx.context or {}), "refund": order}
    return f"refunded {order}"


@function_tool(fast=True)
async def glance(ctx: RunContextWrapper[Any], at: int) -> str:
    ctx.context = {**(ctx.context or {}), "glance": at}
    return f"saw {at}"


def reply_to(request: Any) -> Any:
    """Ask for everything at first, then glance at it twice, then answer."""
    done = outputs(request)
    if not done:
        waits = [call("fail" if one == 1 else "wait", f"w{one}", door=one) for one in range(TOOLS)]
        gated = [call("refund", f"r{one}", order=one) for one in range(APPROVALS)]
        return [waits[0], gated[0], call("glance", "g1", at=1), *waits[1:], *gated[1:]]
    if "g2" not in done:
        return [call("glance", "g2", at=2), call("glance", "g3", at=3)]
    return say(f"{len(done)} outputs, {last_user_text(request)}")


async def _arrive(desk: Desk, handle: RunHandle, doors: Doors, what: str) -> list[Any]:
    """Let one thing arrive at the server; return what is to be awaited once workflows run."""
    workflow = desk.workflow(handle)
    kind, _, number = what.partition(" ")
    match kind:
        case "door":
            before = len(await desk.event_types(handle))
            doors.doors[int(number)].set()
            async with asyncio.timeout(PATIENCE_SECONDS):
                while len(await desk.event_types(handle)) == before:  # noqa: ASYNC110  elsewhere
                    await asyncio.sleep(0.01)
        case "approve" | "reject":
            decision = {"request_id": f"a{number}", "type": kind, "by": "signal"}
            await workflow.signal("decide", decision)
        case "noise":
            await workflow.signal("noise", number)
        case "stop":
            await workflow.signal(names.SIGNAL_CANCEL, {"mode": "after_turn"})
        case "cancel":
            await workflow.cancel()
        case "send":
            return [handle.send(f"message {number}", message_id=f"m{number}")]
        case "decide":
            return [handle.approve(f"a{number}", by="update")]
        case _:
            raise AssertionError(what)
    return []


async def _play(desk: Desk, arrivals: list[str], *, keep_open: bool = True) -> LoopState:
    doors = Doors()
    agent = Agent(name="Clerk", tools=[doors.tool, doors.broken, refund, glance])
    model = ScriptedModel(always=reply_to)
    await desk.open_effects(agent, model=model)
    workflows = await desk.open_workflows(agent)
    handle = await desk.start(agent, keep_open=keep_open)
    await desk.until(handle, lambda state: len(state.pending) == TOOLS and bool(state.approvals))
    await desk.close(workflows)
    later: list[asyncio.Task[Any]] = []
    for what in arrivals:
        later.extend(asyncio.ensure_future(one) for one in await _arrive(desk, handle, doors, what))
    await asyncio.sleep(0.05 if later else 0)  # nothing tells when an update has reached the server
    await desk.open_workflows(agent)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.gather(*later, return_exceptions=True)
        for door in doors.doors:
            door.set()
    return await desk.settled(handle)


ALL = [
    *(f"door {one}" for one in range(TOOLS)),
    "approve 1",
    "reject 2",
    "decide 3",
    "decide 1",
    "send 1",
    "send 2",
    "noise 1",
]


@pytest.mark.smoke
@pytest.mark.replayed
async def test_results_and_a_native_cancel_in_one_task(desk: Desk):
    state = await _play(desk, ["cancel", "door 0"])
    assert state.outcome == "cancelled"


@pytest.mark.replayed
@pytest.mark.parametrize("seed", range(4))
async def test_any_order_of_arrivals_folds_to_the_workflows_own_state(desk: Desk, seed: int):
    chance = random.Random(seed)
    extras = chance.sample(["cancel", "stop", "noise 2", "approve 9"], k=seed % 3)
    arrivals = chance.sample(ALL, k=chance.randint(4, len(ALL))) + extras
    chance.shuffle(arrivals)
    await _play(desk, arrivals, keep_open=seed % 2 == 0)


@pytest.mark.smoke
async def test_a_busy_run_folds_to_the_workflows_own_state(desk: Desk):
    """Nothing is held back here: things arrive whenever they arrive."""
    turns = 3

    @function_tool
    async def work(ctx: RunContextWrapper[Any], part: str, milliseconds: int) -> str:
        await asyncio.sleep(milliseconds / 1000)
        ctx.context = {**(ctx.context or {}), part: milliseconds}
        return part

    chance = random.Random(7)

    def reply(request: Any) -> Any:
        turn = len(outputs(request)) // 7
        if turn >= turns:
            return say(f"{turn} turns, {last_user_text(request)}")
        works = [
            call("work", f"w{turn}{n}", part=f"p{n}", milliseconds=chance.randint(0, 40))
            for n in range(3)
        ]
        gated = [call("refund", f"r{turn}{n}", order=n) for n in range(2)]
        glances = [call("glance", f"g{turn}{n}", at=n) for n in range(2)]
        calls = [*works, *gated, *glances]
        return chance.sample(calls, k=len(calls))

    agent = Agent(name="Clerk", tools=[work, refund, glance])
    await desk.open(agent, model=ScriptedModel(always=reply))
    handle = await desk.start(agent, keep_open=True)
    workflow = desk.workflow(handle)

    async def talk(who: int) -> None:
        for number in range(4):
            await handle.send(f"{who} says {number}", message_id=f"m{who}-{number}")
            await workflow.signal("noise", number)

    async def decide() -> None:
        decided: set[str] = set()
        async for progress in progress_of(handle):
            for request in progress.state.pending_approvals:
                if request.id not in decided:
                    decided.add(request.id)
                    decision = {"request_id": request.id, "type": "approve"}
                    await workflow.signal("decide", decision)
            if progress.state.status == "idle" and len(decided) == 2 * turns:
                return

    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.gather(decide(), *(talk(who) for who in range(3)))
    state = await desk.settled(handle)
    answered = [message for answer in state.answers for message in answer.to]
    assert sorted(answered) == sorted(["start", *(f"m{w}-{n}" for w in range(3) for n in range(4))])
    assert [request.status for request in state.approvals] == ["approved"] * 2 * turns


async def test_a_cancel_is_not_lost_where_the_history_would_be_continued(desk: Desk):
    agent = Agent(name="Clerk", tools=[refund])
    model = ScriptedModel([call("refund", "c1", order=1)], always="Done.")
    await desk.open_effects(agent, model=model)
    workflows = await desk.open_workflows(agent)
    handle = await desk.start_record(
        agent="Clerk", input="Hello", settings={"roll_over_events": 20}
    )
    await desk.until_status(handle, "waiting")
    await desk.close(workflows)
    for number in range(10):
        await desk.workflow(handle).signal("noise", number)
    await desk.workflow(handle).cancel()
    await desk.open_workflows(agent)
    assert (await desk.settled(handle)).outcome == "cancelled"


async def test_a_run_that_fails_stops_its_fast_tools_too(desk: Desk):
    @function_tool(fast=True, retry=1, failure_error_function=None)
    async def broken() -> str:
        raise OSError("no database")

    @function_tool(fast=True)
    async def slow() -> str:
        await asyncio.Event().wait()
        return "never"

    agent = Agent(name="Clerk", tools=[broken, slow])
    model = ScriptedModel([call("slow", "c1"), call("broken", "c2")], "Here again.")
    await desk.open(agent, model=model)
    handle = await desk.start(agent, keep_open=True)
    state = await desk.settled(handle)
    assert state.failure is not None
    assert state.failure.code == "tool_failed"
    result = await (await handle.send("Are you there?")).answer()
    assert result.final_output == "Here again."
