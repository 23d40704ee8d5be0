"""Finding runs through Temporal's visibility, by the search attributes that runs keep up to date.

Owns: the query, and what a row says. Must not know: how rows are printed.
"""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.errors import AgentsException, ServerUnavailable, UserError
from outlast.contract import names
from outlast.contract.searchability import searchable
from outlast.loop.values import JsonObject
from outlast.visibility.queries import equals

_AGENT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_AGENT)
_STATUS = SearchAttributeKey.for_keyword(names.ATTRIBUTE_STATUS)
_APPROVALS = SearchAttributeKey.for_int(names.ATTRIBUTE_APPROVALS)
_OPEN = {"running", "waiting", "idle"}
# A run that is cancelled by our own means completes, with a result that says so.
_CLOSED = {
    "completed": ("Completed",),
    "cancelled": ("Completed", "Canceled", "Terminated"),
    "failed": ("Failed", "TimedOut"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which runs are wanted; what is None or False does not matter."""

    status: str | None = None
    agent: str | None = None
    waiting: bool = False

    def accepts(self, agent: str | None) -> bool:
        """Whether an agent's name, as the server has it, is the one that is wanted."""
        return self.agent is None or agent == searchable(self.agent)

    def query(self) -> str:
        """Return the filter in Temporal's query language; names are to be compared besides."""
        # A run that continues in a new history is listed once, by its newest one.
        terms = [f"WorkflowType = '{names.WORKFLOW}'", "ExecutionStatus != 'ContinuedAsNew'"]
        if self.status in _OPEN:
            terms.append("ExecutionStatus = 'Running'")
            terms.append(f"{names.ATTRIBUTE_STATUS} = '{self.status}'")
        elif self.status is not None:
            closed = " OR ".join(f"ExecutionStatus = '{one}'" for one in _CLOSED[self.status])
            terms.append(f"({closed})")
        if self.agent is not None:
            found = equals(names.ATTRIBUTE_AGENT, searchable(self.agent))
            terms += [found] if found else []
        if self.waiting:
            terms.append("ExecutionStatus = 'Running'")
            terms.append(f"{names.ATTRIBUTE_APPROVALS} > 0")
        return " AND ".join(terms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run.

    Attributes:
        run_id: the workflow id.
        status: of the run, as `outlast show` has it.
        agent: who has the conversation; empty where nobody wrote it down.
        approvals: how many decisions it waits for.
        started: when the run, or its newest history, began.
        closed: when it ended.
    """

    run_id: str
    status: str
    agent: str
    approvals: int
    started: datetime
    closed: datetime | None

    @property
    def took(self) -> str:
        """How long it took, or takes already, roughly."""
        # The age of a run is for reading only, so the clock of this machine will do.
        return rough((self.closed or datetime.now(UTC)) - self.started)  # noqa: TID251

    def record(self) -> JsonObject:
        """Return the row for programs."""
        return {
            "run_id": self.run_id,
            "status": self.status,
            "agent": self.agent or None,
            "pending_approvals": self.approvals,
            "started": self.started.isoformat(),
            "closed": self.closed.isoformat() if self.closed else None,
        }


async def find_runs(client: Client, wanted: Filter, *, limit: int) -> list[Row]:
    """Return the runs that fit: the open ones first, then those that ended last.

    Raises:
        UserError: the namespace lacks the search attributes, or does not exist.
        ServerUnavailable: the server does not answer.
    """
    rows: list[Row] = []
    try:
        batch: list[WorkflowExecution] = []
        async for execution in client.list_workflows(wanted.query()):
            if not wanted.accepts(execution.typed_search_attributes.get(_AGENT)):
                continue
            batch.append(execution)
            if len(batch) + len(rows) >= limit:
                rows += await _rows(client, batch, wanted)
                batch = []
                if len(rows) >= limit:
                    break
        rows += await _rows(client, batch, wanted)
    except RPCError as error:
        raise _explained(client, error) from error
    return rows


async def _rows(client: Client, batch: list[WorkflowExecution], wanted: Filter) -> list[Row]:
    statuses = await asyncio.gather(*(_status_of(client, one) for one in batch))
    return [
        Row(
            run_id=one.id,
            status=status,
            agent=one.typed_search_attributes.get(_AGENT) or "",
            approvals=(one.typed_search_attributes.get(_APPROVALS) or 0)
            if one.close_time is None
            else 0,
            started=one.start_time,
            closed=one.close_time,
        )
        for one, status in zip(batch, statuses, strict=True)
        if wanted.status is None or status == wanted.status
    ]


async def _status_of(client: Client, execution: WorkflowExecution) -> str:
    match execution.status:
        case WorkflowExecutionStatus.RUNNING:
            return execution.typed_search_attributes.get(_STATUS) or "running"
        case WorkflowExecutionStatus.COMPLETED:
            # The attributes are those of the last step before the end.
            handle: Any = client.get_workflow_handle(execution.id, run_id=execution.run_id)
            try:
                result: Any = await handle.result(follow_runs=False)
            except RPCError:
                raise
            except Exception:  # noqa: BLE001  encrypted; the list needs no key, and it is closed
                return "completed"
            return str(result.get("status", "completed"))
        case WorkflowExecutionStatus.CANCELED | WorkflowExecutionStatus.TERMINATED:
            return "cancelled"
        case _:
            return "failed"


def rough(length: timedelta) -> str:
    """Return a duration as people say it, such as `3 min`."""
    seconds = max(0, int(length.total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _explained(client: Client, error: RPCError) -> AgentsException:
    if error.status is RPCStatusCode.NOT_FOUND:
        return UserError(f"The namespace {client.namespace!r} does not exist: {error.message}")
    if error.status is RPCStatusCode.INVALID_ARGUMENT:
        return UserError(
            f"The server cannot search for this: {error.message}. Where its search attributes are "
            "missing, `outlast doctor --fix` adds them."
        )
    if error.status in {RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED}:
        return ServerUnavailable(f"The Temporal server does not answer: {error.message}")
    return AgentsException(f"The Temporal server refused: {error.message}")
