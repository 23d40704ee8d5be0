"""Lists the runs of a namespace: their status, agent, and what they wait for.

Temporal's visibility is the only store, and it is a moment behind.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias, cast, get_args

from temporalio.api.enums.v1 import WorkflowExecutionStatus
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import (
    CountWorkflowExecutionsRequest,
    ListWorkflowExecutionsRequest,
    ListWorkflowExecutionsResponse,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.errors import AgentsException, UserError
from outlast.archive.reading import as_not_found
from outlast.client.read.final_usage import final_uses
from outlast.client.read.history import RunReader
from outlast.client.read.in_turn import read_each
from outlast.client.transport.outages import patience_of, retry_during_outage
from outlast.contract import names
from outlast.contract.names import ListedStatus
from outlast.contract.ratings import RANGES, Rated, rated_as
from outlast.contract.searchability import searchable
from outlast.edges import clock
from outlast.loop.approvals import Risk
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject
from outlast.pricing import Cost
from outlast.temporal.payloads.attributes import listed_as
from outlast.temporal.visibility.queries import (
    before,
    equals,
    is_any_of,
    search_error,
    starts_with,
    time_text,
)
from outlast.temporal.visibility.scopes import RunScope, any_covers, scopes_query
from outlast.views.run import snapshot_of

PAGE: Final = 100
LARGEST_PAGE: Final = 1_000
"""Servers answer with at most this many runs at a time."""

READ_SECONDS: Final = 10
"""The time limit for reading the history of one run."""

FAILED_FOR: Final = timedelta(days=3)
"""For how long a run that failed needs attention."""

_RETRY: Final = "retry: "
"""How `waits_for` begins where the last question has no answer."""

_CLOSED: Final = {
    "completed": ("Completed",),
    "cancelled": ("Canceled",),
    "terminated": ("Terminated",),
    "failed": ("Failed", "TimedOut"),
}
_STATUS_OF: Final[dict[Any, ListedStatus]] = {
    WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_COMPLETED: "completed",
    WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_CANCELED: "cancelled",
    WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_TERMINATED: "terminated",
}
_RUNNING: Final = WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_RUNNING


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """The runs to list; None, False and an empty text mean any.

    Attributes:
        status: the status of the run.
        agent: the name of the active agent.
        waiting: whether the run waits for a person's decision.
        id_prefix: the beginning of the run's id.
        nested: whether runs nested in others are listed, too.
        tenant: the tenant that the run belongs to.
        customer: the id of the person for whom the run works.
        assignee: the person that the conversation is assigned to.
        team: the team that the conversation is assigned to.
        tag: a tag of the conversation.
        rated: what the customer thinks of it: `good` for a rating of 4 or 5, `bad` for 1 or 2.
        attention: whether the run needs attention: see `ListedRun.attention`.
        group: a group, or a person, who may decide what the run waits for, and not everybody may.
        risk: the highest risk of what the run waits for.
        due_before: only runs with a request that expires or goes to further people before this
            time.
        case_due_before: only runs in which a person has to act before this time: to reply to the
            customer, or to take the conversation.
        scopes: only runs of one of these scopes; empty for any.
        listed_customers: what the customer may be listed as, as `on` says, in the place of its id.
        since: only open runs, and those that ended since this time.

    Raises:
        UserError: there is no such status or risk.
    """

    status: ListedStatus | None = None
    agent: str | None = None
    waiting: bool = False
    id_prefix: str = ""
    nested: bool = True
    tenant: str | None = None
    customer: str | None = None
    assignee: str | None = None
    team: str | None = None
    tag: str | None = None
    rated: Rated | None = None
    attention: bool = False
    group: str | None = None
    risk: Risk | None = None
    due_before: datetime | None = None
    case_due_before: datetime | None = None
    scopes: tuple[RunScope, ...] = ()
    listed_customers: tuple[str, ...] = ()
    since: datetime | None = None

    def __post_init__(self) -> None:
        check_risk(self.risk)
        if self.status is not None and self.status not in get_args(ListedStatus):
            raise UserError(
                f"{self.status!r:.40} is no status of a run. Statuses: "
                f"{', '.join(get_args(ListedStatus))}."
            )

    def accepts(self, run: "ListedRun") -> bool:
        """Whether a run, as the server lists it, fits the filter."""
        return (
            (self.agent is None or run.agent == searchable(self.agent))
            and run.run_id.startswith(self.id_prefix)
            and (self.nested or not run.is_nested)
            and (self.tenant is None or run.tenant == searchable(self.tenant))
            and (not self._customers or run.customer in self._customers)
            and (self.assignee is None or run.assignee == searchable(self.assignee))
            and (self.team is None or run.team == searchable(self.team))
            and (self.tag is None or searchable(self.tag) in run.tags)
            and (self.rated is None or rated_as(run.rating) == self.rated)
            and (not self.attention or bool(run.attention(clock.now())))
            and (self.group is None or searchable(self.group) in run.people)
            and (self.since is None or run.closed is None or run.closed >= self._since)
            and (
                self.case_due_before is None
                or (run.case_due is not None and run.case_due < self.case_due_before)
            )
            and any_covers(
                self.scopes,
                tenant=run.tenant,
                agent=run.agent,
                people=run.people,
                is_nested=run.is_nested,
            )
        )

    @property
    def _since(self) -> datetime:
        """Return the time as the server compares it, in whole seconds."""
        assert self.since is not None  # noqa: S101  the caller's case
        return self.since.astimezone(UTC).replace(microsecond=0)

    @property
    def _is_about_requests(self) -> bool:
        return self.waiting or (self.group, self.risk, self.due_before) != (None, None, None)

    @property
    def _customers(self) -> tuple[str, ...]:
        """Return what the customer may be listed as; nothing for any customer."""
        return self.listed_customers or (
            () if self.customer is None else (searchable(self.customer),)
        )

    def on(self, client: Client) -> "RunFilter":
        """Return the filter for the runs of a client, which may list customers by digests.

        Raises:
            UserError: the client's codec has no digests, so that nobody is found by customer.
        """
        if self.customer is None:
            return self
        listed = listed_as(client, self.customer)
        if not listed:
            raise UserError(
                "Runs cannot be found by customer here: contents are encrypted, and the codec has "
                "no method digests_of. The EncryptionCodec of outlast.encryption has one."
            )
        return replace(self, listed_customers=listed)

    def query(self) -> str:
        """Return the filter in Temporal's query language; `accepts` is stricter."""
        # A run that continued as new is listed once, by its newest history.
        terms: list[str | None] = [
            f"WorkflowType = '{names.WORKFLOW}'",
            "ExecutionStatus != 'ContinuedAsNew'",
        ]
        if self.status in names.WAITING:
            terms.append("ExecutionStatus = 'Running'")
            terms.append(f"{names.ATTRIBUTE_STATUS} = '{self.status}'")
        elif self.status == "running":
            terms.append("ExecutionStatus = 'Running'")
            terms.append(f"{names.ATTRIBUTE_STATUS} IS NULL")
        elif self.status is not None:
            closed = " OR ".join(f"ExecutionStatus = '{one}'" for one in _CLOSED[self.status])
            terms.append(f"({closed})")
        if self.agent is not None:
            terms.append(equals(names.ATTRIBUTE_AGENT, searchable(self.agent)))
        if self.tenant is not None:
            terms.append(equals(names.ATTRIBUTE_TENANT, searchable(self.tenant)))
        if self._customers:
            terms.append(is_any_of(names.ATTRIBUTE_CUSTOMER, self._customers))
        terms += self._case_terms()
        if self._is_about_requests:
            # Runs that have ended keep the attributes that they had.
            terms.append("ExecutionStatus = 'Running'")
            terms += request_terms(self.group, self.risk, self.due_before)
        if self.case_due_before is not None:
            terms += ["ExecutionStatus = 'Running'"]
            terms += [before(names.ATTRIBUTE_CASE_DUE, self.case_due_before)]
        if self.since is not None:
            at = time_text(self._since)
            terms.append(f"(ExecutionStatus = 'Running' OR CloseTime >= '{at}')")
        if self.id_prefix:
            terms.append(starts_with("WorkflowId", self.id_prefix))
        terms.append(scopes_query(self.scopes))
        return " AND ".join(term for term in terms if term is not None)

    def _case_terms(self) -> Iterator[str | None]:
        if self.assignee is not None:
            yield equals(names.ATTRIBUTE_ASSIGNEE, searchable(self.assignee))
        if self.team is not None:
            yield equals(names.ATTRIBUTE_TEAM, searchable(self.team))
        if self.tag is not None:
            yield is_any_of(names.ATTRIBUTE_TAGS, [searchable(self.tag)])
        if self.rated is not None:
            lowest, highest = RANGES[self.rated]
            yield f"{names.ATTRIBUTE_RATING} BETWEEN {lowest} AND {highest}"
        if self.attention:
            yield f"({attention_query(clock.now())})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRun:
    """One run, as visibility lists it.

    Attributes:
        run_id: the workflow id.
        execution_id: Temporal's run id: two runs have the same id where it was used again.
        status: the status of the run.
        agent: the active agent.
        approvals: how many requests wait for a person's decision.
        started: the start time, of its newest history where it has several.
        closed: the end time; None for an open run.
        waits_for: what an open run waits for; empty if nothing, or if the server does not have it.
        cost: the tokens and the cost of the run's model calls, with those of nested runs that have
            ended; None if nobody read its history for them, or if it cannot be read.
        is_nested: whether it is the run of an agent that works as a tool of another run.
        tenant: the tenant that the run belongs to; empty for none.
        customer: what the run's customer is listed as, a digest where contents are encrypted; empty
            for none.
        people: the groups and people who may decide what it waits for, where not everybody may.
        due: when the first thing is due that it waits for; None for never.
        case_due: when a person has to reply to the customer, or to take the conversation; None for
            never.
        team: the team that the conversation is assigned to; empty for none.
        assignee: the person that it is assigned to; empty for nobody.
        tags: the tags of the conversation, as many as a list can hold.
        rating: what the customer thinks of it, from 1, the worst, to 5; None if they have not said.
    """

    run_id: str
    execution_id: str = ""
    status: ListedStatus
    agent: str
    approvals: int
    started: datetime
    closed: datetime | None
    waits_for: str = ""
    cost: Cost | None = None
    is_nested: bool = False
    tenant: str = ""
    customer: str = ""
    people: tuple[str, ...] = ()
    due: datetime | None = None
    case_due: datetime | None = None
    team: str = ""
    assignee: str = ""
    tags: tuple[str, ...] = ()
    rating: int | None = None

    @property
    def is_unanswered(self) -> bool:
        """Whether the last question has no answer: a guardrail, a limit or an error ended it."""
        return self.status == "idle" and self.waits_for.startswith(_RETRY)

    @property
    def is_given_to_team(self) -> bool:
        """Whether the conversation waits for anybody of its team: nobody has taken it yet."""
        return self.status == "held" and bool(self.team) and self.waits_for.strip() == "person:"

    @property
    def customer_waits(self) -> bool:
        """Whether its customer may wait for an answer, of an agent or of a person."""
        is_at_rest = self.status in names.RESTING or self.status == "on_call"
        return self.closed is None and (not is_at_rest or self.is_unanswered)

    def attention(self, now: datetime) -> str:
        """Return why a person should look at it, in words; empty if nothing is wrong.

        It is overdue, without a worker that can go on, or unanswered; or it failed in the last days.
        """
        if self.closed is not None:
            is_new = self.status == "failed" and now - self.closed < FAILED_FOR
            return "failed" if is_new else ""
        if self.status in {"snoozed", "resolved"}:
            return ""
        if self.status == "blocked":
            return "no worker can go on"
        if self.is_unanswered:
            return "unanswered"
        return "overdue" if self.due is not None and self.due < now else ""

    def record(self) -> JsonObject:
        """Return the run for programs."""
        return {
            "run_id": self.run_id,
            "execution_id": self.execution_id,
            "status": self.status,
            "agent": self.agent or None,
            "pending_approvals": self.approvals,
            "waits_for": self.waits_for or None,
            "tenant": self.tenant or None,
            "customer": self.customer or None,
            "team": self.team or None,
            "assignee": self.assignee or None,
            "tags": list(self.tags),
            "rating": self.rating,
            "tokens": None if self.cost is None else self.cost.tokens,
            "cost": None if self.cost is None else self.cost.record(),
            "started": self.started.isoformat(),
            "closed": self.closed.isoformat() if self.closed else None,
        }


@dataclass(frozen=True, slots=True)
class RunPage:
    """Some runs of a list, and where the next page begins.

    Attributes:
        runs: the runs.
        next: the argument `page` of the next page; None after the last one.
    """

    runs: tuple[ListedRun, ...]
    next: bytes | None = None

    def __iter__(self) -> Iterator[ListedRun]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)


async def list_runs(
    client: Client,
    criteria: RunFilter | None = None,
    *,
    limit: int = PAGE,
    page: bytes | None = None,
    patience: timedelta | None = None,
) -> RunPage:
    """Return a page of the runs that match: open runs first, then closed ones, newest first.

    After 1,000 runs that do not match, a page is empty, and another one follows.

    Args:
        client: connected to the runs' server.
        criteria: which runs; default: all.
        limit: the most runs of a page, up to 1,000.
        page: `RunPage.next` of the page before.
        patience: how long to wait for a server that does not answer.

    Raises:
        UserError: the limit does not fit, or the namespace lacks the search attributes.
        ServerUnavailable: the server does not answer.
    """
    wanted = (criteria or RunFilter()).on(client)
    check_page(limit)
    looked_at = 0
    while True:
        listed, page = await list_executions(client, wanted.query(), limit, page, patience)
        runs = tuple(run for run in map(listed_run, listed) if wanted.accepts(run))
        looked_at += len(listed)
        if runs or page is None or looked_at >= LARGEST_PAGE:
            return RunPage(runs, page)


async def find_runs(
    client: Client, criteria: RunFilter, *, limit: int, patience: timedelta | None = None
) -> list[ListedRun]:
    """Return the first runs that match, in the order of `list_runs`."""
    found: list[ListedRun] = []
    page: bytes | None = None
    while True:
        size = min(limit, LARGEST_PAGE)
        listed = await list_runs(client, criteria, limit=size, page=page, patience=patience)
        found += listed.runs
        page = listed.next
        if page is None or len(found) >= limit:
            return found[:limit]


async def with_costs(client: Client, runs: Sequence[ListedRun]) -> list[ListedRun]:
    """Return runs with the tokens and costs of their model calls, as they are at present.

    The last event of a completed or failed run says them. Of other runs, the history is read.
    """

    async def read(run: ListedRun) -> ListedRun:
        return replace(run, cost=await cost_of(client, run))

    return await read_each(runs, read)


async def with_tenants(client: Client, runs: Sequence[ListedRun]) -> list[ListedRun]:
    """Return runs with their tenants, also where their search attributes do not name them.

    Runs of older versions, and of namespaces without the attribute, are described one by one.
    """

    async def read(run: ListedRun) -> ListedRun:
        if run.tenant:
            return run
        handle = client.get_workflow_handle(run.run_id, run_id=run.execution_id)
        try:
            described = await handle.describe()
        except RPCError:  # it is deleted meanwhile
            return run
        info = described.raw_description.workflow_execution_info
        return replace(run, tenant=info.priority.fairness_key)

    return await read_each(runs, read)


async def cost_of(client: Client, run: ListedRun) -> Cost | None:
    """Return the cost of a listed execution; None if it is encrypted, deleted or slow to read."""
    if run.status in {"completed", "failed"}:
        try:
            async with asyncio.timeout(READ_SECONDS):
                uses = await final_uses(client, run.run_id, run.execution_id)
        except TimeoutError:
            return None
        except RPCError as error:
            if as_not_found(error).status is not RPCStatusCode.NOT_FOUND:
                return None
            uses = None  # the archive may have it
        if uses is not None:
            return Cost.of_uses(uses)
    state = await state_of(client, run.run_id, run.execution_id)
    return None if state is None else Cost.of_state(snapshot_of(state))


async def state_of(client: Client, run_id: str, execution_id: str) -> LoopState | None:
    """Return the state of a listed execution; None if it is encrypted, deleted or slow to read."""
    try:
        async with asyncio.timeout(READ_SECONDS):
            return await RunReader(client, run_id).catch_up(execution_id)
    except (AgentsException, RPCError, TimeoutError):
        return None


# --- Visibility ----------------------------------------------------------------------------------


def check_risk(risk: Risk | None) -> None:
    """Refuse a risk that no request has."""
    if risk is not None and risk not in get_args(Risk):
        raise UserError(f"risk= must be 'low', 'medium' or 'high', not {risk!r:.80}.")


def request_terms(
    group: str | None, risk: Risk | None, due_before: datetime | None
) -> Iterator[str | None]:
    """Yield the terms of a search for runs with requests of a kind."""
    yield f"{names.ATTRIBUTE_APPROVALS} > 0"
    if group is not None:
        yield is_any_of(names.ATTRIBUTE_GROUPS, [searchable(group)])
    if risk is not None:
        yield equals(names.ATTRIBUTE_RISK, risk)
    if due_before is not None:
        yield before(names.ATTRIBUTE_DUE, due_before)


def attention_query(now: datetime) -> str:
    """Return a search for all runs that need attention; `ListedRun.attention` is stricter."""
    status, waits = names.ATTRIBUTE_STATUS, starts_with(names.ATTRIBUTE_WAITS_FOR, _RETRY)
    due = " OR ".join(before(one, now) for one in (names.ATTRIBUTE_DUE, names.ATTRIBUTE_CASE_DUE))
    failed = " OR ".join(f"ExecutionStatus = '{one}'" for one in _CLOSED["failed"])
    is_open = f"ExecutionStatus = 'Running' AND ({status} = 'blocked' OR {waits} OR {due})"
    return f"({is_open}) OR (({failed}) AND CloseTime >= '{time_text(now - FAILED_FOR)}')"


def check_page(limit: object) -> None:
    """Refuse a page that no server answers with."""
    is_number = isinstance(limit, int) and not isinstance(limit, bool)
    if not is_number or not 0 < cast("int", limit) <= LARGEST_PAGE:
        raise UserError(f"limit={limit!r:.80} must be a number from 1 to {LARGEST_PAGE:,}.")


async def list_executions(
    client: Client, query: str, limit: int, page: bytes | None, patience: timedelta | None
) -> tuple[Sequence[WorkflowExecutionInfo], bytes | None]:
    """Return one page of a search, and the token of the next one.

    The SDK's own listing converts every attribute of every run, which takes ten times as long.
    """
    request = ListWorkflowExecutionsRequest(
        namespace=client.namespace,
        page_size=limit,
        next_page_token=page or b"",
        query=query,
    )

    async def search() -> ListWorkflowExecutionsResponse:
        try:
            return await client.workflow_service.list_workflow_executions(request)
        except RPCError as error:
            # The server's answer to a token that it cannot read, which no retry changes.
            if page and error.status is RPCStatusCode.UNKNOWN:
                raise UserError(
                    "There is no such page of runs. Begin with the first one."
                ) from error
            raise

    try:
        found = await retry_during_outage(client, search, patience_of(patience))
    except RPCError as error:
        raise search_error(client.namespace, error) from error
    return found.executions, found.next_page_token or None


async def executions(
    client: Client, query: str, patience: timedelta | None = None
) -> AsyncGenerator[WorkflowExecutionInfo]:
    """Yield everything that a search finds, page by page."""
    page: bytes | None = None
    while True:
        found, page = await list_executions(client, query, LARGEST_PAGE, page, patience)
        for one in found:
            yield one
        if page is None:
            return


async def first_executions(client: Client, query: str, limit: int) -> list[WorkflowExecutionInfo]:
    """Return the first executions that a search finds, page by page."""
    found: list[WorkflowExecutionInfo] = []
    async with aclosing(executions(client, query)) as listed:
        async for one in listed:
            found.append(one)
            if len(found) == limit:
                break
    return found


async def count_executions(client: Client, query: str, patience: timedelta | None) -> int:
    """Return how many executions a search finds; much quicker than listing them."""
    request = CountWorkflowExecutionsRequest(namespace=client.namespace, query=query)
    try:
        found = await retry_during_outage(
            client,
            lambda: client.workflow_service.count_workflow_executions(request),
            patience_of(patience),
        )
    except RPCError as error:
        raise search_error(client.namespace, error) from error
    return found.count


Attributes: TypeAlias = dict[str, Any]
_DUE: Final = (names.ATTRIBUTE_DUE, names.ATTRIBUTE_CASE_DUE)


def attributes_of(execution: WorkflowExecutionInfo) -> Attributes:
    """Return the search attributes of a run, by name."""
    fields = execution.search_attributes.indexed_fields
    found: Attributes = {
        name: json.loads(fields[name].data) for name in names.SEARCH_ATTRIBUTES if name in fields
    }
    for name in _DUE:
        if (due := found.get(name)) is not None:
            found[name] = datetime.fromisoformat(due)
    return found


def texts_of(attributes: Attributes, name: str = names.ATTRIBUTE_GROUPS) -> Sequence[str]:
    """Return a list of a run, such as the groups and people who may decide."""
    listed: str | list[str] = attributes.get(name) or []
    return [listed] if isinstance(listed, str) else listed  # some stores unpack a list of one


def is_nested(execution: WorkflowExecutionInfo) -> bool:
    """Whether a run is the run of an agent that works as a tool of another run."""
    parent = execution.parent_execution.workflow_id
    return bool(parent) and execution.execution.workflow_id.startswith(f"{parent}/")


def listed_run(execution: WorkflowExecutionInfo) -> ListedRun:
    """Return a run as the server describes it."""
    found, is_open = attributes_of(execution), execution.status == _RUNNING
    status: ListedStatus = "running"
    if is_open:
        status = found.get(names.ATTRIBUTE_STATUS) or "running"
    else:
        status = _STATUS_OF.get(execution.status, "failed")
    return ListedRun(
        run_id=execution.execution.workflow_id,
        execution_id=execution.execution.run_id,
        status=status,
        agent=found.get(names.ATTRIBUTE_AGENT) or "",
        approvals=(found.get(names.ATTRIBUTE_APPROVALS) or 0) if is_open else 0,
        waits_for=(found.get(names.ATTRIBUTE_WAITS_FOR) or "") if is_open else "",
        started=execution.start_time.ToDatetime(UTC),
        closed=None if is_open else execution.close_time.ToDatetime(UTC),
        is_nested=is_nested(execution),
        # Runs of older versions have only the fairness key, which few servers list.
        tenant=found.get(names.ATTRIBUTE_TENANT) or execution.priority.fairness_key,
        customer=found.get(names.ATTRIBUTE_CUSTOMER) or "",
        people=tuple(one for one in texts_of(found) if one != names.ANYBODY_MAY) if is_open else (),
        due=min((one for one in map(found.get, _DUE) if one is not None), default=None)
        if is_open
        else None,
        case_due=found.get(names.ATTRIBUTE_CASE_DUE) if is_open else None,
        team=found.get(names.ATTRIBUTE_TEAM) or "",
        assignee=found.get(names.ATTRIBUTE_ASSIGNEE) or "",
        tags=tuple(texts_of(found, names.ATTRIBUTE_TAGS)),
        rating=found.get(names.ATTRIBUTE_RATING),
    )
