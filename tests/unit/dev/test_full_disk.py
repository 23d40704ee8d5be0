"""A full disk under the embedded server: the error of its start says so."""

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pytest

from outlast.agents.errors import ServerUnavailable
from outlast.dev.data_dir import problem_of_writing
from outlast.dev.server import EmbeddedServer


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
