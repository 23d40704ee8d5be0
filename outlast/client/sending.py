"""Sending something to a run, and what the refusals of a server mean.

Owns: updates that meet a moment in which the run takes none, and the translation of the engine's
errors into ours, and how much may be sent. Must not know: what is sent.
"""

import asyncio
import json
from typing import Any, Final

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
from outlast.client.raising import exception_of
from outlast.contract import names
from outlast.loop.values import Failure, JsonObject

UPDATE_WAITS_SECONDS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 2.0, 2.0, 2.0)
"""Between the attempts of an update that meets a workflow task that is being repeated."""

LARGEST_BYTES: Final = 1_900_000
"""A server takes 2 MB at a time. It lets a larger update through to the run, whose worker can
then never answer it: the run would stand still."""


def check_size(client: Client, payload: JsonObject) -> None:
    """Refuse what no server takes, before it is sent.

    Where the program has a codec or a store for large payloads, only that knows what is too large.

    Raises:
        UserError: it is too large.
    """
    converter = client.data_converter
    if converter.payload_codec is not None or converter.external_storage is not None:
        return
    size = len(json.dumps(payload, separators=(",", ":")))
    if size > LARGEST_BYTES:
        raise UserError(
            f"What is sent to the run has {size:,} bytes of JSON, of at most {LARGEST_BYTES:,}. "
            "Say it in several messages, or keep large data elsewhere and say where it is."
        )


class RunAddress:
    """Where a run is: what is said to it, and what the server says of it.

    Attributes:
        run_id: the workflow id.
        workflow: the engine's handle.
    """

    def __init__(self, client: Client, run_id: str) -> None:
        self.run_id = run_id
        self._client = client
        self.workflow: WorkflowHandle[Any, Any] = client.get_workflow_handle(run_id)

    async def update(self, name: str, payload: JsonObject, update_id: str) -> JsonObject:
        """Send an update, once, however often it has to be tried.

        Raises:
            RunClosed: the run has ended.
            RunNotFound: there is no such run.
            ServerUnavailable: the run did not take it in time.
            UserError: it is too large.
            AgentsException: the run refused it; the subclass says why.
        """
        check_size(self._client, payload)
        for wait_seconds in UPDATE_WAITS_SECONDS:
            try:
                return await self._update_once(name, payload, update_id)
            except RPCError as error:
                if not await self._is_passing(error):
                    raise await self.translated(error) from error
            await asyncio.sleep(wait_seconds)
        raise ServerUnavailable(
            f"The run {self.run_id} did not take it, many times over. Try again with the same id, "
            "and see in the Temporal UI whether its workflow tasks fail."
        )

    async def translated(self, error: RPCError) -> AgentsException:
        """Say what a refusal of the server means; it calls ended runs not found, too."""
        if error.status == RPCStatusCode.NOT_FOUND:
            try:
                description = await self.workflow.describe()
            except RPCError:
                return RunNotFound(
                    f"There is no run {self.run_id!r} in the namespace {self._client.namespace!r}. Is "
                    "the id right, and its history still retained?"
                )
            return self.closed(description)
        if error.status in {RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED}:
            return ServerUnavailable(f"The Temporal server does not answer: {error.message}")
        return AgentsException(f"The Temporal server refused: {error.message}")

    def checked(self, description: WorkflowExecutionDescription) -> WorkflowExecutionDescription:
        """Return what the server says of the run, if it is one.

        Raises:
            RunNotFound: it is another workflow, of which nothing here can be read.
        """
        if description.workflow_type != names.WORKFLOW:
            raise RunNotFound(
                f"{self.run_id!r} is no run of an agent: it is a workflow of the type "
                f"{description.workflow_type!r}. Is the id right?"
            )
        return description

    def closed(self, description: WorkflowExecutionDescription) -> RunClosed:
        """Say that the run has ended."""
        status = description.status.name.lower() if description.status else "closed"
        return RunClosed(
            f"The run {self.run_id} has ended ({status}). Start a new one; what was said in this "
            "one can still be read."
        )

    async def _is_passing(self, error: RPCError) -> bool:
        """Whether an update met a moment in which the run takes none; its id makes it one update.

        That is so while a workflow task is repeated, because something arrived at its end, and
        while the run goes on in a new history.
        """
        if error.status == RPCStatusCode.FAILED_PRECONDITION:
            return True
        if error.status != RPCStatusCode.NOT_FOUND:
            return False
        try:
            return (await self.workflow.describe()).close_time is None
        except RPCError:
            return False

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
                raise error.__cause__ from None  # the caller was cancelled, and has to notice
            raise ServerUnavailable(
                f"The run {self.run_id} did not take it in time. Is a worker running? It may still "
                "be taken later: try again with the same id."
            ) from error
