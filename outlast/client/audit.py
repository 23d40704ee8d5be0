"""The audit: every request, vote, decision, reminder and refused attempt of runs, in order of time.

Beside it, what people did with teams. Read from the histories of runs and teams, so there is no other record that could differ. Needs no worker.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from math import inf
from statistics import median
from typing import Final, Literal, TypeAlias, cast

from temporalio.api.history.v1 import HistoryEvent, WorkflowExecutionStartedEventAttributes
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.errors import AgentsException, RunNotFound
from outlast.archive import archive_of
from outlast.archive.archive import described
from outlast.client.read.history import RunReader
from outlast.client.read.in_turn import read_each
from outlast.client.read.undelivered import notices_after_end
from outlast.client.runs import first_executions
from outlast.client.team_audit import TeamEntry, read_team
from outlast.client.transport.run_address import RunAddress
from outlast.contract import names
from outlast.contract.identity import signed_value
from outlast.edges.rendering import LONGEST_READ, cut, iso_time
from outlast.loop.actions import Action, CaseAction, ClaimAction
from outlast.loop.approvals import (
    ApprovalRequest,
    Audience,
    Decision,
    Person,
    Seen,
    Vote,
)
from outlast.loop.aside import aside_words
from outlast.loop.calls import ToolResult
from outlast.loop.effects import EffectAnswered, RunAgent
from outlast.loop.events import (
    Event,
    PersonActed,
    RunForked,
    SignalUnreadable,
    ValueDelivered,
)
from outlast.loop.human_actions import row_of
from outlast.loop.notices import Delivered, Undelivered
from outlast.loop.run_changes import (
    AttemptIgnored,
    CaseChanged,
    ClaimChanged,
    Escalated,
    HolderSpoke,
    HoldReleased,
    HoldTaken,
    ItemSetAside,
    NoticeDelivered,
    NoticeUndelivered,
    Reminded,
    RequestCreated,
    RequestSettled,
    RequestUpdated,
    VoteCast,
    WaitBegan,
    WaitEnded,
    run_changes,
)
from outlast.loop.state import Ignored, LoopState
from outlast.loop.values import Json, JsonObject
from outlast.temporal.visibility.queries import equals, time_text
from outlast.temporal.visibility.scopes import Scopes, scopes_query
from outlast.views.redaction import NOTHING, Redaction, redaction_of, redaction_of_texts
from outlast.views.run import AnyState, loop_state

AuditEvent: TypeAlias = Literal[
    "forked",
    "requested",
    "vote",
    "decided",
    "claimed",
    "unclaimed",
    "reminded",
    "escalated",
    "expired",
    "cancelled",
    "superseded",
    "ignored",
    "held",
    "said",
    "released",
    "set_aside",
    "case",
    "notified",
    "undelivered",
    "wait_began",
    "delivered",
    "wait_timed_out",
    "duty",
    "team",
]

LONGEST_TEXT: Final = 1_000
"""The most characters of a text in a record: anybody may send a signal of any length."""

MOST_RUNS: Final = 1_000  # each run's history is read

TOO_FAST_SECONDS: Final = 3
"""A decision that takes less was hardly read."""

_LATER: Final = "It came with a proof, which a worker checks before the tool reads the value."

_DECIDED: Final = frozenset({"approved", "edited", "rejected", "responded"})
_RUNS: Final = frozenset({"approved", "edited"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """One entry of the audit.

    Attributes:
        at_ms: when the run took it, in milliseconds since the epoch.
        event: what happened. `vote` is one person's decision; `decided` settles the request.
        run_id: the run that made the request; of a team, the id of its workflow.
        root_run_id: the run that it is nested in, if it is, else the run itself.
        request_id: the request; empty for what concerns no request.
        kind: what waits: a tool, a handoff, an answer or a budget; `wait` for a tool that waits for
            something outside of the run.
        agent: the agent that made the call.
        tool: the name of the tool or handoff.
        call_id: the provider's id of the call.
        args_digest: the digest of the arguments; of a vote, those that it is about.
        effect: what the call changes.
        risk: the risk in the terms of the request.
        policy: the name of the policy that made the terms.
        status: the status of the request afterwards.
        decision: the type of the decision.
        by: who did it; empty if nobody said. Of a delivery, its source in its own words.
        display: that person's name for people.
        groups: the groups that the person belonged to.
        method: how the sender knew who it was.
        verified: whether the sender proved it; None where nobody acted, and where a worker had to
            check a delivery later.
        channel: where the decision was made.
        remember: for which further calls the decision counts.
        seconds_to_decide: the time from the request to a vote or a decision.
        note: the reason of a request, the message of a decision, or why an attempt was ignored.
        made_at_ms: when a person's client signed it; None without verified proof.
        arrived_at_ms: when the server had what a person sent.
        due_at_ms: when a reminder, an escalation or an expiry was due; of a new request, when it
            expires; of a wait, when it ends by itself.
        customer: the id of the person for whom the run works.
        authors: the members of the team who wrote the question that the entry belongs to.
        audience: who may decide at that time; without people and groups, everybody.
        quorum: how many different people have to approve.
        arguments: the arguments as people may see them, as JSON text: of a request, and of a vote
            those that it is about, edited or not.
        text: what a person said to the user, or answered in the place of a call.
        wait: the name of a tool's wait for something outside of the run.
        delivery_id: the id of the delivery that ended it; empty where a person gave the value.
        seen: what a decision says that its sender saw, as digests; proven if it is `verified`.
        signed: what the person sent, with its signature and unredacted; never printed as it is. None
            where nobody acted, and of an attempt without effect.
    """

    at_ms: int
    event: AuditEvent
    run_id: str
    root_run_id: str
    request_id: str = ""
    kind: str = ""
    agent: str = ""
    tool: str = ""
    call_id: str = ""
    args_digest: str = ""
    effect: str = ""
    risk: str = ""
    policy: str = ""
    status: str = ""
    decision: str = ""
    by: str = ""
    display: str = ""
    groups: tuple[str, ...] = ()
    method: str = ""
    verified: bool | None = None
    channel: str = ""
    remember: str = ""
    seconds_to_decide: float | None = None
    note: str = ""
    made_at_ms: int | None = None
    arrived_at_ms: int | None = None
    due_at_ms: int | None = None
    customer: str = ""
    authors: tuple[str, ...] = ()
    audience: Audience | None = None
    quorum: int | None = None
    arguments: str = ""
    text: str = ""
    wait: str = ""
    delivery_id: str = ""
    seen: Seen | None = None
    signed: Action | None = field(default=None, compare=False, repr=False)

    def record(self) -> JsonObject:
        """Return the entry as JSON, with every field, and times as text."""
        fields = asdict(replace(self, signed=None, seen=None))
        fields["seen"] = signed_value(self.seen)
        del fields["signed"]
        written: JsonObject = json.loads(json.dumps(fields))
        times = {name for name in written if name.endswith("at_ms") and written[name] is not None}
        return {
            name.removesuffix("_ms"): iso_time(cast("int", value)) if name in times else value
            for name, value in written.items()
        }


FIELDS: Final = tuple(AuditRecord(at_ms=0, event="vote", run_id="", root_run_id="").record())
"""The names of an entry's fields, in order: the columns of a table."""


# --- From states to records ----------------------------------------------------------------------


def records_between(
    before: AnyState, event: Event | None, after: AnyState, root_run_id: str
) -> Iterator[AuditRecord]:
    """Yield the records of one event of a run, with texts as they are: `finished` redacts them.

    Args:
        before: the state before the event; an empty one for the first state that could be read.
        event: the event; None for the first state of a history.
        after: the state after the event.
        root_run_id: the run that this one is nested in, or its own id.
    """
    before, after = loop_state(before), loop_state(after)
    blank = AuditRecord(
        at_ms=0 if event is None else event.at_ms,
        event="ignored",
        run_id=after.run_id,
        root_run_id=root_run_id,
        customer=after.start.customer.id,
        authors=after.question.authors,
    )
    if isinstance(event, RunForked):
        # What people did until then is in the audit of the source.
        note = f"It began as a copy of {event.fork.run_id} after event {event.fork.event}."
        yield replace(blank, event="forked", note=_text(note))
        return
    # What machines try in vain is no matter of people; but whoever delivers something may be a person.
    is_attempt = event is None or isinstance(event, PersonActed | SignalUnreadable | ValueDelivered)
    # A value that came before the wait is judged when the wait begins.
    if isinstance(event, EffectAnswered) and isinstance(event.result, ToolResult):
        is_attempt |= event.result.wait is not None
    for change in run_changes(before, event, after):
        match change:
            case RequestUpdated():
                yield from _of_request(change, event, blank)
            case HoldTaken() | HolderSpoke() | HoldReleased():
                yield from _of_takeover(event, blank)
            case ItemSetAside(aside=one) if not isinstance(event, PersonActed):
                yield replace(blank, event="set_aside", note=_text(aside_words(one)))
            case ItemSetAside():
                yield from _of_takeover(event, blank)
            case CaseChanged(given_back=False) if _is_about_case(event):
                yield from _of_takeover(event, blank)
            case AttemptIgnored(ignored=ignored) if is_attempt:
                yield _of_ignored(ignored, event, blank)
            case WaitBegan() | WaitEnded():
                yield _of_wait(change, after, blank)
            case NoticeUndelivered(notice=notice) | NoticeDelivered(notice=notice):
                yield _of_notice(notice, blank)
            case _:
                pass


def finished(one: AuditRecord, redaction: Redaction) -> AuditRecord:
    """Return a record as people may see it: without what policies redact, long texts cut."""
    return replace(
        one,
        note=_text(redaction.text(one.note)),
        text=cut(redaction.text(one.text), LONGEST_READ),
        arguments=cut(redaction.call("", "", one.arguments), LONGEST_READ),
    )


def _of_notice(one: Delivered | Undelivered, blank: AuditRecord) -> AuditRecord:
    is_lost = isinstance(one, Undelivered)
    return replace(
        blank,
        at_ms=one.at_ms,
        event="undelivered" if is_lost else "notified",
        request_id=_text(one.request_id),
        channel=_text(one.notifier),
        note=f"{one.event}: {one.why}" if is_lost else one.event,
    )


def _of_wait(change: WaitBegan | WaitEnded, after: LoopState, blank: AuditRecord) -> AuditRecord:
    one = replace(blank, kind="wait", agent=_text(after.agent))
    if isinstance(change, WaitBegan):
        call, parked = change.call, change.parked
        one = replace(one, event="wait_began", at_ms=parked.since_ms, due_at_ms=parked.ends_ms)
        return _of_tool(one, call.name, call.call_id, parked.wait.name)
    receipt = change.receipt
    return replace(
        _of_tool(one, receipt.tool, receipt.call_id, receipt.name),
        at_ms=receipt.at_ms,
        event="wait_timed_out" if receipt.timed_out else "delivered",
        delivery_id=_text(receipt.delivery_id),
        by=_text(receipt.source),
        verified=None if receipt.timed_out else receipt.verified,
        note=_LATER if receipt.verified is None else "",
    )


def _of_tool(one: AuditRecord, tool: str, call_id: str, wait: str) -> AuditRecord:
    return replace(one, tool=_text(tool), call_id=_text(call_id), wait=_text(wait))


def _of_request(
    update: RequestUpdated, event: Event | None, blank: AuditRecord
) -> Iterator[AuditRecord]:
    request, terms = update.request, update.request.terms
    one = replace(
        blank,
        at_ms=request.requested_at_ms if event is None else event.at_ms,
        request_id=_text(request.id),
        kind=request.kind,
        agent=_text(request.agent),
        tool=_text(request.name),
        call_id=_text(request.call_id),
        args_digest=request.args_digest,
        effect=_text(terms.effect),
        risk=terms.risk,
        policy=_text(terms.policy),
        status=request.status,
        audience=_audience(request),
        quorum=terms.quorum,
        arguments=request.arguments,
    )
    for change in update.changes:
        match change:
            case RequestCreated():
                yield replace(
                    one,
                    event="requested",
                    at_ms=request.requested_at_ms,
                    due_at_ms=request.expires_at_ms,
                    status="pending",
                    note=request.reason or "",
                )
            case ClaimChanged() if request.status == "pending":
                yield from _of_claim(change, event, one)
            case VoteCast(vote=vote):
                yield _of_vote(vote, request, event, one)
            case Reminded(due_at_ms=due_at_ms):
                yield replace(one, event="reminded", due_at_ms=due_at_ms)
            case Escalated(due_at_ms=due_at_ms):
                yield replace(one, event="escalated", due_at_ms=due_at_ms)
            case RequestSettled(due_at_ms=due_at_ms):
                yield _of_end(request, due_at_ms, event, one)
            case _:
                pass


def _audience(request: ApprovalRequest) -> Audience:
    audiences, excludes = request.audiences, request.terms.audience.exclude_requester
    if any(not (one.subjects or one.groups) for one in audiences):
        return Audience(exclude_requester=excludes)
    return Audience(
        subjects=tuple(dict.fromkeys(name for one in audiences for name in one.subjects)),
        groups=tuple(dict.fromkeys(name for one in audiences for name in one.groups)),
        exclude_requester=excludes,
    )


def _with_action(one: AuditRecord, event: Event | None) -> AuditRecord:
    if not isinstance(event, PersonActed):
        return one  # a remembered decision, or the history is gone
    # The worker took an update while its sender waited; a signal waits for a worker.
    arrived = event.at_ms if event.arrived_at_ms is None else event.arrived_at_ms
    made = event.made_at_ms if event.verified else None
    return replace(one, made_at_ms=made, arrived_at_ms=arrived)


def _of_claim(change: ClaimChanged, event: Event | None, one: AuditRecord) -> Iterator[AuditRecord]:
    claim = change.claim or change.before
    if claim is None:
        return
    sent = event if isinstance(event, PersonActed) else None
    sent = sent if sent is not None and isinstance(sent.action, ClaimAction) else None
    person = Person(subject=claim.by) if sent is None else sent.person
    yield replace(
        with_person(_with_action(one, event), person),
        event="claimed" if change.claim is not None else "unclaimed",
        verified=None if sent is None else sent.verified,
        signed=None if sent is None else sent.action,
    )


def _of_vote(
    vote: Vote, request: ApprovalRequest, event: Event | None, one: AuditRecord
) -> AuditRecord:
    one = _with_action(one, event)
    is_about_these = vote.args_digest == request.args_digest
    return replace(
        with_decision(one, vote.decision),
        event="vote",
        at_ms=vote.at_ms,
        args_digest=vote.args_digest,
        arguments=one.arguments if is_about_these else "",
        verified=vote.verified,
        seconds_to_decide=_seconds(request, one.arrived_at_ms or vote.at_ms),
        signed=vote.decision,
    )


def _of_end(
    request: ApprovalRequest, due_at_ms: int | None, event: Event | None, one: AuditRecord
) -> AuditRecord:
    """Return the record of a request's end: a decision, its expiry, or a cancelled call."""
    at_ms = one.at_ms if request.decided_at_ms is None else request.decided_at_ms
    if request.decision is not None and request.status in _DECIDED:
        one = _with_action(one, event)
        return replace(
            with_decision(one, request.decision),
            event="decided",
            at_ms=at_ms,
            verified=request.votes[-1].verified if request.votes else None,
            seconds_to_decide=_seconds(request, one.arrived_at_ms or at_ms),
            signed=request.decision if request.votes else None,
        )
    if request.status == "expired" or request.status in _DECIDED:  # in time, by nobody
        note = f"then: {request.terms.on_expiry}"
        return replace(one, event="expired", at_ms=at_ms, due_at_ms=due_at_ms, note=note)
    ended: AuditEvent = "superseded" if request.status == "superseded" else "cancelled"
    return replace(one, event=ended, at_ms=at_ms)


def _of_ignored(ignored: Ignored, event: Event | None, blank: AuditRecord) -> AuditRecord:
    one = replace(blank, at_ms=ignored.at_ms, note=f"{ignored.what}: {ignored.why}")
    one = _with_action(one, event)
    if not isinstance(event, PersonActed):
        return one
    action = event.action
    if isinstance(action, Decision | ClaimAction):
        one = replace(one, request_id=_text(action.request_id))
    if not isinstance(action, Decision):
        return replace(with_person(one, event.person), verified=event.verified)
    return replace(
        with_decision(one, action),
        args_digest=_text(action.args_digest),
        verified=event.verified,
        note=ignored.why,
        text="",  # what nobody heard is not part of the audit
    )


def _is_about_case(event: Event | None) -> bool:
    return isinstance(event, PersonActed) and isinstance(event.action, CaseAction)


def _of_takeover(event: Event | None, blank: AuditRecord) -> Iterator[AuditRecord]:
    if not isinstance(event, PersonActed):
        return
    row = row_of(event.action)
    if row.told_as is not None:
        yield replace(
            with_person(_with_action(blank, event), event.person),
            event=row.told_as,
            note=row.note(event),
            text=row.text(event.action),
            verified=event.verified,
            signed=event.action,
        )


def with_decision(one: AuditRecord, decision: Decision) -> AuditRecord:
    """Return a record with what a decision says."""
    one = with_person(one, decision.person)
    remember = f"{decision.remember_scope} until {decision.remember_until}"
    return replace(
        one,
        decision=decision.type,
        channel=_text(decision.channel),
        remember=remember if decision.remember else "",
        note=decision.message or "",
        text=_answer(decision.response),
        seen=decision.seen,
    )


def _answer(response: Json) -> str:
    if response is None or isinstance(response, str):
        return response or ""
    return json.dumps(response, ensure_ascii=False)


def with_person(one: AuditRecord, person: Person) -> AuditRecord:
    """Return a record with what a person says of themselves."""
    return replace(
        one,
        by=_text(person.subject),
        display=_text(person.display),
        groups=tuple(_text(group) for group in person.groups[:100]),
        method=_text(person.method),
    )


def _text(text: str | None) -> str:
    return cut(text or "", LONGEST_TEXT)


def _seconds(request: ApprovalRequest, at_ms: int) -> float:
    """Return the time since a request; a clock that jumped back counts as no time."""
    return max(0, at_ms - request.requested_at_ms) / 1_000


# --- Reading runs --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadRun:
    """A run that the audit lacks, and why it could not be read."""

    run_id: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedRun:
    """The entries of one run in the order of its history; an id that is used again has several.

    Attributes:
        run_id: the run.
        chain_id: its first execution, in the server's words. A reset does not change it.
        root: the workflow id and the execution of the run that it is nested in; None if it is not.
        records: its entries, those before a reset first. Later ones are added at the end.
        redaction: what policies hide in them; not part of a comparison.
        lost: the histories that neither the server nor the archive has, each the last of a gap:
            entries of them are missing.
    """

    run_id: str
    chain_id: str
    root: tuple[str, str] | None
    records: tuple[AuditRecord, ...]
    redaction: Redaction = field(default=NOTHING, repr=False, compare=False)
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLog:
    """The audit of one or several runs.

    Attributes:
        records: the entries, oldest first.
        unread: runs that could not be read, such as encrypted ones: the audit is incomplete.
        is_cut: whether there are more runs than were read.
        runs: the same entries, of each run in the order of its history.
    """

    records: tuple[AuditRecord, ...]
    unread: tuple[UnreadRun, ...] = ()
    is_cut: bool = False
    runs: tuple[AuditedRun, ...] = ()


@dataclass(frozen=True, slots=True)
class _Execution:
    """One execution of a run: a run that is reset, or starts again with its id, has several."""

    run_id: str
    execution_id: str
    root_run_id: str
    is_team: bool = False


@dataclass(frozen=True, slots=True)
class _Read:
    """The entries of one execution, its first record and, once it has ended, its last one."""

    of: _Execution
    opened_by: HistoryEvent
    closed_by: HistoryEvent | None
    records: dict[AuditRecord, None]
    lost: tuple[str, ...] = ()

    @property
    def order(self) -> tuple[float, str]:
        """When it ended, because a run has only one open execution at a time."""
        end = self.closed_by
        return inf if end is None else end.event_time.ToMilliseconds(), self.of.execution_id

    @property
    def started(self) -> WorkflowExecutionStartedEventAttributes:
        """What the server says about its start."""
        return self.opened_by.workflow_execution_started_event_attributes

    @property
    def chain_id(self) -> str:
        """The first execution of the run."""
        return self.started.first_execution_run_id or self.of.execution_id


async def audit_run(client: Client, run_id: str) -> AuditLog:
    """Return the audit of a run and of the runs nested in it, before and after resets.

    With the id of a team's workflow, such as `outlast-team/billing`, it is the audit of the team.

    Raises:
        RunNotFound: there is no such run.
        AgentsException: the server refused, or the run cannot be read here.
    """
    log = _Reading(client)
    term = equals("WorkflowId", run_id) if run_id.startswith(names.TEAM_PREFIX) else None
    teams = [] if term is None else (await _executions(client, term, MOST_RUNS))[0]
    for one in teams:
        await log.read(one)
    if not teams:
        await log.read_tree(run_id, run_id)
    return log.result()


async def audit_since(
    client: Client, since: datetime, *, limit: int = MOST_RUNS, scopes: Scopes = ()
) -> AuditLog:
    """Return the audit of all runs and teams since a time.

    Args:
        client: the client.
        since: the time, with a time zone.
        limit: the maximum number of runs and teams to read: open ones first, then the newest.
        scopes: the runs that are looked for, by what the server lists of them; of some scopes, those
            that only the archive has are left out.

    Raises:
        AgentsException: the server refused.
    """
    at = time_text(since)
    found, is_cut = await _executions(
        client,
        " AND ".join(
            filter(
                None,
                [f"(ExecutionStatus = 'Running' OR CloseTime >= '{at}')", scopes_query(scopes)],
            )
        ),
        limit,
    )
    log = _Reading(client)
    known = {one.execution_id for one in found}
    archived, problems = ([], []) if scopes else await _archived(client, since, known)
    is_cut = is_cut or len(found) + len(archived) > limit
    await read_each([*found, *archived][:limit], log.read)
    log.unread += [UnreadRun(run_id="(in the archive)", why=one) for one in problems]
    whole = log.result(is_cut=is_cut)
    since_ms = since.timestamp() * 1_000
    return replace(whole, records=tuple(one for one in whole.records if one.at_ms >= since_ms))


async def _archived(
    client: Client, since: datetime, known: set[str]
) -> tuple[list[_Execution], list[str]]:
    """Return the runs that ended since a time and that only the archive has; and what is damaged."""
    archive = archive_of(client)
    since_ms, found, problems = since.timestamp() * 1_000, list[_Execution](), list[str]()
    if archive is None:
        return found, problems
    async for entry in archive.entries(problems=problems):
        is_there = entry.closed_ms < since_ms or entry.execution_id in known
        if is_there or entry.continues or entry.namespace != client.namespace:
            continue
        if entry.workflow == names.WORKFLOW:
            root = described(entry).workflow_execution_info.root_execution.workflow_id
            found.append(_Execution(entry.run_id, entry.execution_id, root or entry.run_id))
    return found, problems


class _Reading:
    """Collects the records of executions; a reset copies events, which count once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._read_ones: list[_Read] = []
        self._hidden = defaultdict[str, set[str]](set)
        """The texts that policies redact, by root run: a parent repeats what a nested run hides."""
        self.unread: list[UnreadRun] = []

    def result(self, *, is_cut: bool = False) -> AuditLog:
        redactions = {root: redaction_of_texts(texts) for root, texts in self._hidden.items()}
        of_runs: dict[tuple[str, str, str], list[_Read]] = {}
        for one in sorted(self._read_ones, key=lambda one: one.order):
            key = (one.of.root_run_id, one.of.run_id, one.chain_id)
            of_runs.setdefault(key, []).append(one)
        runs = [
            _audited(found, redactions.get(root, NOTHING)) for (root, *_), found in of_runs.items()
        ]
        shown = dict.fromkeys(record for run in runs for record in run.records)
        return AuditLog(
            records=tuple(sorted(shown, key=lambda one: one.at_ms)),
            unread=tuple(self.unread),
            is_cut=is_cut,
            runs=tuple(runs),
        )

    async def read_tree(self, run_id: str, root_run_id: str) -> None:
        """Read a run and the runs nested in it; one that is gone is noted, except the root."""
        address = RunAddress(self._client, run_id)
        try:
            newest = address.checked(await address.ask(address.workflow.describe))
        except RunNotFound as error:
            if run_id == root_run_id:
                raise
            self.unread.append(UnreadRun(run_id=run_id, why=error.message))
            return
        term = equals("WorkflowId", run_id)
        listed = (await _executions(self._client, term, MOST_RUNS))[0] if term else []
        found = [newest.run_id, *(one.execution_id for one in listed if one.run_id == run_id)]
        if archive := archive_of(self._client):
            kept = await archive.histories_of(self._client.namespace, run_id)
            found += [one.execution_id for one in kept if not one.continues]
        nested = dict[str, None]()
        for execution_id in dict.fromkeys(found):
            nested |= await self.read(_Execution(run_id, execution_id, root_run_id))
        for nested_id in nested:
            await self.read_tree(nested_id, root_run_id)

    async def read(self, execution: _Execution) -> dict[str, None]:
        """Read an execution, or note why it cannot be read; return the runs that it started."""
        try:
            return await self._read(execution)
        except AgentsException as error:
            self.unread.append(UnreadRun(run_id=execution.run_id, why=error.message))
        return {}

    async def _read(self, execution: _Execution) -> dict[str, None]:
        if execution.is_team:
            await self._read_team(execution)
            return {}
        reader = RunReader(self._client, execution.run_id)
        before, nested, records = LoopState(), dict[str, None](), dict[AuditRecord, None]()
        try:
            async with aclosing(reader.read_all(execution.execution_id)) as events:
                async for event, after in ((one.event, one.state) async for one in events):
                    found = (*records_between(before, event, after, execution.root_run_id),)
                    records.update(dict.fromkeys(found))
                    if found:  # a new request or vote may have more to hide
                        self._hidden[execution.root_run_id].update(redaction_of(after).texts)
                    started = (one for one in after.pending if isinstance(one, RunAgent))
                    nested.update(dict.fromkeys(one.nested_id for one in started))
                    before = after
            late = await notices_after_end(self._client, execution.execution_id)
            blank = AuditRecord(
                at_ms=0,
                event="undelivered",
                run_id=execution.run_id,
                root_run_id=execution.root_run_id,
            )
            notices = (*late.undelivered, *late.delivered)
            records.update(dict.fromkeys(_of_notice(one, blank) for one in notices))
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise RunNotFound("Its history is no longer retained.") from error
            raise await RunAddress(self._client, execution.run_id).translate(error) from error
        finally:
            if reader.opened_by is not None:
                one = _Read(execution, reader.opened_by, reader.closed_by, records, reader.lost)
                self._read_ones.append(one)
        return nested

    async def _read_team(self, execution: _Execution) -> None:
        try:
            team = await read_team(self._client, execution.run_id, execution.execution_id)
        except RPCError as error:
            raise await RunAddress(self._client, execution.run_id).translate(error) from error
        if team.opened_by is not None:
            entries = dict.fromkeys(_of_team(one, execution.run_id) for one in team.found)
            self._read_ones.append(
                _Read(execution, team.opened_by, team.closed_by, entries, team.lost)
            )


def _of_team(one: TeamEntry, team_id: str) -> AuditRecord:
    return AuditRecord(
        at_ms=one.at_ms,
        event=one.event,
        run_id=team_id,
        root_run_id=team_id,
        by=_text(one.by),
        note=_text(one.note),
        channel=one.channel,
        verified=False,
        arrived_at_ms=one.at_ms,
    )


def _audited(found: Sequence[_Read], redaction: Redaction) -> AuditedRun:
    """Return the entries of a run's executions, those that a reset has copied once."""
    records = dict.fromkeys(record for one in found for record in one.records)
    first, started = found[0], found[0].started
    nested, root = started.HasField("parent_workflow_execution"), started.root_workflow_execution
    nested &= not first.of.is_team  # it outlives the run that began it
    return AuditedRun(
        run_id=first.of.run_id,
        chain_id=first.chain_id,
        root=(root.workflow_id, root.run_id) if nested else None,
        records=tuple(dict.fromkeys(finished(one, redaction) for one in records)),
        redaction=redaction,
        lost=tuple(dict.fromkeys(lost for one in found for lost in one.lost)),
    )


async def _executions(client: Client, term: str, limit: int) -> tuple[list[_Execution], bool]:
    kinds = f"('{names.WORKFLOW}', '{names.WORKFLOW_TEAM}')"
    query = f"WorkflowType IN {kinds} AND ExecutionStatus != 'ContinuedAsNew' AND {term}"
    found: list[_Execution] = []
    listed = await first_executions(client, query, limit + 1)
    for one in listed[:limit]:
        run_id, root_id = one.execution.workflow_id, one.root_execution.workflow_id
        is_team = one.type.name == names.WORKFLOW_TEAM
        root_id = run_id if is_team else root_id or run_id
        found.append(_Execution(run_id, one.execution.run_id, root_id, is_team))
    return found, len(listed) > limit


# --- Figures -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """How often and how fast something was decided.

    Attributes:
        name: the tool or the person.
        decisions: the number of decisions; of a person, their votes.
        approved: how many of them let the call run, edited or not.
        edited: how many of them changed the arguments.
        fast: how many took less than three seconds.
        unverified: how many came without proof of who decided.
        expired: how many requests nobody decided in time.
        median_seconds: the median time from request to decision; None without decisions.
    """

    name: str
    decisions: int
    approved: int
    edited: int
    fast: int
    unverified: int
    expired: int = 0
    median_seconds: float | None = None

    @property
    def approve_rate(self) -> float | None:
        """The share of decisions that let the call run; None without decisions."""
        return self.approved / self.decisions if self.decisions else None

    @property
    def edit_rate(self) -> float | None:
        """The share of decisions that changed the arguments; None without decisions."""
        return self.edited / self.decisions if self.decisions else None

    def record(self) -> JsonObject:
        """Return the figures as JSON."""
        return {
            "name": self.name,
            "decisions": self.decisions,
            "approve_rate": self.approve_rate,
            "edit_rate": self.edit_rate,
            "median_seconds": self.median_seconds,
            "under_3_seconds": self.fast,
            "unverified": self.unverified,
            "expired": self.expired,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSummary:
    """Figures of an audit against rubber-stamping.

    Attributes:
        tools: of each tool, the one with most decisions first.
        people: of each person; a name without proof has its own line.
        suggestions: sentences about rules that the figures suggest.
    """

    tools: tuple[Figures, ...]
    people: tuple[Figures, ...]
    suggestions: tuple[str, ...]

    def record(self) -> JsonObject:
        """Return the summary as JSON."""
        return {
            "tools": [one.record() for one in self.tools],
            "people": [one.record() for one in self.people],
            "suggestions": list(self.suggestions),
        }


ENOUGH_DECISIONS: Final = 20
"""Fewer decisions suggest nothing."""


def summary_of(records: Iterable[AuditRecord]) -> AuditSummary:
    """Return the figures of an audit, per tool and per person."""
    by_tool: dict[str, list[AuditRecord]] = {}
    by_person: dict[str, list[AuditRecord]] = {}
    for one in records:
        if one.event in {"decided", "expired"}:
            by_tool.setdefault(one.tool, []).append(one)
        elif one.event == "vote":
            name = one.by or "(no name)"
            name = name if one.verified else f"{name} (unverified)"
            by_person.setdefault(name, []).append(one)
    tools = _ordered(by_tool)
    people = _ordered(by_person)
    return AuditSummary(tools=tools, people=people, suggestions=(*_suggestions(tools, people),))


def _ordered(groups: dict[str, list[AuditRecord]]) -> tuple[Figures, ...]:
    figures = (_figures(name, records) for name, records in groups.items())
    return tuple(sorted(figures, key=lambda one: (-one.decisions, one.name)))


def _figures(name: str, records: Sequence[AuditRecord]) -> Figures:
    decided = [one for one in records if one.event != "expired"]
    seconds = [one.seconds_to_decide for one in decided if one.seconds_to_decide is not None]
    return Figures(
        name=name,
        decisions=len(decided),
        approved=sum(_lets_run(one) for one in decided),
        edited=sum(_has_edits(one) for one in decided),
        fast=sum(one < TOO_FAST_SECONDS for one in seconds),
        unverified=sum(one.verified is False for one in decided),
        expired=len(records) - len(decided),
        median_seconds=median(seconds) if seconds else None,
    )


def _lets_run(one: AuditRecord) -> bool:
    return one.status in _RUNS if one.event == "decided" else one.decision in {"approve", "edit"}


def _has_edits(one: AuditRecord) -> bool:
    return one.status == "edited" if one.event == "decided" else one.decision == "edit"


def _suggestions(tools: Sequence[Figures], people: Sequence[Figures]) -> Iterator[str]:
    for one in tools:
        asked = one.decisions + one.expired
        if asked < ENOUGH_DECISIONS:
            continue
        if one.approved == one.decisions == asked and not one.edited:
            yield (
                f"{one.name}: approved {one.approved} of {asked} times, never edited. Consider a "
                "policy that asks less often, such as above an amount."
            )
        elif one.decisions and not one.approved:
            yield (
                f"{one.name}: approved 0 of {asked} times. Consider taking the tool from its "
                "agents, or telling them when to use it."
            )
        elif one.expired * 2 >= asked:
            yield (
                f"{one.name}: {one.expired} of {asked} requests expired. Consider more people, a "
                "reminder or an escalation."
            )
    for one in people:
        if one.decisions >= ENOUGH_DECISIONS and one.fast * 2 >= one.decisions:
            yield (
                f"{one.name}: {one.fast} of {one.decisions} decisions took under "
                f"{TOO_FAST_SECONDS} seconds. Look at some of them together."
            )
