"""The embedded server, for real: started, shared, killed, restarted."""

import asyncio
import importlib
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, WorkflowExecutionStatus

from outlast.agents import hosts
from outlast.agents.errors import ServerUnavailable, UserError
from outlast.agents.hosts import free_port
from outlast.dev import server as module
from outlast.dev.server import EmbeddedServer, running_server
from outlast.dev.server_process import ServerProcess
from tests.architecture.source import names_of
from tests.eventually import eventually

OWNER = """
import asyncio, sys
from pathlib import Path
from outlast.dev.server import EmbeddedServer

async def main():
    async with EmbeddedServer(data_dir=Path(sys.argv[1]), ui_port=None) as server:
        print(server.address, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""

KEEPER = """
import asyncio, sys
from pathlib import Path
from outlast.dev.server import EmbeddedServer

async def main():
    server = EmbeddedServer(data_dir=Path(sys.argv[1]), ui_port=None)
    await server.start()
    server.keep()

asyncio.run(main())
print("kept", flush=True)
sys.stdin.readline()
"""


async def answers(address: str) -> bool:
    try:
        client = await Client.connect(address)
        return await client.service_client.check_health()
    except RuntimeError:
        return False


def a_tool(directory: Path, script: str) -> Path:
    path = directory / "temporal"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


async def test_a_started_server_serves_clients_and_its_ui(server: EmbeddedServer):
    client = await Client.connect(server.address)
    namespace = await client.workflow_service.describe_namespace(
        DescribeNamespaceRequest(namespace="default")
    )
    assert namespace.config.workflow_execution_retention_ttl.ToTimedelta() == timedelta(days=30)
    assert server.ui_url is not None
    page = await asyncio.to_thread(urllib.request.urlopen, server.ui_url, timeout=10)
    with page:
        assert page.status == 200
    assert (server.joined, server.alive) == (False, True)
    address = server.address
    await server.start()
    assert server.address == address


@pytest.mark.full
async def test_a_killed_server_comes_back_with_its_runs(tmp_path: Path):
    server, joiner = (EmbeddedServer(data_dir=tmp_path, ui_port=None) for _ in range(2))
    async with server, joiner:
        assert server.ui_url is None
        assert (server.alive, joiner.alive) == (True, True)
        client = await Client.connect(server.address)
        await client.start_workflow("Nobody", id="kept", task_queue="nobody")
        os.kill(server.info.pid, signal.SIGKILL)
        await eventually(lambda: running_server(tmp_path) is None)
        assert (server.alive, joiner.alive) == (False, False)
    again = EmbeddedServer(
        data_dir=tmp_path,
        ui_port=None,
        namespace="desk",
        search_attributes={"OutlastLate": "Keyword"},
    )
    async with again:
        client = await Client.connect(again.address)
        kept = await client.get_workflow_handle("kept").describe()
        assert kept.status is WorkflowExecutionStatus.RUNNING
    assert running_server(tmp_path) is None


async def test_a_server_is_shared_until_its_last_user_stops(tmp_path: Path):
    first, second = (EmbeddedServer(data_dir=tmp_path, ui_port=None) for _ in range(2))
    await asyncio.gather(first.start(), second.start())
    assert first.info == second.info == running_server(tmp_path)
    assert sorted([first.joined, second.joined]) == [False, True]
    starter, joiner = (second, first) if first.joined else (first, second)
    await refused_on(tmp_path, first.info.address)
    address = first.address
    await starter.stop()
    assert await answers(address)
    assert running_server(tmp_path) == joiner.info
    await joiner.stop()
    await eventually(lambda: running_server(tmp_path) is None)
    assert not await answers(address)


async def refused_on(data_dir: Path, address: str) -> None:
    """Check who may not join the server that runs there."""
    other_port = EmbeddedServer(data_dir=data_dir, port=1)
    with pytest.raises(ServerUnavailable, match=f"runs on .* at {address} instead of port 1"):
        await other_port.start()
    other_namespace = EmbeddedServer(data_dir=data_dir, namespace="other")
    with pytest.raises(ServerUnavailable, match=r"has no namespace 'other'; .* with 'default'"):
        await other_namespace.start()
    with pytest.raises(UserError, match="await its start"):
        _ = other_namespace.address


@pytest.mark.full
async def test_a_starter_may_end_the_server_for_all(tmp_path: Path):
    starter = EmbeddedServer(data_dir=tmp_path, ui_port=None)
    joiner = EmbeddedServer(data_dir=tmp_path, ui_port=None)
    await starter.start()
    await joiner.start()
    await starter.stop(now=True)
    assert running_server(tmp_path) is None
    await joiner.stop()
    await joiner.stop()


@pytest.mark.full
async def test_a_server_does_not_outlive_its_killed_owner_but_its_other_users(tmp_path: Path):
    owner = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", OWNER, str(tmp_path)), stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    address = (await owner.stdout.readline()).decode().strip()
    async with EmbeddedServer(data_dir=tmp_path) as joined:
        assert joined.joined
        assert joined.address == address
        owner.kill()
        await owner.wait()
        assert await answers(address)
    await eventually(lambda: running_server(tmp_path) is None)
    assert not await answers(address)


@pytest.mark.full
async def test_a_kept_server_outlives_its_loop_and_ends_with_the_process(tmp_path: Path):
    keeper = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", "-c", KEEPER, str(tmp_path)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert keeper.stdout is not None
    await keeper.stdout.readline()
    running = running_server(tmp_path)
    assert running is not None
    assert await answers(running.address)
    _, warnings = await keeper.communicate(b"\n")
    assert (keeper.returncode, warnings) == (0, b"")
    await eventually(lambda: running_server(tmp_path) is None)
    assert not await answers(running.address)


@pytest.mark.full
async def test_a_child_of_the_owner_neither_ends_nor_keeps_the_server(tmp_path: Path):
    async with EmbeddedServer(data_dir=tmp_path, ui_port=None) as server:
        worker, other = [
            await asyncio.create_subprocess_exec("sleep", "60", close_fds=False) for _ in range(2)
        ]
        worker.kill()
        await worker.wait()
        assert await answers(server.address)
    assert other.returncode is None
    assert running_server(tmp_path) is None
    other.kill()
    await other.wait()


@pytest.mark.parametrize("port", [-1, 65_536, 70_000, 2**64, "7233", True, None, 1.5])
def test_a_number_that_is_no_port_is_an_error(port: Any):
    with pytest.raises(UserError, match=r"^port= must be a port, from 0 to 65535, not"):
        EmbeddedServer(port=port)
    if port is not None:
        with pytest.raises(UserError, match=r"^ui_port= must be a port, from 0 to 65535, not"):
            EmbeddedServer(ui_port=port)


@pytest.mark.parametrize("which", ["port", "ui_port"])
async def test_a_port_in_use_is_named(tmp_path: Path, which: str):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ports = {"port": port} if which == "port" else {"ui_port": port}
        with pytest.raises(ServerUnavailable, match=f"Port {port} .*in use.* 0 takes a free one"):
            await EmbeddedServer(data_dir=tmp_path, **ports).start()
    assert running_server(tmp_path) is None


def require_nothing(_port: int | None) -> None:
    """Let a port be taken after the server has looked at it."""


@pytest.mark.full
async def test_a_free_port_that_is_snatched_away_from_its_ui_is_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The server takes ports for itself, and may answer before its UI finds its own taken."""
    find, found = module.free_port, list[int]()
    accepts_connections = ServerProcess.accepts_connections

    def first_of_the_ui_is_taken() -> int:
        found.append(port if len(found) == 1 else find())
        return found[-1]

    async def answers_for_a_moment(process: ServerProcess, deadline: float) -> bool:
        await accepts_connections(process, deadline)
        return True

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(module, "free_port", first_of_the_ui_is_taken)
        monkeypatch.setattr(module, "_require_free", require_nothing)
        monkeypatch.setattr(ServerProcess, "accepts_connections", answers_for_a_moment)
        async with EmbeddedServer(data_dir=tmp_path) as server:
            assert server.ui_url == f"http://127.0.0.1:{found[-1]}"
    assert len(found) == 4


@pytest.mark.full
async def test_a_chosen_port_that_is_taken_for_a_moment_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """What starts again at the ports that open pages have is not ended by a passing program."""
    accepts_connections = ServerProcess.accepts_connections
    starts = list[ServerProcess]()

    async def answers_until_its_ui_starts(process: ServerProcess, deadline: float) -> bool:
        starts.append(process)
        await accepts_connections(process, deadline)
        if taken.fileno() >= 0:
            await eventually(lambda: not process.alive)
            taken.close()
        return True

    with socket.socket() as taken:
        port, ui_port = free_port(), free_port()
        taken.bind(("127.0.0.1", ui_port))
        taken.listen()
        monkeypatch.setattr(module, "_require_free", require_nothing)
        monkeypatch.setattr(ServerProcess, "accepts_connections", answers_until_its_ui_starts)
        async with EmbeddedServer(data_dir=tmp_path, port=port, ui_port=ui_port) as server:
            assert server.address == f"127.0.0.1:{port}"
            assert server.ui_url == f"http://127.0.0.1:{ui_port}"
    assert len(starts) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="where Linux says which ports it chooses")
def test_a_free_port_is_none_that_the_system_gives_away():
    """A killed server that starts again at its port would find another program there."""
    first_of_the_system = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for _ in range(100):
        port = free_port()
        assert 1024 <= port < first_of_the_system
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", port))


def test_a_port_in_use_is_not_free(monkeypatch: pytest.MonkeyPatch):
    with socket.socket() as taken:
        port = free_port()
        taken.bind(("127.0.0.1", port))
        taken.listen()
        monkeypatch.setattr(hosts, "_FREE_PORTS", range(port, port + 1))
        with pytest.raises(OSError, match=f"No port from {port} to {port} is free"):
            free_port()


async def test_a_missing_tool_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OUTLAST_TEMPORAL_CLI", "/no/such/temporal")
    with pytest.raises(ServerUnavailable, match="OUTLAST_TEMPORAL_CLI is '/no/such/temporal'"):
        await EmbeddedServer().start()


@pytest.mark.parametrize(
    ("says", "advice"),
    [
        ("Error: unknown flag: --ui-port", "too old: `pip install --upgrade"),
        ("bind: address already in use", "Choose another port"),
        ("database disk image is malformed", "move .* away and start again"),
    ],
)
async def test_a_server_that_ends_at_once_is_quoted(tmp_path: Path, says: str, advice: str):
    cli = a_tool(tmp_path, f"echo '{says}' >&2; exit 1")
    with pytest.raises(ServerUnavailable, match=rf"(?s)ended at once.*{says}.*{advice}"):
        await EmbeddedServer(data_dir=tmp_path / "data", cli=cli).start()


async def test_a_server_that_never_answers_is_given_up_and_ended(tmp_path: Path):
    cli = a_tool(tmp_path, "exec sleep 60")
    server = EmbeddedServer(
        data_dir=tmp_path / "data", cli=cli, start_timeout=timedelta(milliseconds=300)
    )
    with pytest.raises(ServerUnavailable, match=r"(?s)does not answer at 127.0.0.1.*is empty"):
        await server.start()
    # Nobody holds the directory any more: the next one fails for its own reason.
    cli = a_tool(tmp_path, "exit 1")
    with pytest.raises(ServerUnavailable, match="ended at once"):
        await EmbeddedServer(data_dir=tmp_path / "data", cli=cli).start()


@pytest.mark.full
async def test_a_server_that_ignores_sigterm_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("outlast.dev.server_process._STOP_SECONDS", 0.2)
    cli = a_tool(tmp_path, "trap '' TERM; while :; do sleep 0.1; done")
    timeout = timedelta(milliseconds=300)
    with pytest.raises(ServerUnavailable, match="does not answer"):
        await EmbeddedServer(data_dir=tmp_path / "data", cli=cli, start_timeout=timeout).start()
    cli = a_tool(tmp_path, "exit 1")
    with pytest.raises(ServerUnavailable, match="ended at once"):
        await EmbeddedServer(data_dir=tmp_path / "data", cli=cli).start()


async def test_a_server_that_speaks_something_else_is_given_up(tmp_path: Path):
    cli = a_tool(tmp_path, f'exec {sys.executable} -m http.server --bind 127.0.0.1 "$6"')
    server = EmbeddedServer(data_dir=tmp_path, cli=cli, start_timeout=timedelta(seconds=1))
    with pytest.raises(ServerUnavailable, match="does not serve the namespace 'default'"):
        await server.start()
    assert running_server(tmp_path) is None


async def test_a_directory_held_by_a_server_that_is_never_ready_is_given_up(tmp_path: Path):
    cli = a_tool(tmp_path, "exec sleep 60")
    slow = EmbeddedServer(data_dir=tmp_path, cli=cli)
    starting = asyncio.create_task(slow.start())
    await eventually((tmp_path / "server.log").exists)
    impatient = EmbeddedServer(data_dir=tmp_path, start_timeout=timedelta(milliseconds=100))
    with pytest.raises(ServerUnavailable, match=r"holds the data directory .* not ready"):
        await impatient.start()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting


async def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ServerUnavailable, match=r"data directory .*file/data cannot be used"):
        await EmbeddedServer(data_dir=tmp_path / "file" / "data").start()


def test_importing_the_package_is_light():
    code = "import sys, outlast.dev; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"temporalio", "starlette", "uvicorn", "pydantic", "asyncio"} & set(modules)


def test_the_package_offers_its_names():
    package: Any = importlib.import_module("outlast.dev")
    for name in names_of(package):
        assert getattr(package, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = package.nothing
