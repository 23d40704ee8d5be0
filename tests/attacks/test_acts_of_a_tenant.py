"""What colleagues may do to the runs of their tenant, at every route of the desk that changes one.

Each route is asked three times about one run: by a colleague of another tenant with every role
there, by one of the run's tenant with every role but the one that it takes, which they have at the
other tenant, and by one with that role only. The first two send the run nothing, and the third does.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import pytest
from starlette.applications import Starlette

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.config.run_config import Budget, RunConfig
from outlast.agents.errors import RunClosed
from outlast.client.handle import RunHandle
from outlast.ports.model import ModelRequest
from outlast.serve.access import ROLES, RoleRules
from outlast.testing import ScriptedModel, call, say
from tests.attacks.test_another_tenant import (
    Sent,
    _chat,
    _message,
    _thread,
    address,
    ask,
    colleague,
    keys,
    routes,
)
from tests.workflow.desk import Desk
from tests.workflow.people import ANN, clerk, refunds
from tests.workflow.replies import last_user_text
from tests.workflow.test_deliveries import waiter
from tests.workflow.test_desk_api import app_of
from tests.workflow.test_retries import NO_KEY

__all__ = ["keys"]

SENT: Final = ("_SIGNALED", "_UPDATE_ACCEPTED", "_CANCEL_REQUESTED", "_TERMINATED")
"""How what reaches a run ends in the types of its history's events."""


@dataclass(frozen=True, slots=True)
class Found:
    """A run as somebody has seen it who may: its id, its state, and the token of its wait."""

    run_id: str
    state: Any
    token: str

    @property
    def quoted(self) -> str:
        return quote(self.run_id, safe="")

    def digest(self, request_id: str) -> str:
        return next(one.digest for one in self.state.approvals if one.id == request_id)


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that somebody does to a run.

    Attributes:
        path: the route.
        role: the role that it takes, or roles of which one is enough.
        sent: what is sent.
        request: the request that the path names.
        sends: whether it reaches the run; some acts only say something.
    """

    path: str
    role: str
    sent: Callable[[Found], Sent]
    request: str = "a1"
    sends: bool = True


def _json(**content: Any) -> Callable[[Found], Sent]:
    return lambda _: Sent(content)


def _form(**fields: str) -> Callable[[Found], Sent]:
    return lambda _: Sent(form=[*fields.items()])


def _agrees(request_id: str) -> Callable[[Found], Sent]:
    return lambda found: Sent(form=[("deed", "approve"), ("digest", found.digest(request_id))])


def _rpc(found: Found) -> Sent:
    said = _message(found.run_id)
    said["message"]["messageId"] = "rpc"
    return Sent({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": said})


def _named(content: Any, message_id: str) -> Any:
    """Return what a front end sends, with another id of its message."""
    for one in content["messages"]:
        one["id"] = message_id
    return content


_RUN: Final = "/api/conversations/{run_id}"
_REQUEST: Final = _RUN + "/requests/{request_id}"
_PAGE: Final = "/conversations/{run_id}"

SCENES: Final[dict[str, Sequence[Act]]] = {
    "refund": [
        Act(f"{_REQUEST}/claim", "decider", _json(minutes=5)),
        Act(f"{_REQUEST}/unclaim", "decider", _json()),
        Act(f"{_RUN}/tokens", "operator", _json(), sends=False),
        Act(f"{_RUN}/rating", "operator", _json(score=2)),
        Act(f"{_RUN}/set-aside", "operator", _json(item=0)),
        Act(f"{_RUN}/take-back", "operator", _json(item=0)),
        Act(f"{_PAGE}/set-aside", "operator", _form(item="0")),
        Act(f"{_PAGE}/take-back", "operator", _form(item="0")),
        Act(f"{_RUN}/assign", "operator", _json(to="bob")),
        Act(f"{_RUN}/comment", "operator", _json(text="Look.", comment_id="c1")),
        Act(f"{_RUN}/tag", "operator", _json(tags=["vip"])),
        Act(f"{_RUN}/link", "operator", lambda one: Sent({"conversations": [one.run_id]})),
        Act(f"{_RUN}/reopen", "operator", _json()),
        Act(f"{_PAGE}/assign", "operator", _form(assignee="ann")),
        Act(f"{_PAGE}/comment", "operator", _form(text="Look again.")),
        Act(f"{_PAGE}/tag", "operator", _form(remove="vip")),
        Act(f"{_PAGE}/link", "operator", lambda one: Sent(form=[("remove", one.run_id)])),
        Act(f"{_PAGE}/reopen", "operator", _form(why="")),
        Act(f"{_RUN}/messages", "operator", _json(text="More?", message_id="m1")),
        Act(f"{_RUN}/messages/{{message_id}}/withdraw", "operator", _json()),
        Act("/api/inbox/plan", "decider", lambda one: Sent({"conversations": [one.run_id]}), sends=False),
        Act("/inbox/plan", "decider", lambda one: Sent(form=[("run", one.quoted)]), sends=False),
        Act(f"{_REQUEST}/decide", "decider", lambda one: Sent({"type": "approve", "digest": one.digest("a1")})),
        Act(f"{_PAGE}/requests/{{request_id}}", "decider", _agrees("a2"), "a2"),
        Act("/inbox/requests/{run_id}/{request_id}", "decider", _agrees("a3"), "a3"),
        Act("/api/inbox/decide", "decider", lambda one: Sent({"type": "approve", "requests": [
            {"conversation": one.run_id, "request": "a4", "digest": one.digest("a4")},
        ]})),
        Act("/inbox/decide", "decider", lambda one: Sent(form=[
            ("run", one.quoted), ("decision", "approve"), ("seen", one.digest("a5")),
        ])),
        Act(f"{_RUN}/hold", "operator", _json()),
        Act(f"{_RUN}/say", "operator", _json(text="Good day.")),
        Act(f"{_RUN}/release", "operator", _json()),
        Act(f"{_PAGE}/hold", "operator", _form()),
        Act(f"{_PAGE}/say", "operator", _form(text="Good day again.")),
        Act(f"{_PAGE}/release", "operator", _form()),
        Act(f"{_PAGE}/cancel", "operator", _form(mode="immediate")),
    ],
    "hello": [
        Act("/chat/c/{run_id}/rating", "operator", _form(rated="good")),
        Act(f"{_RUN}/recount", "operator", _json()),
        Act(f"{_PAGE}/recount", "operator", _form()),
        Act("/recount", "operator", _form(why=""), sends=False),
        Act(f"{_RUN}/snooze", "operator", _json(until="1h")),
        Act(f"{_PAGE}/snooze", "operator", _form(until="2h")),
        Act(f"{_RUN}/resolve", "operator", _json(why="It is done.")),
        Act(f"{_PAGE}/resolve", "operator", _form(why="")),
        Act("/chat/c/{run_id}", "operator", _form(text="By the chat.", nonce="0123456789abcdef")),
        Act("/agui/{agent}", "operator", lambda one: Sent(_named(_thread(one.run_id), "agui"))),
        Act("/copilotkit/agent/{agent}/run", "operator", lambda one: Sent(_named(_thread(one.run_id), "kit"))),
        Act("/vercel/{agent}", "operator", lambda one: Sent(_named(_chat(one.run_id), "vercel"))),
        Act("/v1/responses", "operator", lambda one: Sent(
            {"model": "Clerk", "conversation": one.run_id, "input": "Hello?", "background": True}
        )),
        Act("/a2a/{agent}/message:send", "operator", lambda one: Sent(_message(one.run_id))),
        Act("/a2a/{agent}", "operator", _rpc),
        Act(f"{_RUN}/cancel", "operator", _json()),
    ],
    "stop": [Act("/copilotkit/agent/{agent}/stop/{run_id}", "operator", _json())],
    "response": [Act("/v1/responses/{response_id}/cancel", "operator", _json())],
    "task": [Act("/a2a/{agent}/tasks/{task_id}:cancel", "operator", _json())],
    "stream": [Act("/a2a/{agent}/message:stream", "operator", lambda one: Sent(_message(one.run_id)))],
    "wait": [Act(f"{_RUN}/waits/finish", "operator", lambda one: Sent({"token": one.token, "value": 1}))],
    "wait again": [Act(f"{_PAGE}/finish", "operator", lambda one: Sent(
        form=[("token", one.token), ("value", "1")]
    ))],
    "budget": [Act(f"{_REQUEST}/extend", "decider or operator", lambda one: Sent({"digest": one.digest("a2"), "extend_by": 3}), "a2")],
    "budget again": [Act(f"{_PAGE}/extend", "decider or operator", lambda one: Sent(
        form=[("request_id", "a2"), ("digest", one.digest("a2"))]
    ))],
    "fail": [Act(f"{_RUN}/retry", "operator", _json())],
    "fail again": [Act(f"{_PAGE}/retry", "operator", _form())],
}  # fmt: skip
"""What is done to a run, in this order, by what its customer has asked for."""

ELSEWHERE: Final = {
    "/api/conversations": "begins a run, under an id that is free",
    "/chat/open": "takes a token of a customer",
    "/copilotkit/agent/{agent}/connect": "reads a conversation",
    "/conversations/{run_id}/suggest": "lets a fork write a draft, see tests/workflow/test_suggestions",
    "/a2a/{agent}/tasks/{task_id}:subscribe": "reads a conversation",
    "/a2a/{agent}/tasks/{task_id}/pushNotificationConfigs": "says that there are none",
    "/a2a/{agent}/tasks/{task_id}/pushNotificationConfigs/{config_id}": "says that there are none",
    **dict.fromkeys(
        ("/api/teams/{team}/duty", "/api/teams/{team}/rule", "/teams", "/teams/{team}/duty",
         "/teams/{team}/rule"),
        "changes a team, as `tests/workflow/test_team_desk.py` tries",
    ),
}  # fmt: skip
"""Routes that change something, and no run that there is."""


def reply(request: ModelRequest) -> Any:
    """Answer as the scene wants it; what a tool has returned ends it."""
    if "output" in str(request.input[-1]):
        return say("Done.")
    match last_user_text(request).split()[0]:
        case "refund":
            return refunds(1, 2, 3, 4, 5)
        case "response" | "task" | "budget":
            return refunds(1)
        case "wait":
            return [call("wait", "w1")]
        case "fail":
            raise NO_KEY
        case _:
            return say("Done.")


async def begun(desk: Desk, scene: str) -> tuple[Agent[Any], RunHandle]:
    """Start the run of a scene, and return it once it is as its acts need it."""
    agent = clerk(ApprovalPolicy(audience="billing", risk="low", bulk=True))
    agent = agent.clone(tools=[*agent.tools, *waiter().tools])
    await desk.open(agent, model=ScriptedModel(always=reply))
    config = RunConfig(budgets=[Budget(model_calls=1)]) if scene.startswith("budget") else None
    later = {"response": "customer-1", "task": "customer-a2a-1"}.get(scene)
    handle = await desk.start(
        agent, "Hello" if later else scene, id=desk.new_id(), tenant="acme", keep_open=True,
        run_config=config,
    )  # fmt: skip
    await desk.settled(handle)
    if later:
        await handle.send(scene, message_id=later)
    if scene.startswith("budget"):
        (request,) = await handle.approvals()
        await handle.approve(request, by=ANN)
    await desk.settled(handle)
    return agent, handle


def _elsewhere(role: str) -> list[str]:
    """Return every role: those that an act takes at another tenant than the others."""
    return [f"{one}@tenant:{'globex' if one in role else 'acme'}" for one in ROLES]


async def sent_to(desk: Desk, handle: RunHandle) -> int:
    """Return how often anybody has reached a run."""
    return sum(one.endswith(SENT) for one in await desk.event_types(handle))


async def asked(app: Starlette, act: Act, found: Found) -> int:
    sent = act.sent(found)
    path = address(act.path.replace("{request_id}", act.request), found.run_id, sent.query)
    status, _ = await ask(app, "POST", path, sent)
    return status


@pytest.mark.parametrize("scene", SCENES)
async def test_a_colleague_does_what_their_role_lets_them_to_runs_of_their_tenant(
    desk: Desk, scene: str
) -> None:
    agent, handle = await begun(desk, scene)
    apps: dict[str, list[Starlette]] = {
        role: [
            colleague(desk, agent, "globex", *ROLES),
            app_of(desk, agent, roles=RoleRules({"billing": _elsewhere(role)})),
            colleague(desk, agent, "acme", role.split()[0]),
        ]
        for role in {act.role for act in SCENES[scene]}
    }
    async with AsyncExitStack() as stack:
        for app in (one for three in apps.values() for one in three):
            await stack.enter_async_context(app.state.desk.feed)
        for act in SCENES[scene]:
            waits = await handle.pending_waits()
            found = Found(handle.id, await handle.state(), waits[0].token if waits else "")
            *others, entitled = apps[act.role]
            before = await sent_to(desk, handle)
            stranger, without = await asyncio.gather(*(asked(one, act, found) for one in others))
            assert without == 403 or (without, act.path) in ANSWERED, act
            assert stranger in {403, 404} or (stranger, act.path) in ANSWERED, (act, stranger)
            assert await sent_to(desk, handle) == before, act
            assert await asked(entitled, act, found) in {200, 201, 202, 204, 303}, act
            assert (await sent_to(desk, handle) > before) is act.sends, act
    with suppress(RunClosed):
        await handle.cancel()


ANSWERED: Final = {
    (200, "/api/inbox/plan"),
    (200, "/inbox/plan"),
    (200, "/api/inbox/decide"),
    (200, "/inbox/decide"),
    (303, "/inbox/decide"),
    (200, "/recount"),
    (200, "/a2a/{agent}"),
    (400, "/a2a/{agent}/message:send"),
    (400, "/a2a/{agent}/message:stream"),
}
"""Answers about many runs, which say of each that there is none, and those of a protocol."""


async def test_every_route_that_changes_something_is_in_a_scene(desk: Desk) -> None:
    app = colleague(desk, clerk(), "acme", "viewer")
    tried = {act.path for acts in SCENES.values() for act in acts}
    unsafe = {path for method, path in routes(app) if method not in {"GET", "OPTIONS"}}
    assert unsafe == tried | ELSEWHERE.keys()
    assert not tried & ELSEWHERE.keys()
