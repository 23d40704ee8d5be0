"""`outlast archive`: what it says, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from outlast.archive import Archive, Sweep
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

    for refused in ((), (run_id, "--person", "ann")):
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
    tombstones = await cli("archive", "list", "--deleted", "--json", *place)
    assert json.loads(tombstones.stdout)["by"] == "dpo"
    gone = await cli("archive", "delete", run_id, "--yes", *place)
    assert gone.exit_code == 4, gone.output + deleted.output
