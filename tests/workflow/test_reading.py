"""Reading runs: from their first event or from now on, by many readers, while things go wrong."""

import asyncio
from typing import Any

import pytest
from temporalio.client import WorkflowHistoryEventAsyncIterator
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.agent import Agent
from outlast.agents.tools.function_tool import function_tool
from outlast.testing import ScriptedModel, call
from tests.workflow.desk import PATIENCE_SECONDS, Desk

AGENT = Agent[Any](name="Helper")


@pytest.mark.smoke
async def test_a_reader_that_loses_its_place_finds_it_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    """The server refuses a page's token after its own view of the history has moved."""
    await desk.open(AGENT, model=ScriptedModel(always="Yes."))
    handle = await desk.start(AGENT, keep_open=True)
    whole = WorkflowHistoryEventAsyncIterator.fetch_next_page
    pages = 0

    async def fetch_next_page(events: Any, **options: Any) -> None:
        nonlocal pages
        pages += 1
        if events.next_page_token and pages % 2 == 0:
            raise RPCError("The branch tokens don't match.", RPCStatusCode.INVALID_ARGUMENT, b"")
        await whole(events, **options)

    monkeypatch.setattr(WorkflowHistoryEventAsyncIterator, "fetch_next_page", fetch_next_page)
    reading = asyncio.ensure_future(desk.progress(handle))
    for number in range(3):
        await (await handle.send(f"message {number}")).answer()
    await handle.cancel("after_turn")
    told = await reading
    assert pages > 4
    monkeypatch.undo()
    assert told == await desk.progress(handle)
    assert told[-1].state == await handle.state()


async def test_waiting_for_people_means_from_now_on(desk: Desk):
    @function_tool(needs_approval=True)
    async def refund(order: str) -> str:
        return f"refunded {order}"

    agent = Agent(name="Clerk", tools=[refund])
    again = asyncio.Event()

    async def second(_request: Any) -> Any:
        await again.wait()
        return [call("refund", "c2", order="B")]

    await desk.open(agent, model=ScriptedModel([call("refund", "c1", order="A")], second, "Done."))
    handle = await desk.start(agent)
    assert (await handle.wait_for_people()).interruptions[0].id == "a1"
    await handle.approve("a1")
    await desk.until(handle, lambda state: state.turns == 2)
    waiting = asyncio.ensure_future(handle.wait_for_people())
    again.set()
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert [one.id for one in (await waiting).interruptions] == ["a2"]
        await handle.approve("a2")
        assert (await handle.wait_for_people()).final_output == "Done."
        assert (await handle.wait_for_people()).status == "completed"
