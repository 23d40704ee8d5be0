"""One engine for each event loop: a client, a server if none is configured, and workers.

Owns: when they start and stop. Must not know: what runs on them.
"""

import asyncio
from datetime import timedelta
from typing import Any, Self
from weakref import WeakKeyDictionary

from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.client.connection import connect, is_configured
from outlast.contract import names
from outlast.dev import EmbeddedServer, default_data_dir
from outlast.worker.agent_worker import AgentWorker

_engines: WeakKeyDictionary[asyncio.AbstractEventLoop, "LocalEngine"] = WeakKeyDictionary()
_starting: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


class LocalEngine:
    """Implements `outlast.ports.engine.Engine`."""

    def __init__(self, client: Client, server: EmbeddedServer | None) -> None:
        self.client = client
        self._server = server
        self._workers: dict[str, AgentWorker] = {}

    @classmethod
    async def shared(cls) -> Self:
        """Return the engine of the running event loop, made on the first call.

        Raises:
            ServerUnavailable: no server answers and none can be started.
        """
        loop = asyncio.get_running_loop()
        async with _starting.setdefault(loop, asyncio.Lock()):
            engine = _engines.get(loop)
            if engine is None:
                engine = _engines[loop] = await cls._open()
        assert isinstance(engine, cls)  # noqa: S101  only this class puts engines there
        return engine

    @classmethod
    async def close_shared(cls) -> None:
        """Stop the engine of the running event loop, if there is one."""
        engine = _engines.pop(asyncio.get_running_loop(), None)
        if engine is not None:
            await engine.close()

    @classmethod
    async def _open(cls) -> Self:
        if is_configured():
            return cls(await connect(), None)
        server = EmbeddedServer(
            data_dir=default_data_dir(), search_attributes=names.SEARCH_ATTRIBUTES
        )
        await server.start()
        try:
            return cls(await connect(server.address, server.info.namespace), server)
        except BaseException:
            await server.stop()
            raise

    async def serve(self, agent: Agent[Any]) -> str:
        """Carry runs of an agent in this process, and return the task queue to start them on.

        The queue is named after the agent, so that a script that is run again finds the runs it
        left.
        """
        queue = f"{names.TASK_QUEUE}-local-{agent.name}"
        worker = self._workers.get(queue)
        if worker is None:
            worker = AgentWorker(
                self.client,
                agents=[agent],
                task_queue=queue,
                graceful_shutdown_timeout=timedelta(seconds=1),
            )
            await worker.__aenter__()
            self._workers[queue] = worker
        elif worker.registry.agent(agent.name) is not agent:
            worker.registry.replace(agent)
        return queue

    async def close(self) -> None:
        """Stop the workers, and the server if this process started it."""
        try:
            for worker in self._workers.values():
                await worker.__aexit__(None, None, None)
        finally:
            if self._server is not None:
                await self._server.stop()
