"""Who asks for something does not decide alone about it, by whichever route they wrote."""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy, Audience
from outlast.agents.errors import DecisionRefused
from outlast.client.handle import RunHandle
from outlast.client.identity import person
from outlast.contract.identity import new_shared_key
from outlast.serve.wires.ids import ResponseId
from outlast.testing import ScriptedModel, call
from tests.workflow.desk import PATIENCE_SECONDS, Desk, waits_for
from tests.workflow.people import clerk, refunds
from tests.workflow.test_desk_api import PROGRAM, app_of, opened
from tests.workflow.test_desk_wires import body_of
from tests.workflow.test_wires import said

OTHERS = ApprovalPolicy(audience=Audience(groups=["billing"], exclude_requester=True))
ASKED = "asked for this, so somebody else has to decide"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The desk proves who decides."""
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", new_shared_key())


# --- The routes: each takes a message, and returns the conversation ---------------------------------


async def by_api(http: Any, run_id: str, text: str) -> str:
    path = f"/api/conversations/{run_id}/messages"
    answer = await http.post(path, json={"text": text, "agent": "Clerk"})
    assert answer.status_code == 202, answer.text
    return run_id


async def by_responses(http: Any, run_id: str, text: str) -> str:
    body = {"model": "Clerk", "input": text, "conversation": run_id, "background": True}
    answer = await http.post("/v1/responses", json=body)
    assert answer.status_code == 200, answer.text
    made = ResponseId.parse(answer.json()["id"])
    assert made is not None
    return made.run_id


async def by_ag_ui(http: Any, run_id: str, text: str) -> str:
    body = body_of(run_id, (secrets.token_hex(4), text))
    assert (await http.post("/agui/Clerk", json=body)).status_code == 200
    return run_id


async def by_vercel(http: Any, run_id: str, text: str) -> str:
    """The stream stays open while a person decides: the front end goes once it has begun."""
    body = {"id": run_id, "messages": [said(text, secrets.token_hex(4))]}
    reading = asyncio.create_task(http.post("/vercel/Clerk", json=body))
    while text not in (await http.get(f"/api/conversations/{run_id}")).text:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    return run_id


async def by_chat_page(http: Any, run_id: str, text: str) -> str:
    data = {"nonce": secrets.token_hex(8), "text": text}
    assert (await http.post(f"/chat/c/{run_id}", data=data)).status_code in {200, 303}
    return run_id


async def by_a2a(http: Any, run_id: str, text: str) -> str:
    message = {"messageId": secrets.token_hex(4), "role": "ROLE_USER", "parts": [{"text": text}]}
    if run_id.startswith("a2a-"):
        message["contextId"] = run_id
    params = {"message": message, "configuration": {"returnImmediately": True}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    answer = (await http.post("/a2a/Clerk", json=body, headers={"A2A-Version": "1.0"})).json()
    assert "result" in answer, answer
    return answer["result"]["task"]["contextId"]


ROUTES = [by_api, by_responses, by_ag_ui, by_vercel, by_chat_page, by_a2a]


@asynccontextmanager
async def team(desk: Desk, agent: Agent[Any], *names: str) -> AsyncGenerator[list[Any]]:
    """Return a browser for each of some people, all of whom may do everything."""
    async with asyncio.timeout(PATIENCE_SECONDS), AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(opened(app_of(desk, agent, name=name)))
            for name in names
        ]


async def decided(http: Any, run: RunHandle) -> tuple[int, str]:
    """Approve the request of a run at the desk; return the answer's status and text."""
    path = f"/api/conversations/{run.id}/requests"
    (request,) = (await http.get(path)).json()["requests"]
    vote = {"type": "approve", "digest": request["digest"]}
    answer = await http.post(f"{path}/{request['id']}/decide", json=vote)
    return answer.status_code, answer.text


@pytest.mark.parametrize("route", ROUTES)
async def test_a_member_of_staff_does_not_decide_about_what_they_ask_for(
    desk: Desk, route: Any
) -> None:
    """One begins the conversation, another one writes in it later."""
    agent = clerk(OTHERS)
    await desk.open(agent, model=ScriptedModel(refunds(5), "Refunded.", refunds(6), "Again."))
    async with team(desk, agent, "ann", "bob") as (ann, bob):
        run_id = f"run-{secrets.token_hex(6)}"
        run = RunHandle(desk.client, await route(ann, run_id, "Refund, please."))
        desk.ids.append(run.id)
        await desk.until(run, waits_for(1))
        status, words = await decided(ann, run)
        assert (status, ASKED in words) == (409, True), words
        assert (await decided(bob, run))[0] == 200
        await desk.until_status(run, "idle")
        assert await route(bob, run.id, "One more refund, please.") == run.id
        await desk.until(run, waits_for(1))
        status, words = await decided(bob, run)
        assert (status, ASKED in words) == (409, True), words
        assert (await decided(ann, run))[0] == 200, "who began it did not ask for this"
        state = await desk.until_status(run, "idle")
        assert [one.authors for one in state.answers] == [("ann",), ("bob",)]
        await run.cancel()


async def test_the_customer_never_decides_and_the_author_only_what_others_asked(desk: Desk) -> None:
    agent = clerk(OTHERS)
    await desk.open(agent, model=ScriptedModel(refunds(5), "Refunded.", refunds(6), "Again."))
    run = await desk.start(agent, keep_open=True, customer="cara", author="ann")

    async def excluded(*names: str) -> None:
        await desk.until(run, waits_for(1))
        (request,) = await run.approvals()
        for name in names:
            with pytest.raises(DecisionRefused, match=ASKED):
                await run.approve(request, by=person(name, groups=["billing"]))

    await excluded("cara", "ann")
    await run.approve("a1", by=person("bob", groups=["billing"]))
    await desk.until_status(run, "idle")
    await run.send("One more, please.")  # by the customer
    await excluded("cara")
    await run.approve((await run.approvals())[0], by=person("ann", groups=["billing"]))
    await desk.until_status(run, "idle")
    await run.cancel()


async def test_a_customers_question_is_decided_by_whoever_wrote_an_earlier_one(desk: Desk) -> None:
    agent = clerk(OTHERS)
    await desk.open(agent, model=ScriptedModel("Hello.", "Yes?", refunds(5), "Refunded."))
    async with team(desk, agent, "ann") as (ann,):
        run_id = desk.new_id()
        body = {"agent": "Clerk", "input": "Hello", "id": run_id}
        assert (await ann.post("/api/conversations", json=body, headers=PROGRAM)).is_success
        run = RunHandle(desk.client, run_id)
        await desk.until_status(run, "idle")
        await by_api(ann, run_id, "Are you there?")
        await desk.until(run, lambda state: len(state.answers) == 2)
        await run.send("Refund, please.")
        await desk.until(run, waits_for(1))
        assert (await decided(ann, run))[0] == 200
        await desk.until_status(run, "idle")
        await run.cancel()


async def test_a_remembered_decision_does_not_cover_what_its_author_asks_for(desk: Desk) -> None:
    ran: list[int] = []
    agent = clerk(OTHERS, ran)
    await desk.open(agent, model=ScriptedModel(refunds(5), "Refunded.", refunds(6), "Again."))
    async with team(desk, agent, "ann", "bob") as (ann, bob):
        run = await desk.start(agent, keep_open=True)
        await desk.until(run, waits_for(1))
        path = f"/api/conversations/{run.id}/requests"
        (request,) = (await ann.get(path)).json()["requests"]
        vote = {"type": "approve", "digest": request["digest"], "remember": "tool"}
        assert (await ann.post(f"{path}/{request['id']}/decide", json=vote)).is_success
        await desk.until_status(run, "idle")
        await by_api(ann, run.id, "One more refund, please.")
        await desk.until(run, waits_for(1))
        assert ran == [5]
        assert (await decided(ann, run))[0] == 409
        assert (await decided(bob, run))[0] == 200
        await desk.until_status(run, "idle")
        assert ran == [5, 6]
        await run.cancel()


async def test_the_author_of_a_question_does_not_decide_in_a_nested_run(desk: Desk) -> None:
    inner = clerk(OTHERS)
    agent = Agent[Any](name="Clerk", tools=[inner.clone(name="Inner").as_tool("ask_inner", "Ask.")])
    asks = [call("ask_inner", "n1", input="Refund.")]
    await desk.open(agent, model=ScriptedModel("Hello.", asks, refunds(5), "Refunded.", "Done."))
    async with team(desk, agent, "ann") as (ann,):
        run = await desk.start(agent, keep_open=True)
        await desk.until_status(run, "idle")
        await by_api(ann, run.id, "Refund, please.")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await run.approvals():  # noqa: ASYNC110  in a run of its own
                await asyncio.sleep(0.05)
        (request,) = await run.approvals()
        with pytest.raises(DecisionRefused, match=ASKED):
            await run.approve(request, by=person("ann", groups=["billing"]))
        await run.approve(request, by=person("bob", groups=["billing"]))
        await desk.until_status(run, "idle")
        await run.cancel()
