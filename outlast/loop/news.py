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
    Mentioned,
    Reminded,
    ReplyDue,
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
            case ReplyDue(by=by, since_ms=since_ms, due_ms=due_ms, late=late):
                name: NoticeEvent = "reply_late" if late else "reply_due"
                found.append(Notice(event=name, number=since_ms, by=by, at_ms=due_ms))
            case Mentioned(comment=comment, number=number):
                notice = Notice(
                    event="mentioned",
                    number=number,
                    by=comment.by,
                    at_ms=comment.at_ms,
                    people=comment.mentions,
                    text=comment.text,
                )
                found.append(notice)
            case _:
                pass
    return tuple(found)


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
