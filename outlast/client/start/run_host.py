"""Hosts a run with this process's engine, unless workers elsewhere host it."""

from contextlib import suppress
from contextvars import copy_context
from datetime import timedelta
from typing import Any, Final, Self, cast

from temporalio.client import Client, WorkflowExecutionDescription, WorkflowQueryFailedError
from temporalio.service import RPCError

from outlast.agents.agent import Agent
from outlast.agents.context.codec import ProgramContext, context_class
from outlast.agents.errors import ServerUnavailable
from outlast.agents.run_objects import RUN_OBJECTS, RunKey, RunObjects
from outlast.blobs import use_blob_store
from outlast.client.handle import RunHandle
from outlast.client.results.local_definitions import LocalDefinitions
from outlast.client.transport.executions import first_of
from outlast.client.transport.outages import PATIENCE, PROGRAM_PATIENCE, patience_of
from outlast.contract import names
from outlast.ports.blobs import BlobStore
from outlast.ports.engine import Engine, Serving, local_engine
from outlast.views.run import RunSnapshot

LONGEST_TASK: Final = timedelta(seconds=15)
"""Somewhat longer than the server waits for a workflow task that a killed program had."""


class RunHost:
    """Hosts one run while a program starts it and waits for it.

    Leaving the `with` block ends the wait, whatever the run does. An `Agent` is hosted by this
    process, unless the program chose a client or a task queue.
    """

    def __init__(
        self,
        agent: Any,
        client: Client | None,
        task_queue: str | None,
        context: ProgramContext | None = None,
        patience: timedelta | None = None,
        *,
        blob_store: BlobStore | None = None,
    ) -> None:
        self._blob_store = blob_store
        self._agent = agent
        self._client = client
        self._queue = task_queue
        self.objects: RunObjects = RunObjects()
        if context is not None:
            self.objects.live = context.live
            self.objects.context_type = context_class(context.owner)
        self.patience: timedelta = patience_of(
            patience, PROGRAM_PATIENCE if self._is_here else PATIENCE
        )
        self._engine: Engine | None = None
        self._serving: list[Serving] = []
        self._attended: list[RunKey] = []
        self._is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Stop waiting for the run; a run hosted here continues, unless it has failed."""
        failed = isinstance(error, Exception) and not isinstance(error, ServerUnavailable)
        self._is_over = True
        while self._serving:
            serving = self._serving.pop()
            if failed:
                serving.release()
            else:
                serving.leave()
        self._leave(ended=False)

    def release(self, *, ended: bool) -> None:
        """Record that the run has ended, or waits for people; the program no longer waits for it."""
        while self._serving:
            self._serving.pop().release()
        self._leave(ended=ended)

    def end_reading(self, state: RunSnapshot | None) -> None:
        """Record that reading has ended, in the state in which the run settled, if it did."""
        if state is not None:
            self.release(ended=not state.is_open)
        self.__exit__(None, None, None)

    def has_begun(self, namespace: str, chain_id: str) -> None:
        """Give the run the objects that its start brought, now that the server has accepted it.

        Raises no error, and also works when the caller has been cancelled.
        """
        self.bring(RunKey(namespace, chain_id))

    def bring(self, key: RunKey, *, resumes: bool = False) -> None:
        """Give an execution the objects of this call, which starts or resumes the run."""
        self.objects = RUN_OBJECTS.bring(key, self.objects, resumes=resumes)
        self._attend(key)

    def _attend(self, key: RunKey) -> None:
        if not self._is_over:
            RUN_OBJECTS.attend(key)
            self._attended.append(key)

    def _leave(self, *, ended: bool) -> None:
        while self._attended:
            RUN_OBJECTS.leave(self._attended.pop(), ended=ended)

    async def client(self) -> Client:
        """Return the client."""
        client = self._client
        if client is None:
            if self._engine is None:
                self._engine = await local_engine().shared()
            client = cast("Client", self._engine.client)
        if self._blob_store is not None:
            use_blob_store(client, self._blob_store)
        return client

    async def queue(self) -> str:
        """Return the task queue for a new run."""
        await self.client()
        if not self._is_here:
            return self._queue or names.TASK_QUEUE
        return (await self._serve()).queue

    async def handle(self, run_id: str, definitions: LocalDefinitions) -> RunHandle:
        """Return a handle on the run."""
        return RunHandle(
            await self.client(),
            run_id,
            definitions,
            from_engine=self._client is None,
            patience=self.patience,
        )

    async def follow(
        self,
        handle: RunHandle,
        description: WorkflowExecutionDescription | None = None,
        *,
        resumes: bool = False,
        attaches: bool = False,
    ) -> None:
        """Host a run that was started before, here or by another program.

        `description` is the server's of the run that the call is about; by default, of the newest
        with its id. A call that `resumes` the run replaces the objects that it has; one that only
        `attaches` to it never does.
        """
        with RUN_OBJECTS.starting(handle.client.namespace, handle.id):
            description = description or await handle.check()
            await self.take_over(handle, description, resumes=resumes, attaches=attaches)
        await self.catch_up(handle, description)

    async def take_over(
        self,
        handle: RunHandle,
        description: WorkflowExecutionDescription,
        *,
        resumes: bool = False,
        attaches: bool = False,
    ) -> None:
        """Host a run and give it the objects of this call; the arguments are those of `follow`.

        As soon as this process serves the queue, it gets effects of the run. So the caller
        announces the start (`RUN_OBJECTS.starting`), for which they wait.
        """
        if description.close_time is not None:
            return
        key = key_of(handle.client, description)
        if self._is_here:
            served = [serving.queue for serving in self._serving]
            if description.task_queue not in served:
                await self._serve(description.task_queue)
        if not attaches:
            self.bring(key, resumes=resumes)
        elif not self.objects.is_empty:
            RUN_OBJECTS.fill(key, self.objects)
            self._attend(key)

    async def catch_up(self, handle: RunHandle, description: WorkflowExecutionDescription) -> None:
        """Let an open run that is hosted here take in what came while nobody hosted it."""
        if description.close_time is not None:
            return
        if self._is_here and description.raw_description.HasField("pending_workflow_task"):
            await _await_pending_task(handle)

    @property
    def _is_here(self) -> bool:
        is_elsewhere = self._client is not None or self._queue is not None
        return isinstance(self._agent, Agent) and not is_elsewhere

    async def _serve(self, queue: str | None = None) -> Serving:
        engine = self._engine or await local_engine().shared()
        serving = await engine.serve(self._agent, queue=queue)
        self._serving.append(serving)
        self.objects.definitions = serving.definitions
        self.objects.caller = copy_context()
        return serving


def key_of(client: Client, description: WorkflowExecutionDescription) -> RunKey:
    """Return the key of the objects of a run, from the server's description of it."""
    return RunKey(client.namespace, first_of(description))


async def _await_pending_task(handle: RunHandle) -> None:
    """Wait for the workflow task that came while the run had no worker.

    It may bring a decision, which is not in the history before: the run would be read as still
    waiting. The server answers a query after the workflow task that it has for the run.
    """
    workflow = handle.client.get_workflow_handle(handle.id)
    with suppress(RPCError, WorkflowQueryFailedError):  # then it is read as it is
        await workflow.query(names.QUERY_STATE, rpc_timeout=LONGEST_TASK)
