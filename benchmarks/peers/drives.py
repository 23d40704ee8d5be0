"""How a subject is driven: its runs are started, decided, read, and examined when they end."""

import asyncio
import json
import secrets
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, cast

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.workflow_streams import WorkflowStreamClient
from temporalio.service import RPCError

from benchmarks.model_server import AGENTS, question
from benchmarks.peers.postgres import Postgres
from outlast import Runner
from outlast.client.handle import progress_of

WORDS = 50
"""What the model says in each turn of a streamed run; it takes a second."""

_DRAINED = "__pydantic_ai_agent_events_drained"
"""The signal with which pydantic-ai's reader confirms the last event."""


@dataclass
class Stored:
    """What is stored of a run.

    Attributes:
        bytes: of its history, or of its rows.
        events: of its history, or the number of its rows.
        history: the events; None where it has no history.
    """

    bytes: int = 0
    events: int = 0
    history: list[HistoryEvent] | None = None


@dataclass(frozen=True)
class Conversation:
    """The conversation of a cell."""

    turns: int
    variant: str

    @property
    def question(self) -> str:
        """What is asked."""
        return question(
            self.turns,
            handoff_every=5 if self.variant == "handoffs" else 0,
            words=WORDS if self.variant == "streamed" else 0,
        )


class SubjectFailedError(Exception):
    """A program answered with an error; the message is the program's."""


class Drive(Protocol):
    """Drives one subject."""

    async def run(self, run_id: str, conversation: Conversation) -> str:
        """Execute a run to its end, or go on with it, and return its answer."""
        ...

    async def stored(self, run_id: str) -> Stored:
        """Return what is stored of a run."""
        ...

    async def autopsy(self, run_id: str) -> str:
        """Say what is wrong with a run that did not end in time, and end it."""
        ...


def new_id(subject: str) -> str:
    """Return the id of a new run."""
    return f"{subject}-{secrets.token_hex(6)}"


def cause_of(error: Exception) -> Exception:
    """Return the first error of a group of errors, or the error itself."""
    while isinstance(error, ExceptionGroup):
        error = cast("Exception", error.exceptions[0])
    return error


@dataclass
class TemporalDrive:
    """A workflow of a subject on Temporal, started with a client."""

    client: Client
    queue: str
    workflow: str

    async def run(self, run_id: str, conversation: Conversation) -> str:
        """Start the workflow, decide and read where it has to be, and return the answer."""
        handle = self.client.get_workflow_handle(run_id)
        try:
            await self.start(run_id, conversation)
        except RPCError as error:
            if "already" not in str(error):
                raise
        async with asyncio.TaskGroup() as beside:
            if conversation.variant == "approvals":
                beside.create_task(self.approve(handle, conversation.turns - 1))
            reading = None
            if conversation.variant == "streamed":
                reading = beside.create_task(self.read(handle))
            answer = str(await handle.result())
            if reading is not None:
                reading.cancel()
        return answer

    async def start(self, run_id: str, conversation: Conversation) -> None:
        """Start the workflow."""
        arguments: list[Any] = [conversation.question]
        if self.workflow == "Notes":
            arguments += [conversation.turns, conversation.variant]
        await self.client.start_workflow(
            self.workflow, args=arguments, id=run_id, task_queue=self.queue
        )

    async def approve(self, handle: WorkflowHandle[Any, Any], calls: int) -> None:
        """Approve each call, with an update that waits for the call."""
        for _ in range(calls):
            await cast("Any", handle).execute_update("approve")

    async def read(self, handle: WorkflowHandle[Any, Any]) -> None:
        """Read the events of the models as a user's interface does."""
        stream = WorkflowStreamClient.create(self.client, handle.id)
        async for item in stream.subscribe("events"):
            token = cast("dict[str, str]", item.data).get("drain_token")
            if token:
                await handle.signal(_DRAINED, token)

    async def stored(self, run_id: str) -> Stored:
        """Return the history of the run, and of those that it continued in."""
        stored, execution = Stored(history=[]), None
        assert stored.history is not None
        while True:
            handle = self.client.get_workflow_handle(run_id, run_id=execution)
            info = (await handle.describe()).raw_description.workflow_execution_info
            if execution is None and info.first_run_id not in {"", info.execution.run_id}:
                execution = info.first_run_id
                continue
            stored.bytes += info.history_size_bytes
            stored.events += info.history_length
            events = [event async for event in handle.fetch_history_events()]
            stored.history += events
            execution = (
                events[-1].workflow_execution_continued_as_new_event_attributes
            ).new_execution_run_id
            if not execution:
                return stored

    async def autopsy(self, run_id: str) -> str:
        """Say what the server knows of the run, and terminate it."""
        handle = self.client.get_workflow_handle(run_id)
        found: Counter[str] = Counter()
        with suppress(RPCError):
            async for event in handle.fetch_history_events():
                words = _failure(event)
                if words:
                    found[words] += 1
            described = await handle.describe()
            for pending in described.raw_description.pending_activities:
                if pending.HasField("last_failure"):
                    found[f"{pending.activity_type.name}: {pending.last_failure.message}"] += 1
            if described.status is not None and described.status.name != "RUNNING":
                found[f"the run is {described.status.name}"] += 1
            else:
                await handle.terminate("the benchmark's time is over")
        return "; ".join(f"{words[:300]} ({times} times)" for words, times in found.items())


def _failure(event: HistoryEvent) -> str:
    """Return what an event says of a failure."""
    kind = EventType.Name(event.event_type).removeprefix("EVENT_TYPE_").lower().replace("_", " ")
    for attributes in (
        event.workflow_task_failed_event_attributes,
        event.activity_task_failed_event_attributes,
        event.workflow_execution_failed_event_attributes,
    ):
        if attributes.HasField("failure"):
            failure = attributes.failure
            while failure.HasField("cause"):
                failure = failure.cause
            return f"{kind}: {failure.message}"
    if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
        return f"{kind}: {event.workflow_execution_terminated_event_attributes.reason}"
    timed_out = {
        EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT,
        EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT,
    }
    return kind if event.event_type in timed_out else ""


@dataclass
class OutlastDrive(TemporalDrive):
    """outlast, with its own client."""

    async def run(self, run_id: str, conversation: Conversation) -> str:
        """Start the run and return its answer."""
        if conversation.variant == "streamed":
            options: dict[str, Any] = {"client": self.client, "task_queue": self.queue}
            streamed = Runner.run_streamed(
                AGENTS[0], conversation.question, id=run_id, max_turns=None, **options
            )
            async for _ in streamed.stream_events():
                pass
            return str(streamed.final_output)
        return await super().run(run_id, conversation)

    async def start(self, run_id: str, conversation: Conversation) -> None:
        """Start the run."""
        await Runner.start(
            AGENTS[0],
            conversation.question,
            id=run_id,
            max_turns=None,
            client=self.client,
            task_queue=self.queue,
        )

    async def approve(self, handle: WorkflowHandle[Any, Any], calls: int) -> None:
        """Approve each call as it is requested."""
        run = await Runner.attach(handle.id, client=self.client)
        decided: set[str] = set()
        async for progress in progress_of(run):
            for request in progress.state.pending_approvals:
                if request.id not in decided:
                    decided.add(request.id)
                    await run.approve(request.id)
            if len(decided) == calls:
                return


def _size(value: object) -> int:
    """Return the bytes of a column's value."""
    if value is None:
        return 0
    if isinstance(value, bytes):
        return len(value)
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return len(text.encode())


@dataclass
class ProgramDrive:
    """A program that takes requests on a socket, with its database.

    Attributes:
        port: of the program.
        store: its PostgreSQL server; None: its database is a file of SQLite.
        database: the name of the database, or the file.
        tables: by table, the column with the run's id.
    """

    port: int
    store: Postgres | None
    database: str
    tables: dict[str, str]

    async def run(self, run_id: str, conversation: Conversation) -> str:
        """Send the request, approve calls that wait, and return the answer."""
        async with asyncio.TaskGroup() as beside:
            if conversation.variant == "approvals":
                beside.create_task(self._approve(run_id, conversation.turns - 1))
            request = {"question": conversation.question, "turns": conversation.turns}
            return await self._ask({"do": "run", "id": run_id, **request})

    async def _approve(self, run_id: str, calls: int) -> None:
        for _ in range(calls):
            await self._ask({"do": "approve", "id": run_id})

    async def _ask(self, request: dict[str, Any]) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**24)
        try:
            writer.write(json.dumps(request).encode() + b"\n")
            while line := await reader.readline():
                said = json.loads(line)
                if "answer" in said:
                    return said["answer"]
                if "error" in said:
                    raise SubjectFailedError(said["error"])
        finally:
            writer.close()
        raise ConnectionError("the program ended")

    async def stored(self, run_id: str) -> Stored:
        """Return the size and the number of the run's rows."""
        if self.store is None:
            return await asyncio.to_thread(self._stored_in_file, run_id)
        stored = Stored()
        for table, column in self.tables.items():
            sql = f"SELECT * FROM {table} WHERE {column} = %s"
            for row in await self.store.query(self.database, sql, run_id):
                stored.bytes += sum(_size(one) for one in row)
                stored.events += 1
        return stored

    def _stored_in_file(self, run_id: str) -> Stored:
        import sqlite3
        from contextlib import closing

        stored = Stored()
        with closing(sqlite3.connect(self.database, timeout=30)) as file:
            for table, column in self.tables.items():
                for row in file.execute(f"SELECT * FROM {table} WHERE {column} = ?", (run_id,)):
                    stored.bytes += sum(_size(one) for one in row)
                    stored.events += 1
        return stored

    async def autopsy(self, run_id: str) -> str:
        """Say nothing: what is wrong was in its answer, if there was one."""
        return ""
