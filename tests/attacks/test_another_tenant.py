"""A colleague who may see the runs of another tenant, at every route that the desk has."""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode

import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.client.handle import RunHandle
from outlast.client.runs import RunFilter, find_runs
from outlast.contract.identity import new_shared_key
from outlast.serve.access import ROLES, RoleRules
from outlast.serve.pages.receipts import list_of
from outlast.serve.wires.ids import ResponseId, TaskId
from outlast.testing import ScriptedModel
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.people import clerk, refunds, waiting
from tests.workflow.test_desk_api import app_of, scope_of

MISSING: Final = "run-0123456789ab"
"""An id as those of the tests, which no run has."""

WORDS: Final = "Where is order A-17?"
"""What the customer wrote: nobody of another tenant reads it."""

OPEN: Final = {
    "/health": "load balancers",
    "/static/{version}/{name}": "files of the desk",
    "/api/openapi.json": "the description of the API",
    "/api/{rest:path}": "a preflight",
    "/v1/{rest:path}": "a preflight",
    "/vercel/{rest:path}": "a preflight",
    "/copilotkit/{rest:path}": "a preflight",
    "/v1/models": "the agents",
    "/copilotkit/info": "the agents",
    "/chat": "the agents",
    "/chat/{agent}": "begins a conversation with a new id",
    "/chat/open": "takes a token of a customer",
    "/.well-known/agent-card.json": "the card of an agent",
    "/a2a/{agent}/.well-known/agent-card.json": "the card of an agent",
    "/a2a/{agent}/extendedAgentCard": "says that there is none",
    "/a2a/{agent}/tasks/{task_id}/pushNotificationConfigs": "says that there are none",
    "/a2a/{agent}/tasks/{task_id}/pushNotificationConfigs/{config_id}": "says that there are none",
    "/": "leads to the inbox",
    "/api/search": "has no index here; `tests/workflow/test_search.py` is about whose",
    "/search": "has no index here",
    **dict.fromkeys(
        (
            "/api/teams", "/api/teams/{team}", "/api/teams/{team}/duty", "/api/teams/{team}/rule",
            "/teams", "/teams-list", "/teams/{team}", "/teams/{team}/now", "/teams/{team}/duty",
            "/teams/{team}/rule",
        ),
        "is about teams, of which `tests/workflow/test_team_desk.py` says whose they are",
    ),
    "/recount": "names no run; `tests/workflow/test_team_hours.py` says whose requests it counts",
    "/api/figures": "has no index here; `tests/workflow/test_figures.py` is about whose",
    "/figures": "has no index here",
    "/api/quality": "has no index here; `tests/workflow/test_quality.py` is about whose",
    "/quality": "has no index here",
}  # fmt: skip
"""Routes that show nothing of any run, and why."""

LISTS: Final = frozenset(
    {
        "/api/conversations", "/conversations", "/conversations-list", "/api/inbox",
        "/api/inbox/events", "/inbox", "/inbox/live", "/a2a/{agent}/tasks",
    }
)  # fmt: skip
"""Routes that show many runs: they leave out those of another tenant."""

COUNTS: Final = "/views"
"""Shows how many conversations there are of each kind; `tests/workflow/test_case.py` is about whose."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A request about a run: the part of it that the path does not say."""

    json: Any = None
    form: Any = None
    query: dict[str, str] = field(default_factory=dict[str, str])


def _chat(run_id: str) -> Any:
    parts = [{"type": "text", "text": "Hello?"}]
    return {"id": run_id, "messages": [{"id": "m1", "role": "user", "parts": parts}]}


def _thread(run_id: str) -> Any:
    return {
        "threadId": run_id, "runId": "r1", "state": {}, "tools": [], "context": [],
        "forwardedProps": {}, "messages": [{"id": "m1", "role": "user", "content": "Hello?"}],
    }  # fmt: skip


def _message(run_id: str) -> Any:
    parts = [{"text": "Hello?"}]
    return {
        "message": {"messageId": "m1", "role": "ROLE_USER", "parts": parts, "contextId": run_id}
    }


def _task(run_id: str) -> str:
    return str(TaskId(run_id, "customer-a2a-1"))


def _seen(run_id: str) -> Any:
    return {"conversation": run_id, "request": "a1", "digest": "0"}


BODIES: Final[dict[tuple[str, str], Callable[[str], Sent]]] = {
    ("POST", "/api/conversations"): lambda run: Sent(
        {"agent": "Clerk", "id": run, "input": "Hello?"}
    ),
    ("POST", "/api/inbox/plan"): lambda run: Sent({"conversations": [run]}),
    ("POST", "/api/inbox/decide"): lambda run: Sent({"type": "approve", "requests": [_seen(run)]}),
    ("POST", "/inbox/plan"): lambda run: Sent(form=[("run", quote(run, safe=""))]),
    ("POST", "/inbox/decide"): lambda run: Sent(
        form=[("run", quote(run, safe="")), ("decision", "approve"), ("seen", "0")]
    ),
    ("POST", "/agui/{agent}"): lambda run: Sent(_thread(run)),
    ("POST", "/copilotkit/agent/{agent}/run"): lambda run: Sent(_thread(run)),
    ("POST", "/copilotkit/agent/{agent}/connect"): lambda run: Sent(_thread(run)),
    ("POST", "/vercel/{agent}"): lambda run: Sent(_chat(run)),
    ("POST", "/v1/responses"): lambda run: Sent(
        {"model": "Clerk", "conversation": run, "input": "Hello?", "background": True}
    ),
    ("POST", "/a2a/{agent}"): lambda run: Sent(
        {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": _task(run)}}
    ),
    ("POST", "/a2a/{agent}/message:send"): lambda run: Sent(_message(run)),
    ("POST", "/a2a/{agent}/message:stream"): lambda run: Sent(_message(run)),
    ("GET", "/agents"): lambda run: Sent(query={"run": run}),
    ("GET", "/inbox/decided"): lambda run: Sent(query={"list": list_of((), [(run, "a1")])}),
    ("POST", "/api/conversations/{run_id}/messages"): lambda _: Sent({"text": "Hello?"}),
    ("POST", "/api/conversations/{run_id}/hold"): lambda _: Sent({}),
    ("POST", "/api/conversations/{run_id}/cancel"): lambda _: Sent({}),
    ("GET", "/chat/c/{run_id}"): lambda _: Sent(),
}
"""What is sent where the path does not name the run, and where it matters beside it."""


def routes(app: Starlette) -> Iterator[tuple[str, str]]:
    """Yield each method of each route that the desk has, as a path with parameters."""
    for one in app.routes:
        assert isinstance(one, Route)
        for method in sorted((one.methods or {"GET"}) - {"HEAD"}):
            if not one.path.startswith(("/deliver", "/webhooks")):
                yield method, one.path


def is_about_a_run(method: str, path: str) -> bool:
    """Whether a request names a run.

    Raises:
        AssertionError: the test does not know the route.
    """
    if method == "OPTIONS" or path in OPEN or (method == "GET" and path in {*LISTS, COUNTS}):
        return False
    named = {"{run_id}", "{task_id}", "{response_id}"}
    is_known = (method, path) in BODIES or any(one in path for one in named)
    assert is_known, f"{method} {path}: say in this test what is sent there about a run"
    return True


def address(path: str, run_id: str, query: dict[str, str]) -> str:
    values = {
        "run_id": run_id, "agent": "Clerk", "request_id": "a1", "message_id": "m1", "message": "m1",
        "at": "0", "number": "1", "task_id": _task(run_id),
        "response_id": str(ResponseId(run_id, "customer-1", 1)),
    }  # fmt: skip
    filled = re.sub(r"\{(\w+)\}", lambda found: quote(values[found[1]], safe=""), path)
    return f"{filled}?{urlencode(query)}" if query else filled


async def ask(app: Starlette, method: str, path: str, sent: Sent) -> tuple[int, str]:
    """Send a request, and return the status and the text: of a stream, how it begins."""
    body, kind = b"", ""
    if sent.json is not None or (method == "POST" and sent.form is None):
        body, kind = json.dumps(sent.json or {}).encode(), "application/json"
    elif sent.form is not None:
        body, kind = urlencode(sent.form).encode(), "application/x-www-form-urlencoded"
    headers = {"Origin": "http://localhost", "Content-Type": kind, "A2A-Version": "1.0"}
    parts: list[bytes] = []
    status = 0
    is_over, has_begun = asyncio.Event(), asyncio.Event()
    bodies = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        if not bodies:
            await asyncio.Event().wait()
        return bodies.pop()

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)
        parts.append(message.get("body", b""))
        has_begun.set()
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            is_over.set()

    task = asyncio.create_task(app(scope_of(method, path, headers), receive, send))
    task.add_done_callback(lambda _: is_over.set())
    over = asyncio.create_task(is_over.wait())
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            begun = asyncio.create_task(has_begun.wait())
            await asyncio.wait({over, begun}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({over}, timeout=1)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        over.cancel()
    return status, b"".join(parts).decode(errors="replace")


def without(text: str, run_id: str) -> str:
    """Return an answer without the id of the run, in any form, and without what is random."""
    forms = [run_id, _task(run_id), str(ResponseId(run_id, "customer-1", 1))]
    for one in forms:
        text = text.replace(one, "ID")
    return re.sub(r'nonce[="\w-]+|seen" value="\w+"|[0-9a-f]{32,}', "", text)


def colleague(desk: Desk, agent: Agent[Any], tenant: str, *roles: str) -> Starlette:
    scoped = [f"{role}@tenant:{tenant}" for role in roles]
    return app_of(desk, agent, roles=RoleRules({"billing": scoped}))


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", new_shared_key())


async def run_of_acme(desk: Desk, agent: Agent[Any]) -> RunHandle:
    model = ScriptedModel(refunds(5), "Done.", "Done.", "Done.")
    handle = await waiting(
        desk, agent, model, id=desk.new_id(), tenant="acme", keep_open=True, asked=WORDS
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        wanted = RunFilter(tenant="acme", id_prefix=handle.id, waiting=True)
        while not await find_runs(desk.client, wanted, limit=1):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return handle


@pytest.mark.parametrize("role", ROLES)
async def test_no_route_tells_a_colleague_of_another_tenant_whether_a_run_exists(
    desk: Desk, role: str
) -> None:
    agent = clerk()
    handle = await run_of_acme(desk, agent)
    app = colleague(desk, agent, "globex", role)
    begins = role == "operator"
    differ: dict[str, Any] = {}
    async with app.state.desk.feed:
        for method, path in routes(app):
            if path in OPEN or method == "OPTIONS":
                continue
            if not is_about_a_run(method, path):
                _, text = await ask(app, method, path, Sent())
                assert handle.id not in text, path
                assert WORDS not in text, path
                continue
            make = BODIES.get((method, path), lambda _: Sent())
            answers: list[tuple[int, str]] = []
            for run_id in (handle.id, MISSING):
                sent = make(run_id)
                status, text = await ask(app, method, address(path, run_id, sent.query), sent)
                assert WORDS not in text, path
                answers.append((status, without(text, run_id)))
                if begins:
                    break  # a colleague who may begin conversations begins one with a free id
            if begins:
                assert answers[0][0] in {200, 400, 403, 404, 409}, path
                assert answers[0][0] != 200 or path.startswith(("/a2a", "/inbox", "/api/inbox"))
            elif answers[0] != answers[1]:
                differ[f"{method} {path}"] = answers
    assert not differ
    state = await handle.state()
    assert (len(state.pending_approvals), state.hold, state.unread) == (1, None, ())
    assert state.outcome is None


async def test_every_route_that_shows_runs_serves_a_colleague_of_the_tenant(desk: Desk) -> None:
    agent = clerk()
    handle = await run_of_acme(desk, agent)
    scoped = colleague(desk, agent, "acme", "viewer", "decider")
    everywhere = app_of(desk, agent, roles=RoleRules({"billing": ["viewer", "decider"]}))
    async with scoped.state.desk.feed, everywhere.state.desk.feed:
        for method, path in routes(scoped):
            if method != "GET" or path in OPEN:
                continue
            is_list = path in LISTS
            sent = BODIES.get((method, path), lambda _: Sent())(handle.id)
            given = Sent(query={"show": "all"}) if path.startswith("/inbox") and is_list else sent
            at = address(path, handle.id, given.query)
            (status, text), (expected, _) = [
                await ask(app, method, at, given) for app in (scoped, everywhere)
            ]
            assert status == expected, (path, text)
            if is_list and not path.startswith("/a2a"):
                assert handle.id in text, path
    await handle.cancel()


@pytest.mark.parametrize(
    ("roles", "sees"),
    [
        (["viewer@agent:Clerk"], True),
        (["viewer@agent:Other"], False),
        (["viewer@team:billing"], True),
        (["viewer@team:sales"], False),
        (["viewer@tenant:acme+agent:Other"], False),
        (["viewer@tenant:globex+tenant:acme+agent:Clerk"], True),
        (["viewer@tenant:globex", "viewer@team:billing"], True),
        (["viewer@tenant:globex", "decider@agent:Other"], False),
        (['viewer@tenant:it\'s "acme"?'], False),
    ],
)
async def test_lists_and_runs_are_those_of_agents_and_teams(
    desk: Desk, roles: list[str], sees: bool
) -> None:
    agent = clerk(ApprovalPolicy(audience="billing"))
    handle = await run_of_acme(desk, agent)
    app = app_of(desk, agent, roles=RoleRules({"billing": roles}))
    async with app.state.desk.feed:
        for path in ("/api/conversations", "/api/inbox", "/inbox?show=all", "/conversations"):
            status, text = await ask(app, "GET", path, Sent())
            assert (status, handle.id in text) == (200, sees), path
        status, _ = await ask(app, "GET", f"/api/conversations/{handle.id}", Sent())
        assert status == (200 if sees else 404)
    await handle.cancel()


async def test_a_colleague_gives_no_conversation_to_an_agent_whose_runs_they_do_not_see(
    desk: Desk,
) -> None:
    """Else the note of whoever sees one agent's runs would be the word to another agent."""
    agent = clerk(ApprovalPolicy(audience="billing"))
    handle = await run_of_acme(desk, agent)
    roles = ["viewer@agent:Clerk", "operator@agent:Clerk"]
    app = app_of(desk, agent, roles=RoleRules({"billing": roles}))
    run = f"/api/conversations/{handle.id}"
    async with app.state.desk.feed:
        assert (await ask(app, "POST", f"{run}/hold", Sent({})))[0] == 200
        for path, sent in (
            (f"{run}/release", Sent({"to": "Payroll", "note": "Pay Eve."})),
            (f"/conversations/{handle.id}/release", Sent(form=[("to", "Payroll"), ("note", "")])),
        ):
            _, text = await ask(app, "POST", path, sent)
            assert "cannot give the conversation to the agent" in text, path
        _, text = await ask(app, "POST", f"{run}/release", Sent({"to": "Cl\u200berk"}))
        assert "cannot give" in text or "cannot be printed" in text
        state = await handle.state()
        assert (state.status, state.agent) == ("held", "Clerk")
        assert (await ask(app, "POST", f"{run}/release", Sent({"to": "Clerk"})))[0] == 200
    await handle.cancel()
