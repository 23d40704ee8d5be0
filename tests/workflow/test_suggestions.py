"""Drafts of the agent for the person who has a conversation, on a real server."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from outlast import Agent, ApprovalPolicy, RunConfig, function_tool
from outlast.agents.errors import UserError
from outlast.client.forks import list_forks
from outlast.client.handle import RunHandle
from outlast.client.inbox import Inbox
from outlast.client.suggestions import NO_QUESTION, PREFIX, suggest_reply
from outlast.loop.phrases import OFF_IN_FORK
from outlast.testing import ScriptedModel, call
from outlast.views.run import loop_state
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.replies import model_error, outputs

ANYBODY = RunConfig(takeover=ApprovalPolicy(unverified="allow"))
called: list[str] = []


@function_tool
def refund(order: str) -> str:
    """Refund an order."""
    called.append(f"refund {order}")
    return "refunded"


@function_tool(effect="read")
def look_up(order: str) -> str:
    """Look an order up."""
    called.append(f"read {order}")
    return "a cup"


@function_tool(needs_approval=True)
def pay(order: str) -> str:
    """Pay for an order."""
    called.append(f"pay {order}")
    return "paid"


def shop() -> Agent[Any]:
    return Agent(name="Shop", instructions="Help.", tools=[refund, look_up, pay])


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await is_so():  # noqa: ASYNC110  a server knows
            await asyncio.sleep(0.05)


async def held(desk: Desk, model: ScriptedModel, *, says: str = "Where is it?") -> RunHandle:
    """Return a conversation that ann has, in which the customer has written."""
    called.clear()
    agent = shop()
    await desk.open(agent, model=model)
    handle = await desk.start(agent, keep_open=True, run_config=ANYBODY)
    await handle.wait(lambda run: run.status == "idle")
    await handle.hold(by="ann")
    if says:
        await handle.send(says)
        await handle.wait(lambda run: bool(run.unread or run.answering))
    return handle


async def test_a_draft_is_what_the_agent_would_answer_and_changes_nothing(desk: Desk) -> None:
    calls = [call("look_up", "c1", order="7"), call("refund", "c2", order="7")]
    model = ScriptedModel("Hello.", calls, "It is a cup.")
    handle = await held(desk, model)
    before = await handle.state()
    assert await suggest_reply(desk.client, handle.id, by="ann") == "It is a cup."
    after = await handle.state()
    assert loop_state(after) == loop_state(before)
    assert called == ["read 7"]
    assert outputs(model.requests[-1]) == {"c1": "a cup", "c2": OFF_IN_FORK}
    # The conversation goes on as before: the person answers, and the agent after that.
    await handle.say("It is on its way.", by="ann")
    assert (await handle.state()).hold is not None

    async def ended() -> bool:
        forks = await list_forks(desk.client, handle.id)
        states = [await RunHandle(desk.client, one).state() for one in forks]
        return bool(states) and all(one.outcome == "cancelled" for one in states)

    await until(ended)
    [fork] = await list_forks(desk.client, handle.id)
    assert fork.startswith(f"{handle.id}~{PREFIX}")
    used = (await RunHandle(desk.client, fork).state()).usage.requests
    assert used == before.usage.requests + 2


async def test_what_needs_a_decision_gives_no_draft_and_leaves_none_in_the_inbox(
    desk: Desk,
) -> None:
    handle = await held(desk, ScriptedModel("Hello.", [call("pay", "c1", order="7")]))
    with pytest.raises(UserError, match="needs a decision"):
        await suggest_reply(desk.client, handle.id, by="ann")
    assert called == []

    async def is_empty() -> bool:
        listed = await Inbox(desk.client).list()
        return not [one for one in listed if one.run_id.startswith(handle.id)]

    await until(is_empty)


async def test_an_answer_that_people_approve_is_a_draft_as_it_is(desk: Desk) -> None:
    agent = Agent(name="Careful", instructions="Help.", output_approval=True)
    await desk.open(agent, model=ScriptedModel("Hello.", "It comes <today>."))
    handle = await desk.start(agent, keep_open=True, run_config=ANYBODY)
    await handle.wait_for_people()
    [request] = await handle.approvals()
    await handle.approve(request, by="ann")
    await handle.wait(lambda run: run.status == "idle")
    await handle.hold(by="ann")
    await handle.send("When?")
    await handle.wait(lambda run: bool(run.unread or run.answering))
    assert await suggest_reply(desk.client, handle.id, by="ann") == "It comes <today>."


async def test_a_model_that_fails_says_so_and_leaves_the_conversation(desk: Desk) -> None:
    handle = await held(desk, ScriptedModel("Hello.", model_error(retryable=False)))
    with pytest.raises(UserError, match="could not answer"):
        await suggest_reply(desk.client, handle.id, by="ann")
    assert (await handle.state()).failure is None


async def test_without_a_question_and_for_others_there_is_no_draft(desk: Desk) -> None:
    handle = await held(desk, ScriptedModel("Hello."), says="")
    with pytest.raises(UserError, match=NO_QUESTION):
        await suggest_reply(desk.client, handle.id, by="ann")
    await handle.send("Hello?")
    await handle.wait(lambda run: bool(run.unread or run.answering))
    with pytest.raises(UserError):
        await suggest_reply(desk.client, handle.id, by="bob")
    assert (await handle.state()).hold is not None


async def test_two_drafts_at_once_are_two_forks(desk: Desk) -> None:
    handle = await held(desk, ScriptedModel("Hello.", "One.", "Two."))
    drafts = await asyncio.gather(
        *(suggest_reply(desk.client, handle.id, by="ann") for _ in range(2))
    )
    assert sorted(drafts) == ["One.", "Two."]
