"""The desk as an ASGI application."""

import os
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy_file import ENVIRONMENT_VARIABLE, ApprovalFile
from outlast.agents.errors import UserError
from outlast.agents.hosts import is_this_machine
from outlast.agents.saved_replies import SavedReply
from outlast.client.handle import RunHandle
from outlast.client.identity import os_user
from outlast.client.start.options import check_names
from outlast.client.trouble import server_answers, server_facts
from outlast.deliveries.receiver import delivery_routes
from outlast.deliveries.webhooks import Webhooks
from outlast.ports.engine import check_client
from outlast.search import SearchIndex, open_index
from outlast.serve import api, openapi
from outlast.serve.access import ROLES, RoleRules
from outlast.serve.case_feed import CaseFeed
from outlast.serve.feed import Feed, FeedLimits
from outlast.serve.health_feed import HealthFeed
from outlast.serve.inbox_feed import InboxFeed
from outlast.serve.keys import ApiKeys
from outlast.serve.login import Login, TeamLogin, ThisMachine
from outlast.serve.look import Look
from outlast.serve.pages import (
    agents,
    audit,
    chat,
    chat_look,
    conversation,
    conversations,
    figures,
    inbox,
    page,
    request,
    schedules,
    search,
    system,
    teams,
)
from outlast.serve.pages.page import show_page
from outlast.serve.problems import problem_of
from outlast.serve.routing import (
    Desk,
    EscapedPaths,
    LimitedBodies,
    as_json,
)
from outlast.serve.run_feed import RunFeed
from outlast.serve.sse import Streams
from outlast.serve.tokens import ConversationTokens, tokens_from_environment
from outlast.serve.troubles import RunTroubles
from outlast.serve.wires import a2a, ag_ui, responses, vercel

_ROOMS: Final = (
    page,
    api,
    openapi,
    inbox,
    request,
    conversations,
    conversation,
    search,
    teams,
    figures,
    system,
    schedules,
    audit,
    agents,
    chat_look,
    chat,
    ag_ui,
    vercel,
    responses,
    a2a,
)
"""The modules with routes: each has a list `ROUTES`."""

SHORTEST_API_KEY: Final = 24
"""The fewest characters of an API key: such a key cannot be guessed."""

_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    # With `no-referrer`, browsers send `Origin: null` with forms, also with those of the desk.
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""The headers of every answer that does not have its own."""


class DeskOptions(TypedDict, total=False):
    """The options of `desk`.

    Attributes:
        agents: the agents that customers and programs may start.
        login: how the team logs in; without one, the desk is for the user of its machine alone.
        roles: which groups may do what; without a login, the user of the machine may do
            everything.
        tokens: checks customers' tokens; default: those of the keys in OUTLAST_CONVERSATION_KEY, or
            of no customer if it is not set.
        api_keys: keys of programs without a scope, by a name for each.
        api_keys_file: the file with scoped keys that `outlast keys` writes.
        url: the address of the desk, such as `https://desk.example.com`; needed behind a proxy, and
            with any login but the default.
        origins: addresses of other sites whose pages may call the API with a customer's token.
        task_queue: the task queue of the workers that host the runs.
        temporal_ui: the address of Temporal's web UI, for links to runs.
        webhooks: the webhooks that it takes; it takes signed URLs of waits if OUTLAST_DELIVERY_KEYS
            is set.
        limits: the bounds of live streams.
        search_index: the index of search, or its place: a file, or an address of PostgreSQL.
        approvals: the operators' file, whose saved replies people have at the desk; default: that of
            OUTLAST_APPROVALS.
        look: the look of the customers' page, and the sites that may embed it.
    """

    agents: Sequence[Agent[Any]]
    login: Login | None
    roles: RoleRules | None
    tokens: ConversationTokens | None
    api_keys: Mapping[str, str]
    api_keys_file: Path | str | None
    url: str
    origins: Collection[str]
    task_queue: str | None
    temporal_ui: str
    webhooks: Webhooks | None
    limits: FeedLimits | None
    search_index: SearchIndex | Path | str | None
    approvals: ApprovalFile | Path | str | None
    look: Look


def desk(client: Client, **options: Unpack[DeskOptions]) -> Starlette:
    """Return the desk: an HTTP API, the wires of front ends, and pages.

    Run it by `outlast serve`, or mount it into a program: `app.mount("/desk", desk(client))`.

    Args:
        client: connected to the runs' server.
        **options: see `DeskOptions`.

    Raises:
        UserError: an argument does not fit.
    """
    check_client(client, what="desk(client)")
    check_names(options, DeskOptions, caller="desk")
    shared = _shared(client, options)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await shared.close()  # readers get a position to come back with

    app = Starlette(
        routes=[
            *_routes(),
            *delivery_routes(client, webhooks=options.get("webhooks")),
            *shared.login.routes,
        ],
        middleware=[
            Middleware(LimitedBodies),
            Middleware(EscapedPaths),
        ],
        exception_handlers={HTTPException: _show, Exception: _show},
        lifespan=lifespan,
    )
    app.state.desk = shared
    build = app.build_middleware_stack
    # Around everything, so that the answer of a failure has the headers, too.
    app.build_middleware_stack = lambda: _SecurityHeaders(build())
    return app


def _shared(client: Client, options: DeskOptions) -> Desk:
    url = options.get("url", "").rstrip("/")
    login, keys = options.get("login"), options.get("api_keys", {})
    _check_url(url)
    _check_login(login, options.get("roles"), url)
    _check_keys(keys)
    limits, file = options.get("limits"), options.get("api_keys_file")
    index = options.get("search_index")
    runs = RunFeed()
    return Desk(
        client=client,
        feed=Feed(lambda run_id: RunHandle(client, run_id).stream_states(), limits),
        troubles=RunTroubles(
            lambda run_id, works: server_facts(client, run_id, works=works),
            lambda: server_answers(client),
        ),
        login=login or ThisMachine(os_user()),
        roles=options.get("roles") or RoleRules(anybody=ROLES),
        tokens=options.get("tokens") or tokens_from_environment(url, client.namespace),
        streams=Streams(limits),
        inboxes=InboxFeed(runs),
        cases=CaseFeed(runs),
        api_keys=ApiKeys(keys, None if file is None else Path(file)),
        agents=tuple(options.get("agents", ())),
        task_queue=options.get("task_queue"),
        url=url,
        origins=frozenset(options.get("origins", ())),
        temporal_ui=options.get("temporal_ui", "").rstrip("/"),
        look=options.get("look") or Look(),
        health=HealthFeed(options.get("task_queue")),
        search=index if isinstance(index, SearchIndex | None) else open_index(index),
        replies=_replies(options.get("approvals")),
    )


def _replies(given: ApprovalFile | Path | str | None) -> tuple[SavedReply, ...]:
    """Return the saved replies of the operators' file; its mistakes are a `UserError`."""
    place = given or os.environ.get(ENVIRONMENT_VARIABLE)
    if not place:
        return ()
    return (place if isinstance(place, ApprovalFile) else ApprovalFile.load(place)).replies


def _routes() -> list[BaseRoute]:
    # Load balancers ask under any name, and are nobody.
    health = Route("/health", _health)
    return [health, *(one for room in _ROOMS for one in room.ROUTES)]


async def _health(_request: Request) -> Response:
    """Answer load balancers: this process serves. It says nothing about Temporal."""
    return JSONResponse({"status": "ok"})


async def _show(request: Request, error: Exception) -> Response:
    """Answer a request that no route takes: with a page where a person asks."""
    is_person = "text/html" in request.headers.get("Accept", "")
    return (show_page if is_person else as_json)(request, problem_of(error))


class _SecurityHeaders:
    """Adds the headers that keep pages of others away from those of the desk."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and add what its answer lacks."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if "frame-ancestors http" in headers["Content-Security-Policy"]:
                    del headers["X-Frame-Options"]  # it has no lists of sites
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)


# --- Arguments -----------------------------------------------------------------------------------


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    is_address = parts.scheme in {"http", "https"} and parts.netloc and "@" not in parts.netloc
    if url and (not is_address or parts.query or parts.fragment):
        raise UserError(
            f"url= must be an address such as https://desk.example.com, not {url!r:.80}."
        )


def _check_login(login: Login | None, roles: RoleRules | None, url: str) -> None:
    if isinstance(login, TeamLogin):
        login.check_address(url)
        if roles is None:
            raise UserError(
                "A desk with a login for a team needs roles=: who may do what. "
                "RoleRules(anybody=['viewer']) lets everybody watch who can log in."
            )
    # A proxy on this machine would make everybody its user.
    is_for_one = login is None or isinstance(login, ThisMachine)
    if is_for_one and url and not is_this_machine(urlsplit(url).hostname or ""):
        raise UserError(
            f"A desk at {url} needs a login: pass login=. Without one, a desk is for the user of "
            "its machine, at an address such as http://127.0.0.1:8090."
        )


def _check_keys(keys: Mapping[str, str]) -> None:
    for name, key in keys.items():
        if len(key) < SHORTEST_API_KEY or not key.isascii() or not key.isprintable():
            raise UserError(
                f"The API key {name!r:.80} must have at least {SHORTEST_API_KEY} letters and "
                "digits. Make one with `openssl rand -hex 32`."
            )
