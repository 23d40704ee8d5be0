"""The process that counts, or that waits until the one that counts is gone."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib.metadata import version
from time import monotonic
from typing import Final

import httpx2
from temporalio import activity
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from outlast.agents.errors import UserError
from outlast.contract import names
from outlast.edges.tasks import meanwhile
from outlast.monitor.counts import Counts
from outlast.monitor.health import health_of
from outlast.monitor.reading import NamespaceReader
from outlast.temporal.repeated import RepeatedWork
from outlast.workflows.monitor import LEASE, Monitor

EVERY: Final = timedelta(seconds=15)
"""The time between two counts."""

BEATS: Final = timedelta(seconds=5)
"""How often the process says that it lives."""

STARTS: Final = timedelta(minutes=1)
"""How often the workflow is started again, should somebody have ended it."""

PROBES_FOR: Final = timedelta(seconds=5)
"""How long a desk may take to answer."""


@dataclass(kw_only=True)
class MonitorProcess:
    """Counts a namespace while the server says so, and else waits.

    Attributes:
        reader: counts.
        every: the time between two counts.
        desks: addresses of desks that are asked whether they are there.
    """

    reader: NamespaceReader
    every: timedelta = EVERY
    desks: Sequence[str] = ()
    _counts: Counts | None = None
    _until: float = 0.0

    def counts(self) -> Counts | None:
        """Return what was counted last; None if this process does not count, or not any more."""
        return self._counts if monotonic() < self._until else None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Take part until the block ends.

        Raises:
            RPCError: the server refuses, or does not answer.
        """
        client = self.reader.client
        await _start(client)
        worker = Worker(
            client,
            task_queue=names.MONITOR_QUEUE,
            workflows=[Monitor],
            activities=[self.count_runs],
            workflow_runner=UnsandboxedWorkflowRunner(),
            max_concurrent_activities=1,
            max_heartbeat_throttle_interval=BEATS,  # desks read what they carry
            build_id=version("outlast"),
        )
        async with worker:
            with meanwhile(_keep_started(client)):
                yield

    @activity.defn(name=names.ACTIVITY_MONITOR)
    async def count_runs(self) -> None:
        """Count again and again, until this process ends or the server has given it to another."""
        counts = RepeatedWork(fails="Runs are not counted", works="Runs are counted again.")
        try:
            with meanwhile(self._beat()):
                while True:
                    began = monotonic()
                    with counts.attempt():
                        await self._count()
                    left = self.every.total_seconds() - (monotonic() - began)
                    await asyncio.sleep(max(left, 0.1))
        finally:
            self._counts = None

    async def _beat(self) -> None:
        """Say that the process lives, and what it has counted: desks read that."""
        while True:
            found = self.counts()
            activity.heartbeat(*([] if found is None else [health_of(found).record()]))
            await asyncio.sleep(BEATS.total_seconds())

    async def _count(self) -> None:
        counts = await self.reader.count()
        found = await asyncio.gather(*map(_answers, self.desks))
        answers = {_label(one): yes for one, yes in zip(self.desks, found, strict=True)}
        self._counts = replace(counts, desks=answers)
        self._until = monotonic() + LEASE.total_seconds()


async def _start(client: Client) -> None:
    await client.start_workflow(
        names.WORKFLOW_MONITOR,
        id=names.MONITOR_QUEUE,
        task_queue=names.MONITOR_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
    )


async def _keep_started(client: Client) -> None:
    while True:
        await asyncio.sleep(STARTS.total_seconds())
        with suppress(RPCError):  # the next time, then
            await _start(client)


async def _answers(desk: str) -> bool:
    """Whether a desk answers as it answers load balancers."""
    try:
        async with httpx2.AsyncClient(timeout=PROBES_FOR.total_seconds()) as client:
            answer = await client.get(f"{desk.rstrip('/')}/health")
    except httpx2.HTTPError:
        return False
    return answer.is_success


def check_desk(address: str) -> str:
    """Return the address of a desk.

    Raises:
        UserError: it is none.
    """
    if httpx2.URL(address).scheme not in {"http", "https"} or not httpx2.URL(address).host:
        raise UserError(f"{address!r:.80} must be the address of a desk: https://desk.example.com.")
    return address


def _label(desk: str) -> str:
    url = httpx2.URL(desk)
    return url.netloc.decode() + url.path.rstrip("/")
