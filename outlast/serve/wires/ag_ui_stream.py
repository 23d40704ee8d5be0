"""One stream of AG-UI events: reads a run along, and stops where it needs somebody."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from ag_ui.core import (
    BaseEvent,
    Interrupt,
    RunAgentInput,
    RunErrorEvent,
    UserMessage,
)

from outlast.agents.errors import RunNotFound, UserError
from outlast.agents.items.raw_items import is_cut_short
from outlast.client.people.nested_requests import found_requests
from outlast.contract import names
from outlast.deliveries.problems import Refused
from outlast.serve.access import Staff, Target, may, redaction_for, request_for
from outlast.serve.customer_input import customer_input, customer_message_id
from outlast.serve.feed import (
    Cut,
    Ended,
    FeedReader,
)
from outlast.serve.messages import (
    accept_message,
    check_same,
    current,
    is_about_message,
    is_followed,
)
from outlast.serve.pictures import readable_pictures
from outlast.serve.problems import problem_of
from outlast.serve.routing import DeskRequest
from outlast.serve.sse import ServerSentEvent, json_event
from outlast.serve.troubles import Watch, told_trouble
from outlast.serve.wires.ag_ui_decisions import NOTHING_DECIDED, decide
from outlast.serve.wires.ag_ui_events import EventWriter, Facts, Pause
from outlast.serve.wires.ag_ui_input import (
    answers_in,
    content_of,
    follows,
    interrupt_id,
    known_parts,
    own_messages,
    response_schema,
)
from outlast.serve.wires.ag_ui_view import (
    Live,
    Said,
    View,
    ids_left_out,
    ids_of_calls,
    message_id,
    plain,
    view_of_customer,
    view_of_team,
)
from outlast.views.acts import same_person
from outlast.views.customer import customer_view, shows_text_in_progress
from outlast.views.records import ApprovalRequest, JsonObject
from outlast.views.run import RunSnapshot, own_requests, turn_in_progress
from outlast.views.transcript import has_message

_PATIENCE_SECONDS: Final = 10.0
"""How long a stream waits for what its request has brought. A colleague may withdraw a message
before this process reads of it."""

_NOTHING: Final = ServerSentEvent("")
"""Taken before the answer begins; nobody gets it."""

_CUT: Final = "The desk ended the stream. Send the request again to go on."
_NO_ANSWER: Final = "The question could not be answered. Please send it again."
_ENDED: Final = "The conversation has ended without an answer."


class RunStream:
    """What one request does and gets.

    Its reader of the run says what there is before it does anything, so the history is read once.

    Args:
        asked: the request; its caller may read the conversation.
        given: its body.
        takes_messages: whether it writes to the conversation.
    """

    def __init__(
        self,
        asked: DeskRequest,
        given: RunAgentInput,
        *,
        takes_messages: bool = True,
    ) -> None:
        self._asked = asked
        self._given = given
        self._takes_messages = takes_messages
        self._follows = follows(given)
        self._sent: frozenset[str] = frozenset()
        self._decided = NOTHING_DECIDED
        self._refused = ""
        caller = asked.caller
        self._staff = caller if isinstance(caller, Staff) else None
        self._is_team = self._staff is not None and may(caller, "view_payloads") is None
        self._decides = self._staff is not None and may(caller, "decide") is None
        self._signs = True
        self._first: RunSnapshot | None = None
        self._has_waited = False
        self._viewed: tuple[RunSnapshot, str | None, View, Facts] | None = None
        self._trouble: str | None = None  # not among the facts before there was any
        self._writer = EventWriter(
            given.thread_id,
            given.run_id,
            list(known_parts(given.messages)),
            given.state,
            names_version=given.protocol_version is not None,
        )

    async def events(self) -> AsyncGenerator[ServerSentEvent]:
        """Take what the request brings, yield nothing once, and then the events as they are sent.

        Raises:
            Refused: before the first event, the caller may not do what the request asks for.
        """
        async with AsyncExitStack() as stack:
            entries = await self._entries(stack)
            if entries is not None and is_followed(entries.state):
                newest, _ = await current(self._asked, entries.state)
                if newest.run_id != self._asked.run_id:
                    self._asked = newest
                    entries = await self._entries(stack)
            await self._take_input(None if entries is None else entries.state)
            if entries is None and self._sent:
                entries = await self._entries(stack)
            yield _NOTHING
            try:
                if entries is None:
                    for event in self._not_begun():
                        yield _written(event)
                    return
                watch = await stack.enter_async_context(
                    self._asked.desk.troubles.watch(self._asked.run_id, partial(_state_of, entries))
                )
                async with aclosing(self._read(entries, watch)) as reading:
                    async for event in reading:
                        yield event
            except Exception as error:  # noqa: BLE001  the client has to learn that the stream failed
                problem = problem_of(error)
                failed = RunErrorEvent(message=problem.message, code=problem.code)
                yield _written(failed)

    async def _entries(self, stack: AsyncExitStack) -> FeedReader | None:
        """Return a reader that knows the present state of the run; None if there is no run."""
        feed, run_id = self._asked.desk.feed, self._asked.run_id
        is_followed = run_id in feed.followed
        opened = feed.reader(run_id)
        try:
            entries = await stack.enter_async_context(opened)
            await entries.until_present()
            if is_followed:
                # What the client has just done elsewhere may not have been read here yet.
                _, place = await self._asked.handle.present()
                await entries.until_read(place)
        except RunNotFound:
            return None
        return entries

    async def _take_input(self, state: RunSnapshot | None) -> None:
        """Send the decisions of the request, and the messages that the run does not have.

        A front end sends its whole history each time.
        """
        asked = self._asked
        self._signs = await asked.desk.signs()
        if answers := answers_in(self._given.resume):
            self._decided = await decide(asked, answers, state)
        written = own_messages(self._given.messages) if self._takes_messages else []
        sent: set[str] = set()
        for one in written:
            # Clients keep what was refused before in their lists, and the conversation has to go on.
            is_newest = one is self._given.messages[-1]
            try:
                own_id = await self._take(one, state, is_newest=is_newest)
            except (UserError, Refused) as error:
                if is_newest and not answers:
                    raise
                if not is_about_message(error):
                    raise
                if is_newest:  # the decisions count, and the client must not ask for them again
                    self._refused = problem_of(error).message
                continue
            if own_id:
                sent.add(own_id)
        self._sent = frozenset(sent)
        if sent:
            # It had what there was when it wrote; the answer is news, even if it is ready.
            self._writer.go_on()

    async def _take(
        self, message: UserMessage, state: RunSnapshot | None, *, is_newest: bool
    ) -> str:
        """Send a message that the run does not have; return its id, or nothing if the run has it."""
        own_id = customer_message_id(message.id)
        if state is not None and has_message(state, own_id):
            if is_newest and self._given.resume is None:
                self._check_same(state, own_id, message)
            return ""
        content = customer_input(content_of(message))
        if not is_newest:
            content = await readable_pictures(content, refuses=False)
        agent = self._asked.parameter("agent")
        accept = accept_message(self._asked, agent, content, own_id, state=state)
        self._asked = await accept
        return own_id

    def _check_same(self, state: RunSnapshot, own_id: str, message: UserMessage) -> None:
        """Refuse an edited message, but not one that the client has as the desk has shown it."""
        content = content_of(message)
        parts = self._view(state)[0].with_live(None)
        shown = {one.text for one in parts if isinstance(one, Said)}
        if not isinstance(content, str) or content in shown:
            return
        check_same(state, own_id, content)

    def _not_begun(self) -> Iterable[BaseEvent]:
        yield from self._writer.start()
        yield from self._writer.show((), None, Facts({"working": False, "ended": False}))
        yield from self._writer.finish(Pause("done"))

    async def _read(self, entries: FeedReader, watch: Watch) -> AsyncGenerator[ServerSentEvent]:
        paused: Pause | None = None
        seen: object = None
        # The client has what it sent already, and would lose it.
        await entries.until(lambda: not self._lacks_messages(entries.state), _PATIENCE_SECONDS)
        async with aclosing(watch.beside(entries.changes())) as changes:
            async for entry in changes:
                if isinstance(entry, Cut):
                    yield _written(RunErrorEvent(message=_CUT, code="cut"))
                    return
                state = entries.state
                is_over = isinstance(entry, Ended)
                if entries.is_behind:
                    continue
                trouble = told_trouble(state, watch.facts, self._asked.caller)
                is_same = state is seen and trouble == (self._trouble or "")
                if entry is None and is_same and not self._is_behind(state):
                    continue
                seen = state
                if trouble or self._trouble is not None:
                    self._trouble = trouble
                pause = await self._pause(state)
                if is_over and pause is None:
                    pause = Pause("cancelled")  # the server ended the run, and no event says how
                live = Live(entries.turn, entries.text, entries.is_unjudged)
                for event in self._step(state, live if live.text else None, pause, paused):
                    yield event
                paused = pause
                if pause is not None and (not self._follows or is_over or state.outcome):
                    return

    def _step(
        self,
        state: RunSnapshot,
        live: Live | None,
        pause: Pause | None,
        paused: Pause | None,
    ) -> Iterable[ServerSentEvent]:
        """Yield what is new, in a run of the protocol that ends where the conversation pauses."""
        view, facts = self._view(state)
        live = live if live is not None and self._shows(state, live) else None
        writer, is_first = self._writer, self._first is None
        self._first = self._first or state
        before = list(writer.start()) if is_first else []
        shown = list(
            writer.show(view.with_live(live), message_id(live.turn) if live else None, facts)
        )
        words = (*self._decided.words, self._refused) if is_first else ()
        said = [event for text in words if text for event in writer.say(plain(text))]
        if not writer.is_in_run and (shown or pause != paused):
            before = list(writer.start())
        yield from map(_written, (*before, *shown))
        end = writer.finish(pause) if pause is not None and writer.is_in_run else ()
        yield from map(_written, (*said, *end))

    # --- What the caller sees --------------------------------------------------------------------

    def _view(self, state: RunSnapshot) -> tuple[View, Facts]:
        known = self._viewed
        if known is None or known[0] is not state or known[1] != self._trouble:
            view = view_of_team(state, self._staff) if self._is_team else view_of_customer(state)
            facts = self._facts_of_team(state) if self._staff else self._facts_of_customer(state)
            told = {} if self._trouble is None else {"trouble": plain(self._trouble) or None}
            facts = replace(facts, state={**facts.state, **_marks(state), **told})
            known = self._viewed = state, self._trouble, view, facts
        return known[2:]

    def _shows(self, state: RunSnapshot, live: Live) -> bool:
        """Whether the caller may read a text in progress, or had better wait for the reply."""
        if self._is_team:
            return True
        is_present = turn_in_progress(state) == live.turn
        return is_present and shows_text_in_progress(state, is_unjudged=live.is_unjudged)

    def _facts_of_customer(self, state: RunSnapshot) -> Facts:
        seen = customer_view(state)
        words = None if seen.waits_for is None else plain(seen.waits_for)
        facts: JsonObject = {"working": seen.works, "ended": seen.has_ended, "waitsFor": words}
        self._has_waited = self._has_waited or words is not None
        told = any(one.terms.customer_text is not None for one in state.approvals)
        if not (self._has_waited or told):
            return Facts(facts)
        return Facts(facts, {"waiting": words is not None, "text": words or ""})

    def _facts_of_team(self, state: RunSnapshot) -> Facts:
        facts: JsonObject = {
            "working": state.status == "running",
            "ended": state.outcome is not None,
            "status": state.status,
            "agent": state.agent,
            "heldBy": None if state.hold is None else state.hold.by,
        }
        why = ((one, self._why_not_asked(one, state)) for one in state.pending_approvals)
        others: list[JsonObject] = [
            {"id": one.id, "tool": one.name, "agent": one.agent, "reason": one.reason, "why": text}
            for one, text in why
            if text is not None
        ]
        self._has_waited = self._has_waited or bool(others or state.approvals)
        if not self._has_waited:
            return Facts(facts)
        lines = [f"{one['tool']} of {one['agent']} waits: {one['why']}" for one in others]
        return Facts(facts, {"waiting": bool(others), "text": "\n".join(lines), "requests": others})

    # --- Where the stream stops ------------------------------------------------------------------

    def _lacks_messages(self, state: RunSnapshot) -> bool:
        """Whether the state does not show yet the messages that this request brought."""
        return state.outcome is None and not all(has_message(state, one) for one in self._sent)

    def _is_behind(self, state: RunSnapshot) -> bool:
        """Whether the state does not show yet the decisions that this request brought."""
        return state.outcome is None and any(
            one.id in self._decided.taken and not self._has_voted(one)
            for one in state.pending_approvals
        )

    async def _pause(self, state: RunSnapshot) -> Pause | None:
        """Return why the conversation needs somebody; None while it goes on."""
        if self._is_behind(state):
            return None
        if state.outcome is not None:
            return self._ended(state)
        if state.status in names.RESTING:
            return self._answered(state)
        if state.status == "held":
            return Pause("done")
        if state.status != "waiting":
            return None
        if not self._decides:
            return Pause("done")
        found = await found_requests(state, self._asked.desk.client)
        mine = [one for one in found if self._why_not_asked(one.request, state) is None]
        if mine:
            _, ids = ids_of_calls(state)
            own = {one.id: ids.asked(one) for one in own_requests(state) if one.status == "pending"}
            shown = (request_for(self._staff, one.request, one.state) for one in mine)
            return Pause("interrupt", tuple(_interrupt(one, own.get(one.id)) for one in shown))
        return Pause("done") if found else None  # else a nested run goes on

    def _ended(self, state: RunSnapshot) -> Pause:
        if state.outcome in {"cancelled", "terminated"}:
            return Pause("cancelled")
        first = self._first
        is_new = bool(self._sent) or (first is not None and first.outcome is None)
        if state.outcome != "failed" or not is_new:
            return Pause("done")
        return self._failed(state, _ENDED)

    def _answered(self, state: RunSnapshot) -> Pause:
        newest = state.answers[-1] if state.answers else None
        if newest is None or newest.failure is None:
            return Pause("done")
        first = self._first
        is_new = first is not None and len(first.answers) < len(state.answers)
        if not (is_new or self._sent & set(newest.to)):
            return Pause("done")
        return self._failed(state, _NO_ANSWER)

    def _failed(self, state: RunSnapshot, words: str) -> Pause:
        if not self._is_team or state.failure is None:
            return Pause("failed", message=words, code="failed")
        message = redaction_for(self._staff, state).text(state.failure.message)
        return Pause("failed", message=plain(message), code=state.failure.code)

    def _why_not_asked(self, request: ApprovalRequest, state: RunSnapshot) -> str | None:
        """Return why the caller is not asked for a decision; None if they are."""
        if request.kind == "worker":
            return "No worker can carry it out."
        if request.terms.takeover:
            return "Whoever takes the conversation over decides."
        if request.id in self._decided.skipped:
            return "You have not decided."
        if self._has_voted(request):
            return f"You have decided; {request.terms.quorum} people have to agree."
        target = Target(run_id=self._asked.run_id, state=state, request=request, signs=self._signs)
        return may(self._asked.caller, "decide", target)

    def _has_voted(self, request: ApprovalRequest) -> bool:
        own = "" if self._staff is None else self._staff.person.subject
        return any(same_person(one.decision.by or "", own) for one in request.standing_votes)


def _marks(state: RunSnapshot) -> JsonObject:
    """Return which messages the model does not read, and whether the answer was cut short, if so."""
    marks: JsonObject = {}
    if left_out := ids_left_out(state):
        marks["leftOut"] = [plain(one) for one in left_out]
    at = state.answers[-1].item if state.answers else None
    if at is not None and is_cut_short(state.items[at].raw):
        marks["cutShort"] = True
    return marks


def _interrupt(request: ApprovalRequest, call_id: str | None) -> Interrupt:
    """Return the interrupt that asks for a decision, without what the policy redacts.

    Calls of nested runs are not in the conversation, and their ids may be those of others.
    """
    is_call = request.kind in {"tool", "handoff"}
    what = f"{request.agent} wants to call {request.name}." if is_call else f"{request.name}?"
    expires_ms = request.expires_at_ms
    return Interrupt(
        id=interrupt_id(request),
        reason="tool_call" if is_call else request.kind,
        message=plain(" ".join(filter(None, (what, request.reason)))),
        tool_call_id=plain(call_id) if call_id else None,
        response_schema=response_schema(request),
        expires_at=None if expires_ms is None else _iso(expires_ms),
        metadata={
            "outlast": {
                "request": request.id,
                "kind": request.kind,
                "agent": request.agent,
                "tool": request.name,
                "arguments": request.arguments,
                "risk": request.terms.risk,
                "allow": list(request.terms.allow),
                "votes": len(request.standing_votes),
                "votesNeeded": request.terms.quorum,
            }
        },
    )


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat().replace("+00:00", "Z")


def _written(event: BaseEvent) -> ServerSentEvent:
    return json_event(event.model_dump(by_alias=True))


def _state_of(entries: FeedReader) -> RunSnapshot:
    return entries.state
