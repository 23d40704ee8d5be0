"""The files of a data directory, and what its locks say."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from outlast.dev.data_dir import (
    DataDir,
    ServerInfo,
    create_data_dir,
    default_blob_dir,
    default_data_dir,
    open_lock,
    project_dir,
    running_server,
    try_lock,
)

INFO = ServerInfo(address="127.0.0.1:7233", ui_url=None, namespace="default", pid=os.getpid())


@pytest.fixture
def life(tmp_path: Path) -> Iterator[int]:
    """The life lock, held as a live server holds it."""
    descriptor = open_lock(tmp_path / "server.lock")
    assert try_lock(descriptor, fcntl.LOCK_EX)
    yield descriptor
    os.close(descriptor)


def test_a_live_server_is_found(tmp_path: Path, life: int):
    DataDir(tmp_path).write_info(INFO)
    assert running_server(tmp_path) == INFO


def test_asking_does_not_disturb_the_lock(tmp_path: Path, life: int):
    running_server(tmp_path)
    other = open_lock(tmp_path / "server.lock")
    assert not try_lock(other, fcntl.LOCK_SH)
    os.close(other)


def test_a_directory_without_a_server_has_none(tmp_path: Path):
    assert running_server(tmp_path) is None
    assert running_server(tmp_path / "missing") is None
    assert not (tmp_path / "missing").exists()


def test_the_file_of_a_dead_server_does_not_count(tmp_path: Path):
    DataDir(tmp_path).write_info(INFO)
    os.close(open_lock(tmp_path / "server.lock"))
    assert running_server(tmp_path) is None


def test_the_file_of_a_dead_server_does_not_count_while_another_is_started(
    tmp_path: Path, life: int
):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    DataDir(tmp_path).write_info(replace(INFO, pid=ended.pid))
    assert running_server(tmp_path) is None


def test_a_server_that_is_not_ready_yet_does_not_count(tmp_path: Path, life: int):
    home = DataDir(tmp_path)
    assert home.running() is None
    home.write_info(INFO)
    home.remove_info()
    home.remove_info()
    assert home.running() is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"address": "x"}', '{"unknown": 1}'])
def test_a_file_that_makes_no_sense_does_not_count(tmp_path: Path, life: int, text: str):
    (tmp_path / "server.json").write_text(text)
    assert running_server(tmp_path) is None


def test_a_home_directory_is_expanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert DataDir(Path("~/data")).path == tmp_path.resolve() / "data"


def test_outside_of_projects_the_default_directory_is_the_platforms(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OUTLAST_DATA_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    assert default_data_dir() == tmp_path / "xdg" / "outlast"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setattr(sys, "platform", "linux")
    assert default_data_dir() == tmp_path / ".local" / "share" / "outlast"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert default_data_dir() == tmp_path / "Library" / "Application Support" / "outlast"


def test_a_project_has_its_own_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    inner = tmp_path / "desk" / "tests"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "desk" / "pyproject.toml").touch()
    monkeypatch.delenv("OUTLAST_DATA_DIR", raising=False)
    monkeypatch.chdir(inner)

    assert project_dir() == tmp_path / "desk"
    assert default_data_dir() == tmp_path / "desk" / ".outlast"
    assert default_blob_dir() == tmp_path / "desk" / ".outlast" / "blobs"

    monkeypatch.setenv("OUTLAST_DATA_DIR", str(tmp_path / "elsewhere"))
    assert default_data_dir() == tmp_path / "elsewhere"


def test_a_project_that_cannot_be_written_has_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.delenv("OUTLAST_DATA_DIR", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    monkeypatch.chdir(tmp_path)

    def refuse(path: Path, mode: int) -> bool:
        return path != tmp_path

    monkeypatch.setattr("os.access", refuse)

    assert default_data_dir() == tmp_path / "xdg" / "outlast"


@pytest.mark.parametrize(("name", "ignored"), [(".outlast", True), ("data", False)])
def test_version_control_ignores_a_directory_in_a_project(tmp_path: Path, name: str, ignored: bool):
    for _ in range(2):
        create_data_dir(tmp_path / name)

    assert (tmp_path / name / ".gitignore").exists() == ignored
