"""Histories are archived, and readers go on from there when the server has deleted them."""

import asyncio
import errno
import functools
import gzip
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Replayer
from typer.testing import CliRunner

from outlast.agents.agent import Agent
from outlast.agents.errors import RunClosed, RunNotFound, UserError
from outlast.agents.tools.function_tool import function_tool
from outlast.archive import (
    Archive,
    ArchiveDamaged,
    ArchivedHistory,
    FileArchiveStore,
    Sweep,
    archive_status,
    use_archive,
    verify,
)
from outlast.cli.app import app
from outlast.client import restore
from outlast.client.audit import audit_run
from outlast.client.handle import RunHandle, past_progress, progress_of
from outlast.client.read.history import Progress
from outlast.client.recordings import Recording, record_run, record_runs
from outlast.client.restore import compare_archive
from outlast.client.runs import RunFilter
from outlast.encryption import EncryptionCodec
from outlast.ports.model import ModelRequest
from outlast.temporal.payloads.readable import readable
from outlast.testing import ScriptedModel, call, replay, say
from outlast.workflows.agent_run import AgentRun
from tests import forked
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.replies import last_user_text

SOON = timedelta(milliseconds=200)


def echo(request: ModelRequest) -> Any:
    return say(f"You said: {last_user_text(request)}")


DESK = Agent[Any](name="Desk")


@function_tool
def look_up(order_id: str) -> str:
    """Look an order up."""
    return f"{order_id}: 40 EUR"


async def until(condition: Callable[[], Awaitable[Any]]) -> Any:
    """Wait until something that nobody tells is true, and return it."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (found := await condition()):  # noqa: ASYNC110  nothing announces it
            await asyncio.sleep(0.05)
        return found


async def archived(archive: Archive, handle: RunHandle, at_least: int) -> list[ArchivedHistory]:
    """Wait until so many histories of a run are archived, and return their entries."""

    async def enough() -> list[ArchivedHistory]:
        found = await archive.histories_of(handle.client.namespace, handle.id)
        return found if len(found) >= at_least else []

    return await until(enough)


async def swept(archive: Archive, handle: RunHandle) -> list[ArchivedHistory]:
    """Archive a run that has ended, without waiting for the worker's next look."""

    async def stored() -> list[ArchivedHistory]:
        await Sweep(handle.client, archive).archive_since(None)
        return await archive.histories_of(handle.client.namespace, handle.id)

    return await until(stored)


async def taken_by_retention(client: Client, entries: Sequence[ArchivedHistory]) -> None:
    """Delete closed executions from the server, as its retention does."""
    for one in entries:
        execution = WorkflowExecution(workflow_id=one.run_id, run_id=one.execution_id)
        request = DeleteWorkflowExecutionRequest(
            namespace=client.namespace, workflow_execution=execution
        )
        await client.workflow_service.delete_workflow_execution(request)
        handle = client.get_workflow_handle(one.run_id, run_id=one.execution_id)

        async def gone(handle: Any = handle) -> bool:
            try:
                await handle.describe()
            except RPCError as error:
                return error.status is RPCStatusCode.NOT_FOUND
            return False

        await until(gone)


async def conversation(desk: Desk, messages: int, **options: Any) -> RunHandle:
    """Hold a conversation over several short histories; it stays open."""
    handle = await desk.start_short(DESK, "message 0", keep_open=True, **options)
    for number in range(1, messages):
        await answered(handle, f"message {number}")
    return handle


async def answered(handle: RunHandle, text: str) -> Any:
    """Send a message, and return its answer."""
    sent = await handle.send(text)
    return (await handle.wait_for_answer(sent.id)).final_output


async def past(handle: RunHandle) -> list[Progress]:
    return [one async for one in past_progress(handle)]


@pytest.mark.smoke
async def test_readers_read_on_from_the_archive(desk: Desk, tmp_path: Path):
    archive = Archive(tmp_path, every=SOON)
    await desk.open(DESK, model=ScriptedModel(always=echo), archive=archive)
    handle = await conversation(desk, 6)
    entries = await archived(archive, handle, 2)
    before, audit = await past(handle), await audit_run(desk.client, handle.id)
    assert [one.status for one in entries] == ["continued_as_new"] * len(entries)
    await taken_by_retention(desk.client, entries)
    assert await past(handle) == before
    assert await audit_run(desk.client, handle.id) == audit
    assert await answered(handle, "after retention") == "You said: after retention"
    events = [one.event for one in await past(handle)]
    assert events[: len(before)] == [one.event for one in before]
    await handle.cancel("after_turn")
    desk.ids.remove(handle.id)  # the laws are read from the server alone


async def test_a_run_is_read_when_the_server_knows_nothing_of_it(desk: Desk, tmp_path: Path):
    archive = Archive(tmp_path, every=SOON)
    await desk.open(DESK, model=ScriptedModel(always=echo), archive=archive)
    handle = await conversation(desk, 4)
    await handle.cancel("after_turn")
    result, whole = await desk.result(handle), await past(handle)
    await until(lambda: ended(archive, handle))
    entries = await archive.histories_of(desk.client.namespace, handle.id)
    assert len(entries) > 1
    assert [one.previous for one in entries] == ["", *(one.execution_id for one in entries[:-1])]
    await taken_by_retention(desk.client, entries)
    desk.ids.remove(handle.id)
    assert await past(handle) == whole
    again = await desk.result(handle)
    assert again.final_output == result.final_output
    assert again.to_input_list() == result.to_input_list()
    assert (await handle.check()).close_time is not None
    with pytest.raises(RunClosed):
        await handle.send("Are you there?")
    assert (await archive_status(desk.client, archive, desk.queue)).gaps == ()
    # Whoever removes a run's last history leaves what it ended with unsaid.
    await archive.discard(entries[-1])
    (gap,) = (await archive_status(desk.client, archive, desk.queue)).gaps
    assert (gap.run_id, gap.execution_id) == (handle.id, entries[-1].execution_id)


@pytest.mark.smoke
async def test_runs_that_only_the_archive_has_are_recorded_and_replayed(desk: Desk, tmp_path: Path):
    archive = Archive(tmp_path, every=SOON)
    await desk.open(DESK, model=ScriptedModel(always=echo), archive=archive)
    handle = await conversation(desk, 4)
    await handle.cancel("after_turn")
    await desk.result(handle)
    await until(lambda: ended(archive, handle))
    whole = await record_run(desk.client, handle.id)
    entries = await archive.histories_of(desk.client.namespace, handle.id)
    await taken_by_retention(desk.client, entries)
    desk.ids.remove(handle.id)

    criteria = RunFilter(id_prefix=handle.id)
    reading = record_runs(desk.client, criteria, archived=True)
    (found,) = [one async for one in reading]
    assert found == whole
    assert isinstance(found, Recording)
    answers = [one.value for one in found.entries if one.kind == "answer"]
    assert answers[-1] == "You said: message 3"
    assert (await replay(found, DESK)).is_same
    other = record_runs(desk.client, RunFilter(id_prefix=handle.id, status="failed"), archived=True)
    assert [one async for one in other] == []
    with pytest.raises(UserError, match="Only the server understands a query"):
        await anext(record_runs(desk.client, query="x = 1", archived=True))


async def ended(archive: Archive, handle: RunHandle) -> bool:
    """Whether all histories of a run that has ended are archived: the newest may be the first."""
    found = await archive.histories_of(handle.client.namespace, handle.id)
    before = ["", *(one.execution_id for one in found[:-1])]
    return bool(found) and [one.previous for one in found] == before and not found[-1].continues


# --- Encryption -----------------------------------------------------------------------------------


async def test_what_is_encrypted_stays_so_in_the_archive(desk: Desk, tmp_path: Path):
    codec = EncryptionCodec({"k": b"k" * 32}, "k")
    converter = replace(DataConverter.default, payload_codec=codec)
    options: Any = desk.client.config()
    options["data_converter"] = converter
    private = Client(**options)
    archive = Archive(tmp_path, every=SOON)
    desk.client = private
    await desk.open(DESK, model=ScriptedModel(always=echo), archive=archive)
    handle = await desk.start(DESK, "my secret is swordfish")
    result = await desk.result(handle)
    await archived(archive, handle, 1)
    content = b"".join(
        gzip.decompress(one.read_bytes()) if one.suffix == ".history" else one.read_bytes()
        for one in files_in(tmp_path)
    )
    assert b"swordfish" in result.final_output.encode()
    assert b"swordfish" not in content
    [history] = await archive.workflow_histories(private.namespace, handle.id)
    replayer = Replayer(workflows=[AgentRun], data_converter=readable(converter))
    await replayer.replay_workflow(history)
    desk.ids.remove(handle.id)  # the laws are read without the key


# --- Failures, kills and attacks -------------------------------------------------------------------


async def closed_run(desk: Desk, text: Any = "Hello", **options: Any) -> RunHandle:
    """Run one question to its end."""
    handle = await desk.start(DESK, text, **options)
    await desk.result(handle)
    return handle


def files_in(directory: Path) -> list[Path]:
    return [one for one in directory.rglob("*") if one.is_file()]


def sweep_of(desk: Desk, archive: Archive) -> Sweep:
    return Sweep(desk.client, archive, desk.queue)


async def listed(desk: Desk, archive: Archive, at_least: int) -> Any:
    """Sweep until searches know so many runs, and return the last sweep."""

    async def look() -> Any:
        swept = await sweep_of(desk, archive).archive_since(None)
        return swept if swept.looked_at >= at_least else None

    return await until(look)


async def test_two_workers_that_archive_at_once_store_the_same(desk: Desk, tmp_path: Path):
    await desk.open(DESK, model=ScriptedModel(always=echo))
    handles = [await closed_run(desk) for _ in range(5)]
    await listed(desk, Archive(tmp_path / "seen"), 5)
    archive = Archive(tmp_path / "archive")
    sweeps = [sweep_of(desk, archive).archive_since(None) for _ in range(3)]
    for swept in await asyncio.gather(*sweeps):
        assert swept.failed == ()
    names = await archive.names("runs/")
    assert len(names) == 10, "a history and an entry of each run, and no draft"
    for handle in handles:
        [entry] = await archive.histories_of(desk.client.namespace, handle.id)
        assert len(await archive.events(entry)) == entry.events


class Failing(FileArchiveStore):
    """A directory on a disk that is full, or whose process is killed before a write."""

    def __init__(self, directory: Path, fails_at: int) -> None:
        super().__init__(directory)
        self.writes = 0
        self.fails_at = fails_at

    async def write(self, name: str, data: bytes) -> None:
        self.writes += 1
        if self.writes == self.fails_at:
            raise OSError(errno.ENOSPC, "No space left on device")
        await super().write(name, data)


@pytest.mark.parametrize("fails_at", [2])
async def test_a_full_disk_is_said_and_tried_again(desk: Desk, tmp_path: Path, fails_at: int):
    await desk.open(DESK, model=ScriptedModel(always=echo))
    handle = await closed_run(desk)
    archive = Archive(Failing(tmp_path, fails_at))
    swept = await listed(desk, archive, 1)
    [failed] = swept.failed
    assert failed.run_id == handle.id
    assert "cannot be written: OSError" in failed.why
    assert "No space left on device" in failed.why
    assert await archive.histories_of(desk.client.namespace, handle.id) == []
    again = await listed(desk, archive, 1)
    assert again.failed == ()
    assert len(await archive.names("runs/")) == 2


async def test_a_worker_whose_archive_fails_says_so_and_goes_on(
    desk: Desk, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "archive").write_text("a file, not a directory")
    archive = Archive(tmp_path / "archive", every=SOON)
    await desk.open(DESK, model=ScriptedModel(always=echo), archive=archive)
    await closed_run(desk)

    async def said() -> list[str]:
        return [one for one in caplog.messages if "are not archived" in one]

    [line] = await until(said)
    assert "outlast archive status" in line
    (tmp_path / "archive").unlink()
    handle = await closed_run(desk, "still here")
    await archived(archive, handle, 1)


KILLED = """
import asyncio, os, pathlib, signal, sys
from temporalio.client import Client
from outlast.archive import Archive, Sweep

address, namespace, queue, directory, step = sys.argv[1:]
steps = 0

def dying(function):
    def call(*arguments, **options):
        global steps
        steps += 1
        if steps == int(step):
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)
    return call

for name in ("mkdir", "open", "replace", "unlink"):
    setattr(pathlib.Path, name, dying(getattr(pathlib.Path, name)))
os.fsync = dying(os.fsync)

async def main():
    client = await Client.connect(address, namespace=namespace)
    await Sweep(client, Archive(directory), queue).archive_since(None)

asyncio.run(main())
"""
"""A process that archives, and kills itself at one of the steps of its writes."""


async def test_a_process_that_is_killed_at_any_step_leaves_nothing_wrong(
    desk: Desk, tmp_path: Path
):
    await desk.open(DESK, model=ScriptedModel(always=echo))
    handle = await closed_run(desk)
    await listed(desk, Archive(tmp_path / "seen"), 1)
    address = desk.client.service_client.config.target_host
    place = address, desk.client.namespace, desk.queue

    async def killed_at(step: int) -> int:
        directory = tmp_path / f"killed-{step}"
        process = await forked.start("-c", KILLED, *place, str(directory), str(step))
        code = await process.wait()
        archive = Archive(directory)
        assert [one.problem for one in await verify(archive)] in ([], [""])
        swept = await sweep_of(desk, archive).archive_since(None)
        assert swept.failed == ()
        [entry] = await archive.histories_of(desk.client.namespace, handle.id)
        assert len(await archive.events(entry)) == entry.events
        return code

    codes = await asyncio.gather(*map(killed_at, [*range(1, 9), 1_000]))
    assert codes[0] == codes[6] == -signal.SIGKILL
    assert codes[-1] == 0, "the last one had fewer steps"


async def test_an_id_that_is_used_again_does_not_mix(desk: Desk, tmp_path: Path):
    archive = Archive(tmp_path, every=SOON)
    await desk.open(DESK, model=ScriptedModel(always=echo), archive=archive)
    run_id = "../../tenants/a b/'; DROP TABLE runs; --"
    first = await closed_run(desk, "the first", id=run_id)
    [one] = await archived(archive, first, 1)
    await taken_by_retention(desk.client, [one])
    assert (await first.result()).final_output == "You said: the first"
    second = await closed_run(desk, "the second", id=run_id)
    assert (await second.result()).final_output == "You said: the second"
    entries = await archived(archive, second, 2)
    assert [entry.run_id for entry in entries] == [run_id, run_id]
    await taken_by_retention(desk.client, entries[1:])
    assert (await second.result()).final_output == "You said: the second"
    texts = [one.event for one in await past(second) if one.event is not None]
    assert "the first" not in repr(texts)
    folders = {one.parts[len(tmp_path.parts)] for one in files_in(tmp_path)}
    assert folders == {"runs", "sweeps"}


async def test_a_changed_archive_is_noticed(desk: Desk, tmp_path: Path):
    archive = Archive(tmp_path, every=SOON)
    await desk.open(DESK, model=ScriptedModel(always=echo), archive=archive)
    handle, other = await closed_run(desk), await closed_run(desk, "another")
    [entry] = await archived(archive, handle, 1)
    [foreign] = await archived(archive, other, 1)
    await taken_by_retention(desk.client, [entry])
    desk.ids.remove(handle.id)
    by_name = {one.name: one for one in files_in(tmp_path)}
    blob, manifest = by_name[f"{entry.sha256}.history"], by_name[f"{entry.execution_id}.json"]
    packed, written = blob.read_bytes(), manifest.read_bytes()
    flipped = bytearray(gzip.decompress(packed))
    flipped[len(flipped) // 2] ^= 1
    changes: list[tuple[Path, bytes | None]] = [
        (blob, gzip.compress(bytes(flipped))),
        (blob, packed[:-40]),
        (blob, by_name[f"{foreign.sha256}.history"].read_bytes()),
        (blob, gzip.compress(b"0" * 50_000_000)),
        (blob, None),
        (manifest, written.replace(b'"completed"', b'"failed"', 1)),
        (manifest, by_name[f"{foreign.execution_id}.json"].read_bytes()),
        (manifest, b"[" * 100_000),
        (manifest, b"{}"),
    ]
    for file, content in changes:
        file.write_bytes(content) if content is not None else file.unlink()
        with pytest.raises(ArchiveDamaged, match=r"changed|missing|cannot be read"):
            await past(handle)
        [found] = [one for one in await verify(archive) if one.problem]
        assert found.name.endswith(f"{entry.execution_id}.json")
        blob.write_bytes(packed)
        manifest.write_bytes(written)
    assert [one.problem for one in await verify(archive)] == ["", ""]
    assert len(await past(handle)) > 1


async def test_without_an_archive_a_run_that_is_gone_is_not_found(desk: Desk, tmp_path: Path):
    archive = Archive(tmp_path)
    await desk.open(DESK, model=ScriptedModel(always=echo))
    handle = await closed_run(desk)
    await listed(desk, archive, 1)
    await taken_by_retention(
        desk.client, await archive.histories_of(desk.client.namespace, handle.id)
    )
    desk.ids.remove(handle.id)
    with pytest.raises(RunNotFound):
        await past(handle)
    use_archive(desk.client, archive)
    assert len(await past(RunHandle(desk.client, handle.id))) > 1


@pytest.mark.timeout(600)
async def test_a_long_conversation_is_exported_after_retention_took_its_early_histories(
    desk: Desk, tmp_path: Path
):
    """As many messages as `OUTLAST_LONG_RUN` says, such as 2700; 60 in CI."""
    messages = int(os.environ.get("OUTLAST_LONG_RUN", "60"))
    archive = Archive(tmp_path, every=SOON)
    await desk.open(DESK, model=ScriptedModel(always=echo), archive=archive)
    events = 1_200 if messages > 1_000 else 60
    handle = await desk.start_short(DESK, "message 0", keep_open=True, events=events)
    for number in range(1, messages):
        await answered(handle, f"message {number}")
    before = await record_run(desk.client, handle.id)
    expected = messages * 10 // events - 2
    entries = await archived(archive, handle, max(expected, 3))
    await taken_by_retention(desk.client, entries)
    began = time.perf_counter()
    after = await record_run(desk.client, handle.id)
    took = time.perf_counter() - began
    assert after.to_json() == before.to_json()
    whole = await past(handle)
    assert sum(item.kind == "input" for item in whole[-1].state.items) == messages
    stored = sum(one.stored for one in entries)
    size = sum(one.size for one in entries)
    print(  # noqa: T201  the figures of the run
        f"\n{messages} messages, {len(entries) + 1} histories, {size:,} bytes archived as {stored:,}; "
        f"read and exported in {took:.2f} s"
    )
    await handle.cancel("after_turn")
    desk.ids.remove(handle.id)


async def test_runs_are_replayed_before_a_deploy_when_the_server_has_none_of_them(
    desk: Desk, tmp_path: Path
):
    archive, name = Archive(tmp_path / "archive", every=SOON), f"Clerk-{desk.queue}"
    clerk = Agent[Any](name=name, tools=[look_up])
    model = ScriptedModel([call("look_up", "c1", order_id="A")], "It is paid.", always=echo)
    await desk.open(clerk, model=model, archive=archive)
    handles = [await desk.start(clerk, "Where is A?")]
    await desk.result(handles[0])
    handles.append(await desk.start(clerk, "Thanks"))
    await desk.result(handles[1])
    for handle in handles:
        [entry] = await archived(archive, handle, 1)
        await taken_by_retention(desk.client, [entry])
        desk.ids.remove(handle.id)
    module = f"clerk_{desk.queue}".replace("-", "_")
    (tmp_path / f"{module}.py").write_text(
        f"from outlast import Agent\nagents = [Agent(name={name!r})]\n"
    )
    options = ("--app-dir", str(tmp_path), "--agent", name, "--since", "30d", "--changed")
    nothing = await cli(desk, tmp_path / "archive", "replay", module, *options)
    assert (nothing.exit_code, nothing.stdout) == (1, "")
    done = await cli(desk, tmp_path / "archive", "replay", module, *options, "--archived")
    assert done.exit_code == 1, done.output
    assert done.stdout.startswith(f"{handles[0].id}: 1 decision differs")
    assert "There is no tool 'look_up'" in done.stdout
    assert "1 of 2 runs would go another way: tool 1." in done.stderr


# --- Lost histories -------------------------------------------------------------------------------


async def cli(desk: Desk, directory: Path, *arguments: str) -> Any:
    """Run a command of `outlast` in this process."""
    address = desk.client.service_client.config.target_host
    environment = {"OUTLAST_ARCHIVE": str(directory), "COLUMNS": "200", "TEMPORAL_ADDRESS": address}
    command = functools.partial(CliRunner().invoke, app, arguments, env=environment)
    return await asyncio.to_thread(command)


async def test_what_is_left_of_a_run_is_read_and_what_is_lost_is_said(desk: Desk, tmp_path: Path):
    archive = Archive(tmp_path, every=SOON)
    worker = await desk.open(DESK, model=ScriptedModel(always=echo), archive=archive)
    handle = await conversation(desk, 10)

    async def all_archived() -> bool:
        begun = [one for one in await past(handle) if one.event is None]
        found = await archive.histories_of(desk.client.namespace, handle.id)
        return len(begun) == len(found) + 1 >= 5

    await until(all_archived)
    await desk.close(worker)  # nobody archives again what is removed here
    entries = await archive.histories_of(desk.client.namespace, handle.id)
    whole = await past(handle)
    starts = [at for at, one in enumerate(whole) if one.event is None]
    assert len(starts) == len(entries) + 1
    await taken_by_retention(desk.client, entries)
    first, second, third = entries[0], entries[1], entries[2]

    # A gap in the middle: what is before it is only known from the archive.
    await archive.discard(second)
    expected = [*whole[: starts[1]], *whole[starts[2] :]]
    found = await past(handle)
    assert [one.event for one in found] == [one.event for one in expected]
    assert [one.state for one in found] == [one.state for one in expected]
    assert [one.lost for one in found if one.lost] == [second.execution_id]
    followed: list[Progress] = []
    async with aclosing(progress_of(handle)) as following:
        async for one in following:
            followed.append(one)
            if one == found[-1]:
                break
    assert followed == found

    recording = await record_run(desk.client, handle.id)
    assert recording.lost == (second.execution_id,)
    assert not recording.starts_late
    assert Recording.from_json(recording.to_json()) == recording
    with pytest.raises(UserError, match=f"its history {second.execution_id} is lost"):
        await replay(recording, DESK)
    (audited,) = (await audit_run(desk.client, handle.id)).runs
    assert audited.lost == (second.execution_id,)

    shown = await cli(desk, tmp_path, "show", handle.id)
    assert f"lost       history {second.execution_id}, or more before it" in shown.output
    assert "message 0" in shown.output
    exported = await cli(desk, tmp_path, "export", handle.id)
    assert f"The history {second.execution_id} of the run, or more before it, is lost" in (
        exported.stderr
    )
    said = await cli(desk, tmp_path, "audit", handle.id)
    assert f"its history {second.execution_id}, or more before it, is lost" in said.stderr

    # Then the first ones, too: what comes after them is still read.
    await archive.discard(first)
    await archive.discard(third)
    found = await past(handle)
    assert [one.event for one in found] == [one.event for one in whole[starts[3] :]]
    assert found[0].lost == third.execution_id
    recording = await record_run(desk.client, handle.id)
    assert recording.starts_late
    assert recording.lost == (third.execution_id,)
    answers = [one.value for one in recording.entries if one.kind == "answer"]
    assert answers[-1] == "You said: message 9"
    assert len(answers) > 1
    shown = await cli(desk, tmp_path, "show", handle.id, "--json")
    assert json.loads(shown.stdout)["lost_histories"] == [third.execution_id]
    await desk.workflow(handle).terminate("the test is over")
    desk.ids.remove(handle.id)


async def test_a_restored_server_is_asked_what_its_searches_do_not_know_yet(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    archive = Archive(tmp_path)
    await desk.open(DESK, model=ScriptedModel(always=echo))
    handle = await desk.start(DESK, "Hello", keep_open=True)
    await desk.until_status(handle, "idle")
    listed = await restore._executions_of(desk.client)  # while it is open
    await handle.cancel(mode="after_turn")
    await handle.wait(lambda run: not run.is_open)
    await swept(archive, handle)
    monkeypatch.setattr(restore, "_executions_of", AsyncMock(return_value=listed))
    lost = (await compare_archive(desk.client, archive)).lost
    assert [one for one in lost if one.run_id == handle.id] == []
