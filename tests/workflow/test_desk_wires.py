"""AG-UI over HTTP on a server: how often a history is read, and who may do what over the wire."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from starlette.applications import Starlette
from temporalio.client import Client as TemporalClient

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.client.audit import audit_run
from outlast.client.handle import RunHandle
from outlast.serve.access import RoleRules
from outlast.testing import ScriptedModel, call
from tests.unit.serve.ag_ui_client import EVENT, Client
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.people import clerk
from tests.workflow.test_desk_api import PROGRAM, TOKENS, app_of, bearer, keys, opened, scope_of

__all__ = ["keys"]


def body_of(run_id: str, *messages: tuple[str, str], **fields: Any) -> dict[str, Any]:
    """Return a request with messages of the user."""
    written = [{"id": own, "role": "user", "content": text} for own, text in messages]
    return {"threadId": run_id, "runId": "1", "messages": written, **fields}


def events_in(text: str) -> list[dict[str, Any]]:
    """Return the events of a whole stream."""
    found: list[dict[str, Any]] = []
    for part in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in part.split("\n") if line[:1] not in {"", ":"})
        if "data" in fields:
            found.append(json.loads(fields["data"]))
    return found


def written_in(events: list[dict[str, Any]]) -> str:
    """Return the text that comes in pieces."""
    return "".join(one["delta"] for one in events if one["type"] == "TEXT_MESSAGE_CONTENT")


class Stream:
    """A stream over ASGI that its reader may break off."""

    def __init__(self, app: Starlette, path: str, body: Any, headers: dict[str, str]) -> None:
        self.text = ""
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._read(app, path, body, headers))

    async def _read(self, app: Starlette, path: str, body: Any, headers: dict[str, str]) -> None:
        sent = [{"type": "http.request", "body": json.dumps(body).encode()}]

        async def receive() -> Any:
            return sent.pop() if sent else await asyncio.Event().wait()

        async def send(message: Any) -> None:
            self.text += message.get("body", b"").decode()
            self._news.set()

        await app(scope_of("POST", path, headers), receive, send)

    async def until(self, condition: Callable[[list[dict[str, Any]]], object]) -> None:
        while not condition(self.events):
            self._news.clear()
            await self._news.wait()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    @property
    def events(self) -> list[dict[str, Any]]:
        return events_in(self.text)


def client_after(*streams: list[dict[str, Any]]) -> Client:
    """Return a front end that got these streams, one after the other."""
    client = Client()
    for events in streams:
        client.connect()
        client.take_all(map(EVENT.validate_python, events))
    return client


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the runs whose histories were read from their beginning, once for each time."""
    found: list[str] = []
    original: Any = TemporalClient.workflow_service.fget

    class Counting:
        def __init__(self, service: Any) -> None:
            self._service = service

        def __getattr__(self, name: str) -> Any:
            return getattr(self._service, name)

        async def get_workflow_execution_history(self, asked: Any, **options: Any) -> Any:
            if not asked.next_page_token and asked.maximum_page_size != 1:
                found.append(asked.execution.workflow_id)
            return await self._service.get_workflow_execution_history(asked, **options)

    monkeypatch.setattr(
        TemporalClient, "workflow_service", property(lambda self: Counting(original(self)))
    )
    return found


async def test_a_request_reads_the_history_once(desk: Desk, reads: list[str]) -> None:
    agent = Agent[Any](name="Helper")
    await desk.open(agent, model=ScriptedModel(always="Yes."))
    app, run_id = app_of(desk, agent), desk.new_id()
    mine = bearer(TOKENS.mint(run_id))
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app) as http:
        first = body_of(run_id, ("m1", "Hello"))
        await http.post("/agui/Helper", json=first, headers=mine)
        reads.clear()
        second = body_of(run_id, ("m1", "Hello"), ("m2", "Again"))
        answer = await http.post("/agui/Helper", json=second, headers=mine)
        assert written_in(events_in(answer.text)) == "Yes.", answer.text
        # This process follows the run, and looks where the present is.
        assert reads == [run_id]
        reads.clear()
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app_of(desk, agent)) as http:
        answer = await http.post("/agui/Helper", json=second, headers=mine)
        assert events_in(answer.text)[-1]["type"] == "RUN_FINISHED"
        # A new follower reads up to the present, too.
        assert reads == [run_id, run_id]
    assert len((await RunHandle(desk.client, run_id).state()).answers) == 2


# --- Who decides ---------------------------------------------------------------------------------

PATHS = ["/agui/Clerk", "/copilotkit/agent/Clerk/connect"]


async def asked_for_a_refund(desk: Desk, policy: ApprovalPolicy) -> tuple[Agent[Any], RunHandle]:
    agent = clerk(policy)
    model = ScriptedModel([call("refund", "c1", order="A-17", euros=5)], "Refunded.")
    await desk.open(agent, model=model)
    handle = await desk.start(agent, keep_open=True)
    await desk.until_status(handle, "waiting")
    return agent, handle


async def interrupt_of(http: Any, run_id: str) -> dict[str, Any]:
    seen = events_in((await http.post("/agui/Clerk", json=body_of(run_id))).text)
    [interrupt] = seen[-1]["outcome"]["interrupts"]
    return interrupt


def decided(interrupt: str, **payload: Any) -> dict[str, Any]:
    entry = {"interruptId": interrupt, "status": "resolved", "payload": payload}
    return {"resume": [entry]}


@pytest.mark.parametrize("path", PATHS)
async def test_a_decision_is_that_of_the_verified_person(desk: Desk, path: str) -> None:
    policy = ApprovalPolicy(audience="billing", unverified="refuse")
    agent, handle = await asked_for_a_refund(desk, policy)
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app_of(desk, agent)) as http:
        interrupt = await interrupt_of(http, handle.id)
        # Whatever the body says about who decides is no identity.
        lies = {"by": "lee", "groups": ["leads"], "person": {"subject": "lee"}, "verified": False}
        body = body_of(handle.id, **decided(interrupt["id"], approved=True, **lies))
        body |= {"forwardedProps": {"outlast": lies, **lies}, "state": {"outlast": lies}}
        answer = await http.post(path, json=body)
        assert events_in(answer.text)[-1]["outcome"] == {"type": "success"}
        [request] = (await handle.state()).approvals
        [vote] = request.votes
        assert (request.status, request.settled_by) == ("approved", "ann")
        assert (vote.verified, vote.decision.by, vote.decision.channel) == (True, "ann", "ag-ui")
        assert vote.decision.seen is not None
        assert vote.decision.proof
        entries = (await audit_run(desk.client, handle.id)).records
        assert {(one.by, one.verified) for one in entries if one.by} == {("ann", True)}
        # The same decision, sent again after a lost connection, does nothing.
        again = await http.post(path, json=body)
        assert events_in(again.text)[-1]["outcome"] == {"type": "success"}
        assert len((await handle.state()).approvals[0].votes) == 1


@pytest.mark.parametrize("path", PATHS)
async def test_a_program_begins_and_writes_and_a_customer_writes_and_neither_decides(
    desk: Desk, path: str
) -> None:
    agent, run_id = clerk(ApprovalPolicy(customer_text="A colleague looks at it.")), desk.new_id()
    model = ScriptedModel("Hello.", [call("refund", "c1", order="A-17", euros=5)], "Refunded.")
    await desk.open(agent, model=model)
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app_of(desk, agent)) as http:
        hello = body_of(run_id, ("m1", "Hi"))
        begun = await http.post("/agui/Clerk", json=hello, headers=PROGRAM)
        assert client_after(events_in(begun.text)).texts() == ["Hello."]
        asks = body_of(run_id, ("m2", "Refund it."))
        waits = events_in((await http.post("/agui/Clerk", json=asks, headers=PROGRAM)).text)
        assert waits[-1]["outcome"] == {"type": "success"}
        interrupt = await interrupt_of(http, run_id)
        tries = [
            (PROGRAM, "An API key cannot decide: that takes a person."),
            (bearer(TOKENS.mint(run_id)), "Only the team can do this."),
        ]
        for headers, words in tries:
            for payload in ({"approved": True}, {"approved": False}, {"response": "5"}):
                body = body_of(run_id, **decided(interrupt["id"], **payload))
                seen = events_in((await http.post(path, json=body, headers=headers)).text)
                assert remarks(seen) == [words]
                assert seen[-1]["outcome"] == {"type": "success"}
                assert "refund" not in json.dumps(seen).replace("Refund it.", "")
        other = bearer(TOKENS.mint("another"))
        body = body_of(run_id, **decided(interrupt["id"], approved=True))
        assert (await http.post(path, json=body, headers=other)).status_code == 401
        [request] = (await RunHandle(desk.client, run_id).state()).approvals
        assert (request.status, request.votes) == ("pending", ())
        # Staff who may not decide are told which role it takes.
    viewers = RoleRules(anybody=["viewer"])
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        opened(app_of(desk, agent, roles=viewers)) as http,
    ):
        seen = events_in((await http.post(path, json=body)).text)
        assert remarks(seen) == ["You cannot decide: that needs the role decider."]
    [request] = (await RunHandle(desk.client, run_id).state()).approvals
    assert (request.status, request.votes) == ("pending", ())


def remarks(events: list[dict[str, Any]]) -> list[str]:
    """Return what the desk says beside the conversation."""
    texts: dict[str, str] = {}
    for one in events:
        if one["type"] == "TEXT_MESSAGE_CONTENT" and "notice" in one["messageId"]:
            texts[one["messageId"]] = texts.get(one["messageId"], "") + one["delta"]
    return list(texts.values())
