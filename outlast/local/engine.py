"""One engine per event loop: a client, workers, and a server if needed."""

import asyncio
import contextvars
from typing import Any, Final, Self
from weakref import WeakKeyDictionary, WeakValueDictionary

from temporalio.client import Client
from temporalio.service import RPCError

from outlast.agents.agent import Agent
from outlast.agents.errors import ServerUnavailable, UserError
from outlast.agents.logs import get_logger
from outlast.agents.registry import Registry
from outlast.blobs import use_local_store
from outlast.client.transport.connection import connect, is_configured
from outlast.contract import names
from outlast.dev import EmbeddedServer, default_data_dir
from outlast.dev.data_dir import default_blob_dir
from outlast.local.core_runtime import have_runtime
from outlast.local.local_worker import HostedRun, LocalWorker
from outlast.local.loop_end import at_loop_end, keep_out_no_more, kept_out
from outlast.local.program import this_program
from outlast.local.queues import QueueClaim, queue_names
from outlast.temporal.visibility.queries import equals, is_findable

LOOK_AGAIN_SECONDS = 0.25
"""How often to check whether another process still hosts the queue of a run."""

LOOK_AGAIN_AFTER_ERROR_SECONDS = 5.0
"""The interval after a failed attempt to host the queue; every failure is logged."""

KEPT_IDLE = 20
"""How many idle workers on the program's own queues are kept. A program may use an agent name for
each of its users, and every worker polls the server constantly."""

logger: Final = get_logger(__name__)

# By event loop: a script that configures nothing hands nothing down.
_engines: WeakKeyDictionary[asyncio.AbstractEventLoop, "LocalEngine"] = WeakKeyDictionary()
_starting: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


class LocalEngine:
    """Implements `outlast.ports.engine.Engine`."""

    def __init__(self, client: Client, server: EmbeddedServer | None) -> None:
        self.client = client
        self._server = server
        self._program = this_program()
        self._claims = default_data_dir() / "queues"
        self._local_workers: dict[str, LocalWorker] = {}
        self._own: dict[str, LocalWorker] = {}
        self._idle: dict[LocalWorker, None] = {}
        self._made: WeakValueDictionary[int, Registry] = WeakValueDictionary()
        self._serving = asyncio.Lock()
        self._taking_over: set[asyncio.Task[None]] = set()
        self._stopping: set[asyncio.Task[None]] = set()
        self._forget_end = at_loop_end(self._end)

    @classmethod
    async def shared(cls) -> Self:
        """Return the engine of the running event loop, created on the first call.

        Raises:
            ServerUnavailable: no server answers and none can be started.
        """
        loop = asyncio.get_running_loop()
        async with _starting.setdefault(loop, asyncio.Lock()):
            engine = _engines.get(loop)
            if engine is not None and not await engine.has_server():
                await cls.close_shared()
                engine = None
            if engine is None:
                engine = _engines[loop] = await cls._open()
        assert isinstance(engine, cls)  # noqa: S101  only this class puts engines there
        return engine

    async def has_server(self) -> bool:
        """Whether there is a server; one that died is restarted at the same address.

        Hosted runs then continue by themselves.
        """
        if self._server is None or self._server.alive:
            return True
        logger.error("the server at %s has died; restarting it", self._server.address)
        port = int(self._server.address.rpartition(":")[2])
        await self._server.stop()
        self._server = None
        server = _embedded(port)
        try:
            await server.start()
        except ServerUnavailable as error:  # the port or the data directory is in use
            logger.error("the server cannot be restarted: %s", error)  # noqa: TRY400  its words say it
            return False
        self._server = server
        return True

    @classmethod
    async def close_shared(cls) -> None:
        """Stop the engine of the running event loop, if there is one."""
        engine = _engines.pop(asyncio.get_running_loop(), None)
        if engine is not None:
            await engine.close()

    @classmethod
    async def pause_shared(cls) -> None:
        """Stop the workers of the running event loop before the loop pauses.

        The server keeps running for the next call. Tasks of users' code stay as well, and continue
        when the loop does.
        """
        await cls._end()
        keep_out_no_more()

    @classmethod
    async def _end(cls) -> None:
        """Stop everything that needs the running event loop, but keep the server.

        So a script that calls `Runner.run_sync` again, or exits, need not wait for the server.
        """
        engine = _engines.pop(asyncio.get_running_loop(), None)
        if engine is not None:
            await engine.close(keep_server=True)

    @classmethod
    async def _open(cls) -> Self:
        have_runtime()
        if is_configured():
            return cls(await connect(), None)
        server = _embedded()
        await server.start()
        try:
            client = await connect(server.address, server.info.namespace)
            use_local_store(client, default_blob_dir())
            return cls(client, server)
        except BaseException:  # also cancelled: nobody else would stop it
            await server.stop()
            raise

    async def serve(self, agent: Agent[Any], *, queue: str | None = None) -> HostedRun:
        """Host a run in this process.

        A new run starts on a queue of this program and agent, so that only this script finds its
        runs when it is executed again. A run on another program's queue is hosted here once that
        program no longer hosts it.

        Other runs may use another agent of the same name. An existing `queue` that no program owns
        is left to the workers there.

        Raises:
            UserError: the agent is invalid.
        """
        if queue is not None and not queue.startswith(names.PROGRAM_QUEUE_PREFIX):
            return HostedRun(queue, None, self._dropped)
        definitions = self._definitions_of(agent)
        async with self._serving:  # one worker per queue, even for concurrent starts
            if queue is None:
                local_worker = await self._own_worker(agent)
            else:
                local_worker = await self._local_worker(queue, agent)
            if local_worker is not None:
                run = HostedRun(local_worker.queue, definitions, self._dropped)
                run.begin(local_worker)
                return run
        run = HostedRun(queue or "", definitions, self._dropped)
        waiting = self._take_over(run, agent)
        run.taking_over = asyncio.create_task(waiting, context=contextvars.Context())
        _keep(run.taking_over, self._taking_over)
        return run

    def _definitions_of(self, agent: Agent[Any]) -> Registry:
        """Return the registry for an agent object; runs with the same object share it."""
        found = self._made.get(id(agent))
        if found is None or not found.holds(agent):
            found = self._made[id(agent)] = Registry([agent], tell_apart=True)
        return found

    async def _own_worker(self, agent: Agent[Any]) -> LocalWorker | None:
        if agent.name in self._own:
            return self._own[agent.name]
        for queue in queue_names(self._program, agent.name):
            local_worker = await self._local_worker(queue, agent, is_own=True)
            if local_worker is not None:
                self._own[agent.name] = local_worker
                return local_worker
        return None

    async def _local_worker(
        self, queue: str, agent: Agent[Any], *, is_own: bool = False
    ) -> LocalWorker | None:
        """Return the worker on a queue, or None if another process hosts it."""
        if queue in self._local_workers:
            local_worker = self._local_workers[queue]
            local_worker.is_own = local_worker.is_own or is_own
            return local_worker
        claim = QueueClaim.take(queue, self._claims)
        if claim is None:
            return None
        try:
            local_worker = LocalWorker(self.client, claim, agent, is_own=is_own)
        except BaseException:  # another process may then host the queue
            claim.release()
            raise
        self._local_workers[queue] = local_worker
        try:
            await local_worker.start()  # if the caller is cancelled, the next one finds it
        except Exception:  # not a cancellation: the worker starts anyway
            del self._local_workers[queue]
            claim.release()
            raise
        return local_worker

    async def _take_over(self, run: HostedRun, agent: Agent[Any]) -> None:
        try:
            await self._begin_elsewhere(run, agent)
        except asyncio.CancelledError:  # the run is released: a worker that starts is not needed
            if run.queue in self._local_workers:
                self._dropped(self._local_workers[run.queue])
            raise

    async def _begin_elsewhere(self, run: HostedRun, agent: Agent[Any]) -> None:
        while True:
            pause = LOOK_AGAIN_SECONDS
            try:
                async with self._serving:
                    local_worker = await self._local_worker(run.queue, agent)
                    if local_worker is not None:
                        run.begin(local_worker)
                        return
            except UserError:  # the agent is invalid, so a retry cannot help
                logger.exception("the queue %r cannot be hosted here", run.queue)
                return
            except Exception:  # the server may be away; the run waits, and it is tried again
                logger.exception("the queue %r cannot be hosted here yet", run.queue)
                pause = LOOK_AGAIN_AFTER_ERROR_SECONDS
            await asyncio.sleep(pause)

    def _dropped(self, local_worker: LocalWorker) -> None:
        """Stop an unneeded worker: of another program's queue, or the longest idle."""
        if local_worker.users:
            return
        if local_worker.is_own:
            self._idle.pop(local_worker, None)
            self._idle[local_worker] = None
            if len(self._idle) <= KEPT_IDLE:
                return
            local_worker = next(iter(self._idle))
            del self._idle[local_worker]
        _keep(asyncio.create_task(self._stop(local_worker), context=kept_out()), self._stopping)

    async def _stop(self, local_worker: LocalWorker) -> None:
        was_own = local_worker.is_own
        if was_own and await self._has_runs(local_worker):
            return
        async with self._serving:
            if self._local_workers.get(local_worker.queue) is not local_worker:
                return  # it has stopped
            if local_worker.users or local_worker in self._idle:
                return
            if local_worker.is_own is not was_own:
                return
            del self._local_workers[local_worker.queue]
            for name in [name for name, one in self._own.items() if one is local_worker]:
                del self._own[name]
            try:
                await local_worker.stop(
                    for_good=local_worker.is_own and not self._program.is_script
                )
            except Exception:  # the program goes on without this worker
                logger.exception("the worker of %r could not be stopped", local_worker.queue)

    async def _has_runs(self, local_worker: LocalWorker) -> bool:
        """Whether a queue has an open run, such as one that waits for an approval."""
        if not is_findable(local_worker.queue):
            return True
        query = f"{equals('TaskQueue', local_worker.queue)} AND ExecutionStatus = 'Running'"
        try:
            return (await self.client.count_workflows(query)).count > 0
        except RPCError as error:
            logger.debug("cannot tell whether %r is in use: %s", local_worker.queue, error)
            return True

    async def close(self, *, keep_server: bool = False) -> None:
        """Stop the workers, and the server if this process started it.

        With `keep_server`, the server runs until this process ends.
        """
        self._forget_end()
        taking_over = list(self._taking_over)
        for waiting in taking_over:
            waiting.cancel()
        try:
            if taking_over:  # they say which workers nobody needs
                await asyncio.wait(taking_over)
            if self._stopping:
                await asyncio.wait(self._stopping)
            for one in self._local_workers.values():
                await one.stop(for_good=one.is_own and not self._program.is_script)
        finally:
            if self._server is not None and keep_server and not self._server.joined:
                self._server.keep()
            elif self._server is not None:
                await self._server.stop()


def _embedded(port: int = 0) -> EmbeddedServer:
    return EmbeddedServer(
        data_dir=default_data_dir(), port=port, search_attributes=names.SEARCH_ATTRIBUTES
    )


def _keep(task: asyncio.Task[None], among: set[asyncio.Task[None]]) -> None:
    """Keep a reference to a task until it is done, which event loops do not."""
    among.add(task)
    task.add_done_callback(among.discard)
