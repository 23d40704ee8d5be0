"""Cancelling: in every phase, at once or after the turn, and down to what is running."""

import asyncio
import threading
from datetime import timedelta
from typing import Any, get_args

import pytest
from temporalio.client import (
    Client,
    DescribeWorkflowInput,
    Interceptor,
    OutboundInterceptor,
    SignalWorkflowInput,
)
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.agent import Agent
from outlast.agents.config.run_config import RunConfig
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import RunCancelled, RunClosed, RunTerminated
from outlast.agents.handoffs.handoff import handoff
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.loop.actions import CancelMode
from outlast.loop.state import LoopState
from outlast.testing import ScriptedModel, call, say
from tests.workflow.desk import PATIENCE_SECONDS, Desk


class Clerk:
    """An agent that stands still in a phase, and notices when what it does there is cancelled.

    Attributes:
        started: an effect is running.
        cancelled: it was cancelled.
        release: lets it go on.
    """

    def __init__(self, phase: str) -> None:
        self.phase = phase
        self.started, self.cancelled, self.release = (asyncio.Event() for _ in range(3))
        work = function_tool(self._stand_still_as("acting"), name_override="work")
        gated = function_tool(
            self._stand_still_as("never"), name_override="gated", needs_approval=True
        )
        billing = handoff(Agent(name="Billing"), on_handoff=self._stand_still_as("transferring"))
        self.agent = Agent[Any](name="Clerk", tools=[work, gated], handoffs=[billing])
        self.model = ScriptedModel(self._reply, always="Done.")

    async def start(self, desk: Desk) -> tuple[RunHandle, LoopState]:
        """Start a run, and wait until it stands still."""
        await desk.open(self.agent, model=self.model)
        config = RunConfig(heartbeat_timeout=timedelta(seconds=2))
        handle = await desk.start(self.agent, keep_open=True, run_config=config)
        if self.phase in {"thinking", "acting", "transferring"}:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self.started.wait()
            return handle, await desk.until(handle, lambda state: state.phase == self.phase)
        return handle, await desk.until_status(handle, self.phase)

    async def _reply(self, _request: Any) -> Any:
        match self.phase:
            case "thinking":
                await self._stand_still()
            case "acting":
                return [call("work", "c1"), call("gated", "c2")]
            case "waiting":
                return [call("gated", "c1")]
            case "transferring":
                return [call("transfer_to_billing", "h1")]
            case _:
                pass
        return say("Done.")

    def _stand_still_as(self, phase: str) -> Any:
        async def stand_still(_ctx: RunContextWrapper[Any]) -> None:
            if self.phase == phase:
                await self._stand_still()

        return stand_still

    async def _stand_still(self) -> None:
        self.started.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


@pytest.mark.parametrize("phase", ["acting", "waiting"])
async def test_a_cancel_ends_the_run_at_once_in_every_phase(desk: Desk, phase: str):
    clerk = Clerk(phase)
    handle, before = await clerk.start(desk)
    await handle.cancel()
    with pytest.raises(RunCancelled) as caught:
        await desk.result(handle)
    assert caught.value.run_data.status == "cancelled"
    state = await handle.state()
    assert state.outcome == "cancelled"
    assert state.items[: len(before.items)] == before.items
    assert not state.pending_approvals
    outputs = [item.raw["output"] for item in state.items[len(before.items) :]]
    assert set(outputs) <= {"This call was cancelled and did not run to its end."}
    with pytest.raises(RunClosed):
        await handle.send("Hello?")


class LostAnswers(Interceptor):
    """Loses the answer to the first signal, after the run has ended of it."""

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002  the SDK's name
        return _LostAnswers(next)


class _LostAnswers(OutboundInterceptor):
    is_lost = False

    async def signal_workflow(self, input: SignalWorkflowInput) -> None:  # noqa: A002  the SDK's name
        await super().signal_workflow(input)
        if not self.is_lost:
            self.is_lost = True
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not await _has_ended(self.next, input.id):  # noqa: ASYNC110  the server makes it true
                    await asyncio.sleep(0.05)
            raise RPCError("the answer is lost", RPCStatusCode.UNAVAILABLE, b"")


async def _has_ended(client: OutboundInterceptor, run_id: str) -> bool:
    asked = DescribeWorkflowInput(run_id, None, rpc_metadata={}, rpc_timeout=None)
    return (await client.describe_workflow(asked)).close_time is not None


async def test_a_cancel_whose_answer_is_lost_is_no_error_and_one_too_late_is(desk: Desk):
    agent = Agent[Any](name="Clerk")
    await desk.open(agent, model=ScriptedModel("Done."))
    handle = await desk.start(agent, keep_open=True)
    await desk.until_status(handle, "idle")
    client = await Client.connect(
        desk.client.service_client.config.target_host, interceptors=[LostAnswers()]
    )
    await RunHandle(client, handle.id).cancel("after_turn")
    assert (await handle.state()).outcome == "completed"
    for mode in get_args(CancelMode):
        with pytest.raises(RunClosed, match=r"has ended \(completed\)"):
            await handle.cancel(mode)


@pytest.mark.parametrize("phase", ["thinking", "acting"])
async def test_what_is_running_is_really_stopped_within_seconds(desk: Desk, phase: str):
    clerk = Clerk(phase)
    handle, _ = await clerk.start(desk)
    await desk.workflow(handle).signal("cancel")  # as somebody in the Temporal UI does it
    async with asyncio.timeout(10):
        await clerk.cancelled.wait()
    assert (await handle.state()).outcome == "cancelled"


@pytest.mark.parametrize("phase", ["acting", "idle"])
async def test_a_cancel_after_the_turn_lets_the_turn_end(desk: Desk, phase: str):
    clerk = Clerk(phase)
    handle, _ = await clerk.start(desk)
    await handle.cancel("after_turn")
    # Nobody knows when a person decides, so waiting for one is not a turn that would end.
    if phase not in {"waiting", "idle"}:
        await desk.until(handle, lambda state: state.cancel == "after_turn")
    clerk.release.set()
    if phase in {"thinking", "idle"}:
        result = await desk.result(handle)
        assert (result.status, result.final_output) == ("completed", "Done.")
        return
    with pytest.raises(RunCancelled):
        await desk.result(handle)
    assert clerk.model.calls == 1
    state = await handle.state()
    finished = [item for item in state.items if item.raw.get("output") == "null"]
    assert len(finished) == (phase == "acting")


async def test_a_run_can_be_cancelled_before_any_worker_has_seen_it(desk: Desk):
    agent = Agent(name="Clerk")
    handle = await desk.start(agent)
    await handle.cancel()
    sending = asyncio.ensure_future(handle.send("Hello?"))
    await desk.workflow(handle).signal("noise")
    model = ScriptedModel("Never said.")
    await desk.open(agent, model=model)
    with pytest.raises(RunCancelled):
        await desk.result(handle)
    await asyncio.gather(sending, return_exceptions=True)
    assert model.calls == 0


@pytest.mark.smoke
async def test_cancelling_twice_is_cancelling_once(desk: Desk):
    clerk = Clerk("acting")
    handle, _ = await clerk.start(desk)
    await asyncio.gather(handle.cancel(), handle.cancel("after_turn"), return_exceptions=True)
    with pytest.raises(RunCancelled):
        await desk.result(handle)


async def test_a_sync_tool_cannot_be_stopped_and_its_result_counts_no_more(desk: Desk):
    entered, release = threading.Event(), threading.Event()

    @function_tool
    def block() -> str:
        entered.set()
        release.wait(PATIENCE_SECONDS)
        return "too late"

    agent = Agent(name="Clerk", tools=[block])
    await desk.open(agent, model=ScriptedModel([call("block", "c1")]))
    handle = await desk.start(agent)
    await asyncio.to_thread(entered.wait, PATIENCE_SECONDS)
    await handle.cancel()
    with pytest.raises(RunCancelled):
        await desk.result(handle)
    release.set()
    assert (await handle.state()).items[-1].raw["output"] != "too late"


@pytest.mark.smoke
async def test_terminating_is_known_to_readers_with_its_reason(desk: Desk):
    clerk = Clerk("idle")
    handle, _ = await clerk.start(desk)
    await desk.workflow(handle).terminate(reason="enough")
    with pytest.raises(RunTerminated, match="terminated: enough") as caught:
        await desk.result(handle)
    assert caught.value.run_data.final_output == "Done."
    with pytest.raises(RunClosed, match=r"\(terminated\)"):
        await handle.send("Hello?")


# --- A reader that stops its run ----------------------------------------------------------------------------


@pytest.mark.parametrize("breaks", [False, True])
async def test_a_program_that_stops_at_the_output_of_a_tool_makes_no_further_model_call(
    desk: Desk, breaks: bool
):
    @function_tool
    def look_up() -> str:
        return "On its way."

    agent = Agent[Any](name="Clerk", tools=[look_up])
    model = ScriptedModel(always=[call("look_up", "c1")])
    await desk.open(agent, model=model)
    for tries in range(1, 11):
        result = desk.stream(agent, f"Hello {tries}")
        async for event in result.stream_events():
            if event.type == "run_item_stream_event" and event.name == "tool_output":
                result.cancel("after_turn")
                if breaks:
                    break
        if breaks:
            async for _ in result.stream_events():
                pass
        assert len(model.requests) == tries
        assert result.final_output is None
        assert [item.type for item in result.new_items] == [
            "tool_call_item",
            "tool_call_output_item",
        ]
        assert (result.turns, result.status) == (1, "cancelled")


async def test_a_program_that_thinks_for_long_about_an_event_delays_the_next_turn_a_moment(
    desk: Desk,
):
    @function_tool
    def look_up() -> str:
        return "On its way."

    agent = Agent[Any](name="Clerk", tools=[look_up])
    called = asyncio.Event()

    def answer(_request: Any) -> Any:
        called.set()
        return say("Done.")

    await desk.open(agent, model=ScriptedModel([call("look_up", "c1")], answer))
    result = desk.stream(agent)
    async for event in result.stream_events():
        if event.type == "run_item_stream_event" and event.name == "tool_output":
            async with asyncio.timeout(PATIENCE_SECONDS):
                await called.wait()
            result.cancel("after_turn")
    assert result.final_output == "Done."


async def test_a_wait_that_ends_early_leaves_the_run_going_until_it_is_cancelled(desk: Desk):
    """The lines of docs/concepts/programs-and-workers.md."""
    clerk = Clerk("thinking")
    handle, _ = await clerk.start(desk)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(handle.wait_for_people(), 0.05)
    assert (await handle.state()).status == "running"
    try:
        await asyncio.wait_for(handle.wait_for_people(), 0.05)
    except TimeoutError:
        await handle.cancel()
    with pytest.raises(RunCancelled):
        await desk.result(handle)
