import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from temporalio.client import Client

from outlast.cli import dev
from outlast.cli import server as temporal_server
from outlast.client.runner import Runner
from outlast.dev import EmbeddedServer
from tests.unit.cli.conftest import Invoke, eventually

Started: TypeAlias = asyncio.subprocess.Process
Start: TypeAlias = Callable[..., Awaitable[Started]]

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
    """Return a function that starts `outlast`; what still runs at the end is killed."""
    (tmp_path / "application.py").write_text(APPLICATION)
    processes: list[Started] = []

    async def run(*arguments: str, **environment: str) -> Started:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "outlast.cli.entry", *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=tmp_path,
            env={**os.environ, **environment},
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
    return (await asyncio.wait_for(process.stdout.readline(), 30)).decode()


async def rest_of(process: Started) -> tuple[int | None, str]:
    _, said = await asyncio.wait_for(process.communicate(), 30)
    return process.returncode, said.decode()


# --- outlast dev ---------------------------------------------------------------------------------


@pytest.mark.full
async def test_a_server_tells_where_it_is_and_ends_on_ctrl_c(start: Start, tmp_path: Path) -> None:
    process = await start(
        *("dev", "--port", "0", "--ui-port", "0", "--data-dir", str(tmp_path / "d"), "--json")
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
    assert await rest_of(process) == (0, "leaving the server to others\n")
    assert temporal_server.answers(server.address)


@pytest.mark.full
async def test_a_person_is_told_what_to_do_next(start: Start, tmp_path: Path) -> None:
    process = await start("dev", "--port", "0", "--ui-port", "0", "--in-memory")
    assert process.stdout is not None
    shown = await asyncio.wait_for(process.stdout.readuntil(b"Ctrl-C stops it.\n"), 30)

    assert b"export TEMPORAL_ADDRESS=127.0.0.1:" in shown
    assert b"gone when it stops" in shown
    assert b"outlast worker MODULE" in shown


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


def test_the_usual_port_is_taken_where_it_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    for is_free, port in ((True, 7233), (False, 0)):

        def known(_port: int, *, answer: bool = is_free) -> bool:
            return answer

        monkeypatch.setattr(dev, "is_free", known)
        assert dev._free_unless_named(None, 7233) == port
        assert dev._free_unless_named(9000, 7233) == 9000


# --- outlast worker ------------------------------------------------------------------------------


async def test_a_worker_says_when_it_is_ready_and_ends_in_order(
    start: Start, server: EmbeddedServer
) -> None:
    process = await start("worker", "application", "--task-queue", "q-order", "--json")
    ready = json.loads(await first_line(process))

    assert ready == {
        "status": "ready",
        "pid": process.pid,
        "task_queue": "q-order",
        "agents": ["Helper"],
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
        length = next(
            int(line.split(b":")[1])
            for line in head.lower().split(b"\r\n")
            if b"content-length" in line
        )
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


@pytest.mark.full
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("nowhere",), 2, "There is no module 'nowhere'"),
        (("application:nobody",), 2, "It has application:agents."),
        (("application", "--address", "127.0.0.1:1"), 6, "127.0.0.1:1"),
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
