"""The notices of a step: what people hear of the changes of a run."""

from collections.abc import Iterator
from typing import Final

from outlast.loop.approvals import ApprovalRequest, ApprovalStatus
from outlast.loop.notices import Notice, NoticeEvent
from outlast.loop.run_changes import (
    ArgumentsChanged,
    Escalated,
    HolderAwaited,
    HoldReleased,
    HoldTaken,
    Reminded,
    RequestChange,
    RequestCreated,
    RequestSettled,
    RequestUpdated,
    people_changes,
)
from outlast.loop.state import LoopState

_ENDS: Final[dict[ApprovalStatus, NoticeEvent]] = {
    "approved": "decided",
    "edited": "decided",
    "rejected": "decided",
    "responded": "decided",
    "expired": "expired",
    "cancelled": "cancelled",
    "superseded": "cancelled",
}


def notices(before: LoopState, after: LoopState, at_ms: int) -> tuple[Notice, ...]:
    """Return the notices of a step: those of requests, in their order, and of a takeover.

    Runs that were prepared by an earlier version do not tell that the user waits.

    Args:
        before: the state before the step.
        after: the state after it.
        at_ms: the time of the step, in milliseconds since the epoch.
    """
    found: list[Notice] = []
    for change in people_changes(before, after):
        match change:
            case RequestUpdated():
                found += _notices_of(change)
            case HoldTaken(by=by):
                found.append(Notice(event="held", number=at_ms, by=by, at_ms=at_ms))
            case HoldReleased(by=by):
                found.append(Notice(event="released", number=at_ms, by=by, at_ms=at_ms))
            case HolderAwaited(by=by) if after.notifies_later:
                found.append(Notice(event="waiting", number=at_ms, by=by, at_ms=at_ms))
            case _:
                pass
    return (*found, *_of_reply(before, after))


def _of_reply(before: LoopState, after: LoopState) -> Iterator[Notice]:
    """Yield that the time for a reply is nearly over, or over; one of the two at a time."""
    was, now = before.case.reply, after.case.reply
    if (
        now is None
        or not now.warned
        or (was is not None and (was.warned, was.late) == (now.warned, now.late))
    ):
        return
    event: NoticeEvent = "reply_late" if now.late else "reply_due"
    due_ms = now.due_ms if now.late else now.warn_ms
    case = after.case
    by = after.hold.by if after.hold is not None else case.to or case.team
    yield Notice(event=event, number=now.since_ms, by=by, at_ms=due_ms or now.since_ms)


def _notices_of(update: RequestUpdated) -> Iterator[Notice]:
    # A reminder comes after an escalation, whose people it reaches, too.
    for change in sorted(update.changes, key=lambda one: isinstance(one, Reminded)):
        if isinstance(change, RequestSettled):
            if change.waited:
                yield _end(update.request, change)
        elif update.request.status == "pending":
            yield from _while_pending(update.request, change)


def _while_pending(request: ApprovalRequest, change: RequestChange) -> Iterator[Notice]:
    match change:
        case RequestCreated():
            yield Notice(event="created", request=request, at_ms=request.requested_at_ms)
        case ArgumentsChanged(vote=vote, votes=number):
            by, at_ms = vote.decision.by, vote.at_ms
            yield Notice(event="changed", number=number, request=request, by=by, at_ms=at_ms)
        case Escalated(due_at_ms=at_ms):
            number = request.escalated
            yield Notice(event="escalated", number=number, request=request, at_ms=at_ms)
        case Reminded(due_at_ms=due):
            at_ms, number = due or request.requested_at_ms, request.reminders
            yield Notice(event="reminder", number=number, request=request, at_ms=at_ms)
        case _:
            pass


def _end(request: ApprovalRequest, change: RequestSettled) -> Notice:
    event = _ENDS[request.status]
    at_ms = request.decided_at_ms or change.due_at_ms or request.requested_at_ms
    return Notice(event=event, request=request, by=request.settled_by, at_ms=at_ms)
