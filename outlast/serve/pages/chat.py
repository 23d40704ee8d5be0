"""The chat: the customer's page, to try an agent and as an example to copy.

    a member of the team:   /chat/{agent} -> a new conversation -> /chat/c/{run_id}
    a customer:             /chat/open#TOKEN -> the token as a cookie -> /chat/c/{run_id}

The page works without scripts. A token is in no address that a server logs: what follows the `#`
stays in the browser, which posts it.
"""

import asyncio
import hashlib
import re
import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from markupsafe import Markup, escape
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from outlast.agents.errors import AgentsException, IdentityRefused, RunNotFound, UserError
from outlast.agents.logs import get_logger
from outlast.contract.ratings import SCORES, rated_as
from outlast.deliveries.problems import Problem, Refused
from outlast.serve import uploads
from outlast.serve.access import NOT_OPENED, Customer, Staff, Target, is_scoped, may
from outlast.serve.content import file_answer, file_of
from outlast.serve.customer_input import customer_input, customer_message_id
from outlast.serve.look import WORDS, Look
from outlast.serve.messages import (
    accept_message,
    current,
    startable_agent,
    state_if_any,
    stream_deadline,
)
from outlast.serve.pages.chat_look import begin_as_guest, chat_headers
from outlast.serve.pages.chat_stream import PageContent, chat_events
from outlast.serve.pages.chat_view import ChatView, view_of
from outlast.serve.pages.conversation_cookie import is_framed, set_token
from outlast.serve.pages.filters import with_line_ends
from outlast.serve.pages.page import (
    form_of,
    fragment,
    html_part,
    link,
    page,
    problem_page,
    see_other,
    show_page,
)
from outlast.serve.pages.parts import LongList, message_keys, newest, wanted_key
from outlast.serve.problems import problem_of
from outlast.serve.ratings import take_rating
from outlast.serve.routing import CONVERSATION_COOKIE, DeskRequest, route
from outlast.serve.sse import ServerSentEvent, stream_of
from outlast.views.customer import CustomerMessage
from outlast.views.records import LONGEST_RATING, JsonObject
from outlast.views.run import RunSnapshot

logger: Final = get_logger(__name__)

LONGEST_TEXT: Final = 50_000
"""The most characters of a message."""

SEND_SECONDS: Final = 30.0
"""How long a run may take to accept a message; the same message may be sent again after that."""

TIMES_SECONDS: Final = 0.5
"""How long a page waits for the times of its messages."""

_PAGES: Final = frozenset({"open", "embed.js"})
"""What `/chat/...` is besides the names of agents."""

_NONCE: Final = re.compile(r"[A-Za-z0-9_-]{8,64}", re.ASCII)

_OWN_CODES: Final = frozenset(
    {
        "message_invalid",
        "not_rated",
        "rated_too_often",
        "rating_invalid",
        "agent_not_found",
        "file_empty",
        "file_kind",
        "file_too_large",
        "picture_refused",
        "too_many_files",
        "other_origin",
        "other_host",
        "forbidden",
    }
)
"""The codes of problems whose own sentences customers may read."""


# --- For the team: begin a conversation -------------------------------------------------------------


async def _list_agents(asked: DeskRequest) -> Response:
    agents = [
        {
            "name": agent.name,
            "description": agent.handoff_description or "",
            # `open` is a page of its own; an escaped letter is the same name.
            "address": Markup(link(asked, "chat") + "/" + _escaped(agent.name)),  # noqa: S704
        }
        for agent in asked.desk.agents
    ]
    return page(asked, "chat_agents.html", "Try an agent", agents=agents)


def _escaped(name: str) -> str:
    return (
        f"%{ord(name[0]):02X}{name[1:]}"
        if name in _PAGES
        else quote(name, safe="", errors="replace")
    )


async def _begin(asked: DeskRequest) -> Response:
    """Make a conversation for a member of the team, with a token as a customer has it."""
    if not isinstance(asked.caller, Staff):
        raise Refused(403, "forbidden", "Only the team begins conversations here.")
    agent = startable_agent(asked.desk, asked.parameter("agent"))
    run_id = f"chat-{secrets.token_hex(8)}"
    response = see_other(asked, "chat", "c", run_id, agent=agent.name)
    asked.check("mint_token")
    # A customer has no tenant: who sees some runs only begins the conversation as themselves.
    token = None if is_scoped(asked.caller) else _minted(asked, run_id)
    if token is not None:
        set_token(asked, response, *token)
    return response


def _minted(asked: DeskRequest, run_id: str) -> tuple[str, Customer] | None:
    """Return a token; None without a key to sign it: then the person writes as themselves."""
    tokens = asked.desk.tokens
    try:
        token = None if tokens is None else tokens.mint(run_id)
    except UserError:
        return None  # this desk only checks tokens
    return None if token is None or tokens is None else (token, tokens.customer(token))


# --- For customers: come in with a token --------------------------------------------------------------


async def _show_door(asked: DeskRequest) -> Response:
    look = asked.desk.look
    return page(
        asked,
        "chat_open.html",
        look.name,
        headers=dict(chat_headers(look, None)),
        agent=asked.http.query_params.get("agent"),
    )


async def _open(asked: DeskRequest) -> Response:
    form = await asked.http.form(max_files=0, max_fields=5)
    if asked.desk.tokens is None:
        raise Refused(401, "not_opened", NOT_OPENED)
    token = str(form.get("token", "")).strip()
    customer = asked.desk.tokens.customer(token)
    agent = asked.http.query_params.get("agent")
    response = see_other(asked, "chat", "c", customer.run_id, agent=agent)
    set_token(asked, response, token, customer)
    return response


# --- The conversation -----------------------------------------------------------------------------------


async def _view(asked: DeskRequest, state: RunSnapshot | None = None) -> ChatView | None:
    """Return what a customer sees; None of a conversation that has not begun."""
    state = state or await state_if_any(asked)
    if state is None:
        return None
    # A run that no worker has taken yet has no id in its state, and nothing to see.
    own = state if state.run_id else None
    asked.check("read_messages", Target(run_id=asked.run_id, state=own))
    facts = await asked.desk.troubles.facts(asked.run_id, state)
    return await view_of(asked.desk.client, state, facts, await _times(asked))


async def _times(asked: DeskRequest) -> Sequence[int]:
    """Return when items of the run were written, if the feed has it soon: it comes live anyway."""
    with suppress(AgentsException, TimeoutError, StopAsyncIteration):
        async with asyncio.timeout(TIMES_SECONDS), asked.desk.feed.reader(asked.run_id) as entries:
            await anext(entries)
            return tuple(entries.times)
    return ()


async def _show(asked: DeskRequest) -> Response:
    """Show the conversation, or the one that follows it, unless the former was asked for."""
    state = await state_if_any(asked)
    if state is not None and "former" not in asked.http.query_params:
        newest, _ = await current(asked, state)
        if newest.run_id != asked.run_id:
            return _moved(newest)
    return await _chat_page(asked, state=state)


async def _chat_page(
    asked: DeskRequest,
    problem: Problem | None = None,
    draft: str = "",
    state: RunSnapshot | None = None,
) -> Response:
    view = await _view(asked, state)
    agent = _first_agent(asked) if view is None else None
    messages = () if view is None else view.messages
    listed = _list(asked, messages)
    if view is None and agent is None:
        raise RunNotFound(f"There is no run {asked.run_id!r}, and no agent is named to begin it.")
    return page(
        asked,
        "chat.html",
        asked.desk.look.name,
        headers=dict(chat_headers(asked.desk.look, asked.caller)),
        status=200 if problem is None else problem.status,
        view=view or ChatView(messages=()),
        is_begun=view is not None,
        messages=messages[listed.first :],
        earlier=listed.earlier,
        first_message=listed.first_key,
        agent=agent,
        problem=problem,
        # Their own words, which they send again: escaped for HTML, and not changed.
        draft=Markup("\n") + draft,
        nonce=secrets.token_urlsafe(12),
        accepted=uploads.ACCEPTED,
        longest=LONGEST_TEXT,
        follows=None if view is None else view.follows,
        team=await _team_links(asked),
        attachments=partial(_attachments, asked),
        rating=Markup(_rating(asked, view)) if view else "",  # noqa: S704  a template made it
    )


def _rating(asked: DeskRequest, view: ChatView) -> str:
    """Return the buttons by which the customer says what they think; empty if nobody asks them."""
    return fragment(
        asked,
        "chat_rating.html",
        view=view,
        rated=rated_as(None if view.rating is None else view.rating.score),
        # Their own words, which they send again: escaped for HTML, and not changed.
        own_words=Markup(escape(view.rating.text if view.rating else "")),  # noqa: S704
        longest_rating=LONGEST_RATING,
    )


def _list(asked: DeskRequest, messages: Sequence[CustomerMessage]) -> LongList:
    def entries(start: int, stop: int) -> str:
        return "".join(_message(asked, one) for one in messages[start:stop])

    keys = message_keys(messages)
    return LongList(asked, ("chat", "c", asked.run_id), "message", keys, newest(keys), entries)


async def _more_messages(asked: DeskRequest) -> Response:
    view = await _view(asked)
    if view is None:
        raise RunNotFound(f"There is no run {asked.run_id!r}.")
    return html_part(_list(asked, view.messages).part)


def _message(asked: DeskRequest, one: CustomerMessage, *, is_unread: bool = False) -> str:
    return fragment(
        asked,
        "chat_message.html",
        message=one,
        is_unread=is_unread,
        attachments=partial(_attachments, asked),
    )


def _first_agent(asked: DeskRequest) -> str | None:
    """Return the agent that begins the conversation: the named one, or the only one."""
    name = asked.http.query_params.get("agent")
    names = [agent.name for agent in asked.desk.agents]
    if name is None:
        return names[0] if len(names) == 1 else None
    return name if name in names else None


async def _team_links(asked: DeskRequest) -> bool:
    """Whether a member of the team tries the agent: they get links to what the run did."""
    if isinstance(asked.caller, Staff):
        return True
    if is_framed(asked.http):
        return False
    try:
        person = await asked.desk.login.person(asked.http)
    except IdentityRefused:
        return False
    if person is None:
        return False
    staff = replace(asked, caller=asked.desk.roles.staff(person), whole=None)
    return (
        bool(await staff.seen([asked.run_id]))
        if is_scoped(staff.caller)
        else (may(staff.caller, "view_run") is None)
    )


def _attachments(asked: DeskRequest, message: CustomerMessage) -> list[dict[str, Any]]:
    """Return the photos and files of a message, for its template."""
    return [
        {
            "is_image": part.get("type") == "input_image",
            "name": str(part.get("filename") or "file"),
            "address": link(asked, "chat", "c", asked.run_id, "files", message.id, str(at)),
            "left_out": at in message.attachments_left_out,
        }
        for at, part in enumerate(message.attachments)
    ]


async def _file(asked: DeskRequest) -> Response:
    view = await _view(asked)
    content = None
    if view is not None:
        message_id, at = asked.parameter("message"), asked.parameter("at")
        content = await file_of(asked.desk.client, view, message_id, at)
    if content is None:
        raise Refused(404, "file_not_found", "There is no such file.")
    return file_answer(content)


async def _events(asked: DeskRequest) -> Response:
    await asked.handle.check()
    return await stream_of(_stream(asked), until=stream_deadline(asked.caller))


def _stream(asked: DeskRequest) -> AsyncGenerator[ServerSentEvent]:
    def message(one: CustomerMessage, is_unread: bool) -> str:  # noqa: FBT001
        return _message(asked, one, is_unread=is_unread)

    def status(view: ChatView) -> str:
        return fragment(asked, "chat_status.html", view=view)

    first = wanted_key(asked.http.query_params, "first")
    content = PageContent(message, status, partial(_rating, asked), first)
    return chat_events(asked.desk, asked.run_id, content)


# --- Writing ------------------------------------------------------------------------------------------


async def _send(asked: DeskRequest) -> Response:
    is_script = _is_script(asked.http)
    text = ""
    try:
        async with asked.http.form(
            max_files=uploads.MOST_FILES + 1, max_fields=10, max_part_size=4 * LONGEST_TEXT
        ) as form:
            text = _text_of(form)
            newer = await _take(asked, form, text)
    except Exception as error:
        if is_script:
            raise
        return await _chat_page(asked, _for_customers(asked.desk.look, problem_of(error)), text)
    if newer.run_id != asked.run_id:
        response = _moved(newer)
        if is_script:
            response.status_code = 204
        return response
    return Response(None, 204) if is_script else see_other(asked, "chat", "c", asked.run_id)


def _moved(newer: DeskRequest) -> Response:
    """Send a customer on to the conversation that follows theirs, with their token."""
    response = see_other(newer, "chat", "c", newer.run_id)
    token = newer.http.cookies.get(CONVERSATION_COOKIE)
    if token and isinstance(newer.caller, Customer):
        set_token(newer, response, token, newer.caller)
    return response


async def _take(asked: DeskRequest, form: FormData, text: str) -> DeskRequest:
    files = [one for one in form.getlist("files") if isinstance(one, UploadFile) and one.filename]
    content = await _content(text, files)
    nonce = str(form.get("nonce", ""))
    if _NONCE.fullmatch(nonce) is None:
        raise Refused(400, "message_invalid", "The form is incomplete. Reload the page.")
    # A page that was gone back to has an old number: what else is written there is new.
    digest = hashlib.sha256(repr(content).encode("utf-8", "surrogatepass")).hexdigest()[:24]
    message_id = customer_message_id(f"{nonce}.{digest}")
    agent = _first_agent(asked) or ""
    try:
        async with asyncio.timeout(SEND_SECONDS):
            return await accept_message(asked, agent, content, message_id)
    except TimeoutError:
        raise Refused(503, "server_unavailable", WORDS["server_unavailable"]) from None
    except UserError as error:
        if isinstance(error, RunNotFound) or error.code != UserError.code:
            raise
        # The message does not fit into a record, and there is no blob store for its files.
        logger.warning("A message to %s was refused: %s", asked.run_id, error)
        raise Refused(413, "content_too_large", WORDS["content_too_large"]) from None


def _text_of(form: FormData) -> str:
    """Return the written text; forms send line ends of another system."""
    value = form.get("text", "")
    text = value if isinstance(value, str) else ""
    text = with_line_ends(text).strip()
    if len(text) > LONGEST_TEXT:
        message = f"The message is too long. It has up to {LONGEST_TEXT:,} characters."
        raise Refused(413, "message_invalid", message)
    return text


async def _content(text: str, files: list[UploadFile]) -> str | list[JsonObject]:
    parts: list[JsonObject] = [{"type": "input_text", "text": text}] if text else []
    parts += await uploads.parts_of(files)
    if not parts:
        raise Refused(400, "message_invalid", "The message is empty. Write something.")
    return customer_input(parts if files else text)


# --- Problems -----------------------------------------------------------------------------------------


async def _rate(asked: DeskRequest) -> Response:
    """Take what the customer thinks: a button, or a word, each without changing the other."""
    form = await form_of(asked)
    try:
        known = (await asked.handle.state()).case.rating
        said = with_line_ends(form.exact("text", known.text if known else ""))
        score = {**SCORES, "": known and known.score}.get(form.exact("rated"))
        await take_rating(asked, *_checked(score, said))
    except Refused as error:
        if _is_script(asked.http):
            raise
        return await _chat_page(asked, _for_customers(asked.desk.look, problem_of(error)))
    if _is_script(asked.http):
        return Response(None, 204)
    return see_other(asked, "chat", "c", asked.run_id)


def _checked(score: int | None, said: str) -> tuple[int, str]:
    if score is None:
        raise Refused(400, "rating_invalid", "Choose Good or Bad.")
    if len(said) > LONGEST_RATING:
        message = f"This is too long. Write up to {LONGEST_RATING:,} characters."
        raise Refused(413, "rating_invalid", message)
    return score, said


def _is_script(request: Request) -> bool:
    return request.headers.get("X-Chat") == "1" or "text/event-stream" in request.headers.get(
        "Accept", ""
    )


def _for_customers(look: Look, problem: Problem) -> Problem:
    if problem.code in _OWN_CODES:
        return problem
    texts = look.texts
    message = texts.get(problem.code) or texts["problem"]
    return Problem(problem.status, problem.code, message, problem.headers)


def show_chat(request: Request, problem: Problem) -> Response:
    """Show a problem to a customer, in words for them."""
    look: Look = request.app.state.desk.look
    shown = _for_customers(look, problem)
    if _is_script(request):
        content = {"error": {"code": shown.code, "message": shown.message}}
        return JSONResponse(content, shown.status, shown.headers)
    headers = chat_headers(look, None)
    return problem_page(request, shown, "chat_problem.html", look.name, headers)


_own: Final = partial(route, show=show_chat, takes_cookie=True)
"""Returns a route of the customer's pages: a token in a cookie opens them, and problems are for customers."""

_CHAT: Final = "/chat/c/{run_id}"

ROUTES: Final[list[BaseRoute]] = [
    route("/chat", _list_agents, action="start_run", show=show_page, soon=True),
    route("/chat/open", _show_door, action=None, show=show_chat, soon=True),
    _own("/chat/open", _open, action=None, methods=["POST"]),
    _own("/chat/guest", begin_as_guest, action=None, methods=["POST"]),
    route("/chat/{agent}", _begin, action="start_run", show=show_page, soon=True),
    _own(_CHAT, _show, action="read_messages", soon=True),
    _own(_CHAT, _send, action="send_message", methods=["POST"]),
    _own(f"{_CHAT}/rating", _rate, action="rate", methods=["POST"]),
    _own(f"{_CHAT}/events", _events, action="read_messages"),
    _own(f"{_CHAT}/more-messages", _more_messages, action="read_messages"),
    _own(f"{_CHAT}/files/{{message}}/{{at}}", _file, action="read_messages"),
]
