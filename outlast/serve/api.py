"""Our HTTP API: conversations, messages, live events, requests, the inbox.

    caller and role -> body or query, checked -> the public client API -> a view

`ENDPOINTS` is the table of it; `openapi.py` makes its description from the same table.
"""

import json
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, Literal, TypeVar, cast

from starlette.responses import Response
from starlette.routing import BaseRoute

from outlast.agents.agent import Agent
from outlast.agents.argument_names import near_name
from outlast.agents.context.wait_address import WaitAddress
from outlast.agents.errors import DecisionRefused, RunAlreadyStarted, RunNotFound, UserError
from outlast.client.deliveries import LONGEST_ID, DeliveryReceipt, finish
from outlast.client.inbox import BulkOutcome, BulkStep, Inbox, InboxEntry
from outlast.client.people.actions import (
    AsideReceipt,
    DecisionReceipt,
    TakeoverReceipt,
    decision_of,
)
from outlast.client.people.nested_requests import (
    FoundRequest,
    find_request,
    found_requests,
    is_nested_in,
)
from outlast.client.people.words import read_words
from outlast.client.runs import RunFilter, list_runs
from outlast.client.timeline import Timeline
from outlast.client.transport.run_address import no_such_run
from outlast.serve.access import (
    Action,
    Customer,
    Program,
    Staff,
    Target,
    groups_of,
    may,
)
from outlast.serve.bodies import (
    Body,
    BulkDecisionBody,
    BulkPlanBody,
    CancelBody,
    ClaimBody,
    DecisionBody,
    ExtendBody,
    FinishBody,
    FromQuery,
    HoldBody,
    InboxQuery,
    InboxStreamQuery,
    MessageBody,
    NoBody,
    Query,
    ReleaseBody,
    RunsQuery,
    SayBody,
    SetAsideBody,
    StartBody,
    TakeBackBody,
    TokenBody,
    UnclaimBody,
    page_of,
    read_body,
    read_query,
    text_of_page,
)
from outlast.serve.content import file_answer, file_of, whole_state
from outlast.serve.cursor import Cursor
from outlast.serve.customer_input import customer_input, customer_message_id
from outlast.serve.live import (
    EVENTS,
    INBOX_EVENTS,
    EventName,
    event_stream,
    inbox_stream,
)
from outlast.serve.messages import begin, check_release, check_same, send
from outlast.serve.other_sites import for_other_sites, preflight, show_to_other_sites
from outlast.serve.pictures import readable_pictures
from outlast.serve.problems import Refused
from outlast.serve.routing import PATIENCE, DeskRequest, Handler, JSONAnswer, route
from outlast.serve.troubles import customer_trouble, seen_troubles
from outlast.serve.views import (
    AsideReceiptView,
    BulkOutcomes,
    BulkOutcomeView,
    BulkPlan,
    ClaimReceiptView,
    CustomerConversation,
    DecisionReceiptView,
    DeliveryReceiptView,
    InboxList,
    MessageReceiptView,
    RequestList,
    RequestView,
    RunList,
    RunView,
    StartedView,
    TakeoverReceiptView,
    TokenView,
    View,
    WaitList,
    action_of,
    bulk_plan,
    customer_conversation,
    inbox_item,
    new_conversation,
    request_view,
    run_list_item,
    run_view,
    wait_list,
)
from outlast.views.customer import customer_view
from outlast.views.records import ApprovalRequest, Decision, DecisionType, Json, JsonObject
from outlast.views.run import RunSnapshot
from outlast.views.trouble import with_first_message
from outlast.views.words import changed

_GONE: Final = "It does not wait any more."


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One method of one path.

    Attributes:
        method: the HTTP method.
        path: the path, with `{run_id}` and `{request_id}`.
        action: what it is, in the table of `access`.
        handler: answers it.
        summary: what it does, in a line.
        body: its body.
        query: its query.
        answers: what it answers: one view, or another one for a customer.
        status: the status of its answer.
        content: the type of a file that it answers; empty for JSON.
        events: what it streams as server-sent events, by their names; empty for no stream.
    """

    method: Literal["GET", "POST"]
    path: str
    action: Action
    handler: Handler
    summary: str
    body: type[Body] | None = None
    query: type[Query] | None = None
    answers: tuple[type[View], ...] = ()
    status: int = 200
    content: str = ""
    events: Mapping[EventName, type[View]] = field(default_factory=dict[EventName, type[View]])


# --- Conversations -------------------------------------------------------------------------------


async def _start(asked: DeskRequest) -> Response:
    body = await read_body(asked.http, StartBody)
    agent = _agent(asked, body.agent)
    content = await readable_pictures(body.input)
    customer = None if body.customer is None else body.customer.customer
    handle = await begin(
        asked, agent.name, content, run_id=body.id, tenant=body.tenant, customer=customer
    )
    token = None
    if may(asked.caller, "mint_token") is None and asked.desk.tokens is not None:
        with suppress(UserError):  # the desk has the public key alone: it checks tokens only
            token = asked.desk.tokens.mint(handle.id)
    return _answer(StartedView(id=handle.id, token=token), 201)


def _agent(asked: DeskRequest, name: str) -> Agent[Any]:
    """Return an agent of the desk.

    Raises:
        Refused: the desk has no such agent.
    """
    for agent in asked.desk.agents:
        if agent.name == name:
            return agent
    names = [agent.name for agent in asked.desk.agents]
    raise Refused(
        400,
        "unknown_agent",
        f"This desk has no agent {name!r:.80}.{near_name(name[:80], names)} "
        f"Agents: {', '.join(names) or 'none'}.",
    )


async def _list(asked: DeskRequest) -> Response:
    query = read_query(asked.http, RunsQuery)
    criteria = RunFilter(
        status=query.status,
        agent=query.agent,
        waiting=query.waiting,
        id_prefix=query.prefix,
        nested=query.nested,
        tenant=query.tenant,
        customer=query.customer,
        group=query.group,
        risk=query.risk,
        due_before=query.due_before,
        scopes=asked.scopes("list_runs"),
    )
    page = await list_runs(
        asked.desk.client,
        criteria,
        limit=query.limit,
        page=page_of(query.page),
        patience=PATIENCE,
    )
    runs = [run_list_item(one) for one in page]
    return _answer(RunList(conversations=runs, next=text_of_page(page.next)))


async def _show(asked: DeskRequest) -> Response:
    if isinstance(asked.caller, Customer):
        return _answer(await _of_customer(asked))
    asked.check("view_run")
    return _answer(await read_run(asked))


async def _of_customer(asked: DeskRequest) -> CustomerConversation:
    try:
        state = await asked.handle.state()
    except RunNotFound:  # the customer's first message begins it
        return new_conversation(asked.run_id)
    facts = await asked.desk.troubles.facts(asked.run_id, state)
    state = with_first_message(state, facts)
    whole = await whole_state(asked.desk.client, state, files=False)
    return customer_conversation(whole, customer_trouble(state, facts))


async def read_run(asked: DeskRequest) -> RunView:
    """Return the run that a path names as its caller sees it, with its steps and requests.

    Raises:
        RunNotFound: there is no such run.
    """
    client, timeline, state = asked.desk.client, Timeline(), RunSnapshot()
    async with aclosing(asked.handle.past()) as past:
        async for progress in past:
            state = progress.state
            timeline.take_state(progress)
    facts = await asked.desk.troubles.facts(asked.run_id, state)
    state = with_first_message(state, facts)
    found, proofs = await found_requests(state, client), await asked.desk.proofs()
    groups = groups_of(asked.caller)
    words = await read_words(client, state, [one.request for one in found], groups)
    return run_view(
        await whole_state(client, state),
        asked.caller,
        requests=found,
        words=words,
        steps=timeline.steps,
        trouble=seen_troubles(state, facts, asked.caller),
        proofs=proofs,
    )


async def _send(asked: DeskRequest) -> Response:
    body = await read_body(asked.http, MessageBody)
    given = customer_input(body.text if body.text is not None else body.parts)
    content = await readable_pictures(given)
    own_id = body.message_id or secrets.token_hex(8)
    message_id = customer_message_id(own_id)
    try:
        if body.message_id is not None:
            check_same(await asked.handle.state(), message_id, given)
        await send(asked, asked.run_id, content, message_id)
    except RunNotFound:
        await _first_message(asked, body, content, message_id)
    return _answer(MessageReceiptView(id=asked.run_id, message_id=own_id), 202)


async def _first_message(
    asked: DeskRequest, body: MessageBody, content: str | list[JsonObject], message_id: str
) -> None:
    asked.check("start_run")
    if body.agent is None:
        raise Refused(
            404,
            "not_begun",
            "The conversation has not begun. Name the agent that it begins with: `agent`.",
        )
    agent = _agent(asked, body.agent)
    with suppress(RunAlreadyStarted):
        await begin(asked, agent.name, content, run_id=asked.run_id, message_id=message_id)
    # Another message may have begun it, also one that says the same; a known one changes nothing.
    await send(asked, asked.run_id, content, message_id)


async def _withdraw(asked: DeskRequest) -> Response:
    await read_body(asked.http, NoBody)
    own_id, handle = asked.parameter("message_id"), asked.handle
    message_id = own_id
    # The team sees, and may take back, whatever waits; others what was sent for the customer.
    is_theirs = isinstance(asked.caller, Staff) and any(
        one.id == own_id for one in (await handle.state()).unread
    )
    if not is_theirs:
        message_id = customer_message_id(own_id)
    await _acted(handle.withdraw(message_id))
    return _answer(MessageReceiptView(id=asked.run_id, message_id=own_id))


async def _attachment(asked: DeskRequest) -> Response:
    view = customer_view(await asked.handle.state())
    message_id, number = asked.parameter("message_id"), asked.parameter("number")
    content = await file_of(asked.desk.client, view, message_id, number)
    if content is None:
        message = f"The message {message_id!r:.80} has no attachment {number!r:.20}."
        raise Refused(404, "file_not_found", message)
    return file_answer(content)


async def _mint(asked: DeskRequest) -> Response:
    body = await read_body(asked.http, TokenBody)
    if asked.desk.tokens is None:
        raise Refused(
            409,
            "no_tokens",
            "This desk lets no customer in: it has no key for their tokens. Set "
            "OUTLAST_CONVERSATION_KEY, or pass tokens=.",
        )
    lifetime = timedelta(seconds=body.lifetime_seconds)
    return _answer(TokenView(token=asked.desk.tokens.mint(asked.run_id, lifetime)), 201)


async def _events(asked: DeskRequest) -> Response:
    query = read_query(asked.http, FromQuery)
    if not isinstance(asked.caller, Customer):
        asked.check("view_run")
    after = asked.http.headers.get("Last-Event-ID") or query.from_
    cursor = Cursor.parse(after) if after else None
    return await event_stream(asked.desk, asked.caller, asked.run_id, cursor)


# --- Takeovers, ends and retries -----------------------------------------------------------------


async def _hold(asked: DeskRequest) -> Response:
    body, handle, person = await read_body(asked.http, HoldBody), asked.handle, asked.person
    if body.to is not None:
        return _takeover(await _acted(handle.hand_over(by=person, to=body.to)))
    return _takeover(await _acted(handle.hold(by=person, mode=body.mode, force=body.force)))


async def _say(asked: DeskRequest) -> Response:
    body = await read_body(asked.http, SayBody)
    said = asked.handle.say(body.text, by=asked.person, message_id=body.message_id)
    return _takeover(await _acted(said))


async def _release(asked: DeskRequest) -> Response:
    body = await read_body(asked.http, ReleaseBody)
    await check_release(asked, body.to)
    released = asked.handle.release(by=asked.person, note=body.note, to=body.to)
    return _takeover(await _acted(released))


async def _set_aside(asked: DeskRequest) -> Response:
    body = await read_body(asked.http, SetAsideBody)
    done = asked.handle.set_aside(body.item, by=asked.person, part=body.part, reason=body.reason)
    return _aside(await _acted(done))


async def _take_back(asked: DeskRequest) -> Response:
    body = await read_body(asked.http, TakeBackBody)
    done = asked.handle.take_back(body.item, by=asked.person, part=body.part)
    return _aside(await _acted(done))


def _aside(receipt: AsideReceipt) -> Response:
    return _answer(
        AsideReceiptView(
            id=receipt.run_id,
            item=receipt.item,
            set_aside=bool(receipt.parts),
            parts=list(receipt.parts),
        )
    )


def _takeover(receipt: TakeoverReceipt) -> Response:
    return _answer(
        TakeoverReceiptView(
            id=receipt.run_id,
            status=receipt.status,
            by=receipt.by,
            agent=receipt.agent,
            approved=list(receipt.approved),
            is_judged=receipt.is_judged,
        )
    )


async def _cancel(asked: DeskRequest) -> Response:
    body = await read_body(asked.http, CancelBody)
    await asked.handle.cancel(body.mode)
    return Response(status_code=202)


async def _retry(asked: DeskRequest) -> Response:
    await read_body(asked.http, NoBody)
    sent = await _acted(asked.handle.retry())
    return _answer(MessageReceiptView(id=asked.run_id, message_id=sent.id), 202)


# --- What tools wait for -------------------------------------------------------------------------


async def _waits(asked: DeskRequest) -> Response:
    waits = await asked.handle.pending_waits()
    place = partial(Target, run_id=asked.run_id)
    own = [one for one in waits if may(asked.caller, "finish_wait", place(wait=one.name)) is None]
    return _answer(wait_list(own))


async def _finish(asked: DeskRequest) -> Response:
    body = await read_body(asked.http, FinishBody)
    receipt = await deliver(asked, body.token, body.value, delivery_id=body.delivery_id)
    view = DeliveryReceiptView(run_id=receipt.run_id, waits_for=receipt.name, at=receipt.at)
    return _answer(view)


async def deliver(
    asked: DeskRequest, token: str, value: Json, *, delivery_id: str = ""
) -> DeliveryReceipt:
    """Deliver a value to a wait of the run that a path names, in the name of the caller.

    Raises:
        Refused: the token is that of another run, or the caller may not finish the wait.
        DeliveryRefused: the run refuses the value.
    """
    try:
        address = WaitAddress.parse(token)
    except ValueError as error:
        raise Refused(400, "invalid_token", str(error)) from None
    run_id = address.run_id
    is_own = run_id == asked.run_id
    if not is_own and not await is_nested_in(run_id, asked.run_id, asked.desk.client):
        message = f"The token is not of a wait of the run {asked.run_id!r:.200}."
        raise Refused(409, "other_run", message)
    asked.check("finish_wait", Target(run_id=asked.run_id, wait=address.name))
    source = asked.caller.name if isinstance(asked.caller, Program) else asked.person.subject
    return await finish(
        token,
        value,
        client=asked.desk.client,
        delivery_id=delivery_id,
        source=source[:LONGEST_ID],
    )


# --- Requests ------------------------------------------------------------------------------------


async def _requests(asked: DeskRequest) -> Response:
    state, proofs = await asked.handle.state(), await asked.desk.proofs()
    found = await found_requests(state, asked.desk.client)
    groups = groups_of(asked.caller)
    words = await read_words(asked.desk.client, state, [one.request for one in found], groups)
    views = [
        request_view(one, asked.caller, words=words[one.request.id], proofs=proofs) for one in found
    ]
    return _answer(RequestList(requests=views))


async def _request(asked: DeskRequest) -> Response:
    return _answer(await read_request(asked))


async def read_request(asked: DeskRequest) -> RequestView:
    """Return the request that a path names, also if it is settled.

    Raises:
        RunNotFound: there is no such run.
        Refused: the run has no such request.
    """
    found = await find(asked)
    groups = groups_of(asked.caller)
    words = await read_words(asked.desk.client, found.state, [found.request], groups)
    proofs, said = await asked.desk.proofs(), words[found.request.id]
    return request_view(found, asked.caller, words=said, proofs=proofs)


async def find(asked: DeskRequest) -> FoundRequest:
    """Return the request that a path names: of its run, or of a run nested in it.

    Raises:
        RunNotFound: there is no such run.
        Refused: the run has no such request.
    """
    state, request_id = await asked.handle.state(), asked.parameter("request_id")
    found = await find_request(request_id, state, asked.desk.client)
    if found is None:
        message = f"The run {asked.run_id!r:.200} has no request {request_id!r:.80}."
        raise Refused(404, "unknown_request", message)
    return found


async def _decide(asked: DeskRequest) -> Response:
    body = await read_body(asked.http, DecisionBody)
    found = await _seen(asked, body.digest)
    request, handle, person = found.request, asked.handle, asked.person
    # Some decisions are an operator's matter; the run judges everything else.
    asked.check(action_of(request, body.type))
    match body.type:
        case "ask_back":
            return _decided(await handle.ask_back(request, body.question or "", by=person), request)
        case "withdraw":
            return _decided(await handle.withdraw_vote(request, by=person), request)
        case kind:
            decision = decision_of(
                request,
                kind,
                by=person,
                channel="desk",
                message=body.message,
                edited_arguments=body.arguments,
                response=body.response,
                remember=body.remember is not None,
                remember_scope=body.remember or "tool",
                remember_until=body.until or "conversation",
            )
    return _decided(await _send_decision(asked, found, decision), request)


async def _extend(asked: DeskRequest) -> Response:
    body = await read_body(asked.http, ExtendBody)
    found = await _seen(asked, body.digest)
    request = found.request
    if request.kind != "budget":
        raise Refused(400, "no_budget", f"The request {request.id} is not about a budget.")
    kind: DecisionType = "approve"
    changed: dict[str, Any] = {}
    if body.extend_by is not None:
        arguments = cast("JsonObject", json.loads(request.arguments))
        edited = {**arguments, "extend_by": body.extend_by}
        kind, changed = "edit", {"edited_arguments": edited}
    decision = decision_of(request, kind, by=asked.person, channel="desk", **changed)
    return _decided(await _send_decision(asked, found, decision), request)


async def _send_decision(
    asked: DeskRequest, found: FoundRequest, decision: Decision
) -> DecisionReceipt:
    """Send a decision to the run that made the request."""
    return await asked.handle.decide(decision, request=found.request)


async def _seen(asked: DeskRequest, digest: str) -> FoundRequest:
    """Return the request that a path names, if it is still what the person saw."""
    found = await find(asked)
    request = found.request
    if digest != request.digest and request.status == "pending":
        raise DecisionRefused(changed(request.id))
    return found


def _decided(receipt: DecisionReceipt, request: ApprovalRequest) -> Response:
    return _answer(_receipt_view(receipt, request))


def _receipt_view(receipt: DecisionReceipt, request: ApprovalRequest) -> DecisionReceiptView:
    return DecisionReceiptView(
        run_id=receipt.run_id,
        request_id=receipt.request_id,
        status=receipt.status,
        votes=receipt.votes,
        votes_needed=receipt.votes_needed,
        by=receipt.by,
        is_kept=receipt.is_kept,
        is_queued=receipt.is_queued,
        words=receipt.words(request),
    )


async def _claim(asked: DeskRequest) -> Response:
    body = await read_body(asked.http, ClaimBody)
    found, handle = await find(asked), asked.handle
    receipt = await handle.claim(
        found.request, by=asked.person, minutes=body.minutes, force=body.force, to=body.to
    )
    return _answer(
        ClaimReceiptView(
            run_id=receipt.run_id, request_id=receipt.request_id, by=receipt.by, until=receipt.until
        )
    )


async def _unclaim(asked: DeskRequest) -> Response:
    body = await read_body(asked.http, UnclaimBody)
    found = await find(asked)
    receipt = await asked.handle.unclaim(found.request, by=asked.person, force=body.force)
    return _answer(
        ClaimReceiptView(
            run_id=receipt.run_id, request_id=receipt.request_id, by=receipt.by, until=receipt.until
        )
    )


# --- The inbox -----------------------------------------------------------------------------------


async def _inbox(asked: DeskRequest) -> Response:
    query = read_query(asked.http, InboxQuery)
    box = Inbox(asked.desk.client, patience=PATIENCE)
    criteria = query.criteria(asked.person) | {"scopes": asked.scopes("inbox")}
    if query.urgent:
        entries = await box.urgent(limit=query.limit, **criteria)
        return _answer(InboxList(items=list(map(inbox_item, entries)), next=None))
    page = await box.list(limit=query.limit, page=page_of(query.page), **criteria)
    return _answer(InboxList(items=list(map(inbox_item, page)), next=text_of_page(page.next)))


async def _inbox_events(asked: DeskRequest) -> Response:
    query = read_query(asked.http, InboxStreamQuery)
    return await inbox_stream(asked.desk, asked.person, query, asked.scopes("inbox"))


async def _plan(asked: DeskRequest) -> Response:
    body = await read_body(asked.http, BulkPlanBody)
    return _answer(bulk_plan(await bulk_steps(asked, body.conversations, "decide")))


async def _decide_together(asked: DeskRequest) -> Response:
    body = await read_body(asked.http, BulkDecisionBody)
    named = [one.conversation for one in body.requests]
    steps = await bulk_steps(asked, named, "decide")
    waiting = {(one.entry.run_id, one.request.id): one for one in steps if one.request is not None}
    unread = {one.entry.run_id: one.problem for one in steps if one.request is None}
    agreed: dict[tuple[str, str], BulkStep] = {}
    refused: dict[tuple[str, str], str] = {}
    for seen in body.requests:
        key = seen.conversation, seen.request
        step = waiting.get(key)
        if step is None or step.request is None:
            refused[key] = unread.get(seen.conversation) or _GONE
        elif step.problem is not None or step.request.digest != seen.digest:
            refused[key] = step.problem or changed(seen.request)
        else:
            agreed[key] = step
    box = Inbox(asked.desk.client, patience=PATIENCE)
    steps = list(agreed.values())
    outcomes = await box.decide_all(steps, body.type, by=asked.person, message=body.message)
    decided = dict(zip(agreed, outcomes, strict=True))
    keys = dict.fromkeys((one.conversation, one.request) for one in body.requests)
    return _answer(
        BulkOutcomes(
            outcomes=[
                _outcome(key, agreed.get(key), decided.get(key), refused.get(key)) for key in keys
            ]
        )
    )


def _outcome(
    key: tuple[str, str], step: BulkStep | None, outcome: BulkOutcome | None, refused: str | None
) -> BulkOutcomeView:
    receipt = None if outcome is None else outcome.receipt
    request = None if step is None else step.request
    return BulkOutcomeView(
        conversation=key[0],
        request=key[1],
        receipt=None if receipt is None or request is None else _receipt_view(receipt, request),
        refused=refused if outcome is None else outcome.refused,
    )


async def bulk_steps(
    asked: DeskRequest, run_ids: Iterable[str], action: Action
) -> tuple[BulkStep, ...]:
    """Return what runs wait for, and which of it may be decided together.

    A run that the caller does not see is as one that there is not.
    """
    client, began = asked.desk.client, datetime.fromtimestamp(0, UTC)
    named = list(dict.fromkeys(run_ids))
    seen = frozenset(await asked.seen(named, action))
    entries = [InboxEntry(run_id=one, started=began, client=client) for one in named]
    steps = await Inbox(client, patience=PATIENCE).plan_bulk(
        [one for one in entries if one.run_id in seen]
    )
    unseen = [
        BulkStep(entry=one, problem=str(no_such_run(one.run_id, client.namespace)))
        for one in entries
        if one.run_id not in seen
    ]
    return (*steps, *unseen)


# --- Shared --------------------------------------------------------------------------------------

T = TypeVar("T")


async def _acted(act: Awaitable[T]) -> T:
    """Return the outcome of what a person does; what does not fit the run's state is a conflict."""
    try:
        return await act
    except UserError as error:
        if type(error) is not UserError:
            raise
        raise Refused(409, "refused", str(error)) from None


def _answer(view: View, status: int = 200) -> Response:
    return JSONAnswer(view.record(), status, {"Cache-Control": "no-store"})


# --- The table -----------------------------------------------------------------------------------

_RUN: Final = "/api/conversations/{run_id}"
_REQUEST: Final = _RUN + "/requests/{request_id}"


def _post(
    path: str,
    action: Action,
    handler: Callable[[DeskRequest], Awaitable[Response]],
    summary: str,
    body: type[Body],
    answers: type[View] | None,
    status: int = 200,
) -> Endpoint:
    return Endpoint(
        method="POST",
        path=path,
        action=action,
        handler=handler,
        summary=summary,
        body=body,
        answers=() if answers is None else (answers,),
        status=status,
    )


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    _post(
        "/api/conversations",
        "start_run",
        _start,
        "Begin a conversation, and get a token for its customer.",
        StartBody,
        StartedView,
        201,
    ),
    Endpoint(
        method="GET",
        path="/api/conversations",
        action="list_runs",
        handler=_list,
        summary="List conversations: open ones first, then closed ones, newest first.",
        query=RunsQuery,
        answers=(RunList,),
    ),
    Endpoint(
        method="GET",
        path=_RUN,
        action="read_messages",
        handler=_show,
        summary="Read a conversation: the team what the run did, its customer the messages.",
        answers=(RunView, CustomerConversation),
    ),
    Endpoint(
        method="GET",
        path=f"{_RUN}/events",
        action="read_messages",
        handler=_events,
        summary="Read a conversation live, as server-sent events.",
        query=FromQuery,
        events=EVENTS,
    ),
    _post(
        f"{_RUN}/messages",
        "send_message",
        _send,
        "Send a message of the customer; the first one begins the conversation.",
        MessageBody,
        MessageReceiptView,
        202,
    ),
    Endpoint(
        method="GET",
        path=f"{_RUN}/messages/{{message_id}}/attachments/{{number}}",
        action="read_messages",
        handler=_attachment,
        summary="Read an image or a file of the customer.",
        content="application/octet-stream",
    ),
    _post(
        f"{_RUN}/messages/{{message_id}}/withdraw",
        "withdraw_message",
        _withdraw,
        "Take a message of the customer back that the run has not taken yet.",
        NoBody,
        MessageReceiptView,
    ),
    _post(
        f"{_RUN}/tokens",
        "mint_token",
        _mint,
        "Get a token that lets the customer into the conversation.",
        TokenBody,
        TokenView,
        201,
    ),
    _post(
        f"{_RUN}/hold",
        "hold",
        _hold,
        "Take a conversation over, or hand over what you hold.",
        HoldBody,
        TakeoverReceiptView,
    ),
    _post(
        f"{_RUN}/say",
        "say",
        _say,
        "Answer the customer in a conversation that you hold.",
        SayBody,
        TakeoverReceiptView,
    ),
    _post(
        f"{_RUN}/release",
        "release",
        _release,
        "Give a conversation back to an agent.",
        ReleaseBody,
        TakeoverReceiptView,
    ),
    _post(
        f"{_RUN}/set-aside",
        "set_aside",
        _set_aside,
        "Leave an item of the transcript, or a part of it, out of what the model reads.",
        SetAsideBody,
        AsideReceiptView,
    ),
    _post(
        f"{_RUN}/take-back",
        "set_aside",
        _take_back,
        "Let the model read an item again that was set aside.",
        TakeBackBody,
        AsideReceiptView,
    ),
    _post(f"{_RUN}/cancel", "cancel", _cancel, "End a run.", CancelBody, None, 202),
    _post(
        f"{_RUN}/retry",
        "retry",
        _retry,
        "Ask the last question again, which failed.",
        NoBody,
        MessageReceiptView,
        202,
    ),
    Endpoint(
        method="GET",
        path=f"{_RUN}/waits",
        action="finish_wait",
        handler=_waits,
        summary="List what the tools of a run wait for outside of it.",
        answers=(WaitList,),
    ),
    _post(
        f"{_RUN}/waits/finish",
        "finish_wait",
        _finish,
        "Deliver what a tool waits for, once.",
        FinishBody,
        DeliveryReceiptView,
    ),
    Endpoint(
        method="GET",
        path=f"{_RUN}/requests",
        action="view_run",
        handler=_requests,
        summary="List what a run waits for, and the runs nested in it.",
        answers=(RequestList,),
    ),
    Endpoint(
        method="GET",
        path=_REQUEST,
        action="view_run",
        handler=_request,
        summary="Read a request, also a settled one.",
        answers=(RequestView,),
    ),
    _post(
        f"{_REQUEST}/decide",
        "decide",
        _decide,
        "Decide a request as the person who is logged in.",
        DecisionBody,
        DecisionReceiptView,
    ),
    _post(
        f"{_REQUEST}/extend",
        "extend_budget",
        _extend,
        "Give a run more of a budget that is used up.",
        ExtendBody,
        DecisionReceiptView,
    ),
    _post(
        f"{_REQUEST}/claim",
        "claim",
        _claim,
        "Keep a request to yourself for some minutes.",
        ClaimBody,
        ClaimReceiptView,
    ),
    _post(
        f"{_REQUEST}/unclaim",
        "claim",
        _unclaim,
        "End a claim.",
        UnclaimBody,
        ClaimReceiptView,
    ),
    Endpoint(
        method="GET",
        path="/api/inbox",
        action="inbox",
        handler=_inbox,
        summary="List what waits for people.",
        query=InboxQuery,
        answers=(InboxList,),
    ),
    Endpoint(
        method="GET",
        path="/api/inbox/events",
        action="inbox",
        handler=_inbox_events,
        summary="Read the inbox live, as server-sent events.",
        query=InboxStreamQuery,
        events=INBOX_EVENTS,
    ),
    _post(
        "/api/inbox/plan",
        "decide",
        _plan,
        "Say what deciding the requests of several conversations together would do.",
        BulkPlanBody,
        BulkPlan,
    ),
    _post(
        "/api/inbox/decide",
        "decide",
        _decide_together,
        "Decide several requests together, where their policies allow it.",
        BulkDecisionBody,
        BulkOutcomes,
    ),
)
"""Everything that the API answers."""


def _route(endpoint: Endpoint) -> BaseRoute:
    return route(
        endpoint.path,
        for_other_sites(endpoint.handler),
        action=endpoint.action,
        methods=[endpoint.method],
        name=f"{endpoint.method} {endpoint.path}",
        show=show_to_other_sites,
    )


ROUTES: Final[list[BaseRoute]] = [
    *map(_route, ENDPOINTS),
    route("/api/{rest:path}", preflight, action=None, methods=["OPTIONS"], name="preflight"),
]
