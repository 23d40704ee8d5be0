"""Reads recordings from the histories of runs, one after another; needs no worker."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, TypeAlias

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.errors import AgentsException, RunNotFound, UserError
from outlast.archive.archive import Archive, described
from outlast.archive.locations import archive_of
from outlast.client.read.history import RunReader
from outlast.client.recordings.recorder import Recorder, redacted
from outlast.client.recordings.recording import Recording
from outlast.client.runs import ListedRun, RunFilter, executions, listed_run
from outlast.client.transport.content import reader_of
from outlast.client.transport.run_address import RunAddress
from outlast.client.whose import find_person
from outlast.contract import blobs, names

AT_ONCE: Final = 8
"""How many histories are read at the same time, and so how many recordings are in memory."""

Key: TypeAlias = tuple[str, str]
"""A run's id, and the id of its newest execution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadRun:
    """A run that could not be read, such as an encrypted one, and why."""

    run_id: str
    why: str


async def record_run(
    client: Client, run_id: str, *, execution_id: str | None = None, redact: bool = True
) -> Recording:
    """Return the recording of a run, so far if it is open.

    Args:
        client: connected to the run's server.
        run_id: the run.
        execution_id: one of its executions; default: the newest.
        redact: hide what the approval policies of the run redact, as the desk does.

    Raises:
        RunNotFound: there is no such run, or its history is no longer retained.
        AgentsException: the run cannot be read here.
    """
    address, recorder = RunAddress(client, run_id), Recorder()
    try:
        if execution_id is None:
            described = address.checked(await address.ask(address.workflow.describe))
            execution_id = described.run_id
        reader = RunReader(client, run_id)
        async with aclosing(reader.read_all(execution_id)) as events:
            async for progress in events:
                recorder.take(progress.event, progress.state, progress.lost)
    except RPCError as error:
        if execution_id is not None and error.status is RPCStatusCode.NOT_FOUND:
            raise RunNotFound(f"The history of {run_id} is no longer retained.") from error
        raise await address.translate(error) from error
    recorded = recorder.recording(execution_id)
    # The state of a run that no worker has begun does not know its id yet.
    recording = await _with_content(client, replace(recorded, run_id=run_id))
    return redacted(recording) if redact else recording


async def _with_content(client: Client, recording: Recording) -> Recording:
    """Return a recording with the content that the run keeps in a blob store."""
    document = recording.record()
    if blobs.is_plain(document):
        return recording
    return Recording.from_json(await asyncio.to_thread(reader_of(client).whole, document))


async def record_runs(
    client: Client,
    criteria: RunFilter | None = None,
    *,
    since: datetime | None = None,
    query: str = "",
    limit: int | None = None,
    redact: bool = True,
    skip: Collection[Key] = (),
    archived: bool = False,
) -> AsyncGenerator[Recording | UnreadRun]:
    """Yield the recordings of the runs that match: open runs first, then closed ones, newest first.

    Only a few are in memory at a time.

    Args:
        client: connected to the runs' server.
        criteria: which runs; default: all.
        since: only open runs, and those that ended since this time.
        query: further terms in Temporal's query language.
        limit: the most runs; None for all.
        redact: as for `record_run`.
        skip: executions to leave out, such as those that an earlier export has.
        archived: after the runs of the server, also those that only the archive has.

    Raises:
        AgentsException: the server refused the search, or there is no archive.
    """
    listed = run_keys(client, criteria, since=since, query=query, archived=archived)

    async def read(key: Key) -> Recording | UnreadRun:
        try:
            return await record_run(client, key[0], execution_id=key[1], redact=redact)
        except AgentsException as error:
            return UnreadRun(run_id=key[0], why=error.message)

    reading = deque[asyncio.Task[Recording | UnreadRun]]()
    try:
        async with aclosing(listed) as keys:
            number = 0
            async for key in keys:
                if key in skip:
                    continue
                if limit is not None and number >= limit:
                    break
                number += 1
                reading.append(asyncio.create_task(read(key)))
                if len(reading) >= AT_ONCE:
                    yield await reading.popleft()
        while reading:
            yield await reading.popleft()
    finally:
        for task in reading:
            task.cancel()


async def record_person(
    client: Client, person: str, *, every_run: bool = False, redact: bool = True
) -> AsyncGenerator[Recording | UnreadRun]:
    """Yield the recordings of the runs that worked for a person, also those that only the archive has.

    Args:
        client: connected to the runs' server.
        person: the id of the customer.
        every_run: as for `find_person`.
        redact: as for `record_run`.

    Raises:
        AgentsException: a run cannot be read here, so that nobody knows for whom it worked.
    """
    found = await find_person(client, archive_of(client), person, every_run=every_run)
    for (run_id, _), execution_id in zip(found.runs, found.newest, strict=True):
        try:
            yield await record_run(client, run_id, execution_id=execution_id, redact=redact)
        except AgentsException as error:
            yield UnreadRun(run_id=run_id, why=error.message)


def run_keys(
    client: Client,
    criteria: RunFilter | None = None,
    *,
    since: datetime | None = None,
    query: str = "",
    archived: bool = False,
) -> AsyncGenerator[Key]:
    """Yield the keys of the runs that match; the arguments are those of `record_runs`."""
    wanted = criteria or RunFilter()
    if since is not None:
        wanted = replace(wanted, since=since)
    archive = _archive(client, query) if archived else None
    listed = _keys(client, wanted, query)
    if archive is None:
        return listed
    return _with_archived(listed, archive, client.namespace, wanted)


async def archived_runs(
    client: Client, criteria: RunFilter, *, beside: Collection[Key] = ()
) -> list[ListedRun]:
    """Return the runs that match and only the archive has, newest first.

    Args:
        client: connected to the runs' server.
        criteria: which runs.
        beside: the runs of the server, which are left out.

    Raises:
        UserError: there is no archive.
    """
    archive = _archive(client, "")
    wanted, seen = criteria.on(client), set(beside)
    async with aclosing(_archived(archive, client.namespace, wanted, seen)) as entries:
        found = [one async for one in entries]
    return sorted(found, key=lambda one: one.started, reverse=True)


async def _keys(client: Client, criteria: RunFilter, query: str) -> AsyncGenerator[Key]:
    wanted = criteria.on(client)
    terms = [wanted.query()]
    if query.strip():
        terms.append(f"({query})")
    async with aclosing(executions(client, " AND ".join(terms))) as found:
        async for one in found:
            if wanted.accepts(listed_run(one)):
                yield one.execution.workflow_id, one.execution.run_id


def _archive(client: Client, query: str) -> Archive:
    archive = archive_of(client)
    if archive is None:
        raise UserError("There is no archive. Set OUTLAST_ARCHIVE, or call use_archive(client, …).")
    if query.strip():
        raise UserError("Only the server understands a query. Leave it out to read the archive.")
    return archive


async def _with_archived(
    listed: AsyncGenerator[Key], archive: Archive, namespace: str, criteria: RunFilter
) -> AsyncGenerator[Key]:
    """Yield the runs of the server, and then those that only the archive has, in no order."""
    seen = set[Key]()
    async with aclosing(listed) as keys:
        async for key in keys:
            seen.add(key)
            yield key
    async with aclosing(_archived(archive, namespace, criteria, seen)) as runs:
        async for run in runs:
            yield run.run_id, run.execution_id


async def _archived(
    archive: Archive, namespace: str, criteria: RunFilter, seen: Collection[Key]
) -> AsyncGenerator[ListedRun]:
    async with aclosing(archive.entries()) as entries:
        async for entry in entries:
            key = entry.run_id, entry.execution_id
            is_run = entry.workflow == names.WORKFLOW and not entry.continues
            if not is_run or entry.namespace != namespace or key in seen:
                continue
            run = listed_run(described(entry).workflow_execution_info)
            if criteria.accepts(run) and criteria.status in {None, run.status}:
                yield run
