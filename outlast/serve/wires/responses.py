"""OpenAI's Responses API, served by agents: `model` is the name of an agent."""

import hashlib
import json
import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from outlast.agents.errors import AgentsException, RunClosed, UserError
from outlast.agents.json_values import as_object, is_list, is_object
from outlast.client.people.nested_requests import find_request
from outlast.deliveries.problems import JSONAnswer, Problem, Refused
from outlast.serve.access import Customer, Staff, Target
from outlast.serve.cursor import Cursor
from outlast.serve.customer_input import MOST_PARTS, customer_input, customer_message_id
from outlast.serve.histories import json_history
from outlast.serve.messages import (
    accept_message,
    is_about_message,
    startable_agent,
    stream_deadline,
)
from outlast.serve.other_sites import preflight_route, shared_route
from outlast.serve.problems import problem_of
from outlast.serve.routing import DeskRequest, Handler
from outlast.serve.sse import EventStream, ServerSentEvent, json_event
from outlast.serve.troubles import told_trouble
from outlast.serve.wires.answer_steps import AnswerSteps
from outlast.serve.wires.answer_stream import (
    NestedRequests,
    follow_steps,
    knows_message,
    read_run,
    take_present_steps,
)
from outlast.serve.wires.decisions import (
    LAG,
    RequestTest,
    SentDecision,
    decide,
    decided_at,
    is_settled,
    voted_by,
)
from outlast.serve.wires.ids import RequestId, ResponseId
from outlast.serve.wires.response_events import (
    LARGEST_NUMBER,
    ResponseEvents,
    is_terminal,
    seen_at,
)
from outlast.serve.wires.steps import Finished, GoesOn
from outlast.views.records import JsonObject
from outlast.views.run import RunSnapshot
from outlast.views.words import changed

LONGEST_WAIT: Final = timedelta(minutes=5)
"""How long a request without `stream` and `background` waits for the answer; then it is to be polled."""

READ_FIELDS: Final = frozenset(
    {"model", "input", "stream", "background", "previous_response_id", "conversation"}
)
IGNORED_FIELDS: Final = frozenset(
    {
        "include",
        "max_tool_calls",
        "metadata",
        "parallel_tool_calls",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "stream_options",
        "temperature",
        "top_logprobs",
        "top_p",
        "truncation",
        "user",
    }
)
"""Fields that change nothing here: the agent's definition says how models are called, and the
conversation is always stored."""

_REFUSED: Final[dict[str, str]] = {
    "instructions": "The agent has its own instructions.",
    "tools": "The agent has its own tools, and runs them itself.",
    "tool_choice": "The agent has its own tools, and runs them itself.",
    "text": "The agent's own output type says what its answer is.",
    "max_output_tokens": "The agent's own budgets bound its answers.",
    "reasoning": "The agent has its own model settings.",
}
_NEUTRAL: Final[tuple[object, ...]] = (None, [], {}, "auto")

_TYPES: Final[dict[int, str]] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    429: "rate_limit_error",
}


# --- Requests ------------------------------------------------------------------------------------


async def create_response(asked: DeskRequest) -> Response:
    """Take a message, or decisions about requests, and answer with the response."""
    if asked.caller is None:
        asked.check("start_run")
    body = await json_history(asked.http)
    _check_fields(body)
    previous = _previous(body)
    asked = await asked.at(_run_id(asked, body, previous))
    given = _read_input(body.get("input"))
    if not given.contents and previous is None:
        raise UserError("input has no message of the user. Send a text, or items with role user.")
    goes_on = None
    if given.decisions:
        asked.check("decide")
        goes_on = await _decide(asked, given)
    sent = await _send(asked, body, previous, given) if given.contents else None
    if sent is not None:
        response_id = sent
    else:
        assert previous is not None  # noqa: S101  checked above, and by `_send`
        asked.check("read_messages")
        if goes_on is None:
            goes_on = await _decided_since(asked, previous)
        response_id = (
            previous
            if goes_on is None
            else ResponseId(asked.run_id, previous.message_id, _now(), goes_on)
        )
    return await _answer(asked, response_id, body)


async def retrieve_response(asked: DeskRequest) -> Response:
    """Return a response, or stream it from any of its events on."""
    response_id = _named(asked.parameter("response_id"))
    asked = await asked.at(response_id.run_id)
    asked.check("read_messages")
    await _check_known(asked, response_id)
    query = asked.http.query_params
    if query.get("stream", "false") == "true":
        return _stream(asked, response_id, _starting_after(query.get("starting_after")))
    return JSONAnswer((await _read(asked, response_id)).response())


async def cancel_response(asked: DeskRequest) -> Response:
    """Cancel the run of a response that is not complete."""
    response_id = _named(asked.parameter("response_id"))
    asked = await asked.at(response_id.run_id)
    asked.check("cancel")
    await _check_known(asked, response_id)
    events = await _read(asked, response_id)
    if events.status == "in_progress":
        with suppress(RunClosed):  # it has just ended
            await asked.handle.cancel()
        events = await _read(asked, response_id, wait=LAG)
    return JSONAnswer(events.response())


async def list_models(asked: DeskRequest) -> Response:
    """Return the agents that the caller may start."""
    own = asked.caller.run_id if isinstance(asked.caller, Customer) else ""
    asked.check("start_run", Target(run_id=own))
    data = [
        {"id": one.name, "object": "model", "created": 0, "owned_by": "outlast"}
        for one in asked.desk.agents
    ]
    return JSONAnswer({"object": "list", "data": data})


def show_problem(request: Request, problem: Problem) -> Response:
    """Return a problem in OpenAI's form."""
    kind = _TYPES.get(problem.status, "invalid_request_error")
    error: JsonObject = {
        "message": problem.message,
        "type": "server_error" if problem.status >= 500 else kind,
        "param": None,
        "code": problem.code,
    }
    headers = dict(problem.headers)
    has_key = "idempotency-key" in request.headers
    if problem.status == 409 or (
        problem.status >= 500 and request.method == "POST" and not has_key
    ):
        headers["x-should-retry"] = "false"  # OpenAI's clients would send it again
    return JSONAnswer({"error": error}, problem.status, headers)


# --- Reading the body ----------------------------------------------------------------------------


def _check_fields(body: JsonObject) -> None:
    for name, value in body.items():
        if name in READ_FIELDS or name in IGNORED_FIELDS or value in _NEUTRAL:
            continue
        is_text = name == "text" and value == {"format": {"type": "text"}}
        if not is_text:
            why = _REFUSED.get(name, "Leave it out.")
            raise Refused(400, "unsupported_parameter", f"{name!r:.80} is not supported. {why}")
    for name in ("stream", "background"):
        if not isinstance(body.get(name), bool | None):
            raise UserError(f"{name} must be true or false.")


def _previous(body: JsonObject) -> ResponseId | None:
    given = body.get("previous_response_id")
    if given is None:
        return None
    return _named(given if isinstance(given, str) else "")


def _named(text: str) -> ResponseId:
    found = ResponseId.parse(text)
    if found is None:
        raise Refused(404, "response_not_found", f"There is no response {text!r:.80}.")
    return found


def _run_id(asked: DeskRequest, body: JsonObject, previous: ResponseId | None) -> str:
    """Return the run that the request is about: a new one if it names none."""
    given = body.get("conversation")
    named = given.get("id") if is_object(given) else given
    if named is not None and (not isinstance(named, str) or not named):
        raise UserError("conversation must be the id of a conversation.")
    if previous is not None and named not in {None, previous.run_id}:
        raise UserError("previous_response_id is of another conversation than `conversation`.")
    run_id = previous.run_id if previous is not None else named
    if run_id is None and isinstance(asked.caller, Customer):
        run_id = asked.caller.run_id
    if run_id is None:
        key = asked.http.headers.get("idempotency-key")
        run_id = f"resp-{secrets.token_hex(8) if key is None else _digest(asked, key)}"
    if isinstance(asked.caller, Customer):
        asked.check("read_messages", Target(run_id=run_id))
    return run_id


def _digest(asked: DeskRequest, *parts: object) -> str:
    caller = asked.caller
    who = caller.person.subject if isinstance(caller, Staff) else getattr(caller, "name", "")
    text = json.dumps([type(caller).__name__, who, *parts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class _Input:
    """What a request says.

    Attributes:
        contents: the user's new message: with all that the user has said since the last answer, and
            without what may have been refused before, in the order in which they are tried.
        decisions: the decisions.
        decides_last: whether the newest decision comes after the newest message, which may have been
            refused before.
    """

    contents: Sequence[str | list[JsonObject]] = ()
    decisions: Sequence[JsonObject] = ()
    decides_last: bool = False


def _read_input(given: object) -> _Input:
    """Return the user's new message, if there is one, and the decisions."""
    if given is None:
        return _Input()
    if isinstance(given, str):
        return _Input((customer_input(given),))
    if not is_list(given):
        raise UserError("input must be a text or a list of items.")
    decisions: list[JsonObject] = []
    messages: list[list[object]] = []
    decides_last = False
    for one in given:
        item = as_object(one) or {}
        kind = item.get("type", "message")
        if kind == "mcp_approval_response":
            decisions.append(item)
            decides_last = True
        elif kind == "message" and item.get("role") == "user":
            messages.append(_parts(item.get("content")))
            decides_last = False
        else:  # a client that sends the whole conversation again: only what is new counts
            messages.clear()
    return _Input(_contents(messages, decides_last=decides_last), decisions, decides_last)


def _parts(content: object) -> list[object]:
    if isinstance(content, str):
        return [{"type": "input_text", "text": content}]
    listed = content if is_list(content) else [content]
    return [_plain(part) for part in listed if part is not None]


def _contents(
    messages: Sequence[list[object]], *, decides_last: bool
) -> list[str | list[JsonObject]]:
    """Return the new message as it is tried: clients keep in their lists what was refused before.

    Raises:
        UserError: the newest message cannot be sent.
    """
    if not messages:
        return []
    *earlier, newest = messages
    fits = [parts for parts in earlier if _is_sendable(parts)]
    if newest and (_is_sendable(newest) or not decides_last):
        fits.append(newest)
        customer_input(newest)
    whole = [part for parts in fits for part in parts]
    tried = [whole] if 0 < len(whole) <= MOST_PARTS else []
    tried += fits[-1:] if len(fits) > 1 else []
    return [customer_input(parts) for parts in tried]


def _is_sendable(parts: list[object]) -> bool:
    try:
        customer_input(parts)
    except UserError:
        return False
    return True


def _plain(part: object) -> object:
    """Return a part without the fields that say nothing, as clients fill them in."""
    if not is_object(part):
        return part
    return {name: value for name, value in part.items() if value is not None}


def _starting_after(given: str | None) -> int | None:
    if given is None:
        return None
    if not given.isascii() or not given.isdigit() or int(given) > LARGEST_NUMBER:
        raise UserError(
            f"starting_after must be the sequence_number of an event, not {given!r:.40}."
        )
    return int(given)


def _now() -> int:
    return int(time.time())


# --- Messages and decisions ----------------------------------------------------------------------


async def _send(
    asked: DeskRequest, body: JsonObject, previous: ResponseId | None, given: _Input
) -> ResponseId | None:
    """Send the message, once: clients repeat a request whose answer they did not get.

    None if it is refused and the decisions came after it: then it was refused before.
    """
    agent = body.get("model")
    if not isinstance(agent, str) or not agent:
        raise UserError("model must be the name of an agent.")
    startable_agent(asked.desk, agent)
    key = asked.http.headers.get("idempotency-key")
    if key is None and previous is not None:
        key = f"{previous}"  # whoever says the same again after the same response repeats it
    for at, content in enumerate(given.contents):
        own = secrets.token_hex(16) if key is None else _digest(asked, key, content)
        message_id = customer_message_id(own)
        try:
            asked = await accept_message(asked, agent, content, message_id)
        except (UserError, Refused) as error:
            is_last = at + 1 == len(given.contents)
            if not is_about_message(error) or (
                is_last and (previous is None or not given.decides_last)
            ):
                raise
        else:
            return ResponseId(asked.run_id, message_id, _now())
    return None


async def _decide(asked: DeskRequest, given: _Input) -> GoesOn | None:
    """Send decisions as the person of the login; return where the answer goes on."""
    state = await asked.handle.state()
    decided: dict[str, RequestTest] = {}
    for at, item in enumerate(given.decisions):
        wanted = RequestId.parse(str(item.get("approval_request_id")))
        found = await find_request(wanted.request_id, state, asked.desk.client)
        approves = item.get("approve")
        is_followed = at + 1 < len(given.decisions) or (given.contents and not given.decides_last)
        if is_followed and (found is None or is_settled(found.request)):
            continue  # a client that sends the whole conversation again
        if found is None:
            raise Refused(404, "request_not_found", f"There is no request {wanted.request_id!r}.")
        if not isinstance(approves, bool):
            raise UserError("approve of an mcp_approval_response must be true or false.")
        if not found.request.digest.startswith(wanted.digest):
            raise Refused(409, "request_changed", changed(found.request.id))
        sent = SentDecision(wanted, "approve" if approves else "reject", item.get("reason"))
        await decide(asked, found, sent, channel="responses")
        decided[found.request.id] = voted_by(asked.person.subject)
    return await decided_at(asked, decided) if decided else None


async def _decided_since(asked: DeskRequest, previous: ResponseId) -> GoesOn | None:
    """Return where an answer goes on that ended with requests; None if it has not ended so."""
    await _check_known(asked, previous)
    steps = AnswerSteps(asked.caller, previous.message_id, goes_on=previous.goes_on)
    last: Finished | None = None
    has_nested = False
    async with asked.desk.feed.reader(previous.run_id, Cursor()) as reader:
        await reader.until_present()
        nested = NestedRequests(asked.desk, asked.caller)
        async with aclosing(follow_steps(steps, reader, nested)) as following:
            async for step in following:
                last = step if isinstance(step, Finished) else last
                if step is None:
                    break
        has_nested = bool(reader.reported_requests)
    # A response that asked for decisions of nested runs goes on itself when others have made them.
    if last is None or (last.reason != "asks" and has_nested):
        return None
    if last.reason != "asks":
        raise UserError("The response is complete: send a message of the user as input.")
    settled = {one.id: is_settled for one in last.requests}
    present = {one.id: one for one in (await asked.handle.state()).approvals}
    # This process may be behind the run for a moment.
    is_decided = all(name in present and is_settled(present[name]) for name in settled)
    wait = LAG if is_decided else timedelta(0)
    found = await decided_at(asked, settled, wait=wait)
    return None if found is None or found.decided < last.next_event else found


# --- Answers -------------------------------------------------------------------------------------


async def _check_known(asked: DeskRequest, response_id: ResponseId) -> None:
    """Refuse the id of a response that there is not."""
    if not await knows_message(asked.desk, response_id.run_id, response_id.message_id):
        message = "There is no such response in this conversation."
        raise Refused(404, "response_not_found", message)


def _events(asked: DeskRequest, response_id: ResponseId) -> ResponseEvents:
    return ResponseEvents(response_id, "", is_team=isinstance(asked.caller, Staff))


def _first_agent(state: RunSnapshot) -> str:
    """Return the agent that a client named; nothing while no worker has begun the run."""
    return state.handoff_path[0] if state.handoff_path else ""


async def _answer(asked: DeskRequest, response_id: ResponseId, body: JsonObject) -> Response:
    more = {
        "background": body.get("background"),
        "previous_response_id": body.get("previous_response_id"),
    }
    if body.get("stream"):
        return _stream(asked, response_id, None)
    wait = timedelta(0) if body.get("background") else LONGEST_WAIT
    events = await _read(asked, response_id, wait=wait)
    return JSONAnswer(events.response(**more))


async def _read(
    asked: DeskRequest, response_id: ResponseId, wait: timedelta = timedelta(0)
) -> ResponseEvents:
    """Return a response as it is; with `wait`, when it is over or waits for people who are not asked."""
    steps = AnswerSteps(asked.caller, response_id.message_id, goes_on=response_id.goes_on)
    async with asked.desk.feed.reader(response_id.run_id, Cursor()) as reader:
        await reader.until_present()
        events = _events(asked, response_id)
        nested = NestedRequests(asked.desk, asked.caller)
        await take_present_steps(steps, reader, nested, lambda one: list(events.take(one)), wait)
        events.model = _first_agent(reader.state)
        if events.status == "in_progress":
            facts = await asked.desk.troubles.facts(response_id.run_id, reader.state)
            events.trouble = told_trouble(reader.state, facts, asked.caller)
    return events


def _stream(asked: DeskRequest, response_id: ResponseId, after: int | None) -> Response:
    return EventStream(_sent(asked, response_id, after), until=stream_deadline(asked.caller))


async def _sent(
    asked: DeskRequest, response_id: ResponseId, after: int | None
) -> AsyncGenerator[ServerSentEvent]:
    """Yield the events of a response whose numbers are larger than `after`."""
    number = -1 if after is None else after
    try:
        async for event in _numbered(asked, response_id, after):
            own = event.get("sequence_number")
            if own is None or own > number:
                # With the number of the event before it, a client that comes back misses nothing.
                number = number if own is None else own
                yield json_event({**event, "sequence_number": number}, event=event["type"])
            if is_terminal(event):
                return
    except (AgentsException, Refused) as error:
        problem = problem_of(error)
        failed: JsonObject = {
            "type": "error",
            "code": problem.code,
            "message": problem.message,
            "param": None,
            "sequence_number": number + 1,
        }
        yield json_event(failed, event="error")


async def _numbered(
    asked: DeskRequest, response_id: ResponseId, after: int | None
) -> AsyncGenerator[JsonObject]:
    steps = AnswerSteps(
        asked.caller,
        response_id.message_id,
        goes_on=response_id.goes_on,
        seen=None if after is None else seen_at(after),
    )
    async with read_run(asked.desk, response_id.run_id) as (reader, watch):
        events = _events(asked, response_id)
        while True:
            events.model = _first_agent(reader.state)
            events.trouble = told_trouble(reader.state, watch.facts, asked.caller)
            if events.model or events.trouble or reader.state.outcome is not None:
                break
            await watch.or_news(reader.news())
        for event in events.begin():
            yield event
        nested = NestedRequests(asked.desk, asked.caller)
        async with aclosing(follow_steps(steps, reader, nested, watch)) as following:
            async for step in following:
                events.model = _first_agent(reader.state)
                trouble = told_trouble(reader.state, watch.facts, asked.caller)
                for event in events.tell(trouble) if step is None else events.take(step):
                    yield event


def _guarded(path: str, handler: Handler, method: str = "GET") -> BaseRoute:
    # The run is in the body or in the id of the response, so the handlers judge the caller.
    return shared_route(path, handler, action=None, methods=(method,), show=show_problem)


ROUTES: Final[list[BaseRoute]] = [
    _guarded("/v1/models", list_models),
    _guarded("/v1/responses", create_response, "POST"),
    _guarded("/v1/responses/{response_id}", retrieve_response),
    _guarded("/v1/responses/{response_id}/cancel", cancel_response, "POST"),
    preflight_route("/v1/{rest:path}"),
]
