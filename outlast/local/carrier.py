"""A worker on a task queue, in this process, and the runs that it is needed for.

Owns: its life, and who needs it. Must not know: which queue that is, and why.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.agents.registry import Registry
from outlast.local.loop_end import kept_out
from outlast.local.queues import QueueClaim
from outlast.local.run_definitions import RunDefinitions
from outlast.worker.agent_worker import AgentWorker

GRACE = timedelta(seconds=1)


class Carrier:
    """Carries the runs of a queue.

    Args:
        client: a connected client.
        claim: on the queue; it is released when the worker stops.
        agent: the first agent.
        is_own: the queue is the program's own, and is carried until the event loop ends.

    Attributes:
        is_own: as given.
        definitions: which run has which agent.
        users: how many need the worker.
    """

    def __init__(
        self, client: Client, claim: QueueClaim, agent: Agent[Any], *, is_own: bool
    ) -> None:
        self.is_own = is_own
        self.users = 0
        self._claim = claim
        self._worker = AgentWorker(
            client, agents=[agent], task_queue=claim.queue, graceful_shutdown_timeout=GRACE
        )
        self.definitions = RunDefinitions(self._worker.registry)

    @property
    def queue(self) -> str:
        """The task queue."""
        return self._claim.queue

    async def start(self) -> None:
        """Begin to carry runs."""
        # In a context of its own: what it carries is not in its first caller's trace.
        await asyncio.create_task(self._worker.__aenter__(), context=kept_out())

    async def stop(self, *, for_good: bool = False) -> None:
        """Stop in order.

        Args:
            for_good: nobody else will ever carry this queue.
        """
        try:
            await self._worker.__aexit__(None, None, None)
        finally:
            self._claim.release(for_good=for_good)


class CarriedRun:
    """Implements `outlast.ports.engine.Serving`.

    Args:
        queue: the queue that the run is on, or is to be started on.
        run_id: the run.
        dropped: is told of a worker that the run needs no more.

    Attributes:
        queue: as given.
        taking_over: waits for a queue that somebody else carries.
    """

    def __init__(self, queue: str, run_id: str, dropped: Callable[[Carrier], None]) -> None:
        self.queue = queue
        self.taking_over: asyncio.Task[None] | None = None
        self._run_id = run_id
        self._dropped = dropped
        self._carrier: Carrier | None = None
        self._unattended = False
        self._before: Registry | None = None

    def begin(
        self, carrier: Carrier, agent: Agent[Any], context_type: type[Any] | None = None
    ) -> None:
        """Let a worker carry the run with an agent.

        Raises:
            UserError: the agent does not fit.
        """
        self._before = carrier.definitions.of_run(self._run_id)
        carrier.definitions.attend(self._run_id, agent, context_type)
        carrier.users += 1
        self._carrier = carrier
        if self._unattended:
            self.leave()

    def leave(self) -> None:
        """Wait no more for a run that goes on."""
        self._unattended = True
        if self._carrier is not None:
            self._carrier.definitions.leave(self._run_id)
            self._carrier = None

    def withdraw(self) -> None:
        """Take back what was asked for: the run keeps the agents that it had."""
        carrier = self._carrier
        self.let_go(ended=True)
        if carrier is not None and self._before is not None:
            carrier.definitions.keep(self._run_id, self._before)

    def let_go(self, *, ended: bool) -> None:
        """Wait no more for a run that has ended, or waits for people."""
        if self.taking_over is not None:
            self.taking_over.cancel()
        if self._carrier is not None:
            self._carrier.definitions.leave(self._run_id, ended=ended)
            self._carrier.users -= 1
            self._dropped(self._carrier)
            self._carrier = None
