"""Deletes runs on request, from the server, the archive and their sessions, and proves it.

What a run has left in other places stays: traces, logs, and what tools have written.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
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
from outlast.agents.threads import run_in_thread
from outlast.archive import Archive, ArchivedHistory, use_archive, workflow_handle
from outlast.archive.archive import (
    ENTRY,
    HISTORY,
    aside_of,
    digest_of_run,
    folder_of,
    folder_of_digest,
)
from outlast.archive.entries import Tombstone, decoded_entry, removed_by
from outlast.archive.verification import files_of
from outlast.blobs import large_content
from outlast.client.deletion.sessions import OF_A_TOOL, RunSession, clear, count_items, sessions_of
from outlast.client.read.history import RunReader
from outlast.client.restore import compare_archive
from outlast.client.runs import executions
from outlast.client.transport.run_address import RunAddress, unless_gone
from outlast.client.whose import (
    RunsOfPerson,
    chain_of,
    find_person,
    newest_of_all,
)
from outlast.contract import blobs
from outlast.edges.clock import now_ms
from outlast.loop.canonical import canonical_name
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject
from outlast.ports.session import Session
from outlast.search.index import SearchIndex
from outlast.sessions.described import allow_place
from outlast.temporal.visibility.queries import equals, search_error

NOT_NESTED: Final = "a run that its history calls nested in it, and that does not say so itself"

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
    has uses the session. This reads every run, where a run to be deleted has a session.

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
        every_run: to find a person's runs, read every run, and not only those that list this person
            or nobody: lists know other spellings of an encrypted name as other people, and whoever
            can start workflows writes them.
        search: the index of search that has words of the runs, if there is one.
    """

    client: Client
    archive: Archive
    by: str
    why: str = ""
    content: bool = False
    sessions: Iterable[str | Path] = ()
    references: Iterable[object] | Mapping[str, object] = ()
    keep_sessions: bool = False
    every_run: bool = False
    search: SearchIndex | None = None
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

        Deletions for this person that were interrupted are finished.

        Raises:
            UserError: one of the runs is open, or its session cannot be opened here.
            AgentsException: as for `delete_run`; runs that cannot be read are named before anything
                is deleted.
        """
        whose = await self.find_person(person)
        found = [*whose.runs]
        for (run_id, chain), start in zip(found, whose.starts, strict=True):
            await self._refuse_open(run_id, chain)
            self._open_sessions(sessions_of([start]), _Leavings())
        digest, made = digest_of_run("", canonical_name(person)), list[Tombstone]()
        self._going.update(found)
        try:
            for run_id, chain in found:
                if (run_id, chain) not in self._done:  # not nested in one of the others
                    made.append(await self._delete(run_id, chain, digest))
            made += await self._finish_interrupted(digest)
        except RPCError as error:
            raise search_error(self.client.namespace, error) from error
        return made

    async def delete_returned(self) -> list[Tombstone]:
        """Delete again what was deleted on request, and what a restored server has again.

        A run that is open there ends: it was deleted once.

        Raises:
            AgentsException: as for `delete_run`.
        """
        made, comparison = list[Tombstone](), await compare_archive(self.client, self.archive)
        chains = dict[tuple[str, str], str]()
        for one in comparison.returned:
            handle = self.client.get_workflow_handle(one.run_id, run_id=one.execution_id)
            described = await unless_gone(self.client, one.run_id, handle.describe())
            if described is not None:
                chains[one.run_id, described.raw_info.first_run_id] = one.person
        self._going.update(chains)
        for (run_id, chain), person in chains.items():
            if (run_id, chain) not in self._done:
                made.append(await self._delete(run_id, chain, person))
        return made

    async def runs_of(self, person: str) -> list[tuple[str, str]]:
        """Return the runs that worked for a person: each id, and the id of its first execution.

        Nested runs come last: the runs that started them include them.

        Raises:
            AgentsException: a run cannot be read here, so that nobody knows for whom it worked.
        """
        return [*(await self.find_person(person)).runs]

    async def find_person(self, person: str) -> RunsOfPerson:
        """Return the runs that worked for a person, and how many were read to find them: see `find_person`.

        Raises:
            AgentsException: a run cannot be read here, so that nobody knows for whom it worked.
        """
        return await find_person(self.client, self.archive, person, every_run=self.every_run)

    async def _finish_interrupted(self, person: str) -> list[Tombstone]:
        """Finish the deletions for a person of which nothing is left but the tombstone."""
        finished: list[Tombstone] = []
        for one in await self.archive.tombstones():
            if one.person == person and not one.finished_ms and not await self._is_left(one):
                await self._remove_words(one)
                done = replace(one, finished_ms=now_ms())
                await self.archive.bury(done)
                finished.append(done)
        return finished

    async def _is_left(self, tombstone: Tombstone) -> bool:
        """Whether the server or the archive still has one of a tombstone's histories."""
        if set(files_of(tombstone)) & set(
            await self.archive.names(folder_of_digest(tombstone.run))
        ):
            return True
        for execution_id in tombstone.executions:
            async for info in executions(self.client, f"RunId = '{execution_id}'"):
                run_id = info.execution.workflow_id
                if await self._is_there(run_id, execution_id):
                    return True
        return False

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
            if not await self._says_nested(nested_id, nested_chain, run_id):
                leavings.left[NOT_NESTED] = None
                continue
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
        await self.archive.bury(tombstone)
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
        await self._remove_words(tombstone)
        finished = replace(tombstone, finished_ms=now_ms())
        await self.archive.bury(finished)
        return finished

    async def _refuse_open(self, run_id: str, chain: str = "") -> None:
        describing = self.client.get_workflow_handle(run_id).describe()
        description = await unless_gone(self.client, run_id, describing)
        if description is None:
            return
        if {description.run_id, description.raw_info.first_run_id} & await self._gone(run_id):
            return  # a restored server has it again
        if description.close_time is None and chain in {"", description.raw_info.first_run_id}:
            raise UserError(
                f"The run {run_id} is open, and would go on. End it first: `outlast cancel {run_id}`."
            )

    async def _begun(self, run_id: str) -> Tombstone | None:
        """Return the tombstone of a deletion that was interrupted."""
        found = await self.archive.tombstones_of(self.client.namespace, run_id)
        return next((one for one in found if not one.finished_ms), None)

    async def _gone(self, run_id: str) -> set[str]:
        """Return the ids of a run's histories whose deletion was finished."""
        found = await self.archive.tombstones_of(self.client.namespace, run_id)
        return removed_by(found, finished=True)

    async def _is_there(self, run_id: str, execution_id: str) -> bool:
        """Whether the server has an execution: searches list what it has deleted for a moment."""
        handle = self.client.get_workflow_handle(run_id, run_id=execution_id)
        return await unless_gone(self.client, run_id, handle.describe()) is not None

    async def _histories(self, run_id: str, chain: str) -> list[_Doomed]:
        """Return all histories of a run, in the archive and on the server, oldest first."""
        entries = await self.archive.histories_of(self.client.namespace, run_id, with_deleted=True)
        kept = [one for one in entries if not chain or one.first_execution_id == chain]
        found = {
            one.execution_id: _Doomed(execution_id=one.execution_id, entry=one) for one in kept
        }
        gone = await self._gone(run_id)
        term = equals("WorkflowId", run_id)
        listed = [one async for one in executions(self.client, term)] if term else []
        for info in listed:
            execution_id = info.execution.run_id
            if info.execution.workflow_id != run_id:
                continue
            if execution_id in gone and not await self._is_there(run_id, execution_id):
                continue
            if not chain or chain == await chain_of(self.client, info, entries):
                known = found.get(execution_id, _Doomed(execution_id=execution_id))
                found[execution_id] = replace(known, on_server=True)
        # No search finds an id that begins with an invisible character.
        for one in found.values():
            if not one.on_server and await self._is_there(run_id, one.execution_id):
                found[one.execution_id] = replace(one, on_server=True)
        # A search may not know the newest yet; each history names the one before it.
        newest: str | None = None
        with suppress(RPCError):
            described = await self.client.get_workflow_handle(run_id).describe()
            if chain in {"", described.raw_info.first_run_id}:
                newest = described.run_id
        while newest and newest not in found:
            events = await self._events(run_id, _Doomed(execution_id=newest))
            if newest in gone and not events:
                break
            found[newest] = _Doomed(execution_id=newest, on_server=True)
            started = events[0].workflow_execution_started_event_attributes if events else None
            newest = started.continued_execution_run_id if started else None
        return list(found.values())

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

    async def _says_nested(self, nested_id: str, chain: str, run_id: str) -> bool:
        """Whether a run says itself that it is nested in another one, or is gone.

        An archived history may name the run of somebody else.
        """
        handle = workflow_handle(self.client, nested_id, chain)
        described = await unless_gone(self.client, nested_id, handle.describe())
        return described is None or described.parent_id == run_id

    async def _events(self, run_id: str, one: _Doomed) -> Sequence[HistoryEvent]:
        """Return a history's events; none if it is gone."""
        handle = workflow_handle(self.client, run_id, one.execution_id)
        history = await unless_gone(self.client, run_id, handle.fetch_history())
        return () if history is None else history.events

    async def _remove_files(self, run_id: str, tombstone: Tombstone) -> None:
        folder = folder_of(self.client.namespace, run_id)
        doomed = tombstone.executions
        await self._remove_what_was_set_aside(aside_of(folder), doomed)
        entries = await self.archive.histories_of(self.client.namespace, run_id, with_deleted=True)
        if all(one.execution_id in doomed for one in entries):
            # With drafts of killed processes, and histories whose entry was never written.
            await self.archive.delete(await self.archive.names(folder))
            return
        # The id has another run, which stays. Entries go first: see `Archive.discard`.
        await self.archive.delete(f"{folder}{one}{ENTRY}" for one in doomed)
        digests = (one.get("sha256") for one in tombstone.removed)
        await self.archive.delete(f"{folder}{one}{HISTORY}" for one in digests if one)

    async def _remove_words(self, tombstone: Tombstone) -> None:
        """Remove the words of deleted histories from the index of search, which takes them no more."""
        if self.search is not None:
            await run_in_thread(self.search.forget, tombstone.executions)
            await run_in_thread(self.search.purge)

    async def _remove_what_was_set_aside(self, folder: str, doomed: Collection[str]) -> None:
        for name in await self.archive.names(folder):
            data = await self.archive.read(name) if name.endswith(ENTRY) else None
            if data is not None and decoded_entry(data, name).execution_id in doomed:
                await self.archive.delete([name, name.removesuffix(ENTRY) + HISTORY])

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
        self._open_sessions(sessions_of(one.start for one in states), found)
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
        async for other, chain, execution_id in newest_of_all(self.client, self.archive):
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
            used |= sessions & {one.key for one in sessions_of([state.start])}
        return shared, used


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
