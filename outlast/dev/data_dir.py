"""What an embedded server leaves on disk: its database, log, address, and two locks.

`server.lock` is held exclusively for as long as a server process lives on the directory, so there
is never a second one on the same database. `users.lock` is held shared by every process that uses
the server; when the last one is gone, however it ended, the server ends.

Owns: the files and what they mean. Must not know: how a server is started or asked.
"""

import fcntl
import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """A running server, as it says of itself in `server.json`.

    Attributes:
        address: host and port for Temporal clients.
        ui_url: where its web UI is; None without one.
        namespace: the namespace it was started for.
        pid: the server's process.
    """

    address: str
    ui_url: str | None
    namespace: str
    pid: int


def default_data_dir() -> Path:
    """Return where this user's data lives: `$XDG_DATA_HOME/outlast`, or the platform's place."""
    if chosen := os.environ.get("XDG_DATA_HOME"):
        return Path(chosen) / "outlast"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "outlast"
    return Path.home() / ".local" / "share" / "outlast"


def default_blob_dir() -> Path:
    """Return where large content of runs on this user's embedded server is kept."""
    return default_data_dir() / "blobs"


def running_server(data_dir: Path) -> ServerInfo | None:
    """Return the server that is alive and ready on this directory, or None.

    Alive is what the operating system says (a lock that ends with the process), so a file left by
    a killed server does not count.
    """
    return DataDir(data_dir).running()


def run_link(ui_url: str, namespace: str, run_id: str) -> str:
    """Return the page of a run in Temporal's web UI."""
    return f"{ui_url}/namespaces/{quote(namespace, safe='')}/workflows/{quote(run_id, safe='')}"


class DataDir:
    """The paths in one data directory, and its locks."""

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
            # Somebody else's exclusive lock is the sign of life.
            alive = not try_lock(life, fcntl.LOCK_SH)
        finally:
            os.close(life)
        info = self._read_info() if alive else None
        # The lock is also held for a moment by who is about to start a server, and the file may
        # still be that of the last one.
        return info if info is not None and _is_there(info.pid) else None

    def write_info(self, info: ServerInfo) -> None:
        """Publish a server that is ready. Readers see the old file or the new one, whole."""
        draft = self._info.with_suffix(".tmp")
        draft.write_text(json.dumps(asdict(info)) + "\n", encoding="utf-8")
        draft.replace(self._info)

    def remove_info(self) -> None:
        """Forget the server that was here."""
        self._info.unlink(missing_ok=True)

    def _read_info(self) -> ServerInfo | None:
        try:
            fields: dict[str, Any] = json.loads(self._info.read_text(encoding="utf-8"))
            return ServerInfo(**fields)
        except (OSError, ValueError, TypeError):
            return None


def _is_there(pid: int) -> bool:
    """Whether a process lives."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def open_lock(path: Path) -> int:
    """Open a lock file, made if missing. Child processes do not inherit the descriptor."""
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def try_lock(descriptor: int, mode: int) -> bool:
    """Take the lock in this mode (`fcntl.LOCK_SH` or `LOCK_EX`) now, or return False."""
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
