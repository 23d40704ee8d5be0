"""Desks before runs that were played: the pages of a desk without a server."""

import asyncio
from collections.abc import AsyncGenerator, Collection
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute

from outlast.agents.errors import RunNotFound
from outlast.client.identity import person
from outlast.client.read.events import RawResponsesStreamEvent, StreamedState, changes
from outlast.client.runs import ListedRun
from outlast.contract.identity import IdentityKeys, new_shared_key, read_keys
from outlast.loop.machine import advance
from outlast.loop.state import LoopState
from outlast.serve.access import ROLES, Role, RoleRules
from outlast.serve.case_feed import CaseFeed
from outlast.serve.feed import Feed
from outlast.serve.login import ThisMachine
from outlast.serve.pages import page
from outlast.serve.routing import Desk, EscapedPaths
from outlast.serve.run_feed import RunFeed
from outlast.views.proofs import ProofReader
from outlast.views.run import snapshot_of
from tests.laws.driver import Play

Streamed = StreamedState | RawResponsesStreamEvent


SIGNING = ProofReader(IdentityKeys(read_keys(new_shared_key())), "default")


class PlayedDesk(Desk):
    """A desk without a server. The run `forked` has a fork."""

    async def forks(self, run_id: str) -> tuple[str, ...]:
        return ("forked~<b>brief</b>",) if run_id == "forked" else ()

    async def proofs(self) -> ProofReader:
        """Takeovers are not for those who prove nothing, so it has a key that signs."""
        return SIGNING


class Shared(CaseFeed):
    """Stands for the conversations that colleagues share: these."""

    def __init__(self, *runs: ListedRun, counts: dict[str, int] | None = None) -> None:
        super().__init__(RunFeed())
        self.runs, self.counts, self.looked = runs, counts or {}, 0

    async def looks(self, client: Any) -> AsyncGenerator[tuple[ListedRun, ...]]:
        self.looked += 1
        yield self.runs

    async def counted(self, client: Any, scopes: Any) -> dict[str, int]:
        return self.counts

    def known_counts(self, scopes: Any) -> dict[str, int]:
        return self.counts


class PlayedRuns:
    """Streams runs that were played, and what is put in after them.

    Args:
        plays: the runs, by their ids.
        texts: the models' events after the last state, by the ids.
    """

    def __init__(self, plays: dict[str, Play], texts: dict[str, list[Any]] | None = None) -> None:
        self._plays = plays
        self._texts = texts or {}
        self._news = asyncio.Event()

    def tell(self) -> None:
        """Say that a run has gone on."""
        self._news.set()
        self._news = asyncio.Event()

    async def __call__(self, run_id: str) -> AsyncGenerator[Streamed]:
        """Stream a run from its first event on."""
        if run_id not in self._plays:
            raise RunNotFound(f"There is no run {run_id!r}.")
        play, state, number, at, told = self._plays[run_id], LoopState(), 0, 0, 0
        while True:
            news = self._news
            for event in play.events[at:]:
                at += 1
                before, state = state, advance(state, event)[0]
                events = tuple(changes(before, state, number))
                number += len(events)
                is_present = at == len(play.events)
                yield StreamedState(
                    state=snapshot_of(state), events=events, cause=event, is_present=is_present
                )
            for raw in self._texts.get(run_id, [])[told:]:
                told += 1
                yield raw
            if state.outcome is not None:
                return
            await news.wait()


def desk_of(
    runs: PlayedRuns, *routes: Collection[BaseRoute], roles: Collection[Role] = ROLES, **fields: Any
) -> Starlette:
    """Return a desk with these pages."""
    app = Starlette(
        routes=[*page.ROUTES, *(one for room in routes for one in room)],
        middleware=[Middleware(EscapedPaths)],
    )
    settings: dict[str, Any] = {
        "client": None,
        "feed": Feed(runs),
        "cases": Shared(),
        "login": ThisMachine(person("ann", groups=["billing"])),
        "roles": RoleRules(anybody=roles),
    }
    app.state.desk = PlayedDesk(**(settings | fields))
    return app


def browser_of(app: Starlette) -> httpx2.AsyncClient:
    """Return a browser before a desk."""
    transport = httpx2.ASGITransport(app, client=("127.0.0.1", 5000))
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost:8090")
