"""A desk with pages for tests: its runs are states in memory, and people's actions are noted."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import httpx2
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute

from outlast.agents.errors import DecisionRefused, RunNotFound
from outlast.client.identity import person
from outlast.client.inbox import InboxEntry
from outlast.client.people.actions import ClaimReceipt, DecisionReceipt
from outlast.loop.approvals import ApprovalRequest, ApprovalTerms
from outlast.loop.state import LoopState
from outlast.serve.access import ROLES, RoleRules
from outlast.serve.cursor import Cursor
from outlast.serve.feed import Ended, FeedEntry, Snapshot
from outlast.serve.login import ThisMachine
from outlast.serve.pages import inbox, page, request
from outlast.serve.routing import Desk, EscapedPaths
from outlast.views.run import RunSnapshot, snapshot_of
from tests.laws.driver import Play, gated, said

ANN = person("ann", groups=["billing"])
OWN = {"Origin": "http://localhost:8090"}
CALL = '{"iban": "DE42", "amount": 5}'
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"iban": {"type": "string"}, "amount": {"type": "integer"}},
    "required": ["iban", "amount"],
}


@dataclass
class Run:
    """A handle on a state."""

    states: dict[str, LoopState]
    id: str
    made: list[Any] = field(default_factory=list[Any])
    refused: str = ""
    has_worker: bool = True
    claims: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    async def check(self) -> None:
        if self.id not in self.states:
            raise RunNotFound(f"There is no run {self.id!r}.")

    async def state(self) -> RunSnapshot:
        await self.check()
        return snapshot_of(self.states[self.id])

    async def decide(self, decision: Any, *, request: ApprovalRequest) -> DecisionReceipt:
        return self._receipt(decision, request.run_id)

    async def ask_back(self, one: ApprovalRequest, question: str, **_: Any) -> DecisionReceipt:
        return self._receipt(("ask_back", question), one.run_id)

    async def withdraw_vote(self, _one: ApprovalRequest, **_: Any) -> DecisionReceipt:
        return self._receipt(("withdraw",), "")

    async def claim(self, one: ApprovalRequest, **options: Any) -> ClaimReceipt:
        found = {name: options.get(name) for name in ("minutes", "force", "to")}
        self._receipt(("claim", found["force"] or False), one.run_id)
        self.claims.append(found)
        return ClaimReceipt(run_id=self.id, request_id=one.id)

    async def unclaim(self, one: ApprovalRequest, **_: Any) -> ClaimReceipt:
        self._receipt(("unclaim",), one.run_id)
        return ClaimReceipt(run_id=self.id, request_id=one.id)

    def _receipt(self, made: Any, nested_id: str | None) -> DecisionReceipt:
        if self.refused:
            raise DecisionRefused(self.refused)
        self.made.append(made)
        kind = getattr(made, "type", "reject")
        status: Any = {"approve": "approved", "edit": "edited", "respond": "responded"}.get(
            kind, "rejected"
        )
        return DecisionReceipt(
            run_id=nested_id or self.id,
            request_id="a1",
            status=status if self.has_worker else "pending",
            votes=int(self.has_worker),
            votes_needed=1,
            is_kept=not self.has_worker,
        )


class PageDesk(Desk):
    """A desk whose runs are in memory."""

    def handle(self, run_id: str) -> Any:
        runs: dict[str, Run] = self.__dict__.setdefault("runs", {})
        states: dict[str, LoopState] = self.__dict__.setdefault("states", {})
        return runs.setdefault(run_id, Run(states, run_id))

    async def signs(self) -> bool:
        return True


class Entries:
    """Stands for the feed of an inbox: it has these entries."""

    def __init__(self, entries: Sequence[InboxEntry] = ()) -> None:
        self.entries = tuple(entries)
        self.wanted: list[Any] = []

    def known(self, wanted: Any) -> tuple[InboxEntry, ...]:
        self.wanted.append(wanted)
        return self.entries

    @asynccontextmanager
    async def reader(self, _client: Any, wanted: Any, **_: Any) -> AsyncGenerator[Any]:
        self.wanted.append(wanted)
        yield self._all()

    async def _all(self) -> AsyncGenerator[Any]:
        yield self.entries

    async def close(self) -> None:
        pass


class Moments:
    """Stands for the feed of a run: it has these states, and then the run has ended."""

    def __init__(self, *states: LoopState) -> None:
        self._states = list(states)
        self.state = RunSnapshot()
        self.has_more = False

    @asynccontextmanager
    async def reader(self, *_: Any, **__: Any) -> AsyncGenerator["Moments"]:
        yield self

    async def changes(self) -> AsyncGenerator[FeedEntry | None]:
        for at, state in enumerate(self._states):  # every other state comes without an entry
            self.state = snapshot_of(state)
            begins = Snapshot(Cursor(), cast("Any", self.state), "", is_unjudged=False)
            yield None if at % 2 else begins
        yield Ended(Cursor(), "completed")


def app(
    states: Mapping[str, LoopState] | None = None,
    *,
    entries: Sequence[InboxEntry] = (),
    roles: Sequence[Any] = ROLES,
    **fields: Any,
) -> Starlette:
    routes: list[BaseRoute] = [*page.ROUTES, *inbox.ROUTES, *request.ROUTES]
    application = Starlette(routes=routes, middleware=[Middleware(EscapedPaths)])
    settings: dict[str, Any] = {
        "client": None,
        "feed": None,
        "login": ThisMachine(ANN),
        "roles": RoleRules(anybody=roles),
        "inboxes": Entries(entries),
    }
    shared = PageDesk(**(settings | fields))
    shared.__dict__["states"] = dict(states or {})
    shared.__dict__["runs"] = {}
    application.state.desk = shared
    return application


def client_of(application: Any) -> Any:
    transport = httpx2.ASGITransport(application, client=("127.0.0.1", 5000))
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost:8090")


def run_of(application: Starlette, run_id: str = "r") -> Run:
    return application.state.desk.handle(run_id)


def asking(arguments: str = CALL, words: str = "The boss agreed.", **terms: Any) -> LoopState:
    """Return a run that waits for a person."""
    play = Play()
    play.prepared()
    play.replies(said(words), gated("refund", "c1", arguments, terms=ApprovalTerms(**terms)))
    return play.state


def changed(state: LoopState, **fields: Any) -> LoopState:
    """Return the state with other fields of its first request."""
    first, *rest = state.approvals
    return replace(state, approvals=(replace(first, **fields), *rest))
