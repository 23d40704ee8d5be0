"""The files of a data directory, and what its locks say."""

import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from outlast.agents.errors import ServerUnavailable, UserError
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
from outlast.dev.server import EmbeddedServer

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


# --- Nobody else ---------------------------------------------------------------------------------


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def modes_below(path: Path) -> dict[str, int]:
    found = [one for one in path.rglob("*") if not one.name.startswith(".")]
    return {str(one.relative_to(path)): mode_of(one) for one in found}


@pytest.fixture
def below(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A project's folder, whose subfolder is the current one; the user's directory is `home`."""
    (tmp_path / "above" / "here").mkdir(parents=True)
    (tmp_path / "above" / "pyproject.toml").touch()
    monkeypatch.delenv("OUTLAST_DATA_DIR", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "above" / "here")
    return tmp_path / "above"


def test_the_project_of_somebody_else_is_not_ours(below: Path, as_stranger: None):
    assert default_data_dir() == below.parent / "home" / "outlast"


def test_a_data_directory_of_somebody_else_is_not_ours(below: Path, as_stranger: None):
    (below / ".outlast").mkdir()
    assert default_data_dir() == below.parent / "home" / "outlast"


@pytest.mark.parametrize("planted", ["pyproject.toml", ".outlast", "."])
def test_what_somebody_else_has_planted_above_is_not_used(
    below: Path, give_away: Callable[[Path], None], planted: str
):
    if planted == ".outlast":
        (below / planted).mkdir()
    give_away(below / planted)
    assert default_data_dir() == below.parent / "home" / "outlast"


def test_a_link_of_somebody_else_to_a_directory_of_ours_is_not_used(
    below: Path, give_away: Callable[[Path], None], tmp_path: Path
):
    (tmp_path / "mine").mkdir()
    (below / ".outlast").symlink_to(tmp_path / "mine")
    assert default_data_dir() == below / ".outlast"
    give_away(below / ".outlast")
    assert default_data_dir() == below.parent / "home" / "outlast"


def test_a_directory_of_ours_in_a_folder_of_somebody_else_is_used(
    below: Path, give_away: Callable[[Path], None]
):
    (below / ".outlast").mkdir()
    give_away(below)
    assert default_data_dir() == below / ".outlast"


def test_a_directory_of_somebody_else_that_is_named_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_stranger: None
):
    monkeypatch.setenv("OUTLAST_DATA_DIR", str(tmp_path))
    with pytest.raises(UserError, match=r"OUTLAST_DATA_DIR is .* belongs to .* of your own"):
        default_data_dir()


async def test_no_server_starts_in_a_directory_of_somebody_else(tmp_path: Path, as_stranger: None):
    with pytest.raises(ServerUnavailable, match=r"cannot be used: it belongs to .*, not to"):
        await EmbeddedServer(data_dir=tmp_path).start()


def test_clients_believe_no_server_of_somebody_else(tmp_path: Path, life: int, as_stranger: None):
    DataDir(tmp_path).write_info(INFO)
    assert running_server(tmp_path) is None


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
def test_clients_believe_no_directory_that_others_can_write_to(
    tmp_path: Path, life: int, mode: int
):
    DataDir(tmp_path).write_info(INFO)
    tmp_path.chmod(mode)
    assert running_server(tmp_path) is None
    tmp_path.chmod(0o755)
    assert running_server(tmp_path) == INFO


def test_clients_believe_no_address_that_somebody_else_has_written(
    tmp_path: Path, life: int, give_away: Callable[[Path], None]
):
    DataDir(tmp_path).write_info(INFO)
    give_away(tmp_path / "server.json")
    assert running_server(tmp_path) is None


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022])
def test_what_is_made_is_for_this_user_alone(tmp_path: Path, umask: int):
    before = os.umask(umask)
    try:
        create_data_dir(tmp_path / "new" / ".outlast")
        DataDir(tmp_path / "new" / ".outlast").write_info(INFO)
    finally:
        os.umask(before)
    for name, mode in ((".", 0o700), ("blobs", 0o700), ("server.json", 0o600)):
        assert mode_of(tmp_path / "new" / ".outlast" / name) == mode


def test_a_directory_of_an_older_version_is_closed(tmp_path: Path):
    home = tmp_path / "data"
    home.mkdir()
    for name in ("server.lock", "temporal.db", "temporal.db-wal", "server.log"):
        (home / name).touch()
        (home / name).chmod(0o644)
    home.chmod(0o755)
    create_data_dir(home)
    assert mode_of(home) == 0o700
    assert {mode_of(one) for one in home.iterdir() if one.is_file()} == {0o600}


def test_a_directory_with_other_files_keeps_its_mode(tmp_path: Path):
    (tmp_path / "thesis.txt").touch(0o644)
    tmp_path.chmod(0o755)
    create_data_dir(tmp_path)
    assert (mode_of(tmp_path), mode_of(tmp_path / "blobs")) == (0o755, 0o700)
    assert mode_of(tmp_path / "thesis.txt") == 0o644


@pytest.mark.parametrize("mode", [0o775, 0o777, 0o1777])
def test_a_directory_that_others_can_write_to_and_use_is_refused(tmp_path: Path, mode: int):
    (tmp_path / "thesis.txt").touch()
    tmp_path.chmod(mode)
    with pytest.raises(PermissionError, match="others can write to it"):
        create_data_dir(tmp_path)
    assert mode_of(tmp_path) == mode


def test_the_temporary_folder_is_never_closed(tmp_path: Path):
    tmp_path.chmod(0o1777)
    with pytest.raises(PermissionError, match="mode 1777"):
        create_data_dir(tmp_path)
    assert mode_of(tmp_path) == 0o1777


@pytest.mark.parametrize(
    "name", ["temporal.db", "server.log", "server.json", "users.lock", "blobs"]
)
def test_files_that_somebody_else_has_planted_are_refused(
    tmp_path: Path, give_away: Callable[[Path], None], name: str
):
    if name == "blobs":
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).touch()
    give_away(tmp_path / name)
    with pytest.raises(PermissionError, match=f"{name} in it cannot be trusted"):
        create_data_dir(tmp_path)


def test_a_planted_link_is_not_followed(tmp_path: Path):
    target = tmp_path / "target"
    target.touch(0o644)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "server.log").symlink_to(target)
    with pytest.raises(PermissionError, match=r"server\.log in it cannot be trusted.* a link"):
        create_data_dir(home)
    assert mode_of(target) == 0o644


async def test_all_files_of_a_server_are_for_this_user_alone(tmp_path: Path):
    before = os.umask(0)
    try:
        async with EmbeddedServer(data_dir=tmp_path / "data", ui_port=None):
            modes = modes_below(tmp_path)
    finally:
        os.umask(before)
    folders = {"data", "data/blobs"}
    files = {"temporal.db", "temporal.db-wal", "temporal.db-shm", "server.log", "server.json"}
    assert folders | {f"data/{name}" for name in files} <= set(modes)
    assert modes == {name: 0o700 if name in folders else 0o600 for name in modes}
