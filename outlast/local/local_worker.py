"""A worker in this process on one task queue, and the runs that it hosts."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, cast

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy_file import ENVIRONMENT_VARIABLE, ApprovalFile
from outlast.agents.logs import get_logger
from outlast.agents.registry import Registry
from outlast.client.transport.outages import is_gone
from outlast.local.loop_end import kept_out, kept_tasks
from outlast.local.queues import QueueClaim
from outlast.worker.agent_worker import AgentWorker

GRACE = timedelta(seconds=1)  # a script has to end; what still runs is tried again later

FAREWELL_SECONDS = 2.0
"""How long a worker that stops waits for a server that is gone; its core would wait for 30 s."""

LOOK_AGAIN_SECONDS = 2.0
"""How often to try to start a worker again after the server has ended the previous one."""

_MARK_OF_ANSWERS = "__temporal_task_tag"
"""The name of the core's tasks that report a run's results to the server."""

logger: Final = get_logger(__name__)


def _operators_file() -> ApprovalFile | None:
    """Return the approval policies of the environment.

    They are not compared with the agents, which the program may define later.
    """
    place = os.environ.get(ENVIRONMENT_VARIABLE)
    return ApprovalFile.load(place) if place else None


class LocalWorker:
    """Hosts the runs of a queue.

    A queue of this program (`is_own`) stays hosted while idle.

    Attributes:
        is_own: as passed.
        users: how many runs need the worker.
    """

    def __init__(
        self, client: Client, claim: QueueClaim, agent: Agent[Any], *, is_own: bool
    ) -> None:
        self.is_own = is_own
        self.users: int = 0
        self._client = client
        self._claim = claim
        self._agent = agent
        self._worker = self._make_worker()
        self._starting: asyncio.Task[Any] | None = None
        self._stopped = asyncio.Event()
        self._beginning_again: asyncio.Task[None] | None = None

    @property
    def queue(self) -> str:
        """The task queue."""
        return self._claim.queue

    def host(self, definitions: Registry) -> None:
        """Host a run with these definitions, and close what they hold when the worker stops."""
        self._worker.registry.release_later(definitions)
        self.users += 1

    async def start(self) -> None:
        """Start to host runs; if the caller is cancelled, the worker starts anyway."""
        # A separate context keeps hosted runs out of the first caller's trace.
        self._starting = asyncio.create_task(self._worker.__aenter__(), context=kept_out())
        await asyncio.shield(self._starting)

    def _make_worker(self) -> AgentWorker:
        return AgentWorker(
            self._client,
            agents=cast("Any", Registry([self._agent], tell_apart=True)),
            task_queue=self.queue,
            approvals=_operators_file(),
            graceful_shutdown_timeout=GRACE,
            # While this process is suspended (Ctrl-Z, a frozen machine), each of its open polls
            # takes another attempt of a running activity, which then times out as well.
            max_concurrent_activity_task_polls=1,
            on_fatal_error=self._broke,
        )

    async def _broke(self, error: BaseException) -> None:
        """Start another worker after the server's refusal has ended this one."""
        logger.error("the worker of %r has ended; restarting it: %s", self.queue, error)
        self._beginning_again = asyncio.create_task(self._begin_again(), context=kept_out())

    async def _begin_again(self) -> None:
        await self._worker.__aexit__(None, None, None)
        request = DescribeNamespaceRequest(namespace=self._client.namespace)
        while not self._stopped.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN_SECONDS):
                    await self._stopped.wait()
                return
            try:
                await self._client.workflow_service.describe_namespace(request)
            except RPCError as error:
                logger.debug("%r cannot be hosted yet: %s", self.queue, error)
                continue
            before, self._worker = self._worker, self._make_worker()
            self._worker.registry.release_later(before.registry)
            await self.start()
            return

    async def stop(self, *, for_good: bool = False) -> None:
        """Stop the worker.

        After `for_good`, no process hosts this queue again.
        """
        self._stopped.set()
        try:
            for task in (self._starting, self._beginning_again):
                if task is not None:
                    await asyncio.wait([task])
            stopping = self._worker.__aexit__(None, None, None)
            if is_gone(self._client):
                leaving = asyncio.create_task(stopping, context=kept_out())
                await asyncio.wait({leaving}, timeout=FAREWELL_SECONDS)
            else:
                await stopping
                await _last_answers()
        finally:
            self._claim.release(for_good=for_good)


async def _last_answers() -> None:
    """Wait until the engine's core has received the last results of a stopped worker.

    The worker waits for its tasks among all tasks of the loop, but these are hidden. Without this
    wait, the core could report to a closed loop.
    """
    answers = [task for task in kept_tasks() if hasattr(task, _MARK_OF_ANSWERS)]
    if answers:
        await asyncio.wait(answers, timeout=GRACE.total_seconds())


class HostedRun:
    """Implements `outlast.ports.engine.Serving`.

    `dropped` is called with a worker that the run no longer needs.

    Attributes:
        queue: as passed.
        definitions: as passed; None where workers elsewhere host the run.
        taking_over: the task that waits for a queue that another process hosts, or None.
    """

    def __init__(
        self,
        queue: str,
        definitions: Registry | None,
        dropped: Callable[[LocalWorker], None],
    ) -> None:
        self.queue = queue
        self.definitions = definitions
        self.taking_over: asyncio.Task[None] | None = None
        self._dropped = dropped
        self._local_worker: LocalWorker | None = None
        self._unattended = False

    def begin(self, local_worker: LocalWorker) -> None:
        """Host the run on a worker."""
        if self.definitions is not None:
            local_worker.host(self.definitions)
        self._local_worker = local_worker
        if self._unattended:
            self.leave()

    def leave(self) -> None:
        """Stop waiting for a run that continues."""
        self._unattended = True
        self._local_worker = None

    def release(self) -> None:
        """Stop hosting a run that has ended or is waiting for reviewers."""
        if self.taking_over is not None:
            self.taking_over.cancel()
        if self._local_worker is not None:
            self._local_worker.users -= 1
            self._dropped(self._local_worker)
            self._local_worker = None
