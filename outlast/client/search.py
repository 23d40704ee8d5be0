"""Feeds the index of search from the server and the archive, and searches it.

Each look compares what the server lists with what the index has, so nothing is lost by a kill, and
what is fed twice is there once.
"""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Collection, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.service import RPCError

from outlast.agents.errors import (
    AgentsException,
    ContentUnavailable,
    ServerUnavailable,
    UserError,
)
from outlast.agents.threads import run_in_thread
from outlast.archive import archive_of, workflow_handle
from outlast.archive.entries import DELETED, removed_by
from outlast.archive.sweep import retention_of
from outlast.blobs import large_content
from outlast.client.read.history import RunReader
from outlast.client.read.in_turn import read_each
from outlast.client.runs import executions, listed_run
from outlast.client.transport.executions import first_of
from outlast.client.transport.run_address import unless_gone
from outlast.contract import names
from outlast.contract.records import UnreadableRecordError, read
from outlast.edges.clock import now_ms, time_of
from outlast.edges.tasks import meanwhile
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject
from outlast.search.documents import Document, with_words
from outlast.search.index import (
    Hit,
    IndexStatus,
    Position,
    SearchIndex,
    SearchIndexDamaged,
    SearchUnavailable,
)
from outlast.search.occurrences import Occurrence, OccurrenceReader
from outlast.search.scores import Score
from outlast.temporal.repeated import RepeatedWork
from outlast.temporal.visibility.queries import search_error, time_text
from outlast.temporal.visibility.scopes import EVERYTHING, Scopes
from outlast.views.run import AnyState, snapshot_of, with_items

logger: Final = logging.getLogger("outlast")

LOOKS: Final = timedelta(seconds=5)
"""The time between two looks at what has changed."""

QUIET_MS: Final = 60_000
"""How long an open run in which nothing happens is left alone at most."""

PATIENCE: Final = 10
"""An open run is asked again after this part of the time for which it has been quiet."""

OVERLAP_MS: Final = 600_000
"""How much later than its end a run may appear in searches; a whole look finds later ones."""

WHOLE_EVERY: Final = timedelta(hours=6)
"""How often everything is compared; at least 4 times in the server's retention."""

BEATS: Final = 20.0
"""How often a long look says that its process lives, in seconds."""

BEHIND_MS: Final = 5 * QUIET_MS
"""An index that is further behind says so."""

ENCRYPTED: Final = (
    "Contents are encrypted here, and an index would keep customers' words readable. So search is "
    "off. `--readable` turns it on, for an index on an encrypted disk that only the desk reads."
)

_SAID: Final = {"input", "message"}
_FILES: Final = {"image_url", "file_data"}
_OF_SCORES: Final = ("run_id", "execution_id", "agent", "instructions", "score", "at_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed:
    """What one look did.

    Attributes:
        stored: how many conversations were stored.
        removed: how many have left the index.
        unread: how many could not be read.
    """

    stored: int = 0
    removed: int = 0
    unread: int = 0


@dataclass(slots=True)
class _Watched:
    """An open run: when it was asked, when it had changed, and what it was listed as."""

    asked_ms: int
    changed_ms: int
    shown: tuple[object, ...]

    def is_due(self, now: int, shown: tuple[object, ...]) -> bool:
        quiet = min((self.asked_ms - self.changed_ms) // PATIENCE, QUIET_MS)
        return shown != self.shown or now - self.asked_ms >= quiet


def _process_name() -> str:
    return f"{socket.gethostname()} {os.getpid()} {secrets.token_hex(4)}"


@dataclass
class SearchFeed:
    """Keeps an index up to date with the conversations of a namespace.

    Args:
        client: connected to the runs' server.
        index: the index.
        readable: whether words may be stored that are encrypted on the server.

    Raises:
        UserError: contents are encrypted, and nobody said that they may be stored.
    """

    client: Client
    index: SearchIndex
    readable: bool = False
    _holder: str = field(init=False, default_factory=_process_name)
    _open: dict[str, _Watched] = field(init=False, default_factory=dict[str, _Watched])
    _buried: set[str] = field(init=False, default_factory=set[str])
    _unread: dict[str, str] = field(init=False, default_factory=dict[str, str])
    _fed: set[str] = field(init=False, default_factory=set[str])
    _scored: set[str] = field(init=False, default_factory=set[str])

    def __post_init__(self) -> None:
        if self.client.data_converter.payload_codec is not None and not self.readable:
            raise UserError(ENCRYPTED)

    async def run(self) -> None:
        """Look again and again, until cancelled. A failure is logged once, and tried again."""
        looks = RepeatedWork(
            fails="The index of search is not fed", works="The index of search is fed again."
        )
        try:
            while True:
                with looks.attempt():
                    await self.look()
                await asyncio.sleep(LOOKS.total_seconds())
        finally:
            with suppress(AgentsException, RPCError):
                await run_in_thread(
                    self.index.leave_lease, await space_of(self.client), self._holder
                )

    async def look(self, *, anew: bool = False) -> Fed | None:
        """Feed what has changed; None if another process writes the index.

        Args:
            anew: read everything again that the server and the archive have, whoever writes.

        Raises:
            RPCError: the server refused, or does not answer.
            AgentsException: the index or the archive cannot be used.
        """
        space = await space_of(self.client)
        await run_in_thread(self.index.prepare)
        if not anew and not await run_in_thread(self.index.take_lease, space, self._holder):
            return None
        try:
            with meanwhile(asyncio.sleep(0) if anew else self._beat(space)):
                return await self._look(space, anew=anew)
        except BaseException:
            self._open.clear()  # what was asked may not have been stored
            raise

    async def _beat(self, space: str) -> None:
        while True:
            await asyncio.sleep(BEATS)
            with suppress(AgentsException, RPCError):
                await run_in_thread(self.index.take_lease, space, self._holder)

    async def _look(self, space: str, *, anew: bool) -> Fed:
        began = now_ms()
        status = await run_in_thread(self.index.status, space) or IndexStatus()
        every = min(WHOLE_EVERY, await retention_of(self.client) / 4)
        is_whole = anew or not 0 <= began - status.whole_ms < every // timedelta(milliseconds=1)
        removed = await self._bury()
        self._fed.clear()
        if is_whole:
            self._unread.clear()
            await run_in_thread(self.index.drop_other_servers, space)
        runs = await self._changed(began, None if is_whole else status.as_of_ms - OVERLAP_MS)
        if is_whole:
            runs = await self._archived() | runs
        await self._feed_all(space, runs, anew=anew)
        await self._feed_scores(space, None if is_whole else status.as_of_ms - OVERLAP_MS)
        if is_whole:
            removed += await self._drop_lost(space, self._fed if anew else runs, anew=anew)
        if is_whole or self.index.has_remains:
            await run_in_thread(self.index.purge)
        as_of = min((one.asked_ms for one in self._open.values()), default=began)
        whole = began if is_whole else status.whole_ms
        noted = IndexStatus(as_of_ms=as_of, whole_ms=whole, unread=len(self._unread))
        await run_in_thread(self.index.note, space, noted)
        return Fed(stored=len(self._fed), removed=removed, unread=len(self._unread))

    # --- What there is ---------------------------------------------------------------------------

    async def _changed(self, now: int, since_ms: int | None) -> dict[str, tuple[str, bool]]:
        """Return runs that are open and due, or have ended since: by execution, id and whether open."""
        found: dict[str, tuple[str, bool]] = {}
        kind, there = f"WorkflowType = '{names.WORKFLOW}'", set[str]()
        async for info in executions(self.client, f"{kind} AND ExecutionStatus = 'Running'"):
            run, execution_id = listed_run(info), info.execution.run_id
            if run.is_nested:
                continue
            there.add(execution_id)
            shown = (run.status, run.agent, run.approvals, run.waits_for, run.people)
            watched = self._open.setdefault(execution_id, _Watched(0, 0, ()))
            if since_ms is None or watched.is_due(now, shown):
                found[execution_id] = run.run_id, True
                watched.asked_ms, watched.shown = now, shown
        self._open = {one: watched for one, watched in self._open.items() if one in there}
        terms = f"{kind} AND ExecutionStatus != 'Running' AND ExecutionStatus != 'ContinuedAsNew'"
        if since_ms is not None:
            terms += f" AND CloseTime >= '{time_text(time_of(max(since_ms, 0)))}'"
        async for info in executions(self.client, terms):
            if not listed_run(info).is_nested:
                found[info.execution.run_id] = info.execution.workflow_id, False
        return found

    async def _archived(self) -> dict[str, tuple[str, bool]]:
        archive, found = archive_of(self.client), dict[str, tuple[str, bool]]()
        if archive is not None:
            async for entry in archive.entries(problems=[]):
                is_run = entry.workflow == names.WORKFLOW and not entry.continues
                if is_run and entry.namespace == self.client.namespace:
                    found[entry.execution_id] = entry.run_id, False
        return found

    async def _bury(self) -> int:
        """Remove what was deleted on request, also by who does not know the index."""
        archive, removed = archive_of(self.client), 0
        if archive is None:
            return 0
        new = {name for name in await archive.names(DELETED) if name not in self._buried}
        for folder in {f"{name.rpartition('/')[0]}/" for name in new}:
            ids = removed_by(await archive.tombstones(folder))
            removed += await run_in_thread(self.index.forget, ids)
        self._buried |= new
        return removed

    async def _drop_lost(self, space: str, there: Collection[str], *, anew: bool) -> int:
        """Remove what neither the server nor the archive has, or, anew, what cannot be read."""
        known, lost = await run_in_thread(self.index.identities, space), list[str]()
        for chain, (run_id, execution_id) in known.items():
            if execution_id in there:
                continue
            handle = workflow_handle(self.client, run_id, execution_id)
            # Lists are a moment behind.
            is_unread = anew and execution_id in self._unread
            if is_unread or await unless_gone(self.client, run_id, handle.describe()) is None:
                lost.append(chain)
        return await run_in_thread(self.index.forget, lost, for_good=False) if lost else 0

    # --- One conversation ------------------------------------------------------------------------

    async def _feed_all(self, space: str, runs: dict[str, tuple[str, bool]], *, anew: bool) -> None:
        known = {} if anew else await run_in_thread(self.index.positions, space, list(runs))

        async def feed(one: tuple[str, tuple[str, bool]]) -> None:
            execution_id, (run_id, is_open) = one
            position = known.get(execution_id)
            is_done = position is not None and not position.is_open
            if not is_open and (is_done or execution_id in self._unread):
                return
            try:
                await self._feed(space, run_id, execution_id, position)
                self._unread.pop(execution_id, None)
            except (ServerUnavailable, SearchUnavailable):
                raise
            except AgentsException as error:
                if execution_id not in self._unread:
                    logger.warning("%r is not in the index of search: %s", run_id, error.message)
                self._unread[execution_id] = error.message

        await read_each(list(runs.items()), feed)

    async def _feed_scores(self, space: str, since_ms: int | None) -> None:
        """Store what quality checks have scored; a score that is fed twice is there once."""
        query = f"WorkflowType = '{names.WORKFLOW_QUALITY}' AND ExecutionStatus = 'Completed'"
        if since_ms is not None:
            query += f" AND CloseTime >= '{time_text(time_of(max(since_ms, 0)))}'"
        async for info in executions(self.client, query):
            one = info.execution
            if one.run_id in self._scored and since_ms is not None:
                continue
            handle = self.client.get_workflow_handle(one.workflow_id, run_id=one.run_id)
            try:
                found = await unless_gone(self.client, one.workflow_id, handle.result())
            except (RuntimeError, ValueError, TypeError) as error:  # written for another codec
                logger.warning("The scores of %r cannot be read: %s", one.workflow_id, error)
                found = None
            await run_in_thread(self.index.put_scores, space, list(_scores_of(found)))
            self._scored.add(one.run_id)

    async def _feed(
        self, space: str, run_id: str, execution_id: str, known: Position | None
    ) -> None:
        handle = workflow_handle(self.client, run_id, execution_id)
        described = await unless_gone(self.client, run_id, handle.describe())
        if described is None or _is_superseded(described):
            return
        is_open = described.close_time is None
        if known == Position(events=described.history_length, is_open=is_open):
            return
        if execution_id in self._open:
            self._open[execution_id].changed_ms = now_ms()
        state, counted = await self._read(run_id, execution_id, is_known=known is not None)
        found = replace(_document(described), occurrences=counted)
        document = await run_in_thread(with_words, found, await self._with_texts(state))
        if await run_in_thread(self.index.put, space, document):
            self._fed.add(execution_id)

    async def _read(
        self, run_id: str, execution_id: str, *, is_known: bool
    ) -> tuple[LoopState, tuple[Occurrence, ...]]:
        """Return the state of a run, and what the figures count of it.

        Of a run that the index knows by this execution, it has what those before counted.
        """
        reader, counting = RunReader(self.client, run_id), OccurrenceReader()
        read = reader.read_newest if is_known else reader.read_all
        async with aclosing(read(execution_id)) as steps:
            async for one in steps:
                counting.take(one.event, one.state)
        return reader.state, counting.found

    async def _with_texts(self, state: LoopState) -> AnyState:
        """Return a state with the texts of its messages that are in the blob store.

        Raises:
            ContentUnavailable: the store cannot be read.
        """
        content = large_content(client=self.client)
        if content.store is None:
            return state
        said = [_without_files(one.raw) if one.kind in _SAID else {} for one in state.items]
        try:
            found = cast("list[JsonObject]", await content.joined_all(said, words_for="missing"))
        except Exception as error:  # any store's error
            raise ContentUnavailable(f"Its content cannot be read: {error}") from error
        items = zip(state.items, found, strict=True)
        whole = (replace(one, raw=raw or one.raw) for one, raw in items)
        return with_items(snapshot_of(state), whole)


def _scores_of(found: Any) -> Iterator[Score]:
    """Yield the scores in the result of a quality check, which anybody may have written."""
    result = cast("JsonObject", found) if isinstance(found, dict) else {}
    listed: Any = result.get("scores")
    for one in cast("list[Any]", listed) if isinstance(listed, list) else []:
        fields = cast("JsonObject", one) if isinstance(one, dict) else {}
        named = {name: fields.get(name) for name in _OF_SCORES}
        with suppress(UnreadableRecordError):  # such as of a run that was not scored
            score = read(Score, {**named, "check": result.get("check")})
            if score.score in {0, 1}:
                yield score


def _without_files(raw: JsonObject) -> JsonObject:
    content = raw.get("content")
    if not isinstance(content, list):
        return raw
    parts = cast("list[JsonObject]", content)
    return {**raw, "content": [one for one in parts if not _FILES & set(one)]}


def _is_superseded(described: WorkflowExecutionDescription) -> bool:
    """Whether a run goes on in another execution, or is nested: its conversation is another one's."""
    is_over = described.status == WorkflowExecutionStatus.CONTINUED_AS_NEW
    raw = described.raw_description
    is_nested = listed_run(raw.workflow_execution_info).is_nested
    return is_over or is_nested or bool(raw.workflow_extended_info.reset_run_id)


def _document(described: WorkflowExecutionDescription) -> Document:
    run = listed_run(described.raw_description.workflow_execution_info)
    started = round(run.started.timestamp() * 1_000)
    return Document(
        run_id=run.run_id,
        chain_id=first_of(described),
        execution_id=run.execution_id,
        events=described.history_length,
        started_ms=started,
        changed_ms=started,
        is_open=run.closed is None,
        tenant=run.tenant,
        agent=run.agent,
        people=run.people,
    )


# --- Searching -----------------------------------------------------------------------------------

_SPACES: Final[WeakKeyDictionary[Client, str]] = WeakKeyDictionary()


async def space_of(client: Client) -> str:
    """Return the name and the id of a client's namespace: other servers have the same names.

    Raises:
        AgentsException: the server refused, or does not answer.
    """
    if (known := _SPACES.get(client)) is None:
        request = DescribeNamespaceRequest(namespace=client.namespace)
        try:
            found = await client.workflow_service.describe_namespace(request, retry=True)
        except RPCError as error:
            raise search_error(client.namespace, error) from error
        known = _SPACES[client] = f"{client.namespace} {found.namespace_info.id}"
    return known


async def search_conversations(
    client: Client,
    index: SearchIndex,
    query: str,
    *,
    scopes: Scopes = EVERYTHING,
    limit: int = 50,
) -> list[Hit]:
    """Return the conversations that have every word of a query, the newest first.

    Args:
        client: connected to the runs' server.
        index: the index.
        query: words, and phrases in double quotes. A word also finds parts of longer words.
        scopes: whose conversations are searched; default: all.
        limit: the most conversations.

    Raises:
        UserError: the query is too long.
        SearchUnavailable: the index is not there, or the search takes too long.
        AgentsException: the server refused, or does not answer.
    """
    space = await space_of(client)
    return await run_in_thread(index.search, space, query, scopes, limit=limit)


async def search_status(client: Client, index: SearchIndex) -> IndexStatus | None:
    """Return how far the index is; None if it knows nothing of the client's namespace.

    Raises:
        SearchUnavailable: the index is not there, or cannot be read.
        AgentsException: the server refused, or does not answer.
    """
    return await run_in_thread(index.status, await space_of(client))


async def rebuild_index(feed: SearchFeed) -> Fed:
    """Make an index anew, from the server and the archive; a damaged one is removed first.

    Raises:
        AgentsException: the index, the archive or the server cannot be used.
    """
    try:
        await run_in_thread(feed.index.check)
    except SearchIndexDamaged:
        await run_in_thread(feed.index.create)
    fed = await feed.look(anew=True)
    assert fed is not None  # noqa: S101  it waits for no lease
    return fed


def behind_words(status: IndexStatus | None, *, shows_counts: bool = True) -> str:
    """Return what is wrong with an index, in a sentence; empty if it is up to date.

    Args:
        status: how far it is.
        shows_counts: whether the reader sees all conversations, so that numbers tell them nothing.
    """
    if status is None or not status.as_of_ms:
        return "The index has not been made yet: conversations are missing."
    if now_ms() - status.as_of_ms > BEHIND_MS:
        return "The index is behind: newer words are not found. Its process may be gone."
    if status.unread and shows_counts:
        return f"Conversations that could not be read, and are not found: {status.unread:,}."
    return ""
