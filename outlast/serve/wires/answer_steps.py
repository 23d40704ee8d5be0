"""The answer to one message as steps, for the wires: what each caller may see of it, in order.

    feed entries -> AnswerSteps -> steps, each at a place -> events of a wire

A wire's client keeps what it has read, and comes back to any process. So the same entries give the
same steps at the same places everywhere, and only text in progress, which may become void, has to be
compared with what a client has.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from outlast.agents.items.raw_items import is_cut_short
from outlast.agents.items.run_items import raw_of
from outlast.agents.items.stream_events import RunItemStreamEvent
from outlast.agents.json_values import as_object, is_list
from outlast.client.people.nested_requests import FoundRequest
from outlast.client.read.events import ApprovalStreamEvent, NumberedEvent, StatusStreamEvent
from outlast.contract.failures import CANCELLED
from outlast.serve.access import Caller, Staff, Target, may, redaction_for, request_for
from outlast.serve.feed import (
    Ended,
    FeedEntry,
    FeedReader,
    Happened,
    TextAdded,
    TextReset,
)
from outlast.serve.wires.call_ids import CallIds
from outlast.serve.wires.steps import (
    Finished,
    GoesOn,
    Place,
    Reason,
    Reasoned,
    RequestChanged,
    Seen,
    Step,
    TextBegun,
    TextDone,
    TextHidden,
    TextPiece,
    TextVoid,
    ToolAnswered,
    ToolCalled,
    text_check,
)
from outlast.views.acts import canonical_name
from outlast.views.customer import customer_view, shows_text_in_progress
from outlast.views.records import Answer, ApprovalRequest, Failure, Item, JsonObject, Status
from outlast.views.redaction import NOTHING
from outlast.views.run import RunSnapshot
from outlast.views.transcript import arguments_of, call_id_of, name_of, refusal_of, text_of

_OF_REPLIES: Final = frozenset(
    {"reasoning", "tool_call", "tool_output", "handoff_call", "handoff_output", "draft"}
)
"""Kinds of items of which none comes while a model writes."""

_BETWEEN_MESSAGES: Final = "\n\n"

MOST_VOIDS: Final = 14
LONGEST_IN_PROGRESS: Final = 1 << 20
"""Bounds of places. After so many void texts, and from so many characters on, a text comes in whole."""


@dataclass(slots=True)
class _OpenText:
    """The message in progress, as the client has it.

    Attributes:
        shown: all of it.
        complete: the length of those messages in it that are complete: a reply may have several.
    """

    shown: str = ""
    complete: int = 0


class AnswerSteps:
    """Turns what a feed says into the steps of one answer.

    Args:
        caller: who reads.
        message_id: the message that is answered.
        goes_on: where the answer goes on after a decision; None to begin where the message arrived.
        seen: how far the client has read; steps up to there may come again.
        only_open: whether an answer that was over, because the caller had to decide, goes on once
            that is decided; if not, it stays over.
    """

    def __init__(
        self,
        caller: Caller,
        message_id: str,
        *,
        goes_on: GoesOn | None = None,
        seen: Seen | None = None,
        only_open: bool = False,
    ) -> None:
        self.is_over: bool = False
        self.calls: dict[str, Item] = {}  # by their ids for clients
        self.requests: dict[str, ApprovalRequest] = {}
        self.begins = None if goes_on is None else goes_on.event
        self._ids = CallIds()
        self._hides = NOTHING
        self._hides_for: object = None
        self._caller = caller
        self._message_id = message_id
        self._goes_on = goes_on
        self._voids = 0
        self._seen = seen
        self._is_past = seen is None
        self._seen_text = seen if seen is not None and seen.kind == "text" else None
        self._only_open = only_open
        self._is_team = isinstance(caller, Staff)
        self._sees_payloads = self._is_team and may(caller, "view_payloads") is None
        self._waiting: deque[FeedEntry] = deque()
        self._at = 0
        self._status: Status = "running"
        self._text = ""
        self._reply = ""
        self._open: _OpenText | None = None

    def take(self, entry: FeedEntry, reader: FeedReader) -> Iterator[Step]:
        """Yield the steps that an entry leads to."""
        self._waiting.append(entry)
        yield from self.catch_up(reader)

    def catch_up(self, reader: FeedReader) -> Iterator[Step]:
        """Yield the steps that became possible, also without an entry: the state may be newer."""
        if self._is_team and self._hides_for is not reader.state.approvals:
            self._hides_for = reader.state.approvals
            self._hides = redaction_for(self._caller, reader.state)
        yield from self._begin(reader)
        while self._waiting and not self.is_over:
            entry = self._waiting[0]
            if self._has_ended(reader) or not self._can_show(entry, reader):
                break
            self._waiting.popleft()
            yield from self._process(entry, reader)
            yield from self._begin(reader)
        if self.is_over:
            return
        if self._has_ended(reader):
            yield from self._finish_answer(reader)
        elif reader.state.outcome is not None and self._at >= reader.recorded:
            yield from self._finish_run(reader)  # the end of the feed may come later

    def arguments(self, call: Item) -> str:
        """Return the arguments of a call as people may see them, as JSON text."""
        return self._hides.call(call.agent, name_of(call.raw), arguments_of(call.raw))

    # --- Requests of nested runs ----------------------------------------------------------------

    def ask(self, found: Sequence[FoundRequest], reader: FeedReader) -> Iterator[Step]:
        """End the answer if the caller has to decide requests that wait in nested runs."""
        if self.is_over or not self._begun(self._at) or reader.state.status != "waiting":
            return
        own = tuple(
            request_for(self._caller, one.request, one.state)
            for one in found
            if self._may_decide(one.request, one.state)
        )
        if own:
            yield from self._finish(self._at, "asks", requests=own)

    def show(self, found: FoundRequest) -> Iterator[Step]:
        """Show what has become of a request of a nested run."""
        if self._may_decide(found.request, found.state, at_any_time=True):
            yield RequestChanged(
                self._place(self._at), request_for(self._caller, found.request, found.state)
            )

    # --- The range of the answer ----------------------------------------------------------------

    def _begin(self, reader: FeedReader) -> Iterator[Step]:
        """Find the first event of the answer; the answer is over if the caller has to decide first."""
        if self.begins is None:
            found = reader.answer_range(self._message_id)
            self.begins = None if found is None else found.begins
        if self._goes_on is None and self._at == self.begins and self._status == "waiting":
            yield from self._ask(reader)

    def _has_ended(self, reader: FeedReader) -> bool:
        found = reader.answer_range(self._message_id)
        return found is not None and found.ends is not None and self._at >= found.ends

    def _place(self, event: int, offset: int = 0) -> Place:
        at = event - (self.begins or 0)
        if self._seen is not None and not self._is_past and at >= self._seen.place.event:
            # Void texts that this process never had are counted by the client.
            self._is_past, self._voids = True, self._seen.place.voids
        return Place(at, self._voids, offset)

    # --- Entries --------------------------------------------------------------------------------

    def _process(self, entry: FeedEntry, reader: FeedReader) -> Iterator[Step]:
        match entry:
            case TextAdded(text=text):
                if self._reply:  # the reply before has ended, and no item had it
                    yield from self._void(entry.cursor.event)
                    self._reply = ""
                self._text += text
                if self._begun(entry.cursor.event) and self._shows(entry, reader):
                    yield from self._show(self._hides.draft(self._text), entry.cursor.event)
            case TextReset():
                self._text = ""
                if self._begun(entry.cursor.event):
                    yield from self._void(entry.cursor.event)
            case Happened(cursor=cursor, event=event):
                if self._text and not cursor.offset:
                    reply = self._hides.text(self._text)
                    yield from self._resume(reply, event.id, is_complete=True)
                    # The message that is answered may have come after the text began.
                    if self._begun(event.id) and self._is_team and self._has_room():
                        yield from self._show(reply, event.id)
                    self._reply, self._text = reply, ""
                self._at = event.id + 1
                yield from self._happened(event, reader)
            case Ended():
                yield from self._finish_run(reader)
            case _:
                pass

    def _begun(self, event: int) -> bool:
        return self.begins is not None and event >= self.begins

    def _happened(self, event: NumberedEvent, reader: FeedReader) -> Iterator[Step]:
        begun = self._begun(event.id)
        place = self._place(event.id + 1) if begun else Place()
        match event:
            case StatusStreamEvent(status=status):
                self._status = status
                if begun and status == "waiting":
                    yield from self._ask(reader)
            case ApprovalStreamEvent(request=request):
                request = replace(
                    request_for(self._caller, request, reader.state),
                    call_id=self._ids.asked(request),
                )
                self.requests[request.id] = request
                if begun and self._may_decide(request, reader.state, at_any_time=True):
                    yield RequestChanged(place, request)
                if begun and self._status == "waiting":
                    yield from self._ask(reader)  # another one may be left
            case RunItemStreamEvent(entry=Item() as item):
                call_id = self._call_id(item)
                if item.kind == "tool_call":
                    self.calls[call_id] = item
                if begun:
                    if item.kind in _OF_REPLIES:
                        yield from self._resume("", event.id, is_complete=True)
                    yield from self._item(event, item, call_id, reader)
            case _:
                pass

    def _call_id(self, item: Item) -> str:
        """Return the id of a call for clients, or of the call that an output is of."""
        match item.kind:
            case "tool_call":
                return self._ids.called(call_id_of(item.raw), name_of(item.raw), item.turn)
            case "tool_output":
                return self._ids.answered(call_id_of(item.raw))
            case _:
                return ""

    def _item(
        self, event: RunItemStreamEvent, item: Item, call_id: str, reader: FeedReader
    ) -> Iterator[Step]:
        raw, place = raw_of(event.item), self._place(event.id + 1)
        match item.kind:
            case "message":
                text = text_of(raw) or refusal_of(raw) or ""
                if text and (self._is_team or self._is_visible(item, reader)):
                    yield from self._message(text, event.id, place, is_cut=is_cut_short(raw))
                elif text:
                    yield from self._resume("", event.id, is_complete=True)
                    yield TextHidden(place)
            case "reasoning" if self._sees_payloads:
                yield Reasoned(place, self._hides.text(_reasoning(raw)))
            case "tool_call" if self._sees_payloads:
                yield ToolCalled(place, call_id, replace(item, raw=raw))
            case "tool_output" if self._sees_payloads:
                newest_first = reversed(self.requests.values())
                request = next((one for one in newest_first if one.call_id == call_id), None)
                call = self.calls.get(call_id)
                raw = {**raw, "output": self._hides.json(raw.get("output"))}
                arguments = "" if call is None else self.arguments(call)
                output = replace(item, raw=raw)
                yield ToolAnswered(place, call_id, call, arguments, output, request)
            case _:
                pass

    # --- What customers may see -----------------------------------------------------------------

    def _can_show(self, entry: FeedEntry, reader: FeedReader) -> bool:
        """Whether it is certain what the caller sees: guardrails may not have passed a message yet."""
        if self._is_team or not isinstance(entry, Happened):
            return True
        event = entry.event
        if not isinstance(event, RunItemStreamEvent) or not self._begun(event.id):
            return True
        if event.entry.kind != "message":
            return True
        found = reader.answer_range(self._message_id)
        is_over = found is None or found.ends is not None or reader.state.outcome is not None
        return is_over or self._is_visible(event.entry, reader)

    def _is_visible(self, item: Item, reader: FeedReader) -> bool:
        items = reader.state.items
        at = next((at for at in reversed(range(len(items))) if items[at] is item), None)
        if at is None:  # the large content of the item was moved since
            at = next((at for at, one in enumerate(items) if one == item), None)
        return any(one.id == f"i{at}" for one in customer_view(reader.state).messages)

    def _shows(self, entry: TextAdded, reader: FeedReader) -> bool:
        if not self._has_room():
            return False
        # A reply that is recorded is shown as a message, once guardrails have passed it.
        is_in_progress = entry.cursor.event == reader.recorded
        return self._is_team or (
            is_in_progress and shows_text_in_progress(reader.state, is_unjudged=entry.is_unjudged)
        )

    def _has_room(self) -> bool:
        return self._voids <= MOST_VOIDS and len(self._text) < LONGEST_IN_PROGRESS

    def _may_decide(
        self, request: ApprovalRequest, state: RunSnapshot, *, at_any_time: bool = False
    ) -> bool:
        caller = self._caller
        if not isinstance(caller, Staff) or request.terms.takeover or request.kind == "worker":
            return False
        asked = replace(request, status="pending", claim=None) if at_any_time else request
        target = Target(
            run_id=state.run_id,
            state=state,
            request=asked,
            at_ms=request.requested_at_ms,
            authors=request.authors,  # whoever writes the next question may decide about this one
        )
        own = canonical_name(caller.person.subject)
        voters = {canonical_name(vote.decision.by or "") for vote in request.standing_votes}
        if not at_any_time and own in voters:
            return False
        return may(caller, "decide", target) is None

    # --- The message in progress ----------------------------------------------------------------

    def _show(self, whole: str, event: int) -> Iterator[Step]:
        yield from self._resume(whole, event)
        if self._is_unknown(event):
            return  # until this text is as long as the one that the client has
        if self._open is not None and not whole.startswith(self._open.shown):
            yield from self._void(event)  # a policy hides since then what the text began with
        if self._open is None:
            self._open = _OpenText()
            yield TextBegun(self._place(event))
        piece = whole[len(self._open.shown) :]
        if piece:
            self._open.shown = whole
            yield TextPiece(self._place(event, len(whole)), piece, whole)

    def _is_unknown(self, event: int) -> bool:
        """Whether it is not known yet what has become of the message that the client has."""
        seen = self._seen_text
        return (
            seen is not None and self.begins is not None and event - self.begins >= seen.place.event
        )

    def _resume(self, whole: str, event: int, *, is_complete: bool = False) -> Iterator[Step]:
        """Go on with the message that the client has, if this is the one; else it is void."""
        seen = self._seen_text
        if seen is None or not self._is_unknown(event):
            return
        length = seen.place.offset
        if len(whole) < length and not is_complete:
            return
        if self._open is not None:  # one from before
            yield from self._void(event)
        begun = whole[:length]
        self._seen_text = None
        self._place(event)
        self._open = _OpenText()
        yield TextBegun(replace(seen.place, offset=0))
        if whole and len(begun) == length and text_check(begun) == seen.check:
            self._open.shown = begun
            if begun:
                yield TextPiece(seen.place, begun, begun)
        else:
            yield from self._void(event)

    def _void(self, event: int) -> Iterator[Step]:
        if self._open is None:
            return
        if self._open.complete:
            yield from self._close(event)
            return
        self._open = None
        seen = self._seen
        if seen is not None and self._is_unknown(event):
            yield TextVoid(replace(seen.place, offset=0))  # before what the client has
            return
        place = self._place(event)
        is_seen = seen is not None and place.event == seen.place.event
        if seen is not None and is_seen and seen.kind in {"void", "finish"}:
            yield TextVoid(place)  # the client has counted it
            return
        self._voids += 1
        yield TextVoid(replace(place, voids=self._voids))

    def _close(self, event: int) -> Iterator[Step]:
        """End a message of which not all parts have come as items."""
        opened = self._open
        if opened is None:
            return
        text = opened.shown[: opened.complete]
        if text != opened.shown:
            opened.complete = 0
            yield from self._void(event)
            yield from self._show(text, event)
        self._open = None
        yield TextDone(self._place(event, len(text) + 1), text)

    def _message(
        self, text: str, event: int, place: Place, *, is_cut: bool = False
    ) -> Iterator[Step]:
        """Complete the message in progress if it is this one; else show this one in whole."""
        text = self._hides.text(text)
        opened, before = self._open, ""
        if opened is not None and opened.complete:
            before = opened.shown[: opened.complete] + _BETWEEN_MESSAGES
        whole = before + text
        yield from self._resume(whole, event, is_complete=True)
        opened = self._open
        more = self._reply.startswith(whole + _BETWEEN_MESSAGES)
        if opened is not None and opened.shown.startswith(whole + _BETWEEN_MESSAGES) and more:
            opened.complete = len(whole)
            return
        if opened is not None and not whole.startswith(opened.shown):
            yield from self._void(event)
            whole = text
        yield from self._show(whole, event)
        self._open, self._reply = None, ""
        yield TextDone(replace(place, voids=self._voids), whole, is_cut)

    # --- The end --------------------------------------------------------------------------------

    def _ask(self, reader: FeedReader) -> Iterator[Step]:
        if self.is_over or (self._goes_on is not None and self._at < self._goes_on.decided):
            return
        known = self.requests.values()
        if self._only_open:
            known = tuple(
                replace(
                    request_for(self._caller, one, reader.state),
                    call_id=self.requests[one.id].call_id,
                )
                for one in reader.state.approvals
                if one.id in self.requests
            )
        requests = tuple(
            one for one in known if one.status == "pending" and self._may_decide(one, reader.state)
        )
        if requests:
            yield from self._finish(self._at, "asks", requests=requests)

    def _finish_answer(self, reader: FeedReader) -> Iterator[Step]:
        state = reader.state
        found = reader.answer_range(self._message_id)
        end = self._at if found is None or found.ends is None else found.ends
        answer = answer_of(state, self._message_id)
        failure = None if answer is None else answer.failure
        if answer is not None and failure is None and (text := _text_elsewhere(state, answer)):
            yield from self._message(text, end, self._place(end + 1))
            end += 1
        reason: Reason = "answered" if failure is None else "failed"
        if failure is not None and failure.code == CANCELLED:
            reason = "cancelled"
        at = None if answer is None or failure is not None else answer.item
        is_cut = at is not None and is_cut_short(state.items[at].raw)
        yield from self._finish(end, reason, failure, is_cut=is_cut)

    def _finish_run(self, reader: FeedReader) -> Iterator[Step]:
        outcome, failure = reader.state.outcome, reader.state.failure
        reason: Reason = "failed" if outcome in {"failed", "terminated"} else "ended"
        reason = "cancelled" if outcome == "cancelled" else reason
        yield from self._finish(self._at, reason, failure)

    def _finish(
        self,
        event: int,
        reason: Reason,
        failure: Failure | None = None,
        requests: tuple[ApprovalRequest, ...] = (),
        *,
        is_cut: bool = False,
    ) -> Iterator[Step]:
        yield from self._resume("", event, is_complete=True)
        closes = self._open is not None and self._open.complete > 0
        yield from self._void(event)
        self.is_over = True
        if failure is not None:
            failure = replace(failure, message=self._hides.text(failure.message))
        place = self._place(event + closes)
        yield Finished(place, reason, failure, requests, event, is_cut)


def answer_of(state: RunSnapshot, message_id: str) -> Answer | None:
    """Return the newest answer to a message; None without one."""
    answers = (one for one in reversed(state.answers) if message_id in one.to)
    return next(answers, None)


def _text_elsewhere(state: RunSnapshot, answer: Answer) -> str:
    """Return the text of an answer that is no message, such as the output of a tool."""
    if answer.item is not None and state.items[answer.item].kind == "message":
        return ""
    if answer.item is None and answer is not state.answers[-1]:
        return ""  # only the newest one is kept
    own = f"a{len(state.answers)}" if answer.item is None else f"i{answer.item}"
    return next((one.text for one in customer_view(state).messages if one.id == own), "")


def _reasoning(raw: JsonObject) -> str:
    found: Any = raw.get("summary") or raw.get("content")
    texts = (
        str((as_object(one) or {}).get("text") or "") for one in (found if is_list(found) else ())
    )
    return "\n\n".join(text for text in texts if text)
