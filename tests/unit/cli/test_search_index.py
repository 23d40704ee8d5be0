"""`outlast search`: a role that feeds an index, and what is found in it."""

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from outlast.archive import Archive
from outlast.client.start.runner import Runner
from outlast.dev import EmbeddedServer
from outlast.testing import ScriptedModel, say
from tests import forked
from tests.hostile_text import assert_visible
from tests.unit.cli.conftest import Invoke, Open


async def role(server: EmbeddedServer, index: Path) -> Process:
    """Start `outlast search run`, and return it once it says that it is ready."""
    command = ["search", "run", "--json", "--address", server.address, "--search-index", str(index)]
    process = await forked.start_anew("-m", "outlast.cli.entry", *command, stdout=PIPE, stderr=PIPE)
    assert process.stdout is not None
    ready = json.loads(await process.stdout.readline())
    assert ready["status"] == "ready"
    return process


async def stopped(process: Process) -> int:
    """Ask a process to stop, and return its exit code."""
    process.send_signal(signal.SIGTERM)
    return await asyncio.wait_for(process.wait(), 20)


async def until_found(cli: Invoke, run_id: str, *place: str) -> Any:
    """Wait until the index is up to date, and a search finds a run."""
    async with asyncio.timeout(60):
        while True:
            status = await cli("search", "status", *place)
            done = await cli("search", "find", "pangolin promise", *place)
            if status.exit_code == 0 and run_id in done.stdout:
                return done
            await asyncio.sleep(0.2)


async def test_the_index_is_fed_by_a_process_that_is_killed_and_found_in_words(
    client: Client,
    server: EmbeddedServer,
    cli: Invoke,
    open_desk: Open,
    run_id: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index, place = tmp_path / "i.db", ("--search-index", str(tmp_path / "i.db"))
    queue = await open_desk(ScriptedModel(say("\x1b[2J\u202eA promise of a pangolin.")))
    options: dict[str, Any] = {"client": client, "task_queue": queue}
    await Runner.run("Helper", "[bold]a pangolin[/]", id=run_id, customer="ann@x", **options)

    nothing = await cli("search", "status")
    assert nothing.exit_code == 2
    assert "Say where the index of search is" in nothing.stderr
    missing = await cli("search", "find", "pangolin", *place)
    assert missing.exit_code == 1
    assert "There is no index at" in missing.stderr

    process = await role(server, index)
    done = await until_found(cli, run_id, *place)
    assert_visible(done.stdout, layout="\n")
    assert "[bold]a pangolin[/]" in done.stdout
    found = json.loads((await cli("search", "find", "pangolin", "--json", *place)).stdout)
    assert [(one["run_id"], one["is_open"]) for one in found] == [(run_id, False)]
    process.kill()
    await process.wait()
    waiting = await role(server, index)
    assert await stopped(waiting) == 0, "while the index is another one's"
    assert run_id in (await cli("search", "find", "pangolin", *place)).stdout
    other = await role(server, tmp_path / "other.db")
    elsewhere = ("--search-index", str(tmp_path / "other.db"))
    await until_found(cli, run_id, *elsewhere)
    assert await stopped(other) == 0
    assert "Written by no process." in (await cli("search", "status", *elsewhere)).stdout
    assert "Nothing found." in (await cli("search", "find", "nobody-said", *place)).stderr
    assert (await cli("search", "find", "x" * 999, *place)).exit_code == 2

    # The same command that deletes the run removes its words.
    archive = ("--archive", str(tmp_path / "archive"))
    Archive(tmp_path / "archive")
    deleted = await cli("archive", "delete", run_id, "--yes", *archive, *place)
    assert deleted.exit_code == 0, deleted.stderr
    assert json.loads((await cli("search", "find", "pangolin", "--json", *place)).stdout) == []
    monkeypatch.setenv("OUTLAST_SEARCH_INDEX", str(index))
    rebuilt = await cli("search", "rebuild")
    assert "Indexed " in rebuilt.stdout
    assert json.loads((await cli("search", "find", "pangolin", "--json")).stdout) == []


async def test_a_damaged_index_is_named_and_rebuilt(
    client: Client, cli: Invoke, tmp_path: Path
) -> None:
    index, place = tmp_path / "i.db", ("--search-index", str(tmp_path / "i.db"))
    assert (await cli("search", "rebuild", *place)).exit_code == 0
    content = index.read_bytes()
    index.write_bytes(content[:4096] + os.urandom(len(content) - 4096))
    damaged = await cli("search", "status", *place)
    assert damaged.exit_code == 1
    assert "outlast search rebuild" in damaged.stderr
    assert (await cli("search", "rebuild", *place)).exit_code == 0
    assert (await cli("search", "status", *place)).exit_code == 0
    index.write_text("notes of mine")
    refused = await cli("search", "rebuild", *place)
    assert refused.exit_code == 1
    assert "is no index of outlast" in refused.stderr
    assert index.read_text() == "notes of mine"


async def test_search_is_off_where_contents_are_encrypted(
    client: Client, cli: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_CODEC", "tests.unit.cli.codec_of_search:codec")
    place = ("--search-index", str(tmp_path / "i.db"))
    refused = await cli("search", "rebuild", *place)
    assert refused.exit_code == 2, refused.stderr
    assert "Contents are encrypted here" in refused.stderr
    assert not (tmp_path / "i.db").exists()
