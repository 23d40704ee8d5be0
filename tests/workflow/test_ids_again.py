"""An id that another run uses later: a handle stays on the run that it was made for."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import (
    Client,
    Interceptor,
    OutboundInterceptor,
    WorkflowHistoryEventFilterType,
)

from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import ModelCallFailed, RunClosed
from outlast.agents.tools.function_tool import function_tool
from outlast.archive import Archive
from outlast.client.handle import RunHandle, progress_of
from outlast.client.start.runner import Runner
from outlast.ports.model import ModelError, ModelRequest
from outlast.testing import ScriptedModel, call, say
from outlast.views.run import snapshot_of
from tests.workflow.desk import Desk
from tests.workflow.replies import last_user_text
from tests.workflow.test_archive import SOON, archived, taken_by_retention

HELPER = Agent[Any](name="Helper")


def echo(request: ModelRequest) -> Any:
    return say(f"{last_user_text(request)}!")


def saying() -> ScriptedModel:
    return ScriptedModel(*[echo] * 20)


class AtTheEnd(Interceptor):
    """Does something once, after the server has said that a run is closed."""

    def __init__(self, then: Callable[[], Awaitable[Any]]) -> None:
        self._then = [then]

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002
        then = self._then

        class Held(OutboundInterceptor):
            def fetch_workflow_history_events(self, input: Any) -> Any:  # noqa: A002
                found: Any = self.next.fetch_workflow_history_events(input)
                if input.event_filter_type is WorkflowHistoryEventFilterType.CLOSE_EVENT:
                    fetch = found.fetch_next_page

                    async def held(**options: Any) -> None:
                        await fetch(**options)
                        if found.current_page and then:
                            await then.pop()()

                    found.fetch_next_page = held
                return found

        return Held(next)


async def another(desk: Desk, run_id: str, asked: str = "B") -> RunHandle:
    """Start another customer's run with the id of one that has ended."""
    return await desk.start(HELPER, asked, id=run_id, keep_open=True)


async def ended(desk: Desk) -> RunHandle:
    """Return a handle on a run that has answered and ended, whose id another run uses."""
    handle = await desk.start(HELPER, "A")
    await desk.result(handle)
    other = await another(desk, handle.id)
    await desk.until_status(other, "idle")
    return handle


async def test_a_run_that_begins_between_the_end_and_the_reading_is_not_read(desk: Desk):
    await desk.open(HELPER, model=saying())
    run_id = desk.new_id()
    began: list[RunHandle] = []

    async def begin() -> None:
        began.append(await another(desk, run_id))

    options = desk.client.config(active_config=True)
    options["interceptors"] = [*options["interceptors"], AtTheEnd(begin)]
    options["plugins"] = []
    slow = Client(**options)
    handle = await Runner.start(HELPER, "A", client=slow, task_queue=desk.queue, id=run_id)
    result = await desk.result(handle)
    assert began
    assert (result.final_output, result.status) == ("A!", "completed")


@pytest.mark.parametrize("attached", [False, True])
async def test_every_way_to_read_a_handle_reads_its_own_run(desk: Desk, attached: bool):
    await desk.open(HELPER, model=saying())
    handle = await desk.start(HELPER, "A")
    if attached:
        handle = await Runner.attach(handle.id, client=desk.client)
    await desk.result(handle)
    events = [event async for event in handle.stream_events()]
    await desk.until_status(await another(desk, handle.id), "idle")
    reads: list[Callable[[], Awaitable[Any]]] = [
        handle.result,
        handle.wait_for_people,
        lambda: handle.wait(lambda _: False),
        lambda: handle.wait_for_answer("start"),
    ]
    for read in reads:
        assert (await read()).final_output == "A!"
    state = await handle.state()
    assert state.outcome == "completed"
    assert [event async for event in handle.stream_events()] == events
    assert [snapshot_of(progress.state) async for progress in progress_of(handle)][-1] == state
    assert [progress.state async for progress in handle.past()][-1] == state
    states = [one async for one in handle.stream_states()]
    assert states
    assert (await handle.present())[0] == state
    assert await handle.approvals() == ()
    assert await handle.pending_waits() == ()
    assert (await handle.check()).run_id == handle.first_execution_id
    newest = await Runner.attach(handle.id, client=desk.client)
    assert (await newest.wait_for_people()).final_output == "B!"


@pytest.mark.parametrize(
    "way", ["send", "cancel", "after_turn", "approve", "retry", "say", "signal"]
)
async def test_nothing_that_is_sent_through_a_handle_reaches_a_later_run(desk: Desk, way: str):
    await desk.open(HELPER, model=saying())
    handle = await ended(desk)
    newest = await Runner.attach(handle.id, client=desk.client)
    before = await newest.state()
    ways: dict[str, Callable[[], Awaitable[Any]]] = {
        "send": lambda: handle.send("For A only."),
        "cancel": handle.cancel,
        "after_turn": lambda: handle.cancel("after_turn"),
        "approve": lambda: handle.approve("a1", by="ann"),
        "say": lambda: handle.say("Hello.", by="ann"),
        "retry": handle.retry,
        "signal": lambda: handle.claim("a1", by="ann"),
    }
    async with asyncio.timeout(20):
        with pytest.raises(Exception) as raised:  # noqa: PT011
            await ways[way]()
    if way != "retry":  # it had not failed
        assert isinstance(raised.value, RunClosed), raised.value
    assert await newest.state() == before


async def test_a_failed_run_whose_id_is_used_again_is_not_reset(desk: Desk):
    lost = ModelError("No.", code="invalid_request", retryable=False)
    await desk.open(HELPER, model=ScriptedModel(lost, *[echo] * 9))
    handle = await desk.start(HELPER, "A")
    with pytest.raises(ModelCallFailed):
        await desk.result(handle)
    other = await another(desk, handle.id)
    await desk.until_status(other, "idle")
    with pytest.raises(RunClosed, match="another run uses its id now"):
        await handle.retry()
    assert (await other.state()).status == "idle"
    with pytest.raises(ModelCallFailed):
        await handle.result()


async def test_a_run_is_followed_through_its_histories_and_no_further(desk: Desk):
    await desk.open(HELPER, model=saying())
    short = await desk.start_short(HELPER, "A", keep_open=True, events=12)
    handle = await Runner.attach(short.id, client=desk.client)
    await handle.wait_for_answer("start")
    for number in range(3):
        await (await handle.send(f"{number}?")).answer()
    message = await handle.send("3?")
    assert (await message.answer()).final_output == "3?!"
    assert len(await desk.all_events(handle)) > 2
    await handle.cancel("after_turn")
    result = await desk.result(handle)
    await desk.until_status(await another(desk, handle.id), "idle")
    assert await handle.result() == result
    assert (await message.answer()).final_output == "3?!"
    assert len(result.snapshot.answers) == 5
    with pytest.raises(RunClosed):
        await handle.send("More?")
    with pytest.raises(RunClosed):
        await handle.cancel("after_turn")


async def test_a_run_is_followed_through_a_reset(desk: Desk):
    lost = ModelError("No.", code="invalid_request", retryable=False)
    await desk.open(HELPER, model=ScriptedModel(lost, *[echo] * 9))
    handle = await desk.start(HELPER, "A")
    with pytest.raises(ModelCallFailed):
        await desk.result(handle)
    await handle.retry()
    assert (await desk.result(handle)).final_output == "A!"
    await desk.until_status(await another(desk, handle.id), "idle")
    assert (await handle.result()).final_output == "A!"
    assert (await handle.state()).outcome == "completed"


async def test_a_result_of_a_run_that_was_streamed_stays_on_its_run(desk: Desk):
    @function_tool
    async def wait(context: ToolContext[Any]) -> str:
        entered.set()
        await proceed.wait()
        return "done"

    entered, proceed = asyncio.Event(), asyncio.Event()
    agent = Agent[Any](name="Helper", tools=[wait])
    await desk.open(agent, model=ScriptedModel([call("wait", "c1")], *[echo] * 5))
    stream = desk.stream(agent, "A")

    async def read() -> AsyncGenerator[str]:
        async for event in stream.stream_events():
            yield event.type

    reading = read()
    await anext(reading)
    await entered.wait()
    handle = await Runner.attach(stream.run_id, client=desk.client)
    await handle.cancel()
    proceed.set()
    with pytest.raises(Exception, match="cancelled"):
        await handle.result()
    other = await another(desk, handle.id)
    await desk.until_status(other, "idle")
    with pytest.raises(Exception, match="cancelled"):
        async for _ in reading:
            pass
    assert (await other.state()).status == "idle"


async def test_a_run_that_only_the_archive_has_is_read_from_there(desk: Desk, tmp_path: Path):
    archive = Archive(tmp_path, every=SOON)
    await desk.open(HELPER, model=saying(), archive=archive)
    short = await desk.start_short(HELPER, "A", keep_open=True, events=12)
    handle = await Runner.attach(short.id, client=desk.client)
    await (await handle.send("More?")).answer()
    await handle.cancel("after_turn")
    result = await desk.result(handle)
    entries = await archived(archive, handle, len(await desk.all_events(handle)))
    await desk.until_status(await another(desk, handle.id), "idle")
    await taken_by_retention(desk.client, entries)
    assert await handle.result() == result
    assert (await handle.state()) == result.snapshot
    assert [one.state async for one in handle.past()][-1] == result.snapshot
    with pytest.raises(RunClosed):
        await handle.send("And more?")
