"""Somebody who reaches the Temporal server writes what tools have noted before they waited.

Notes say what happens when a call runs again: whom it pays, which task of a server it looks at. With
`OUTLAST_DELIVERY_KEYS`, workers sign the notes of each call, and take no others.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.command.v1 import Command, ScheduleActivityTaskCommandAttributes
from temporalio.api.common.v1 import ActivityType
from temporalio.api.enums.v1 import CommandType, EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    PollWorkflowTaskQueueRequest,
    RespondWorkflowTaskCompletedRequest,
)
from temporalio.client import WorkflowFailureError
from temporalio.converter import DataConverter
from temporalio.worker import Worker

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.tools.function_tool import function_tool
from outlast.client.deliveries import finish
from outlast.client.forks import fork_run
from outlast.client.handle import RunHandle
from outlast.contract import names, records
from outlast.loop.calls import Arrival, Call
from outlast.loop.effects import CleanUp, RunTool
from outlast.loop.values import JsonObject
from outlast.testing import ScriptedModel, call
from outlast.views.run import loop_state
from outlast.worker import AgentWorker
from tests.attacks.test_somebody_with_temporal import ANN, Foreign
from tests.workflow.desk import PATIENCE_SECONDS, Desk, waits_for
from tests.workflow.replies import outputs
from tests.workflow.test_long_runs import in_later_history
from tests.workflow.test_mcp_tasks import Kitchen, cook, text, works
from tests.workflow.test_resets import reset, task_ends

OLD, NEW = "an old key of at least 32 bytes..", "a new key of at least 32 bytes..."
TWO_DAYS = timedelta(days=2)
MALLORY: JsonObject = {"payee": "Mallory"}
CHEAPER = '{"name": "Alice", "euros": 1}'
FIELDS = [one.name for one in fields(RunTool) if one.name != "kind"]
FOR_ANOTHER = (
    "The tool pay did not run again: what it noted before it waited was written for another call, or "
    "by somebody else. Its first part may have had its effect: look before you call it again."
)


def use_keys(monkeypatch: pytest.MonkeyPatch, *keys: str, unsigned: str = "") -> None:
    """Give the workers that start from now on these keys."""
    monkeypatch.setenv("OUTLAST_DELIVERY_KEYS", ",".join(keys))
    monkeypatch.setenv("OUTLAST_UNSIGNED_NOTES", unsigned)


class Bank:
    """An agent whose tool notes whom to pay, waits for the end of a period, and pays."""

    def __init__(self, policy: Any = None) -> None:
        self.paid: list[tuple[str, int]] = []
        self.looked_up: list[str] = []

        def payee(name: str) -> str:
            self.looked_up.append(name)
            return name

        @function_tool(needs_approval=policy or False)
        async def pay(ctx: ToolContext[Any], name: str, euros: int) -> str:
            """Pay somebody who has an account here."""
            to = await ctx.once("payee", payee, name)
            await ctx.wait_for("period", timeout=TWO_DAYS, default=None)
            self.paid.append((to, euros))
            return f"paid {to}"

        self.agent = Agent[Any](name="Bank", tools=[pay])


def pays(*ids: str, name: str = "Alice") -> ScriptedModel:
    """Return a model that pays 500 euros by calls with these ids."""
    return ScriptedModel([call("pay", one, name=name, euros=500) for one in ids], "Done.")


# --- In the run itself -----------------------------------------------------------------------------


def again(handle: RunHandle, waiting: Call, **changes: Any) -> RunTool:
    """Return the effect with which a call runs again, as somebody in a worker's place writes it."""
    effect = RunTool(
        effect=90,
        agent="Bank",
        run_id=handle.id,
        turn=1,
        name=waiting.name,
        call_id=waiting.call_id,
        arguments=waiting.arguments,
        approved=True,
        evidence=waiting.evidence and replace(waiting.evidence, question=0),
        done=waiting.done,
        done_proof=waiting.done_proof,
        arrived=(Arrival(name="period", at_ms=1, is_default=True),),
    )
    return replace(effect, **changes)


class Intruder:
    """Answers the workflow tasks of a run, whose worker has gone, with activities of its own."""

    def __init__(self, desk: Desk, handle: RunHandle, queue: str) -> None:
        self._desk, self._handle, self._queue = desk, handle, queue
        self._count = 0

    async def runs(self, effect: RunTool) -> JsonObject | str:
        """Return the result of a call, or the words of its failed attempt."""
        self._count += 1
        number = f"forged-{self._count}"
        (payload,) = await DataConverter.default.encode([records.write(effect)])
        attributes = ScheduleActivityTaskCommandAttributes(
            activity_id=number,
            activity_type=ActivityType(name=f"tool:{effect.name}"),
            task_queue=TaskQueue(name=self._queue),
            start_to_close_timeout=Duration(seconds=20),
        )
        attributes.input.payloads.append(payload)
        if self._count == 1:
            await self._desk.workflow(self._handle).signal("anything")
            self._token, _ = await self._task()
        command = Command(
            command_type=CommandType.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK,
            schedule_activity_task_command_attributes=attributes,
        )
        request = RespondWorkflowTaskCompletedRequest(
            namespace=self._desk.client.namespace, task_token=self._token, commands=[command]
        )
        await self._desk.client.workflow_service.respond_workflow_task_completed(request)
        self._token, events = await self._task()
        for one in reversed(events):
            if one.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                result = one.activity_task_completed_event_attributes.result
                return (await DataConverter.default.decode(result.payloads))[0]
            if one.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED:
                return one.activity_task_failed_event_attributes.failure.message
        raise AssertionError(f"no result in {events}")

    async def _task(self) -> tuple[bytes, list[HistoryEvent]]:
        """Return the next workflow task of the run."""
        request = PollWorkflowTaskQueueRequest(
            namespace=self._desk.client.namespace, task_queue=TaskQueue(name=self._desk.queue)
        )
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                task = await self._desk.client.workflow_service.poll_workflow_task_queue(request)
                if task.workflow_execution.workflow_id == self._handle.id:
                    return task.task_token, list(task.history.events)


@pytest.mark.parametrize("keys", [(), (NEW, OLD)], ids=["without-keys", "with-keys"])
async def test_what_was_approved_for_alice_is_not_paid_to_mallory(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...]
) -> None:
    """The votes and the execution are genuine. Without keys, whoever writes the notes is paid."""
    use_keys(monkeypatch, *keys)
    bank = Bank(ApprovalPolicy(audience="billing"))
    worker = await desk.open(bank.agent, model=pays("c1", "c2"))
    handle = await desk.start(bank.agent)
    for request in (await desk.until(handle, waits_for(2))).pending_approvals:
        await handle.approve(request, by=ANN)
    first, second = loop_state(await desk.until_status(handle, "parked")).calls
    await desk.close(worker)
    desk.ids.remove(handle.id)  # its history is not that of our workflow any more

    queue = f"{desk.queue}-effects"
    async with AgentWorker(desk.client, agents=[bank.agent], task_queue=queue):
        intruder = Intruder(desk, handle, queue)
        told = await intruder.runs(again(handle, first, done=MALLORY))
        if not keys:
            assert (told, bank.paid) == ({"output": "paid Mallory"}, [("Mallory", 500)])
            return
        of_second = {"done": second.done, "done_proof": second.done_proof}
        others = [await intruder.runs(again(handle, first, **of_second))]
        others += [await intruder.runs(again(handle, first, arguments=CHEAPER, evidence=None))]
        bare = await intruder.runs(again(handle, first, done=MALLORY, done_proof=None))
        assert bank.paid == []
        assert told == others[0] == others[1] == {"output": FOR_ANOTHER, "failed": True}
        assert "what it noted before it waited has no proof" in str(bare)
        assert await intruder.runs(again(handle, first)) == {"output": "paid Alice"}
    assert bank.looked_up == ["Alice", "Alice"], "no note that does not count is made anew"
    await desk.workflow(handle).terminate()


# --- From another run ------------------------------------------------------------------------------


async def as_foreign(desk: Desk, effect: RunTool, kind: str = "") -> Any:
    """Return the result of a call that somebody's own workflow asks for."""
    queue = f"{desk.queue}-foreign"
    async with Worker(desk.client, task_queue=queue, workflows=[Foreign]):
        return await desk.client.execute_workflow(
            Foreign.run,
            args=[desk.queue, kind or f"tool:{effect.name}", records.write(effect)],
            id=f"foreign-{time.time_ns()}",
            task_queue=queue,
        )


async def test_notes_of_another_run_do_not_count(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mallory's own run has notes with a proof; Alice's call has the same id and arguments."""
    use_keys(monkeypatch, NEW)
    bank = Bank()
    await desk.open(bank.agent, model=pays("c1"))
    handle = await desk.start(bank.agent)
    (waiting,) = loop_state(await desk.until_status(handle, "parked")).calls
    told = await as_foreign(desk, again(handle, waiting))
    assert told == {"output": FOR_ANOTHER, "failed": True}
    (wait,) = await handle.pending_waits()
    await finish(wait.token, None, client=desk.client)
    await desk.result(handle)
    assert bank.paid == [("Alice", 500)]


async def test_a_fork_does_not_take_the_notes_of_its_source(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_keys(monkeypatch, NEW)
    bank, model = Bank(), pays("c1")
    await desk.open(bank.agent, model=model)
    handle = await desk.start(bank.agent)
    await desk.until_status(handle, "parked")
    fork = await fork_run(desk.client, handle.id, allow=["pay"])
    desk.ids.append(fork.id)
    (wait,) = await fork.pending_waits()
    await finish(wait.token, None, client=desk.client)
    await desk.result(fork)
    assert outputs(model.requests[-1])["c1"] == FOR_ANOTHER
    assert bank.paid == []
    await handle.cancel()


# --- Keys ------------------------------------------------------------------------------------------


async def test_calls_go_on_while_keys_are_replaced(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a nested run. A worker that lacks the key waits for one that has it."""
    bank = Bank()
    lead = Agent[Any](name="Lead", tools=[bank.agent.as_tool("ask_bank", "Ask the bank.")])
    script = [[call("ask_bank", "l1", input="Pay")], [call("pay", "c1", name="Alice", euros=500)]]
    use_keys(monkeypatch, OLD)
    first = await desk.open(lead, model=ScriptedModel(*script))
    handle = await desk.start(lead)
    await desk.until_status(handle, "parked")
    (wait,) = await handle.pending_waits()
    await desk.close(first)

    use_keys(monkeypatch, NEW)
    second = await desk.open(lead)
    await finish(wait.token, None, client=desk.client)
    nested = RunHandle(desk.client, wait.run_id)
    state = loop_state(await desk.until(nested, lambda state: bool(state.blocked)))
    assert "a key that is not in this worker's OUTLAST_DELIVERY_KEYS" in state.blocked[0].lacks
    await desk.close(second)

    use_keys(monkeypatch, NEW, OLD)
    await desk.open(lead, model=ScriptedModel("Paid.", "Done."))
    await desk.result(handle)
    assert (bank.paid, bank.looked_up) == ([("Alice", 500)], ["Alice"])


async def test_notes_count_in_a_later_history_of_the_run_and_after_a_reset(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_keys(monkeypatch, NEW)
    bank = Bank()
    await desk.open(bank.agent, model=pays("c1"))
    handle = await desk.start_short(bank.agent, events=30)
    await desk.until_status(handle, "parked")
    async with desk.patience(handle):
        while not await in_later_history(desk, handle):
            await desk.workflow(handle).signal(names.DELIVER, {"no": "delivery"})
    await desk.until_status(handle, "parked")
    execution, points = await task_ends(desk, handle)
    await reset(desk, handle, execution, points[-1])
    await desk.until_status(handle, "parked")
    (wait,) = await handle.pending_waits()
    await finish(wait.token, None, client=desk.client)
    await desk.result(handle)
    assert (bank.paid, bank.looked_up) == ([("Alice", 500)], ["Alice"])


async def test_notes_from_before_there_were_keys_need_the_operators_word(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_keys(monkeypatch)
    bank = Bank()
    first = await desk.open(bank.agent, model=pays("c1"))
    handle = await desk.start(bank.agent)
    await desk.until_status(handle, "parked")
    (wait,) = await handle.pending_waits()
    await desk.close(first)

    use_keys(monkeypatch, NEW)
    second = await desk.open(bank.agent)
    await finish(wait.token, None, client=desk.client)
    state = loop_state(await desk.until(handle, lambda state: bool(state.blocked)))
    assert "OUTLAST_UNSIGNED_NOTES=accept" in state.blocked[0].lacks
    assert bank.paid == []
    await desk.close(second)

    use_keys(monkeypatch, NEW, unsigned="accept")
    await desk.open(bank.agent, model=ScriptedModel("Done."))
    await desk.result(handle)
    assert (bank.paid, bank.looked_up) == ([("Alice", 500)], ["Alice"])


# --- Tasks of MCP servers --------------------------------------------------------------------------


@pytest.fixture
async def kitchen(tmp_path: Path) -> AsyncGenerator[Kitchen]:
    kitchen = Kitchen(tmp_path)
    async with kitchen.program:
        yield kitchen


@pytest.mark.parametrize("keys", [(), (NEW,)], ids=["without-keys", "with-keys"])
async def test_notes_of_a_task_look_at_no_task_of_another_call(
    desk: Desk, kitchen: Kitchen, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...]
) -> None:
    """Alice's task is read and cancelled by whoever knows its id, unless workers sign notes."""
    use_keys(monkeypatch, *keys)
    model = works(c1={"kind": "plain", "working": 1})
    await desk.open(cook(kitchen.server()), model=model)
    handle = await desk.start("Cook")
    await desk.result(handle)
    assert outputs(model.requests[1])["c1"] == text("done")
    (task,) = kitchen.tasks
    looked = len(kitchen.requests("tasks/get"))

    task_id = task.stem.removeprefix("task-")
    mallorys = RunTool(
        effect=1,
        agent="Cook",
        run_id="mallory",
        turn=1,
        name="work",
        call_id="c1",
        arguments='{"kind": "plain"}',
        source="kitchen",
        done={"mcp": {"tool": "work", "task": task_id}},
    )
    if not keys:
        assert (await as_foreign(desk, mallorys))["output"] == text("done")
        return
    forged = replace(mallorys, done_proof="n1." + "0" * 8 + "." + "0" * 64)
    for effect in (mallorys, forged):
        with pytest.raises(WorkflowFailureError):
            await as_foreign(desk, effect)
    dropped = CleanUp(**{one: getattr(mallorys, one) for one in FIELDS})
    with pytest.raises(WorkflowFailureError):
        await as_foreign(desk, dropped, f"{names.CLEANUP_PREFIX}work")
    assert len(kitchen.requests("tasks/get")) == looked
    assert kitchen.requests("tasks/cancel") == []
