"""Approvals of nested runs: they are found, and decided, at the root."""

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.errors import DecisionRefused
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.contract import names, records
from outlast.loop.actions import NestedRecord
from outlast.loop.approvals import Decision
from outlast.loop.state import LoopState
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, refuse, say
from outlast.views.run import loop_state
from tests import forked
from tests.servers import TemporalServer
from tests.workflow.desk import PATIENCE_SECONDS, Desk, waits_for
from tests.workflow.replies import outputs


def refunds(ran: list[str]) -> Agent[Any]:
    @function_tool(needs_approval=True)
    async def refund(order: str) -> str:
        ran.append(order)
        return f"refunded {order}"

    return Agent(name="Refunds", tools=[refund])


def desk_of(nested: Agent[Any], name: str = "Desk", tool: str = "ask_refunds") -> Agent[Any]:
    return Agent(name=name, tools=[nested.as_tool(tool, "Ask about refunds.")])


def _script(*more: Any) -> ScriptedModel:
    return ScriptedModel(
        [call("ask_refunds", "o1", input="Refund A.")],
        [call("refund", "n1", order="A")],
        *more,
    )


async def waiting(desk: Desk, ran: list[str], **options: Any) -> RunHandle:
    """Return a run that waits for a person because a nested one does."""
    agent = desk_of(refunds(ran))
    await desk.open(agent, model=_script("Refunded.", "Done."))
    handle = await desk.start(agent, **options)
    await desk.until_status(handle, "waiting")
    return handle


async def command(server: TemporalServer, *arguments: str) -> Any:
    """Type a command, and return what it prints."""
    process = await forked.start(
        *("-m", "outlast.cli.entry", *arguments, "--json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "TEMPORAL_ADDRESS": server.address, "TEMPORAL_CONFIG_FILE": os.devnull},
    )
    out, complaint = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, complaint
    return json.loads(out)


async def test_a_nested_request_is_read_from_the_run_that_made_it(desk: Desk):
    elsewhere = refunds([])
    agent = desk_of(elsewhere)
    await desk.open(agent, elsewhere, model=_script([call("refund", "c9", order="Z")]))
    handle = await desk.start(agent)
    await desk.until_status(handle, "waiting")
    stranger = await desk.start(elsewhere)
    await desk.until_status(stranger, "waiting")
    [request], [other] = await handle.approvals(), await stranger.approvals()
    forged = replace(request, arguments='{"order": "a small one"}', args_digest=other.args_digest)
    claims = (forged, replace(other, run_id=stranger.id))
    report = NestedRecord(nested_id=request.run_id, requests=claims)
    await desk.workflow(handle).signal(names.SIGNAL_NESTED, records.write(report))
    state = await desk.until(handle, lambda state: bool(state.ignored))
    assert state.ignored[0].why == "It has requests of another run."

    assert await handle.approvals() == (request,)


async def test_what_a_nested_run_asks_is_seen_and_decided_at_the_root(
    desk: Desk, server: TemporalServer
):
    ran: list[str] = []
    handle = await waiting(desk, ran)
    [request] = await handle.approvals()
    [nested] = await desk.nested(handle)
    assert (request.id, request.agent, request.name) == ("e3.a1", "Refunds", "refund")
    assert request.run_id == nested.id
    attributes = (await desk.workflow(handle).describe()).search_attributes
    assert attributes[names.ATTRIBUTE_APPROVALS] == [1]
    assert attributes[names.ATTRIBUTE_STATUS] == ["waiting"]
    waits: set[str] = set()
    async with asyncio.timeout(PATIENCE_SECONDS):  # visibility is a moment behind
        while handle.id not in waits:
            listed = await command(server, "list", "--status", "waiting")
            waits = {one["run_id"] for one in listed}
    with pytest.raises(DecisionRefused):
        await handle.approve("e3.a2")
    (request,) = await handle.approvals()
    seen = ("--yes", "--digest", request.digest)
    await command(server, "approve", handle.id, "e3.a1", "--by", "ann", *seen)
    result = await desk.result(handle)
    assert (result.final_output, ran) == ("Done.", ["A"])
    decided = (await nested.state()).approvals[0].decision
    assert decided is not None
    assert decided.by == "ann"
    assert (await handle.state()).pending_approvals == ()


@pytest.mark.smoke
async def test_requests_two_levels_down_have_one_address_at_the_root(desk: Desk):
    ran: list[str] = []
    agent = desk_of(desk_of(refunds(ran), "Middle"), tool="ask_middle")
    model = ScriptedModel(
        [call("ask_middle", "o1", input="Refund A.")],
        [call("ask_refunds", "m1", input="Refund A.")],
        [call("refund", "n1", order="A")],
        "Refunded.",
        "It is refunded.",
        "Done.",
    )
    await desk.open(agent, model=model)
    handle = await desk.start(agent)
    await desk.until_status(handle, "waiting")
    [middle] = await desk.nested(handle)
    [request] = await handle.approvals()
    assert request.id == "e3.e3.a1"
    assert [one.id for one in await middle.approvals()] == ["e3.e3.a1"]
    assert (await middle.state()).status == "waiting"
    await handle.approve("e3.e3.a1")
    assert ((await desk.result(handle)).final_output, ran) == ("Done.", ["A"])


async def test_a_nested_run_waits_for_people_while_all_workers_are_gone(desk: Desk):
    ran: list[str] = []
    agent = desk_of(refunds(ran))
    worker = await desk.open(agent, model=_script())
    handle = await desk.start(agent)
    await desk.until_status(handle, "waiting")
    await desk.close(worker)
    assert [one.id for one in await handle.approvals()] == ["e3.a1"]
    [nested] = await desk.nested(handle)
    decision = {"request_id": "e3.a1", "type": "approve"}
    await desk.workflow(nested).signal("decide", decision)
    await desk.open(agent, model=ScriptedModel("Refunded.", "Done."))
    assert ((await desk.result(handle)).final_output, ran) == ("Done.", ["A"])


def _asks_twice() -> Callable[[ModelRequest], Any]:
    def reply(request: ModelRequest) -> Any:
        done = outputs(request)
        if any(spec.name == "ask_refunds" for spec in request.tools):
            if done:
                return say("Done.")
            return [call("ask_refunds", f"o{order}", input=order) for order in ("A", "B")]
        order = str(request.input[0]["content"])
        return say("Refunded.") if done else [call("refund", f"n{order}", order=order)]

    return reply


async def test_a_late_decision_is_told_what_was_decided_in_the_nested_run(desk: Desk):
    ran: list[str] = []
    nested = refunds(ran)
    agent = Agent[Any](name="Desk", tools=[*nested.tools, *desk_of(nested).tools])
    await desk.open(agent, model=_script("Refunded.", [call("refund", "o2", order="B")], "Done."))
    handle = await desk.start(agent)
    await desk.until_status(handle, "waiting")
    await handle.approve("e3.a1", by="ann")
    await desk.until(handle, lambda state: [one.id for one in state.pending_approvals] == ["a1"])
    with pytest.raises(DecisionRefused, match="already approved by ann"):
        await handle.reject("e3.a1", by="bob")
    await handle.approve("a1")
    assert ((await desk.result(handle)).final_output, ran) == ("Done.", ["A", "B"])


async def test_two_nested_runs_that_wait_are_told_apart(desk: Desk):
    ran: list[str] = []
    agent = desk_of(refunds(ran))
    await desk.open(agent, model=ScriptedModel(always=_asks_twice()))
    handle = await desk.start(agent)
    state = await desk.until(handle, waits_for(2))
    assert {one.id: json.loads(one.arguments)["order"] for one in state.pending_approvals} == {
        "e3.a1": "A",
        "e4.a1": "B",
    }
    await handle.approve("e4.a1")
    await desk.until(handle, waits_for(1))
    await handle.reject("e3.a1")
    assert ((await desk.result(handle)).final_output, ran) == ("Done.", ["B"])


def _twice(*between: Any) -> ScriptedModel:
    """Return a model whose nested agent refunds in two questions of its conversation."""
    return ScriptedModel(
        [call("ask_refunds", "o1", input="Refund A.")],
        [call("refund", "n1", order="A")],
        *between,
        "Done.",
        [call("ask_refunds", "o2", input="Refund B.")],
        [call("refund", "n2", order="B")],
        "Refunded.",
        "Done.",
    )


@pytest.mark.smoke
async def test_what_is_remembered_in_a_nested_run_holds_in_the_next_one(desk: Desk):
    ran: list[str] = []
    agent = desk_of(refunds(ran))
    await desk.open(agent, model=_twice("Refunded."))
    handle = await desk.start(agent, keep_open=True)
    await desk.until_status(handle, "waiting")
    [request] = await handle.approvals()
    await handle.approve(request, by="ann", always=True)
    await desk.until_status(handle, "idle")
    [kept] = (loop_state(await handle.state())).remembered
    assert (kept.agent, kept.name, kept.run_id) == ("Refunds", "refund", request.run_id)
    await handle.send("And B?")
    await desk.until(handle, lambda one: len(one.answers) == 2)
    assert ran == ["A", "B"]
    assert (loop_state(await handle.state())).remembered == (kept,), "it is kept once"


async def test_what_is_remembered_for_a_question_ends_with_it(desk: Desk):
    ran: list[str] = []
    agent = desk_of(refunds(ran))
    model = ScriptedModel(
        "Hello.",
        [call("ask_refunds", "o1", input="Refund A.")],
        [call("refund", "n1", order="A")],
        "Refunded.",
        [call("ask_refunds", "o2", input="Refund B.")],
        [call("refund", "n2", order="B")],
        "Refunded.",
        "Done.",
        [call("ask_refunds", "o3", input="Refund C.")],
        [call("refund", "n3", order="C")],
        "Refunded.",
        "Done.",
    )
    await desk.open(agent, model=model)
    handle = await desk.start(agent, keep_open=True)
    await desk.until_status(handle, "idle")
    await handle.send("Refund A and B.")
    await desk.until_status(handle, "waiting")
    [request] = await handle.approvals()
    assert request.question == 1
    decision = Decision(
        request_id=request.id, type="approve", by="ann", remember=True, remember_until="run"
    )
    await handle.decide(decision)
    await desk.until_status(handle, "idle")
    assert ran == ["A", "B"], "the second run of the agent belongs to the same question"
    await handle.send("And C?")
    await desk.until_status(handle, "waiting")
    assert ran == ["A", "B"]


async def test_what_is_remembered_outlives_a_nested_run_that_fails(desk: Desk):
    ran: list[str] = []
    agent = desk_of(refunds(ran))
    await desk.open(agent, model=_twice(refuse("I cannot do that.")))
    handle = await desk.start(agent, keep_open=True)
    await desk.until_status(handle, "waiting")
    [request] = await handle.approvals()
    await handle.approve(request, by="ann", always=True)
    await desk.until_status(handle, "idle")
    await handle.send("And B?")
    await desk.until(handle, lambda one: len(one.answers) == 2)
    assert ran == ["A", "B"]


async def test_a_decision_that_reaches_the_root_names_the_run_that_takes_it(
    desk: Desk,
):
    handle = await waiting(desk, [])
    [request] = await handle.approvals()
    record = {"request_id": request.id, "type": "approve"}
    workflow = desk.workflow(handle)
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await workflow.execute_update("decide", record)  # pyright: ignore[reportUnknownMemberType]  the SDK's own annotation
    said = str(refused.value.cause)
    assert f"belongs to the nested run '{request.run_id}', which decides it" in said


async def test_what_a_nested_run_hides_is_hidden_in_its_root_and_in_the_next_one(desk: Desk):
    account = "DE89370400440532013000"

    @function_tool(needs_approval=ApprovalPolicy(redact=["iban"]))
    async def refund(iban: str) -> str:
        return f"refunded to {iban}"

    agent = desk_of(Agent(name="Refunds", tools=[refund]))
    model = ScriptedModel(
        [call("ask_refunds", "o1", input="Refund the last order.")],
        [call("refund", "n1", iban=account)],
        f"Refunded to {account.lower()}.",
        [call("ask_refunds", "o2", input=f"Is {account} right?")],
        f"The account that ends in {account[-6:]} is.",
        "Paid to DE89 3704 0044 0532 0130 00.",
    )
    await desk.open(agent, model=model)
    handle = await desk.start(agent, keep_open=True)
    await desk.until_status(handle, "waiting")
    await handle.approve((await handle.approvals())[0])
    await desk.until_status(handle, "idle")
    seen: list[Any] = []
    for run_id in (
        handle.id,
        f"{handle.id}/ask_refunds-{_second_effect(loop_state(await handle.state()))}",
    ):
        workflow = desk.client.get_workflow_handle(run_id)
        queries = (names.QUERY_STATE, names.QUERY_TRANSCRIPT)
        seen += [await workflow.query(query) for query in queries]
    shown = json.dumps(seen)
    assert not [one for one in (account, account.lower(), "3704", account[-6:]) if one in shown]
    assert shown.count("[redacted]") >= 4
    assert (await handle.state()).final_output == "Paid to DE89 3704 0044 0532 0130 00."
    await handle.cancel()


def _second_effect(state: LoopState) -> str:
    """Return the number of the second nested run, with which its id ends."""
    return str(state.next_effect - 2)
