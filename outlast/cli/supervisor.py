"""The parent process of `outlast worker --processes`.

It never imports the application: each worker is a new interpreter, because the Temporal SDK does
not survive a fork.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Final

from outlast.agents.logs import get_logger
from outlast.cli import terminal
from outlast.cli.exit_codes import ExitCode
from outlast.cli.signals import stop_requested
from outlast.cli.worker_process import WorkerProcess
from outlast.contract import names
from outlast.edges.tasks import meanwhile

FIRST_DELAY_SECONDS: Final = 1.0
"""How long after its end a worker is replaced."""

LONGEST_DELAY_SECONDS: Final = 30.0
"""The delay doubles with each end in a row, up to this."""

STEADY_SECONDS: Final = 60.0
"""A worker that lived this long begins a new row."""

DEFAULT_GRACE_SECONDS: Final = 30.0
"""How long running calls have to finish, where the application does not say."""

AFTER_GRACE_SECONDS: Final = 8.0
"""How long a worker may take to end after that, such as to flush exporters; then it is killed."""

logger: Final = get_logger(__name__)


def stop_message(grace_seconds: float) -> str:
    """Return what a stopped worker says."""
    return f"stopping: running calls have {grace_seconds:g} s to finish; Ctrl-C ends them now"


def supervise(arguments: Sequence[str], count: int) -> int:
    """Run workers until a signal stops this process; return its exit code."""
    return asyncio.run(_Supervisor(arguments, count).run())


class _Supervisor:
    """The workers of one application on this machine.

    A worker ends in order when its standard input does, so none outlives this process, not even if
    SIGKILL ends it. Signals reach only this process: Ctrl-C would otherwise arrive at the workers
    twice, and the second one ends them at once.
    """

    def __init__(self, arguments: Sequence[str], count: int) -> None:
        self._arguments = arguments
        self._count = count
        self._workers: set[_Worker] = set()
        self._stop = asyncio.Event()

    async def run(self) -> int:
        """Keep the workers running until a signal stops this process; return its exit code.

        If the first worker, which starts alone, cannot start, its exit code is returned.
        """
        self._stop = stop_requested(before_exit=self._kill)
        with meanwhile(self._retire_when_stopped()):
            first = await self._start(0)
            if not await first.ready and not self._stop.is_set():
                return await first.exit_code()
            codes = await asyncio.gather(
                self._keep(0, first), *(self._keep(index) for index in range(1, self._count))
            )
        return ExitCode.OK if not any(codes) else ExitCode.FAILED

    async def _keep(self, index: int, worker: "_Worker | None" = None) -> int:
        delay, code = FIRST_DELAY_SECONDS, 0
        while not self._stop.is_set():
            begun = monotonic()
            worker = worker or await self._start(index)
            code = await worker.exit_code()
            self._workers.discard(worker)
            if self._stop.is_set():
                break
            if monotonic() - begun > STEADY_SECONDS:
                delay = FIRST_DELAY_SECONDS
            logger.warning(
                "worker %d of %d (process %d) %s; its replacement starts in %g s",
                *(index + 1, self._count, worker.pid, worker.end, delay),
            )
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), delay)
                return 0
            worker, delay = None, min(2 * delay, LONGEST_DELAY_SECONDS)
        return code

    async def _start(self, index: int) -> "_Worker":
        worker = await _Worker.start(
            self._arguments,
            {names.WORKER_INDEX: str(index), names.WORKER_PROCESSES: str(self._count)},
        )
        self._workers.add(worker)
        if self._stop.is_set():
            worker.retire()
        return worker

    async def _retire_when_stopped(self) -> None:
        await self._stop.wait()
        grace = max((one.grace_seconds for one in self._workers), default=DEFAULT_GRACE_SECONDS)
        terminal.say(terminal.err(), stop_message(grace))
        for worker in self._workers:
            worker.retire()
        await asyncio.sleep(grace + AFTER_GRACE_SECONDS)
        for worker in self._workers:
            if not worker.has_ended:
                logger.warning(
                    "the worker process %d has not ended %g s after its grace and is killed; what "
                    "it did is tried again elsewhere",
                    *(worker.pid, AFTER_GRACE_SECONDS),
                )
                worker.kill()

    def _kill(self) -> None:
        for worker in self._workers:
            worker.kill()


class _Worker(WorkerProcess):
    """A worker that prints for itself.

    Attributes:
        ready: whether it polled for work, known as soon as it does or ends.
        grace_seconds: how long its running calls have to finish, as it says when it is ready.
    """

    def __init__(self, process: asyncio.subprocess.Process, ours: socket.socket) -> None:
        super().__init__(process)
        self.grace_seconds = DEFAULT_GRACE_SECONDS
        self.ready = self._ready_signal(ours)

    @classmethod
    async def start(cls, arguments: Sequence[str], environment: dict[str, str]) -> "_Worker":
        """Start a worker, which sends its grace through a socket when it is ready."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = await cls.spawn(
                ["--ready-fd", str(theirs.fileno()), *arguments],
                pass_fds=(theirs.fileno(),),
                env={**os.environ, **environment},
            )
        return cls(process, ours)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.returncode is not None

    @property
    def end(self) -> str:
        """How the process has ended, in words."""
        code = self._process.returncode or 0
        if code < 0:
            what = f"was killed by {signal.Signals(-code).name}"
        else:
            what = f"ended with exit code {code}"
        was_ready = self.ready.done() and self.ready.result()
        return what if was_ready else f"{what} before it was ready"

    async def exit_code(self) -> int:
        """Wait until the process has ended; a signal's exit code is that of a shell."""
        code = await self._process.wait()
        return code if code >= 0 else 128 - code

    def _ready_signal(self, worker: socket.socket) -> "asyncio.Future[bool]":
        """Return whether a socket receives something before its end, once that is known."""
        loop = asyncio.get_running_loop()
        found: asyncio.Future[bool] = loop.create_future()

        def read() -> None:
            loop.remove_reader(worker)
            with worker, suppress(ConnectionError):
                said = worker.recv(64)
                if said:
                    self.grace_seconds = float(said)
                found.set_result(bool(said))
            if not found.done():
                found.set_result(False)

        loop.add_reader(worker, read)
        return found
