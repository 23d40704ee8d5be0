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
from outlast.local.failure_lines import speak_in_lines
from outlast.local.loop_end import at_loop_end, kept_out
from outlast.worker.agent_worker import AgentWorker

_engines: WeakKeyDictionary[asyncio.AbstractEventLoop, "LocalEngine"] = WeakKeyDictionary()
_starting: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


class LocalEngine:
    """Implements `outlast.ports.engine.Engine`."""

    def __init__(self, client: Client, server: EmbeddedServer | None) -> None:
        self.client = client
        self._server = server
        self._workers: dict[str, AgentWorker] = {}
        self._serving = asyncio.Lock()
        self._forget_end = at_loop_end(self._rest)

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
    async def _rest(cls) -> None:
        """Stop what needs the running event loop, but keep the server for the next one.

        A script that calls `Runner.run_sync` again, or ends, does not wait for a server's end.
        """
        engine = _engines.pop(asyncio.get_running_loop(), None)
        if engine is not None:
            await engine.close(keep_server=True)

    @classmethod
    async def _open(cls) -> Self:
        speak_in_lines()
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

    async def serve(self, agent: Agent[Any], context_type: type[Any] | None = None) -> str:
        """Carry runs of an agent in this process, and return the task queue to start them on.

        The queue is named after the agent, so that a script that is run again finds the runs it
        left.

        Args:
            agent: the agent.
            context_type: a type of context that runs are started with; the annotations of tools
                need not name it.
        """
        queue = f"{names.TASK_QUEUE}-local-{agent.name}"
        async with self._serving:  # a queue has one worker, also for runs that start together
            worker = self._workers.get(queue)
            if worker is None:
                worker = self._workers[queue] = await self._worker(agent, queue)
        if worker.registry.agent(agent.name) is not agent:
            worker.registry.replace(agent)
        if context_type is not None:
            worker.registry.add_context_type(context_type)
        return queue

    async def _worker(self, agent: Agent[Any], queue: str) -> AgentWorker:
        worker = AgentWorker(
            self.client,
            agents=[agent],
            task_queue=queue,
            graceful_shutdown_timeout=timedelta(seconds=1),
        )
        # In a context of its own: what it carries is not in its first caller's trace.
        await asyncio.create_task(worker.__aenter__(), context=kept_out())
        return worker

    async def close(self, *, keep_server: bool = False) -> None:
        """Stop the workers, and the server if this process started it.

        Args:
            keep_server: let the server run until this process ends.
        """
        self._forget_end()
        try:
            for worker in self._workers.values():
                await worker.__aexit__(None, None, None)
        finally:
            if self._server is not None and keep_server and not self._server.joined:
                self._server.keep()
            elif self._server is not None:
                await self._server.stop()
