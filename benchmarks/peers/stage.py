"""The stage of a measurement: the model, the stores and the workers, as processes of their own."""

import asyncio
import json
import os
import shutil
import sys
import tempfile
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from temporalio.client import Client

from benchmarks.peers.drives import Drive, OutlastDrive, ProgramDrive, TemporalDrive
from benchmarks.peers.environments import python_of
from benchmarks.peers.postgres import Postgres, find_postgres
from benchmarks.peers.programs.job import Job
from benchmarks.peers.subjects import Subject
from benchmarks.peers.temporal_server import MeteredServer
from benchmarks.processes import ROOT, Child

LOGS = ROOT / ".venv-peers" / "logs" / str(os.getpid())
WORKFLOWS = {"floor": "Floor", "floor-transport": "Floor"}

_TABLES = {
    "dbos-openai-agents": {
        "dbos.workflow_status": "workflow_uuid",
        "dbos.operation_outputs": "workflow_uuid",
        "dbos.notifications": "destination_uuid",
    },
    "langgraph": {
        "checkpoints": "thread_id",
        "checkpoint_blobs": "thread_id",
        "checkpoint_writes": "thread_id",
    },
    "langgraph-sqlite": {"checkpoints": "thread_id", "writes": "thread_id"},
}
"""Where the runs of a program are stored: tables with the column of the run's id."""


@dataclass
class Actor:
    """A subject on the stage: its worker, and what drives it."""

    subject: Subject
    process: Child
    drive: Drive
    job: Job

    async def spent(self) -> dict[str, float]:
        """Return the worker's resource usage so far."""
        return json.loads(await self.process.ask())


@dataclass
class Stage:
    """The processes of a measurement; entering starts the model and the stores.

    Attributes:
        result_bytes: the length of the tool's results.
        variant: the variant of the conversations.
    """

    result_bytes: int
    variant: str
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _home: Path = field(default_factory=Path)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            shutil.rmtree(LOGS, ignore_errors=True)
            LOGS.mkdir(parents=True)
            self._home = Path(tempfile.mkdtemp(prefix="benchmarks-peers-"))
            stack.callback(shutil.rmtree, self._home, ignore_errors=True)
            self.server = await stack.enter_async_context(MeteredServer())
            self.model = await stack.enter_async_context(
                Child(str(ROOT / "benchmarks" / "model_server.py"))
            )
            self.client = await Client.connect(self.server.address)
            self.postgres: Postgres | None = None
            programs = find_postgres()
            if programs is not None:
                self.postgres = await stack.enter_async_context(Postgres(programs))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def database_of(self, subject: Subject) -> str:
        """Return the URL of a new database for a subject; none on Temporal.

        Raises:
            RuntimeError: there is no PostgreSQL on this machine.
        """
        name = subject.name.replace("-", "_")
        if subject.store == "sqlite":
            return f"sqlite:///{self._home / name}.db"
        if subject.store == "temporal":
            return ""
        if self.postgres is None:
            raise RuntimeError(f"{subject.name} needs PostgreSQL: install Debian's postgresql")
        await self.postgres.query("postgres", f'DROP DATABASE IF EXISTS "{name}"')
        return await self.postgres.create(name)

    async def job_of(self, subject: Subject, ledger: str = "") -> Job:
        """Return the settings of a subject's worker."""
        return Job(
            model_url=self.model.greeting,
            result_bytes=self.result_bytes,
            variant=self.variant,
            address=self.server.address,
            queue=f"peers-{subject.name}-{self.variant}-{self.result_bytes}",
            database=await self.database_of(subject),
            ledger=ledger,
            transport=subject.transport,
        )

    async def start(self, subject: Subject, job: Job) -> Actor:
        """Start a worker. It is ended by the stage, or by whoever starts it anew."""
        process = Child(
            *("-m", subject.program, json.dumps(asdict(job))),
            python=await asyncio.to_thread(python_of, subject),
            log=LOGS / f"{subject.name}.log",
            # A key is needed, and nothing may be sent elsewhere.
            env={"OPENAI_API_KEY": "none", "OPENAI_AGENTS_DISABLE_TRACING": "1", **_QUIET},
        )
        await self._stack.enter_async_context(process)
        return Actor(subject, process, self._drive(subject, job, process.greeting), job)

    async def restart(self, actor: Actor) -> Actor:
        """Kill a worker and start another one in its place."""
        actor.process.kill()
        return await self.start(actor.subject, actor.job)

    def _drive(self, subject: Subject, job: Job, greeting: str) -> Drive:
        if subject.name.startswith("outlast"):
            return OutlastDrive(self.client, job.queue, "")
        if subject.store == "temporal":
            return TemporalDrive(self.client, job.queue, WORKFLOWS.get(subject.name, "Notes"))
        database = job.database.removeprefix("sqlite:///")
        if subject.store == "postgres":
            database = database.rpartition("/")[2]
        store = self.postgres if subject.store == "postgres" else None
        port = json.loads(greeting)["port"]
        return ProgramDrive(port, store, database, _TABLES[subject.name])

    def store_pid(self, subject: Subject) -> int | None:
        """Return the process of a subject's store; None where it is the worker itself."""
        if subject.store == "temporal":
            return self.server.pid
        if subject.store == "postgres" and self.postgres is not None:
            return self.postgres.pid
        return None

    async def model_usage(self) -> dict[str, Any]:
        """Return what the model has done so far."""
        return json.loads(await self.model.ask())


_QUIET = {
    "LANGSMITH_TRACING": "false",
    "PYDANTIC_AI_NO_TELEMETRY": "1",
    "OTEL_SDK_DISABLED": "true",
}


def say(words: str) -> None:
    """Print progress."""
    print(words, file=sys.stderr, flush=True)
