"""A desk whose runs are played, for tests of the chat: no server, real requests."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount

from outlast.agents.agent import Agent
from outlast.agents.errors import RunNotFound
from outlast.client.identity import person
from outlast.contract.identity import IdentityKeys, new_shared_key, read_keys
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject
from outlast.serve.access import RoleRules
from outlast.serve.feed import Feed, FeedLimits
from outlast.serve.login import ThisMachine
from outlast.serve.pages import agents, chat, chat_look, page
from outlast.serve.routing import LARGEST_BODY, Desk, EscapedPaths
from outlast.serve.tokens import ConversationTokens
from outlast.views.run import RunSnapshot, snapshot_of
from tests.unit.serve.scripted_source import ScriptedSource, Streamed

TOKENS = ConversationTokens(IdentityKeys(read_keys(new_shared_key())), audience="test")
ANN = person("ann", groups=["billing"])
ORIGIN = {"Origin": "http://localhost:8090"}
SUPPORT = Agent[Any](name="Support", handoff_description="Answers customers.")


class Nobody:
    """A login of which nobody has used the page."""

    routes = ()
    path = "/login"

    async def person(self, _connection: Any) -> None:
        return None


@dataclass
class PlayedRun:
    """A run whose state is set by the test."""

    present: LoopState | None
    sent: dict[str, Any] = field(default_factory=dict[str, Any])
    failure: Exception | None = None

    async def state(self) -> RunSnapshot:
        if self.present is None:
            raise RunNotFound("There is no run.")
        return snapshot_of(self.present)

    async def check(self) -> None:
        await self.state()

    async def send(
        self, content: str | list[JsonObject], *, message_id: str, stream: bool, author: str
    ) -> None:
        if self.failure is not None:
            raise self.failure
        assert stream
        assert not author, "a customer writes"
        self.sent.setdefault(message_id, content)


@dataclass(frozen=True, kw_only=True)
class PlayedDesk(Desk):
    """A desk with such runs."""

    runs: dict[str, PlayedRun]

    def handle(self, run_id: str) -> Any:
        return self.runs.setdefault(run_id, PlayedRun(None))


class ReadSource(ScriptedSource):
    """A source that says when somebody reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read = asyncio.Event()

    async def __call__(self, run_id: str) -> AsyncGenerator[Streamed]:
        self.is_read.set()
        async with aclosing(super().__call__(run_id)) as streamed:
            async for one in streamed:
                yield one


@dataclass
class Place:
    """An application, and what stands behind it."""

    app: Starlette
    runs: dict[str, PlayedRun]
    source: ReadSource

    def client(self, **headers: str) -> Any:
        """Return a browser."""
        transport = httpx2.ASGITransport(self.app, client=("127.0.0.1", 5000))
        return httpx2.AsyncClient(
            transport=transport, base_url="http://localhost:8090", headers=headers
        )

    def play(self, state: LoopState, run_id: str = "mine") -> PlayedRun:
        """Put a run on the desk."""
        self.runs[run_id] = PlayedRun(replace(state, run_id=run_id))
        return self.runs[run_id]


def place(*, prefix: str = "", **fields: Any) -> Place:
    """Return a desk with the pages of the chat."""
    runs: dict[str, PlayedRun] = {}
    source = ReadSource()
    settings: dict[str, Any] = {
        "client": None,
        "feed": Feed(source, FeedLimits()),
        "login": Nobody(),
        "roles": RoleRules(anybody=["viewer", "operator"]),
        "tokens": TOKENS,
        "agents": (SUPPORT,),
        "runs": runs,
    }
    inner = Starlette(
        routes=[*page.ROUTES, *chat_look.ROUTES, *chat.ROUTES, *agents.ROUTES],
        middleware=[Middleware(EscapedPaths)],
        max_body_size=LARGEST_BODY,
    )
    inner.state.desk = PlayedDesk(**(settings | fields))
    app = Starlette(routes=[Mount(prefix, inner)]) if prefix else inner
    return Place(app, runs, source)


def team(**fields: Any) -> Place:
    """Return a desk at which Ann of the team sits."""
    return place(login=ThisMachine(ANN), **fields)


def token(run_id: str = "mine", **options: Any) -> str:
    return TOKENS.mint(run_id, **options)
