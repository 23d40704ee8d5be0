"""`outlast archive`: what it says, and what it refuses."""

import json
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
from temporalio.client import Client

from outlast.archive import Archive, Sweep
from outlast.archive.archive import described
from outlast.cli import terminal
from outlast.client.start import options as start_options
from outlast.client.start.runner import Runner
from outlast.sessions.sqlite import SQLiteSession
from outlast.testing import ScriptedModel, say
from tests.hostile_text import assert_visible
from tests.unit.cli.conftest import Invoke, Open


async def test_the_archive_is_shown_checked_and_emptied(
    client: Client, cli: Invoke, open_desk: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = await open_desk(ScriptedModel(say("On its way.")))
    run_id = "\x1b[31mred\u202e"
    session = SQLiteSession(run_id, tmp_path / "sessions.db")
    options: dict[str, Any] = {"client": client, "task_queue": queue, "session": session}

    def anything(_id: object) -> None:
        """Clients refuse such an id; an archive may have one from somebody else."""

    monkeypatch.setattr(start_options, "_check_new_id", anything)
    await Runner.run("Helper", "Hello", id=run_id, **options)
    place = ("--archive", str(tmp_path / "archive"))
    nothing = await cli("archive", "list")
    assert nothing.exit_code == 2
    assert "Set OUTLAST_ARCHIVE or --archive" in nothing.stderr

    archive, missing = Archive(tmp_path / "archive"), ""
    while "not archived yet" not in missing:  # until searches know the run
        done = await cli("archive", "status", "--task-queue", queue, *place)
        assert done.exit_code == 0, "nothing is late"
        missing = done.stdout
    assert_visible(missing, layout="\n")
    await Sweep(client, archive, queue).archive_since(None)
    status = await cli("archive", "status", "--task-queue", queue, *place)
    assert "1 history of 1 run" in status.stdout
    assert "Everything closed that the server has is archived." in status.stdout
    listed = await cli("archive", "list", *place)
    assert "completed" in listed.stdout
    assert_visible(listed.stdout, layout="\n")
    [entry] = [
        json.loads(line)
        for line in (await cli("archive", "list", run_id, "--json", *place)).stdout.splitlines()
    ]
    assert entry["run_id"] == run_id
    assert entry["status"] == "completed"
    checked = await cli("archive", "verify", *place)
    assert checked.exit_code == 0
    assert "Checked 1 file, 0 with problems." in checked.stdout
    [blob] = (tmp_path / "archive").rglob("*.history")
    content = blob.read_bytes()
    blob.write_bytes(content[:-9])
    broken = await cli("archive", "verify", run_id, "--json", *place)
    assert broken.exit_code == 1
    assert json.loads(broken.stdout)["problems"][0]["run_id"] == run_id
    blob.write_bytes(content)

    for refused in ((), (run_id, "--person", "ann"), (run_id, "--returned")):
        assert (await cli("archive", "delete", *refused, *place)).exit_code == 2
    monkeypatch.setattr(terminal, "is_attended", lambda: False)
    unattended = await cli("archive", "delete", run_id, *place)
    assert "Add --yes" in unattended.stderr
    target = tmp_path / "desk_of_deletion.py"
    target.write_text("from tests.unit.cli.conftest import helper\nagents = [helper()]\n")
    opens = ("--target", str(target), "--sessions", str(tmp_path))
    deleted = await cli("archive", "delete", run_id, "--yes", "--by", "dpo", *opens, *place)
    assert "Deleted 1 history; the tombstone is deleted/" in deleted.stdout
    assert "Removed 2 items of its session." in deleted.stdout
    assert await session.get_items() == []
    nobody = await cli("archive", "delete", "--person", "ann", "--yes", *place)
    assert "No run worked for this person." in nobody.stderr
    assert "Read 0 runs that list this person, and " in nobody.stderr
    assert "that list no customer." in nobody.stderr
    everybody = await cli("archive", "delete", "--person", "ann", "--every-run", "--yes", *place)
    assert "No run worked for this person." in everybody.stderr
    again = await cli("archive", "delete", "--returned", "--yes", *place)
    assert "Nothing that was deleted is there again." in again.stderr, again.output
    tombstones = await cli("archive", "list", "--deleted", "--json", *place)
    assert json.loads(tombstones.stdout)["by"] == "dpo"
    gone = await cli("archive", "delete", run_id, "--yes", *place)
    assert gone.exit_code == 4, gone.output + deleted.output


async def test_what_a_restored_server_does_not_know_is_listed(
    client: Client, cli: Invoke, open_desk: Open, tmp_path: Path
) -> None:
    """A server that was restored from a backup has no run that began after it."""
    queue = await open_desk(ScriptedModel(always=say("On its way.")))
    options: dict[str, Any] = {"client": client, "task_queue": queue}
    run_id = f"lost-{queue}"
    await Runner.run("Helper", "Hello", id=run_id, **options)
    place = ("--archive", str(tmp_path / "archive"))
    swept = await Sweep(client, Archive(tmp_path / "archive"), queue).archive_since(None)
    while not swept.archived:  # until searches know the run
        swept = await Sweep(client, Archive(tmp_path / "archive"), queue).archive_since(None)
    same = await cli("archive", "compare", *place)
    assert same.exit_code == 0
    assert "The archive knows nothing that the server does not." in same.stdout
    # The same run under another execution, of which the server knows nothing.
    [entry] = swept.archived
    archive, unknown = Archive(tmp_path / "archive"), described(entry)
    unknown.workflow_execution_info.execution.run_id = token_hex(16)
    await archive.add(client.namespace, unknown, await archive.events(entry))
    found = await cli("archive", "compare", "--set-aside", *place)
    assert found.exit_code == 1
    assert f"Lost: {run_id}, ended 20" in found.stdout
    assert ": the server does not have it" in found.stdout
    assert "Set aside 0 histories." in found.stderr, "its id is never used again"
    record = json.loads((await cli("archive", "compare", "--json", *place)).stdout)
    [lost] = record["lost"]
    assert (lost["run_id"], lost["known"], lost["acts"], lost["calls"]) == (run_id, "gone", [], [])
    assert lost["run_key"].startswith(f"{run_id}@")
    assert record["returned"] == []
