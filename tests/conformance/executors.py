"""The two ways in which a conformance test runs agents, with one set of calls.

Owns: the executors (in memory; on a server, where every history is replayed after the test),
`row`, which says which rows of the table a test covers, and `also_on_server`. Must not know: what a
row expects.
"""

import asyncio
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar, cast

import pytest
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

import outlast
import outlast.testing
from outlast import Agent, AgentsException, Runner
from outlast.client.handle import RunHandle, progress_of
from outlast.loop.values import JsonObject
from outlast.testing import ScriptedModel
from outlast.worker.agent_worker import AgentWorker
from tests.workflow.laws import failed_tasks, nested_runs, replay, terminate_if_open

ROWS = range(1, 56)
"""The numbers of the rows of the table."""

PATIENCE_SECONDS = 60
"""Longer than anything takes on a loaded machine; only a failing test waits for it."""

Input = str | list[JsonObject]
TestFunction = TypeVar("TestFunction", bound=Callable[..., Any])


def _context_types(context: Any) -> list[type[Any]]:
    """Return the type that a worker has to know for a run with this context."""
    kind = cast("type[Any]", type(context))
    plain = (dict, list, str, int, float, bool, type(None))
    return [] if issubclass(kind, plain) else [kind]


def row(*numbers: int) -> Callable[[TestFunction], TestFunction]:
    """Say which rows of the table a test covers."""
    assert numbers, "a test covers at least one row"
    assert set(numbers) <= set(ROWS), f"the table has no row of {numbers}"

    def mark(test: TestFunction) -> TestFunction:
        return pytest.mark.row(*numbers)(test)

    return mark


also_on_server = pytest.mark.also_on_server
"""Marks a test that runs on the server, although another test of its file stands for its rows."""


@contextmanager
def raises_own(kind: type[Exception], message: str) -> Generator[pytest.ExceptionInfo[Any]]:
    """Expect what a user's callable raised to reach the caller.

    A builtin exception arrives as itself, or, where it crossed a process, as an exception of the
    package that names the type and repeats the message.
    """
    with pytest.raises((kind, AgentsException), match=message) as caught:
        yield caught
    if not isinstance(caught.value, kind):
        assert kind.__name__ in str(caught.value), f"{caught.value!r} hides a {kind.__name__}"


async def soon(event: asyncio.Event) -> None:
    """Wait for something that has to happen."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        await event.wait()


class Executor(ABC):
    """Runs agents as the Runner does.

    Attributes:
        name: which of the two it is.
    """

    name: str

    @abstractmethod
    async def execute(
        self, agent: Agent[Any], asked: Input = "Hello", *, model: ScriptedModel, **options: Any
    ) -> Any:
        """Do what `Runner.run` does; the model answers for every agent."""

    @abstractmethod
    async def resume(self, agent: Agent[Any], state: Any, **options: Any) -> Any:
        """Go on with a run that waited for people, with what was decided in the state."""

    @abstractmethod
    async def stream(
        self, agent: Agent[Any], asked: Input = "Hello", *, model: ScriptedModel, **options: Any
    ) -> Any:
        """Do what `Runner.run_streamed` does."""

    @abstractmethod
    async def resume_streamed(self, agent: Agent[Any], state: Any, **options: Any) -> Any:
        """Do the same and read along."""

    @abstractmethod
    async def until_cancel_is_known(self) -> None:
        """Wait until the run that was started last knows that it is to stop."""

    @abstractmethod
    async def close(self) -> None:
        """Check what has to hold of every run, and end everything."""

    async def round_trip(self, agent: Agent[Any], state: Any) -> Any:
        """Write the state of a waiting run as text, and read it back."""
        text = state.to_string()
        assert isinstance(text, str)
        return await outlast.RunState.from_string(agent, text)


class InMemory(Executor):
    """No server: the loop and the effects as function calls."""

    name = "in_memory"

    def __init__(self) -> None:
        self._model = ScriptedModel()

    async def execute(
        self, agent: Agent[Any], asked: Input = "Hello", *, model: ScriptedModel, **options: Any
    ) -> Any:
        """Run in memory."""
        self._model = model
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await outlast.testing.run_in_memory(agent, asked, model=model, **options)

    async def resume(self, agent: Agent[Any], state: Any, **options: Any) -> Any:
        """Go on in memory, with the model of the run that was started last."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await outlast.testing.run_in_memory(agent, state, model=self._model, **options)

    async def stream(
        self, agent: Agent[Any], asked: Input = "Hello", *, model: ScriptedModel, **options: Any
    ) -> Any:
        """Run in memory and read along."""
        self._model = model
        return outlast.testing.run_in_memory_streamed(agent, asked, model=model, **options)

    async def resume_streamed(self, agent: Agent[Any], state: Any, **options: Any) -> Any:
        """Go on in memory and read along."""
        return outlast.testing.run_in_memory_streamed(agent, state, model=self._model, **options)

    async def until_cancel_is_known(self) -> None:
        """A cancel in memory is known at once."""

    async def close(self) -> None:
        """Nothing is left open."""


class OnServer(Executor):
    """Workers and an embedded server in this process.

    A worker serves one agent with one model, on a task queue of its own; it stays until the test
    ends, because runs that wait for people go on later.

    Args:
        client: connected to the server.
        replays: whether the workers keep no workflow, and replay it for every task.
    """

    name = "server"

    def __init__(self, client: Client, *, replays: bool = False) -> None:
        self._client = client
        self._options: dict[str, Any] = {"max_cached_workflows": 0} if replays else {}
        self._ids: list[str] = []
        self._queue = ""
        self._served: tuple[Agent[Any], ScriptedModel] | None = None
        self._workers: list[AgentWorker] = []

    async def execute(
        self, agent: Agent[Any], asked: Input = "Hello", *, model: ScriptedModel, **options: Any
    ) -> Any:
        """Run on the server."""
        await self._serve(agent, model, options.get("context"))
        return await self._run(agent, asked, {"id": self._new_id(), **options})

    async def resume(self, agent: Agent[Any], state: Any, **options: Any) -> Any:
        """Go on with the same run, on the worker that has it."""
        return await self._run(agent, state, options)

    async def stream(
        self, agent: Agent[Any], asked: Input = "Hello", *, model: ScriptedModel, **options: Any
    ) -> Any:
        """Run on the server and read along."""
        await self._serve(agent, model, options.get("context"))
        return self._streamed(agent, asked, id=self._new_id(), **options)

    async def resume_streamed(self, agent: Agent[Any], state: Any, **options: Any) -> Any:
        """Go on with the same run and read along."""
        return self._streamed(agent, state, **options)

    async def until_cancel_is_known(self) -> None:
        """Ask the run until it says so."""
        handle = RunHandle(self._client, self._ids[-1])
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for progress in progress_of(handle):
                if progress.state.cancel is not None or progress.state.phase == "closed":
                    return

    async def close(self) -> None:
        """Check that no workflow task failed and every history replays, and stop the workers."""
        try:
            histories = [one async for one in self._histories()]
            failed = [task for _, events in histories for task in failed_tasks(events)]
            assert not failed, failed
            await replay(self._client, histories)
        finally:
            for run_id in self._ids:
                await terminate_if_open(self._client, run_id)
            await asyncio.gather(*(worker.__aexit__(None, None, None) for worker in self._workers))

    def _streamed(self, agent: Agent[Any], asked: Any, **options: Any) -> Any:
        return Runner.run_streamed(
            agent, asked, client=self._client, task_queue=self._queue, **options
        )

    async def _run(self, agent: Agent[Any], asked: Any, options: dict[str, Any]) -> Any:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await Runner.run(
                    agent, asked, client=self._client, task_queue=self._queue, **options
                )
        except TimeoutError as error:
            failed = [task async for _, e in self._histories() for task in failed_tasks(e)]
            message = f"the run does not end; its failed workflow tasks: {failed}"
            raise AssertionError(message) from error

    async def _serve(self, agent: Agent[Any], model: ScriptedModel, context: object) -> None:
        if self._served is not None and self._served[0] is agent and self._served[1] is model:
            return
        queue = f"queue-{secrets.token_hex(6)}"
        worker = AgentWorker(
            self._client,
            agents=[agent],
            task_queue=queue,
            model_provider=model,
            context_types=_context_types(context),
            graceful_shutdown_timeout=timedelta(milliseconds=100),
            **self._options,
        )
        await worker.__aenter__()
        self._workers.append(worker)
        self._served, self._queue = (agent, model), queue

    def _new_id(self) -> str:
        self._ids.append(f"run-{secrets.token_hex(6)}")
        return self._ids[-1]

    async def _histories(self) -> AsyncIterator[tuple[str, list[HistoryEvent]]]:
        """Yield the id and the history of all runs, those of nested agents included."""
        waiting = list(self._ids)
        while waiting:
            run_id = waiting.pop()
            if events := await self._history(run_id):
                yield run_id, events
                waiting += nested_runs(events)

    async def _history(self, run_id: str) -> list[HistoryEvent]:
        """Return what happened in a run; nothing, where it was refused before it started."""
        try:
            history = await self._client.get_workflow_handle(run_id).fetch_history()
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return []
            raise
        return list(history.events)
