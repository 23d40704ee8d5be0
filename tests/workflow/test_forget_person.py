"""A person is forgotten: of all runs, only theirs are read, and only theirs go."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import (
    Client,
    FetchWorkflowHistoryEventsInput,
    Interceptor,
    OutboundInterceptor,
    WorkflowHistoryEventAsyncIterator,
)

from outlast.agents.agent import Agent
from outlast.agents.errors import RunNotFound
from outlast.archive import Archive, ArchivedHistory, Tombstone, use_archive, verify
from outlast.archive.archive import described, digest_of_run
from outlast.client.deletion import Deletion, RunsOfPerson, find_person
from outlast.client.forks import fork_run
from outlast.client.handle import RunHandle
from outlast.client.recordings import Recording, record_person
from outlast.client.start.runner import Runner
from outlast.contract import names
from outlast.encryption import EncryptionCodec
from outlast.loop.canonical import canonical_name
from outlast.testing import ScriptedModel, call, say
from tests.servers import server_for_tests
from tests.workflow.desk import Desk
from tests.workflow.test_archive import DESK, SOON, archived, echo, past, taken_by_retention, until

HOSTILE = (
    "o'brien",
    "''",
    "' OR OutlastCustomer != '",
    'quoted "name"',
    "back\\slash",
    "what?",
    "100%",
    "a_b",
    "ann OR 1=1; --",
    "ä" * 199 + "1",
    "ä" * 199 + "2",
    "https://login.one.example|ann",
    "https://login.two.example|ann",
    "ann",
)


class _Counting(Interceptor):
    """Counts the histories that are read from the server: each page of one is a read of its own."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002  as in the base class
        counting = self

        class Counting(OutboundInterceptor):
            def fetch_workflow_history_events(
                self,
                input: FetchWorkflowHistoryEventsInput,  # noqa: A002  as in the base class
            ) -> WorkflowHistoryEventAsyncIterator:
                counting.read.append(input.id)
                return super().fetch_workflow_history_events(input)

        return Counting(next)


@pytest.fixture(scope="module")
async def client() -> AsyncIterator[Client]:
    """A client of a server of this file's own: a full look reads every run of its server."""
    async with server_for_tests(shared=False) as server:
        yield await server.connect()


@pytest.fixture
def archive(desk: Desk, tmp_path: Path) -> Iterator[Archive]:
    made = Archive(tmp_path / "archive", every=SOON)
    use_archive(desk.client, made)
    yield made
    desk.ids.clear()  # what is deleted obeys no laws


async def asked(desk: Desk, person: str | None, **options: Any) -> RunHandle:
    whose = {} if person is None else {"customer": person}
    handle = await desk.start(DESK, "Hello", **whose, **options)
    await desk.result(handle)
    return handle


async def listed(desk: Desk, *handles: RunHandle) -> None:
    """Wait until searches list the ends of runs."""
    for handle in handles:

        async def ended(run_id: str = handle.id) -> bool:
            query = f"WorkflowId = '{run_id}' AND ExecutionStatus != 'Running'"
            return (await desk.client.count_workflows(query)).count > 0

        await until(ended)


def counted(desk: Desk) -> tuple[Client, _Counting]:
    counting, options = _Counting(), desk.client.config(active_config=True)
    options["interceptors"], options["plugins"] = [counting], []
    return Client(**options), counting


def ids(found: RunsOfPerson) -> set[str]:
    return {run_id for run_id, _ in found.runs}


async def test_only_the_histories_of_the_person_are_read(desk: Desk, archive: Archive):
    await desk.open(DESK, model=ScriptedModel(always=echo), archive=archive)
    hers = [await asked(desk, one) for one in (f"Ann@{desk.queue}", f"ann@{desk.queue}")]
    others = [await asked(desk, f"{number}@{desk.queue}") for number in range(6)]
    for handle in (*hers, *others):
        await archived(archive, handle, 1)
    [gone] = await archive.histories_of(desk.client.namespace, hers[0].id)
    await taken_by_retention(desk.client, [gone])
    client, counting = counted(desk)
    use_archive(client, archive)
    found = await find_person(client, archive, f"ANN@{desk.queue}")
    assert ids(found) == {one.id for one in hers}
    assert set(counting.read) == {one.id for one in hers}
    assert (found.listed, found.unlisted) == (2, 0)
    assert found.skipped >= len(others)
    counting.read.clear()
    runs = [one async for one in record_person(client, f"ann@{desk.queue}")]
    assert {one.run_id for one in runs if isinstance(one, Recording)} == ids(found)
    assert set(counting.read) == ids(found)
    made = await Deletion(client, archive, by="dpo").delete_person(f"ann@{desk.queue}")
    assert len(made) == 2
    assert set(counting.read) == ids(found)
    for one in others:
        assert len(await past(one)) > 1


async def test_hostile_names_find_their_own_runs_only(desk: Desk, archive: Archive):
    await desk.open(DESK, model=ScriptedModel(always=echo))
    handles = {name: await asked(desk, name) for name in HOSTILE}
    await listed(desk, *handles.values())
    for name, handle in handles.items():
        assert ids(await find_person(desk.client, archive, name)) == {handle.id}, name
    made = await Deletion(desk.client, archive, by="dpo").delete_person(HOSTILE[2])
    assert [one.person for one in made] == [digest_of_run("", canonical_name(HOSTILE[2]))]
    for name in HOSTILE[:2]:
        assert ids(await find_person(desk.client, archive, name)) == {handles[name].id}
    assert ids(await find_person(desk.client, archive, "")) == set()


async def test_runs_that_list_nobody_are_read_and_said(desk: Desk, archive: Archive):
    await desk.open(DESK, model=ScriptedModel(always=echo))
    person = f"ann@{desk.queue}"
    raw = await desk.start_record(
        agent="Desk", input="Hello", settings={names.SETTING_CUSTOMER: {"id": person}}
    )
    await desk.result(raw)
    nobodys = await asked(desk, None)
    await listed(desk, raw, nobodys)
    found = await find_person(desk.client, archive, person)
    assert ids(found) == {raw.id}
    assert found.listed == 0
    assert found.unlisted >= 2
    # Whoever starts workflows writes what lists say.
    lying = await desk.start_record(
        agent="Desk", input="Hello", settings={names.SETTING_CUSTOMER: {"id": person}}
    )
    await desk.result(lying)
    assert lying.id in ids(await find_person(desk.client, archive, person, every_run=True))


async def test_encrypted_names_are_found_in_the_spelling_that_was_used(
    desk: Desk, archive: Archive
):
    key = "k" * 43 + "="
    codec = EncryptionCodec({"one": key}, current="one", accept_plain=True)
    options: dict[str, Any] = {**desk.client.config(active_config=True)}
    converter = replace(options["data_converter"], payload_codec=codec)
    desk.client = Client(**{**options, "data_converter": converter})
    use_archive(desk.client, archive)
    await desk.open(DESK, model=ScriptedModel(always=echo))
    runs = [await asked(desk, one) for one in (f"Ann@{desk.queue}", f"ann@{desk.queue}")]
    await listed(desk, *runs)
    whose = await find_person(desk.client, archive, f"Ann@{desk.queue}")
    assert ids(whose) == {one.id for one in runs}, "as it was written, and as names are compared"
    whose = await find_person(desk.client, archive, f"ANN@{desk.queue}")
    assert ids(whose) == {runs[1].id}


async def test_forks_of_a_persons_runs_go_with_them(desk: Desk, archive: Archive):
    await desk.open(DESK, model=ScriptedModel(always=echo))
    person = f"ann@{desk.queue}"
    handle = await asked(desk, person)
    fork = await fork_run(desk.client, handle.id, at=2)
    desk.ids.append(fork.id)
    await desk.result(fork)
    await listed(desk, handle, fork)
    assert ids(await find_person(desk.client, archive, person)) == {handle.id, fork.id}
    assert len(await Deletion(desk.client, archive, by="dpo").delete_person(person)) == 2


async def test_a_forged_archive_deletes_nobody_elses_run(desk: Desk, archive: Archive):
    """Ann's archived history names Bob's run as nested in it, and Bob's entry lists Ann."""
    await desk.open(DESK, model=ScriptedModel(always=echo), archive=archive)
    ann, bob = f"ann@{desk.queue}", f"bob@{desk.queue}"
    hers, his, his_other = [await asked(desk, one) for one in (ann, bob, bob)]
    entries = [(await archived(archive, one, 1))[0] for one in (hers, his, his_other)]
    await taken_by_retention(desk.client, [entries[0], entries[2]])
    events = [*await archive.events(entries[0])]
    child = HistoryEvent(
        event_id=len(events), event_type=EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED
    )
    started = child.child_workflow_execution_started_event_attributes
    started.workflow_execution.workflow_id = his.id
    started.workflow_execution.run_id = entries[1].execution_id
    events.insert(-1, child)
    await archive.discard(entries[0])
    await archive.add(desk.client.namespace, described(entries[0]), events)
    await listing(archive, entries[2], ann)
    [tombstone] = await Deletion(desk.client, archive, by="dpo").delete_person(ann)
    assert tombstone.left == (
        "a run that its history calls nested in it, and that does not say so itself",
    )
    for one in (his, his_other):
        assert len(await past(one)) > 1
    [problem] = [one.problem for one in await verify(archive) if one.problem]
    assert "lists another customer than the history" in problem


async def listing(archive: Archive, entry: ArchivedHistory, person: str) -> None:
    """Make an archived entry list somebody else."""
    forged, events = described(entry), await archive.events(entry)
    fields = forged.workflow_execution_info.search_attributes.indexed_fields
    fields[names.ATTRIBUTE_CUSTOMER].data = json.dumps(person).encode()
    await archive.discard(entry)
    await archive.add(entry.namespace, forged, events)


async def test_a_nested_run_goes_with_the_run_that_started_it(desk: Desk, archive: Archive):
    helper = Agent[Any](name="Helper")
    boss = Agent[Any](name="Boss", tools=[helper.as_tool("help", "Helps.")])
    replies = [[call("help", "h1", input="a hand")], say("I helped."), say("Done.")]
    await desk.open(boss, model=ScriptedModel(*replies), archive=archive)
    person = f"ann@{desk.queue}"
    handle = await desk.start(boss, "Do it", customer=person)
    await desk.result(handle)
    await archived(archive, handle, 1)
    found = await find_person(desk.client, archive, person)
    assert [run_id == handle.id for run_id, _ in found.runs] == [True, False], "nested come last"
    assert len(await Deletion(desk.client, archive, by="dpo").delete_person(person)) == 1
    assert (await find_person(desk.client, archive, person)).runs == ()
    assert len(await archive.tombstones()) == 2


async def test_a_deletion_that_left_only_its_tombstone_is_finished(desk: Desk, archive: Archive):
    """The server's copy was the only one, and the process was killed once it was gone."""
    await desk.open(DESK, model=ScriptedModel(always=echo))
    person = f"ann@{desk.queue}"
    handle = await asked(desk, person)
    await listed(desk, handle)

    class Killed(Exception):
        """Ends the process."""

    class Dying(Deletion):
        async def _remove_files(self, run_id: str, tombstone: Tombstone) -> None:
            raise Killed

    with pytest.raises(Killed):
        await Dying(desk.client, archive, by="dpo").delete_person(person)
    [begun] = await archive.tombstones()
    assert begun.finished_ms == 0
    assert await Deletion(desk.client, archive, by="dpo").delete_person(f"x{person}") == []
    [finished] = await Deletion(desk.client, archive, by="dpo").delete_person(person)
    assert finished.executions == begun.executions
    assert finished.finished_ms
    assert await Deletion(desk.client, archive, by="dpo").delete_person(person) == []
    with pytest.raises(RunNotFound, match="was deleted on request"):
        await Runner.attach(handle.id, client=desk.client)
