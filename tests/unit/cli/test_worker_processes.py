"""`outlast worker --processes`: real processes, real signals, a real server."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any, TypeAlias

import pytest
from temporalio.client import Client

from outlast.cli.server import pollers
from outlast.cli.supervisor import AFTER_GRACE_SECONDS
from outlast.client.start.runner import Runner
from outlast.dev import EmbeddedServer
from tests import forked
from tests.eventually import eventually
from tests.unit.cli.conftest import Invoke

pytestmark = pytest.mark.full

APPLICATION = """
import asyncio, os, sys, time
from datetime import timedelta
from pathlib import Path
from outlast import Agent, function_tool
from outlast.testing import ScriptedModel, call, say

index = os.environ["OUTLAST_WORKER_INDEX"]
if Path("broken" + index).exists():
    sys.exit("broken on purpose")

@function_tool
async def wait() -> str:
    "Wait until a file says so."
    Path("entered").write_text(str(os.getpid()))
    while not Path("go").exists():
        await asyncio.sleep(0.05)
    return "waited"

@function_tool
async def block() -> str:
    "Never come back, and let nothing else run in this process."
    Path("entered").write_text(str(os.getpid()))
    time.sleep(600)

@function_tool
def pid() -> str:
    "Say which process this is."
    return str(os.getpid())

def answers(request):
    if any("output" in one for one in request.input):
        return say("done")
    return [call(request.input[0]["content"], "c1")]

def worker_config():
    agent = Agent(name="Helper", tools=[wait, block, pid], model=ScriptedModel(always=answers))
    return {
        "agents": [agent],
        "graceful_shutdown_timeout": timedelta(seconds=float(os.environ.get("GRACE", "30"))),
    }
"""


class Group:
    """`outlast worker --processes` with the records of its workers and its log."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.log: list[str] = []
        self._reading = asyncio.create_task(self._read_log())

    async def ready(self, count: int) -> list[dict[str, Any]]:
        """Return the records of the next workers that are ready."""
        assert self.process.stdout is not None
        async with asyncio.timeout(60):
            lines = [await self.process.stdout.readline() for _ in range(count)]
        return [json.loads(line) for line in lines]

    async def end(self) -> int:
        """Wait until the parent has ended, and return its exit code."""
        code = await asyncio.wait_for(self.process.wait(), 60)
        await self._reading
        return code

    async def line_with(self, words: str) -> str:
        """Wait for a line of the log."""
        await eventually(lambda: any(words in line for line in self.log))
        return next(line for line in self.log if words in line)

    async def _read_log(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.log.append(line.decode())


Start: TypeAlias = Callable[..., Awaitable[Group]]


@pytest.fixture
async def start(server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[Start]:
    """Return a function that starts workers; what still runs at the end is killed.

    Their parent is started `anew` or forked. It starts each worker anew.
    """
    (tmp_path / "application.py").write_text(APPLICATION)
    groups: list[Group] = []

    async def run(
        queue: str, *, processes: int = 2, anew: bool = False, **environment: str
    ) -> Group:
        process = await (forked.start_anew if anew else forked.start)(
            *("-m", "outlast.cli.entry", "worker", "application.py"),
            *("--processes", str(processes), "--task-queue", queue, "--json"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=tmp_path,
            env={**os.environ, **environment},
        )
        groups.append(Group(process))
        return groups[-1]

    yield run
    (tmp_path / "go").touch()
    for group in groups:
        if group.process.returncode is None:
            group.process.kill()
        await group.end()


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def children(pid: int) -> set[int]:
    """Return the child processes of a process, zombies included."""
    found: set[int] = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found.add(int(entry.name))
    return found


async def entered(tmp_path: Path) -> int:
    """Wait until a tool has begun; return its process."""
    path = tmp_path / "entered"
    await eventually(lambda: path.exists() and path.read_text() != "")
    return int(path.read_text())


async def test_several_processes_share_the_queue_and_end_in_order(
    start: Start, client: Client, tmp_path: Path
) -> None:
    group = await start("q-three", processes=3, anew=True)
    pids = {record["pid"] for record in await group.ready(3)}
    assert len(pids) == 3
    assert pids == children(group.process.pid)
    polling = {one.partition("@")[0] for one in await pollers(client, "q-three")}
    assert polling == {str(pid) for pid in pids}
    handle = await Runner.start("Helper", "wait", client=client, task_queue="q-three")
    await entered(tmp_path)

    group.process.send_signal(signal.SIGTERM)
    await group.line_with("running calls have 30 s")
    (tmp_path / "go").touch()

    assert await group.end() == 0, group.log
    assert not any(alive(pid) for pid in pids)
    assert sum("stopping" in line for line in group.log) == 1
    history = await client.get_workflow_handle(handle.id).fetch_history()
    attempts = [e.activity_task_started_event_attributes.attempt for e in history.events]
    assert max(attempts) == 1, "the tool call was cut off"
    await client.get_workflow_handle(handle.id).terminate()


async def test_a_worker_that_dies_is_replaced_and_the_log_says_which_and_why(
    start: Start, client: Client
) -> None:
    group = await start("q-replaced")
    first, second = [record["pid"] for record in await group.ready(2)]

    os.kill(second, signal.SIGKILL)
    (replacement,) = [record["pid"] for record in await group.ready(1)]

    line = await group.line_with("was killed by SIGKILL")
    assert f"worker 2 of 2 (process {second}) was killed by SIGKILL; " in line
    assert "its replacement starts in 1 s" in line
    assert children(group.process.pid) == {first, replacement}, "a zombie"
    answer = await Runner.run("Helper", "pid", client=client, task_queue="q-replaced")
    assert answer.final_output == "done"


async def test_a_worker_that_keeps_dying_is_replaced_less_and_less_often(
    start: Start, tmp_path: Path
) -> None:
    group = await start("q-back-off")
    _, second = [record["pid"] for record in await group.ready(2)]

    (tmp_path / "broken1").touch()
    os.kill(second, signal.SIGTERM)

    await group.line_with(
        f"(process {second}) ended with exit code 0; its replacement starts in 1 s"
    )
    await group.line_with(
        "ended with exit code 1 before it was ready; its replacement starts in 2 s"
    )
    await group.line_with("starts in 4 s")
    (tmp_path / "broken1").unlink()
    await group.ready(1)


async def test_a_mistake_in_the_application_is_printed_once(start: Start, tmp_path: Path) -> None:
    (tmp_path / "application.py").write_text("agents = [nobody]\n")

    group = await start("q-mistake", processes=4)

    assert await group.end() == 2
    (line,) = group.log
    assert line.startswith("error: application.py cannot be imported: NameError")


async def test_no_worker_outlives_a_parent_that_is_killed(start: Start) -> None:
    group = await start("q-orphans")
    pids = [record["pid"] for record in await group.ready(2)]

    group.process.kill()

    await eventually(lambda: not any(alive(pid) for pid in pids))


async def test_not_even_a_worker_that_a_tool_blocks_outlives_the_parent(
    start: Start, client: Client, tmp_path: Path
) -> None:
    group = await start("q-blocked", GRACE="0")
    pids = [record["pid"] for record in await group.ready(2)]
    handle = await Runner.start("Helper", "block", client=client, task_queue="q-blocked")
    blocked = await entered(tmp_path)

    group.process.kill()

    await eventually(lambda: sum(alive(pid) for pid in pids) == 1)
    assert alive(blocked)
    await eventually(lambda: not alive(blocked))
    await client.get_workflow_handle(handle.id).terminate()


async def test_a_second_signal_ends_all_at_once(
    start: Start, client: Client, tmp_path: Path
) -> None:
    group = await start("q-second")
    pids = [record["pid"] for record in await group.ready(2)]
    handle = await Runner.start("Helper", "block", client=client, task_queue="q-second")
    await entered(tmp_path)

    group.process.send_signal(signal.SIGINT)
    await group.line_with("Ctrl-C ends them now")
    group.process.send_signal(signal.SIGINT)

    assert await group.end() == 130
    await eventually(lambda: not any(alive(pid) for pid in pids))
    await client.get_workflow_handle(handle.id).terminate()


async def test_a_worker_that_is_stopped_does_not_keep_the_parent_from_ending(
    start: Start,
) -> None:
    group = await start("q-stopped", GRACE="1")
    (first, second) = [record["pid"] for record in await group.ready(2)]
    os.kill(second, signal.SIGSTOP)

    began = monotonic()
    group.process.send_signal(signal.SIGTERM)

    await group.line_with("running calls have 1 s")
    assert await group.end() == 1
    assert 1 + AFTER_GRACE_SECONDS <= monotonic() - began < 30
    assert not alive(first)
    assert not alive(second)
    killed = [line for line in group.log if "is killed" in line]
    assert len(killed) == 1
    assert f"the worker process {second} has not ended" in killed[0]


async def test_signals_to_the_whole_service_still_end_it_in_order(
    start: Start, client: Client, tmp_path: Path
) -> None:
    # systemd signals every process of a service, the parent and its workers.
    group = await start("q-service")
    pids = [record["pid"] for record in await group.ready(2)]
    handle = await Runner.start("Helper", "wait", client=client, task_queue="q-service")
    await entered(tmp_path)

    for pid in (*pids, group.process.pid):
        os.kill(pid, signal.SIGTERM)
    await group.line_with("running calls have 30 s")
    (tmp_path / "go").touch()

    assert await group.end() == 0, group.log
    history = await client.get_workflow_handle(handle.id).fetch_history()
    attempts = [e.activity_task_started_event_attributes.attempt for e in history.events]
    assert max(attempts) == 1, "the tool call was cut off"
    await client.get_workflow_handle(handle.id).terminate()


async def test_there_is_at_least_one_process(cli: Invoke) -> None:
    done = await cli("worker", "application.py", "--processes", "0")

    assert done.exit_code == 2
    assert "--processes" in done.stderr
