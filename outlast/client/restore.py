"""Compares a server that was restored from a backup with the archive, which may know more."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import Client

from outlast.archive import Archive, ArchivedHistory, workflow_handle
from outlast.archive.sweep import ARCHIVED as _ARCHIVED
from outlast.archive.sweep import retention_of
from outlast.client.audit import AuditRecord, records_between
from outlast.client.read.history import RunReader
from outlast.client.runs import executions, listed_run
from outlast.client.transport.run_address import unless_gone
from outlast.contract import names
from outlast.edges.clock import now
from outlast.edges.rendering import iso_time
from outlast.loop.items import call_id_of
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject

Known: TypeAlias = Literal["gone", "behind", "other"]

_ACTS: Final = frozenset(
    {"vote", "claimed", "unclaimed", "held", "said", "released", "set_aside", "delivered"}
)
"""What people and other systems did: the server has to hear of it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostAct:
    """What a person or another system did in a run, of which the server knows nothing any more.

    Attributes:
        event: what was done, as the audit says it: `vote`, `held`, `delivered` …
        at_ms: when, in milliseconds since 1970.
        by: who did it.
        request_id: the request that was decided; empty for what concerns none.
        tool: the tool whose call it was about.
        decision: of a vote, what it says.
        delivery_id: of a delivery, its id.
    """

    event: str
    at_ms: int
    by: str
    request_id: str = ""
    tool: str = ""
    decision: str = ""
    delivery_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostHistory:
    """A history that the archive has, and the server has not, or not as far.

    Attributes:
        run_id: the run.
        execution_id: the history.
        run_key: what the idempotency keys of its calls begin with.
        known: what the server has of it: `gone` is nothing, `behind` is open there, `other` has
            ended there otherwise than in the archive.
        closed_ms: when it ended according to the archive, in milliseconds since 1970.
        acts: what people and other systems have to do again.
        calls: the idempotency keys of the calls that the server does not know, with their tools.
    """

    run_id: str
    execution_id: str
    run_key: str
    known: Known
    closed_ms: int
    acts: tuple[LostAct, ...] = ()
    calls: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """A history that was deleted on request, and that the server has again.

    Attributes:
        run_id: the run.
        execution_id: the history.
        deleted_ms: when its deletion was finished, in milliseconds since 1970.
        is_open: whether it would go on.
        person: the digest of the person for whom it was deleted; empty for one run.
    """

    run_id: str
    execution_id: str
    deleted_ms: int
    is_open: bool
    person: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """An open run of the server: what it did after the backup is unknown to it, and to the archive.

    Attributes:
        run_id: the run.
        run_key: what the idempotency keys of its calls begin with.
        approvals: how many requests wait for people.
    """

    run_id: str
    run_key: str
    approvals: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveComparison:
    """What an archive knows and a server does not, and the other way round.

    Attributes:
        lost: histories that the server lacks, or has not as far.
        returned: histories that were deleted on request, and are there again.
        open: the open runs of the server, which go on from where the backup was made.
        at: when it was looked up.
    """

    lost: tuple[LostHistory, ...]
    returned: tuple[Returned, ...]
    open: tuple[OpenRun, ...]
    at: datetime = field(default_factory=now)

    @property
    def is_same(self) -> bool:
        """Whether the archive knows nothing that the server does not."""
        return not self.lost and not self.returned

    def record(self) -> JsonObject:
        """Return the comparison as JSON."""
        lost: list[JsonObject] = [
            {
                **asdict(one),
                "acts": [asdict(act) for act in one.acts],
                "calls": [{"key": key, "tool": tool} for key, tool in one.calls],
            }
            for one in self.lost
        ]
        return {
            "lost": lost,
            "returned": [asdict(one) for one in self.returned],
            "open": [asdict(one) for one in self.open],
            "at": iso_time(int(self.at.timestamp() * 1000)),
        }


async def compare_archive(client: Client, archive: Archive) -> ArchiveComparison:
    """Compare a server with an archive, such as after it was restored from a backup.

    A history that the server lacks counts as lost only if its retention has not passed. Whoever
    has deleted it from the server by hand finds it here, too.

    Args:
        client: connected to the runs' server.
        archive: the runs' archive.

    Raises:
        AgentsException: the server refused, or an archived history cannot be read here.
        RPCError: the server does not answer.
        ArchiveDamaged: a file was changed.
        ContentUnavailable: the archive cannot be read.
    """
    there = await _executions_of(client)
    retention = await retention_of(client)
    lost = [
        await _lost(client, archive, entry, known)
        async for entry, known in _not_as_archived(client, archive, there, retention)
    ]
    deleted = {
        execution_id: tombstone
        for tombstone in await archive.tombstones()
        if tombstone.finished_ms
        for execution_id in tombstone.executions
    }
    returned = [
        Returned(
            run_id=info.execution.workflow_id,
            execution_id=execution_id,
            deleted_ms=deleted[execution_id].finished_ms,
            is_open=not info.HasField("close_time"),
            person=deleted[execution_id].person,
        )
        for execution_id, info in there.items()
        if execution_id in deleted
        and await _present(client, info.execution.workflow_id, execution_id) is not None
    ]
    back = {one.execution_id for one in returned}
    is_open = [
        info
        for execution_id, info in there.items()
        if info.type.name == names.WORKFLOW
        and not info.HasField("close_time")
        and execution_id not in back
    ]
    return ArchiveComparison(
        lost=tuple(lost),
        returned=tuple(returned),
        open=tuple([await _open_run(client, info) for info in is_open]),
    )


async def set_aside(archive: Archive, lost: Iterable[LostHistory], namespace: str) -> int:
    """Make room in an archive for what a restored server does anew; return for how many histories.

    A history that the server continues has the id of the one that the archive has, and an archive
    keeps one of each id. The one of before the restore stays in the folder `aside/` as it was.

    Raises:
        ContentUnavailable: the archive cannot be written.
    """
    moved = 0
    for one in lost:
        entry = await archive.find(namespace, one.run_id, one.execution_id)
        if entry is not None and one.known != "gone":
            await archive.set_aside(entry)
            moved += 1
    return moved


async def _executions_of(client: Client) -> dict[str, WorkflowExecutionInfo]:
    types = " OR ".join(f"WorkflowType = '{one}'" for one in _ARCHIVED)
    return {one.execution.run_id: one async for one in executions(client, types)}


async def _not_as_archived(
    client: Client,
    archive: Archive,
    there: dict[str, WorkflowExecutionInfo],
    retention: timedelta,
) -> AsyncGenerator[tuple[ArchivedHistory, Known]]:
    """Yield the archived histories that the server does not have as they are."""
    expired = now() - retention
    async for entry in archive.entries():
        if entry.namespace != client.namespace:
            continue
        info = there.get(entry.execution_id)
        if info is None and entry.closed <= expired:
            continue
        if info is None or not info.HasField("close_time"):
            info = await _present(client, entry.run_id, entry.execution_id)
        if info is None:
            yield entry, "gone"
        elif not info.HasField("close_time"):
            yield entry, "behind"
        elif info.close_time.ToMilliseconds() != entry.closed_ms:
            yield entry, "other"


async def _present(client: Client, run_id: str, execution_id: str) -> WorkflowExecutionInfo | None:
    """Return what the server has of an execution: searches are a moment behind."""
    handle = client.get_workflow_handle(run_id, run_id=execution_id)
    described = await unless_gone(client, run_id, handle.describe())
    return described.raw_description.workflow_execution_info if described else None


async def _lost(
    client: Client, archive: Archive, entry: ArchivedHistory, known: Known
) -> LostHistory:
    run_key = names.run_key(entry.run_id, entry.first_execution_id)
    acts, calls = list[LostAct](), dict[str, str]()
    if entry.workflow == names.WORKFLOW:
        acts, calls = await _done_in(client, entry.run_id, await archive.events(entry))
        if known != "gone":
            handle = client.get_workflow_handle(entry.run_id, run_id=entry.execution_id)
            history = await unless_gone(client, entry.run_id, handle.fetch_history())
            events = () if history is None else history.events
            acts_there, calls_there = await _done_in(client, entry.run_id, events)
            acts = [one for one in acts if one not in acts_there]
            calls = {one: calls[one] for one in calls if one not in calls_there}
    return LostHistory(
        run_id=entry.run_id,
        execution_id=entry.execution_id,
        run_key=run_key,
        known=known,
        closed_ms=entry.closed_ms,
        acts=tuple(acts),
        calls=tuple((f"{run_key}:{call_id}", tool) for call_id, tool in calls.items()),
    )


async def _done_in(
    client: Client, run_id: str, events: Sequence[HistoryEvent]
) -> tuple[list[LostAct], dict[str, str]]:
    """Return what people did in a history, and the calls that have an output at its end."""
    reader, before, acts = RunReader(client, run_id), LoopState(), list[LostAct]()
    for progress in await reader.read_records(events):
        records = records_between(before, progress.event, progress.state, run_id)
        acts += [_act(one) for one in records if progress.event and one.event in _ACTS]
        before = progress.state
    return acts, dict(_calls_in(before))


def _act(record: AuditRecord) -> LostAct:
    return LostAct(
        event=record.event,
        at_ms=record.at_ms,
        by=record.by,
        request_id=record.request_id,
        tool=record.tool,
        decision=record.decision,
        delivery_id=record.delivery_id,
    )


def _calls_in(state: LoopState) -> Iterator[tuple[str, str]]:
    """Yield the ids of the calls that have an output, and their tools."""
    tools = {
        call_id_of(item.raw): str(item.raw.get("name") or item.raw["type"])
        for item in state.items
        if str(item.raw.get("type", "")).endswith("_call")
    }
    for item in state.items:
        call_id = call_id_of(item.raw)
        if str(item.raw.get("type", "")).endswith("_output") and call_id in tools:
            yield call_id, tools[call_id]


async def _open_run(client: Client, info: WorkflowExecutionInfo) -> OpenRun:
    run_id, first = info.execution.workflow_id, info.first_run_id
    if not first:  # lists leave it out
        handle = workflow_handle(client, run_id, info.execution.run_id)
        described = await unless_gone(client, run_id, handle.describe())
        first = described.raw_info.first_run_id if described else ""
    return OpenRun(
        run_id=run_id,
        run_key=names.run_key(run_id, first),
        approvals=listed_run(info).approvals,
    )
