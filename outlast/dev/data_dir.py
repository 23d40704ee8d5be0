"""The files of an embedded server: its database, log, address, and two locks.

A server process holds `server.lock` exclusively as long as it lives, so a directory never has two
servers. Every process that uses the server holds `users.lock` shared. When the last of them ends,
in any way, the server ends.
"""

import fcntl
import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

DATA_DIR_VARIABLE: Final = "OUTLAST_DATA_DIR"
PROJECT_FILE: Final = "pyproject.toml"
PROJECT_DATA: Final = ".outlast"


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
    `OUTLAST_DATA_DIR`; `.outlast` beside the nearest `pyproject.toml`, if that place can be
    written; `$XDG_DATA_HOME/outlast`; the platform's default.
    """
    if chosen := os.environ.get(DATA_DIR_VARIABLE):
        return Path(chosen).expanduser().resolve()
    project = project_dir()
    if project is not None:
        found = project / PROJECT_DATA
        if os.access(found if found.exists() else project, os.W_OK | os.X_OK):
            return found
    return _user_data_dir()


def create_data_dir(path: Path) -> None:
    """Create a data directory; in a project, version control is told to ignore it.

    Raises:
        OSError: it cannot be created.
    """
    path.mkdir(parents=True, exist_ok=True)
    ignored = path / ".gitignore"
    if path.name == PROJECT_DATA and not ignored.exists():
        ignored.write_text("# Made by outlast.\n*\n", encoding="utf-8")


def _user_data_dir() -> Path:
    if chosen := os.environ.get("XDG_DATA_HOME"):
        return Path(chosen) / "outlast"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "outlast"
    return Path.home() / ".local" / "share" / "outlast"


def project_dir(start: Path | None = None) -> Path | None:
    """Return the nearest directory with a `pyproject.toml`, or None.

    Args:
        start: where the search begins and goes up from; default: the current directory.
    """
    here = (start or Path.cwd()).resolve()
    return next((one for one in (here, *here.parents) if (one / PROJECT_FILE).is_file()), None)


def default_blob_dir() -> Path:
    """Return the directory for large content of runs on the embedded server."""
    return default_data_dir() / "blobs"


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
        self.path = path.expanduser().resolve()
        self.database = self.path / "temporal.db"
        self.log = self.path / "server.log"
        self.life_lock = self.path / "server.lock"
        self.users_lock = self.path / "users.lock"
        self._info = self.path / "server.json"

    def running(self) -> ServerInfo | None:
        """Return the live, ready server, or None."""
        try:
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
        draft = self._info.with_suffix(".tmp")
        draft.write_text(json.dumps(asdict(info)) + "\n", encoding="utf-8")
        draft.replace(self._info)

    def remove_info(self) -> None:
        """Remove the description of the previous server."""
        self._info.unlink(missing_ok=True)

    def _read_info(self) -> ServerInfo | None:
        try:
            fields: dict[str, Any] = json.loads(self._info.read_text(encoding="utf-8"))
            return ServerInfo(**fields)
        except (OSError, ValueError, TypeError):
            return None


def _is_there(pid: int) -> bool:
    """Whether a process is alive."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


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
