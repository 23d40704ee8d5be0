"""The files of an embedded server: its database, log, address, and two locks.

The directory is this user's alone, because whoever writes to it is trusted: clients connect to the
address that it holds. One that belongs to somebody else, or that others can write to, is not used.

A server process holds `server.lock` exclusively as long as it lives, so a directory never has two
servers. Every process that uses the server holds `users.lock` shared. When the last of them ends,
in any way, the server ends.
"""

import errno
import fcntl
import json
import os
import stat
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from outlast.agents.errors import UserError
from outlast.dev.ownership import close_to_others, is_ours, problem_of, write_private

DATA_DIR_VARIABLE: Final = "OUTLAST_DATA_DIR"
PROJECT_FILE: Final = "pyproject.toml"
PROJECT_DATA: Final = ".outlast"

_PROBE: Final = b"\0" * 65_536
"""As much as a run needs for its next steps."""

_BLOBS: Final = "blobs"
_DATABASE: Final = "temporal.db"
_LOG: Final = "server.log"
_INFO: Final = "server.json"
_LIFE_LOCK: Final = "server.lock"
_USERS_LOCK: Final = "users.lock"
_FILES: Final = (
    *(f"{_DATABASE}{suffix}" for suffix in ("", "-wal", "-shm")),
    *(_LOG, _INFO, _LIFE_LOCK, _USERS_LOCK),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """A running server, as described by its `server.json`.

    Attributes:
        address: host and port for Temporal clients.
        ui_url: the URL of its web UI, or None.
        namespace: the namespace that it was started with.
        pid: the server's process id.
    """

    address: str
    ui_url: str | None
    namespace: str
    pid: int


def default_data_dir() -> Path:
    """Return the data directory of the current project, or else the user's.

    Each project has its own runs, so that equal ids in two projects are two runs. The order:
    `OUTLAST_DATA_DIR`; `.outlast` beside the nearest `pyproject.toml`, if this user owns that place
    and can write to it; `$XDG_DATA_HOME/outlast`; the platform's default.

    Raises:
        UserError: `OUTLAST_DATA_DIR` names somebody else's directory.
    """
    if chosen := os.environ.get(DATA_DIR_VARIABLE):
        path = Path(chosen).expanduser().resolve()
        if path.exists() and not is_ours(path):
            raise UserError(
                f"{DATA_DIR_VARIABLE} is {path}, which cannot be used: {problem_of(path)}. Set it "
                "to a directory of your own."
            )
        return path
    project = project_dir()
    if project is not None and problem_of_project(project) is None:
        return project / PROJECT_DATA
    return _user_data_dir()


def problem_of_project(project: Path) -> str | None:
    """Return why the data of a project is not kept in it; None if it is.

    A folder above the current one may be somebody else's, who can plant a `pyproject.toml` there.
    """
    data = project / PROJECT_DATA
    places = (data,) if os.path.lexists(data) else (project, project / PROJECT_FILE)
    for place in places:
        if not is_ours(place):
            return f"{place} is somebody else's"
    if not os.access(places[0], os.W_OK | os.X_OK):
        return f"{places[0]} cannot be written to"
    return None


def create_data_dir(path: Path) -> None:
    """Create a data directory for this user alone; version control is told to ignore it.

    Raises:
        PermissionError: it belongs to somebody else, or others can write to it.
        OSError: it cannot be created.
    """
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    if is_ours(path) and _holds_only_data(path):
        close_to_others(path)
    if problem := problem_of(path):
        raise PermissionError(problem)
    (path / _BLOBS).mkdir(exist_ok=True, mode=0o700)
    for name in (*_FILES, _BLOBS):
        place = path / name
        if os.path.lexists(place):
            if is_ours(place):
                close_to_others(place)
            if problem := problem_of(place):
                raise PermissionError(f"{name} in it cannot be trusted, because {problem}")
    ignored = path / ".gitignore"
    if path.name == PROJECT_DATA and not ignored.exists():
        ignored.write_text("# Made by outlast.\n*\n", encoding="utf-8")


def _holds_only_data(path: Path) -> bool:
    """Whether a directory is for a server's data alone, so that its mode is ours to change."""
    if path.stat().st_mode & stat.S_ISVTX:
        return False
    is_used = (path / _LIFE_LOCK).exists() or path.name == PROJECT_DATA
    return is_used or not any(path.iterdir())


def _user_data_dir() -> Path:
    if chosen := os.environ.get("XDG_DATA_HOME"):
        return Path(chosen) / "outlast"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "outlast"
    return Path.home() / ".local" / "share" / "outlast"


def project_dir(start: Path | None = None) -> Path | None:
    """Return the nearest directory with a `pyproject.toml`, at or above `start`; or None."""
    here = (start or Path.cwd()).resolve()
    return next((one for one in (here, *here.parents) if (one / PROJECT_FILE).is_file()), None)


def default_blob_dir() -> Path:
    """Return the directory for large content of runs on the embedded server."""
    return default_data_dir() / _BLOBS


def running_server(data_dir: Path) -> ServerInfo | None:
    """Return the live, ready server on this directory, or None.

    A server counts as alive while its process holds the lock, so a file that a killed server left
    behind does not count.
    """
    return DataDir(data_dir).running()


def run_link(ui_url: str, namespace: str, run_id: str) -> str:
    """Return the URL of a run's page in Temporal's web UI."""
    return f"{ui_url}/namespaces/{quote(namespace, safe='')}/workflows/{quote(run_id, safe='')}"


class DataDir:
    """The paths of one data directory, and its locks."""

    def __init__(self, path: Path) -> None:
        self.path: Path = path.expanduser().resolve()
        self.database: Path = self.path / _DATABASE
        self.log: Path = self.path / _LOG
        self.life_lock: Path = self.path / _LIFE_LOCK
        self.users_lock: Path = self.path / _USERS_LOCK
        self._info = self.path / _INFO

    def running(self) -> ServerInfo | None:
        """Return the live, ready server; None without one that this user started."""
        try:
            if problem_of(self.path):
                return None
            life = os.open(self.life_lock, os.O_RDWR)
        except OSError:
            return None
        try:
            # If another process holds the exclusive lock, the server is alive.
            alive = not try_lock(life, fcntl.LOCK_SH)
        finally:
            os.close(life)
        info = self._read_info() if alive else None
        # A process that is about to start a server holds the lock as well, while the file may
        # still describe the previous server.
        return info if info is not None and _is_there(info.pid) else None

    def write_info(self, info: ServerInfo) -> None:
        """Publish a ready server. The file is replaced atomically."""
        write_private(self._info, json.dumps(asdict(info)) + "\n")

    def remove_info(self) -> None:
        """Remove the description of the previous server."""
        self._info.unlink(missing_ok=True)

    def _read_info(self) -> ServerInfo | None:
        try:
            if problem_of(self._info):
                return None
            fields: dict[str, Any] = json.loads(self._info.read_text(encoding="utf-8"))
            return ServerInfo(**fields)
        except (OSError, ValueError, TypeError):
            return None


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def problem_of_writing(path: Path) -> str | None:
    """Return why nothing can be written to a directory, in words; None if it can."""
    probe = path / f"probe.{os.getpid()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    try:
        descriptor = os.open(probe, flags, 0o600)
        try:
            left = len(_PROBE)
            while left:  # less is written where less has room
                left -= os.write(descriptor, _PROBE[:left])
        finally:
            with suppress(FileNotFoundError):
                probe.unlink()
            os.close(descriptor)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            return f"the disk of {path} is full ({error.strerror})"
        return f"{path} cannot be written to ({error.strerror})"
    return None


def open_lock(path: Path) -> int:
    """Open or create a lock file that child processes do not inherit."""
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def try_lock(descriptor: int, mode: int) -> bool:
    """Try to take a lock (`fcntl.LOCK_SH` or `LOCK_EX`); return whether it worked."""
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
