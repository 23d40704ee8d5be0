"""Pages of the desk on a server: what people decide there is what runs."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.client.start.options import run_input
from outlast.contract import names, records
from outlast.loop.approvals import Person
from outlast.notifications.mail import MailNotifier, Recipient
from outlast.serve.app import desk as web_desk
from outlast.serve.login import ThisMachine
from outlast.testing import ScriptedModel, call
from tests.unit.notifications.smtp_server import smtp_server
from tests.unit.serve.hostile_pages import active_content
from tests.workflow.desk import PATIENCE_SECONDS, Desk, waits_for
from tests.workflow.people import ANN, BOB, clerk, refunds
from tests.workflow.replies import outputs

HOST = "http://localhost:8090"
OWN = {"Origin": HOST}


@asynccontextmanager
async def browser(desk: Desk, person: Person) -> AsyncGenerator[Any]:
    """Yield what sends requests as a person does on a desk of their own process."""
    application = web_desk(desk.client, login=ThisMachine(person))
    transport = httpx2.ASGITransport(application, client=("127.0.0.1", 5000))
    try:
        async with httpx2.AsyncClient(transport=transport, base_url=HOST) as http:
            yield http
    finally:
        await application.state.desk.close()


def page_of(handle: RunHandle, request_id: str = "a1") -> str:
    return f"/conversations/{handle.id}/requests/{request_id}"


def form_in(text: str, deed: str) -> dict[str, str]:
    """Return the hidden fields of the form for an action."""
    for form in re.findall(r"<form.*?</form>", text, re.DOTALL):
        fields = dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', form))
        if fields.get("deed") == deed:
            return {name: value.replace("&#34;", '"') for name, value in fields.items()}
    raise AssertionError(f"there is no form to {deed}")


async def decide(http: Any, handle: RunHandle, deed: str, **fields: str) -> Any:
    """Open the page of a request, and send one of its forms."""
    text = (await http.get(page_of(handle))).text
    data = form_in(text, deed) | fields
    return await http.post(page_of(handle), data=data, headers=OWN)


async def waiting(desk: Desk, policy: ApprovalPolicy | bool, ran: list[int]) -> RunHandle:
    agent = clerk(policy, ran)
    await desk.open(agent, model=ScriptedModel(refunds(50), "Done."))
    handle = await desk.start(agent)
    await desk.until(handle, waits_for(1))
    return handle


@pytest.mark.smoke
async def test_two_people_decide_on_their_pages_and_a_late_decision_is_refused(desk: Desk) -> None:
    ran: list[int] = []
    handle = await waiting(
        desk, ApprovalPolicy(quorum=2, audience="billing", unverified="allow"), ran
    )
    async with browser(desk, ANN) as ann, browser(desk, BOB) as bob:
        opened = (await bob.get(page_of(handle))).text
        assert "did=decided" in (await decide(ann, handle, "approve")).headers["Location"]
        after = (await ann.get(page_of(handle))).text
        assert "1 of 2" in after
        assert "a different person has to agree" in after
        assert (await decide(ann, handle, "withdraw")).headers["Location"].endswith("did=withdrawn")
        assert (await decide(ann, handle, "approve")).status_code == 303
        answer = await bob.post(page_of(handle), data=form_in(opened, "approve"), headers=OWN)
        receipt = (await bob.get(answer.headers["Location"])).text
        assert "Approved by bob. The call runs." in receipt
        await desk.result(handle)
        assert ran == [50]
        late = await ann.post(
            page_of(handle), data=form_in(after, "reject") | {"message": "No."}, headers=OWN
        )
        assert late.status_code == 409
        assert "has ended (completed). Start a new run" in late.text
        assert "nothing left to decide" in late.text
        assert active_content(late.text) == []


async def test_the_inbox_has_every_request_of_a_run_and_decides_them_together(desk: Desk) -> None:
    ran: list[int] = []
    agent = clerk(ApprovalPolicy(bulk=True), ran)
    await desk.open(agent, model=ScriptedModel(refunds(1, 2, 3), "Done."))
    handle = await desk.start(agent)
    await desk.until(handle, waits_for(3))
    async with browser(desk, ANN) as ann, asyncio.timeout(PATIENCE_SECONDS):
        while handle.id not in (await ann.get("/inbox?limit=1000")).text:  # noqa: ASYNC110  visibility is a moment behind
            await asyncio.sleep(0.2)
        rows = (await ann.get(f"/inbox/requests/{handle.id}")).text
        for euros in (1, 2, 3):
            assert f'Euros</span> <bdi class="value">{euros}</bdi>' in rows
        plan = (await ann.post("/inbox/plan", data={"run": handle.id}, headers=OWN)).text
        assert "You decide 3 requests" in plan
        seen = re.findall(r'name="seen" value="([^"]+)"', plan)
        one = form_in(rows, "approve")
        done = await ann.post(
            f"/inbox/requests/{handle.id}/a1", data=one, headers=OWN | {"HX-Request": "true"}
        )
        assert "Approved by ann. The call runs." in done.text
        agreed = re.findall(r'name="agreed" value="([^"]+)"', plan)
        data = {"run": handle.id, "seen": seen, "agreed": agreed, "decision": "approve"}
        sent = await ann.post("/inbox/decide", data=data, headers=OWN)
        outcome = (await ann.get(sent.headers["Location"])).text
        assert "2 requests approved, 1 left alone" in outcome
        assert "It was decided before you by ann." in outcome
        await desk.result(handle)
    assert sorted(ran) == [1, 2, 3]


async def test_a_mail_leads_to_its_request_and_says_so_if_there_is_a_later_one(desk: Desk) -> None:
    @function_tool(needs_approval=True)
    async def refund(order: str) -> str:
        return f"refunded {order}"

    agent = Agent[Any](name="Clerk", tools=[refund])
    replies: list[Any] = [[call("refund", "c1", order="A-1")], "Done."]
    model = ScriptedModel(*replies, *replies)
    async with smtp_server() as smtp, browser(desk, ANN) as ann:
        mail = MailNotifier(
            "127.0.0.1",
            smtp.port,
            sender="desk@example.com",
            to=[Recipient(subject="ann", address="ann@example.com")],
            link_base=HOST,
            security="none",
            events=["created"],
        )
        await desk.open(agent, model=model, notifiers=[mail])
        first = await desk.start(agent)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not smtp.received:  # noqa: ASYNC110  the server has no event
                await asyncio.sleep(0.02)
        text = str(smtp.received[0][1].get_content())
        link = text.partition(HOST)[2].split()[0]
        opened = (await ann.get(link)).text
        assert "earlier request" not in opened
        answer = await ann.post(page_of(first), data=form_in(opened, "reject"), headers=OWN)
        assert answer.status_code == 303
        await desk.result(first)
        assert "must not run" in str(outputs(model.requests[1])["c1"])

        record = records.write(run_input(agent, "Hello"))
        await desk.client.start_workflow(names.WORKFLOW, record, id=first.id, task_queue=desk.queue)
        await desk.until(RunHandle(desk.client, first.id), waits_for(1))
        again = (await ann.get(link)).text
        assert "of an earlier request with the same id" in again
        stale = await ann.post(page_of(first), data=form_in(opened, "approve"), headers=OWN)
        assert stale.status_code == 409


async def test_a_page_of_the_list_that_no_server_has_given_is_refused_at_once(client: Any) -> None:
    application = web_desk(client, login=ThisMachine(ANN))
    transport = httpx2.ASGITransport(application, client=("127.0.0.1", 5000))
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        httpx2.AsyncClient(transport=transport, base_url=HOST) as http,
    ):
        answer = await http.get("/conversations", params={"page": "QUFBQQ=="})
    assert answer.status_code == 400
    assert "no such page" in answer.text
    assert "Begin with the first one." in answer.text
