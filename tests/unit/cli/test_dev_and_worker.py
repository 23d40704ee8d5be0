import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import httpx2
import pytest
from temporalio.client import Client

from outlast.agents.errors import UserError
from outlast.cli import dev, serve
from outlast.cli import server as temporal_server
from outlast.cli.dev_worker import watched
from outlast.cli.target import locate
from outlast.client.start.runner import Runner
from outlast.dev import EmbeddedServer
from tests import forked
from tests.eventually import eventually
from tests.unit.cli.conftest import Invoke

Started: TypeAlias = asyncio.subprocess.Process
Start: TypeAlias = Callable[..., Awaitable[Started]]

WAIT_SECONDS = 90
"""How long a process may take for what it does in a few seconds on an idle machine."""

APPLICATION = """
import time
from outlast import Agent, function_tool

@function_tool
def hang() -> str:
    "Never come back."
    open("entered", "w").close()
    time.sleep(600)

agents = [Agent(name="Helper", instructions="Help.", tools=[hang])]
"""


@pytest.fixture
async def start(home: Path, tmp_path: Path) -> AsyncIterator[Start]:
    """Return a function that starts `outlast`, `anew` or forked; what still runs at the end is killed."""
    (tmp_path / "application.py").write_text(APPLICATION)
    processes: list[Started] = []

    async def run(*arguments: str, anew: bool = False, **environment: str) -> Started:
        process = await (forked.start_anew if anew else forked.start)(
            *("-m", "outlast.cli.entry", *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=tmp_path,
            env={**os.environ, "OPENAI_BASE_URL": "http://127.0.0.1:1/v1", **environment},
        )
        processes.append(process)
        return process

    yield run
    for process in processes:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def first_line(process: Started) -> str:
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), WAIT_SECONDS)).decode()


async def shown_until(process: Started, words: str) -> str:
    """Return what a process printed, to the end of some words; with its errors if it has none."""
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        read = process.stdout.readuntil(words.encode())
        return (await asyncio.wait_for(read, WAIT_SECONDS)).decode()
    except asyncio.IncompleteReadError as error:
        said = (await process.stderr.read()).decode()
        raise AssertionError(f"It ended after {error.partial.decode()!r}: {said}") from error


async def rest_of(process: Started) -> tuple[int | None, str]:
    _, said = await asyncio.wait_for(process.communicate(), WAIT_SECONDS)
    return process.returncode, said.decode()


# --- outlast dev ---------------------------------------------------------------------------------


@pytest.mark.full
async def test_a_server_tells_where_it_is_and_ends_on_ctrl_c(start: Start, tmp_path: Path) -> None:
    process = await start(
        *("dev", "--port", "0", "--ui-port", "0", "--data-dir", str(tmp_path / "d"), "--json"),
        anew=True,
    )
    info = json.loads(await first_line(process))

    assert (await Client.connect(info["address"])).namespace == info["namespace"] == "default"
    assert info["data_dir"] == str(tmp_path / "d")
    assert not info["joined"]

    process.send_signal(signal.SIGINT)

    assert await rest_of(process) == (0, "stopping\n")
    assert not temporal_server.answers(info["address"])


@pytest.mark.full
async def test_a_second_one_joins_the_first(start: Start, server: EmbeddedServer) -> None:
    process = await start("dev", "--json")
    info = json.loads(await first_line(process))

    assert info["joined"]
    assert info["address"] == server.address

    process.send_signal(signal.SIGTERM)
    assert await rest_of(process) == (0, "leaving the server running for others\n")
    assert temporal_server.answers(server.address)


@pytest.mark.full
async def test_a_person_is_told_what_to_do_next(start: Start, tmp_path: Path) -> None:
    process = await start("dev", "--port", "0", "--ui-port", "0", "--in-memory")
    shown = await shown_until(process, "Ctrl-C stops it.\n")

    assert "export TEMPORAL_ADDRESS=127.0.0.1:" in shown
    assert "gone when it stops" in shown
    assert "outlast worker TARGET" in shown


@pytest.mark.full
async def test_a_server_that_is_killed_is_missed(start: Start, tmp_path: Path) -> None:
    process = await start(
        *("dev", "--port", "0", "--ui-port", "0", "--data-dir", str(tmp_path / "d"), "--json")
    )
    info = json.loads(await first_line(process))

    os.kill(info["pid"], signal.SIGKILL)

    code, said = await rest_of(process)
    assert code == 6
    assert "has ended. Runs continue when `outlast dev` starts it again." in said


async def test_memory_has_no_directory(cli: Invoke) -> None:
    done = await cli("dev", "--in-memory", "--data-dir", "here")

    assert done.exit_code == 2
    assert "leave out --data-dir" in done.stderr


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--as", "ann"), "which needs TARGET"),
        (("app.py", "--no-desk", "--as", "ann", "--groups", "leads"), "are for the desk"),
        (("app.py", "--groups", "leads"), "--groups belongs to --as"),
    ],
)
async def test_a_person_is_that_of_a_desk(cli: Invoke, given: tuple[str, ...], words: str) -> None:
    done = await cli("dev", "--in-memory", *given)

    assert done.exit_code == 2
    assert words in done.stderr


@pytest.mark.parametrize("option", ["--port", "--ui-port"])
@pytest.mark.parametrize("port", ["-1", "65536", "70000", "99999999999999999999"])
async def test_a_number_that_is_no_port_is_named(cli: Invoke, option: str, port: str) -> None:
    done = await cli("dev", "--in-memory", option, port)

    assert done.exit_code == 2
    assert f"Invalid value for '{option}'" in done.stderr


def test_the_usual_port_is_taken_where_it_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    for problem, port in ((None, 7233), ("in use", 0)):

        def known(_port: int, *, answer: str | None = problem) -> str | None:
            return answer

        monkeypatch.setattr(dev, "problem_of_port", known)
        assert dev._port(None, 7233) == port
        assert dev._port(9000, 7233) == 9000


# --- outlast dev TARGET --------------------------------------------------------------------------

SCRIPTED = """
from outlast import Agent, function_tool
from outlast.testing import ScriptedModel

@function_tool
def look() -> str:
    "Look."
    return "seen"

desk = Agent(name="Desk", tools=[look], model=ScriptedModel(always="old answer"))
"""

DIES_WHEN_TOLD = """
import os, threading, time

def die():
    while not os.path.exists("die"):
        time.sleep(0.05)
    os._exit(7)

threading.Thread(target=die, daemon=True).start()
"""

NEW = ("--port", "0", "--ui-port", "0", "--in-memory")
ALONE = (*NEW, "--no-desk")


@pytest.fixture
async def travel(start: Start, tmp_path: Path) -> tuple[Started, Path, str]:
    """Return `outlast dev travel.py` with its file and its server's address."""
    path = tmp_path / "travel.py"
    path.write_text(SCRIPTED)
    process = await start("dev", "travel.py", *ALONE, "--json")
    address = json.loads(await first_line(process))["address"]
    ready = json.loads(await first_line(process))
    assert (ready["agents"], ready["tools"]) == (["Desk"], ["look"])
    assert ready["models"] == ["a script, offline"]
    assert ready["desk"] is None
    return process, path, address


async def line_with(process: Started, words: str) -> str:
    assert process.stderr is not None
    async with asyncio.timeout(WAIT_SECONDS):
        while words not in (line := (await process.stderr.readline()).decode()):
            assert line, "it has ended"
    return line


async def answer(cli: Invoke, address: str) -> str:
    return (await cli("run", "Desk", "Hello", "--address", address)).stdout


@pytest.mark.full
@pytest.mark.oldest
async def test_a_worker_reloads_on_save_and_all_end_on_ctrl_c(
    travel: tuple[Started, Path, str], cli: Invoke
) -> None:
    process, path, address = travel
    assert await answer(cli, address) == "old answer\n"

    path.write_text(SCRIPTED + "\nx = (\n")

    line = await line_with(process, "not reloaded")
    assert "the worker from before the change stays: travel.py cannot be imported" in line
    assert "SyntaxError: '(' was never closed (travel.py, line 12).\n" in line
    assert await answer(cli, address) == "old answer\n"

    path.write_text(SCRIPTED.replace("old", "new"))

    assert await line_with(process, "reloaded") == "reloaded: travel.py\n"
    assert await answer(cli, address) == "new answer\n"

    process.send_signal(signal.SIGINT)

    assert await rest_of(process) == (0, "stopping\n")
    assert not temporal_server.answers(address)


@pytest.mark.full
async def test_a_worker_that_dies_is_missed_and_the_next_save_starts_another(
    travel: tuple[Started, Path, str], cli: Invoke
) -> None:
    process, path, address = travel
    path.write_text(SCRIPTED + DIES_WHEN_TOLD)
    await line_with(process, "reloaded")

    (path.parent / "die").touch()
    assert "exit code 7. Save a file to start it again." in await line_with(process, "has ended")

    path.write_text(SCRIPTED)
    await line_with(process, "reloaded")
    assert await answer(cli, address) == "old answer\n"


@pytest.mark.full
async def test_a_person_sees_what_was_found_and_what_to_type(start: Start, tmp_path: Path) -> None:
    (tmp_path / "travel.py").write_text(SCRIPTED)
    process = await start("dev", "travel.py", *NEW, anew=True)
    shown = await shown_until(process, "Ctrl-C stops")

    assert re.match(r"Open http://127\.0\.0\.1:\d+ in a browser: the desk\.\n", shown)
    assert "travel.py runs, and reloads on save.\n  agents   Desk\n  tools    look\n" in shown
    assert "  model    a script, offline\n" in shown
    assert "  outlast run Desk Hello --address 127.0.0.1:" in shown
    assert "and open http://127.0.0.1:" in shown


@pytest.mark.full
async def test_a_missing_key_is_said_and_the_worker_runs(start: Start, tmp_path: Path) -> None:
    process = await start("dev", "application", *ALONE, OPENAI_BASE_URL="")
    shown = await shown_until(process, "Ctrl-C stops")

    assert "  model    none\n" in shown
    assert "No question can be answered yet: Agent 'Helper' has no model. There is no" in shown


@pytest.mark.full
async def test_a_file_that_is_broken_from_the_start_starts_once_it_is_repaired(
    start: Start, tmp_path: Path, cli: Invoke
) -> None:
    path = tmp_path / "travel.py"
    path.write_text("agents = [")
    process = await start("dev", "travel.py", *NEW)
    line = await line_with(process, "error: ")
    assert "SyntaxError: '[' was never closed (travel.py, line 1). Correct it and save" in line

    path.write_text("agents = [[")
    assert (await line_with(process, "not started")).startswith("not started: travel.py cannot")
    path.write_text(SCRIPTED)

    await line_with(process, "reloaded")
    await line_with(process, "The desk is at http://127.0.0.1:")


@pytest.mark.full
async def test_the_desk_shows_the_agents_of_the_file_as_it_is_saved(
    start: Start, tmp_path: Path
) -> None:
    path = tmp_path / "travel.py"
    path.write_text(SCRIPTED)
    process = await start(
        *("dev", "travel.py", *NEW, "--json", "--as", "ann", "--groups", "billing,leads"),
        OUTLAST_OIDC_ISSUER="https://login.test",  # of the desk in production
        OUTLAST_DESK_URL="https://desk.test",
    )
    await first_line(process)
    url = json.loads(await first_line(process))["desk"]
    async with httpx2.AsyncClient(base_url=url) as browser:
        assert "Desk" in (await browser.get("/chat")).text
        assert 'class="whoami-name">ann' in (await browser.get("/inbox")).text

        path.write_text(SCRIPTED.replace("Desk", "Other agent"))
        await line_with(process, "reloaded")

        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                with suppress(httpx2.TransportError):
                    if "Other agent" in (await browser.get("/chat")).text:
                        break
                await asyncio.sleep(0.1)

        process.send_signal(signal.SIGINT)
        assert await rest_of(process) == (0, "stopping\n")
        with pytest.raises(httpx2.ConnectError):
            await browser.get("/health")


async def test_without_the_packages_of_the_desk_its_extra_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serve, "has_desk_packages", bool)
    with pytest.raises(UserError, match=r'pip install "outlast\[serve\]"'):
        serve.check_desk_installed()


@pytest.mark.full
async def test_ctrl_c_ends_an_import_that_hangs(start: Start, tmp_path: Path) -> None:
    (tmp_path / "travel.py").write_text("print('importing')\nimport time\ntime.sleep(600)\n")
    process = await start("dev", "travel.py", *ALONE)
    await shown_until(process, "importing\n")

    process.send_signal(signal.SIGINT)

    assert await rest_of(process) == (0, "stopping\n")


async def test_a_missing_file_is_said_before_a_server_starts(cli: Invoke, tmp_path: Path) -> None:
    done = await cli("dev", f"{tmp_path}/nowhere.py")

    assert done.exit_code == 2
    assert f"There is no Python file {tmp_path}/nowhere.py." in done.stderr


def test_a_project_is_watched_or_a_package_or_one_directory(tmp_path: Path) -> None:
    (tmp_path / "desk" / "inner").mkdir(parents=True)
    (tmp_path / "desk" / "__init__.py").touch()
    for name in ("travel.py", "desk/agents.py"):
        (tmp_path / name).touch()

    assert watched(locate("travel.py", tmp_path)) == (tmp_path, False)
    assert watched(locate("desk/agents.py", tmp_path)) == (tmp_path / "desk", True)
    assert watched(locate("desk.agents", tmp_path)) == (tmp_path / "desk", True)

    (tmp_path / "pyproject.toml").touch()

    assert watched(locate("desk/agents.py", tmp_path)) == (tmp_path, True)


# --- outlast worker ------------------------------------------------------------------------------


async def test_a_worker_says_when_it_is_ready_and_ends_in_order(
    start: Start, server: EmbeddedServer
) -> None:
    process = await start(
        *("worker", "application.py", "--task-queue", "q-order", "--json"), anew=True
    )
    ready = json.loads(await first_line(process))

    assert ready == {
        "status": "ready",
        "pid": process.pid,
        "task_queue": "q-order",
        "agents": ["Helper"],
        "starts_with": "Helper",
        "tools": ["hang"],
        "models": ["http://127.0.0.1:1/v1"],
        "address": server.address,
        "namespace": "default",
    }

    process.send_signal(signal.SIGTERM)

    code, said = await rest_of(process)
    assert code == 0
    assert "30 s to finish" in said


@pytest.mark.full
async def test_a_worker_ends_with_its_input_where_it_is_asked_to(
    start: Start, server: EmbeddedServer
) -> None:
    process = await start("worker", "application", "--task-queue", "q-eof", "--until-eof")
    assert "runs Helper on the task queue 'q-eof'" in await first_line(process)

    assert process.stdin is not None
    process.stdin.close()

    assert (await rest_of(process))[0] == 0


@pytest.mark.full
async def test_a_second_ctrl_c_ends_a_worker_at_once(
    start: Start, server: EmbeddedServer, client: Client, tmp_path: Path, model_url: str
) -> None:
    process = await start(
        *("worker", "application", "--task-queue", "q-twice"),
        OPENAI_BASE_URL=model_url,
        OPENAI_API_KEY="x",
    )
    await first_line(process)
    handle = await Runner.start("Helper", "Hang", client=client, task_queue="q-twice")
    await eventually((tmp_path / "entered").exists)

    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    async with asyncio.timeout(20):
        while b"Ctrl-C ends them now" not in await process.stderr.readline():
            pass
    process.send_signal(signal.SIGINT)

    assert await asyncio.wait_for(process.wait(), 5) == 130
    await client.get_workflow_handle(handle.id).terminate()


@pytest.fixture
async def model_url() -> AsyncIterator[str]:
    """A model behind HTTP that calls the tool `hang`."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lengths = (
            int(line.split(b":")[1])
            for line in head.lower().split(b"\r\n")
            if b"content-length" in line
        )
        length = next(lengths, 0)
        await reader.readexactly(length)
        call = {"type": "function_call", "call_id": "c1", "name": "hang", "arguments": "{}"}
        body = json.dumps({"id": "r", "status": "completed", "output": [call]}).encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"
            b"content-length: %d\r\n\r\n%s" % (len(body), body)
        )
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listener:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"


async def test_a_worker_without_a_key_does_not_start(start: Start, server: EmbeddedServer) -> None:
    ended, words = await rest_of(await start("worker", "application", OPENAI_BASE_URL=""))

    assert ended == 2
    assert words.startswith("error: Agent 'Helper' has no model. There is no API key")
    assert "Set OPENAI_API_KEY" in words
    assert len(words.splitlines()) == 1


@pytest.mark.full
async def test_a_worker_may_start_without_a_key(start: Start, server: EmbeddedServer) -> None:
    arguments = ("application", "--task-queue", "q-any", "--any-key", "--until-eof")
    process = await start("worker", *arguments, OPENAI_BASE_URL="")
    assert "runs Helper" in await first_line(process)

    assert process.stdin is not None
    process.stdin.close()

    code, said = await rest_of(process)
    assert code == 0
    assert said.startswith("warning: Agent 'Helper' has no model.")


@pytest.mark.full
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("nowhere",), 2, "There is no module 'nowhere'"),
        (("application:nobody",), 2, "It has application:agents."),
        (("missing.py",), 2, "There is no Python file"),
        (("application", "--address", "127.0.0.1:1"), 6, "127.0.0.1:1"),
        (("application", "--approvals", "no.toml"), 2, "file no.toml cannot be read: No such file"),
        (("application", "--namespace", "elsewhere"), 2, "'elsewhere' does not exist"),
    ],
)
async def test_a_worker_that_cannot_work_says_why(
    start: Start, server: EmbeddedServer, arguments: tuple[str, ...], code: int, said: str
) -> None:
    ended, words = await rest_of(await start("worker", *arguments))

    assert ended == code
    assert words.startswith("error: ")
    assert said in words
    assert "Traceback" not in words
