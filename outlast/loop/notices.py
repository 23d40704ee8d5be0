"""Notices for people about approval requests, derived from two consecutive states of a run."""

from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias, get_args

from outlast.loop.approvals import ApprovalRequest, ApprovalStatus

NoticeEvent: TypeAlias = Literal[
    "created",
    "changed",
    "reminder",
    "escalated",
    "decided",
    "expired",
    "cancelled",
    "held",
    "released",
    "waiting",
]

LONGEST_REASON: Final = 500
"""The most characters of the reason why a notice was not delivered."""

ALL_EVENTS: Final[frozenset[NoticeEvent]] = frozenset(get_args(NoticeEvent))

_ENDS: Final[dict[ApprovalStatus, NoticeEvent]] = {
    "approved": "decided",
    "edited": "decided",
    "rejected": "decided",
    "responded": "decided",
    "expired": "expired",
    "cancelled": "cancelled",
    "superseded": "cancelled",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """An event of a run that people hear about.

    Attributes:
        event: what happened. `changed`: a person has edited the arguments of a request that still
            needs votes, so that earlier votes are void. `waiting`: the user wrote, and a person has
            the conversation.
        number: tells repeated events apart. For those of a request from 1: the number of the
            reminder, of the step of the escalation, or of the vote that changed the arguments. For
            a takeover its time.
        request: the request after the event; None for an event of the run.
        by: the person who caused it, if a person did.
        at_ms: when it happened or was due, in milliseconds since the epoch.
    """

    event: NoticeEvent
    number: int = 1
    request: ApprovalRequest | None = None
    by: str | None = None
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Undelivered:
    """A notice that nobody has heard of.

    Attributes:
        event: what happened.
        request_id: the request; empty for an event of the run.
        notifier: the notifier; empty if none has tried.
        why: why it was not delivered.
        at_ms: when the event happened.
    """

    event: NoticeEvent
    request_id: str = ""
    notifier: str = ""
    why: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """A notice that a notifier has taken: whether somebody read it, nobody knows.

    Attributes:
        event: what happened.
        request_id: the request; empty for an event of the run.
        notifier: the notifier.
        at_ms: when the event happened.
    """

    event: NoticeEvent
    request_id: str = ""
    notifier: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeReceipt:
    """What became of notices.

    Attributes:
        undelivered: those that nobody has heard of.
        delivered: the others, for readers of the history; the run's state does not keep them.
    """

    undelivered: tuple[Undelivered, ...] = ()
    delivered: tuple[Delivered, ...] = ()


ALL_DELIVERED: Final = NoticeReceipt()


def undelivered(notice: Notice, why: str, notifier: str = "") -> Undelivered:
    """Return a notice that was not delivered, and why."""
    return Undelivered(
        event=notice.event,
        request_id="" if notice.request is None else notice.request.id,
        notifier=notifier,
        why=why[:LONGEST_REASON],
        at_ms=notice.at_ms,
    )


class HoldState(Protocol):
    """A takeover: a `Hold`."""

    @property
    def by(self) -> str:
        """The person who has the conversation."""
        ...


class PeopleState(Protocol):
    """The part of a `LoopState` that notices follow from."""

    @property
    def approvals(self) -> tuple[ApprovalRequest, ...]:
        """Every request, in order."""
        ...

    @property
    def hold(self) -> HoldState | None:
        """The takeover, if a person has the conversation."""
        ...


def notices(before: PeopleState, after: PeopleState, at_ms: int) -> tuple[Notice, ...]:
    """Return the notices of a step: those of requests, in their order, and of a takeover.

    A request that was decided by a remembered decision never waited, so it has no notice.

    Args:
        before: the state before the step.
        after: the state after it.
        at_ms: the time of the step, in milliseconds since the epoch.
    """
    found: list[Notice] = []
    if before.approvals is not after.approvals:
        earlier = {request.id: request for request in before.approvals}
        for request in after.approvals:
            found += _notices_of(earlier.get(request.id), request)
    if after.hold is not None and (before.hold is None or before.hold.by != after.hold.by):
        found.append(Notice(event="held", number=at_ms, by=after.hold.by, at_ms=at_ms))
    if before.hold is not None and after.hold is None:
        found.append(Notice(event="released", number=at_ms, by=before.hold.by, at_ms=at_ms))
    return tuple(found)


def _notices_of(before: ApprovalRequest | None, after: ApprovalRequest) -> list[Notice]:
    """Return the notices of one request, which is new without a `before`."""
    if before is None:
        if after.status != "pending":
            return []
        return [Notice(event="created", request=after, at_ms=after.requested_at_ms)]
    if before.status != "pending":
        return []
    if after.status != "pending":
        return [_end(before, after)]
    found: list[Notice] = []
    if after.args_digest != before.args_digest:
        vote = after.votes[-1]
        found.append(
            Notice(
                event="changed",
                number=len(after.votes),
                request=after,
                by=vote.decision.by,
                at_ms=vote.at_ms,
            )
        )
    if after.escalated > before.escalated:
        at_ms = escalated_at(before, after)
        found.append(Notice(event="escalated", number=after.escalated, request=after, at_ms=at_ms))
    if after.reminders > before.reminders:
        at_ms = before.remind_at_ms or after.requested_at_ms
        found.append(Notice(event="reminder", number=after.reminders, request=after, at_ms=at_ms))
    return found


def _end(before: ApprovalRequest, after: ApprovalRequest) -> Notice:
    at_ms = after.decided_at_ms or before.expires_at_ms or after.requested_at_ms
    return Notice(event=_ENDS[after.status], request=after, by=after.settled_by, at_ms=at_ms)


def escalated_at(before: ApprovalRequest, after: ApprovalRequest) -> int:
    """Return when the newest step of an escalation was due, or when its request ran out."""
    due = after.counts_from_ms + after.terms.escalations[after.escalated - 1].after_ms
    return min(due, before.expires_at_ms or due)
