"""A full disk under the embedded server: everybody who waits for it is told, and goes on."""

import asyncio
import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import Queue
from typing import NoReturn

import pytest

from outlast.agents.errors import ServerUnavailable
from outlast.dev import disk_watch
from outlast.dev.disk_watch import DiskWatch, problem_of_writing
from outlast.dev.server import EmbeddedServer

PROGRAM = """
import sys
from outlast import Agent, Runner
from outlast.testing import ScriptedModel

agent = Agent(name="Desk", model=ScriptedModel(always="answered"))
for _ in range(2):
    print(Runner.run_sync(agent, "Hello").final_output, flush=True)
    sys.stdin.readline()
"""


class SmallDisk:
    """A file system of its own, in memory, that can be filled."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self) -> None:
        with self._filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"x" * 4_096)
        assert shutil.disk_usage(self.path).free == 0

    def make_room(self) -> None:
        self._filler.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    place = tmp_path / "disk"
    place.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m,mode=0700", "tmpfs", str(place)]
    if (
        sys.platform != "linux"
        or os.geteuid() != 0
        or subprocess.run(mount, check=False).returncode
    ):
        pytest.skip("this user cannot mount a small disk")
    yield SmallDisk(place)
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "the disk of {} is full (No space left on device)"),
        (errno.EDQUOT, "the disk of {} is full (Disk quota exceeded)"),
        (errno.EROFS, "{} cannot be written to (Read-only file system)"),
        (errno.EIO, "{} cannot be written to (Input/output error)"),
    ],
)
def test_why_nothing_can_be_written_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, said: str
):
    def write(_descriptor: int, _data: bytes) -> NoReturn:
        raise OSError(number, os.strerror(number))

    assert problem_of_writing(tmp_path) is None
    monkeypatch.setattr(os, "write", write)
    assert problem_of_writing(tmp_path) == said.format(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_gone_is_said(tmp_path: Path):
    assert "cannot be written to (No such file" in (problem_of_writing(tmp_path / "gone") or "")


def test_it_is_said_once_and_again_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(disk_watch, "EVERY_SECONDS", 0.01)
    monkeypatch.setattr(disk_watch, "AGAIN_SECONDS", 0.2)
    home = tmp_path / "home"
    said: Queue[str] = Queue()
    watch = DiskWatch(home, said.put)
    try:
        for _ in range(2):
            assert "cannot record anything" in said.get(timeout=30)
        home.mkdir()
        while "cannot record anything" in (words := said.get(timeout=30)):
            pass
        assert words == (
            f"{home} can be written to again; the server has ended, and runs continue when it is "
            "started again."
        )
        home.rmdir()
        assert "cannot record anything" in said.get(timeout=30)
    finally:
        watch.stop()


@pytest.mark.full
async def test_no_server_starts_on_a_full_disk_and_it_says_why(disk: SmallDisk):
    disk.fill()
    with pytest.raises(ServerUnavailable, match=r"disk of .* is full .*Make room there"):
        await EmbeddedServer(data_dir=disk.path / "new", ui_port=None).start()
    disk.make_room()
    async with EmbeddedServer(data_dir=disk.path / "old", ui_port=None):
        pass
    disk.fill()
    with pytest.raises(ServerUnavailable, match=r"disk of .* is full .*Make room there"):
        await EmbeddedServer(data_dir=disk.path / "old", ui_port=None).start()


async def line_with(words: bytes, stream: asyncio.StreamReader) -> bytes:
    """Read until a line has these words, and return it."""
    async with asyncio.timeout(60):
        while words not in (line := await stream.readline()):
            assert line, "the program has ended"
    return line


@pytest.mark.full
async def test_programs_that_wait_for_a_server_with_a_full_disk_are_told_and_go_on(
    disk: SmallDisk, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    home = disk.path / "data"
    environment = {**os.environ, "OUTLAST_DATA_DIR": str(home)}
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    async def start(*arguments: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            sys.executable, *arguments, env=environment, stdin=pipe, stdout=pipe, stderr=pipe
        )

    async with EmbeddedServer(data_dir=home, ui_port=None):
        script = await start(str(program))
        assert script.stdin is not None
        assert script.stdout is not None
        assert script.stderr is not None
        await line_with(b"answered", script.stdout)
        disk.fill()
        script.stdin.write(b"\n")
        command = await start("-m", "outlast.cli.entry", "run", "Desk", "Hello")
        assert command.stderr is not None
        for told in (script.stderr, command.stderr):
            assert f"the disk of {home} is full".encode() in await line_with(b"is full", told)
        command.kill()
        await command.wait()

        disk.make_room()

        await line_with(b"answered", script.stdout)
        script.stdin.write(b"\n")
        assert await asyncio.wait_for(script.wait(), 60) == 0
        async with asyncio.timeout(30):
            while "can be written to again, and runs continue." not in caplog.text:  # noqa: ASYNC110  a thread says it
                await asyncio.sleep(0.05)
