"""The port to a notifier, which tells people outside of the run about approvals and takeovers."""

import dataclasses
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Final
from urllib.parse import quote

from outlast.edges.rendering import command, decision_command
from outlast.loop.approvals import ApprovalRequest, DecisionType, Risk
from outlast.loop.notices import ALL_EVENTS, Notice, NoticeEvent
from outlast.loop.values import JsonObject
from outlast.views.words import deadlines

UI_URL: Final = "OUTLAST_UI_URL"
"""The environment variable with the address of the Temporal UI, for links to runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """A notice as people outside of the run read it.

    The texts are those of customers and models: escape them for the medium that shows them.

    Attributes:
        id: identifies the notification; the same on every retry, so that a receiver can drop a
            repeated one.
        event: what happened.
        number: tells repeated events of one request apart, from 1.
        at_ms: when it happened, in milliseconds since the epoch.
        by: the person who caused it, if a person did.
        run_id: the workflow id of the run.
        execution: the first run id of the run's execution chain, which tells it from another run
            with the same id; empty for a run in memory.
        request_id: the id of the approval request; empty for an event of the run.
        requested_at_ms: when the request was made.
        status: the status of the request.
        kind: what waits: a tool, a handoff, an output or a budget.
        agent: the agent that made the call.
        handoff_path: the agents that the conversation went through.
        name: the tool or handoff.
        arguments: the arguments as JSON text, without redacted values.
        args_digest: the digest of all arguments; a decision that repeats it counts for no others.
        digest: the digest of everything that the request shows.
        reason: why a person has to decide.
        effect: what the call changes, as the tool declares it.
        risk: how much harm a wrong decision does.
        subjects: the people who may decide, or whom a comment mentions; with `groups` empty as well,
            everybody.
        groups: the groups whose members may decide.
        quorum: how many different people have to approve.
        votes: how many have, for the present arguments.
        allow: the types of decision.
        due_at_ms: when the request expires or goes to further people; None for never.
        then: what happens at that time, in words.
        message: what the person wrote to the model, if the request is decided; of a mention, the
            comment.
        url: the run in the Temporal UI, if `OUTLAST_UI_URL` is set.
        commands: the commands that decide, for people to copy.
        headline: what the call asks for, in the words of its policy, with its values in quotation
            marks and every character visible; empty if the policy says nothing.
        attempt: the number of the attempt to deliver this notification, from 1.
    """

    id: str
    event: NoticeEvent
    number: int = 1
    at_ms: int
    by: str | None = None
    run_id: str
    execution: str = ""
    request_id: str = ""
    requested_at_ms: int = 0
    status: str = ""
    kind: str = ""
    agent: str = ""
    handoff_path: tuple[str, ...] = ()
    name: str = ""
    arguments: str = ""
    args_digest: str = ""
    digest: str = ""
    reason: str | None = None
    effect: str | None = None
    risk: Risk = "low"
    subjects: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    quorum: int = 1
    votes: int = 0
    allow: tuple[DecisionType, ...] = ()
    due_at_ms: int | None = None
    then: str = ""
    message: str | None = None
    url: str | None = None
    commands: tuple[str, ...] = ()
    headline: str = ""
    attempt: int = 1

    def as_json(self) -> JsonObject:
        """Return the notification as data, without the number of the attempt."""
        fields = dataclasses.asdict(self)
        del fields["attempt"]
        return fields


class NotifierUnavailable(Exception):
    """A notifier cannot deliver now; the notification is tried again.

    Attributes:
        retry_after: how long the receiver wants to be left alone.
    """

    def __init__(self, message: str, *, retry_after: timedelta | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotifierRejected(Exception):
    """The receiver will never accept this notification, so it is not tried again."""


class Notifier(ABC):
    """Delivers notifications to people, such as in a chat or by mail.

    Attributes:
        name: tells the notifiers of a worker apart; must not change between deploys.
        events: the events that it delivers.
    """

    name: str
    events: frozenset[NoticeEvent] = ALL_EVENTS
    timeout: ClassVar[timedelta] = timedelta(seconds=20)
    """The time limit of one delivery."""

    @abstractmethod
    async def notify(self, notice: Notification) -> None:
        """Deliver a notification.

        After a crash, the same notification may come again, with the same id.

        Raises:
            NotifierRejected: the receiver will never accept it.
            Exception: it was not delivered, and is tried again.
        """

    async def aclose(self) -> None:  # noqa: B027  most notifiers hold nothing
        """Close connections. The program that made the notifier calls it."""


def notification(
    notice: Notice, run_id: str, *, execution: str = "", namespace: str = "default"
) -> Notification:
    """Return the notification of a notice; `execution` is the first run id of the run's chain."""
    request = notice.request
    url = _run_url(run_id, namespace)
    if request is None:
        return Notification(
            id=f"{run_id}/{notice.event}/{notice.number}@{notice.at_ms}",
            event=notice.event,
            number=notice.number,
            at_ms=notice.at_ms,
            by=notice.by,
            run_id=run_id,
            execution=execution,
            subjects=notice.people,
            message=notice.text or None,
            url=url,
        )
    audiences = request.audiences
    due = next(iter(deadlines(request)), None)
    return Notification(
        # A reset run may use the id of a request again, for other arguments at another time.
        id=f"{run_id}/{request.id}/{notice.event}/{notice.number}@{request.requested_at_ms}",
        event=notice.event,
        number=notice.number,
        at_ms=notice.at_ms,
        by=notice.by,
        run_id=run_id,
        execution=execution,
        request_id=request.id,
        requested_at_ms=request.requested_at_ms,
        status=request.status,
        kind=request.kind,
        agent=request.agent,
        handoff_path=request.handoff_path,
        name=request.name,
        arguments=request.arguments,
        args_digest=request.args_digest,
        digest=request.digest,
        reason=request.reason,
        effect=request.terms.effect,
        risk=request.terms.risk,
        subjects=tuple(dict.fromkeys(one for who in audiences for one in who.subjects)),
        groups=tuple(dict.fromkeys(one for who in audiences for one in who.groups)),
        quorum=request.terms.quorum,
        votes=len(request.standing_votes),
        allow=_allowed(request),
        due_at_ms=due.at_ms if due is not None else None,
        then=due.then if due is not None else "",
        message=request.decision.message if request.decision is not None else None,
        url=url,
        commands=_commands(request, run_id),
        headline=_headline(request),
    )


def _headline(request: ApprovalRequest) -> str:
    if not request.terms.headline:
        return ""
    from outlast.views.headlines import has_headline, headline_line  # few policies have one

    return headline_line(request) if has_headline(request) else ""


def _commands(request: ApprovalRequest, run_id: str) -> tuple[str, ...]:
    if request.status != "pending":
        return ()
    verbs = [verb for verb in ("approve", "reject") if verb in _allowed(request)]
    digest = request.digest
    decisions = (str(decision_command(verb, run_id, request.id, digest)) for verb in verbs)
    holds = [str(command("hold", run_id))] if request.terms.takeover else []
    return (*holds, *decisions)


def _allowed(request: ApprovalRequest) -> tuple[DecisionType, ...]:
    """Return what a button or a link may decide: no takeover, which is more than an approval."""
    return tuple(
        one for one in request.terms.allow if one != "approve" or not request.terms.takeover
    )


def _run_url(run_id: str, namespace: str) -> str | None:
    base = os.environ.get(UI_URL, "").rstrip("/")
    if not base:
        return None
    return f"{base}/namespaces/{quote(namespace, safe='')}/workflows/{quote(run_id, safe='')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestNotice:
    """All requests that wait, in one message.

    Attributes:
        id: identifies the digest: the name of the digest and the number of its period.
        at_ms: when the requests were listed.
        pending: the requests that wait.
    """

    id: str
    at_ms: int
    pending: tuple[Notification, ...]

    def as_json(self) -> JsonObject:
        """Return the digest as data."""
        pending: list[JsonObject] = [one.as_json() for one in self.pending]
        return {"id": self.id, "event": "digest", "at_ms": self.at_ms, "pending": pending}


class DigestNotifier(Notifier):
    """A notifier that also delivers digests."""

    @abstractmethod
    async def notify_digest(self, digest: DigestNotice) -> None:
        """Deliver a digest.

        Raises:
            NotifierRejected: the receiver will never accept it.
            Exception: it was not delivered.
        """
