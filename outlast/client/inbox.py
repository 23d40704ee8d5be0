"""The inbox: the approval requests of all runs.

Temporal's visibility is its only store. It says for whom a run waits, until when and at which risk;
the requests themselves are read from the run's history.
"""

import asyncio
import heapq
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, TypedDict, Unpack, cast, get_args

from temporalio.api.enums.v1 import WorkflowExecutionStatus
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import Client

from outlast.agents.errors import AgentsException, UserError
from outlast.client.handle import RunHandle
from outlast.client.people.actions import By, DecisionReceipt, person_of
from outlast.client.people.nested_requests import FoundRequest, found_requests
from outlast.client.read.in_turn import read_each
from outlast.client.runs import (
    PAGE,
    Attributes,
    attributes_of,
    check_page,
    check_risk,
    count_executions,
    executions,
    is_nested,
    list_executions,
    request_terms,
    texts_of,
)
from outlast.client.transport.outages import patience_of
from outlast.contract import names
from outlast.contract.searchability import searchable
from outlast.edges.clock import now, time_of
from outlast.loop.approvals import ApprovalRequest, Person, Risk
from outlast.ports.engine import check_client
from outlast.temporal.visibility.queries import before, is_any_of
from outlast.temporal.visibility.scopes import RunScope, any_covers, scopes_query
from outlast.views.run import AnyState, loop_state

SHORTEST_POLL: Final = timedelta(seconds=0.1)  # visibility lags behind by more

_APPROVAL_OF: Final = "approval of "
_HELD_BY: Final = "person: "


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxEntry:
    """A run that waits for people, as visibility lists it.

    Attributes:
        run_id: the run; requests of nested runs are under their root.
        agent: the active agent.
        status: what the run waits for besides, such as `waiting` or `held`; empty while it also
            works.
        tools: the names of the tools, handoffs and others that wait; empty while the run also
            works.
        pending: the number of requests.
        people: the groups and people who may decide, each once.
        for_anybody: anybody may decide one of the requests, or not all people are listed.
        risk: the highest risk of the requests.
        due: when the first request expires or goes to further people; None for never.
        held_by: the person who has the conversation; empty for nobody.
        tenant: the tenant that the run belongs to; empty for none.
        started: when the run started, or its newest history.
        client: connected to the run's server.
    """

    run_id: str
    agent: str = ""
    status: str = ""
    tools: tuple[str, ...] = ()
    pending: int = 0
    people: tuple[str, ...] = ()
    for_anybody: bool = False
    risk: Risk = "low"
    due: datetime | None = None
    held_by: str = ""
    tenant: str = ""
    started: datetime
    client: Client = field(repr=False, compare=False)

    @property
    def handle(self) -> RunHandle:
        """The run, to decide its requests."""
        return RunHandle(self.client, self.run_id)

    async def requests(self) -> tuple[ApprovalRequest, ...]:
        """Return the pending requests, read from the run's history; needs no worker."""
        return tuple(one.request for one in await self.found())

    async def found(self) -> tuple[FoundRequest, ...]:
        """Return the pending requests with the states of the runs that made them."""
        return await found_requests(await self.handle.state(), self.client)

    async def hold(self) -> "HeldConversation | None":
        """Return what a person has to do in the conversation, or None if nobody holds it."""
        return held_conversation(await self.handle.state())


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldConversation:
    """A conversation that a person has taken over.

    Attributes:
        by: the person; empty if nobody said.
        since: when they took it.
        messages: how many messages of the user nobody has answered.
        waiting_since: since when the user waits; None if they do not.
    """

    by: str
    since: datetime
    messages: int = 0
    waiting_since: datetime | None = None


def held_conversation(run: AnyState) -> HeldConversation | None:
    """Return what a person has to do in a conversation, or None if nobody holds it."""
    state = loop_state(run)
    hold, question = state.hold, state.question
    if hold is None or state.outcome is not None:
        return None
    messages = len(question.answering) + len(state.inbox)
    began_ms = question.began_ms if question.answering else hold.at_ms
    if not question.answering and state.inbox:
        began_ms = state.inbox[0].at_ms
    return HeldConversation(
        by=hold.by,
        since=time_of(hold.at_ms),
        messages=messages,
        waiting_since=time_of(began_ms) if messages else None,
    )


@dataclass(frozen=True, slots=True)
class InboxPage:
    """Some entries of the inbox, newest runs first, and where the next page begins.

    Attributes:
        entries: the entries.
        next: the argument `page` of the next page; None after the last one.
    """

    entries: tuple[InboxEntry, ...]
    next: bytes | None = None

    def __iter__(self) -> Iterator[InboxEntry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


@dataclass(frozen=True, slots=True)
class InboxChange:
    """An entry that appeared in the inbox, changed, or is gone."""

    kind: Literal["added", "changed", "removed"]
    entry: InboxEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkStep:
    """What a bulk decision does to one request.

    Attributes:
        entry: the entry.
        request: the request with its arguments; None if the run could not be read.
        shown: the same as everybody may see it.
        problem: why it is not decided together with others; None if it is.
    """

    entry: InboxEntry
    request: ApprovalRequest | None = None
    shown: ApprovalRequest | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOutcome:
    """The outcome of a bulk decision for one request.

    Attributes:
        run_id: the run of the entry.
        request_id: the request; empty if the run could not be read.
        receipt: what became of the vote; None if there was none.
        refused: why there was none.
    """

    run_id: str
    request_id: str
    receipt: DecisionReceipt | None = None
    refused: str | None = None


class InboxCriteria(TypedDict, total=False):
    """Which entries of the inbox are listed; see `Inbox.list`."""

    group: str | None
    risk: Risk | None
    mine: By
    due_before: datetime | None
    held: bool
    scopes: tuple[RunScope, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Filter:
    group: str | None = None
    risk: Risk | None = None
    mine: By = None
    due_before: datetime | None = None
    held: bool = False
    scopes: tuple[RunScope, ...] = ()
    person: Person = field(init=False)
    their_names: tuple[str, ...] = field(init=False)
    """What a run may list for this person to decide it."""

    def __post_init__(self) -> None:
        group, risk, due_before = self.group, self.risk, self.due_before
        if group is not None and (not isinstance(cast("object", group), str) or not group):
            raise UserError(f"group= must be the name of a group, not {group!r:.80}.")
        check_risk(risk)
        if due_before is not None and (
            not isinstance(cast("object", due_before), datetime) or due_before.tzinfo is None
        ):
            raise UserError(
                f"due_before= must be a datetime with a time zone, not {due_before!r:.80}. Write "
                "such as datetime.now(UTC) + timedelta(hours=1)."
            )
        person = person_of(self.mine)
        mentioned = dict.fromkeys((names.ANYBODY_MAY, person.subject, *person.groups))
        object.__setattr__(self, "person", person)
        object.__setattr__(self, "their_names", tuple(searchable(one) for one in mentioned if one))

    def query(self, *more: str) -> str:
        """Return the filter in Temporal's query language, with more conditions.

        `accepts` is stricter.
        """
        base = f"WorkflowType = '{names.WORKFLOW}' AND ExecutionStatus = 'Running'"
        asks = self._of_requests()
        if self._lists_held:
            asks = f"(({asks}) OR {names.ATTRIBUTE_STATUS} = 'held')"
        seen = scopes_query(self.scopes)
        return " AND ".join([base, asks, *more, *([] if seen is None else [seen])])

    @property
    def _lists_held(self) -> bool:
        """Whether runs are listed that a person holds; they have no group, risk or deadline."""
        return self.held and (self.group, self.risk, self.due_before) == (None, None, None)

    def _of_requests(self) -> str:
        terms = [*request_terms(self.group, self.risk, self.due_before)]
        if self.mine is not None:
            terms.append(is_any_of(names.ATTRIBUTE_GROUPS, self.their_names))
        return " AND ".join(term for term in terms if term is not None)

    def accepts(self, entry: InboxEntry) -> bool:
        """Whether an entry fits."""
        if not any_covers(self.scopes, tenant=entry.tenant, agent=entry.agent, people=entry.people):
            return False
        if self._lists_held and entry.status == "held":
            is_theirs = self.mine is None or searchable(self.person.subject) == entry.held_by
            if is_theirs or not entry.pending:
                return is_theirs
        listed = (*entry.people, *((names.ANYBODY_MAY,) if entry.for_anybody else ()))
        return (
            entry.pending > 0
            and (self.group is None or searchable(self.group) in listed)
            and self.risk in {None, entry.risk}
            and (self.due_before is None or (entry.due is not None and entry.due < self.due_before))
            and (self.mine is None or not set(self.their_names).isdisjoint(listed))
        )


def accepted(entries: Iterable[InboxEntry], **criteria: Unpack[InboxCriteria]) -> list[InboxEntry]:
    """Return the entries of a list that fit; see `Inbox.list` for the criteria."""
    wanted = _Filter(**criteria)
    return [entry for entry in entries if wanted.accepts(entry)]


def entries_of(
    client: Client, listed: Iterable[WorkflowExecutionInfo], **criteria: Unpack[InboxCriteria]
) -> list[InboxEntry]:
    """Return the entries of the open runs of a list that fit; see `Inbox.list` for the criteria."""
    return accepted(_entries(client, listed), **criteria)


class Inbox:
    """Lists and watches the runs of a namespace that wait for people.

    Args:
        client: connected to the runs' server.
        patience: how long calls wait for a server that does not answer; default:
            OUTLAST_PATIENCE_SECONDS, or five minutes.
    """

    def __init__(self, client: Client, *, patience: timedelta | None = None) -> None:
        check_client(client, what="Inbox(client)")
        self._client = client
        self._patience = patience_of(patience)

    def __repr__(self) -> str:
        return f"Inbox({self._client.namespace!r})"

    async def list(
        self,
        *,
        limit: int = PAGE,
        page: bytes | None = None,
        **criteria: Unpack[InboxCriteria],
    ) -> InboxPage:
        """Return the runs that wait for people, newest first; visibility is a moment behind.

        Args:
            limit: the most entries of a page, up to 1,000.
            page: `InboxPage.next` of the page before.
            **criteria: `group`: only what this group, or this person, may decide and not everybody
                may. `risk`: only runs whose highest risk is this one. `mine`: only what this person
                may decide, also as a member of a group, or because anybody may; the run checks it
                again. `due_before`: only what expires or goes to further people before this time.
                `held=True`: also conversations that a person has taken over; with `mine` theirs.
                `scopes`: only runs of one of these scopes; empty for any.

        Raises:
            UserError: an argument does not fit, or the namespace lacks the search attributes.
            ServerUnavailable: the server does not answer.
        """
        wanted = _Filter(**criteria)
        check_page(limit)
        while True:
            query = wanted.query()
            listed, page = await list_executions(self._client, query, limit, page, self._patience)
            entries = self._accepted(wanted, listed)
            if entries or page is None:
                return InboxPage(tuple(entries), page)

    def _accepted(
        self, wanted: _Filter, listed: Iterable[WorkflowExecutionInfo]
    ) -> Sequence[InboxEntry]:
        return [entry for entry in _entries(self._client, listed) if wanted.accepts(entry)]

    async def all(self, **criteria: Unpack[InboxCriteria]) -> AsyncGenerator[InboxEntry]:
        """Yield every entry, page by page."""
        wanted = _Filter(**criteria)
        async with aclosing(executions(self._client, wanted.query(), self._patience)) as found:
            async for one in found:
                for entry in self._accepted(wanted, [one]):
                    yield entry

    async def urgent(
        self, *, limit: int = PAGE, **criteria: Unpack[InboxCriteria]
    ) -> tuple[InboxEntry, ...]:
        """Return the most urgent entries, however old: what is due first, then what is held.

        Entries without a deadline follow by risk, and then by age. Where there are many more entries
        than `limit`, only their beginning is listed. Arguments and errors are those of `list`.
        """
        wanted = _Filter(**criteria)
        check_page(limit)
        found: list[InboxEntry] = []
        if await self._count(wanted.query()) <= _FEW * limit:
            found += await self._every(wanted, wanted.query())
        else:
            counts = await asyncio.gather(*(self._count(wanted.query(one)) for one in _BY_URGENCY))
            for condition, count in zip(_BY_URGENCY, counts, strict=True):
                if count and len(found) < limit:
                    found += await self._first(wanted, condition, count, limit - len(found))
        return tuple(heapq.nsmallest(limit, found, key=urgency))

    async def _first(
        self, wanted: _Filter, condition: str, count: int, limit: int
    ) -> Sequence[InboxEntry]:
        """Return at least `limit` entries that meet a condition, the most urgent ones, or all."""
        attribute = names.ATTRIBUTE_DUE if condition is _BY_URGENCY[0] else "StartTime"

        def until(time: datetime) -> str:
            return wanted.query(condition, before(attribute, time))

        needed = limit + limit // 4  # nested runs are counted, too
        while count > _FEW * needed:
            query = await _bounded(until, self._count, needed)
            found = await self._every(wanted, query)
            if len(found) >= limit:
                return found
            needed *= _FEW
        return await self._every(wanted, wanted.query(condition))

    async def _count(self, query: str) -> int:
        return await count_executions(self._client, query, self._patience)

    async def _every(self, wanted: _Filter, query: str) -> Sequence[InboxEntry]:
        async with aclosing(executions(self._client, query, self._patience)) as found:
            return [entry async for one in found for entry in self._accepted(wanted, [one])]

    async def watch(
        self, *, every: timedelta = timedelta(seconds=2), **criteria: Unpack[InboxCriteria]
    ) -> AsyncGenerator[InboxChange]:
        """Yield every entry as added, and then each change, without end.

        `every` is the time between two looks at visibility. Other arguments and errors are those of
        `list`.
        """
        if not isinstance(cast("object", every), timedelta) or every < SHORTEST_POLL:
            raise UserError(
                f"watch(every=...) must be a timedelta of 0.1 s or more, not {every!r}."
            )
        known: dict[str, InboxEntry] = {}
        while True:
            async with aclosing(self.all(**criteria)) as found:
                present = {entry.run_id: entry async for entry in found}
            for change in _changes(known, present):
                yield change
            known = present
            await asyncio.sleep(every.total_seconds())

    async def approve_all(
        self, entries: Sequence[InboxEntry] | InboxPage, *, by: By
    ) -> tuple[BulkOutcome, ...]:
        """Approve the requests of several entries that may be decided together: one vote each.

        A request needs a decision of its own unless its policy allows bulk decisions and its risk
        is low; `plan_bulk` says first what will happen. Outcomes are in the order of the entries.
        """
        return await self.decide_all(await self.plan_bulk(entries), "approve", by=by)

    async def plan_bulk(self, entries: Sequence[InboxEntry] | InboxPage) -> tuple[BulkStep, ...]:
        """Return the requests of several entries, in order, and which may be decided together."""

        async def read(entry: InboxEntry) -> list[BulkStep]:
            try:
                found = await entry.found()
            except AgentsException as error:
                return [BulkStep(entry=entry, problem=str(error))]
            return [
                BulkStep(
                    entry=entry,
                    request=one.request,
                    shown=one.shown,
                    problem=bulk_problem(one.request),
                )
                for one in found
            ]

        steps = await read_each(entries, read)
        return tuple(one for of_entry in steps for one in of_entry)

    async def decide_all(
        self,
        plan: Sequence[BulkStep],
        decision: Literal["approve", "reject"],
        *,
        by: By,
        message: str | None = None,
    ) -> tuple[BulkOutcome, ...]:
        """Decide what a plan, whole or in part, allows: one vote for each request.

        Votes are for the arguments in the plan. `message` is the reason of a rejection, for the models
        to read. Outcomes are in the order of the plan.
        """
        person = person_of(by)
        return tuple(await read_each(plan, lambda step: _vote(step, decision, person, message)))


def bulk_problem(request: ApprovalRequest) -> str | None:
    """Return why a request cannot be decided together with others, or None if it can."""
    if request.terms.risk != "low":
        return f"Its risk is {request.terms.risk}, so it needs a decision of its own."
    if not request.terms.bulk:
        return "Its policy allows no bulk decisions, so it needs a decision of its own."
    return None


async def _vote(
    step: BulkStep, decision: Literal["approve", "reject"], by: By, message: str | None
) -> BulkOutcome:
    entry, request, receipt = step.entry, step.request, None
    if request is None:
        return BulkOutcome(run_id=entry.run_id, request_id="", refused=step.problem)
    refused = bulk_problem(request)
    if refused is None:
        try:
            if decision == "approve":
                receipt = await entry.handle.approve(request, by=by)
            else:
                receipt = await entry.handle.reject(request, message=message, by=by)
        except AgentsException as error:
            refused = str(error)
    return BulkOutcome(run_id=entry.run_id, request_id=request.id, receipt=receipt, refused=refused)


_FEW: Final = 3
"""Up to this many times the wanted number of entries, all are listed; of more, a part is searched for."""

_BY_URGENCY: Final = (
    f"{names.ATTRIBUTE_DUE} IS NOT NULL",
    *(
        f"{names.ATTRIBUTE_DUE} IS NULL AND {status} AND {risk}"
        for status in (
            f"{names.ATTRIBUTE_STATUS} = 'held'",
            f"({names.ATTRIBUTE_STATUS} IS NULL OR {names.ATTRIBUTE_STATUS} != 'held')",
        )
        for risk in (
            f"{names.ATTRIBUTE_RISK} = 'high'",
            f"{names.ATTRIBUTE_RISK} = 'medium'",
            f"({names.ATTRIBUTE_RISK} IS NULL OR {names.ATTRIBUTE_RISK} = 'low')",
        )
    ),
)
"""Conditions in the order of `urgency`: first by deadline, then each by age."""

_SPAN: Final = timedelta(hours=1)
_EXACT: Final = timedelta(milliseconds=1)
_LONGEST_SPAN: Final = timedelta(days=365 * 50)


async def _bounded(
    until: Callable[[datetime], str], count: Callable[[str], Awaitable[int]], needed: int
) -> str:
    """Return a search that finds at least `needed` executions, and not many more.

    Servers do not sort, but they count quickly: the time until which there are enough is searched
    for, from now on.

    Args:
        until: returns the search for what is before a time; it finds more for a later one.
        count: counts what a search finds.
        needed: how many are wanted; there are more at some time.
    """
    low = high = now()
    span = _SPAN
    while await count(until(low)) >= needed and span < _LONGEST_SPAN:
        low, high, span = low - span, low, span * 4
    while low == high or (await count(until(high)) < needed and span < _LONGEST_SPAN):
        low, high, span = high, high + span, span * 4
    while high - low > _EXACT:
        middle = low + (high - low) / 2
        found = await count(until(middle))
        if found < needed:
            low = middle
        else:
            high = middle
            if found <= needed * 1.25 + 5:  # a count is quicker than listing more
                break
    return until(high)


def urgency(entry: InboxEntry) -> tuple[bool, float, bool, int, datetime]:
    """Return a sort key; the smallest is the most urgent."""
    due = entry.due.timestamp() if entry.due is not None else 0.0
    risks: tuple[Risk, ...] = get_args(Risk)
    harm = -risks.index(entry.risk)
    return entry.due is None, due, entry.status != "held", harm, entry.started


def _entries(client: Client, listed: Iterable[WorkflowExecutionInfo]) -> Iterator[InboxEntry]:
    """Yield the entries of the open runs of a list that are nested in no other."""
    is_open = WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_RUNNING
    for one in listed:
        if one.status == is_open and not is_nested(one):
            yield _entry(one, attributes_of(one), client)


def _entry(execution: WorkflowExecutionInfo, found: Attributes, client: Client) -> InboxEntry:
    listed = texts_of(found)
    waits_for: str = found.get(names.ATTRIBUTE_WAITS_FOR) or ""
    asked = waits_for.removeprefix(_APPROVAL_OF) if waits_for.startswith(_APPROVAL_OF) else ""
    return InboxEntry(
        run_id=execution.execution.workflow_id,
        agent=found.get(names.ATTRIBUTE_AGENT) or "",
        status=found.get(names.ATTRIBUTE_STATUS) or "",
        tools=tuple(asked.split(", ")) if asked else (),
        pending=found.get(names.ATTRIBUTE_APPROVALS) or 0,
        people=tuple(one for one in listed if one != names.ANYBODY_MAY),
        for_anybody=names.ANYBODY_MAY in listed,
        risk=found.get(names.ATTRIBUTE_RISK) or "low",
        due=found.get(names.ATTRIBUTE_DUE),
        held_by=waits_for.removeprefix(_HELD_BY) if waits_for.startswith(_HELD_BY) else "",
        tenant=found.get(names.ATTRIBUTE_TENANT) or execution.priority.fairness_key,
        started=execution.start_time.ToDatetime(UTC),
        client=client,
    )


def _changes(before: dict[str, InboxEntry], after: dict[str, InboxEntry]) -> Iterator[InboxChange]:
    for run_id, entry in after.items():
        if run_id not in before:
            yield InboxChange("added", entry)
        elif before[run_id] != entry:
            yield InboxChange("changed", entry)
    for run_id, entry in before.items():
        if run_id not in after:
            yield InboxChange("removed", entry)
