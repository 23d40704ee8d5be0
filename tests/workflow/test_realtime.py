"""Realtime sessions on a real server, with a scripted provider on a real WebSocket."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from outlast import (
    RunAlreadyStarted,
    RunConfig,
    RunContextWrapper,
    function_tool,
)
from outlast.client.handle import RunHandle
from outlast.loop.items import text_of
from outlast.loop.state import LoopState, line_of
from outlast.realtime import (
    RealtimeAgent,
    RealtimeRunner,
    RealtimeSession,
    RealtimeSessionEvent,
    realtime_handoff,
)
from outlast.realtime.port.model import RealtimeModelConfig
from outlast.realtime.scripted_server.server import ScriptedRealtimeServer
from outlast.testing import ScriptedModel, call
from tests.workflow.desk import Desk

ran: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


@function_tool
async def track(order: str) -> str:
    """Track an order."""
    ran.append(f"track {order}")
    return f"{order} is on its way"


@function_tool(needs_approval=True)
async def refund(context: RunContextWrapper[Any], order: str) -> str:
    """Pay an order back."""
    ran.append(f"refund {order}")
    return f"{order} is refunded"


def front() -> RealtimeAgent[Any]:
    orders = RealtimeAgent[Any]("Orders", instructions="You know orders.", tools=[track])
    front = RealtimeAgent[Any](
        "Front",
        instructions="You greet.",
        tools=[track, refund],
        handoffs=[realtime_handoff(orders)],
    )
    orders.handoffs.append(front)
    return front


class Caller:
    """A session under test, its events, and its run."""

    def __init__(self, session: RealtimeSession, desk: Desk) -> None:
        self.session = session
        self.events: list[RealtimeSessionEvent] = []
        self.handle = RunHandle(desk.client, session.id)
        self._desk = desk
        self._came = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for event in self.session:
            self.events.append(event)
            async with self._came:
                self._came.notify_all()

    def of(self, kind: str) -> list[Any]:
        return [event for event in self.events if event.type == kind]

    async def until(self, kind: str, count: int = 1) -> Any:
        async with asyncio.timeout(30), self._came:
            await self._came.wait_for(lambda: len(self.of(kind)) >= count)
        return self.of(kind)[-1]

    async def state(self, condition: Callable[[LoopState], object]) -> LoopState:
        return await self._desk.until(self.handle, lambda state: bool(condition(state)))

    async def answers(self, count: int) -> LoopState:
        return await self.state(lambda state: len(state.answers) >= count)

    async def end(self) -> None:
        await asyncio.wait_for(self._reading, 30)


@asynccontextmanager
async def calling(
    desk: Desk,
    server: ScriptedRealtimeServer,
    agent: RealtimeAgent[Any],
    run_id: str,
    *,
    call_id: str | None = None,
    run_config: RunConfig | None = None,
    customer: str | None = None,
    **options: Any,
) -> AsyncGenerator[Caller]:
    if run_id not in desk.ids:
        desk.ids.append(run_id)
    bound = RealtimeRunner.using(client=desk.client, task_queue=desk.queue)
    runner = bound(agent, label="phone call", **options)
    config = RealtimeModelConfig(url=server.url, api_key="none")
    if call_id is not None:
        config["call_id"] = call_id
    settings: dict[str, Any] = {"run_config": run_config, "customer": customer}
    async with await runner.run(id=run_id, model_config=config, **settings) as session:
        yield Caller(session, desk)


def transcript(state: LoopState) -> list[str]:
    return [
        f"{item.kind}: {text_of(item.raw)}"
        if item.kind in {"input", "message"}
        else f"{item.kind} {item.raw['call_id']}"
        for item in state.items
    ]


@pytest.mark.smoke
async def test_a_call_runs_tools_as_activities(desk: Desk) -> None:
    agent = front()
    await desk.open(agent)
    script = ([call("track", "c1", order="A-17")], "It is on its way.")
    async with (
        ScriptedRealtimeServer(*script) as server,
        calling(desk, server, agent, f"{desk.queue}-call") as caller,
    ):
        await caller.session.send_message("Where is A-17?")
        state = await caller.answers(1)
        assert transcript(state) == [
            "input: Where is A-17?",
            "tool_call c1",
            "tool_output c1",
            "message: It is on its way.",
        ]
        assert state.usage.total_tokens == 30
        assert ran == ["track A-17"]
        assert line_of(state) is not None
    state = await caller.state(lambda state: state.answers and line_of(state) is None)
    assert state.phase == "idle"


async def test_the_caller_hangs_up_while_a_refund_waits(desk: Desk) -> None:
    agent = front()
    model = ScriptedModel("Your money is back.")
    await desk.open(agent, model=model)
    run_id = f"{desk.queue}-call"
    async with ScriptedRealtimeServer([call("refund", "c1", order="A-17")]) as server:
        async with calling(desk, server, agent, run_id) as caller:
            await caller.session.send_message("I want my money back.")
            await caller.until("tool_approval_required")
        handle = await RealtimeRunner.using(client=desk.client).attach(run_id)
        [request] = await handle.approvals()
        await handle.approve(request.id, by="ann")
        state = await caller.answers(1)
    assert ran == ["refund A-17"]
    assert state.final_output == "Your money is back."
    sent = await handle.send("Thank you")
    del sent
    assert len(model.requests) >= 1


async def test_a_line_that_dies_without_a_word_is_given_up(desk: Desk) -> None:
    agent = front()
    model = ScriptedModel("Your money is back.")
    await desk.open(agent, model=model)
    quick = RunConfig(heartbeat_timeout=timedelta(seconds=1))
    async with (
        ScriptedRealtimeServer([call("refund", "c1", order="A-17")]) as server,
        calling(desk, server, agent, f"{desk.queue}-call", run_config=quick) as caller,
    ):
        await caller.session.send_message("I want my money back.")
        await caller.until("tool_approval_required")
        await die(caller.session)
        await caller.handle.approve("a1", by="ann")
        state = await caller.answers(1)
    assert ran == ["refund A-17"]
    assert state.final_output == "Your money is back."


async def die(session: RealtimeSession) -> None:
    """End a line as the death of its process does: without a word to anybody."""
    line: Any = vars(session)["_line"]
    beating: asyncio.Task[None] = line._run._beating
    session.model.remove_listener(session)
    tasks = [beating, *line._tasks]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_another_process_goes_on_with_the_same_call(desk: Desk) -> None:
    agent = front()
    await desk.open(agent)
    run_id = f"{desk.queue}-call"
    async with ScriptedRealtimeServer(
        "Hello.", [call("refund", "c1", order="A-17")], "It is done.", always="?"
    ) as server:
        server.start_call("rtc_1")
        async with calling(desk, server, agent, run_id, call_id="rtc_1") as first:
            await server.call("rtc_1").user_says("Hi")
            await first.answers(1)
            await server.call("rtc_1").user_says("Refund A-17")
            await first.until("tool_approval_required")
        assert server.received("conversation.item.create") == []
        async with calling(desk, server, agent, run_id, call_id="rtc_1") as second:
            await second.until("tool_approval_required")
            await second.session.approve_tool_call("c1")
            state = await second.answers(2)
        items = server.call("rtc_1").conversation.items
    assert ran == ["refund A-17"]
    assert transcript(state)[-1] == "message: It is done."
    assert [item["type"] for item in items].count("function_call_output") == 1
    assert len(items) == 6, "nothing was sent twice"
    assert len(server.received("conversation.item.delete")) == 1, "the second looked for the last"


async def test_the_call_of_another_customer_is_not_joined(desk: Desk) -> None:
    agent = front()
    await desk.open(agent)
    run_id = f"{desk.queue}-call"
    async with ScriptedRealtimeServer("Hello.") as server:
        async with calling(desk, server, agent, run_id) as first:
            await first.session.send_message("Hi")
            await first.answers(1)
        with pytest.raises(RunAlreadyStarted, match="of another tenant or customer"):
            async with calling(desk, server, agent, run_id, customer="eve"):
                pass


async def test_a_new_session_has_the_conversation_and_what_is_pending(desk: Desk) -> None:
    agent = front()
    await desk.open(agent, model=ScriptedModel("Done, by text."))
    run_id = f"{desk.queue}-call"
    async with ScriptedRealtimeServer(
        "Hello.", [call("refund", "c1", order="A-17")], "It is done."
    ) as server:
        async with calling(desk, server, agent, run_id) as first:
            await first.session.send_message("Hi")
            await first.answers(1)
            await first.session.send_message("Refund A-17")
            await first.until("tool_approval_required")
        async with calling(desk, server, agent, run_id) as second:
            assert [item.type for item in second.session.history] == [
                *["message"] * 3,
                "function_call",
            ]
            await second.session.approve_tool_call("c1")
            state = await second.answers(2)
    assert ran == ["refund A-17"]
    assert transcript(state)[-2:] == ["tool_output c1", "message: It is done."]


@pytest.mark.parametrize("code", [1006])
async def test_a_lost_connection_goes_on_with_the_conversation(desk: Desk, code: int) -> None:
    agent = front()
    await desk.open(agent)
    async with ScriptedRealtimeServer(
        "Hello.", [call("track", "c1", order="A-17")], "Done."
    ) as server:
        async with calling(desk, server, agent, f"{desk.queue}-call") as caller:
            await caller.session.send_message("Hi")
            await caller.answers(1)
            server.close_after("response.done", code=code)
            await caller.session.send_message("Where is A-17?")
            state = await caller.answers(2)
        assert len(server.calls) == 2
    assert ran == ["track A-17"]
    assert transcript(state) == [
        "input: Hi",
        "message: Hello.",
        "input: Where is A-17?",
        "tool_call c1",
        "tool_output c1",
        "message: Done.",
    ]


async def test_a_call_without_an_id_ends_with_the_session(desk: Desk) -> None:
    agent = front()
    await desk.open(agent)
    async with ScriptedRealtimeServer("Hello.") as server:
        runner = RealtimeRunner.using(client=desk.client, task_queue=desk.queue)(agent)
        config = RealtimeModelConfig(url=server.url, api_key="none")
        async with await runner.run(model_config=config) as session:
            desk.ids.append(session.id)
            caller = Caller(session, desk)
            await session.send_message("Hi")
            await caller.answers(1)
        state = await caller.state(lambda state: state.outcome is not None)
    assert state.outcome == "completed"
