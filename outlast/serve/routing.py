"""Routes that know who asks: every route names the action that it is, and `access.may` decides.

    request -> path with its ids -> caller -> may the caller do this? -> handler -> response

A handler gets the caller and the id of the run. What depends on the state of the run, it asks `may`
again, with the state.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final, TypeAlias
from urllib.parse import unquote, urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.agents.hosts import is_this_machine
from outlast.agents.saved_replies import SavedReply
from outlast.client.forks import known_forks
from outlast.client.handle import RunHandle
from outlast.client.run_facts import RunFacts, run_facts
from outlast.client.start.following import follows
from outlast.client.transport.run_address import no_such_run
from outlast.deliveries.problems import Problem, Refused, error_answer
from outlast.edges.bodies import DOORS, Door
from outlast.edges.tasks import meanwhile
from outlast.search.index import SearchIndex
from outlast.serve.access import (
    NOT_OPENED,
    NOT_SEEN,
    Action,
    Caller,
    Customer,
    Program,
    RoleRules,
    Staff,
    Target,
    is_scoped,
    may,
    scopes_for,
    seen_at,
)
from outlast.serve.case_feed import CaseFeed
from outlast.serve.feed import Feed, TooManyReaders
from outlast.serve.health_feed import HealthFeed
from outlast.serve.inbox_feed import InboxFeed
from outlast.serve.keys import ApiKeys
from outlast.serve.login import Login, cookies_to_set
from outlast.serve.look import Look
from outlast.serve.problems import problem_of
from outlast.serve.run_feed import RunFeed
from outlast.serve.sse import EventStream, Streams
from outlast.serve.tokens import ConversationTokens, bearer_of
from outlast.serve.troubles import RunTroubles
from outlast.temporal.proofs import proof_reader
from outlast.temporal.visibility.scopes import RunScope
from outlast.views.proofs import ProofReader
from outlast.views.records import ApprovalRequest, Person
from outlast.views.run import RunSnapshot

CONVERSATION_COOKIE: Final = "outlast_conversation"
"""The cookie with a customer's token, for the pages of the chat: they cannot send headers."""

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
LARGEST_BODY: Final = DOORS["api"].size
"""The largest body of a request, in bytes: a message with a photo in it."""


@dataclass(frozen=True, kw_only=True)
class Desk:
    """What the routes of one application share.

    Nothing in it has to outlive the process, and any number of processes may have the same.

    Attributes:
        client: connected to the runs' server.
        feed: the live streams of runs.
        login: how the team logs in.
        roles: what members of the team may do.
        tokens: checks customers' tokens; None if no customer may come in.
        api_keys: the keys of programs.
        agents: the agents that customers and programs may start.
        task_queue: the task queue of the workers that host the runs.
        url: the address of the desk, such as `https://desk.example.com`; empty for this machine.
        origins: other addresses whose pages may call the API with a token.
        temporal_ui: the address of Temporal's web UI; empty for none.
        inboxes: the live inboxes.
        cases: the conversations that colleagues share.
        troubles: what keeps runs from going on.
        streams: counts the streams that are sent.
        search: the index of search, which the desk only reads; None for none.
        replies: the saved replies of the operators' file.
        look: the look of the customers' page.
        health: how the installation is.
        audits: bounds how many audits are read at the same time: each reads histories.
    """

    client: Client
    feed: Feed
    login: Login
    roles: RoleRules
    tokens: ConversationTokens | None = None
    api_keys: ApiKeys = field(default_factory=ApiKeys)
    agents: tuple[Agent, ...] = ()
    task_queue: str | None = None
    url: str = ""
    origins: frozenset[str] = frozenset()
    temporal_ui: str = ""
    inboxes: InboxFeed = field(default_factory=lambda: InboxFeed(RunFeed()))
    cases: CaseFeed = field(default_factory=lambda: CaseFeed(RunFeed()))
    troubles: RunTroubles = field(default_factory=RunTroubles)
    streams: Streams = field(default_factory=Streams)
    search: SearchIndex | None = None
    replies: tuple[SavedReply, ...] = ()
    look: Look = field(default_factory=Look)
    health: HealthFeed = field(default_factory=HealthFeed)
    audits: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))

    async def close(self) -> None:
        """End all live streams: readers come back, to this process or another one."""
        await self.feed.close()
        await self.inboxes.close()
        await self.cases.close()
        await self.health.close()

    async def forks(self, run_id: str) -> tuple[str, ...]:
        """Return the newest forks of a run; none if the server cannot search just now."""
        return await known_forks(self.client, run_id)

    def handle(self, run_id: str) -> RunHandle:
        """Return a handle on a run, which waits `PATIENCE` for a server that does not answer."""
        return RunHandle(self.client, run_id, patience=PATIENCE)

    async def facts(self, run_id: str) -> RunFacts | None:
        """Return the facts by which the right to see a run is judged; None if there is no run."""
        return await run_facts(self.client, run_id, patience=PATIENCE)

    async def signs(self) -> bool:
        """Whether people's actions are signed, so that runs take the login for a proof."""
        return (await self.proofs()).signs

    async def proofs(self) -> ProofReader:
        """Return what says who has proven who they are, by the keys of this process."""
        return await proof_reader(self.client)


SOON_SECONDS: Final = 2.0
"""How long a page is waited for before Temporal's server is asked whether it is there."""

_AWAY: Final = "The Temporal server does not answer. Runs are kept; reload the page in a moment."

PATIENCE: Final = timedelta(seconds=20)
"""How long a request waits for a Temporal server that does not answer, by whichever route."""


@dataclass(frozen=True, slots=True)
class DeskRequest:
    """A request, and who sends it.

    Attributes:
        http: the request.
        desk: the desk.
        caller: who sends it.
        run_id: the run that the path names, or that it is about: see `at`; empty for none.
        whole: the caller with their rights at every run, where `caller` has those at one run.
    """

    http: Request
    desk: Desk
    caller: Caller
    run_id: str = ""
    whole: Caller = None

    @property
    def everywhere(self) -> Caller:
        """The caller with their rights at every run."""
        return self.whole or self.caller

    @property
    def person(self) -> Person:
        """The member of the team who sends it.

        Raises:
            Refused: somebody else does.
        """
        if isinstance(self.caller, Staff):
            return self.caller.person
        raise Refused(403, "forbidden", "Only the team can do this.")

    @property
    def handle(self) -> RunHandle:
        """The run that it is about."""
        return self.desk.handle(self.run_id)

    def parameter(self, name: str) -> str:
        """Return a part of the path, whatever characters it has."""
        return unquote(self.http.path_params[name])

    def check(self, action: Action, target: Target | None = None) -> None:
        """Refuse what the caller may not do, with the sentence that says why.

        Raises:
            Refused: the caller may not do it.
        RunNotFound: the caller does not see the run.
        """
        problem = may(self.caller, action, target or Target(run_id=self.run_id))
        if problem is None:
            return
        if problem == NOT_SEEN:
            run_id = self.run_id if target is None else target.run_id
            raise no_such_run(run_id, self.desk.client.namespace)
        if self.caller is None or problem == NOT_OPENED:
            raise Refused(401, "not_logged_in" if self.caller is None else "not_opened", problem)
        raise Refused(403, "forbidden", problem)

    async def target(self, state: RunSnapshot, request: ApprovalRequest) -> Target:
        """Return a request of a run as what an action is about now."""
        signs = await self.desk.signs()
        return Target(run_id=state.run_id, state=state, request=request, signs=signs)

    async def at(self, run_id: str) -> "DeskRequest":
        """Return the request with its caller as they are at a run, and at no other one.

        A route whose path names the run is there already; a handler that takes the id from a body
        asks for it. Whoever sees some runs only has no right to a run before. A customer may open
        what follows their conversation.

        Raises:
            RunNotFound: the caller does not see the run: the same error as of no run.
        """
        whole, client = self.everywhere, self.desk.client
        own = whole.run_id if isinstance(whole, Customer) else run_id
        if isinstance(whole, Customer) and own != run_id:
            is_later = await follows(client, run_id, own, PATIENCE)
            whole = replace(whole, run_id=run_id, bound=None) if is_later else whole
        if not is_scoped(whole):
            return replace(self, caller=whole, run_id=run_id)
        caller = seen_at(whole, run_id, await self.desk.facts(run_id))
        if caller is None:
            raise no_such_run(run_id, client.namespace)
        return replace(self, caller=caller, whole=whole, run_id=run_id)

    async def seen(self, run_ids: Sequence[str], action: Action = "view_run") -> tuple[str, ...]:
        """Return those of some runs at which the caller may do something."""
        whole = self.everywhere
        if not is_scoped(whole):
            return tuple(run_ids)
        facts = await asyncio.gather(*map(self.desk.facts, run_ids))
        callers = [
            None if found is None else seen_at(whole, run_id, found)
            for run_id, found in zip(run_ids, facts, strict=True)
        ]
        return tuple(
            run_id
            for run_id, caller in zip(run_ids, callers, strict=True)
            if caller is not None and may(caller, action, Target(run_id=run_id)) is None
        )

    def check_sees_all(self) -> None:
        """Refuse somebody who sees some conversations only: what follows is about all of them.

        Raises:
            Refused: they do.
        """
        if is_scoped(self.everywhere):
            message = "This page is for those who see all conversations."
            raise Refused(403, "forbidden", message)

    def scopes(self, action: Action) -> tuple[RunScope, ...]:
        """Return the runs that a list shows the caller; none for all."""
        return scopes_for(self.everywhere, action)


Handler: TypeAlias = Callable[[DeskRequest], Awaitable[Response]]
ShowProblem: TypeAlias = Callable[[Request, Problem], Response]
"""Turns a problem into the answer of a route: JSON, a page, or a wire's own form."""


def as_json(_request: Request, problem: Problem) -> Response:
    """Return a problem as our API has it."""
    return error_answer(problem, problem.headers)


def route(
    path: str,
    handler: Handler,
    *,
    action: Action | None,
    methods: Sequence[str] = ("GET",),
    name: str | None = None,
    show: ShowProblem = as_json,
    takes_cookie: bool = False,
    soon: bool = False,
) -> Route:
    """Return a route that is guarded.

    Args:
        path: the path; `{run_id}` in it is the id of the run, of which each character that is no
            letter, digit or one of `_.-~` is escaped.
        handler: answers the request.
        action: what it is, in the table of `access`; None for what anybody may do.
        methods: the HTTP methods.
        name: names the route in pages.
        show: shows problems.
        takes_cookie: whether the token of a customer may come in a cookie: for the chat alone.
        soon: whether a problem is answered within three seconds where Temporal's server is away: for
            pages, before which somebody waits.
    """

    async def endpoint(request: Request) -> Response:
        try:
            answering = _answer(request, handler, action, takes_cookie=takes_cookie)
            response = await (_soon(request, answering) if soon else answering)
        except Exception as error:  # noqa: BLE001  every problem gets an answer
            response = show(request, problem_of(error))
        for cookie in cookies_to_set(request.scope):
            response.headers.append("Set-Cookie", cookie)
        return response

    return Route(path, endpoint, methods=methods, name=name or path)


async def _soon(request: Request, answering: Coroutine[Any, Any, Response]) -> Response:
    """Return an answer, however long it takes while Temporal's server is there.

    Raises:
        Refused: the server is away.
    """
    desk: Desk = request.app.state.desk
    with meanwhile(answering) as task:
        while not (await asyncio.wait({task}, timeout=SOON_SECONDS))[0]:
            if not await desk.troubles.answers() and not task.done():
                raise Refused(503, "server_away", _AWAY)
        return task.result()


async def _answer(
    request: Request, handler: Handler, action: Action | None, *, takes_cookie: bool
) -> Response:
    desk: Desk = request.app.state.desk
    check_host(desk, request)
    caller = await caller_of(desk, request, takes_cookie=takes_cookie)
    if caller is None:
        allow_body(request, DOORS["nobody"])
    run_id = unquote(request.path_params.get("run_id", ""))
    asked = DeskRequest(request, desk, caller, run_id)
    # Browsers send cookies by themselves, also for a page of somebody else; headers they do not.
    has_header = "Authorization" in request.headers
    by_browser = isinstance(caller, Staff) or (takes_cookie and not has_header)
    if by_browser and request.method not in SAFE_METHODS:
        check_origin(desk, request)
    if action is not None:
        # First what depends on no run, so that the answer is the same whether there is one.
        own = caller.run_id if isinstance(caller, Customer) and run_id else run_id
        asked.check(action, Target(run_id="" if is_scoped(caller) else own))
        if run_id and (is_scoped(caller) or own != run_id):
            asked = await asked.at(run_id)
            asked.check(action)
    response = await handler(asked)
    if isinstance(response, EventStream):
        await _count(desk, caller, response)
    return response


async def _count(desk: Desk, caller: Caller, stream: EventStream) -> None:
    """Count a stream, of which a caller and a process may have so many.

    Raises:
        TooManyReaders: the caller has too many.
        Refused: the process has too many.
    """
    reader, most = _reader_of(caller), _most_streams(desk, caller)
    if desk.streams.are_full or desk.streams.of(reader) >= most:
        await stream.aclose()
        if desk.streams.are_full:
            message = "This desk sends as many streams as it may. Try again in a moment."
            raise Refused(503, "too_many_streams", message)
        raise TooManyReaders(
            f"{reader} has {most} streams already. Close a page, or try again later."
        )
    stream.count_in(desk.streams.counted(reader))


def _reader_of(caller: Caller) -> str:
    match caller:
        case Staff(person=person):
            return repr(person.subject)
        case Customer(run_id=run_id):
            return f"The customer of {run_id!r}"
        case Program(name=name):
            return f"The API key {name!r}"
        case None:
            return "Nobody"


def _most_streams(desk: Desk, caller: Caller) -> int:
    limits = desk.streams.limits
    is_program = isinstance(caller, Program)
    return limits.streams_per_program if is_program else limits.readers_per_person


async def caller_of(
    desk: Desk, connection: HTTPConnection, *, takes_cookie: bool = False
) -> Caller:
    """Return who sends a request. What it says about itself in `Authorization` goes first.

    Args:
        desk: the desk.
        connection: the request.
        takes_cookie: whether a customer's token in a cookie counts, before the login.

    Raises:
        TokenRefused: the token of a customer does not count.
        Refused: customers cannot come in, or the API key is unknown.
        IdentityRefused: the login refuses the request.
    """
    bearer = bearer_of(connection.scope["headers"])
    if bearer is None and takes_cookie and (token := connection.cookies.get(CONVERSATION_COOKIE)):
        return _customer(desk, token)
    if bearer is None:
        person = await desk.login.person(connection)
        return None if person is None else desk.roles.staff(person)
    if bearer.startswith("oc1."):
        return _customer(desk, bearer)
    program = desk.api_keys.program(bearer)
    if program is None:
        raise Refused(401, "unknown_key", "The API key is unknown.")
    return program


def _customer(desk: Desk, token: str) -> Customer:
    if desk.tokens is None:
        raise Refused(401, "not_opened", NOT_OPENED)
    return desk.tokens.customer(token)


# --- Where a request comes from ------------------------------------------------------------------


def check_host(desk: Desk, connection: HTTPConnection) -> None:
    """Refuse a request that reached the desk under another name.

    A name of somebody else that leads here would make their page one of the desk's own.

    Raises:
        Refused: the name is another one.
    """
    host = connection.headers.get("Host", "")
    if desk.url:
        expected = urlsplit(desk.url).netloc.lower()
        known = host.lower() == expected
    else:
        known, expected = is_this_machine(urlsplit(f"//{host}").hostname or ""), "localhost"
    if not known:
        message = f"This desk is at {expected}, and not at the address of this request."
        raise Refused(421, "other_host", message)


def check_origin(desk: Desk, request: Request) -> None:
    """Refuse a change that a page of somebody else asks for in the name of a member of the team.

    Raises:
        Refused: the change does not come from a page of this desk.
    """
    if request.headers.get("Origin", "") != own_origin(desk, request):
        message = "Changes need the header `Origin` with the address of this desk."
        raise Refused(403, "other_origin", message)


def own_origin(desk: Desk, connection: HTTPConnection) -> str:
    """Return the origin of the desk's own pages."""
    if desk.url:
        parts = urlsplit(desk.url)
        return f"{parts.scheme}://{parts.netloc}"
    return f"{connection.url.scheme}://{connection.headers.get('Host', '')}"


class BodyTooLarge(HTTPException):
    """A body has more bytes than its door takes."""

    def __init__(self, door: Door) -> None:
        super().__init__(413, "Content Too Large")
        self.words = str(door.refused())


BODY_SECONDS: Final = 30.0
"""How long the body of a request may take, and as much longer as it comes at `SLOWEST_BODY`."""

SLOWEST_BODY: Final = 8_192
"""The bytes of a body that have to come in each second after that."""


class BodyTooSlow(HTTPException):
    """A body comes too slowly."""

    words = (
        f"The body of the request comes too slowly: it may take {BODY_SECONDS:.0f} seconds, and one "
        f"more for each {SLOWEST_BODY:,} bytes."
    )

    def __init__(self) -> None:
        super().__init__(408, "Request Timeout", {"Connection": "close"})


class LimitedBodies:
    """Bounds the bodies of requests. The answer is that of the route, in its own form."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on whose body cannot be read further than its limit."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = scope[_LIMIT] = _Limit()
        given = Headers(scope=scope).get("content-length", "")
        declared = int(given) if given.isascii() and given.isdigit() else 0
        total, waited, is_whole = 0, 0.0, False

        async def receive_within() -> Message:
            nonlocal total, waited, is_whole
            if is_whole:
                return await receive()  # it says when the client goes
            if declared > limit.door.size:
                raise BodyTooLarge(limit.door)
            began = time.monotonic()
            try:
                async with asyncio.timeout(BODY_SECONDS + total / SLOWEST_BODY - waited):
                    message = await receive()
            except TimeoutError:
                raise BodyTooSlow from None
            waited += time.monotonic() - began
            total += len(message.get("body", b""))
            if total > limit.door.size:
                raise BodyTooLarge(limit.door)
            is_whole = not message.get("more_body", False)
            return message

        await self._app(scope, receive_within, send)


@dataclass
class _Limit:
    door: Door = DOORS["api"]


_LIMIT: Final = "outlast.limit"


def allow_body(request: Request, door: Door) -> None:
    """Bound the body of a request by another door than that of the API.

    What was bounded as that of nobody stays bounded so.
    """
    limit = request.scope.get(_LIMIT)
    if isinstance(limit, _Limit) and limit.door is not DOORS["nobody"]:
        limit.door = door


async def read_within(request: Request, door: Door) -> bytes:
    """Return the JSON in the body of a request, unless it would cost too much to parse.

    Raises:
        BodyRefused: it would, for this door or that of nobody.
        HTTPException: it is too large.
    """
    allow_body(request, door)
    return await door_of(request, door).read(request.stream())


def door_of(request: Request, door: Door) -> Door:
    """Return the door by which a request comes: the given one, or that of nobody."""
    limit = request.scope.get(_LIMIT)
    return limit.door if isinstance(limit, _Limit) else door


class EscapedPaths:
    """Matches routes with escaped paths, so that an id may have slashes.

    Servers unescape a path before an application sees it. A part of an id is then no part of it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its path as it was sent."""
        raw = scope.get("raw_path")
        if scope["type"] == "http" and raw:
            scope = {**scope, "path": raw.decode("latin-1").partition("?")[0]}
        await self._app(scope, receive, send)
