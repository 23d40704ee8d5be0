"""The UI message stream of the Vercel AI SDK: what `useChat` and its transport speak."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final, cast

from starlette.responses import Response
from starlette.routing import BaseRoute

from outlast.agents.errors import AgentsException, DecisionRefused
from outlast.client.people.actions import decision_of
from outlast.loop.state import LoopState, has_message
from outlast.loop.values import JsonObject
from outlast.serve.access import Caller, Staff, Target
from outlast.serve.cursor import Cursor
from outlast.serve.customer_view import customer_input, customer_view
from outlast.serve.feed import FeedReader
from outlast.serve.messages import (
    accept_message,
    json_body,
    startable_agent,
    state_if_any,
    stream_deadline,
)
from outlast.serve.other_sites import for_other_sites, preflight, show_to_other_sites
from outlast.serve.problems import Refused, problem_of
from outlast.serve.routing import DeskRequest, route
from outlast.serve.sse import EventStream, ServerSentEvent, json_event
from outlast.serve.wires.answer_steps import (
    AnswerSteps,
    GoesOn,
    answer_of,
    decided_at,
    follow_steps,
    is_settled,
    voted_by,
)
from outlast.serve.wires.ui_messages import (
    MessageChunks,
    SentApproval,
    answer_id,
    approvals_in,
    content_of,
    own_message_id,
)

_HEADERS: Final = {"x-vercel-ai-ui-message-stream": "v1"}
_DONE: Final = ServerSentEvent("[DONE]")


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    """Which answer to stream, and what the client has of it."""

    run_id: str
    message_id: str
    answer_id: str
    goes_on: GoesOn | None = None


async def chat(asked: DeskRequest) -> Response:
    """Take the newest message or decisions of a chat, and stream the answer."""
    if asked.caller is None:
        asked.check("start_run")
    agent = asked.parameter("agent")
    startable_agent(asked.desk, agent)
    body = await json_body(asked.http)
    run_id, messages = body.get("id"), _messages(body)
    if not isinstance(run_id, str) or not run_id:
        raise Refused(400, "no_id", "id must be the id of the chat.")
    asked.check("read_messages", Target(run_id=run_id))
    state = await state_if_any(asked, run_id)
    place = None
    if state is not None:
        place = await _decide(asked, state, approvals_in(messages))
    if body.get("trigger") == "regenerate-message":
        await _retry(asked, run_id, state)
        place = None
    user = [one for one in messages if one.get("role") == "user"]
    message_id = own_message_id(user[-1].get("id")) if user else ""
    is_last = bool(user) and messages[-1] is user[-1]
    if is_last and (state is None or not has_message(state, message_id)):
        content = customer_input(content_of(user[-1]))
        await accept_message(asked, run_id, agent, content, message_id)
        return _stream(asked, _wanted(run_id, message_id))
    state = await state_if_any(asked, run_id)
    if state is None:
        raise Refused(400, "no_message", "The chat has no message of the user.")
    message_id = _answered(state, message_id)
    if place is None:
        return _stream(asked, _wanted(run_id, message_id))
    own_id = str(body.get("messageId") or messages[-1].get("id"))
    return _stream(asked, _wanted(run_id, message_id, goes_on=place, own_id=own_id))


async def resume(asked: DeskRequest) -> Response:
    """Stream the answer under way from its beginning, or that to a message that the client names."""
    state = await state_if_any(asked, asked.run_id)
    named = asked.http.query_params.get("message")
    message_id = "" if state is None else _open_message(state)
    if state is not None and named is not None and has_message(state, own_message_id(named)):
        message_id = own_message_id(named)
    if not message_id:
        return Response(status_code=204)
    return _stream(asked, _wanted(asked.run_id, message_id))


# --- What the client sends -----------------------------------------------------------------------


def _messages(body: JsonObject) -> list[JsonObject]:
    given: Any = body.get("messages")
    found = cast("list[Any]", given) if isinstance(given, list) else []
    if not found or not all(isinstance(one, dict) for one in found):
        raise Refused(400, "no_messages", "messages must be a list of messages.")
    return cast("list[JsonObject]", found)


async def _decide(
    asked: DeskRequest, state: LoopState, approvals: list[SentApproval]
) -> GoesOn | None:
    """Send the decisions that are new as the person of the login; return where the run goes on.

    Decisions stay in a client's messages, also those that others have made or that are about
    arguments that have changed: whatever is not open any more is left alone.
    """
    pending = {one.id: one for one in await asked.desk.handle(state.run_id).approvals()}
    open_ones = [
        (one, pending[one.id.request_id])
        for one in approvals
        if one.id.request_id in pending
        and pending[one.id.request_id].args_digest.startswith(one.id.digest)
    ]
    if not open_ones:
        known = {one.id for one in state.approvals}
        mine = {one.id.request_id for one in approvals if one.id.request_id in known}
        if not mine or not isinstance(asked.caller, Staff) or not _open_message(state):
            return None
        return await decided_at(asked.desk.feed, state.run_id, dict.fromkeys(mine, is_settled))
    asked.check("decide", Target(run_id=state.run_id))
    person, signs = asked.person, await asked.desk.signs()
    handle = asked.desk.handle(state.run_id)
    decided: list[str] = []
    for sent, request in open_ones:
        target = Target(run_id=state.run_id, state=state, request=request, signs=signs)
        asked.check("decide", target)
        kind = "approve" if sent.approved else "reject"
        reason = None if sent.approved else sent.reason
        decision = decision_of(request, kind, by=person, message=reason, channel="vercel")
        with suppress(DecisionRefused):  # somebody else was faster: the stream shows it
            await handle.decide(decision)
        decided.append(request.id)
    by = voted_by(person.subject)
    return await decided_at(
        asked.desk.feed,
        state.run_id,
        dict.fromkeys(decided, lambda one: by(one) or is_settled(one)),
    )


async def _retry(asked: DeskRequest, run_id: str, state: LoopState | None) -> None:
    """Ask the last question again, if it failed."""
    asked.check("retry", Target(run_id=run_id, state=state))
    await asked.desk.handle(run_id).retry()


def _open_message(state: LoopState) -> str:
    """Return the newest message that has no answer; empty if there is none."""
    if state.outcome is not None:
        return ""
    ids = [*state.question.answering, *(one.id for one in state.inbox)]
    return ids[-1] if ids else ""


def _answered(state: LoopState, message_id: str) -> str:
    """Return the message whose answer a client wants that has no new one."""
    if message_id and has_message(state, message_id) and answer_of(state, message_id) is None:
        return message_id
    found = _open_message(state) or (message_id if has_message(state, message_id) else "")
    if not found:
        raise Refused(409, "nothing_new", "The chat has no new message, and nothing is under way.")
    return found


def _wanted(
    run_id: str,
    message_id: str,
    *,
    goes_on: GoesOn | None = None,
    own_id: str = "",
) -> _Wanted:
    return _Wanted(
        run_id=run_id,
        message_id=message_id,
        answer_id=own_id or answer_id(message_id),
        goes_on=goes_on,
    )


# --- The stream ----------------------------------------------------------------------------------


def _stream(asked: DeskRequest, wanted: _Wanted) -> Response:
    events = _sent(asked, wanted)
    return EventStream(events, until=stream_deadline(asked.caller), headers=_HEADERS)


async def _sent(asked: DeskRequest, wanted: _Wanted) -> AsyncGenerator[ServerSentEvent]:
    try:
        async for chunk in _chunks(asked, wanted):
            yield json_event(chunk)
            if chunk["type"] == "finish":
                yield _DONE
    except (AgentsException, Refused) as error:
        yield json_event({"type": "error", "errorText": problem_of(error).message})


async def _chunks(asked: DeskRequest, wanted: _Wanted) -> AsyncGenerator[JsonObject]:
    caller: Caller = asked.caller
    steps = AnswerSteps(caller, wanted.message_id, goes_on=wanted.goes_on, only_open=True)
    chunks = MessageChunks(
        wanted.answer_id,
        steps.requests,
        goes_on=wanted.goes_on is not None,
        is_team=isinstance(caller, Staff),
    )
    person = caller.person.subject if isinstance(caller, Staff) else ""
    async with asked.desk.feed.reader(wanted.run_id, Cursor(), person=person) as reader:
        await reader.until_present()
        for chunk in chunks.begin():
            yield chunk
        async with aclosing(follow_steps(steps, reader)) as following:
            async for step in following:
                news = chunks.take(step) if step is not None else chunks.rest(_facts(asked, reader))
                for chunk in news:
                    yield chunk


def _facts(asked: DeskRequest, reader: FeedReader) -> JsonObject:
    """Return what a chat says beside its messages: whether it works, and what it waits for.

    The words are those that the policy has for the customer.
    """
    status = reader.state.status
    facts: JsonObject = {
        "works": status not in {"waiting", "blocked"},
        "waitsFor": customer_view(reader.state).waits_for,
    }
    return {**facts, "status": status} if isinstance(asked.caller, Staff) else facts


ROUTES: Final[list[BaseRoute]] = [
    # The run is in the body, so the handler judges the caller.
    route(
        "/vercel/{agent}",
        for_other_sites(chat),
        action=None,
        methods=("POST",),
        show=show_to_other_sites,
    ),
    route(
        "/vercel/{agent}/{run_id}/stream",
        for_other_sites(resume),
        action="read_messages",
        show=show_to_other_sites,
    ),
    route("/vercel/{rest:path}", preflight, action=None, methods=("OPTIONS",)),
]
