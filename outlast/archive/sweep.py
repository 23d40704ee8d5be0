"""Finds closed histories that are not in the archive yet, and stores them."""

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    DescribeWorkflowExecutionRequest,
    ListWorkflowExecutionsRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.errors import AgentsException
from outlast.archive.archive import Archive, digest_of_run
from outlast.archive.entries import ArchivedHistory, removed_by
from outlast.contract import names
from outlast.edges.bodies import DOORS
from outlast.edges.clock import now_ms, time_of
from outlast.temporal.visibility.queries import equals

PAGE: Final = 500
AT_ONCE: Final = 4
"""How many histories are read and stored at the same time; one may have 50 MB."""

SWEEPS: Final = "sweeps/"
"""Where it is noted when whose histories were looked for."""

OVERLAP: Final = timedelta(hours=1)
"""How much later than its end a run may appear in searches."""

CLOCKS: Final = timedelta(minutes=5)
"""How much the clocks of workers may differ."""

WHOLE_EVERY: Final = timedelta(hours=6)
"""How often everything is looked through that the server has; at least 4 times in its retention."""

ARCHIVED: Final = (names.WORKFLOW, names.WORKFLOW_NOTICES)
"""The workflow types whose histories readers of runs need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotArchived:
    """A closed history that the archive lacks.

    Attributes:
        run_id: the workflow id.
        execution_id: the server's id of the history.
        task_queue: the task queue of its workers.
        closed_ms: when it ended, in milliseconds since 1970.
        why: why the last attempt to store it failed; empty if there was none.
    """

    run_id: str
    execution_id: str
    task_queue: str
    closed_ms: int
    why: str = ""

    @property
    def closed(self) -> datetime:
        """When the history ended."""
        return time_of(self.closed_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What one look for closed histories did."""

    archived: tuple[ArchivedHistory, ...] = ()
    failed: tuple[NotArchived, ...] = ()
    looked_at: int = 0


@dataclass
class Sweep:
    """Archives the closed histories of a task queue, again and again.

    Nothing that it keeps matters after a kill: each look finds what is missing by comparing the
    server's list with the archive, and what is stored twice is the same.

    Attributes:
        client: connected to the runs' server.
        archive: where histories go.
        task_queue: whose runs are archived; empty for all of the namespace.
    """

    client: Client
    archive: Archive
    task_queue: str = ""
    _known: set[str] = field(default_factory=set[str])

    async def look(self) -> Swept | None:
        """Archive what is missing; None if another process has just looked.

        Raises:
            RPCError: the server refused, or does not answer.
            AgentsException: the archive cannot be read.
        """
        name = mark_name(self.client.namespace, self.task_queue)
        mark = await times_in(self.archive, name)
        began = now_ms()
        if 0 <= began - mark.get("swept_ms", 0) < _milliseconds(self.archive.every):
            return None
        since: int | None = mark.get("complete_ms")
        whole_every = min(WHOLE_EVERY, await retention_of(self.client) / 4)
        is_whole = since is None or began - mark.get("whole_ms", 0) >= _milliseconds(whole_every)
        swept = await self.archive_since(None if is_whole else since)
        if not swept.failed:
            mark["complete_ms"] = began - _milliseconds(OVERLAP)
        if is_whole and not swept.failed:
            mark["whole_ms"] = began
        mark["swept_ms"] = began
        await self.archive.write(name, json.dumps(mark).encode())
        return swept

    async def archive_since(self, since_ms: int | None) -> Swept:
        """Archive the histories that closed since a time; all of them without a time.

        Raises:
            RPCError: the server refused, or does not answer.
            AgentsException: the archive cannot be read.
        """
        deleted = await self.archive.deleted_runs()
        archived: list[ArchivedHistory] = []
        failed: list[NotArchived] = []
        listed: set[str] = set()
        at_once = asyncio.Semaphore(AT_ONCE)

        async def take(info: WorkflowExecutionInfo) -> None:
            async with at_once:
                missing = missing_one(info)
                try:
                    archived.extend(await self._archive_chain(missing, deleted))
                    self._known.add(missing.execution_id)
                except (AgentsException, RPCError, ValueError) as error:
                    why = error.message if isinstance(error, AgentsException) else str(error)
                    failed.append(replace(missing, why=why))

        async for page in closed_executions(self.client, self.task_queue, since_ms):
            listed.update(one.execution.run_id for one in page)
            new = [one for one in page if one.execution.run_id not in self._known]
            await asyncio.gather(*map(take, new))
        self._known &= listed
        return Swept(archived=tuple(archived), failed=tuple(failed), looked_at=len(listed))

    async def _archive_chain(
        self, missing: NotArchived, deleted: set[str]
    ) -> list[ArchivedHistory]:
        """Archive a history and those before it that are missing; return the new ones."""
        namespace, made = self.client.namespace, list[ArchivedHistory]()
        execution_id, gone = missing.execution_id, set[str]()
        if digest_of_run(namespace, missing.run_id) in deleted:
            gone = removed_by(await self.archive.tombstones_of(namespace, missing.run_id))
        while execution_id and execution_id not in gone:
            known = await self.archive.find(namespace, missing.run_id, execution_id)
            if known is not None:
                return made
            entry = await self.store(missing.run_id, execution_id)
            if entry is None:
                return made
            made.append(entry)
            execution_id = entry.previous
        return made

    async def store(self, run_id: str, execution_id: str) -> ArchivedHistory | None:
        """Archive one closed history; None if the server has it no more, or it was to be deleted.

        Raises:
            RPCError: the server refused, or does not answer.
            ContentUnavailable: the archive cannot be written.
            ValueError: the history is open.
        """
        handle = self.client.get_workflow_handle(run_id, run_id=execution_id)
        try:
            description = await self.client.workflow_service.describe_workflow_execution(
                DescribeWorkflowExecutionRequest(
                    namespace=self.client.namespace,
                    execution=WorkflowExecution(workflow_id=run_id, run_id=execution_id),
                )
            )
            events = [one async for one in handle.fetch_history_events()]
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise
        entry = await self.archive.add(self.client.namespace, description, events)
        # A deletion says so before it removes anything: one of the two sees the other.
        buried = await self.archive.tombstones_of(self.client.namespace, run_id)
        if execution_id in removed_by(buried):
            await self.archive.discard(entry)
            return None
        return entry


@dataclass(frozen=True, slots=True, kw_only=True)
class LastLook:
    """When the workers of a task queue have last looked for closed histories.

    Attributes:
        at: the last look.
        complete: the last look that archived all that it found; None if none has.
    """

    at: datetime
    complete: datetime | None


async def last_look(archive: Archive, namespace: str, task_queue: str) -> LastLook | None:
    """Return when the workers of a task queue have last looked, or None if they never have.

    Raises:
        ContentUnavailable: the archive cannot be read.
    """
    mark = await times_in(archive, mark_name(namespace, task_queue))
    if "swept_ms" not in mark:
        return None
    complete = mark.get("complete_ms")
    return LastLook(
        at=time_of(mark["swept_ms"]),
        complete=None if complete is None else time_of(complete) + OVERLAP,
    )


def mark_name(namespace: str, task_queue: str) -> str:
    """Return the name of the file that says when a task queue was last looked at."""
    return f"{SWEEPS}{digest_of_run(namespace, task_queue)}.json"


async def times_in(archive: Archive, name: str) -> dict[str, int]:
    """Return the times of earlier looks that a file has; none, if it cannot be read."""
    data = await archive.read(name)
    # A time that is yet to come would keep every look from what has closed until then.
    latest = now_ms() + _milliseconds(CLOCKS)
    try:
        mark: Any = DOORS["archive"].parse(data or b"{}")
        found = {str(name): int(one) for name, one in mark.items()}
    except (ValueError, TypeError, AttributeError, OverflowError):
        return {}
    return {name: one for name, one in found.items() if one <= latest}


async def closed_executions(
    client: Client, task_queue: str, since_ms: int | None
) -> AsyncGenerator[list[WorkflowExecutionInfo]]:
    """Yield pages of the closed executions of runs, as the server lists them.

    Raises:
        RPCError: the server refused, or does not answer.
    """
    types = " OR ".join(f"WorkflowType = '{one}'" for one in ARCHIVED)
    terms = [f"({types})", "ExecutionStatus != 'Running'"]
    if since_ms is not None:
        terms.append(f"CloseTime >= '{time_of(since_ms).strftime('%Y-%m-%dT%H:%M:%SZ')}'")
    if task_queue and (queue := equals("TaskQueue", task_queue)):
        terms.append(queue)
    token = b""
    while True:
        found = await client.workflow_service.list_workflow_executions(
            ListWorkflowExecutionsRequest(
                namespace=client.namespace,
                page_size=PAGE,
                next_page_token=token,
                query=" AND ".join(terms),
            ),
            retry=True,
        )
        yield [one for one in found.executions if not task_queue or one.task_queue == task_queue]
        token = found.next_page_token
        if not token:
            return


async def server_has(client: Client, run_id: str, execution_id: str | None = None) -> bool:
    """Whether the server has a history, or without an id, any of a run.

    Raises:
        RPCError: the server refused, or does not answer.
    """
    try:
        await client.get_workflow_handle(run_id, run_id=execution_id).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return False
    return True


async def retention_of(client: Client) -> timedelta:
    """Return how long the server keeps closed histories of a namespace.

    Raises:
        RPCError: the server refused, or does not answer.
    """
    found = await client.workflow_service.describe_namespace(
        DescribeNamespaceRequest(namespace=client.namespace), retry=True
    )
    return found.config.workflow_execution_retention_ttl.ToTimedelta()


def missing_one(info: WorkflowExecutionInfo) -> NotArchived:
    """Return a listed execution as one that the archive lacks."""
    return NotArchived(
        run_id=info.execution.workflow_id,
        execution_id=info.execution.run_id,
        task_queue=info.task_queue,
        closed_ms=info.close_time.ToMilliseconds(),
    )


def _milliseconds(length: timedelta) -> int:
    return length // timedelta(milliseconds=1)
