"""Sends updates to a run, and translates the server's errors."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowHandle,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.errors import (
    AgentsException,
    RunClosed,
    RunNotFound,
    ServerUnavailable,
    UserError,
)
from outlast.archive import archive_of, workflow_handle
from outlast.archive.reading import as_not_found
from outlast.client.transport.exceptions import exception_of
from outlast.client.transport.executions import describe_newest
from outlast.client.transport.outages import (
    AWAY,
    is_transient,
    patience_of,
    retry_during_outage,
    unavailable,
    wait_seconds,
)
from outlast.client.transport.pollers import pollers
from outlast.contract import names, records
from outlast.loop.values import Failure, JsonObject

T = TypeVar("T")

FULL: Final = "total number of"
"""A part of the server's error when a history has its maximum number of updates."""

SHORTEST_PATIENCE: Final = timedelta(seconds=5)
"""The least time for an update, which is a round trip through a worker."""

PATIENCE_WITH_FULL: Final = timedelta(seconds=10)
"""How long to wait for a run with a full history to continue as new: most do after a step."""

UNSERVED_AFTER: Final = timedelta(seconds=5)
"""How long an update waits before the server is asked whether a worker polls for the run."""

MOST_KEPT_EVENTS: Final = 2_000
"""How many events a history may have for the server to keep one more signal without a worker.

A worker keeps histories below that. With many more, a workflow task takes longer than it may.
"""

MOST_KEPT_BYTES: Final = 10_000_000
"""How large a history may be, likewise: the server ends runs at 50 MB."""

SURELY_SMALL_BYTES: Final = 200_000
"""Payloads with fewer bytes of JSON are not encoded to measure them: no codec adds that much."""


def no_such_run(run_id: str, namespace: str) -> RunNotFound:
    """Return the error that there is no run with an id, or none that its caller may see."""
    return RunNotFound(
        f"There is no run {run_id!r} in the namespace {namespace!r}. Is the id right, and is its "
        "history still retained?"
    )


def _can_be(run_id: str) -> bool:
    """Whether a run may have the id: no request can name it otherwise."""
    try:
        run_id.encode()
    except UnicodeEncodeError:  # half a character
        return False
    return bool(run_id) and "\0" not in run_id


async def check_size(client: Client, payload: JsonObject) -> None:
    """Refuse a payload that the server would refuse, measured after encoding.

    With external storage in the client, large payloads go there and are not measured.
    """
    converter = client.data_converter
    if converter.external_storage is not None:
        return
    size = len(json.dumps(payload, separators=(",", ":")))
    if size > SURELY_SMALL_BYTES and converter.payload_codec is not None:
        encoded = converter.payload_converter.to_payloads([payload])
        encoded = await converter.payload_codec.encode(encoded)
        size = sum(one.ByteSize() for one in encoded)
    if size > records.LARGEST_BYTES:
        raise UserError(records.too_large(size))


class RunAddress:
    """The address of a run, with calls to its server.

    Args:
        client: connected to the run's server.
        run_id: the workflow id.
        patience: how long to wait for a silent server, or a run that accepts nothing.
        first: the run's first execution, so that nothing reaches a later run with its id; None
            means the newest run with the id at each call.
    """

    def __init__(
        self,
        client: Client,
        run_id: str,
        patience: timedelta | None = None,
        *,
        first: str | None = None,
    ) -> None:
        if not _can_be(run_id):
            raise no_such_run(run_id, client.namespace)
        self.run_id = run_id
        self.first = first
        self.patience: timedelta = patience_of(patience)
        self._client = client
        self._turns: dict[str, asyncio.Lock] = {}
        self._signalled = first
        self.workflow: WorkflowHandle[Any, Any] = workflow_handle(client, run_id, first=first)

    async def ask(self, call: Callable[[], Awaitable[T]]) -> T:
        """Call the server, wait through outages, and translate its errors."""
        async with self.errors():
            return await retry_during_outage(self._client, call, self.patience)

    @asynccontextmanager
    async def errors(self) -> AsyncGenerator[None]:
        """Raise our errors in the place of the server's while the block runs."""
        try:
            yield
        except RPCError as error:
            raise await self.translate(error) from error

    async def describe(self) -> WorkflowExecutionDescription:
        """Return the server's description of the run's newest execution.

        Raises:
            RPCError: there is no such run.
        """
        return await describe_newest(self._client, self.run_id, self.first)

    async def wait(self, execution_id: str | None = None) -> None:
        """Wait until an execution, and all that continue it, are closed; default: the first one.

        Raises:
            WorkflowFailureError: the last one failed, was cancelled or terminated.
        """
        execution = execution_id or self.first
        await self.ask(workflow_handle(self._client, self.run_id, execution).result)

    async def signal(self, name: str, payload: JsonObject) -> None:
        """Send a signal to the run's newest execution.

        Raises:
            RPCError: the run has ended, or there is no such run.
        """
        while True:
            execution = self._signalled
            try:
                await workflow_handle(self._client, self.run_id, execution).signal(name, payload)
            except RPCError as error:
                if execution is None or error.status != RPCStatusCode.NOT_FOUND:
                    raise
                self._signalled = (await self.describe()).run_id  # it has continued as new
                if self._signalled == execution:
                    raise
            else:
                return

    async def update(self, name: str, payload: JsonObject, update_id: str) -> JsonObject:
        """Send an update once, however often it has to be repeated.

        Updates with one name are sent one after the other, in the order of the calls. The server
        accepts ten at a time for a run and refuses further ones, which are repeated.

        Raises:
            RunClosed: the run has ended.
            RunNotFound: there is no such run.
            ServerUnavailable: the run did not accept it in time.
            UserError: the update is too large.
            AgentsException: the run refused it; the subclass says why.
        """
        await check_size(self._client, payload)
        seconds = max(self.patience, SHORTEST_PATIENCE).total_seconds()
        refusals: list[RPCError] = []
        turn = self._turns.setdefault(name, asyncio.Lock())
        try:
            async with asyncio.timeout(seconds), turn:
                return await self._update_until_accepted(name, payload, update_id, refusals)
        except TimeoutError:
            last = refusals[-1] if refusals else None
            raise self._not_accepted(seconds, last) from last

    async def update_if_served(
        self, name: str, payload: JsonObject, update_id: str
    ) -> JsonObject | None:
        """Send an update, as `update` does, unless no worker polls the task queue of the run.

        A worker that was killed counts for another minute.

        Returns:
            The answer of the run; None once there is no worker. The update is then given up.
        """
        updating = asyncio.create_task(self.update(name, payload, update_id))
        try:
            while True:
                await asyncio.wait((updating,), timeout=UNSERVED_AFTER.total_seconds())
                if updating.done():
                    return updating.result()
                if not await self._is_served():
                    return None
        finally:
            if updating.cancel():
                await asyncio.wait((updating,))

    async def _is_served(self) -> bool:
        """Whether a worker polls for the run; true if that is not known, and for ended runs."""
        try:
            description = await self.describe()
            if description.close_time is not None:
                return True
            return bool(await pollers(self._client, description.task_queue))
        except RPCError:
            return True

    async def keep(self, name: str, payload: JsonObject) -> None:
        """Send a signal: the server keeps it until a worker takes it.

        Raises:
            RunClosed: the run has ended.
            RunNotFound: there is no such run.
            ServerUnavailable: the server does not answer, or keeps much for the run already.
        """
        await self.ask(self._check_room)
        await self.ask(lambda: self.signal(name, payload))

    async def _check_room(self) -> None:
        """Refuse what would fill the history of the run up while no worker is there."""
        description = await self.describe()
        info = description.raw_description.workflow_execution_info
        if info.history_length < MOST_KEPT_EVENTS and info.history_size_bytes < MOST_KEPT_BYTES:
            return
        raise ServerUnavailable(
            f"The history of the run {self.run_id} has {info.history_length:,} events and "
            f"{info.history_size_bytes:,} bytes, and no worker takes what was sent. Start one, and "
            "repeat it with the same id."
        )

    def _not_accepted(self, seconds: float, last: RPCError | None) -> ServerUnavailable:
        if last is not None and last.status in AWAY:
            return unavailable(last, timedelta(seconds=seconds))
        reason = f" The server's last error: {last.message}." if last is not None else ""
        return ServerUnavailable(
            f"The run {self.run_id} did not accept it within {seconds:g} s.{reason} Is a worker "
            "running, and do its workflow tasks succeed? It may still be accepted: retry with the "
            "same id."
        )

    async def _update_until_accepted(
        self, name: str, payload: JsonObject, update_id: str, refusals: list[RPCError]
    ) -> JsonObject:
        began = asyncio.get_running_loop().time()
        while True:
            try:
                unique = await self._unique(name, update_id)
                return await self._update_once(name, payload, unique)
            except RPCError as error:
                refusals.append(error)
                waited = asyncio.get_running_loop().time() - began
                if is_full(error) and waited >= PATIENCE_WITH_FULL.total_seconds():
                    raise AgentsException(
                        f"The run {self.run_id} has reached the server's limit of messages and "
                        f"decisions for one history: {error.message} It accepts more after its "
                        "next step, when it continues as new."
                    ) from error
                if not await self._is_transient(error):
                    raise await self.translate(error) from error
            await asyncio.sleep(wait_seconds(len(refusals) - 1))

    async def translate(self, error: RPCError) -> AgentsException:
        """Return our error for a server's error; ended runs also count as not found."""
        if error.status == RPCStatusCode.NOT_FOUND:
            try:
                description = await retry_during_outage(self._client, self.describe, self.patience)
            except ServerUnavailable as outage:
                return outage
            except RPCError:
                return await self._not_found()
            # A run that is open now began after the call.
            is_open = description.close_time is None
            return await self._not_found() if is_open else self.closed_error(description)
        if is_transient(error):
            return unavailable(error)
        return AgentsException(f"The Temporal server refused: {error.message}")

    async def _not_found(self) -> RunNotFound:
        archive = archive_of(self._client)
        if archive is not None and self.run_id:
            buried = await archive.tombstones_of(self._client.namespace, self.run_id)
            if buried:
                at = datetime.fromtimestamp(buried[-1].asked_ms / 1_000, UTC)
                return RunNotFound(
                    f"The run {self.run_id!r} was deleted on request at {at:%Y-%m-%d %H:%M} UTC."
                )
        return no_such_run(self.run_id, self._client.namespace)

    def checked(self, description: WorkflowExecutionDescription) -> WorkflowExecutionDescription:
        """Return the server's description of a run, if the workflow is a run."""
        if description.workflow_type != names.WORKFLOW:
            raise RunNotFound(
                f"{self.run_id!r} is not a run of an agent, but a workflow of the type "
                f"{description.workflow_type!r}. Is the id right?"
            )
        return description

    def closed_error(self, description: WorkflowExecutionDescription) -> RunClosed:
        """Return the error that the run has ended."""
        status = description.status.name.lower() if description.status else "closed"
        status = "cancelled" if status == "canceled" else status
        return RunClosed(
            f"The run {self.run_id} has ended ({status}). Start a new run; this one can still be "
            "read."
        )

    async def _unique(self, name: str, update_id: str) -> str:
        """Return the id of an update; that of a decision, retry or delivery is valid once.

        A server keeps the ids of updates that a reset applies again, even if the run then refuses
        them: such a request could not be decided any more.
        """
        if name not in {"decide", names.UPDATE_RETRY, names.DELIVER}:
            return update_id
        return f"{update_id}@{(await self.describe()).run_id}"

    async def _is_transient(self, error: RPCError) -> bool:
        """Whether an update may be accepted later; its id makes it one update.

        This is true while a workflow task is repeated because a message arrived at its end, while
        the run continues as new, and while the server is busy or unavailable.
        """
        if is_transient(error) or error.status == RPCStatusCode.FAILED_PRECONDITION:
            return True
        if error.status != RPCStatusCode.NOT_FOUND:
            return False
        try:
            return (await self.describe()).close_time is None
        except RPCError as refusal:
            return is_transient(refusal)

    async def _update_once(self, name: str, payload: JsonObject, update_id: str) -> JsonObject:
        try:
            return await self.workflow.execute_update(  # pyright: ignore[reportUnknownMemberType]  the SDK's own annotation
                name, payload, id=update_id
            )
        except WorkflowUpdateFailedError as error:
            cause = error.cause
            if isinstance(cause, ApplicationError):
                failure = Failure(code=cause.type or "", message=cause.message)
                raise exception_of(failure) from error
            raise
        except WorkflowUpdateRPCTimeoutOrCancelledError as error:
            if isinstance(error.__cause__, asyncio.CancelledError):
                raise error.__cause__ from None  # the caller was cancelled, and must be
            if isinstance(error.__cause__, RPCError):
                raise error.__cause__ from error  # the server did not answer: retry
            raise


async def unless_gone(client: Client, run_id: str, call: Awaitable[T]) -> T | None:
    """Return what the server says about a run; None if it has nothing of it any more."""
    try:
        return await call
    except RPCError as error:
        if as_not_found(error).status is RPCStatusCode.NOT_FOUND:
            return None
        raise await RunAddress(client, run_id).translate(error) from error


def is_full(error: RPCError) -> bool:
    """Whether a history takes no more updates; the server's limit is 2,000."""
    return error.status == RPCStatusCode.FAILED_PRECONDITION and FULL in error.message
