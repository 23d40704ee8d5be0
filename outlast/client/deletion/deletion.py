"""Deletes runs on request, from the server, the archive and their sessions, and proves it.

What a run has left in other places stays: traces, logs, and what tools have written.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.errors import (
    AgentsException,
    ContentUnavailable,
    RunNotFound,
    ServerUnavailable,
    UserError,
)
from outlast.agents.registry import Registry
from outlast.archive import Archive, ArchivedHistory, use_archive, workflow_handle
from outlast.archive.archive import ENTRY, HISTORY, digest_of_run, folder_of
from outlast.archive.entries import Tombstone
from outlast.archive.tombstones import tombstones, write_tombstone
from outlast.blobs import large_content
from outlast.client.deletion.sessions import OF_A_TOOL, RunSession, clear, count_items, sessions_of
from outlast.client.read.history import RunReader
from outlast.client.runs import executions
from outlast.client.transport.run_address import RunAddress, unless_gone
from outlast.common.clock import now_ms
from outlast.contract import blobs, names
from outlast.loop.canonical import canonical_name, same_person
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject
from outlast.ports.session import Session
from outlast.sessions.described import allow_place
from outlast.temporal.visibility.queries import equals, search_error

GONE_WITHIN: Final = timedelta(minutes=2)
"""How long a server may take to delete an execution; it does so beside its other work."""

LOOK_SECONDS: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class _Doomed:
    """One history that is to be deleted."""

    execution_id: str
    entry: ArchivedHistory | None = None
    on_server: bool = False


@dataclass
class _Leavings:
    """What a run has outside of its histories.

    Attributes:
        keys: the keys of its large content to remove.
        sessions: its sessions to clear, by key.
        items: the number of items in each of them, by digest.
        left: what will be left, in words.
    """

    keys: set[str] = field(default_factory=set[str])
    sessions: dict[str, tuple[RunSession, Session]] = field(
        default_factory=dict[str, tuple[RunSession, Session]]
    )
    items: dict[str, int] = field(default_factory=dict[str, int])
    left: dict[str, None] = field(default_factory=dict[str, None])


@dataclass
class Deletion:
    """Deletes runs on request. A deletion that was interrupted is finished by the same request.

    The items in a run's session are removed, too, unless another run that the server or the archive
    has uses the session. This reads every run.

    Args:
        client: connected to the runs' server.
        archive: the runs' archive.
        by: who asked for the deletion.
        why: the reason, such as the number of a request; it stays, so name no customer in it.
        content: also remove large content from the client's blob store, unless another run that the
            server or the archive has refers to it. This reads every run.
        sessions: SQLite files, or directories of them, whose sessions may be cleared.
        references: other sessions, or functions that open them, by name, as workers have them.
        keep_sessions: leave the items in sessions.
    """

    client: Client
    archive: Archive
    by: str
    why: str = ""
    content: bool = False
    sessions: Iterable[str | Path] = ()
    references: Iterable[object] | Mapping[str, object] = ()
    keep_sessions: bool = False
    _registry: Registry = field(default_factory=Registry, init=False)
    _going: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]], init=False)
    _done: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]], init=False)

    def __post_init__(self) -> None:
        use_archive(self.client, self.archive)
        for place in self.sessions:
            allow_place(place)
        self._registry.add_references(self.references)

    async def delete_run(self, run_id: str) -> Tombstone:
        """Delete all histories of a run and of the runs nested in it.

        Raises:
            UserError: the run, or one nested in it, is open, or its session cannot be opened here.
            RunNotFound: neither the server nor the archive has the run.
            ServerUnavailable: the server does not answer.
            AgentsException: the server refused, or has not deleted an execution in time.
        """
        async with RunAddress(self.client, run_id).errors():
            return await self._delete(run_id, "", person="")

    async def delete_person(self, person: str) -> list[Tombstone]:
        """Delete the runs that worked for a person: whose `customer` has this id.

        Raises:
            UserError: one of the runs is open, or its session cannot be opened here.
            AgentsException: as for `delete_run`; runs that cannot be read are named before anything
                is deleted.
        """
        sessions = await self._sessions_of_runs_of(person)
        found = [*sessions]
        for run_id, chain in found:
            await self._refuse_open(run_id, chain)
            self._open_sessions(sessions[run_id, chain], _Leavings())
        digest, made = digest_of_run("", canonical_name(person)), list[Tombstone]()
        self._going.update(found)
        try:
            for run_id, chain in found:
                if (run_id, chain) not in self._done:  # not nested in one of the others
                    made.append(await self._delete(run_id, chain, digest))
        except RPCError as error:
            raise search_error(self.client.namespace, error) from error
        return made

    async def runs_of(self, person: str) -> list[tuple[str, str]]:
        """Return the runs that worked for a person: each id, and the id of its first execution.

        Nested runs come last: the runs that started them include them.

        It reads the newest history of every run that the server or the archive has.

        Raises:
            AgentsException: a run cannot be read here, so that nobody knows for whom it worked.
        """
        return [*await self._sessions_of_runs_of(person)]

    async def _sessions_of_runs_of(self, person: str) -> dict[tuple[str, str], list[RunSession]]:
        found: dict[tuple[str, str], list[RunSession]] = {}
        nested: dict[tuple[str, str], list[RunSession]] = {}
        async for run_id, chain, execution_id in self._newest_of_all():
            reading = RunReader(self.client, run_id).catch_up(execution_id)
            state = await unless_gone(self.client, run_id, reading)
            if state is None:
                continue  # it was deleted meanwhile
            customer = state.start.customer.id
            if customer and same_person(customer, person):
                these = found if state.start.parent is None else nested
                these[run_id, chain] = sessions_of([state])
        return found | nested

    # --- One run --------------------------------------------------------------------------------

    async def _delete(self, run_id: str, chain: str, person: str) -> Tombstone:
        """Delete a run, or only the chain of histories that began with one execution."""
        await self._refuse_open(run_id, chain)
        begun = await self._begun(run_id)
        doomed = await self._histories(run_id, chain)
        if not doomed and begun is None:
            raise RunNotFound(
                f"Neither the server nor {self.archive!r} has a run {run_id!r}. Is the id right?"
            )
        self._done.add((run_id, chain))
        leavings = await self._leavings(run_id, doomed)
        # Nested runs go first, because their ids are in the histories of this one.
        for nested_id, nested_chain in await self._nested(run_id, doomed):
            with suppress(RunNotFound):
                await self._delete(nested_id, nested_chain, person)
        await self._leave_what_others_use(leavings)
        tombstone = begun or Tombstone(
            run=digest_of_run(self.client.namespace, run_id),
            by=self.by,
            asked_ms=now_ms(),
            why=self.why,
            person=person,
        )
        removed = {str(one["execution_id"]): one for one in tombstone.removed}
        removed |= {one.execution_id: _removed(one) for one in doomed}
        tombstone = replace(
            tombstone,
            removed=(*removed.values(),),
        )
        if doomed:
            cleared = _cleared(tombstone.sessions, leavings.items)
            tombstone = replace(tombstone, left=(*leavings.left,), sessions=cleared)
        # From here on, no worker archives these histories again.
        await write_tombstone(self.archive, tombstone)
        await self._remove_content(sorted(leavings.keys))
        for _, session in leavings.sessions.values():
            await clear(session)
        for one in doomed:
            if one.on_server:
                await _delete_execution(self.client, run_id, one.execution_id)
        for one in doomed:
            if one.on_server:
                await _until_gone(self.client, run_id, one.execution_id)
        await self._remove_files(run_id, tombstone)
        finished = replace(tombstone, finished_ms=now_ms())
        await write_tombstone(self.archive, finished)
        return finished

    async def _refuse_open(self, run_id: str, chain: str = "") -> None:
        describing = self.client.get_workflow_handle(run_id).describe()
        description = await unless_gone(self.client, run_id, describing)
        if description is None:
            return
        if description.close_time is None and chain in {"", description.raw_info.first_run_id}:
            raise UserError(
                f"The run {run_id} is open, and would go on. End it first: `outlast cancel {run_id}`."
            )

    async def _begun(self, run_id: str) -> Tombstone | None:
        """Return the tombstone of a deletion that was interrupted."""
        found = await tombstones(self.archive, self.client.namespace, run_id)
        return next((one for one in found if not one.finished_ms), None)

    async def _histories(self, run_id: str, chain: str) -> list[_Doomed]:
        """Return all histories of a run, in the archive and on the server, oldest first."""
        entries = await self.archive.histories_of(self.client.namespace, run_id, with_deleted=True)
        kept = [one for one in entries if not chain or one.first_execution_id == chain]
        found = {
            one.execution_id: _Doomed(execution_id=one.execution_id, entry=one) for one in kept
        }
        buried = await tombstones(self.archive, self.client.namespace, run_id)
        # Searches list what the server has deleted for a moment.
        gone = {one for tomb in buried if tomb.finished_ms for one in tomb.executions}
        term = equals("WorkflowId", run_id)
        listed = [one async for one in executions(self.client, term)] if term else []
        for info in listed:
            execution_id = info.execution.run_id
            if execution_id in gone and execution_id not in found:
                continue
            if info.execution.workflow_id != run_id:
                continue
            if not chain or chain == await self._chain_of(info, entries):
                known = found.get(execution_id, _Doomed(execution_id=execution_id))
                found[execution_id] = replace(known, on_server=True)
        # A search may not know the newest yet; each history names the one before it.
        newest: str | None = None
        with suppress(RPCError):
            described = await self.client.get_workflow_handle(run_id).describe()
            if chain in {"", described.raw_info.first_run_id}:
                newest = described.run_id
        while newest and newest not in found and newest not in gone:
            found[newest] = _Doomed(execution_id=newest, on_server=True)
            events = await self._events(run_id, found[newest])
            started = events[0].workflow_execution_started_event_attributes if events else None
            newest = started.continued_execution_run_id if started else None
        return list(found.values())

    async def _chain_of(
        self, info: WorkflowExecutionInfo, entries: Iterable[ArchivedHistory]
    ) -> str | None:
        """Return the first execution of a listed one, which lists leave out; None if it is gone."""
        run_id, execution_id = info.execution.workflow_id, info.execution.run_id
        if info.first_run_id:
            return info.first_run_id
        for entry in entries:
            if entry.execution_id == execution_id:
                return entry.first_execution_id
        handle = self.client.get_workflow_handle(run_id, run_id=execution_id)
        described = await unless_gone(self.client, run_id, handle.describe())
        return described and described.raw_info.first_run_id

    async def _nested(self, run_id: str, doomed: Iterable[_Doomed]) -> list[tuple[str, str]]:
        """Return the ids and first executions of the runs and helpers that a run has started."""
        found = dict[tuple[str, str], None]()
        for one in doomed:
            for event in await self._events(run_id, one):
                if event.event_type == EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED:
                    child = event.child_workflow_execution_started_event_attributes
                    execution = child.workflow_execution
                    found[execution.workflow_id, execution.run_id] = None
        return [one for one in found if one not in self._done]

    async def _events(self, run_id: str, one: _Doomed) -> Sequence[HistoryEvent]:
        """Return a history's events; none if it is gone."""
        handle = workflow_handle(self.client, run_id, one.execution_id)
        history = await unless_gone(self.client, run_id, handle.fetch_history())
        return () if history is None else history.events

    async def _remove_files(self, run_id: str, tombstone: Tombstone) -> None:
        folder = folder_of(self.client.namespace, run_id)
        doomed = tombstone.executions
        entries = await self.archive.histories_of(self.client.namespace, run_id, with_deleted=True)
        if all(one.execution_id in doomed for one in entries):
            # With drafts of killed processes, and histories whose entry was never written.
            await self.archive.delete(await self.archive.names(folder))
            return
        # The id has another run, which stays. Entries go first: see `Archive.discard`.
        await self.archive.delete(f"{folder}{one}{ENTRY}" for one in doomed)
        digests = (one.get("sha256") for one in tombstone.removed)
        await self.archive.delete(f"{folder}{one}{HISTORY}" for one in digests if one)

    # --- Large content and sessions -------------------------------------------------------------

    async def _leavings(self, run_id: str, doomed: Sequence[_Doomed]) -> _Leavings:
        """Return what a run has outside of its histories, to remove or to name.

        Raises:
            UserError: its session cannot be opened here.
        """
        found, states = _Leavings(), list[LoopState]()
        for one in doomed:
            if one.entry is not None and one.entry.continues and one is not doomed[-1]:
                continue  # a later history has the same items
            try:
                state = await RunReader(self.client, run_id).catch_up(one.execution_id)
            except (AgentsException, RPCError):
                unread = "large content and a session, if any: the run cannot be read here"
                found.left[unread] = None
                continue
            found.keys |= _keys_in(state)
            states.append(state)
        self._open_sessions(sessions_of(states), found)
        deletes = self.content and hasattr(large_content(client=self.client).store, "delete")
        if found.keys and not deletes:
            keys = ", ".join(sorted(found.keys))
            found.left[f"large content in the blob store: {keys}"] = None
            found.keys = set()
        return found

    def _open_sessions(self, sessions: Iterable[RunSession], found: _Leavings) -> None:
        for one in sessions:
            if not one.described:
                found.left[OF_A_TOOL] = None
            elif self.keep_sessions:
                found.left["the items in its session"] = None
            else:
                found.sessions[one.key] = one, one.opened(self._registry)

    async def _leave_what_others_use(self, found: _Leavings) -> None:
        if not found.keys and not found.sessions:
            return
        keys, used = await self._used_by_others(found.keys, set(found.sessions))
        if keys:
            found.left[f"large content that other runs use: {', '.join(sorted(keys))}"] = None
            found.keys -= keys
        for key in used:
            found.left["the items in its session, which other runs use"] = None
            del found.sessions[key]
        for one, session in found.sessions.values():
            found.items[one.digest] = await count_items(session)

    async def _remove_content(self, keys: Iterable[str]) -> None:
        delete: Any = getattr(large_content(client=self.client).store, "delete", None)
        try:
            for key in keys:
                await delete(key)
        except Exception as error:  # any store's error
            kind = type(error).__name__
            raise ContentUnavailable(
                f"Large content cannot be removed: {kind}: {error}. Ask for the deletion again, to "
                "finish it."
            ) from error

    async def _used_by_others(
        self, keys: set[str], sessions: set[str]
    ) -> tuple[set[str], set[str]]:
        """Return which content and sessions other runs use; what cannot be read may use all."""
        shared, used = set[str](), set[str]()
        async for other, chain, execution_id in self._newest_of_all():
            if {(other, chain), (other, "")} & (self._done | self._going):
                continue
            reading = RunReader(self.client, other).catch_up(execution_id)
            try:
                state = await unless_gone(self.client, other, reading)
            except ServerUnavailable:
                raise
            except AgentsException:
                return keys, sessions
            if state is None:
                continue
            shared |= keys & _keys_in(state)
            used |= sessions & {one.key for one in sessions_of([state])}
        return shared, used

    async def _newest_of_all(self) -> AsyncGenerator[tuple[str, str, str]]:
        """Yield the id, the first and the newest execution of every run there is."""
        newest: dict[tuple[str, str], tuple[int, str]] = {}
        kept: dict[str, list[ArchivedHistory]] = {}
        async for entry in self.archive.entries():
            if entry.namespace == self.client.namespace and entry.workflow == names.WORKFLOW:
                key = entry.run_id, entry.first_execution_id
                newest[key] = max(newest.get(key, (0, "")), (entry.started_ms, entry.execution_id))
                kept.setdefault(entry.run_id, []).append(entry)
        async for info in executions(self.client, f"WorkflowType = '{names.WORKFLOW}'"):
            run_id, at = info.execution.workflow_id, info.start_time.ToMilliseconds()
            chain = await self._chain_of(info, kept.get(run_id, ()))
            if chain is None:
                continue
            key = run_id, chain
            newest[key] = max(newest.get(key, (0, "")), (at, info.execution.run_id))
        for (run_id, chain), (_, execution_id) in newest.items():
            yield run_id, chain, execution_id


def _removed(one: _Doomed) -> JsonObject:
    """Return what stays of a history: nothing but ids, digests and numbers."""
    if one.entry is None:
        return {"execution_id": one.execution_id}
    return {
        "execution_id": one.execution_id,
        "sha256": one.entry.sha256,
        "size": one.entry.size,
        "events": one.entry.events,
        "closed_ms": one.entry.closed_ms,
    }


def _cleared(earlier: Iterable[JsonObject], items: Mapping[str, int]) -> tuple[JsonObject, ...]:
    """Return what sessions had; those that an interrupted deletion has cleared, before that."""
    had = {str(one["session"]): int(str(one["items"])) for one in earlier}
    return tuple(
        {"session": digest, "items": max(number, had.get(digest, 0))}
        for digest, number in items.items()
    )


def _keys_in(state: LoopState) -> set[str]:
    return {blobs.address(ref)[0] for item in state.items for ref in blobs.references(item.raw)}


async def _delete_execution(client: Client, run_id: str, execution_id: str) -> None:
    execution = WorkflowExecution(workflow_id=run_id, run_id=execution_id)
    request = DeleteWorkflowExecutionRequest(
        namespace=client.namespace, workflow_execution=execution
    )
    deleting = client.workflow_service.delete_workflow_execution(request, retry=True)
    await unless_gone(client, run_id, deleting)


async def _until_gone(client: Client, run_id: str, execution_id: str) -> None:
    handle = client.get_workflow_handle(run_id, run_id=execution_id)
    try:
        async with asyncio.timeout(GONE_WITHIN.total_seconds()):
            while True:
                await handle.describe()
                await asyncio.sleep(LOOK_SECONDS)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
    except TimeoutError:
        raise AgentsException(
            f"The server has not deleted the execution {execution_id} of {run_id} within "
            f"{GONE_WITHIN.total_seconds():g} s. Ask for the deletion again, to finish it."
        ) from None
