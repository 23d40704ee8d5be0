"""Somebody who reaches the Temporal server: signals, updates, workflows and activities of their own.

They know every id, and everything that histories hold. They have no key that the workers trust.
"""

import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import WorkflowUpdateFailedError
from temporalio.common import WorkflowIDReusePolicy
from temporalio.worker import Worker

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import RunNotFound
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.contract import names, records
from outlast.loop.actions import AttachLineRecord, LineReplyRecord, NestedRecord
from outlast.loop.approvals import ApprovalRequest, Decision, Evidence, Person
from outlast.loop.calls import ModelReply, PlannedCall
from outlast.loop.effects import RunTool
from outlast.ports.model import ModelRequest
from outlast.realtime.line_run import LineRun
from outlast.testing import ScriptedModel, call, say
from outlast.views.run import loop_state
from tests.workflow.desk import Desk, waits_for
from tests.workflow.replies import outputs

TWO = ApprovalPolicy(audience="billing", quorum=2)
ANN = Person(subject="ann", groups=("billing",), method="token")
BOB = Person(subject="bob", groups=("billing",), method="token")


class Bank:
    """An agent whose tool pays only after two people of billing have approved."""

    def __init__(self, policy: Any = TWO) -> None:
        self.paid: list[int] = []

        @function_tool(needs_approval=policy)
        async def refund(euros: int) -> str:
            """Refund euros."""
            self.paid.append(euros)
            return f"refunded {euros}"

        self.agent = Agent[Any](name="Bank", tools=[refund])


async def asked(desk: Desk, bank: Bank, *, runs: int = 1) -> RunHandle:
    """Return a run that waits for the approval of a refund; further runs will ask again."""
    refunds = [[call("refund", "c1", euros=500)] for _ in range(runs)]
    await desk.open(bank.agent, model=ScriptedModel(*refunds, "Done."))
    handle = await desk.start(bank.agent)
    await desk.until(handle, waits_for(1))
    return handle


def workflow_of(desk: Desk, handle: RunHandle) -> Any:
    """The run as the Temporal UI reaches it."""
    return desk.workflow(handle)


async def request_of(handle: RunHandle) -> ApprovalRequest:
    (request,) = await handle.approvals()
    assert isinstance(request, ApprovalRequest)
    return request


async def test_a_refused_update_shows_no_path_of_the_worker(desk: Desk):
    bank = Bank()
    handle = await asked(desk, bank)
    for name in ("decide", "no such update"):
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await workflow_of(desk, handle).execute_update(name, {"no": "decision"})
        cause: Any = refused.value.cause
        assert (cause.failure.message, cause.failure.stack_trace) == (cause.message, "")


@pytest.mark.parametrize("by", ["signal", "update"])
async def test_names_alone_settle_nothing(desk: Desk, by: str):
    """As the Temporal UI sends them, with everything that it shows."""
    bank = Bank()
    handle = await asked(desk, bank)
    seen = (await request_of(handle)).seen
    for who in (ANN, BOB):
        decision = records.write(
            Decision(
                request_id="a1",
                type="approve",
                by=who.subject,
                groups=who.groups,
                method=who.method,
                seen=seen,
            )
        )
        if by == "signal":
            await workflow_of(desk, handle).signal("decide", decision)
            continue
        with pytest.raises(WorkflowUpdateFailedError) as raised:
            await workflow_of(desk, handle).execute_update("decide", decision)
        assert "needs proof of who decides" in str(raised.value.cause)
    state = await handle.state()
    assert (state.status, state.approvals[0].votes, bank.paid) == ("waiting", (), [])
    await handle.cancel()


async def test_a_copied_vote_is_no_second_vote_and_none_in_a_later_run(desk: Desk):
    bank = Bank()
    handle = await asked(desk, bank, runs=2)
    await handle.approve(await request_of(handle), by=ANN)
    (vote,) = (await handle.state()).approvals[0].votes
    copied = records.write(vote.decision)
    await workflow_of(desk, handle).execute_update("decide", copied)
    await workflow_of(desk, handle).signal("decide", copied)
    with pytest.raises(WorkflowUpdateFailedError):  # in another's name
        await workflow_of(desk, handle).execute_update(
            "decide", records.write(replace(vote.decision, by="bob"))
        )
    (request,) = (await handle.state()).approvals
    assert (len(request.votes), request.status, bank.paid) == (1, "pending", [])
    await handle.cancel()
    await desk.settled(handle)

    again = await desk.start(bank.agent, id=handle.id)
    await desk.until(again, waits_for(1))
    with pytest.raises(WorkflowUpdateFailedError) as raised:
        await workflow_of(desk, again).execute_update("decide", copied)
    assert "its signature is for something else" in str(raised.value.cause)
    assert bank.paid == []
    await again.cancel()


async def test_a_vote_for_bobs_account_is_none_for_eves(desk: Desk):
    """The people who vote have seen the arguments, and their votes say so."""
    bank = Bank()
    handle = await asked(desk, bank)
    request = await request_of(handle)
    cheap = replace(request, arguments='{"euros": 1}', args_digest="0" * 64)
    with pytest.raises(Exception, match="other arguments than this call's"):
        await handle.approve(cheap, by=ANN)
    await handle.approve(request, by=ANN)
    await handle.approve(request, by=BOB)
    await desk.result(handle)
    assert bank.paid == [500]


async def test_a_workflow_of_somebody_elses_runs_no_guarded_tool(desk: Desk):
    """It copies real votes from another run, and says that all is approved."""
    bank = Bank()
    handle = await asked(desk, bank)
    await handle.approve(await request_of(handle), by=ANN)
    await handle.approve(await request_of(handle), by=BOB)
    await desk.result(handle)
    assert bank.paid == [500]
    votes = (await handle.state()).approvals[0].votes
    evidence = Evidence(decisions=tuple(vote.decision for vote in votes))
    queue = f"{desk.queue}-foreign"
    async with Worker(desk.client, task_queue=queue, workflows=[Foreign]):
        for arguments, told in (
            ('{"euros": 500}', evidence),
            ('{"euros": 90000}', evidence),
            ('{"euros": 90000}', Evidence(expired=True)),
            ('{"euros": 90000}', None),
        ):
            effect = RunTool(
                effect=1,
                agent="Bank",
                run_id=handle.id,
                turn=1,
                name="refund",
                call_id="c1",
                arguments=arguments,
                approved=True,
                evidence=told,
            )
            result: Any = await desk.client.execute_workflow(
                Foreign.run,
                args=[desk.queue, "tool:refund", records.write(effect)],
                id=f"{handle.id}-foreign-{time.time_ns()}",
                task_queue=queue,
            )
            assert result["output"] is None
            assert result["required"]["terms"]["quorum"] == 2
    assert bank.paid == [500]


@workflow.defn(sandboxed=False)
class Foreign:
    """Schedules an activity on the queue of somebody else's workers."""

    @workflow.run
    async def run(self, queue: str, activity: str, request: dict[str, Any]) -> Any:
        """Return what the activity returns."""
        return await workflow.execute_activity(
            activity,
            request,
            task_queue=queue,
            start_to_close_timeout=timedelta(seconds=20),
        )


async def test_a_call_has_the_id_and_key_of_the_workflow_that_schedules_it(desk: Desk):
    """Else one approved call, carried out again under other ids, would have a key each time."""
    keys: list[tuple[str, str]] = []

    @function_tool
    async def pay(ctx: ToolContext[Any]) -> str:
        """Pay."""
        keys.append((ctx.run_id, ctx.idempotency_key))
        return "paid"

    await desk.open(Agent[Any](name="Bank", tools=[pay]), model=ScriptedModel())
    queue, own = f"{desk.queue}-foreign", f"{desk.queue}-own"
    async with Worker(desk.client, task_queue=queue, workflows=[Foreign]):
        for told in ("of-another-tenant", ""):
            effect = RunTool(
                effect=1,
                agent="Bank",
                run_id=told,
                turn=1,
                name="pay",
                call_id="c1",
                arguments="{}",
            )
            await desk.client.execute_workflow(
                Foreign.run,
                args=[desk.queue, "tool:pay", records.write(effect)],
                id=own,
                task_queue=queue,
            )
    assert [run_id for run_id, _ in keys] == [own, own]
    assert all(key.startswith(f"{own}@") for _, key in keys)


async def test_a_carried_state_of_somebodys_own_runs_no_guarded_tool(desk: Desk):
    """It says that the call is approved, and that nobody needs to be asked."""
    bank = Bank()
    handle = await asked(desk, bank)
    state = loop_state(await handle.state())
    (call_,) = state.calls
    plan = replace(call_.plan, approval=None)
    forged = replace(
        state,
        approvals=(),
        calls=(
            replace(
                call_,
                status="running",
                effect=loop_state(state).next_effect,
                approval=None,
                plan=plan,
            ),
        ),
        pending=(
            RunTool(
                effect=loop_state(state).next_effect,
                agent="Bank",
                run_id=state.run_id,
                turn=1,
                name="refund",
                call_id="c1",
                arguments='{"euros": 90000}',
                approved=True,
                policy=call_.plan.policy,
            ),
        ),
        next_effect=loop_state(state).next_effect + 1,
    )
    started = await desk.start_raw(
        records.write(records.RunInput(agent="Bank", carried=records.write_state(forged)))
    )
    mine = RunHandle(desk.client, started.id)
    waiting = await desk.until(mine, waits_for(1))
    assert bank.paid == []
    assert waiting.approvals[-1].arguments == '{"euros": 90000}'
    await mine.cancel()
    await handle.cancel()


async def test_a_line_of_somebodys_own_runs_no_guarded_tool(desk: Desk):
    """Its reply says that the call needs no approval."""
    bank = Bank()
    await desk.open(bank.agent, model=ScriptedModel("Hello.", "Done."))
    handle = await desk.start(bank.agent, keep_open=True)
    await desk.until_status(handle, "idle")
    item = {"type": "function_call", "name": "refund", "call_id": "c9", "arguments": '{"euros": 7}'}
    reply = ModelReply(
        items=(item,), calls=(PlannedCall(item=0, kind="tool"),), response_id="resp_line"
    )
    line = workflow_of(desk, handle)
    with pytest.raises(WorkflowUpdateFailedError) as raised:
        await line.execute_update(
            names.UPDATE_ATTACH_LINE, records.write(AttachLineRecord(line="mine"))
        )
    assert "it has no proof of who sends it" in str(raised.value.cause)

    real = LineRun(handle)
    await real.attach()
    try:
        for token in ("", "0" * 64):
            forged = LineReplyRecord(line=real.line, token=token, said=[], reply=reply)
            await line.signal(names.SIGNAL_LINE_REPLY, records.write(forged))
        state = await desk.until(handle, lambda state: len(state.ignored) == 2)
        assert {one.why for one in state.ignored} == {"It does not come from the line's owner."}
        await real.reply([], reply)  # even the owner's plan opens no gate
        waiting = await desk.until(handle, waits_for(1))
        assert waiting.approvals[0].terms.quorum == 2
    finally:
        await real.hang_up()
    assert bank.paid == []
    await handle.cancel()


@pytest.mark.smoke
async def test_a_run_in_the_place_of_a_nested_run_is_nobodys_child(desk: Desk):
    """They end the nested run to take its id, or have the id before the nested run starts."""
    bank = Bank(ApprovalPolicy(audience="billing"))
    lead = Agent[Any](name="Lead", tools=[bank.agent.as_tool("ask_bank", "Ask.")])
    await desk.open(lead, bank.agent, model=ScriptedModel(always=_lead_or_bank))

    async def theirs(nested_id: str, **options: Any) -> RunHandle:
        desk.ids.append(nested_id)
        taken = records.write(records.RunInput(agent="Bank", input="Mine"))
        await desk.client.start_workflow(
            names.WORKFLOW, taken, id=nested_id, task_queue=desk.queue, **options
        )
        return RunHandle(desk.client, nested_id)

    handle = await desk.start(lead, keep_open=True)
    state = await desk.until(handle, waits_for(1))
    nested_id, request = state.nested[0].nested_id, await request_of(handle)
    reuse = WorkflowIDReusePolicy.TERMINATE_IF_RUNNING
    imposter = await theirs(nested_id, id_reuse_policy=reuse)
    await desk.until(imposter, waits_for(1))  # the same request, in a run of theirs
    state = await desk.until_status(handle, "idle")
    assert "ask_bank failed" in str(state.items[-2].raw)
    assert await handle.approvals() == ()
    with pytest.raises(RunNotFound, match="somebody may have started another one in its place"):
        await handle.approve(request, by=ANN)

    second = desk.new_id()
    earlier = await theirs(nested_id.replace(handle.id, second))
    await desk.until(earlier, waits_for(1))
    handle = await desk.start(lead, keep_open=True, id=second)
    state = await desk.until_status(handle, "idle")
    assert "ask_bank failed" in str(state.items[-2].raw)
    assert (await earlier.state()).status == "waiting"  # it was not ours to end

    await handle.send("Again")  # the next nested run has an id of its own
    await desk.until(handle, waits_for(1))
    await handle.approve(await request_of(handle), by=ANN)
    await desk.until_status(handle, "idle")
    assert bank.paid == [1]
    for one in (handle, imposter, earlier):
        await one.cancel()


def _lead_or_bank(request: ModelRequest) -> Any:
    if request.tools[0].name == "refund":
        return say("Paid.") if outputs(request) else [call("refund", "c1", euros=1)]
    asked = sum(item.get("role") == "user" for item in request.input)
    if len(outputs(request)) == asked:
        return say("Done.")
    return [call("ask_bank", f"l{asked}", input="Refund 1")]


async def test_a_forged_report_of_a_nested_run_shows_and_decides_nothing_of_another(desk: Desk):
    """A request in it names another run: its reviewer must not decide there by mistake."""
    bank = Bank(ApprovalPolicy(audience="billing"))
    lead = Agent[Any](name="Lead", tools=[bank.agent.as_tool("ask_bank", "Ask.")])
    model = ScriptedModel(
        [call("ask_bank", "c0", input="Refund 1")],
        [call("refund", "c1", euros=1)],
        "Paid.",
        "Done.",
    )
    await desk.open(lead, model=model)
    handle = await desk.start(lead)
    state = await desk.until(handle, waits_for(1))
    (nested,) = state.nested
    (real,) = nested.requests
    for forged in (
        replace(real, run_id="another-run", arguments='{"euros": 1}'),
        replace(real, id="a1", arguments='{"euros": 1}'),
    ):
        record = NestedRecord(nested_id=nested.nested_id, requests=(forged,))
        await workflow_of(desk, handle).signal(names.SIGNAL_NESTED, records.write(record))
    later = await handle.state()
    assert {one.run_id for one in later.pending_approvals} <= {nested.nested_id}
    (shown,) = await handle.approvals()
    await handle.approve(shown, by=ANN)
    await desk.result(handle)
    assert bank.paid == [1]
