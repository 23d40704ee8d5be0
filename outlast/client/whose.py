"""Finds the runs of a person, on the server and in the archive.

Lists say whose most runs are, so that the histories of other people's runs are not read.
"""

from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field

from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import Client

from outlast.archive import Archive, ArchivedHistory
from outlast.archive.archive import described
from outlast.client.read.history import RunReader
from outlast.client.read.in_turn import read_each
from outlast.client.runs import attributes_of, executions
from outlast.client.transport.run_address import unless_gone
from outlast.contract import names
from outlast.contract.searchability import may_differ
from outlast.loop.canonical import canonical_name, same_person
from outlast.loop.start import Start
from outlast.temporal.payloads.attributes import listed_as


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsOfPerson:
    """The runs that worked for a person, and how they were found.

    Attributes:
        runs: each run's id, and the id of its first execution; nested runs come last.
        newest: the newest execution of each of them.
        starts: what each of them started with.
        listed: how many runs list this person, and were read.
        unlisted: how many other runs were read to find out for whom they worked: they list no
            customer, or every run was to be read.
        skipped: how many runs list another customer, and were not read.
    """

    runs: tuple[tuple[str, str], ...]
    newest: tuple[str, ...]
    starts: tuple[Start, ...]
    listed: int
    unlisted: int
    skipped: int


async def find_person(
    client: Client, archive: Archive | None, person: str, *, every_run: bool = False
) -> RunsOfPerson:
    """Return the runs that worked for a person.

    It reads the first record of each run that lists the person, or that lists nobody: such as runs
    that were started without `customer=`, or where the namespace had no such search attribute.

    Args:
        client: connected to the runs' server.
        archive: the runs' archive, which the client uses; None for the server alone.
        person: the id of the customer.
        every_run: read every run. Lists know other spellings of an encrypted name as other people,
            and whoever can start workflows writes them.

    Raises:
        AgentsException: a run cannot be read here, so that nobody knows for whom it worked.
    """
    search = _Search(None if every_run else _ListedPerson(client, person))
    to_read = [one async for one in newest_of_all(client, archive, search)]

    async def read(one: tuple[str, str, str]) -> Start | None:
        return await unless_gone(client, one[0], RunReader(client, one[0]).read_start(one[2]))

    starts = await read_each(to_read, read)
    # One that is gone was deleted meanwhile. What a run lists is not what it is: see `every_run`.
    found = [
        (run, start)
        for run, start in zip(to_read, starts, strict=True)
        if start is not None and start.customer.id and same_person(start.customer.id, person)
    ]
    found.sort(key=lambda one: one[1].parent is not None)
    listed = sum(run_id in search.theirs for run_id, _, _ in to_read)
    return RunsOfPerson(
        runs=tuple((run_id, chain) for (run_id, chain, _), _ in found),
        newest=tuple(execution_id for (_, _, execution_id), _ in found),
        starts=tuple(start for _, start in found),
        listed=listed,
        unlisted=len(to_read) - listed,
        skipped=len(search.skipped),
    )


class _ListedPerson:
    """A person, as runs list them.

    Names are compared as people are, so `Ann` finds the runs of `ann`. Where contents are encrypted,
    runs list a keyed digest of the name as it was written: only this spelling, and the one that
    names are compared in, are found.
    """

    def __init__(self, client: Client, person: str) -> None:
        self._person = person
        spellings = dict.fromkeys((person, canonical_name(person)))
        self._listed = {one for text in spellings for one in listed_as(client, text)}

    def has(self, execution: WorkflowExecutionInfo) -> bool | None:
        """Whether a run lists this person; None if it lists nobody, or not all of a long name."""
        listed: str = attributes_of(execution).get(names.ATTRIBUTE_CUSTOMER) or ""
        if listed in self._listed or (listed and same_person(listed, self._person)):
            return True
        return None if not listed or may_differ(listed) else False


@dataclass
class _Search:
    """A look through lists.

    Attributes:
        person: whom runs have to list, if they list somebody; None reads every run.
        theirs: the ids of the runs that list the person.
        skipped: the ids of those that list somebody else.
    """

    person: _ListedPerson | None = None
    theirs: set[str] = field(default_factory=set[str])
    skipped: set[str] = field(default_factory=set[str])

    def passes(self, execution: WorkflowExecutionInfo) -> bool:
        """Whether a run is read."""
        if self.person is None:
            return True
        run_id, is_theirs = execution.execution.workflow_id, self.person.has(execution)
        if is_theirs is False:
            self.skipped.add(run_id)
        elif is_theirs:
            self.theirs.add(run_id)
        return is_theirs is not False


async def newest_of_all(
    client: Client, archive: Archive | None, search: _Search | None = None
) -> AsyncGenerator[tuple[str, str, str]]:
    """Yield the id, the first and the newest execution of every run, or of those that a search reads."""
    search, newest = search or _Search(), dict[tuple[str, str], tuple[int, str]]()
    kept: dict[str, list[ArchivedHistory]] = {}
    entries = [] if archive is None else [one async for one in archive.entries()]
    for entry in entries:
        if entry.namespace == client.namespace and entry.workflow == names.WORKFLOW:
            kept.setdefault(entry.run_id, []).append(entry)
            if search.passes(described(entry).workflow_execution_info):
                key = entry.run_id, entry.first_execution_id
                newest[key] = max(newest.get(key, (0, "")), (entry.started_ms, entry.execution_id))
    async for info in executions(client, f"WorkflowType = '{names.WORKFLOW}'"):
        if not search.passes(info):
            continue
        run_id, at = info.execution.workflow_id, info.start_time.ToMilliseconds()
        chain = await chain_of(client, info, kept.get(run_id, ()))
        if chain is not None:
            key = run_id, chain
            newest[key] = max(newest.get(key, (0, "")), (at, info.execution.run_id))
    for (run_id, chain), (_, execution_id) in newest.items():
        yield run_id, chain, execution_id


async def chain_of(
    client: Client, info: WorkflowExecutionInfo, entries: Iterable[ArchivedHistory]
) -> str | None:
    """Return the first execution of a listed one, which lists leave out; None if it is gone."""
    run_id, execution_id = info.execution.workflow_id, info.execution.run_id
    if info.first_run_id:
        return info.first_run_id
    for entry in entries:
        if entry.execution_id == execution_id:
            return entry.first_execution_id
    handle = client.get_workflow_handle(run_id, run_id=execution_id)
    found = await unless_gone(client, run_id, handle.describe())
    return found and found.raw_info.first_run_id
