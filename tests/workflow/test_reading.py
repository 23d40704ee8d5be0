"""Reading runs: from their first event or from now on, by many readers, while things go wrong."""

import asyncio
from typing import Any

import pytest
from temporalio.client import WorkflowHistoryEventAsyncIterator
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.agents.tools.function_tool import function_tool
from outlast.client.read.history import HistoryReader
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, say
from outlast.views.run import loop_state
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.replies import last_user_text
from tests.workflow.test_resets import reset, task_ends

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
    assert told[-1].state == loop_state(await handle.state())


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


def echo(request: ModelRequest) -> Any:
    return say(f"You said: {last_user_text(request)}")


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the records that were decoded, in order."""
    found: list[int] = []
    read = HistoryReader._read

    async def noted(reader: HistoryReader, event: Any) -> None:
        found.append(event.event_id)
        await read(reader, event)

    monkeypatch.setattr(HistoryReader, "_read", noted)
    return found


async def test_waits_for_answers_read_each_record_once(desk: Desk, decoded: list[int]):
    both_sent = asyncio.Event()

    async def answer_when_both_are_sent(request: ModelRequest) -> Any:
        if last_user_text(request) == "first":
            await both_sent.wait()  # a handle knows no message that came after its last answer
        return echo(request)

    await desk.open(AGENT, model=ScriptedModel(always=answer_when_both_are_sent))
    handle = await desk.start(AGENT, "message 0", keep_open=True)
    for number in range(1, 10):
        answer = await (await handle.send(f"message {number}")).answer()
        assert answer.final_output == f"You said: message {number}"
    assert decoded == sorted(set(decoded))
    both = [await handle.send("first"), await handle.send("second", mode="queue")]
    both_sent.set()
    for one in (*both, both[0]):
        assert (await one.answer()).final_output
    assert decoded == sorted(set(decoded))
    at_once = [await handle.send(f"at once {number}", mode="queue") for number in range(5)]
    answers = await asyncio.gather(*(one.answer() for one in at_once))
    assert all(one.final_output.startswith("You said: at once") for one in answers)
    await handle.cancel("after_turn")
    assert (await at_once[0].answer()).final_output == answers[0].final_output


async def test_a_wait_for_a_message_that_was_withdrawn_long_ago_ends(desk: Desk):
    @function_tool(needs_approval=True)
    async def refund(order: str) -> str:
        return f"refunded {order}"

    agent = Agent(name="Clerk", tools=[refund])
    model = ScriptedModel([call("refund", "c1", order="A")], "Done.", "Two.")
    await desk.open(agent, model=model)
    handle = await desk.start(agent, keep_open=True)
    await handle.wait_for_people()
    gone, other = await handle.send("1", mode="queue"), await handle.send("2", mode="queue")
    await gone.withdraw()
    await handle.approve("a1")
    async with asyncio.timeout(PATIENCE_SECONDS):
        await other.answer()
        with pytest.raises(UserError, match="was withdrawn"):
            await gone.answer()
    await handle.cancel("after_turn")


async def test_a_wait_reads_the_history_that_a_reset_began(desk: Desk):
    await desk.open(AGENT, model=ScriptedModel(always=echo))
    handle = await desk.start(AGENT, "message 0", keep_open=True)
    await (await handle.send("message 1")).answer()
    execution, [*_, last] = await task_ends(desk, handle)
    await reset(desk, handle, execution, last)
    answer = await (await handle.send("message 2")).answer()
    assert answer.final_output == "You said: message 2"
    assert (await desk.workflow(handle).describe()).run_id != execution
    await handle.cancel("after_turn")
