"""Live streams of the API: one run, for the team or for its customer, as server-sent events.

Each event has the reader's position as its `id:`, and any process goes on from it.
"""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from pydantic import Field
from temporalio.client import Client

from outlast.agents.items.stream_events import AgentUpdatedStreamEvent, RunItemStreamEvent
from outlast.client.people.nested_requests import FoundRequest, found_requests
from outlast.client.read.events import ApprovalStreamEvent, NumberedEvent, StatusStreamEvent
from outlast.serve.access import Caller, Customer, redaction_for
from outlast.serve.bodies import InboxStreamQuery
from outlast.serve.content import whole_state
from outlast.serve.cursor import Cursor
from outlast.serve.feed import (
    Cut,
    Ended,
    FeedEntry,
    FeedReader,
    Happened,
    Snapshot,
    TextAdded,
    TextReset,
)
from outlast.serve.messages import stream_deadline
from outlast.serve.problems import problem_of
from outlast.serve.records import (
    AsideView,
    CustomerConversation,
    CustomerMessageView,
    InboxItem,
    ItemView,
    RequestView,
    RunView,
    TroubleView,
    UnreadView,
    View,
    aside_views,
    customer_conversation,
    item_view,
    request_view,
    run_view,
    trouble_views,
    unread_views,
)
from outlast.serve.routing import Desk
from outlast.serve.sse import EventStream, ServerSentEvent, json_event, stream_of
from outlast.serve.troubles import Watch, customer_trouble, seen_troubles
from outlast.temporal.visibility.scopes import RunScope
from outlast.views.customer import shows_text_in_progress
from outlast.views.proofs import ProofReader
from outlast.views.records import Person, Status
from outlast.views.run import RunSnapshot, has_nested, own_requests
from outlast.views.trouble import QUIET, ServerFacts, with_first_message

_NOT_NOW: Final = "The conversation cannot be read now. Try again in a moment."
_OPENED: Final = ServerSentEvent("")
"""Taken before the answer begins, so that a refusal still has its own status."""


# --- What the events say -------------------------------------------------------------------------


class SnapshotEvent(View):
    """`snapshot`: the run as it is now; it replaces all that the reader has."""

    run: RunView
    text: str = Field(description="The text in progress.")


class RunEvent(View):
    """`event`: something that happened in the run. It has one of the fields below `number`."""

    number: int = Field(description="The same for every reader, at any time.")
    clears_text: bool = Field(
        description="Whether the text in progress is over: items have it from now on."
    )
    item: ItemView | None = None
    agent: str | None = Field(default=None, description="The agent that is active now.")
    request: RequestView | None = None
    status: Status | None = None
    reason: str | None = Field(default=None, description="Why the run does not go on.")


class UnreadEvent(View):
    """`unread`: the messages that the run has not taken yet, all of them."""

    messages: list[UnreadView]


class AsideEvent(View):
    """`set_aside`: what the model does not read any more, all of it."""

    items: list[AsideView]


class TextEvent(View):
    """`text`: more of the text in progress."""

    text: str


class TroubleEvent(View):
    """`trouble`: what keeps the run from going on now; it replaces the list that the reader has."""

    trouble: list[TroubleView]


class ResetEvent(View):
    """`reset`: the text in progress is void."""


class EndedEvent(View):
    """`ended`: the run has ended; nothing follows, so do not come back."""

    status: Status | None = Field(default=None, description="For the team.")


class ConversationEvent(View):
    """`conversation`: what a customer sees from now on.

    The reader keeps the first `keep` messages that it has, and `messages` follow them.
    """

    keep: int
    messages: list[CustomerMessageView]
    unread: list[CustomerMessageView]
    works: bool
    has_ended: bool
    waits_for: str | None
    trouble: str | None = Field(
        description="What keeps it from going on, in words for the customer."
    )
    clears_text: bool = Field(
        description="Whether the text in progress is over: messages have it from now on."
    )


class InboxRemovedEvent(View):
    """`removed`: an entry of the inbox is gone."""

    id: str


class InboxEvent(View):
    """`inbox`: all entries, most urgent first; it replaces all that the reader has.

    Then `added` and `changed` have an entry each.
    """

    items: list[InboxItem]


class ErrorEvent(View):
    """`error`: it cannot be read now; come back with the id of the last event."""

    code: str
    message: str


EventName: TypeAlias = Literal[
    "snapshot",
    "event",
    "unread",
    "set_aside",
    "trouble",
    "conversation",
    "text",
    "reset",
    "ended",
    "error",
    "inbox",
    "added",
    "changed",
    "removed",
]

EVENTS: Final[dict[EventName, type[View]]] = {
    "snapshot": SnapshotEvent,
    "event": RunEvent,
    "unread": UnreadEvent,
    "set_aside": AsideEvent,
    "trouble": TroubleEvent,
    "conversation": ConversationEvent,
    "text": TextEvent,
    "reset": ResetEvent,
    "ended": EndedEvent,
    "error": ErrorEvent,
}
"""The events of a run's stream."""

INBOX_EVENTS: Final[dict[EventName, type[View]]] = {
    "inbox": InboxEvent,
    "added": InboxItem,
    "changed": InboxItem,
    "removed": InboxRemovedEvent,
    "error": ErrorEvent,
}
"""The events of the inbox's stream."""


def _event(name: EventName, view: View, cursor: Cursor | None) -> ServerSentEvent:
    return json_event(view.record(), event=name, cursor=None if cursor is None else str(cursor))


# --- The streams ---------------------------------------------------------------------------------


async def event_stream(
    desk: Desk, caller: Caller, run_id: str, after: Cursor | None
) -> EventStream:
    """Return the live stream of a run for a caller.

    Raises:
        TooManyReaders: the run has too many readers.
        RunNotFound: there is no such run.
    """
    if run_id not in desk.feed.followed:
        await desk.handle(run_id).check()
    if isinstance(caller, Customer):
        events = _with_errors(_customer_events(desk, run_id, after), _NOT_NOW)
    else:
        events = _with_errors(_staff_events(desk, caller, run_id, after))
    return await stream_of(events, until=stream_deadline(caller))


async def _with_errors(
    events: AsyncGenerator[ServerSentEvent], words: str = ""
) -> AsyncGenerator[ServerSentEvent]:
    """Yield events, and an error in the end: once the answer has begun, it has no status any more."""
    has_begun = False
    try:
        async with aclosing(events):
            async for event in events:
                yield event
                has_begun = True
    except Exception as error:
        if not has_begun:
            raise
        problem = problem_of(error)
        view = ErrorEvent(code=problem.code, message=words or problem.message)
        yield _event("error", view, None)


async def _staff_events(
    desk: Desk, caller: Caller, run_id: str, after: Cursor | None
) -> AsyncGenerator[ServerSentEvent]:
    proofs, lists = await desk.proofs(), _Lists(caller)
    see = partial(request_view, caller=caller, proofs=proofs)
    async with (
        desk.feed.reader(run_id, after) as entries,
        desk.troubles.watch(run_id, lambda: entries.state) as watch,
        aclosing(watch.beside(entries.changes())) as taken,
    ):
        yield _OPENED
        async for entry in taken:
            match entry:
                case Snapshot(cursor=cursor):
                    view = await _snapshot(desk, caller, entry, entries, watch.facts, proofs)
                    lists.has(view.run)
                    yield _event("snapshot", view, cursor)
                case Happened(cursor=cursor, event=event):
                    view = _run_event(event, cursor, entries.state, caller, see)
                    yield _event("event", view, cursor)
                case TextAdded(cursor=cursor, text=text):
                    # A hidden value may come in pieces, so its message is sent when it is whole.
                    if not redaction_for(caller, entries.state).texts:
                        yield _event("text", TextEvent(text=text), cursor)
                case TextReset(cursor=cursor):
                    yield _event("reset", ResetEvent(), cursor)
                case Ended(cursor=cursor, status=status):
                    yield _event("ended", EndedEvent(status=status), cursor)
                case Cut():
                    return
                case None:
                    pass
            for event in lists.changes(entries.state, watch.facts):
                yield event


class _Lists:
    """The lists of a run that its reader has, each of which is sent again when it changes."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._state: RunSnapshot | None = None
        self._facts = QUIET
        self._unread: list[UnreadView] = []
        self._aside: list[AsideView] = []
        self._trouble: list[TroubleView] = []

    def has(self, run: RunView) -> None:
        """Take note of the lists in a snapshot."""
        self._unread, self._aside, self._trouble = run.unread, run.set_aside, run.trouble

    def changes(self, state: RunSnapshot, facts: ServerFacts) -> Iterator[ServerSentEvent]:
        """Yield the lists that are others than those which the reader has."""
        if state is self._state and facts is self._facts:
            return  # as while a text is written
        self._state, self._facts = state, facts
        present = with_first_message(state, facts)
        unread, aside = unread_views(present, self._caller), aside_views(state, self._caller)
        trouble = trouble_views(seen_troubles(state, facts, self._caller), self._caller)
        if unread != self._unread:
            yield _event("unread", UnreadEvent(messages=unread), None)
        if aside != self._aside:
            yield _event("set_aside", AsideEvent(items=aside), None)
        if trouble != self._trouble:
            yield _event("trouble", TroubleEvent(trouble=trouble), None)
        self._unread, self._aside, self._trouble = unread, aside, trouble


async def _snapshot(
    desk: Desk,
    caller: Caller,
    entry: Snapshot,
    entries: FeedReader,
    facts: ServerFacts,
    proofs: ProofReader,
) -> SnapshotEvent:
    state = await whole_state(desk.client, with_first_message(entry.state, facts))
    # What nested runs have reported is not shown: anybody who reaches the server may report.
    nested = await found_requests(state, desk.client) if has_nested(state) else _own(state)
    found = seen_troubles(state, facts, caller)
    view = run_view(
        state,
        caller,
        requests=nested,
        steps=list(entries.steps),
        trouble=found,
        proofs=proofs,
    )
    text = "" if redaction_for(caller, state).texts else entry.text
    return SnapshotEvent(run=view, text=text)


def _own(state: RunSnapshot) -> tuple[FoundRequest, ...]:
    return tuple(FoundRequest(one, state) for one in own_requests(state))


def _run_event(
    event: NumberedEvent,
    cursor: Cursor,
    state: RunSnapshot,
    caller: Caller,
    see: Callable[[FoundRequest], RequestView],
) -> RunEvent:
    content: dict[str, Any]
    match event:
        case RunItemStreamEvent():
            content = {"item": item_view(event.entry, state, caller)}
        case AgentUpdatedStreamEvent():
            content = {"agent": event.new_agent.name}
        case ApprovalStreamEvent(request=request):
            content = {"request": see(FoundRequest(request, state))}
        case StatusStreamEvent():
            content = {"status": event.status, "reason": event.reason}
    return RunEvent(number=event.id, clears_text=not cursor.offset, **content)


# --- The inbox's stream --------------------------------------------------------------------------


async def inbox_stream(
    desk: Desk, person: Person, query: InboxStreamQuery, scopes: tuple[RunScope, ...] = ()
) -> EventStream:
    """Return the live inbox of a person. A reader that comes back gets all of it again.

    Args:
        desk: the desk.
        person: who reads it.
        query: what they want of it.
        scopes: the runs that they see; empty for all.
    """
    return await stream_of(_with_errors(_inbox_events(desk, person, query, scopes)))


async def _inbox_events(
    desk: Desk, person: Person, query: InboxStreamQuery, scopes: tuple[RunScope, ...]
) -> AsyncGenerator[ServerSentEvent]:
    before: dict[str, InboxItem] | None = None
    async with desk.inboxes.reader(desk.client, query.filter(person, scopes)) as reader:
        yield _OPENED
        async for entries in reader:
            now = {one.run_id: InboxItem.of(one) for one in entries if query.accepts(one)}
            if before is None:
                yield _event("inbox", InboxEvent(items=list(now.values())), None)
            else:
                for event in _inbox_changes(before, now):
                    yield event
            before = now


def _inbox_changes(
    before: dict[str, InboxItem], now: dict[str, InboxItem]
) -> Iterator[ServerSentEvent]:
    for run_id, item in now.items():
        if run_id not in before:
            yield _event("added", item, None)
        elif item != before[run_id]:
            yield _event("changed", item, None)
    for run_id in before.keys() - now.keys():
        yield _event("removed", InboxRemovedEvent(id=run_id), None)


# --- The customer's stream -----------------------------------------------------------------------


class _CustomerReader:
    """What the reader of a customer has, and so what it gets next.

    Text in progress is for customers only where nobody judges it, and all of it: a reader that has
    missed a part reads the message instead.
    """

    def __init__(self, client: Client, entries: FeedReader, watch: Watch) -> None:
        self._client = client
        self._entries = entries
        self._watch = watch
        self._sent: CustomerConversation | None = None
        self._hides_text = False

    async def take(self, entry: FeedEntry | None) -> AsyncGenerator[ServerSentEvent]:
        """Yield the events that an entry of the feed means, or a state without one."""
        match entry:
            case TextAdded():
                if self._sent is None:  # the reader came back in the middle of a text
                    yield await self._changed(None, clears_text=False)
                if self._may_read(entry):
                    yield _event("text", TextEvent(text=entry.text), entry.cursor)
            case Snapshot():
                allowed = shows_text_in_progress(entry.state, is_unjudged=entry.is_unjudged)
                self._hides_text = bool(entry.text) and not allowed
                at = None if entry.text else entry.cursor
                yield await self._changed(at, clears_text=True)
                if entry.text and allowed:
                    yield _event("text", TextEvent(text=entry.text), entry.cursor)
            case Happened(cursor=cursor):
                is_over = not cursor.offset
                self._hides_text = self._hides_text and not is_over
                at = None if self._hides_text else cursor
                yield await self._changed(at, clears_text=is_over)
            case TextReset(cursor=cursor):
                self._hides_text = False
                yield _event("reset", ResetEvent(), cursor)
            case Ended(cursor=cursor):
                yield await self._changed(None, clears_text=True)
                yield _event("ended", EndedEvent(), cursor)
            case _:
                yield await self._changed(None, clears_text=False)

    def _may_read(self, entry: TextAdded) -> bool:
        # The state says what is judged now. A text that has ended may have been judged since.
        is_past = entry.cursor.event < self._entries.recorded
        state = self._entries.state
        allowed = shows_text_in_progress(state, is_unjudged=entry.is_unjudged)
        self._hides_text = self._hides_text or is_past or not allowed
        return not self._hides_text

    async def _changed(self, at: Cursor | None, *, clears_text: bool) -> ServerSentEvent:
        """Return the event with what the reader lacks of the conversation."""
        facts = self._watch.facts
        present = with_first_message(self._entries.state, facts)
        state = await whole_state(self._client, present, files=False)
        trouble = customer_trouble(state, facts)
        before, now = self._sent, customer_conversation(state, trouble)
        self._sent = now
        had = before.messages if before is not None else []
        keep = _length_of_same(had, now.messages)
        messages = now.messages[keep:]
        view = ConversationEvent.of(now, keep=keep, messages=messages, clears_text=clears_text)
        return _event("conversation", view, at)


def _length_of_same(
    before: Sequence[CustomerMessageView], after: Sequence[CustomerMessageView]
) -> int:
    length = 0
    for one, other in zip(before, after, strict=False):
        if one != other:
            break
        length += 1
    return length


async def _customer_events(
    desk: Desk, run_id: str, after: Cursor | None
) -> AsyncGenerator[ServerSentEvent]:
    before: ServerSentEvent | None = None
    async with (
        desk.feed.reader(run_id, after) as entries,
        desk.troubles.watch(run_id, lambda: entries.state) as watch,
        aclosing(watch.beside(entries.changes())) as taken,
    ):
        yield _OPENED
        reader = _CustomerReader(desk.client, entries, watch)
        async for entry in taken:
            if isinstance(entry, Cut):
                return
            async with aclosing(reader.take(entry)) as events:
                async for event in events:
                    # Most of what happens in a run changes nothing for its customer.
                    if event.event == "text" or not _says_the_same(before, event):
                        yield event
                    before = event


def _says_the_same(before: ServerSentEvent | None, event: ServerSentEvent) -> bool:
    return before is not None and (before.event, before.data) == (event.event, event.data)
