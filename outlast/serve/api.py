"""Our HTTP API: conversations, messages, live events, requests, the inbox.

    caller and role -> body or query, checked -> the public client API -> a view

Each handler declares its route; `openapi.py` makes the description from the same declarations.
"""

import secrets
from collections.abc import Iterable
from contextlib import aclosing, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import BaseRoute

from outlast.agents.agent import Agent
from outlast.agents.argument_names import near_name
from outlast.agents.context.wait_address import WaitAddress
from outlast.agents.errors import (
    DecisionRefused,
    RunAlreadyStarted,
    RunClosed,
    RunNotFound,
    UserError,
)
from outlast.client.deliveries import LONGEST_ID, DeliveryReceipt, finish
from outlast.client.inbox import BulkOutcome, BulkStep, Inbox, InboxEntry
from outlast.client.people.actions import (
    DecisionReceipt,
    decision_of,
)
from outlast.client.people.nested_requests import (
    FoundRequest,
    find_request,
    found_requests,
    is_nested_in,
)
from outlast.client.people.words import read_words
from outlast.client.runs import list_runs
from outlast.client.timeline import Timeline
from outlast.client.transport.run_address import no_such_run
from outlast.deliveries.problems import Refused
from outlast.serve import team_api as _teams  # pyright: ignore[reportUnusedImport]  # noqa: F401  it declares routes
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
    ReleaseBody,
    RunsQuery,
    SayBody,
    SearchQuery,
    SetAsideBody,
    StartBody,
    TakeBackBody,
    TokenBody,
    UnclaimBody,
    page_of,
    text_of_page,
)
from outlast.serve.budgets import extended
from outlast.serve.case_api import acted
from outlast.serve.content import file_answer, file_of, whole_state
from outlast.serve.cursor import Cursor
from outlast.serve.customer_input import customer_input, customer_message_id
from outlast.serve.endpoints import ENDPOINTS, Endpoint, get, post
from outlast.serve.figures import FiguresQuery, QualityQuery, figures_for, quality_for
from outlast.serve.live import (
    EVENTS,
    INBOX_EVENTS,
    event_stream,
    inbox_stream,
)
from outlast.serve.messages import (
    accept_message,
    begin,
    check_release,
    check_same,
    current,
    is_followed,
    send,
)
from outlast.serve.other_sites import preflight_route, shared_route
from outlast.serve.pictures import checked_files, readable_pictures
from outlast.serve.ratings import RatingBody, take_rating
from outlast.serve.records import (
    AsideReceiptView,
    BulkOutcomes,
    BulkOutcomeView,
    BulkPlan,
    ClaimReceiptView,
    CustomerConversation,
    DayView,
    DecisionReceiptView,
    DeliveryReceiptView,
    FiguresView,
    InboxItem,
    InboxList,
    MessageReceiptView,
    QualityGroupView,
    QualityView,
    RequestList,
    RequestView,
    RunList,
    RunListItem,
    RunView,
    ScoreView,
    SearchResults,
    StartedView,
    TakeoverReceiptView,
    TokenView,
    WaitList,
    WaitView,
    action_of,
    bulk_plan,
    customer_conversation,
    found_conversation,
    new_conversation,
    request_view,
    run_view,
)
from outlast.serve.routing import PATIENCE, DeskRequest
from outlast.serve.search import found_for
from outlast.serve.troubles import customer_trouble, seen_troubles
from outlast.views.customer import customer_view
from outlast.views.records import ApprovalRequest, Json, JsonObject
from outlast.views.run import RunSnapshot
from outlast.views.trouble import with_first_message
from outlast.views.words import changed

_RUN: Final = "/api/conversations/{run_id}"
_REQUEST: Final = _RUN + "/requests/{request_id}"

_GONE: Final = "It does not wait any more."


# --- Conversations -------------------------------------------------------------------------------


@post("/api/conversations", "start_run", status=201)
async def _start(asked: DeskRequest, body: StartBody) -> StartedView:
    """Begin a conversation, and get a token for its customer."""
    agent = _agent(asked, body.agent)
    content = await readable_pictures(body.input)
    customer = None if body.customer is None else body.customer.customer
    handle = await begin(
        asked, agent.name, content, run_id=body.id, tenant=body.tenant, customer=customer
    )
    token = None
    if may(asked.caller, "mint_token") is None and asked.desk.tokens is not None:
        with suppress(UserError):  # the desk has the public key alone: it checks tokens only
            token = asked.desk.tokens.mint(handle.id, owner=await _owner(asked, handle.id))
    return StartedView(id=handle.id, token=token)


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


@get("/api/conversations", "list_runs")
async def _list(asked: DeskRequest, query: RunsQuery) -> RunList:
    """List conversations: open ones first, then closed ones, newest first."""
    criteria = query.criteria(asked.scopes("list_runs"))
    page = await list_runs(
        asked.desk.client,
        criteria,
        limit=query.limit,
        page=page_of(query.page),
        patience=PATIENCE,
    )
    runs = [RunListItem.of(one) for one in page]
    return RunList(conversations=runs, next=text_of_page(page.next))


@get("/api/search", "list_runs")
async def _search(asked: DeskRequest, query: SearchQuery) -> SearchResults:
    """Find conversations, open and archived, by what was said in them: the newest first."""
    found = await found_for(asked, query.q, query.limit)
    return SearchResults.of(found, conversations=list(map(found_conversation, found.hits)))


@get("/api/figures", "list_runs")
async def _figures(asked: DeskRequest, query: FiguresQuery) -> FiguresView:
    """Read how long people waited, decisions, takeovers, replies and ratings, by day."""
    found = await figures_for(asked, query)
    days = list(map(DayView.of, found.days))
    return FiguresView.of(found, days=days, total=DayView.of(found.total))


@get("/api/quality", "list_runs")
async def _quality(asked: DeskRequest, query: QualityQuery) -> QualityView:
    """Read the scores of quality checks, by agent and digest of instructions, and what fails."""
    found = await quality_for(asked, query)
    groups, worst = map(QualityGroupView.of, found.groups), map(ScoreView.of, found.worst)
    return QualityView.of(found, groups=list(groups), worst=list(worst))


@get(_RUN, "read_messages")
async def _show(asked: DeskRequest) -> RunView | CustomerConversation:
    """Read a conversation: the team what the run did, its customer the messages."""
    if isinstance(asked.caller, Customer):
        return await _of_customer(asked)
    asked.check("view_run")
    return await read_run(asked)


async def _of_customer(asked: DeskRequest) -> CustomerConversation:
    try:
        state = await asked.handle.state()
    except RunNotFound:  # the customer's first message begins it
        return new_conversation(asked.run_id)
    facts = await asked.desk.troubles.facts(asked.run_id, state)
    state = with_first_message(state, facts)
    whole = await whole_state(asked.desk.client, state, files=False)
    newest, _ = await current(asked, state)
    followed_by = None if newest.run_id == asked.run_id else newest.run_id
    return customer_conversation(whole, customer_trouble(state, facts), followed_by)


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


@get(f"{_RUN}/events", "read_messages", events=EVENTS)
async def _events(asked: DeskRequest, query: FromQuery) -> Response:
    """Read a conversation live, as server-sent events."""
    if not isinstance(asked.caller, Customer):
        asked.check("view_run")
    after = asked.http.headers.get("Last-Event-ID") or query.from_
    cursor = Cursor.parse(after) if after else None
    return await event_stream(asked.desk, asked.caller, asked.run_id, cursor)


@post(f"{_RUN}/messages", "send_message", status=202)
async def _send(asked: DeskRequest, body: MessageBody) -> MessageReceiptView:
    """Send a message of the customer; the first one begins the conversation."""
    given = customer_input(body.text if body.text is not None else body.parts)
    content = await readable_pictures(given)
    own_id = body.message_id or secrets.token_hex(8)
    message_id = customer_message_id(own_id)
    try:
        if body.message_id is not None:
            check_same(await asked.handle.state(), message_id, given)
        await send(asked, content, message_id)
    except RunNotFound:
        await _first_message(asked, body, content, message_id)
    except RunClosed:
        state = await asked.handle.state()
        if not is_followed(state):
            raise
        asked = await accept_message(asked, "", given, message_id, state=state)
    return MessageReceiptView(id=asked.run_id, message_id=own_id)


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
    await send(asked, content, message_id)


@get(
    f"{_RUN}/messages/{{message_id}}/attachments/{{number}}",
    "read_messages",
    content="application/octet-stream",
)
async def _attachment(asked: DeskRequest) -> Response:
    """Read an image or a file of the customer."""
    view = customer_view(await asked.handle.state())
    message_id, number = asked.parameter("message_id"), asked.parameter("number")
    content = await file_of(asked.desk.client, view, message_id, number)
    if content is None:
        message = f"The message {message_id!r:.80} has no attachment {number!r:.20}."
        raise Refused(404, "file_not_found", message)
    return file_answer(content)


@post(f"{_RUN}/messages/{{message_id}}/withdraw", "withdraw_message")
async def _withdraw(asked: DeskRequest, _body: NoBody) -> MessageReceiptView:
    """Take a message of the customer back that the run has not taken yet."""
    own_id, handle = asked.parameter("message_id"), asked.handle
    message_id = own_id
    # The team sees, and may take back, whatever waits; others what was sent for the customer.
    is_theirs = isinstance(asked.caller, Staff) and any(
        one.id == own_id for one in (await handle.state()).unread
    )
    if not is_theirs:
        message_id = customer_message_id(own_id)
    await acted(handle.withdraw(message_id))
    return MessageReceiptView(id=asked.run_id, message_id=own_id)


@post(f"{_RUN}/rating", "rate", status=204)
async def _rate(asked: DeskRequest, body: RatingBody) -> None:
    """Say what the customer thinks of a conversation; the newest rating counts."""
    await take_rating(asked, body.score, body.text)


@post(f"{_RUN}/tokens", "mint_token", status=201)
async def _mint(asked: DeskRequest, body: TokenBody) -> TokenView:
    """Get a token that lets the customer into the conversation."""
    if asked.desk.tokens is None:
        raise Refused(
            409,
            "no_tokens",
            "This desk lets no customer in: it has no key for their tokens. Set "
            "OUTLAST_CONVERSATION_KEY, or pass tokens=.",
        )
    lifetime = timedelta(seconds=body.lifetime_seconds)
    owner = await _owner(asked, asked.run_id)
    return TokenView(token=asked.desk.tokens.mint(asked.run_id, lifetime, owner=owner))


async def _owner(asked: DeskRequest, run_id: str) -> str:
    """Return whose a conversation is; empty if it has not begun."""
    facts = await asked.desk.facts(run_id)
    return "" if facts is None else facts.owner


# --- Takeovers, ends and retries -----------------------------------------------------------------


@post(f"{_RUN}/hold", "hold")
async def _hold(asked: DeskRequest, body: HoldBody) -> TakeoverReceiptView:
    """Take a conversation over, or hand over what you hold."""
    handle, person = asked.handle, asked.person
    if body.to is not None:
        return TakeoverReceiptView.of(await acted(handle.hand_over(by=person, to=body.to)))
    return TakeoverReceiptView.of(
        await acted(handle.hold(by=person, mode=body.mode, force=body.force))
    )


@post(f"{_RUN}/say", "say")
async def _say(asked: DeskRequest, body: SayBody) -> TakeoverReceiptView:
    """Answer the customer in a conversation that you hold."""
    files = await checked_files(body.files)
    said = asked.handle.say(body.text, by=asked.person, message_id=body.message_id, files=files)
    return TakeoverReceiptView.of(await acted(said))


@post(f"{_RUN}/release", "release")
async def _release(asked: DeskRequest, body: ReleaseBody) -> TakeoverReceiptView:
    """Give a conversation back to an agent."""
    await check_release(asked, body.to)
    released = asked.handle.release(by=asked.person, note=body.note, to=body.to)
    return TakeoverReceiptView.of(await acted(released))


@post(f"{_RUN}/set-aside", "set_aside")
async def _set_aside(asked: DeskRequest, body: SetAsideBody) -> AsideReceiptView:
    """Leave an item of the transcript, or a part of it, out of what the model reads."""
    done = asked.handle.set_aside(body.item, by=asked.person, part=body.part, reason=body.reason)
    receipt = await acted(done)
    return AsideReceiptView.of(receipt, set_aside=bool(receipt.parts))


@post(f"{_RUN}/take-back", "set_aside")
async def _take_back(asked: DeskRequest, body: TakeBackBody) -> AsideReceiptView:
    """Let the model read an item again that was set aside."""
    done = asked.handle.take_back(body.item, by=asked.person, part=body.part)
    receipt = await acted(done)
    return AsideReceiptView.of(receipt, set_aside=bool(receipt.parts))


@post(f"{_RUN}/cancel", "cancel", status=202)
async def _cancel(asked: DeskRequest, body: CancelBody) -> None:
    """End a run."""
    await asked.handle.cancel(body.mode)


@post(f"{_RUN}/retry", "retry", status=202)
async def _retry(asked: DeskRequest, _body: NoBody) -> MessageReceiptView:
    """Ask the last question again, which failed."""
    sent = await acted(asked.handle.retry())
    return MessageReceiptView(id=asked.run_id, message_id=sent.id)


# --- What tools wait for -------------------------------------------------------------------------


@get(f"{_RUN}/waits", "finish_wait")
async def _waits(asked: DeskRequest) -> WaitList:
    """List what the tools of a run wait for outside of it."""
    waits = await asked.handle.pending_waits()
    place = partial(Target, run_id=asked.run_id)
    own = [one for one in waits if may(asked.caller, "finish_wait", place(wait=one.name)) is None]
    return WaitList(waits=[WaitView.of(one) for one in own])


@post(f"{_RUN}/waits/finish", "finish_wait")
async def _finish(asked: DeskRequest, body: FinishBody) -> DeliveryReceiptView:
    """Deliver what a tool waits for, once."""
    receipt = await deliver(asked, body.token, body.value, delivery_id=body.delivery_id)
    return DeliveryReceiptView.of(receipt)


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


@get(f"{_RUN}/requests", "view_run")
async def _requests(asked: DeskRequest) -> RequestList:
    """List what a run waits for, and the runs nested in it."""
    state, proofs = await asked.handle.state(), await asked.desk.proofs()
    found = await found_requests(state, asked.desk.client)
    groups = groups_of(asked.caller)
    words = await read_words(asked.desk.client, state, [one.request for one in found], groups)
    views = [
        request_view(one, asked.caller, words=words[one.request.id], proofs=proofs) for one in found
    ]
    return RequestList(requests=views)


@get(_REQUEST, "view_run")
async def _request(asked: DeskRequest) -> RequestView:
    """Read a request, also a settled one."""
    return await read_request(asked)


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


async def find(asked: DeskRequest, state: RunSnapshot | None = None) -> FoundRequest:
    """Return the request that a path names: of its run, or of a run nested in it.

    Args:
        asked: the request over HTTP.
        state: the state of the run; None to read it.

    Raises:
        RunNotFound: there is no such run.
        Refused: the run has no such request.
    """
    request_id = asked.parameter("request_id")
    state = state or await asked.handle.state()
    found = await find_request(request_id, state, asked.desk.client)
    if found is None:
        message = f"The run {asked.run_id!r:.200} has no request {request_id!r:.80}."
        raise Refused(404, "unknown_request", message)
    return found


@post(f"{_REQUEST}/decide", "decide")
async def _decide(asked: DeskRequest, body: DecisionBody) -> DecisionReceiptView:
    """Decide a request as the person who is logged in."""
    found = await _seen(asked, body.digest)
    request, handle, person = found.request, asked.handle, asked.person
    # Some decisions are an operator's matter; the run judges everything else.
    asked.check(action_of(request, body.type))
    match body.type:
        case "ask_back":
            receipt = await handle.ask_back(request, body.question or "", by=person)
        case "withdraw":
            receipt = await handle.withdraw_vote(request, by=person)
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
            receipt = await handle.decide(decision, request=request)
    return _receipt_view(receipt, request)


@post(f"{_REQUEST}/extend", "extend_budget")
async def _extend(asked: DeskRequest, body: ExtendBody) -> DecisionReceiptView:
    """Give a run more of a budget that is used up."""
    found = await _seen(asked, body.digest)
    decision = extended(found.request, asked.person, body.extend_by)
    receipt = await asked.handle.decide(decision, request=found.request)
    return _receipt_view(receipt, found.request)


async def _seen(asked: DeskRequest, digest: str) -> FoundRequest:
    """Return the request that a path names, if it is still what the person saw."""
    found = await find(asked)
    request = found.request
    if digest != request.digest and request.status == "pending":
        raise DecisionRefused(changed(request.id))
    return found


def _receipt_view(receipt: DecisionReceipt, request: ApprovalRequest) -> DecisionReceiptView:
    return DecisionReceiptView.of(receipt, words=receipt.words(request))


@post(f"{_REQUEST}/claim", "claim")
async def _claim(asked: DeskRequest, body: ClaimBody) -> ClaimReceiptView:
    """Keep a request to yourself for some minutes."""
    found, handle = await find(asked), asked.handle
    receipt = await handle.claim(
        found.request, by=asked.person, minutes=body.minutes, force=body.force, to=body.to
    )
    return ClaimReceiptView.of(receipt)


@post(f"{_REQUEST}/unclaim", "claim")
async def _unclaim(asked: DeskRequest, body: UnclaimBody) -> ClaimReceiptView:
    """End a claim."""
    found = await find(asked)
    receipt = await asked.handle.unclaim(found.request, by=asked.person, force=body.force)
    return ClaimReceiptView.of(receipt)


# --- The inbox -----------------------------------------------------------------------------------


@get("/api/inbox", "inbox")
async def _inbox(asked: DeskRequest, query: InboxQuery) -> InboxList:
    """List what waits for people."""
    box = Inbox(asked.desk.client, patience=PATIENCE)
    criteria = query.criteria(asked.person, asked.scopes("inbox"))
    if query.urgent:
        # Searching for the most urgent ones takes many requests, so what somebody follows is better.
        known = asked.desk.inboxes.known(query.filter(asked.person, asked.scopes("inbox")))
        if known is None:
            entries = await box.urgent(limit=query.limit, **criteria)
        else:
            entries = [one for one in known if query.accepts(one)][: query.limit]
        return InboxList(items=list(map(InboxItem.of, entries)), next=None)
    page = await box.list(limit=query.limit, page=page_of(query.page), **criteria)
    return InboxList(items=list(map(InboxItem.of, page)), next=text_of_page(page.next))


@get("/api/inbox/events", "inbox", events=INBOX_EVENTS)
async def _inbox_events(asked: DeskRequest, query: InboxStreamQuery) -> Response:
    """Read the inbox live, as server-sent events."""
    return await inbox_stream(asked.desk, asked.person, query, asked.scopes("inbox"))


@post("/api/inbox/plan", "decide")
async def _plan(asked: DeskRequest, body: BulkPlanBody) -> BulkPlan:
    """Say what deciding the requests of several conversations together would do."""
    return bulk_plan(await bulk_steps(asked, body.conversations, "decide"))


@post("/api/inbox/decide", "decide")
async def _decide_together(asked: DeskRequest, body: BulkDecisionBody) -> BulkOutcomes:
    """Decide several requests together, where their policies allow it."""
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
    done = await box.decide_all(steps, body.type, by=asked.person, message=body.message)
    decided = dict(zip(agreed, done, strict=True))
    keys = dict.fromkeys((one.conversation, one.request) for one in body.requests)
    outcomes = [_outcome(key, agreed.get(key), decided.get(key), refused.get(key)) for key in keys]
    return BulkOutcomes(outcomes=outcomes)


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


# --- Its routes ----------------------------------------------------------------------------------


def _route(endpoint: Endpoint) -> BaseRoute:
    return shared_route(
        endpoint.path,
        endpoint.handler,
        action=endpoint.action,
        methods=[endpoint.method],
        name=f"{endpoint.method} {endpoint.path}",
    )


ROUTES: Final[list[BaseRoute]] = [
    *map(_route, ENDPOINTS),
    preflight_route("/api/{rest:path}"),
]
