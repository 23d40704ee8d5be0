import os
import signal
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from outlast.testing.demo import processes
from outlast.testing.demo.processes import (
    Child,
    DemoFailed,
    WorkerSettings,
    examples_dir,
    start_worker,
)
from tests.eventually import eventually
from tests.servers import TemporalServer


@pytest.fixture
async def children() -> AsyncIterator[list[Child]]:
    children: list[Child] = []
    yield children
    for child in children:
        await child.stop()


async def start(home: Path, source: str, children: list[Child], **environment: str) -> Child:
    (home / "actor.py").write_text(source)
    child = await Child.start("actor", ["actor"], home=home, environment=environment)
    children.append(child)
    return child


def test_the_example_of_this_checkout_is_found() -> None:
    assert (examples_dir() / "support_desk" / "app.py").is_file()


def test_the_example_in_an_installed_package_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "outlast"
    app = package / "examples" / "support_desk" / "app.py"
    app.parent.mkdir(parents=True)
    monkeypatch.setattr(processes.outlast, "__file__", str(package / "__init__.py"))

    with pytest.raises(DemoFailed, match="is not installed"):
        examples_dir()

    app.touch()
    assert examples_dir() == package / "examples"


async def test_a_child_says_that_it_is_ready_and_ends_when_it_is_told(
    tmp_path: Path, children: list[Child]
) -> None:
    child = await start(
        tmp_path, "import time; print('ready', flush=True); time.sleep(60)", children
    )

    assert await child.first_line() == "ready"
    assert child.is_running

    await child.stop()
    assert not child.is_running
    await child.stop()


async def test_a_child_that_will_not_end_is_killed(
    tmp_path: Path, children: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_STOP_SECONDS", 0.1)
    source = "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True)\n"
    child = await start(tmp_path, f"{source}time.sleep(60)", children)
    await child.first_line()

    await child.stop()

    assert not child.is_running


async def test_a_killed_child_is_gone(tmp_path: Path, children: list[Child]) -> None:
    child = await start(
        tmp_path, "import time; print('ready', flush=True); time.sleep(60)", children
    )
    await child.first_line()

    await child.kill()

    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)
    await child.kill()


async def test_a_child_that_does_not_start_is_told_with_its_last_words(
    tmp_path: Path, children: list[Child]
) -> None:
    child = await start(tmp_path, "raise SystemExit('no model today')", children)

    with pytest.raises(DemoFailed, match=r"The actor did not start.*\nno model today"):
        await child.first_line()


async def test_children_know_nothing_of_other_servers(
    tmp_path: Path, children: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_API_KEY", "secret")
    monkeypatch.setenv("TEMPORAL_ADDRESS", "cloud:7233")
    source = "import os; print(os.environ.get('MINE'), *(k for k in os.environ if k[:4] == 'TEMP'))"
    child = await start(tmp_path, source, children, MINE="yes")

    assert await child.first_line() == "yes TEMPORAL_CONFIG_FILE"


async def test_a_child_does_not_hear_the_ctrl_c_of_the_demo(
    tmp_path: Path, children: list[Child]
) -> None:
    child = await start(
        tmp_path, "import time; print('ready', flush=True); time.sleep(60)", children
    )
    await child.first_line()

    assert os.getpgid(child.pid) != os.getpgid(0)


@pytest.mark.full
async def test_the_workers_end_with_their_parent(tmp_path: Path, server: TemporalServer) -> None:
    play = (
        "import asyncio, datetime, os, pathlib, sys\n"
        "from outlast.testing.demo.processes import *\n"
        "async def main():\n"
        "    home, children = pathlib.Path(sys.argv[1]), []\n"
        "    settings = WorkerSettings(address=sys.argv[2], namespace='default', home=home,\n"
        "        environment={'OPENAI_API_KEY': 'x'})\n"
        "    await start_worker(1, settings, children, delay=datetime.timedelta())\n"
        "    print(*(child.pid for child in children), flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    (tmp_path / "play.py").write_text(play)
    parent = await Child.start(
        "play", ["play", str(tmp_path), server.address], home=tmp_path, environment={}
    )
    pids = [int(pid) for pid in (await parent.first_line()).split()]
    assert len(pids) == 1

    await parent.kill()

    await eventually(lambda: not any(is_alive(pid) for pid in pids))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    if sys.platform != "linux":
        return True
    # Nobody waits for an orphan in some containers: it is a zombie, and has ended.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


async def test_a_worker_of_the_example_starts(
    tmp_path: Path, server: TemporalServer, children: list[Child]
) -> None:
    settings = WorkerSettings(
        address=server.address,
        namespace="default",
        home=tmp_path,
        environment={"OPENAI_API_KEY": "x"},
    )

    worker = await start_worker(2, settings, children, delay=timedelta(seconds=3))

    assert (worker.name, worker.is_running) == ("worker 2", True)
    os.kill(worker.pid, signal.SIGTERM)
    await eventually(lambda: not worker.is_running)


@pytest.mark.full
async def test_a_worker_without_a_server_is_told(tmp_path: Path, children: list[Child]) -> None:
    settings = WorkerSettings(
        address="127.0.0.1:1", namespace="default", home=tmp_path, environment={}
    )

    with pytest.raises(DemoFailed, match=r"worker 1 did not start.*\n.*127\.0\.0\.1:1"):
        await start_worker(1, settings, children, delay=timedelta())
