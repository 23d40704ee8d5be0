"""What changed in a run from one state to the next: the vocabulary of all its readers.

Streams, the command line, the audit, notices and realtime lines are mappings of these changes. What
a change is called, and when it counts as one, is said here only.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from outlast.loop.approvals import ApprovalRequest, Claim, EscalationStep, Vote
from outlast.loop.aside import Aside
from outlast.loop.calls import Call, Parked, TriedModel, ViewSummary
from outlast.loop.case import Case, Comment, ReplyClock, new_comments
from outlast.loop.effects import EffectAnswered
from outlast.loop.events import Event
from outlast.loop.items import Item
from outlast.loop.notices import Delivered, NoticeReceipt, Undelivered
from outlast.loop.state import (
    Answer,
    Compacted,
    Hold,
    Ignored,
    LoopState,
    Receipt,
    Status,
    visible_item_count,
)
from outlast.loop.values import Failure, JsonObject

T = TypeVar("T")

# --- The conversation -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ItemsRecorded:
    """Items came to the transcript, the first of them at index `start`; readers may see them later."""

    start: int
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class ItemsShown:
    """Items that readers may see from now on.

    `dropped` are the places among them of outputs that a handoff's filter drops with the handoff.
    """

    items: tuple[Item, ...]
    dropped: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentChanged:
    """Another agent is active.

    Attributes:
        agent: the agent.
        before: the agent before it; empty for the first one.
        by: the agent or the person who had the conversation; empty at the start.
    """

    agent: str
    before: str
    by: str


@dataclass(frozen=True, slots=True)
class QuestionAnswered:
    """A question has an answer; `item` holds its text, if an item does."""

    answer: Answer
    item: Item | None


@dataclass(frozen=True, slots=True)
class QuestionFailed:
    """A question gets no answer."""

    agent: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class RunFailed:
    """The run failed outside of its questions."""

    agent: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class StatusChanged:
    """The status changed, or the steps that no worker can carry out, here or in a nested run.

    `was_blocked`: a step of the run itself was blocked before.
    """

    status: Status
    was_blocked: bool


@dataclass(frozen=True, slots=True)
class AttemptIgnored:
    """A signal, an update or a decision had no effect."""

    ignored: Ignored


# --- Waits for something outside of the run ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ViewCompacted:
    """A summary of the older part of what the model reads is there; the next call reads it.

    Attributes:
        made: what is known of it.
        items: the summary; empty for readers of states alone, and where there is none any more.
    """

    made: Compacted
    items: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, slots=True)
class ItemSetAside:
    """The model does not read an item any more, or reads it again.

    Attributes:
        aside: what it is, and why.
        item: the item; None if only the view has it, as it has a summary.
        back: a person took it back.
    """

    aside: Aside
    item: Item | None
    back: bool = False


@dataclass(frozen=True, slots=True)
class ModelReplaced:
    """The next of the agent's models is called, since one did not answer.

    Attributes:
        agent: the agent.
        tried: the model that did not answer.
        model: the name of the next one, for people to read.
    """

    agent: str
    tried: TriedModel
    model: str


@dataclass(frozen=True, slots=True)
class WaitBegan:
    """A call waits for something outside of the run, or waits as long again."""

    call: Call
    parked: Parked


@dataclass(frozen=True, slots=True)
class WaitEnded:
    """What a call waits for came, or did not come in time. It may come before the wait begins."""

    receipt: Receipt


# --- Approval requests ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RequestCreated:
    """The request is new."""


@dataclass(frozen=True, slots=True)
class ClaimChanged:
    """Another person works on the request, or nobody does any more."""

    before: Claim | None
    claim: Claim | None


@dataclass(frozen=True, slots=True)
class VoteCast:
    """A person decided about the request."""

    vote: Vote


@dataclass(frozen=True, slots=True)
class ArgumentsChanged:
    """A person edited the arguments, so that earlier votes do not count. `votes` is their number."""

    vote: Vote
    votes: int


@dataclass(frozen=True, slots=True)
class Reminded:
    """People were to be reminded of the request, at `due_at_ms`."""

    due_at_ms: int | None


@dataclass(frozen=True, slots=True)
class Escalated:
    """Further people may decide; the newest step was due at `due_at_ms`."""

    steps: tuple[EscalationStep, ...]
    due_at_ms: int


@dataclass(frozen=True, slots=True)
class RequestSettled:
    """The request was decided, expired, or is not needed any more.

    Attributes:
        waited: whether it waited for people. A blocked step that they give up has no request before.
        due_at_ms: when it would have expired.
    """

    waited: bool
    due_at_ms: int | None


RequestChange: TypeAlias = (
    RequestCreated
    | ClaimChanged
    | VoteCast
    | ArgumentsChanged
    | Reminded
    | Escalated
    | RequestSettled
)


@dataclass(frozen=True, slots=True)
class RequestUpdated:
    """A request of the run is new or different.

    Attributes:
        request: the request as it is now.
        changes: what happened to it; empty if only its times were moved.
    """

    request: ApprovalRequest
    changes: tuple[RequestChange, ...]


# --- Takeovers and notices ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HoldTaken:
    """A person has the conversation; `before` had it until then, or the agent if it is empty."""

    by: str
    before: str


@dataclass(frozen=True, slots=True)
class HolderSpoke:
    """The person who has the conversation said something to the user."""

    by: str


@dataclass(frozen=True, slots=True)
class HolderAwaited:
    """The user wrote, and waits for the person who has the conversation."""

    by: str


@dataclass(frozen=True, slots=True)
class HoldReleased:
    """A person gave the conversation back."""

    by: str


@dataclass(frozen=True, slots=True)
class ReplyDue:
    """The time for a person's reply is nearly over, or over.

    Attributes:
        by: who has the conversation: a person, or a team.
        since_ms: since when the customer waits.
        due_ms: when that was due.
        late: the time is over.
    """

    by: str
    since_ms: int
    due_ms: int
    late: bool


@dataclass(frozen=True, slots=True)
class CaseChanged:
    """The conversation is another person's, was commented, put off or resolved, or came back.

    `given_back`: the person who had it gave it back by this.
    """

    before: Case
    after: Case
    given_back: bool = False


@dataclass(frozen=True, slots=True)
class Mentioned:
    """A comment mentions colleagues, who hear of it.

    `number` tells it from other comments of the same moment.
    """

    comment: Comment
    number: int


@dataclass(frozen=True, slots=True)
class NoticeUndelivered:
    """Nobody has heard of a notice."""

    notice: Undelivered


@dataclass(frozen=True, slots=True)
class NoticeDelivered:
    """A notifier took a notice."""

    notice: Delivered


HoldChange: TypeAlias = HoldTaken | HolderSpoke | HolderAwaited | HoldReleased
PeopleChange: TypeAlias = RequestUpdated | HoldChange | ReplyDue | Mentioned
RunChange: TypeAlias = (
    ItemsRecorded
    | ItemsShown
    | AgentChanged
    | PeopleChange
    | ViewCompacted
    | ItemSetAside
    | CaseChanged
    | ModelReplaced
    | WaitBegan
    | WaitEnded
    | QuestionAnswered
    | QuestionFailed
    | RunFailed
    | StatusChanged
    | AttemptIgnored
    | NoticeUndelivered
    | NoticeDelivered
)


# --- Comparing states -----------------------------------------------------------------------------


def run_changes(before: LoopState, event: Event | None, after: LoopState) -> Iterator[RunChange]:
    """Yield what changed with an event, in an order in which people can read it.

    Args:
        before: the state before the event; an empty one for the first state that can be read.
        event: the event; None for the first state of a history, and for readers of states alone.
        after: the state after the event.
    """
    if after is not before:
        yield from _conversation_changes(before, after)
        yield from _compactions(before, event, after)
        if after.aside is not before.aside:
            yield from _asides(before, after)
        if after.case is not before.case and after.case != before.case:
            given_back = before.hold is not None and after.hold is None
            yield CaseChanged(before.case, after.case, given_back)
        yield from (
            ModelReplaced(after.agent, one, after.model)
            for one in _newest(before.question.tried, after.question.tried)
        )
        yield from people_changes(before, after)
        yield from _wait_changes(before, after)
        yield from _outcome_changes(before, after)
        yield from map(AttemptIgnored, _newest(before.ignored, after.ignored))
        yield from map(NoticeUndelivered, _newest(before.undelivered, after.undelivered))
    if isinstance(event, EffectAnswered) and isinstance(event.result, NoticeReceipt):
        yield from map(NoticeDelivered, event.result.delivered)


def people_changes(before: LoopState, after: LoopState) -> Iterator[PeopleChange]:
    """Yield what changed for the people of a run: its requests, and who has the conversation.

    The loop asks after every event, so a step without such changes costs next to nothing.
    """
    if after.approvals is not before.approvals:
        earlier = {request.id: request for request in before.approvals}
        for request in after.approvals:
            known = earlier.get(request.id)
            if request is not known and request != known:
                yield RequestUpdated(request, tuple(_request_changes(known, request)))
    if after.hold is not None:
        yield from _hold_changes(before, after, after.hold)
    elif before.hold is not None:
        yield HoldReleased(before.hold.by)
    if after.case.reply is not None and after.case is not before.case:
        yield from _reply_changes(before, after, after.case.reply)
    if after.notifies_mentions and after.case is not before.case:
        for one in new_comments(before.case, after.case):
            if one.mentions:
                at_once = [other for other in after.case.comments if other.at_ms == one.at_ms]
                yield Mentioned(one, len(at_once))


def _reply_changes(before: LoopState, after: LoopState, clock: ReplyClock) -> Iterator[ReplyDue]:
    earlier = before.case.reply
    known = (False, False) if earlier is None else (earlier.warned, earlier.late)
    if not clock.warned or known == (clock.warned, clock.late):
        return
    due_ms = clock.due_ms if clock.late else clock.warn_ms
    by = after.hold.by if after.hold is not None else after.case.to or after.case.team
    yield ReplyDue(by, clock.since_ms, due_ms or clock.since_ms, clock.late)


def _conversation_changes(before: LoopState, after: LoopState) -> Iterator[RunChange]:
    if recorded := after.items[len(before.items) :]:
        yield ItemsRecorded(len(before.items), recorded)
    start = visible_item_count(before)
    if shown := after.items[start : visible_item_count(after)]:
        hidden = [at - start for at in after.hidden[len(before.hidden) :] if at >= start]
        outputs = [at for at in hidden if shown[at].kind == "handoff_output"]
        yield ItemsShown(shown, tuple(outputs))
    if after.handoff_path is not before.handoff_path:
        by = before.agent if before.hold is None else before.hold.by
        path = ("", *after.handoff_path)
        for at in range(len(before.handoff_path), len(after.handoff_path)):
            yield AgentChanged(path[at + 1], path[at], by)


def _compactions(
    before: LoopState, event: Event | None, after: LoopState
) -> Iterator[ViewCompacted]:
    if after.compaction is before.compaction:
        return
    result = event.result if isinstance(event, EffectAnswered) else None
    items = result.items if isinstance(result, ViewSummary) else ()
    for made in after.compaction.made[len(before.compaction.made) :]:
        if made.entries:  # otherwise the view stays as it is
            yield ViewCompacted(made, items)


def _asides(before: LoopState, after: LoopState) -> Iterator[ItemSetAside]:
    for ones, others, back in ((after, before, False), (before, after, True)):
        known = {one.place for one in others.aside}
        for one in ones.aside:
            if one.place not in known:
                item = None if one.item is None else after.items[one.item]
                yield ItemSetAside(one, item, back)


def _request_changes(
    known: ApprovalRequest | None, after: ApprovalRequest
) -> Iterator[RequestChange]:
    before = known or _as_created(after)
    if known is None:
        yield RequestCreated()
    if after.claim != before.claim:
        yield ClaimChanged(before.claim, after.claim)
    yield from map(VoteCast, after.votes[len(before.votes) :])
    if after.args_digest != before.args_digest:
        yield ArgumentsChanged(after.votes[-1], len(after.votes))
    if after.reminders > before.reminders:
        yield Reminded(before.remind_at_ms)
    if after.escalated > before.escalated:
        steps = after.terms.escalations[before.escalated : after.escalated]
        due = after.counts_from_ms + steps[-1].after_ms
        yield Escalated(steps, min(due, before.expires_at_ms or due))
    if before.status == "pending" != after.status:
        yield RequestSettled(waited=known is not None, due_at_ms=before.expires_at_ms)


def _as_created(request: ApprovalRequest) -> ApprovalRequest:
    """Return a request without what has happened to it; its times stay as they are."""
    return replace(request, claim=None, votes=(), reminders=0, escalated=0, status="pending")


def _wait_changes(before: LoopState, after: LoopState) -> Iterator[WaitBegan | WaitEnded]:
    if after.receipts is not before.receipts:  # one whose early value did not fit is dropped
        earlier = set(before.receipts)
        yield from (WaitEnded(one) for one in after.receipts if one not in earlier)
    known = [_begun(one, one.outside) for one in before.calls if one.outside is not None]
    for call in after.calls:
        parked = call.outside
        if parked is not None and _begun(call, parked) not in known:
            yield WaitBegan(call, parked)


def _begun(call: Call, parked: Parked) -> tuple[str, str, int]:
    """Return what tells the beginning of a wait from that of another."""
    return call.call_id, parked.wait.name, parked.since_ms


def _hold_changes(before: LoopState, after: LoopState, hold: Hold) -> Iterator[HoldChange]:
    earlier = before.hold
    if earlier is None or hold.by != earlier.by:
        yield HoldTaken(hold.by, before="" if earlier is None else earlier.by)
    if len(hold.said) > (0 if earlier is None else len(earlier.said)):
        yield HolderSpoke(hold.by)
    if earlier is not None and _user_waits(after) and not _user_waits(before):
        yield HolderAwaited(earlier.by)


def _user_waits(state: LoopState) -> bool:
    return bool(state.inbox or state.question.answering)


def _outcome_changes(before: LoopState, after: LoopState) -> Iterator[RunChange]:
    answers = after.answers[len(before.answers) :]
    for answer in answers:
        if answer.failure is not None:
            yield QuestionFailed(answer.agent, answer.failure)
        else:
            item = None if answer.item is None else after.items[answer.item]
            yield QuestionAnswered(answer, item)
    if not answers and after.failure is not None and after.failure != before.failure:
        yield RunFailed(after.agent, after.failure)
    if after.status != before.status or _blocked(after) != _blocked(before):
        yield StatusChanged(after.status, was_blocked=bool(before.blocked))


def _blocked(state: LoopState) -> list[tuple[object, ...]]:
    """Return what no worker can carry out, as readers tell it apart."""
    if not state.blocked and not state.nested:
        return []
    own = [(one.effect, one.lacks) for one in state.blocked]
    requests = (one for made in state.nested for one in made.requests if one.kind == "worker")
    return [*own, *((one.name, one.agent, one.reason) for one in requests)]


def _newest(before: tuple[T, ...], after: tuple[T, ...]) -> tuple[T, ...]:
    """Return what was added at the end of a tuple that only keeps its newest entries."""
    if after is before:
        return ()
    kept = min(len(before), len(after))
    while before[len(before) - kept :] != after[:kept]:
        kept -= 1
    return after[kept:]
