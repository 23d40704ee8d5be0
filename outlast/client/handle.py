"""A handle on one run: say more, decide, cancel, wait, look.

Owns: `RunHandle`. Everything it reads comes from the run's history, so reading works while no
worker runs. Must not know: how a run is started.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.errors import (
    AgentsException,
    DecisionRefused,
    RunCancelled,
    RunClosed,
    RunNotFound,
    ServerUnavailable,
)
from outlast.client.history import Progress, RunReader
from outlast.client.messages import check_input
from outlast.client.results import RunResult, error_of, result_of, result_of_answer
from outlast.client.stream import StreamEvent, changes
from outlast.contract import failures, names, records
from outlast.loop.approvals import ApprovalRequest, Decision, DecisionType
from outlast.loop.state import RunState
from outlast.loop.values import Failure, JsonObject

UPDATE_WAITS_SECONDS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 2.0, 2.0, 2.0)
"""Between the attempts of an update that meets a workflow task that is being repeated."""


@dataclass(frozen=True)
class SentMessage:
    """A message that a run has taken; its answer comes later."""

    id: str
    handle: "RunHandle" = field(repr=False)

    async def answer(self) -> RunResult:
        """Wait until the message is answered, through approvals and whatever it takes.

        Raises:
            AgentsException: the question could not be answered; the subclass says why.
        """
        return await self.handle.wait_for_answer(self.id)


class RunHandle:
    """A run, by its id. Costs nothing to make; any number may exist."""

    def __init__(self, client: Client, run_id: str) -> None:
        self.id = run_id
        self._client = client
        self._workflow: WorkflowHandle[Any, Any] = client.get_workflow_handle(run_id)

    def __repr__(self) -> str:
        return f"RunHandle({self.id!r})"

    async def check(self) -> None:
        """Make sure that there is such a run.

        Raises:
            RunNotFound: there is none.
        """
        try:
            await self._workflow.describe()
        except RPCError as error:
            raise await self._translated(error) from error

    async def result(self) -> RunResult:
        """Wait until the run is closed, through approvals, for as long as it takes.

        Raises:
            RunCancelled: it was cancelled.
            RunNotFound: there is no such run.
            AgentsException: it failed; the subclass says why.
        """
        failed: WorkflowFailureError | None = None
        try:
            await self._workflow.result()
        except WorkflowFailureError as error:
            failed = error
        except RPCError as error:
            raise await self._translated(error) from error
        state = await self.state()
        if failed is not None:
            raise _error_of_closing(failed, state) from failed
        if state.outcome == "cancelled":
            raise RunCancelled(f"The run {self.id} was cancelled.", run_data=result_of(state))
        return result_of(state)

    async def state(self) -> RunState:
        """Return where the run is now, read from its history; needs no worker.

        Raises:
            RunNotFound: there is no such run.
        """
        try:
            return await RunReader(self._client, self.id).catch_up()
        except RPCError as error:
            raise await self._translated(error) from error

    async def wait_for_answer(self, message_id: str) -> RunResult:
        """Wait until a message is answered, through approvals and whatever it takes.

        Raises:
            RunCancelled: the run was cancelled before there was an answer.
            RunClosed: the run ended otherwise and did not answer this message.
            AgentsException: the question could not be answered; the subclass says why.
        """
        state = await self._until(
            lambda state: any(message_id in answer.to for answer in state.answers)
        )
        for answer in state.answers:
            if message_id in answer.to:
                if answer.failure is not None:
                    raise error_of(answer.failure, state)
                return result_of_answer(state, answer)
        result = await self.result()  # it ended without an answer, and says how
        raise RunClosed(
            f"The run {self.id} has ended and did not answer the message {message_id!r}.",
            run_data=result,
        )

    async def wait_for_people(self) -> RunResult:
        """Wait until the run is closed, or can go no further without a person or a message.

        Raises:
            RunCancelled: it was cancelled.
            AgentsException: what was asked could not be answered; the subclass says why.
        """
        now = state = await self.state()
        if now.status == "running":
            # The history also tells of every time the run waited before; those are over.
            state = await self._until(
                lambda one: one.status in {"waiting", "idle"} and _moves(one) >= _moves(now)
            )
        if state.status not in {"waiting", "idle"}:
            return await self.result()
        if state.failure is not None:
            raise error_of(state.failure, state)
        return result_of(state)

    async def wait(self, condition: Callable[[RunState], bool]) -> RunResult:
        """Wait until the state satisfies a condition, or the run is closed."""
        return result_of(await self._until(condition))

    async def _until(self, condition: Callable[[RunState], bool]) -> RunState:
        """Return the first state that satisfies a condition, or the last state there is."""
        state = RunState()
        async for progress in self.follow(from_start=False):
            state = progress.state
            if condition(state):
                break
        return state

    async def follow(self, *, from_start: bool = True) -> AsyncIterator[Progress]:
        """Yield every event of the run with the state after it, until it is closed.

        Args:
            from_start: begin with the run's first event; or else with the state it has had since
                it last continued as new, which is quicker for a long conversation.

        Raises:
            RunNotFound: there is no such run.
        """
        try:
            async for progress in RunReader(self._client, self.id).follow(from_start=from_start):
                yield progress
        except RPCError as error:
            raise await self._translated(error) from error

    async def stream_events(self, from_event: int = 0) -> AsyncIterator[StreamEvent]:
        """Yield what happens in the run, from its first event on, until it is closed.

        The events and their numbers are the same for every reader and every reading, while the
        run works and after it has ended, also across continue-as-new. Needs no worker.

        Args:
            from_event: the number of the first event wanted: one more than the last one seen.

        Raises:
            RunNotFound: there is no such run.
        """
        before, number = RunState(), 0
        async for progress in self.follow():
            for event in changes(before, progress.state, number):
                number = event.id + 1
                if event.id >= from_event:
                    yield event
            before = progress.state

    async def send(
        self, input: str | list[JsonObject], *, message_id: str | None = None
    ) -> SentMessage:
        """Say something more. Returns when the run has taken it, also while the run is busy.

        Args:
            input: a text, or Responses items.
            message_id: makes a repeated call the same message; default a new id.

        Raises:
            RunClosed: the run has ended; nothing was said.
            RunNotFound: there is no such run.
            UserError: the input is neither.
        """
        check_input(input)
        message_id = message_id or f"m-{secrets.token_hex(8)}"
        record = records.SendRecord(input=input, message_id=message_id)
        await self._update(names.UPDATE_SEND, records.write(record), message_id)
        return SentMessage(message_id, self)

    async def approvals(self) -> tuple[ApprovalRequest, ...]:
        """Return what people have to decide before the run can go on."""
        return (await self.state()).pending_approvals

    async def approve(
        self, approval_id: str, *, by: str | None = None, args_digest: str | None = None
    ) -> None:
        """Let a call run.

        Args:
            approval_id: which request, such as `a1`.
            by: who decides.
            args_digest: the digest of the arguments that were seen; when given, the decision only
                counts for them.

        Raises:
            DecisionRefused: the request is unknown or already decided; nothing has changed.
        """
        await self._decide(approval_id, "approve", None, by, args_digest)

    async def reject(
        self,
        approval_id: str,
        *,
        message: str | None = None,
        by: str | None = None,
        args_digest: str | None = None,
    ) -> None:
        """Do not let a call run; the model reads `message` as its output.

        Raises:
            DecisionRefused: the request is unknown or already decided; nothing has changed.
        """
        await self._decide(approval_id, "reject", message, by, args_digest)

    async def cancel(self, mode: Literal["immediate", "after_turn"] = "immediate") -> None:
        """Stop the run: at once, or after the turn it is in. Returns when the wish has arrived.

        A conversation that waits for its next message is closed as completed by `after_turn`.

        Raises:
            RunClosed: the run has ended already.
            RunNotFound: there is no such run.
        """
        try:
            if mode == "immediate":
                # The server takes a cancel of an ended workflow without a word.
                description = await self._workflow.describe()
                if description.close_time is not None:
                    raise _closed(self.id, description)
                await self._workflow.cancel()
            else:
                await self._workflow.signal(names.SIGNAL_CANCEL, {"mode": mode})
        except RPCError as error:
            raise await self._translated(error) from error

    async def _decide(
        self,
        approval_id: str,
        decision: DecisionType,
        message: str | None,
        by: str | None,
        args_digest: str | None,
    ) -> None:
        record = Decision(
            request_id=approval_id,
            type=decision,
            message=message,
            by=by,
            channel="client",
            args_digest=args_digest,
        )
        taken = await self._update(names.UPDATE_DECIDE, records.write(record), approval_id)
        wanted = "approved" if decision == "approve" else "rejected"
        if taken["status"] != wanted or taken["by"] != by:
            # The same update id: Temporal answered with what somebody else had decided.
            who = f" by {taken['by']}" if taken["by"] else ""
            raise DecisionRefused(f"Approval {approval_id} is already {taken['status']}{who}.")

    async def _update(self, name: str, payload: JsonObject, update_id: str) -> JsonObject:
        for wait_seconds in UPDATE_WAITS_SECONDS:
            try:
                return await self._update_once(name, payload, update_id)
            except RPCError as error:
                if not await self._is_passing(error):
                    raise await self._translated(error) from error
            await asyncio.sleep(wait_seconds)
        raise ServerUnavailable(
            f"The run {self.id} did not take it, many times over. Try again with the same id, and "
            "see in the Temporal UI whether its workflow tasks fail."
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
            return (await self._workflow.describe()).close_time is None
        except RPCError:
            return False

    async def _update_once(self, name: str, payload: JsonObject, update_id: str) -> JsonObject:
        try:
            return await self._workflow.execute_update(  # pyright: ignore[reportUnknownMemberType]  the SDK's own annotation
                name, payload, id=update_id
            )
        except WorkflowUpdateFailedError as error:
            cause = error.cause
            if isinstance(cause, ApplicationError):
                failure = Failure(code=cause.type or "", message=cause.message)
                raise error_of(failure) from error
            raise
        except WorkflowUpdateRPCTimeoutOrCancelledError as error:
            if isinstance(error.__cause__, asyncio.CancelledError):
                raise error.__cause__ from None  # the caller was cancelled, and has to notice
            raise ServerUnavailable(
                f"The run {self.id} did not take it in time. Is a worker running? It may still be "
                "taken later: try again with the same id."
            ) from error

    async def _translated(self, error: RPCError) -> AgentsException:
        """Say what a refusal of the server means; it calls ended runs not found, too."""
        if error.status == RPCStatusCode.NOT_FOUND:
            try:
                description = await self._workflow.describe()
            except RPCError:
                return RunNotFound(
                    f"There is no run {self.id!r} in the namespace {self._client.namespace!r}. Is "
                    "the id right, and its history still retained?"
                )
            return _closed(self.id, description)
        if error.status in {RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED}:
            return ServerUnavailable(f"The Temporal server does not answer: {error.message}")
        return AgentsException(f"The Temporal server refused: {error.message}")


def _moves(state: RunState) -> tuple[int, int]:
    """How often the run went on, by a model call or by a decision. Both only ever grow."""
    return state.turns, sum(one.status != "pending" for one in state.approvals)


def _closed(run_id: str, description: WorkflowExecutionDescription) -> RunClosed:
    status = description.status.name.lower() if description.status else "closed"
    return RunClosed(
        f"The run {run_id} has ended ({status}). Start a new one; what was said in this one can "
        "still be read."
    )


def _error_of_closing(error: WorkflowFailureError, state: RunState) -> AgentsException:
    cause = error.cause
    match cause:
        case ApplicationError():
            failure = Failure(code=cause.type or failures.INTERNAL, message=cause.message)
            return error_of(failure, state)
        case CancelledError():
            return RunCancelled("The run was cancelled.", run_data=result_of(state))
        case TerminatedError():
            return RunCancelled(
                f"The run was terminated: {cause.message}", run_data=result_of(state)
            )
        case _:
            return AgentsException(f"The run failed: {cause}", run_data=result_of(state))
