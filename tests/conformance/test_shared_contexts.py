"""The context of calls that run beside each other: nothing that one of them did is lost."""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pytest

import outlast
from outlast import Agent, RunContextWrapper, RunHooks, function_tool
from outlast.testing import ScriptedModel, call
from tests.conformance.executors import PATIENCE_SECONDS, Executor, also_on_server, row, soon
from tests.conformance.views import outputs


@dataclass
class Desk:
    """What two tools of a reply work on."""

    processed: int = 0
    costs: float = 0.0
    status: str = "new"
    log: str = ""
    open_: list[str] = field(default_factory=lambda: ["a", "b", "c", "d"])
    sizes: dict[str, int] = field(default_factory=dict[str, int])


class Rendezvous:
    """Lets calls meet in the middle: each has read the context before any of them goes on."""

    def __init__(self, calls: int) -> None:
        self._missing = calls
        self._all = asyncio.Event()

    async def meet(self) -> None:
        self._missing -= 1
        if self._missing <= 0:
            self._all.set()
        await soon(self._all)


@pytest.mark.smoke
@row(54)
async def test_calls_of_a_reply_that_run_beside_each_other_share_the_context(
    executor: Executor,
) -> None:
    """As the mails of a program that counts what it has processed."""
    meeting = Rendezvous(4)

    @function_tool
    async def process(ctx: RunContextWrapper[Desk], name: str) -> str:
        await meeting.meet()
        desk = ctx.context
        desk.processed += 1
        desk.costs += 0.5
        desk.log += f"{name} "
        desk.open_.remove(name)
        desk.sizes[name] = len(desk.open_)
        return f"{desk.processed} of 4"

    names = ["a", "b", "c", "d"]
    model = ScriptedModel([call("process", f"c_{name}", name=name) for name in names], "done")
    agent = Agent(name="A", tools=[process])
    await executor.execute(agent, model=model, context=(desk := Desk()))
    assert sorted(outputs(model.requests[1]).values()) == [f"{n} of 4" for n in (1, 2, 3, 4)]
    assert (desk.processed, desk.costs, desk.open_) == (4, 2.0, [])
    assert sorted(desk.log.split()) == names
    assert sorted(desk.sizes.values()) == [0, 1, 2, 3]


@row(54)
async def test_a_sync_tool_shares_the_context(executor: Executor) -> None:
    @function_tool
    def count(ctx: RunContextWrapper[Desk]) -> str:
        ctx.context.processed += 1
        return "counted"

    model = ScriptedModel([call("count", "c1"), call("count", "c2"), call("count", "c3")], "done")
    await executor.execute(Agent(name="A", tools=[count]), model=model, context=(desk := Desk()))
    assert desk.processed == 3


@row(54)
async def test_of_two_calls_that_set_one_field_the_one_that_did_it_last_counts(
    executor: Executor,
) -> None:
    has_set = asyncio.Event()

    @function_tool
    async def late(ctx: RunContextWrapper[Desk]) -> str:
        await soon(has_set)
        ctx.context.status += ", late"
        return "late"

    @function_tool
    async def early(ctx: RunContextWrapper[Desk]) -> str:
        ctx.context.status = "early"
        has_set.set()
        return "early"

    model = ScriptedModel([call("late", "c1"), call("early", "c2")], "done")
    agent = Agent(name="A", tools=[late, early])
    await executor.execute(agent, model=model, context=(desk := Desk()))
    assert desk.status == "early, late"


@row(54)
async def test_a_call_that_failed_beside_another_loses_nothing_of_the_other(
    executor: Executor,
) -> None:
    meeting = Rendezvous(2)
    failed = asyncio.Event()

    class Counting(RunHooks[Desk]):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            context.context.processed += 1

        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            context.context.processed += 10
            if tool.name == "broken":
                failed.set()

    @function_tool
    async def broken() -> str:
        await meeting.meet()
        raise OSError("down")

    @function_tool
    async def count(ctx: RunContextWrapper[Desk]) -> str:
        await meeting.meet()
        ctx.context.processed += 100
        await soon(failed)
        ctx.context.open_.append("e")
        return "counted"

    model = ScriptedModel([call("broken", "c1"), call("count", "c2")], "done")
    agent = Agent(name="A", tools=[broken, count])
    await executor.execute(agent, model=model, context=(desk := Desk()), hooks=Counting())
    assert desk.processed == 122
    assert desk.open_ == ["a", "b", "c", "d", "e"]


@row(54)
async def test_a_call_may_set_another_context_beside_others(executor: Executor) -> None:
    meeting = Rendezvous(2)

    @function_tool
    async def renew(ctx: RunContextWrapper[Desk]) -> str:
        await meeting.meet()
        ctx.context = Desk(processed=ctx.context.processed + 10, status="renewed")
        return "renewed"

    @function_tool
    async def count(ctx: RunContextWrapper[Desk]) -> str:
        await meeting.meet()
        ctx.context.processed += 1
        return "counted"

    for order in (["renew", "count"], ["count", "renew"]):
        meeting = Rendezvous(2)
        model = ScriptedModel([call(name, f"c_{name}") for name in order], "done")
        agent = Agent(name="A", tools=[renew, count])
        await executor.execute(agent, model=model, context=(desk := Desk()))
        assert (desk.processed, desk.status) == (11, "renewed")


@also_on_server
@row(54)
async def test_agents_as_tools_of_one_reply_lose_nothing(executor: Executor) -> None:
    meeting = Rendezvous(3)

    @function_tool
    async def count(ctx: RunContextWrapper[Desk], name: str) -> str:
        await meeting.meet()
        ctx.context.processed += 1
        ctx.context.open_.remove(name)
        ctx.context.sizes[name] = 1
        return "counted"

    def one(name: str) -> Agent[Desk]:
        model = ScriptedModel([call("count", "n1", name=name)], "Counted.")
        return Agent(name=f"Counter {name}", tools=[count], model=model)

    tools = [one(name).as_tool(f"ask_{name}", "Ask.") for name in "ab"]
    reply = [call("ask_a", "c1", input="?"), call("count", "c2", name="c")]
    model = ScriptedModel([*reply, call("ask_b", "c3", input="?")], "done")
    outer = Agent(name="Desk", tools=[*tools, count], model=model)
    await executor.execute(outer, model=model, context=(desk := Desk()))
    assert (desk.processed, desk.open_) == (3, ["d"])
    assert desk.sizes == {"a": 1, "b": 1, "c": 1}


@also_on_server
@row(54)
async def test_a_reader_of_a_stream_sees_changes_when_they_are_recorded(
    executor: Executor,
) -> None:
    seen_by_reader = asyncio.Event()

    @function_tool
    async def count(ctx: RunContextWrapper[Desk]) -> str:
        if ctx.context.processed:
            await soon(seen_by_reader)
        ctx.context.processed += 1
        return "counted"

    model = ScriptedModel([call("count", "c1")], [call("count", "c2")], "done")
    agent, desk = Agent(name="A", tools=[count]), Desk()
    result = await executor.stream(agent, model=model, context=desk)
    counts: list[int] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for event in result.stream_events():
            if getattr(event, "name", "") == "tool_output":
                counts.append(desk.processed)
                seen_by_reader.set()
    assert counts == [1, 2]


@row(54)
async def test_the_next_reply_starts_from_what_is_recorded(executor: Executor) -> None:
    @function_tool
    async def count(ctx: outlast.ToolContext[dict[str, Any]]) -> int:
        ctx.context["n"] += 1
        return ctx.context["n"]

    replies = deque([[call("count", f"c{turn}{at}") for at in range(2)] for turn in range(3)])
    model = ScriptedModel(*replies, "done")
    context = {"n": 0}
    await executor.execute(Agent(name="A", tools=[count]), model=model, context=context)
    assert context == {"n": 6}
    assert sorted(outputs(model.requests[3]).values()) == ["1", "2", "3", "4", "5", "6"]
