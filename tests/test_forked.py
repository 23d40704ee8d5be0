"""Forked processes are as those that are started anew, but for the time that they take."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests import forked

pytestmark = pytest.mark.full

SECONDS = 60
ENVIRONMENT = {"MINE": "1", "PYTHONPATH": "x", "LC_ALL": "C.UTF-8"}

SAYS = """
import json, os, sys
found = {
    "argv": sys.argv, "cwd": os.getcwd(), "env": dict(os.environ), "first": sys.path[0], "name": __name__,
    "parent": os.getppid(), "leads": os.getsid(0) == os.getpid(), "umask": os.umask(0),
    "stdin": sys.stdin.read(), "main": sys.modules["__main__"].__dict__ is globals(),
    "descriptors": sorted(os.listdir("/proc/self/fd"))[:-1], "encoding": sys.stdout.encoding,
    "sigint": str(__import__("signal").getsignal(2)), "lines": sys.stderr.line_buffering,
}
print(json.dumps(found))
print("aside", file=sys.stderr)
sys.exit(3)
"""

Start = Callable[..., Awaitable[asyncio.subprocess.Process]]


async def said(start: Start, home: Path, *arguments: str) -> tuple[Any, bytes, int | None]:
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
    options: dict[str, Any] = {"cwd": home, "start_new_session": True, "umask": 0o077, **pipes}
    process = await start(*arguments, "a", "b c", env=ENVIRONMENT, **options)
    async with asyncio.timeout(SECONDS):
        out, err = await process.communicate("grüß dich".encode())
    return json.loads(out), err, process.returncode


@pytest.mark.parametrize("kind", ["module", "code", "file"])
async def test_a_process_has_what_it_is_started_with(kind: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SAYS)
    ways = {"module": ["-m", "program"], "code": ["-c", SAYS], "file": ["program.py"]}
    anew = await said(forked.start_anew, tmp_path, *ways[kind])
    assert await said(forked.start, tmp_path, *ways[kind]) == anew
    assert anew[0]["parent"] == os.getpid()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
async def test_a_process_is_killed_and_waited_for(number: signal.Signals) -> None:
    code = "import time; print('ready', flush=True); time.sleep(600)"
    pipe = asyncio.subprocess.PIPE
    process = await forked.start("-c", code, stdout=pipe, stderr=pipe)
    assert process.stdout is not None
    async with asyncio.timeout(SECONDS):
        assert await process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        await process.communicate()
    assert process.returncode == -number
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


async def test_an_error_is_told_and_is_the_exit_code() -> None:
    process = await forked.start("-c", "1 / 0", stderr=asyncio.subprocess.PIPE)
    async with asyncio.timeout(SECONDS):
        _, err = await process.communicate()
    assert (process.returncode, err.splitlines()[-1][:17]) == (1, b"ZeroDivisionError")


async def test_processes_share_no_random_numbers() -> None:
    code = "import random, secrets; print(random.random(), secrets.token_hex(8))"
    pipe = asyncio.subprocess.PIPE
    processes = [await forked.start("-c", code, stdout=pipe) for _ in range(2)]
    one, other = [(await process.communicate())[0].split() for process in processes]
    assert not {*one} & {*other}


async def test_the_packages_are_loaded_only_in_a_forked_process() -> None:
    code = "import sys; print('outlast.worker' in sys.modules)"
    pipe = asyncio.subprocess.PIPE
    started = [
        await forked.start_anew("-c", code, stdout=pipe),
        await forked.start("-c", code, stdout=pipe),
        await forked.start("-c", code, stdout=pipe, env={**os.environ, "PYTHONHASHSEED": "1"}),
    ]
    shown = [(await process.communicate())[0].decode().strip() for process in started]
    assert shown == ["False", str(forked.IS_POSSIBLE), "False"]


@pytest.mark.skipif(not forked.IS_POSSIBLE, reason="all processes are started anew here")
async def test_what_cannot_be_forked_is_refused() -> None:
    with pytest.raises(ValueError, match="reach a forked process"):
        await forked.start("-c", "", preexec_fn=os.getpid)
    with pytest.raises(ValueError, match="no program of this Python"):
        await forked.start("-I", "-c", "")
    with forked.processes(), pytest.raises(ValueError, match="no program of this Python"):
        await asyncio.create_subprocess_exec("true", sys.executable)
