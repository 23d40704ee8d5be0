"""A worker of the support desk in a process of its own, which a test can kill.

Owns: the process: started, ready, killed for real, and never outliving the tests. Must not know:
when it is killed, and what for.

The processes are forked from one that has the packages loaded (where forking is safe), so that a
test can afford two hundred of them; apart from that they share nothing with each other.
"""

import asyncio
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self, TypeAlias

READY = "ready"
"""What a worker says when it takes work."""

POLICIES = """
[tool.refund_order]
when = "amount > 100"
audience = { subjects = ["ann"] }
unverified = "allow"  # the decision is a signal, which needs no worker to arrive
loosens = true
"""

_METHOD = "forkserver" if sys.platform == "linux" else "spawn"
_START_SECONDS = 30.0

_processes = multiprocessing.get_context(_METHOD)
_PRELOADED = ["openai", "outlast.client", "outlast.worker", "pytest", "tests.crash.preloaded"]
_processes.set_forkserver_preload(_PRELOADED)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskSettings:
    """What a worker has to know.

    Attributes:
        address: the Temporal server.
        task_queue: where its runs wait.
        model_url: the model's base URL.
        database: the shop.
        tool_delay: how long a tool with a side effect takes, half of it before its commit.
        log: where its standard error goes.
    """

    address: str
    task_queue: str
    database: Path
    log: Path
    model_url: str = ""
    tool_delay: timedelta = timedelta(0)


class DeskWorker:
    """A worker process. Leaving the `async with` block kills it, if nothing else has."""

    def __init__(self, settings: DeskSettings, serve: "Serve") -> None:
        self._line, childs_end = _processes.Pipe()
        self._process = _processes.Process(
            target=_main, args=(settings, serve, childs_end), daemon=True
        )
        self._childs_end = childs_end
        self._log = settings.log

    async def __aenter__(self) -> Self:
        """Start it, and return when it takes work."""
        self._process.start()
        self._childs_end.close()
        if not await asyncio.to_thread(self._is_ready):
            await self.kill()
            raise RuntimeError(f"The worker did not start:\n{self._log.read_text()}")
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.kill()
        self._line.close()
        self._process.close()

    async def kill(self) -> None:
        """End it with SIGKILL, and return when it is gone."""
        if self._process.is_alive() and self._process.pid is not None:
            os.kill(self._process.pid, signal.SIGKILL)
        # Not in a thread: processes that start look after each other's ends in this one.
        gone = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._process.sentinel, gone.set)
        await gone.wait()
        loop.remove_reader(self._process.sentinel)
        self._process.join()

    @property
    def pid(self) -> int:
        """The process."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def was_killed(self) -> bool:
        """Whether a SIGKILL ended it, and not an error of its own."""
        return self._process.exitcode == -signal.SIGKILL

    def _is_ready(self) -> bool:
        with suppress(EOFError, OSError):
            return self._line.poll(_START_SECONDS) and self._line.recv() == READY
        return False


def _main(settings: DeskSettings, serve: "Serve", line: Connection) -> None:
    log = os.open(settings.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, sys.stderr.fileno())
    os.environ["SUPPORT_DESK_DB"] = str(settings.database)
    delay_seconds = settings.tool_delay.total_seconds()
    os.environ["SUPPORT_DESK_TOOL_DELAY_SECONDS"] = str(delay_seconds)
    threading.Thread(target=_end_with_parent, args=(line,), daemon=True).start()
    asyncio.run(serve(settings, line))


def _end_with_parent(line: Connection) -> None:
    """Nothing is ever sent to a worker: the line has an end when the tests have."""
    with suppress(EOFError, OSError):
        line.recv()
    os._exit(1)


Serve: TypeAlias = Callable[[DeskSettings, Connection], Coroutine[Any, Any, None]]
"""Carries runs until the process ends, and says on the line when it is ready."""


async def serve_desk(settings: DeskSettings, line: Connection) -> None:
    """Carry the support desk's runs."""
    from support_desk.app import agents, context_type

    from outlast.agents.approvals.policy_file import ApprovalFile
    from outlast.client import connect
    from outlast.models import OpenAIProvider
    from outlast.worker import AgentWorker

    client = await connect(settings.address, "default")
    async with AgentWorker(
        client,
        agents=agents,
        context_types=[context_type],
        sessions=[Path(settings.database).parent],
        approvals=ApprovalFile("crash.toml", POLICIES),
        task_queue=settings.task_queue,
        model_provider=OpenAIProvider(base_url=settings.model_url, api_key="none"),
        # A run that a killed worker held is offered to the next one after this long.
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
    ):
        line.send(READY)
        await asyncio.Event().wait()
