"""The wires of the Vercel AI SDK and of OpenAI's Responses on a server: who is asked, and who may."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from starlette.applications import Starlette

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.client.handle import RunHandle
from outlast.contract.identity import Place, new_shared_key, read_keys, signed
from outlast.serve.wires.ids import RequestId, ResponseId
from outlast.testing import ScriptedModel, call
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.people import ANN, clerk, refunds
from tests.workflow.test_desk_api import PROGRAM, SECONDS, TOKENS, app_of, bearer, opened, scope_of
from tests.workflow.test_retries import NO_KEY

STAFF = {"Origin": "http://localhost"}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The desk proves who decides."""
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", new_shared_key())


def said(text: str, message_id: str = "m1") -> dict[str, Any]:
    """Return a message of the user, as `useChat` sends it."""
    return {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]}


class Chat:
    """A chat of `useChat`: it sends its messages, and reads the chunks of the answer."""

    def __init__(self, app: Starlette, run_id: str, headers: dict[str, str]) -> None:
        self.chunks: list[Any] = []
        self.status = 0
        self._app, self._run_id = app, run_id
        self._headers = {**headers, "Content-Type": "application/json"}
        self._news = asyncio.Event()

    async def send(self, *messages: Any, agent: str = "Clerk", **more: Any) -> list[Any]:
        """Send the messages, and return all chunks of the answer."""
        self.chunks, body = [], {"id": self._run_id, "messages": messages}
        sent = iter([json.dumps({"trigger": "submit-message", **body, **more}).encode()])

        async def receive() -> Any:
            for one in sent:
                return {"type": "http.request", "body": one, "more_body": False}
            return await asyncio.Event().wait()

        self.status = 0
        scope = scope_of("POST", f"/vercel/{agent}", self._headers)
        async with asyncio.timeout(SECONDS):
            await self._app(scope, receive, self._take)
        assert self.status == 200, self.chunks
        return self.chunks

    async def _take(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        for line in message.get("body", b"").decode().split("\n"):
            data = line.removeprefix("data: ")
            if data not in {line, "[DONE]"}:
                self.chunks.append(json.loads(data))
            elif line.startswith("{"):
                self.chunks.append(json.loads(line))
        self._news.set()

    def of(self, kind: str) -> list[Any]:
        """Return the chunks of a type."""
        return [one for one in self.chunks if one.get("type") == kind]

    async def until(self, condition: "Callable[[Chat], object]") -> None:
        """Wait until the chunks satisfy a condition."""
        async with asyncio.timeout(SECONDS):
            while not condition(self):
                self._news.clear()
                await self._news.wait()


async def test_a_customer_reads_the_policys_words_and_nothing_else(desk: Desk):
    policy = ApprovalPolicy(audience="billing", customer_text="A colleague checks this.")
    agent = clerk(policy)
    await desk.open(agent, model=ScriptedModel(refunds(5), "Refunded."))
    run_id = desk.new_id()
    app = app_of(desk, agent)
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app):
        chat = Chat(app, run_id, bearer(TOKENS.mint(run_id)))
        sending = asyncio.create_task(chat.send(said("Refund A-17.")))
        await chat.until(lambda it: any(not one["data"]["works"] for one in it.of("data-outlast")))
        assert chat.of("data-outlast")[-1] == {
            "type": "data-outlast",
            "data": {"works": False, "waitsFor": "A colleague checks this."},
            "transient": True,
        }
        assert {one["type"] for one in chat.chunks} == {"start", "start-step", "data-outlast"}
        await RunHandle(desk.client, run_id).approve("a1", by=ANN)
        chunks = await sending
        assert chunks[-1] == {"type": "finish", "finishReason": "stop"}
        assert "".join(one["delta"] for one in chat.of("text-delta")) == "Refunded."
        assert "refund" not in json.dumps(chunks).replace("Refunded.", "")
        assert {*chat.of("data-outlast")[-1]["data"]} == {"works", "waitsFor"}


# --- Requests of nested runs ---------------------------------------------------------------------


def helpdesk(policy: ApprovalPolicy | bool = True) -> Agent[Any]:
    """Return an agent that asks the clerk, in a run of its own."""
    return Agent(name="Desk", tools=[clerk(policy).as_tool("ask_clerk", "Ask about refunds.")])


def script() -> ScriptedModel:
    return ScriptedModel(
        [call("ask_clerk", "o1", input="Refund A-17.")],
        [call("refund", "c1", order="A-17", euros=5)],
        [call("refund", "o1", order="B-18", euros=7)],  # the id of the root's own call
        "Both are refunded.",
        "Your money is on its way.",
    )


def asked_in(chat: Chat) -> list[Any]:
    """Return the parts that wait for a decision, with the ids of their approvals."""
    calls = {one["toolCallId"]: one for one in chat.of("tool-input-available")}
    found: list[Any] = []
    for one in chat.of("tool-approval-request"):
        part = calls[one["toolCallId"]]
        approval = {"id": one["approvalId"]}
        found.append({**part, "type": "dynamic-tool", "approval": approval})
    return found


def decided(part: Any, *, approved: bool = True) -> Any:
    """Return a part as `useChat` has it after a decision."""
    approval = {**part["approval"], "approved": approved}
    return {**part, "state": "approval-responded", "approval": approval}


async def test_a_chat_asks_for_the_decisions_of_nested_runs(desk: Desk):
    agent = helpdesk()
    await desk.open(agent, model=script())
    run_id, app = desk.new_id(), app_of(desk, agent)
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app):
        chat = Chat(app, run_id, STAFF)
        mine = said("Refund, please.")
        await chat.send(mine, agent="Desk")
        answer_id = chat.of("start")[0]["messageId"]
        [part] = asked_in(chat)
        assert (part["toolName"], part["input"]) == ("refund", {"order": "A-17", "euros": 5})
        assert chat.chunks[-1]["finishReason"] == "tool-calls"

        answer = {"id": answer_id, "role": "assistant", "parts": [decided(part)]}
        await chat.send(mine, answer, agent="Desk", messageId=answer_id)
        first, second = asked_in(chat)
        assert (first["toolCallId"], second["input"]["order"]) == (part["toolCallId"], "B-18")
        assert chat.of("tool-approval-response")[0]["approved"] is True
        assert chat.of("tool-output-available")[0]["toolCallId"] == part["toolCallId"]
        assert chat.of("start")[0]["messageId"] == answer_id

        # The client has lost the answer: the same decisions again go on from the same place.
        again = [decided(part), decided(second, approved=False)]
        for _ in range(2):
            answer = {"id": answer_id, "role": "assistant", "parts": again}
            await chat.send(mine, answer, agent="Desk", messageId=answer_id)
            assert chat.chunks[-1] == {"type": "finish", "finishReason": "stop"}
            text = "".join(one["delta"] for one in chat.of("text-delta"))
            assert text == "Your money is on its way."
            assert second["toolCallId"] in {
                one["toolCallId"] for one in chat.of("tool-output-denied")
            }
        [nested] = await desk.nested(RunHandle(desk.client, run_id))
        requests = (await nested.state()).approvals
        assert [(one.status, one.settled_by) for one in requests] == [
            ("approved", "ann"),
            ("rejected", "ann"),
        ]
        assert all(vote.verified for one in requests for vote in one.votes)


async def create(http: Any, headers: dict[str, str], **body: Any) -> Any:
    answer = await http.post("/v1/responses", json=body, headers=headers)
    return {"code": answer.status_code, **answer.json()}


def requests_of(response: Any) -> list[Any]:
    return [one for one in response["output"] if one["type"] == "mcp_approval_request"]


def response_to(request: Any, *, approve: bool = True) -> Any:
    name = {"approval_request_id": request["id"], "approve": approve}
    return {"type": "mcp_approval_response", **name}


async def test_a_response_asks_for_the_decisions_of_nested_runs(desk: Desk):
    agent = helpdesk()
    await desk.open(agent, model=script())
    run_id, app = desk.new_id(), app_of(desk, agent)
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app) as http:
        first = await create(http, STAFF, model="Desk", input="Refund.", conversation=run_id)
        [request] = requests_of(first)
        assert (first["status"], request["name"]) == ("completed", "refund")
        assert json.loads(request["arguments"]) == {"order": "A-17", "euros": 5}
        still = await create(http, STAFF, previous_response_id=first["id"], input=[])
        assert (still["id"], requests_of(still)) == (first["id"], [request])

        second: Any = None
        for _ in range(2):  # a client that repeats its request decides once
            second = await create(
                http, STAFF, previous_response_id=first["id"], input=[response_to(request)]
            )
            [other] = requests_of(second)
            assert json.loads(other["arguments"])["order"] == "B-18"
        # Somebody else decides.
        await RunHandle(desk.client, run_id).approve(
            (await RunHandle(desk.client, run_id).approvals())[0], by=ANN
        )
        rest = await create(http, STAFF, previous_response_id=second["id"], input=[])
        assert (rest["status"], requests_of(rest)) == ("completed", [])
        texts = [one["content"][0]["text"] for one in rest["output"] if one["type"] == "message"]
        assert texts == ["Your money is on its way."]
        stale = response_to(request, approve=False)
        refused = await create(http, STAFF, previous_response_id=first["id"], input=[stale])
        assert refused["code"] == 409


async def test_two_people_decide_what_a_nested_run_asks(desk: Desk):
    agent = helpdesk(ApprovalPolicy(audience="billing", quorum=2))
    model = ScriptedModel(
        [call("ask_clerk", "o1", input="Refund A-17.")],
        [call("refund", "c1", order="A-17", euros=5)],
        "Refunded.",
        "Done.",
    )
    await desk.open(agent, model=model)
    run_id, ann, bob = desk.new_id(), app_of(desk, agent), app_of(desk, agent, name="bob")
    async with asyncio.timeout(PATIENCE_SECONDS), opened(ann) as http, opened(bob):
        asked = await create(http, STAFF, model="Desk", input="Refund.", conversation=run_id)
        [request] = requests_of(asked)
        waits = await create(
            http, STAFF, previous_response_id=asked["id"], input=[response_to(request)]
        )
        assert (waits["status"], waits["output"]) == ("in_progress", [])
        # Bob is asked in his chat, and the first response's client reads on.
        chat = Chat(bob, run_id, STAFF)
        more = said("And quickly.", "m2")
        await chat.send(more, agent="Desk")
        [part] = asked_in(chat)
        own = chat.of("start")[0]["messageId"]
        answer = {"id": own, "role": "assistant", "parts": [decided(part)]}
        sending = asyncio.create_task(chat.send(more, answer, agent="Desk", messageId=own))
        done = await http.get(f"/v1/responses/{waits['id']}?stream=true")
        assert "Done." in done.text
        await sending


async def test_nobody_else_is_asked_by_nested_runs(desk: Desk):
    agent = helpdesk(ApprovalPolicy(audience="leads", customer_text="A colleague looks."))
    await desk.open(agent, model=script())
    run_id, app = desk.new_id(), app_of(desk, agent)
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app) as http:
        mine = bearer(TOKENS.mint(run_id))
        asked = await create(http, mine, model="Desk", input="Refund.", background=True)
        await desk.until_status(RunHandle(desk.client, run_id), "waiting")
        [request] = await RunHandle(desk.client, run_id).approvals()
        for headers in (mine, PROGRAM, STAFF):
            seen = await http.get(f"/v1/responses/{asked['id']}", headers=headers)
            assert (seen.json()["status"], seen.json()["output"]) == ("in_progress", [])
            answer = response_to({"id": str(RequestId.of(request))})
            body = {"previous_response_id": asked["id"], "input": [answer]}
            assert (await create(http, headers, **body))["code"] == 403
        chat = Chat(app, run_id, mine)
        reading = asyncio.create_task(chat.send(said("Hello?"), agent="Desk"))
        await chat.until(lambda it: it.of("data-outlast"))
        assert chat.of("data-outlast")[0]["data"]["waitsFor"] == "A colleague looks."
        assert "refund" not in json.dumps(chat.chunks)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        [request] = await RunHandle(desk.client, run_id).approvals()
        assert request.votes == ()


# --- Who may do what -----------------------------------------------------------------------------

REFUSING = ApprovalPolicy(unverified="refuse", customer_text="We check this.")
FORGED: dict[str, Any] = {
    "by": "lee",
    "groups": ["billing"],
    "person": {"subject": "lee"},
    "proof": "v2.k.1.n.s",
    "verified": True,
}
"""What a client may write into a decision: none of it is an identity."""


async def waiting_clerk(desk: Desk, policy: ApprovalPolicy = REFUSING) -> tuple[Any, str, Any]:
    """Return an agent, a run of it that waits for a decision, and the id of the request."""
    agent = clerk(policy)
    await desk.open(agent, model=ScriptedModel(refunds(5), "Refunded.", always="Yes."))
    handle = await desk.start(agent, "Refund.", keep_open=True, message_id="customer-m1")
    await desk.until_status(handle, "waiting")
    [request] = await handle.approvals()
    return agent, handle.id, {"id": str(RequestId.of(request))}


def in_chat(request: Any, **more: Any) -> Any:
    """Return a message of a chat with the approval of a request."""
    approval = {**more, "id": f"{request['id']}~a", "approved": True}
    part = {"type": "dynamic-tool", "toolCallId": "c5", "state": "approval-responded"}
    return {"id": "a", "role": "assistant", "parts": [{**part, **more, "approval": approval}]}


async def test_a_decision_is_that_of_the_login_and_signed(desk: Desk):
    agent, run_id, request = await waiting_clerk(desk)
    app = app_of(desk, agent)
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app):
        chat = Chat(app, run_id, STAFF)
        await chat.send(said("Refund."), in_chat(request, **FORGED), messageId="a", **FORGED)
        assert chat.chunks[-1]["finishReason"] == "stop"
    [settled] = (await RunHandle(desk.client, run_id).state()).approvals
    [vote] = settled.votes
    assert (settled.settled_by, vote.verified) == ("ann", True)
    assert (vote.decision.by, vote.decision.groups) == ("ann", ("billing",))
    assert vote.decision.channel == "vercel"


async def test_a_desk_whose_signature_nobody_trusts_decides_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    agent, run_id, request = await waiting_clerk(desk)
    app = app_of(desk, agent)
    named = str(ResponseId(run_id, "customer-m1", 0))
    [other] = read_keys(new_shared_key())

    async def forge(client: Any, decision: Any, run: str, **_: Any) -> Any:
        chain = (await client.get_workflow_handle(run).describe()).run_id
        place = Place(namespace=client.namespace, chain_id=chain, run_id=run)
        return signed(decision, place, other, at_ms=time.time_ns() // 1_000_000)

    monkeypatch.setattr("outlast.client.people.actions.sign", forge)
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app) as http:
        body = {"previous_response_id": named, "input": [response_to(request)]}
        refused = await http.post("/v1/responses", json=body, headers=STAFF)
        assert refused.status_code == 409
        assert "does not trust" in refused.json()["error"]["message"]
    [request] = await RunHandle(desk.client, run_id).approvals()
    assert request.votes == ()


async def test_a_program_starts_and_writes_and_decides_nothing(desk: Desk):
    agent, waiting_id, request = await waiting_clerk(desk)
    app, run_id = app_of(desk, agent), desk.new_id()
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app) as http:
        chat = Chat(app, run_id, PROGRAM)
        await chat.send(said("Hello"))
        assert "".join(one["delta"] for one in chat.of("text-delta")) == "Refunded."
        done = await create(http, PROGRAM, model="Clerk", input="Again", conversation=run_id)
        assert done["output"][0]["content"][0]["text"] == "Yes."
        body = {"id": waiting_id, "messages": [said("Refund."), in_chat(request)]}
        chat_answer = await http.post("/vercel/Clerk", json=body, headers=PROGRAM)
        assert (chat_answer.status_code, "An API key cannot decide" in chat_answer.text) == (
            403,
            True,
        )
        named = str(ResponseId(waiting_id, "customer-m1", 0))
        body = {"previous_response_id": named, "input": [response_to(request)]}
        refused = await create(http, PROGRAM, **body)
        assert (refused["code"], "An API key cannot decide" in refused["error"]["message"]) == (
            403,
            True,
        )
        seen = await http.get(f"/v1/responses/{named}", headers=PROGRAM)
        assert (seen.json()["status"], seen.json()["output"]) == ("in_progress", [])
    [left] = await RunHandle(desk.client, waiting_id).approvals()
    assert left.votes == ()


async def test_a_customers_token_opens_its_conversation_and_nothing_else(desk: Desk):
    agent, theirs, request = await waiting_clerk(desk)
    app, run_id = app_of(desk, agent), desk.new_id()
    mine = bearer(TOKENS.mint(run_id))
    named = str(ResponseId(theirs, "customer-m1", 0))
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app) as http:
        begun = await create(http, mine, model="Clerk", input="Hello")
        assert begun["conversation"]["id"] == run_id
        attempts: list[tuple[str, str, Any]] = [
            ("GET", f"/v1/responses/{named}", None),
            ("GET", f"/v1/responses/{named}?stream=true&starting_after=0", None),
            ("POST", f"/v1/responses/{named}/cancel", None),
            ("POST", "/v1/responses", {"previous_response_id": named, "input": []}),
            ("POST", "/v1/responses", {"model": "Clerk", "input": "Hi", "conversation": theirs}),
            ("GET", f"/vercel/Clerk/{theirs}/stream", None),
            ("GET", f"/vercel/Clerk/{theirs}/stream?message=m1", None),
            ("POST", "/vercel/Clerk", {"id": theirs, "messages": [said("Hi", "m9")]}),
            (
                "POST",
                "/vercel/Clerk",
                {"id": theirs, "messages": [said("Refund."), in_chat(request)]},
            ),
            (
                "POST",
                "/vercel/Clerk",
                {"id": theirs, "messages": [said("Hi")], "trigger": "regenerate-message"},
            ),
            # The body names the customer's own conversation, and the id of the response another one.
            (
                "POST",
                "/v1/responses",
                {"conversation": run_id, "previous_response_id": named, "input": "Hi"},
            ),
        ]
        for method, path, body in attempts:
            answer = await http.request(method, path, json=body, headers=mine)
            assert answer.status_code in {400, 401, 403}, (path, body, answer.text)
            assert "refund" not in answer.text.lower()
        # Not even the customer of that conversation decides, or cancels.
        own = bearer(TOKENS.mint(theirs))
        for method, path, body in (
            ("POST", f"/v1/responses/{named}/cancel", None),
            (
                "POST",
                "/v1/responses",
                {"previous_response_id": named, "input": [response_to(request)]},
            ),
            (
                "POST",
                "/vercel/Clerk",
                {"id": theirs, "messages": [said("Refund."), in_chat(request)]},
            ),
        ):
            answer = await http.request(method, path, json=body, headers=own)
            assert (answer.status_code, "Only the team" in answer.text) == (403, True), path
    state = await RunHandle(desk.client, theirs).state()
    assert (state.status, state.unread, state.approvals[0].votes) == ("waiting", (), ())


# --- Asking again --------------------------------------------------------------------------------


async def test_a_chat_asks_a_failed_question_again_and_an_answered_one_not(desk: Desk):
    agent = clerk()
    await desk.open(agent, model=ScriptedModel(NO_KEY, "Here it is.", always="Yes."))
    run_id, app = desk.new_id(), app_of(desk, agent)
    mine, question = bearer(TOKENS.mint(run_id)), said("Where is it?")
    again = {"id": run_id, "messages": [question], "trigger": "regenerate-message"}
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app) as http:
        chat = Chat(app, run_id, mine)
        # A message that never arrived is sent, not asked again.
        await chat.send(question, trigger="regenerate-message")
        assert [one["errorText"] for one in chat.of("error")] == [
            "The question could not be answered."
        ]
        for headers, words in ((mine, "Only the team"), (PROGRAM, "An API key cannot retry")):
            refused = await http.post("/vercel/Clerk", json=again, headers=headers)
            assert (refused.status_code, words in refused.text) == (403, True)
        team = Chat(app, run_id, STAFF)
        await team.send(question, trigger="regenerate-message")
        assert "".join(one["delta"] for one in team.of("text-delta")) == "Here it is."
        assert team.chunks[-1]["finishReason"] == "stop"
        for headers in (STAFF, mine, PROGRAM):
            refused = await http.post("/vercel/Clerk", json=again, headers=headers)
            assert refused.status_code == 409
            assert refused.json()["error"]["code"] == "answered"
            assert "This message has an answer" in refused.text
        state = await RunHandle(desk.client, run_id).state()
        assert [one.failure is None for one in state.answers] == [False, True]
        assert sum(item.kind == "input" for item in state.items) == 1, "nothing is sent again"


async def test_an_answer_under_way_is_streamed_again_and_not_asked_again(desk: Desk):
    agent, run_id, _ = await waiting_clerk(desk)
    app = app_of(desk, agent)
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app):
        chat = Chat(app, run_id, STAFF)
        await chat.send(said("Refund."), trigger="regenerate-message")
        [part] = asked_in(chat)
        assert part["toolName"] == "refund"
    state = await RunHandle(desk.client, run_id).state()
    assert (state.turns, state.status) == (1, "waiting")
