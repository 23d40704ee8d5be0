"""The notices that people get of a run, and what became of them. `news.py` derives them."""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from outlast.loop.approvals import ApprovalRequest

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
    "reply_due",
    "reply_late",
    "mentioned",
    "quality_low",
]

LONGEST_REASON: Final = 500
"""The most characters of the reason why a notice was not delivered."""

ALL_EVENTS: Final[frozenset[NoticeEvent]] = frozenset(get_args(NoticeEvent))


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """An event of a run that people hear about.

    Attributes:
        event: what happened. `changed`: a person has edited the arguments of a request that still
            needs votes, so that earlier votes are void. `waiting`: the user wrote, and a person has
            the conversation. `reply_due`, `reply_late`: the time for a reply is nearly over, or over.
            `mentioned`: a comment mentions colleagues. `quality_low`: too few of a day's runs pass
            a quality check.
        number: tells repeated events apart. For those of a request from 1: the number of the
            reminder, of the step of the escalation, or of the vote that changed the arguments. For
            a takeover its time.
        request: the request after the event; None for an event of the run.
        by: the person who caused it, if a person did.
        at_ms: when it happened or was due, in milliseconds since the epoch.
        people: those whom it is for (`mentioned`).
        text: the comment (`mentioned`).
    """

    event: NoticeEvent
    number: int = 1
    request: ApprovalRequest | None = None
    by: str | None = None
    at_ms: int
    people: tuple[str, ...] = ()
    text: str = ""


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
