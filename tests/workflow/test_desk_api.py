"""The desk's API on a server: real runs, several desks, and customers who try every route."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import BaseRoute

from outlast.agents.agent import Agent
from outlast.agents.approvals.budget import Budget
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.config.run_config import RunConfig
from outlast.client.handle import RunHandle
from outlast.client.identity import person
from outlast.client.read import delta_poller
from outlast.contract.identity import IdentityKeys, new_shared_key, read_keys
from outlast.contract.streams.call_windows import CallWindows
from outlast.loop.state import LoopState
from outlast.serve.access import RoleRules
from outlast.serve.app import desk as desk_app
from outlast.serve.login import ThisMachine
from outlast.serve.tokens import ConversationTokens
from outlast.testing import ScriptedModel, call, paced
from outlast.views.run import loop_state
from tests.unit.serve.test_api import check
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.people import clerk, refunds
from tests.workflow.test_streams import WORDS

KEY = "a-key-of-a-shop-that-nobody-guesses"
TOKENS = ConversationTokens(IdentityKeys(read_keys(new_shared_key())), audience="test")
PROGRAM = {"Authorization": f"Bearer {KEY}"}
SECONDS = 20


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The desk proves who decides; its readers are in another process than the worker."""
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", new_shared_key())
    monkeypatch.setattr(delta_poller, "call_windows", CallWindows())


def app_of(
    desk: Desk,
    *agents: Agent[Any],
    name: str = "ann",
    roles: RoleRules | None = None,
    groups: Sequence[str] = ("billing",),
) -> Starlette:
    """Return the desk of one process, at which one person is logged in."""
    return desk_app(
        desk.client,
        agents=agents,
        login=ThisMachine(person(name, groups=groups)),
        roles=roles,
        tokens=TOKENS,
        api_keys={"shop": KEY},
        task_queue=desk.queue,
    )


@asynccontextmanager
async def opened(app: Starlette) -> AsyncGenerator[Any]:
    transport = httpx2.ASGITransport(app, client=("127.0.0.1", 5000))
    headers = {"Origin": "http://localhost"}
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(app.state.desk.feed)
        yield await stack.enter_async_context(
            httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=headers)
        )


class Reader:
    """Somebody who reads a stream over ASGI, and what they have."""

    def __init__(self, app: Starlette, path: str, headers: dict[str, str]) -> None:
        self.events: list[tuple[str, Any]] = []
        self.cursor = self.text = ""
        self.messages: list[str] = []
        self.status = 0
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._read(app, path, headers))

    async def _read(self, app: Starlette, path: str, headers: dict[str, str]) -> None:
        async def receive() -> Any:
            await asyncio.Event().wait()

        async def send(message: Any) -> None:
            self.status = message.get("status", self.status)
            for part in message.get("body", b"").decode().split("\n\n"):
                if part and not part.startswith(":"):
                    self._take(dict(line.split(": ", 1) for line in part.split("\n")))

        await app(scope_of("GET", path, headers), receive, send)

    def _take(self, fields: dict[str, str]) -> None:
        name, data = fields["event"], json.loads(fields["data"])
        self.cursor = fields.get("id", self.cursor)
        self.events.append((name, data))
        if name == "text":
            self.text += data["text"]
        elif name == "reset" or data.get("clears_text"):
            self.text = ""
        if name == "conversation":
            self.messages[data["keep"] :] = [one["text"] for one in data["messages"]]
        self._news.set()

    async def until(self, condition: "Callable[[Reader], object]") -> None:
        async with asyncio.timeout(SECONDS):
            while not condition(self):
                self._news.clear()
                await self._news.wait()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def scope_of(method: str, path: str, headers: dict[str, str]) -> dict[str, Any]:
    sent = {"Host": "localhost", **headers}
    parts = urlsplit(path)
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": parts.path,
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "root_path": "",
        "headers": [(one.lower().encode(), value.encode()) for one, value in sent.items()],
        "client": ("127.0.0.1", 5000),
        "server": ("localhost", 80),
    }


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def of_run(run_id: str, *parts: str) -> str:
    return "/".join(["/api/conversations", quote(run_id, safe=""), *parts])


# --- The way of a conversation -------------------------------------------------------------------


@pytest.mark.smoke
async def test_a_conversation_is_read_in_two_processes_and_decided_by_two_people(desk: Desk):
    agent = clerk(ApprovalPolicy(audience="billing", quorum=2))
    model = ScriptedModel(
        paced(0.05, WORDS), [call("refund", "c1", order="A-17", euros=5)], "Refunded."
    )
    await desk.open(agent, model=model)
    ann, bob = app_of(desk, agent), app_of(desk, agent, name="bob")
    run_id = desk.new_id()
    async with asyncio.timeout(PATIENCE_SECONDS), opened(ann) as http, opened(bob) as other:
        body = {"agent": "Clerk", "input": "Hello", "id": run_id}
        begun = await http.post("/api/conversations", json=body, headers=PROGRAM)
        assert (begun.status_code, begun.json()["id"]) == (201, run_id)
        again = await http.post("/api/conversations", json=body, headers=PROGRAM)
        assert (again.status_code, again.json()["id"]) == (201, run_id)
        mine = bearer(begun.json()["token"])

        first = Reader(ann, of_run(run_id, "events"), mine)
        await first.until(lambda it: len(it.text) > 5)
        await first.close()
        resumes = {**mine, "Last-Event-ID": first.cursor}
        second = Reader(bob, of_run(run_id, "events"), resumes)
        await second.until(lambda it: it.text)
        before = first.text + second.text
        assert WORDS.startswith(before)
        await second.until(lambda it: it.messages == ["Hello", WORDS])
        pieces = [data["text"] for name, data in second.events if name == "text"]
        assert first.text + "".join(pieces) == WORDS

        sent = {"text": "Refund, please.", "message_id": "m-1"}
        for _ in range(2):
            answer = await other.post(of_run(run_id, "messages"), json=sent, headers=mine)
            assert answer.status_code == 202
        await desk.until_status(RunHandle(desk.client, run_id), "waiting")
        (request,) = (await http.get(of_run(run_id, "requests"))).json()["requests"]
        decide = of_run(run_id, "requests", request["id"], "decide")
        vote = {"type": "approve", "digest": request["digest"]}
        assert (await http.post(decide, json=vote, headers=mine)).status_code == 403
        assert (await http.post(decide, json=vote)).json()["status"] == "pending"
        refused = await http.post(decide, json={**vote, "remember": "tool"})
        assert refused.status_code == 409
        settled = (await other.post(decide, json=vote)).json()
        assert (settled["status"], settled["votes"], settled["by"]) == ("approved", 2, "bob")
        asked = ["Hello", WORDS, "Refund, please.", "Refunded."]
        await second.until(lambda it: it.messages == asked)
        votes = (await http.get(of_run(run_id, "requests", request["id"]))).json()["votes"]
        assert [(one["by"], one["proof"]) for one in votes] == [
            ("ann", "proven"),
            ("bob", "proven"),
        ]

        assert (await http.post(of_run(run_id, "hold"))).json()["by"] == "ann"
        taken = await other.post(of_run(run_id, "hold"))
        assert (taken.status_code, taken.json()["error"]["code"]) == (409, "refused")
        await http.post(of_run(run_id, "say"), json={"text": "This is Ann."})
        await second.until(lambda it: it.messages == [*asked, "This is Ann."])
        released = await http.post(of_run(run_id, "release"), json={"note": "SECRET"})
        assert released.json()["by"] is None
        run = (await http.get(of_run(run_id))).json()
        kinds = [one["kind"] for one in run["steps"]]
        assert {"model", "tool", "request", "takeover"} <= set(kinds)
        conversation = (await http.get(of_run(run_id), headers=mine)).json()
        assert [one["text"] for one in conversation["messages"]] == [*asked, "This is Ann."]
        assert "SECRET" not in json.dumps([conversation, second.events])
        listed = await http.get(f"/api/conversations?prefix={run_id}&limit=5")
        assert [one["id"] for one in listed.json()["conversations"]] in ([], [run_id])
        check("RunList", (await http.get("/api/conversations?limit=2")).json())
        for query in ("mine=true&limit=2", "urgent=true&held=false", "group=billing&due=1h"):
            check("InboxList", (await http.get(f"/api/inbox?{query}")).json())
        assert (await http.post(of_run(run_id, "cancel"), headers=PROGRAM)).status_code == 202
        await second.until(lambda it: it.events[-1][0] == "ended")
        late = await other.post(of_run(run_id, "messages"), json={"text": "Hi"}, headers=mine)
        assert late.status_code == 409


async def test_a_customers_first_message_begins_the_conversation_once(desk: Desk):
    agent = Agent[Any](name="Helper")
    await desk.open(agent, model=ScriptedModel(always="Yes."))
    app, run_id = app_of(desk, agent), desk.new_id()
    mine = bearer(TOKENS.mint(run_id))
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app) as http:
        body = {"text": "Hello", "message_id": "m-1", "agent": "Helper"}
        sent = [http.post(of_run(run_id, "messages"), json=body, headers=mine) for _ in range(3)]
        answers = await asyncio.gather(*sent)
        assert [one.status_code for one in answers] == [202] * 3, [one.text for one in answers]
        second = {"text": "Again", "message_id": "m-2", "agent": "Helper"}
        await http.post(of_run(run_id, "messages"), json=second, headers=mine)
        reader = Reader(app, of_run(run_id, "events"), mine)
        await reader.until(lambda it: it.messages == ["Hello", "Yes.", "Again", "Yes."])
        await reader.close()
        for message_id in ("m-1", "m-2"):
            again = {"text": "Hello", "message_id": message_id, "agent": "Helper"}
            await http.post(of_run(run_id, "messages"), json=again, headers=mine)
        state = await RunHandle(desk.client, run_id).state()
        assert [one.to for one in state.answers] == [("customer-m-1",), ("customer-m-2",)]
        assert loop_state(state).start.keep_open


async def test_several_requests_are_decided_together_and_a_message_is_withdrawn(desk: Desk):
    ran: list[int] = []
    agent = clerk(ApprovalPolicy(risk="low", bulk=True), ran)
    await desk.open(agent, model=ScriptedModel(refunds(50), refunds(50), always="Done."))
    runs = [await desk.start(agent, "Refund.", keep_open=True) for _ in range(2)]
    for run in runs:
        await desk.until_status(run, "waiting")
    mine = bearer(TOKENS.mint(runs[0].id))
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app_of(desk, agent)) as http:
        body = {"text": "Never mind.", "message_id": "m-1"}
        await http.post(of_run(runs[0].id, "messages"), json=body, headers=mine)
        withdraw = of_run(runs[0].id, "messages/m-1/withdraw")
        for _ in range(2):
            assert (await http.post(withdraw, headers=mine)).status_code == 200
        assert (await runs[0].state()).unread == ()
        ids = [run.id for run in runs]
        plan = (await http.post("/api/inbox/plan", json={"conversations": ids})).json()["steps"]
        assert [one["problem"] for one in plan] == [None, None]
        seen = [{one: step[one] for one in ("conversation", "request", "digest")} for step in plan]
        await runs[1].reject("a1", by=person("bob", groups=["billing"]))
        body = {"type": "approve", "requests": seen}
        outcomes = (await http.post("/api/inbox/decide", json=body)).json()["outcomes"]
        assert outcomes[0]["receipt"]["status"] == "approved"
        assert outcomes[1]["refused"] == "It does not wait any more."
        await runs[0].wait_for_answer("start")
        late = await http.post(of_run(runs[0].id, "messages/m-1/withdraw"), headers=mine)
        assert late.status_code == 200, "a repeated withdrawal is the same one"
        other = await http.post(of_run(runs[0].id, "messages/m-2/withdraw"), headers=mine)
        assert other.status_code == 409
        assert "No such message waits" in other.text
    assert ran == [50]


async def test_two_first_messages_that_say_the_same_are_two(desk: Desk):
    agent = Agent[Any](name="Helper")
    await desk.open(agent, model=ScriptedModel(always="Yes."))
    app = app_of(desk, agent)
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app) as http:
        for _ in range(3):
            run_id = desk.new_id()
            path, mine = of_run(run_id, "messages"), bearer(TOKENS.mint(run_id))
            bodies = [{"text": "Hi", "message_id": one, "agent": "Helper"} for one in "abab"]
            sent = [http.post(path, json=body, headers=mine) for body in bodies]
            answers = await asyncio.gather(*sent)
            assert [one.status_code for one in answers] == [202] * 4, [one.text for one in answers]
            both = {"customer-a", "customer-b"}
            state = await desk.until(
                RunHandle(desk.client, run_id), lambda it, both=both: answered(it) == both
            )
            assert len(state.answers) == 2


def answered(state: LoopState) -> set[str]:
    return {one for answer in state.answers for one in answer.to}


async def test_a_request_of_a_nested_run_is_decided_in_that_run(desk: Desk):
    inner = clerk(ApprovalPolicy(audience="billing"))
    outer = Agent[Any](name="Front", tools=[inner.as_tool("ask_clerk", "Ask the clerk.")])
    model = ScriptedModel(
        [call("ask_clerk", "c1", input="Refund it.")],
        [call("refund", "c2", order="A-17", euros=5)],
        "Refunded.",
        "Done.",
    )
    await desk.open(outer, inner, model=model)
    handle = await desk.start(outer, keep_open=True)
    await desk.until_status(handle, "waiting")
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app_of(desk)) as http:
        (request,) = (await http.get(of_run(handle.id))).json()["requests"]
        assert request["run_id"].startswith(f"{handle.id}/ask_clerk-")
        assert request["headline"] == 'refund(order="A-17", euros=5)'
        decide = of_run(handle.id, "requests", request["id"], "decide")
        changed = await http.post(decide, json={"type": "approve", "digest": "0"})
        assert changed.json()["error"]["code"] == "decision_refused"
        claim = of_run(handle.id, "requests", request["id"], "claim")
        assert (await http.post(claim, json={"minutes": 5})).json()["by"] == "ann"
        receipt = await http.post(decide, json={"type": "approve", "digest": request["digest"]})
        assert receipt.json() == {
            "run_id": request["run_id"],
            "request_id": request["id"],
            "status": "approved",
            "votes": 1,
            "votes_needed": 1,
            "by": "ann",
            "is_kept": False,
            "is_queued": False,
            "words": "Approved by ann. The call runs.",
        }
        await desk.until_status(handle, "idle")
        settled = await http.get(of_run(handle.id, "requests", request["id"]))
        assert (settled.json()["status"], settled.json()["settled_by"]) == ("approved", "ann")


async def test_an_operator_extends_a_budget(desk: Desk):
    agent = clerk(False)
    model = ScriptedModel([call("refund", "c1", order="A-17", euros=5)], "Refunded.")
    await desk.open(agent, model=model)
    config = RunConfig(budgets=[Budget(model_calls=1)])
    handle = await desk.start(agent, keep_open=True, run_config=config)
    await desk.until_status(handle, "waiting")
    app = app_of(desk, roles=RoleRules(anybody=["operator"]))
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app) as http:
        (request,) = (await http.get(of_run(handle.id, "requests"))).json()["requests"]
        assert (request["kind"], request["headline"]) == (
            "budget",
            "1 model calls of 1 model calls per run used; 1 model calls more",
        )
        path = of_run(handle.id, "requests", request["id"])
        body = {"digest": request["digest"]}
        refused = await http.post(f"{path}/decide", json={**body, "type": "reject"})
        assert refused.status_code == 403
        wrong = await http.post(f"{path}/extend", json={"digest": "0", "extend_by": 3})
        assert wrong.status_code == 409
        receipt = await http.post(f"{path}/extend", json={**body, "extend_by": 3})
        assert (receipt.json()["status"], receipt.json()["by"]) == ("edited", "ann")
    state = await desk.until_status(handle, "idle")
    assert state.extended == ((0, 3),)
    assert state.final_output == "Refunded."


# --- A customer who tries every route ------------------------------------------------------------


def routes_of(routes: "list[BaseRoute]", before: str = "") -> "list[tuple[str, str]]":
    """Return every method and path of an application, those of mounted ones included."""
    found: list[tuple[str, str]] = []
    for route in routes:
        path = before + str(getattr(route, "path", ""))
        inner: list[BaseRoute] = getattr(route, "routes", None) or []
        found += routes_of(inner, path)
        methods: set[str] = getattr(route, "methods", None) or set() if not inner else set()
        found += [(method, path) for method in sorted(methods)]
    return found


async def asked(app: Starlette, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
    """Return the status and the beginning of an answer; a stream is left after a moment."""
    pieces: list[bytes] = []
    status, has_sent, gone = 0, False, asyncio.Event()

    async def receive() -> Any:
        nonlocal has_sent
        if not has_sent:
            has_sent = True
            return {"type": "http.request", "body": b"{}", "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)
        pieces.append(message.get("body", b""))

    sent = {"Origin": "http://localhost", "Content-Type": "application/json", **headers}
    answering = asyncio.create_task(app(scope_of(method, path, sent), receive, send))
    await asyncio.wait({answering}, timeout=0.5 if "event" in path or "stream" in path else 5)
    gone.set()
    async with asyncio.timeout(SECONDS):
        await asyncio.gather(answering, return_exceptions=True)
    return status, b"".join(pieces).decode("utf-8", "replace")


@pytest.mark.smoke
async def test_a_customers_token_reads_nothing_but_its_conversation_at_any_route(desk: Desk):
    agent = clerk(True)
    calls = [call("refund", "c1", order="SECRET-order", euros=5)]
    await desk.open(agent, model=ScriptedModel(calls, calls, always="SECRET-answer"))
    theirs = await desk.start(agent, "SECRET-question", keep_open=True)
    await desk.until_status(theirs, "waiting")
    own = await desk.start(agent, "Hello", keep_open=True)
    await desk.until_status(own, "waiting")
    app, before = app_of(desk, agent), await theirs.state()
    token = TOKENS.mint(own.id)
    forged = [TOKENS.mint(theirs.id)[:-4] + "AAAA", TOKENS.mint(theirs.id, now_ms=1)]
    paths = routes_of(app.router.routes)
    assert len(paths) > 40
    async with app.state.desk.feed:
        for method, path in paths:
            for run_id, one in (
                (theirs.id, token),
                (own.id, token),
                *((theirs.id, it) for it in forged),
            ):
                place = path.replace("{run_id}", quote(run_id, safe="")).replace(
                    "{request_id}", "a1"
                )
                place = place.replace("{agent}", "Clerk").replace("{rest:path}", "x")
                place = place.replace("{message_id}", "m-1").replace("{number}", "0")
                status, text = await asked(app, method, place, bearer(one))
                assert "SECRET" not in text, (method, place)
                if run_id == theirs.id and "{run_id}" in path and method != "OPTIONS":
                    assert status >= 300, (method, place)
    assert await theirs.state() == before
