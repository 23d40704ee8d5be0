"""`outlast export`: lines of recordings and of examples, and files that are gone on with."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.client import Client
from typer.testing import CliRunner, Result

from outlast.cli import server
from outlast.cli.app import app
from outlast.client import recordings
from outlast.client.recordings import Entry, Recording, UnreadRun
from outlast.client.start.runner import Runner
from outlast.testing import ScriptedModel, call, load_runs, record_in_memory
from tests.unit.cli.conftest import Invoke, Open, helper

TARGET = """
from tests.unit.cli.conftest import helper

agents = [helper()]
"""


async def made(run_id: str, said: str = "Hello") -> Recording:
    model = ScriptedModel([call("look_up", "c1", order_id="A")], "Done.")
    return await record_in_memory(helper(), said, model=model, run_id=run_id)


@pytest.fixture
async def runs(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A stand-in for the server: it has the runs `all`, and keeps the options of a search as `asked`."""
    found: dict[str, Any] = {"all": [await made("a"), await made("b"), await made("c")]}

    async def connect(address: Any, namespace: Any) -> Any:
        return SimpleNamespace(client="client")

    async def search(client: Any, criteria: Any, **options: Any) -> AsyncGenerator[Any]:
        found["asked"] = (criteria, options)
        for one in found["all"][: options["limit"]]:
            if (one.run_id, getattr(one, "execution_id", "")) not in options["skip"]:
                yield one

    monkeypatch.setattr(server, "connect", connect)
    monkeypatch.setattr(recordings, "record_runs", search)
    return found


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["export", *arguments], env={"COLUMNS": "200"})


def test_runs_are_lines(runs: dict[str, Any]) -> None:
    done = run("--since", "30d", "--agent", "Helper", "--status", "completed", "--query", "x = 1")
    assert done.exit_code == 0
    found = [Recording.from_json(line) for line in done.stdout.splitlines()]
    assert found == runs["all"]
    criteria, options = runs["asked"]
    assert (criteria.agent, criteria.status) == ("Helper", "completed")
    assert (options["query"], options["limit"], options["redact"]) == ("x = 1", 1_001, True)


def test_a_run_or_a_search_is_needed(runs: dict[str, Any]) -> None:
    done = run()
    assert done.exit_code == 2
    assert "outlast export --since 30d" in done.stderr
    assert "asked" not in runs


def test_a_file_is_gone_on_with_after_a_kill(runs: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    place = ("--since", "30d", "--output", str(file))
    everything = runs["all"]
    runs["all"] = everything[:2]
    assert run(*place).exit_code == 0
    assert file.stat().st_mode & 0o077 == 0
    with file.open("a") as half:
        half.write('{"format": "outlast.rec')
    runs["all"] = everything
    done = run(*place)
    assert done.exit_code == 0
    assert "1 line added to" in done.stderr
    assert "2 were there" in done.stderr
    assert [one.run_id for one in load_runs(file)] == ["a", "b", "c"]


def test_a_file_of_something_else_is_left_alone(runs: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("My notes.\n")
    done = run("--since", "30d", "-o", str(file))
    assert done.exit_code == 2
    assert "holds other lines than recordings" in done.stderr
    assert file.read_text() == "My notes.\n"
    missing = run("--since", "30d", "-o", str(tmp_path / "no" / "file"))
    assert "cannot be written" in missing.stderr


def test_what_cannot_be_read_is_said_and_the_rest_is_there(runs: dict[str, Any]) -> None:
    runs["all"].insert(1, UnreadRun(run_id="x\x1b[2J", why="It is encrypted."))
    done = run("--since", "30d", "--limit", "4")
    assert done.exit_code == 1
    assert len(done.stdout.splitlines()) == 3
    assert "It is encrypted." in done.stderr
    assert "\x1b[2J" not in done.stderr
    assert "Limited" not in done.stderr


async def test_what_is_missing_is_said_and_fails(runs: dict[str, Any], tmp_path: Path) -> None:
    done = await asyncio.to_thread(run, "--since", "30d", "--limit", "2")
    assert (done.exit_code, len(done.stdout.splitlines())) == (1, 2)
    assert "Limited to 2 runs: there are more, see --limit." in done.stderr
    whole = runs["all"][0]
    lost = whole.with_entries([*whole.entries, Entry(kind="lost", at_ms=0, id="h-1")])
    runs["all"] = [lost]
    done = await asyncio.to_thread(run, "--since", "30d")
    assert (done.exit_code, len(done.stdout.splitlines())) == (1, 1)
    assert "The history h-1 of the run, or more before it, is lost" in done.stderr
    (tmp_path / "desk_of_missing.py").write_text(TARGET)
    place = ("--target", "desk_of_missing", "--app-dir", str(tmp_path))
    done = await asyncio.to_thread(run, "--since", "30d", "--format", "chat", *place)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "Left out: The run a cannot be replayed: its history h-1 is lost" in done.stderr


async def test_hostile_texts_are_data(runs: dict[str, Any]) -> None:
    said = '\u202e\x1b[2J\n{"format": 1}'
    runs["all"] = [await made("a", said)]
    done = await asyncio.to_thread(run, "--since", "30d")
    assert "\u202e" not in done.stdout
    (line,) = done.stdout.splitlines()
    assert Recording.from_json(line).entries[0].items[0]["content"] == said


def test_a_function_changes_and_leaves_out(runs: dict[str, Any], tmp_path: Path) -> None:
    code = "def only_b(document):\n    return {'id': 'b'} if document['run_id'] == 'b' else None\n"
    (tmp_path / "choose.py").write_text(code)
    place = ("--app-dir", str(tmp_path), "--redact", "choose:only_b")
    assert run("--since", "30d", *place).stdout == '{"id": "b"}\n'


def test_the_chat_format_needs_agents(runs: dict[str, Any], tmp_path: Path) -> None:
    done = run("--since", "30d", "--format", "chat")
    assert done.exit_code == 2
    assert "--format chat needs --target" in done.stderr
    (tmp_path / "desk_of_export.py").write_text(TARGET)
    place = ("--target", "desk_of_export", "--app-dir", str(tmp_path))
    done = run("--since", "30d", "--format", "chat", *place)
    assert done.exit_code == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["messages"][-1]["content"] for line in lines] == ["Done."] * 3
    file = tmp_path / "examples.jsonl"
    file.write_text("{}\n")
    again = run("--since", "30d", "--format", "chat", *place, "-o", str(file))
    assert "exists. Choose another file" in again.stderr
    assert runs["asked"][1]["redact"] is False, "it is redacted after the replay"


@pytest.mark.smoke
async def test_runs_of_a_server_are_exported(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel("One.", "Two."))
    ids = [f"{run_id}-1", f"{run_id}-2"]
    for one in ids:
        handle = await Runner.start("Helper", "Hello", id=one, client=client, task_queue=queue)
        await handle.result()

    only = ("--query", f"WorkflowId STARTS_WITH '{run_id}'")
    found: list[Recording] = []
    for _ in range(100):  # visibility is a moment behind
        done = await cli("export", *only)
        found = [Recording.from_json(line) for line in done.stdout.splitlines()]
        if len(found) == len(ids) and all(one.complete for one in found):
            break
    assert sorted(one.run_id for one in found) == ids
    assert all(one.execution_id for one in found)
    one = await cli("export", ids[0])
    assert [Recording.from_json(line).run_id for line in one.stdout.splitlines()] == [ids[0]]
    bad = await cli("export", "--query", "not a query")
    assert bad.exit_code != 0
    assert bad.stdout == ""
