"""A development server as an operating system process, with its guard."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from outlast.dev.data_dir import DataDir
from outlast.dev.ownership import append_private

HOST = "127.0.0.1"
POLL_SECONDS = 0.02

_GUARD = Path(__file__).with_name("guard.py")
_STOP_SECONDS = 15.0
_LOG_LINES = 8

# By default, a development server polls its queues 20 times per second. With its single shard,
# every workflow task then waits for a 50 ms tick.
_DYNAMIC_CONFIG = {
    "history.transferProcessorMaxPollRPS": "2000",
    "history.timerProcessorMaxPollRPS": "2000",
    "history.visibilityProcessorMaxPollRPS": "2000",
    "system.enableActivityEagerExecution": "true",
    # Tenants take turns. A queue in one partition, not four, keeps to its order and its rate limit.
    "matching.enableFairness": "true",
    "matching.numTaskqueueReadPartitions": "1",
    "matching.numTaskqueueWritePartitions": "1",
}
# As fast as a database in memory, but intact after SIGKILL.
_SQLITE_PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The settings that a server is started with; ports are actual ports here, not 0."""

    port: int
    ui_port: int | None
    namespace: str
    search_attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    in_memory: bool

    def flags(self, database: Path) -> list[str]:
        """Return the arguments of `temporal server start-dev`."""
        flags = ["--ip", HOST, "--port", str(self.port), "--namespace", self.namespace]
        flags += ["--headless"] if self.ui_port is None else ["--ui-port", str(self.ui_port)]
        flags += ["--log-level", "warn"]
        if not self.in_memory:
            flags += ["--db-filename", str(database)]
            for pragma in _SQLITE_PRAGMAS:
                flags += ["--sqlite-pragma", pragma]
        for key, value in _DYNAMIC_CONFIG.items():
            flags += ["--dynamic-config-value", f"{key}={value}"]
        for name, kind in self.search_attributes.items():
            flags += ["--search-attribute", f"{name}={kind}"]
        return flags


class ServerProcess:
    """A server and its guard."""

    def __init__(self, cli: Path, settings: ServerSettings, home: DataDir, life: int) -> None:
        """Start both processes, which inherit `life`, the life lock's descriptor."""
        self._log = home.log
        self._log_start = home.log.stat().st_size if home.log.exists() else 0
        self._guard = _spawn(cli, settings, home, life)
        self.pid: int = 0
        self.settings = settings
        self.address: str = f"{HOST}:{settings.port}"
        self.ui_url: str | None = (
            None if settings.ui_port is None else f"http://{HOST}:{settings.ui_port}"
        )

    @property
    def alive(self) -> bool:
        """Whether the server's process is running."""
        return self._guard.poll() is None

    async def accepts_connections(self, deadline: float) -> bool:
        """Wait until the server listens; False at its end or the monotonic deadline."""
        while self.alive and monotonic() < deadline:
            with suppress(OSError):
                _, writer = await asyncio.open_connection(HOST, self.settings.port)
                writer.close()
                await writer.wait_closed()
                # The guard writes the line before the server can listen.
                self.pid = await asyncio.to_thread(self._read_pid)
                return True
            await asyncio.sleep(POLL_SECONDS)
        return False

    def _read_pid(self) -> int:
        if self._guard.stdout is None:
            return 0
        with self._guard.stdout as output:
            return int(output.readline())

    async def end(self, *, now: bool) -> None:
        """Wait until the guard has ended the server, which happens when it has no users."""
        if now:
            self._guard.terminate()
        try:
            await asyncio.to_thread(self._guard.wait, _STOP_SECONDS)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._guard.pid, signal.SIGKILL)
            await asyncio.to_thread(self._guard.wait)
        if self._guard.stdout is not None:
            self._guard.stdout.close()

    def leave_running(self) -> None:
        """Stop managing the process; its guard ends it when its last user is gone."""
        # If the guard ends before this process does, something must reap it.
        threading.Thread(target=self._guard.wait, daemon=True).start()

    def last_words(self) -> str:
        """Return the end of the log since this start, for an error message."""
        with suppress(OSError), self._log.open("rb") as log:
            log.seek(self._log_start)
            lines = log.read().decode(errors="replace").strip().splitlines()
            if lines:
                shown = "\n".join(f"  {line}" for line in lines[-_LOG_LINES:])
                return f"The log ({self._log}) ends with\n{shown}"
        return f"The log ({self._log}) is empty."


def _spawn(
    cli: Path, settings: ServerSettings, home: DataDir, life: int
) -> subprocess.Popen[bytes]:
    keep = "temporary" if settings.in_memory else "kept"
    command = [sys.executable, "-I", "-S", str(_GUARD), str(home.users_lock), keep, str(cli)]
    command += ["server", "start-dev", *settings.flags(home.database)]
    # These variables configure Temporal clients, not the server.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TEMPORAL_")}
    with open(append_private(home.log), "ab") as log:  # noqa: PTH123  a descriptor
        return subprocess.Popen(
            command,
            # Not for reading: the inherited descriptor keeps the life lock held as long as one of
            # the two processes lives.
            stdin=life,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=home.path,
            env=environment,
            umask=0o077,  # the database is for this user alone
            # Ctrl-C in the terminal goes to the owner only, which then stops the server in order.
            start_new_session=True,
        )
