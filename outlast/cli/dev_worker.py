"""The worker process of `outlast dev`, which is replaced when a file is saved.

Only when the new worker polls does the old one stop, so that code which cannot be imported never
leaves a project without a worker.
"""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, Self, cast

from outlast.cli import terminal
from outlast.cli.target import Location
from outlast.cli.worker_process import WorkerProcess
from outlast.dev.data_dir import project_dir
from outlast.views.records import JsonObject

STOP_SECONDS: Final = 5.0
"""How long workers may take to end after Ctrl-C before they are killed."""

_ERROR: Final = "error: "
_LONGEST_LINE: Final = 1024 * 1024  # asyncio cannot read a longer one; its default is 64 kB
_DEBUG: Final = " Add --debug to see where."


class ReadyProcess(WorkerProcess):
    """A process that prints a record when it is ready; its words before are kept."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        super().__init__(process)
        self._lines: list[str] = []
        self._is_ready = False
        self._record: JsonObject | None = None
        self._ready = asyncio.Event()
        self._pumps = (
            asyncio.create_task(self._pump_output()),
            asyncio.create_task(self._pump_errors()),
        )

    @classmethod
    async def start(cls, arguments: Sequence[str], *, command: str = "worker") -> Self:
        """Start a process with the arguments of `outlast worker`, or of another command."""
        # Neither another server nor a login that the environment names.
        foreign = ("TEMPORAL_", "OUTLAST_OIDC_ISSUER", "OUTLAST_DESK_URL")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        process = await cls.spawn(
            [*arguments, "--json"],
            command=command,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**kept, "TEMPORAL_CONFIG_FILE": os.devnull, "PYTHONUNBUFFERED": "1"},
            limit=_LONGEST_LINE,
        )
        return cls(process)

    async def ready(self) -> JsonObject | str:
        """Wait until the process is ready; return its record, or why it ended."""
        ended = asyncio.create_task(self.ended())
        ready = asyncio.create_task(self._ready.wait())
        await asyncio.wait({ended, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._record is not None:
            self._is_ready = True
            for line in self._lines:
                terminal.say(terminal.err(), line)
            return self._record
        await ended
        lines = [one.removesuffix(_DEBUG) for one in self._lines]
        errors = [one.removeprefix(_ERROR) for one in lines if one.startswith(_ERROR)]
        code = self._process.returncode
        return " ".join(errors or self._lines) or f"it ended with exit code {code}"

    async def ended(self) -> int:
        """Wait until the process has ended, and return its exit code."""
        await asyncio.wait(self._pumps)
        return await self._process.wait()

    async def stop(self) -> None:
        """End the process: what runs in it has a few seconds, and an import has none."""
        self.retire()
        ending = asyncio.create_task(self.ended())
        if self._ready.is_set():
            await asyncio.wait({ending}, timeout=STOP_SECONDS)
        self.kill()
        await ending

    async def report_end(self, what: str) -> None:
        """Say that the process has ended, when it has."""
        code = await self.ended()
        words = f", with exit code {code}. Save a file to start it again."
        terminal.say(terminal.err(), (f"the {what} has ended", "bold red"), words)

    async def _pump_output(self) -> None:
        assert self._process.stdout is not None  # noqa: S101  it is a pipe
        async for line in self._process.stdout:
            text = line.decode(errors="replace").rstrip("\n")
            record = None if self._ready.is_set() else _ready_record(text)
            if record is None:
                terminal.say(terminal.out(), text)
            else:
                self._record = record
                self._ready.set()

    async def _pump_errors(self) -> None:
        assert self._process.stderr is not None  # noqa: S101  it is a pipe
        async for line in self._process.stderr:
            text = line.decode(errors="replace").rstrip("\n")
            if not self._is_ready:
                self._lines.append(text)
            else:
                terminal.say(terminal.err(), text)


class DevWorker:
    """The worker of one target: at most one at a time takes new work.

    Args:
        arguments: those of `outlast worker`.
        location: where the target is.
        on_reload: called when another worker has replaced one.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        location: Location,
        on_reload: Callable[[], Awaitable[None]],
    ) -> None:
        self._arguments = [*arguments, "--any-key"]
        self._on_reload = on_reload
        self._location = location
        self._current: ReadyProcess | None = None
        self._all: set[ReadyProcess] = set()
        self._watchers: set[asyncio.Task[None]] = set()

    async def replace(self) -> JsonObject | str:
        """Start a worker, and retire the old one once the new one polls.

        Returns the new worker's record; or why it did not start, and then the old one stays.
        """
        worker = await ReadyProcess.start(self._arguments)
        self._all.add(worker)
        found = await worker.ready()
        if isinstance(found, str):
            self._all.discard(worker)
            return found
        if self._current is not None:
            self._current.retire()
        self._current = worker
        watcher = asyncio.create_task(self._report_end(worker))
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)
        return found

    async def reload_on_save(self) -> None:
        """Replace the worker whenever a Python file is saved."""
        from watchfiles import PythonFilter, awatch  # pyright: ignore[reportUnknownVariableType]

        path, recursive = watched(self._location)
        console = terminal.err()
        watching = awatch(
            path,
            watch_filter=PythonFilter(),
            recursive=recursive,
            ignore_permission_denied=True,
        )
        async for changes in watching:
            saved = ", ".join(sorted({Path(name).name for _, name in changes}))
            found = await self.replace()
            if not isinstance(found, str):
                terminal.say(console, ("reloaded", "green"), f": {saved}")
                await self._on_reload()
            elif self._current is None:
                terminal.say(console, ("not started", "bold red"), f": {found}")
            else:
                stays = ", the worker from before the change stays"
                terminal.say(console, ("not reloaded", "bold red"), f"{stays}: {found}")

    async def stop(self) -> None:
        """Stop all workers: those with running calls have a few seconds."""
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*(one.stop() for one in self._all))

    async def _report_end(self, worker: ReadyProcess) -> None:
        await worker.ended()
        self._all.discard(worker)
        if worker is self._current:
            self._current = None
            await worker.report_end("worker")


def watched(location: Location) -> tuple[Path, bool]:
    """Return the directory to watch, and whether its subdirectories count.

    That is the project of the target, or its package, or its directory alone: it may be a home.
    """
    project = project_dir(location.directory)
    if project is not None:
        return project, True
    package = location.directory / location.module.partition(".")[0]
    return (package, True) if package.is_dir() else (location.directory, False)


def _ready_record(line: str) -> JsonObject | None:
    try:
        record: Any = json.loads(line)
    except ValueError:
        return None
    if not isinstance(record, dict):
        return None
    found = cast("JsonObject", record)
    return found if found.get("status") == "ready" else None
