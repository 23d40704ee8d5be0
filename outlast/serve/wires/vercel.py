"""The UI message stream of the Vercel AI SDK: what `useChat` and its transport speak."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response
from starlette.routing import BaseRoute

from outlast.agents.errors import AgentsException, DecisionRefused, UserError
from outlast.agents.json_values import as_objects
from outlast.client.people.nested_requests import find_request, found_requests
from outlast.deliveries.problems import Refused
from outlast.serve.access import Caller, Staff, Target
from outlast.serve.cursor import Cursor
from outlast.serve.customer_input import customer_input
from outlast.serve.feed import FeedReader
from outlast.serve.histories import json_history
from outlast.serve.messages import (
    accept_message,
    check_same,
    current,
    is_about_message,
    startable_agent,
    state_if_any,
    stream_deadline,
)
from outlast.serve.other_sites import preflight_route, shared_route
from outlast.serve.problems import problem_of
from outlast.serve.routing import DeskRequest
from outlast.serve.sse import EventStream, ServerSentEvent, json_event
from outlast.serve.troubles import Watch, told_trouble
from outlast.serve.wires.answer_steps import AnswerSteps, answer_of
from outlast.serve.wires.answer_stream import NestedRequests, follow_steps, read_run, until_retried
from outlast.serve.wires.decisions import (
    RequestTest,
    decide,
    decided_at,
    is_settled,
    voted_by,
)
from outlast.serve.wires.steps import Finished, GoesOn
from outlast.serve.wires.ui_messages import (
    MessageChunks,
    answer_id,
    approvals_in,
    content_of,
    earlier_calls,
    own_message_id,
)
from outlast.views.customer import customer_view, message_ids, messages_left_out
from outlast.views.records import JsonObject
from outlast.views.run import RunSnapshot
from outlast.views.transcript import has_message

_HEADERS: Final = {"x-vercel-ai-ui-message-stream": "v1"}
_DONE: Final = ServerSentEvent("[DONE]")
_IS_ANSWERED: Final = (
    "This message has an answer, and what the run did stays. Send another message to ask again."
)
_NOT_THE_LAST: Final = "Another message came after this one, so it cannot be asked again."


@dataclass(frozen=True)
class _Wanted:
    """Which answer to stream, and what the client has of it: where it goes on, and requests."""

    run_id: str
    message_id: str
    answer_id: str
    goes_on: GoesOn | None = None
    requests: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset()


async def chat(asked: DeskRequest) -> Response:
    """Take the newest message or decisions of a chat, and stream the answer."""
    if asked.caller is None:
        asked.check("start_run")
    agent = asked.parameter("agent")
    startable_agent(asked.desk, agent)
    body = await json_history(asked.http)
    run_id, messages = body.get("id"), _messages(body)
    if not isinstance(run_id, str) or not run_id:
        raise Refused(400, "no_id", "id must be the id of the chat.")
    asked = await asked.at(run_id)
    asked.check("read_messages")
    asked, state = await current(asked)
    run_id = asked.run_id
    place = None if state is None else await _decide(asked, state, messages)
    user = [one for one in messages if one.get("role") == "user"]
    message_id = own_message_id(user[-1].get("id")) if user else ""
    is_last = bool(user) and messages[-1] is user[-1]
    if is_last and (state is None or not has_message(state, message_id)):
        try:
            content = customer_input(content_of(user[-1]))
            asked = await accept_message(asked, agent, content, message_id, state=state)
        except (UserError, Refused) as error:
            if place is None or not is_about_message(error):
                raise
            # The client keeps a message that was refused before, and its decision counts.
        else:
            return _stream(asked, _whole(asked.run_id, message_id))
    elif is_last and state is not None and place is None:
        _check_same(state, message_id, user[-1])
    state = await state_if_any(asked)
    if state is None:
        raise Refused(400, "no_message", "The chat has no message of the user.")
    if body.get("trigger") == "regenerate-message":
        await _retry(asked, state, message_id)
        place = None
    if place is None:
        return _stream(asked, _whole(run_id, _answered(state, message_id)))
    if not has_message(state, message_id):
        message_id = _answered(state, message_id)
    own_id = str(body.get("messageId") or messages[-1].get("id"))
    requests = frozenset(one.id.request_id for one in approvals_in(messages[-1:]))
    calls = earlier_calls(messages[-1])
    return _stream(asked, _Wanted(run_id, message_id, own_id, place, requests, calls))


async def resume(asked: DeskRequest) -> Response:
    """Stream the answer under way from its beginning, or that to a message that the client names."""
    asked, state = await current(asked)
    named = asked.http.query_params.get("message")
    message_id = "" if state is None else _open_message(state)
    if state is not None and named is not None and has_message(state, own_message_id(named)):
        message_id = own_message_id(named)
    if not message_id:
        return Response(status_code=204)
    return _stream(asked, _whole(asked.run_id, message_id))


# --- What the client sends -----------------------------------------------------------------------


def _messages(body: JsonObject) -> list[JsonObject]:
    if not (found := as_objects(body.get("messages"))):
        raise Refused(400, "no_messages", "messages must be a list of messages.")
    return found


def _check_same(state: RunSnapshot, message_id: str, message: JsonObject) -> None:
    """Refuse an edited message: the client has thrown the old answer away, and would get it again."""
    try:
        content = customer_input(content_of(message))
    except UserError:  # what the client repeats may have lost its photos
        return
    check_same(state, message_id, content)


async def _decide(
    asked: DeskRequest, state: RunSnapshot, messages: list[JsonObject]
) -> GoesOn | None:
    """Send the decisions that are new as the person of the login; return where the run goes on.

    Decisions stay in a client's messages, also those that others have made or that are about
    arguments that have changed: whatever is not open any more is left alone.
    """
    approvals = approvals_in(messages)
    if not approvals:
        return None
    waiting = {one.request.id: one for one in await found_requests(state, asked.desk.client)}
    open_ones = {
        one: waiting[one.id.request_id]
        for one in approvals
        if one.id.request_id in waiting
        and waiting[one.id.request_id].request.digest.startswith(one.id.digest)
    }
    if open_ones:
        asked.check("decide")
    elif not isinstance(asked.caller, Staff):
        return None
    by = voted_by(asked.person.subject)
    for sent, found in open_ones.items():
        if by(found.request):
            continue
        try:
            await decide(asked, found, sent, channel="vercel")
        except DecisionRefused:
            now = await asked.handle.state()
            present = await find_request(found.request.id, now, asked.desk.client)
            if present is not None and not is_settled(present.request):
                raise
            # Somebody else was faster: the stream shows it.
    # The last message goes on, if it has decisions.
    mine = {one.id.request_id for one in approvals_in(messages[-1:])}
    async with asked.desk.feed.reader(asked.run_id, Cursor()) as reader:
        await reader.until_present()
        mine &= {one.id for one in state.approvals} | reader.reported_requests.keys()
    mine -= waiting.keys() - {one.id.request_id for one in open_ones}
    tests: dict[str, RequestTest] = dict.fromkeys(
        mine, lambda request: by(request) or is_settled(request)
    )
    return await decided_at(asked, tests) if tests else None


async def _retry(asked: DeskRequest, state: RunSnapshot, message_id: str) -> None:
    """Ask the last question again, if it failed; leave an answer alone that is under way.

    Raises:
        Refused: the answer is finished, or the caller may not retry.
    """
    answer = answer_of(state, message_id)
    if answer is None and state.outcome is None:
        return
    if answer is not None and answer.failure is None:
        raise Refused(409, "answered", _IS_ANSWERED)
    if answer is not None and answer is not state.answers[-1]:
        raise Refused(409, "not_the_last", _NOT_THE_LAST)
    asked.check("retry", Target(run_id=state.run_id, state=state))
    await asked.handle.retry()
    await until_retried(asked, message_id, len(state.answers))


def _open_message(state: RunSnapshot) -> str:
    """Return the newest message that has no answer; empty if there is none."""
    if state.outcome is not None:
        return ""
    ids = [*state.answering, *(one.id for one in state.unread)]
    return ids[-1] if ids else ""


def _answered(state: RunSnapshot, message_id: str) -> str:
    """Return the message whose answer a client wants that has no new one."""
    if message_id and has_message(state, message_id) and answer_of(state, message_id) is None:
        return message_id
    found = _open_message(state) or (message_id if has_message(state, message_id) else "")
    if not found:
        raise Refused(409, "nothing_new", "The chat has no new message, and nothing is under way.")
    return found


def _whole(run_id: str, message_id: str) -> _Wanted:
    return _Wanted(run_id, message_id, answer_id(message_id))


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
        steps.arguments,
        goes_on=wanted.goes_on is not None,
        has_calls=wanted.calls,
        is_team=isinstance(caller, Staff),
    )
    async with read_run(asked.desk, wanted.run_id) as (reader, watch):
        for chunk in chunks.begin():
            yield chunk
        nested = NestedRequests(asked.desk, caller, wanted.requests)
        async with aclosing(follow_steps(steps, reader, nested, watch)) as following:
            async for step in following:
                if step is None or isinstance(step, Finished):
                    facts = _facts(asked, reader, watch, wanted.message_id)
                    if step is None or "leftOut" in facts:
                        for chunk in chunks.rest(facts):
                            yield chunk
                for chunk in chunks.take(step) if step is not None else ():
                    yield chunk


def _facts(asked: DeskRequest, reader: FeedReader, watch: Watch, message_id: str) -> JsonObject:
    """Return what a chat says beside its messages: whether it works, and what it waits for.

    The words are those that the policy has for the customer. `trouble` is there while something
    keeps the run from going on. `leftOut` is there only if the model
    does not read the message that is answered, or not all of it.
    """
    status = reader.state.status
    facts: JsonObject = {
        "works": status not in {"waiting", "blocked"},
        "waitsFor": customer_view(reader.state).waits_for,
    }
    if trouble := told_trouble(reader.state, watch.facts, asked.caller):
        facts["trouble"] = trouble
    if left_out := messages_left_out(reader.state):
        ids = message_ids(reader.state)
        if any(ids.get(int(one.id.removeprefix("i"))) == message_id for one in left_out):
            facts["leftOut"] = True
    return {**facts, "status": status} if isinstance(asked.caller, Staff) else facts


ROUTES: Final[list[BaseRoute]] = [
    # The run is in the body, so the handler judges the caller.
    shared_route("/vercel/{agent}", chat, action=None, methods=("POST",)),
    shared_route("/vercel/{agent}/{run_id}/stream", resume, action="read_messages"),
    preflight_route("/vercel/{rest:path}"),
]
