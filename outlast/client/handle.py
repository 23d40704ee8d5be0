"""A handle on one run: send, decide, cancel, wait, read.

All reading uses the run's history, so it works without a worker.
"""

import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from temporalio.client import Client, WorkflowExecutionDescription, WorkflowFailureError
from temporalio.service import RPCError

from outlast.agents.errors import DecisionRefused, RunClosed
from outlast.client import run_end
from outlast.client.content import outgoing, reader_of
from outlast.client.deltas import RawEvent, with_deltas
from outlast.client.history import Progress, RunReader
from outlast.client.known_agents import KnownAgents
from outlast.client.messages import check_cancel_mode, check_input
from outlast.client.nested_requests import run_of_request
from outlast.client.read_range import CaughtUp, Place, ReadRange, Request, is_settled
from outlast.client.result_members import RunSnapshot
from outlast.client.results import RunResult, error_of, result_of, result_of_answer, run_details
from outlast.client.run_address import RunAddress
from outlast.client.run_state import ENGINE
from outlast.client.stream import RawResponsesStreamEvent, StreamEvent, changes
from outlast.contract import names, records
from outlast.loop.approvals import ApprovalRequest, Decision
from outlast.loop.values import JsonObject
from outlast.ports.interpreter_end import wait_for_native_threads


@dataclass(frozen=True)
class SentMessage:
    """A message that a run has accepted; its answer comes later."""

    id: str
    handle: "RunHandle" = field(repr=False)

    async def answer(self) -> RunResult:
        """Wait until the message is answered, through approvals and however long.

        Raises:
            AgentsException: the question has no answer; the subclass says why.
        """
        return await self.handle.wait_for_answer(self.id)


class RunHandle:
    """A handle on one run, found by its id.

    Cheap to make; any number may exist.

    Args:
        client: connected to the run's server.
        run_id: the workflow id.
        known: the agents that this process defines; without it, results only have their names.
        from_engine: the client belongs to this process's own engine, which may be another one by
            the time the run resumes.
        patience: how long calls wait for a server that does not answer, or for a run that accepts
            nothing, before they raise `ServerUnavailable`; default: OUTLAST_PATIENCE_SECONDS, or
            five minutes.

    Attributes:
        id: the workflow id.
        client: the client.
        kept_client: what results keep: the client, or `ENGINE`.
    """

    def __init__(
        self,
        client: Client,
        run_id: str,
        known: KnownAgents | None = None,
        *,
        from_engine: bool = False,
        patience: timedelta | None = None,
    ) -> None:
        wait_for_native_threads()
        self.id = run_id
        self.client = client
        self.kept_client: Any = ENGINE if from_engine else client
        self._known = known or KnownAgents()
        self._known.content = reader_of(client)
        self._address = RunAddress(client, run_id, patience)
        self._patience = self._address.patience
        self._workflow = self._address.workflow

    def __repr__(self) -> str:
        return f"RunHandle({self.id!r})"

    async def check(self) -> WorkflowExecutionDescription:
        """Check that the run exists, and return the server's description of it.

        Raises:
            RunNotFound: there is no such run, or it is another workflow.
        """
        return self._address.checked(await self._address.ask(self._workflow.describe))

    async def result(self) -> RunResult:
        """Wait until the run is closed, through approvals and however long.

        Raises:
            RunCancelled: the run was cancelled.
            RunNotFound: there is no such run.
            AgentsException: the run failed; the subclass says why.
        """
        try:
            await self._address.ask(self._workflow.result)
        except WorkflowFailureError as error:
            raised = run_end.error_of_closing(error, await self.state(), self._known)
        else:
            return run_end.result_or_raise(await self.state(), self._known, self.kept_client)
        raise raised

    async def state(self) -> RunSnapshot:
        """Return the run's current state, read from its history; needs no worker.

        Raises:
            RunNotFound: there is no such run.
        """
        return (await self.present())[0]

    async def present(self) -> tuple[RunSnapshot, Place]:
        """Return the run's current state, and the place of its history to read on from.

        Raises:
            RunNotFound: there is no such run.
        """
        reader = RunReader(self.client, self.id, self._patience)
        try:
            state = await reader.catch_up()
        except RPCError as error:
            raise await self._address.translated(error) from error
        return state, reader.place

    async def wait_for_answer(self, message_id: str) -> RunResult:
        """Wait until a message is answered, through approvals and however long.

        Raises:
            RunCancelled: the run was cancelled before there was an answer.
            RunClosed: the run ended without answering this message.
            AgentsException: the question has no answer; the subclass says why.
        """
        state = await self._until(
            lambda state: any(message_id in answer.to for answer in state.answers)
        )
        for answer in state.answers:
            if message_id in answer.to:
                if answer.failure is not None:
                    raise error_of(answer.failure, state, self._known)
                return result_of_answer(state, answer, self._known, client=self.kept_client)
        result = await self.result()  # raises unless it completed
        raise RunClosed(
            f"The run {self.id} has ended and did not answer the message {message_id!r}.",
            run_data=run_details(result.snapshot, self._known),
        )

    async def wait_for_people(self) -> RunResult:
        """Wait until the run is closed, or needs a person or a message.

        Raises:
            RunCancelled: the run was cancelled.
            AgentsException: the question has no answer; the subclass says why.
        """
        return await self.wait_until_settled((await self.present())[1])

    async def wait_until_settled(
        self, since: Place | None, *, without: frozenset[Request] = frozenset()
    ) -> RunResult:
        """Like `wait_for_people`, but ignore earlier waits.

        Args:
            since: the place of the history up to which earlier waits are over.
            without: requests that were decided and no longer wait.

        Raises:
            AgentsException: as for `wait_for_people`.
        """
        state = await self._until(lambda one: is_settled(one, without), since)
        if not is_settled(state, without):  # ended by the engine
            return await self.result()
        return run_end.result_or_raise(state, self._known, self.kept_client)

    async def wait(self, condition: Callable[[RunSnapshot], bool]) -> RunResult:
        """Wait until the state satisfies a condition, or the run is closed."""
        return result_of(await self._until(condition), self._known, client=self.kept_client)

    async def _until(
        self, condition: Callable[[RunSnapshot], bool], since: Place | None = None
    ) -> RunSnapshot:
        """Return the first state that satisfies a condition, or the last state."""
        reader = RunReader(self.client, self.id, self._patience)
        present = CaughtUp(since, from_start=False)
        async with aclosing(self._follow(reader, from_start=False)) as following:
            async for _ in following:
                if present.is_reached(reader.place) and condition(reader.state):
                    break
        return reader.state

    async def follow(self, *, from_start: bool = True) -> AsyncIterator[Progress]:
        """Yield every event of the run with the state after it, until it is closed.

        Args:
            from_start: begin with the run's first event; otherwise with its state when it last
                continued as new, which is faster for a long conversation.

        Raises:
            RunNotFound: there is no such run.
        """
        reader = RunReader(self.client, self.id, self._patience)
        async with aclosing(self._follow(reader, from_start=from_start)) as following:
            async for progress in following:
                yield progress

    async def _follow(self, reader: RunReader, *, from_start: bool) -> AsyncGenerator[Progress]:
        try:
            async with aclosing(reader.follow(from_start=from_start)) as following:
                async for progress in following:
                    yield progress
        except RPCError as error:
            raise await self._address.translated(error) from error

    async def read_along(self, read_range: ReadRange) -> AsyncGenerator[RunSnapshot | RawEvent]:
        """Yield the run's states and the models' events, until the run is settled.

        Args:
            read_range: the part of the run to read; the first state is the one where it begins.

        Raises:
            RunNotFound: there is no such run.
            AgentsException: the engine ended the run.
        """
        from_start = read_range.begins is None
        reader = RunReader(self.client, self.id, self._patience)
        begun = CaughtUp(read_range.begins, from_start=from_start)
        present = CaughtUp(read_range.settles, from_start=from_start)
        following = with_deltas(self._follow(reader, from_start=from_start), self.client, self.id)
        seen = 0
        if from_start:
            yield RunSnapshot()
        async with aclosing(following) as events:
            async for one in events:
                if not begun.is_reached(reader.place):
                    continue
                if isinstance(one, Progress):
                    await self._known.content.prefetch(one.state.items[seen:])
                    seen = len(one.state.items)
                yield one.state if isinstance(one, Progress) else one
                settled = isinstance(one, Progress) and present.is_reached(reader.place)
                if settled and is_settled(reader.state, read_range.without):
                    return
        await self.result()  # ended by the engine: raises its error

    async def stream_events(self, from_event: int = 0) -> AsyncIterator[StreamEvent]:
        """Yield the run's events from the first one on, until it is closed.

        Events and their numbers are the same for every reader at any time, also across
        continue-as-new. Between them come the models' events, without numbers: in pieces for a live
        reader, in one piece for a late reader, before the items of the reply. Needs no worker.

        Args:
            from_event: the number of the first event wanted: the last number seen plus one.

        Raises:
            RunNotFound: there is no such run.
        """
        before, number = RunSnapshot(), 0
        reader = RunReader(self.client, self.id, self._patience)
        following = with_deltas(self._follow(reader, from_start=True), self.client, self.id)
        async with aclosing(following) as events:
            async for one in events:
                if not isinstance(one, Progress):
                    if number >= from_event:
                        yield RawResponsesStreamEvent(raw=one, next_id=number)
                    continue
                await self._known.content.prefetch(one.state.items[len(before.items) :])
                for event in changes(before, one.state, number, self._known):
                    number = event.id + 1
                    if event.id >= from_event:
                        yield event
                before = one.state

    async def send(
        self, input: str | list[JsonObject], *, message_id: str | None = None
    ) -> SentMessage:
        """Send a message. Returns when the run has accepted it, even while the run is busy.

        Args:
            input: a text, or Responses items.
            message_id: makes a repeated call the same message; default: a new id.

        Raises:
            RunClosed: the run has ended; nothing was sent.
            RunNotFound: there is no such run.
            UserError: the input is neither text nor items, or too large.
        """
        said = check_input(input)
        message_id = message_id or f"m-{secrets.token_hex(8)}"
        record = records.SendRecord(input=said, message_id=message_id)
        record = await outgoing(self.client, record)
        await self._address.update(names.UPDATE_SEND, records.write(record), message_id)
        return SentMessage(message_id, self)

    async def approvals(self) -> tuple[ApprovalRequest, ...]:
        """Return the pending approval requests, here and in nested runs."""
        return (await self.state()).pending_approvals

    async def approve(
        self,
        approval_id: str,
        *,
        by: str | None = None,
        args_digest: str | None = None,
        always: bool = False,
    ) -> None:
        """Approve a call, here or in a nested run.

        Args:
            approval_id: the id of the request, such as `a1`, or `e3.a1` in a nested run.
            by: who decides.
            args_digest: the digest of the arguments that the person saw; if set, it must match the
                call's.
            always: also approve every further call of this tool by this agent in this run.

        Raises:
            DecisionRefused: the request is unknown or already decided; nothing has changed.
        """
        decision = Decision(
            request_id=approval_id,
            type="approve",
            by=by,
            channel="client",
            args_digest=args_digest,
            remember=always,
        )
        await self.decide(decision)

    async def reject(
        self,
        approval_id: str,
        *,
        message: str | None = None,
        by: str | None = None,
        args_digest: str | None = None,
        always: bool = False,
    ) -> None:
        """Reject a call; the model reads `message` as its output.

        Raises:
            DecisionRefused: the request is unknown or already decided; nothing has changed.
        """
        decision = Decision(
            request_id=approval_id,
            type="reject",
            message=message,
            by=by,
            channel="client",
            args_digest=args_digest,
            remember=always,
        )
        await self.decide(decision)

    async def decide(self, decision: Decision, *, nested_id: str | None = None) -> None:
        """Send a decision to the run whose request it answers.

        Args:
            decision: the decision.
            nested_id: the nested run, if it is known; empty for this run itself.

        Raises:
            DecisionRefused: the request is unknown or already decided; nothing has changed.
        """
        request_id, taken = decision.request_id, None
        if nested_id is None and "." in request_id:  # an id of a nested run
            nested_id, taken = await run_of_request(request_id, await self.state(), self.client)
        address = RunAddress(self.client, nested_id, self._patience) if nested_id else self._address
        payload = records.write(decision)
        taken = taken or await address.update(names.UPDATE_DECIDE, payload, request_id)
        wanted = "approved" if decision.type == "approve" else "rejected"
        if taken["status"] != wanted or taken["by"] != decision.by:
            # The same update id: Temporal returned the result of another person's decision.
            who = f" by {taken['by']}" if taken["by"] else ""
            raise DecisionRefused(f"Approval {request_id} is already {taken['status']}{who}.")

    async def cancel(self, mode: Literal["immediate", "after_turn"] = "immediate") -> None:
        """Stop the run, immediately or after its turn. Returns when the request has arrived.

        `after_turn` closes a conversation that waits for a message as completed.

        Raises:
            RunClosed: the run has ended already.
            RunNotFound: there is no such run.
        """
        check_cancel_mode(mode)
        if mode == "immediate":
            # The server accepts the cancellation of an ended workflow without an error.
            description = await self._address.ask(self._workflow.describe)
            if description.close_time is not None:
                raise self._address.closed(description)
            await self._address.ask(self._workflow.cancel)
        else:
            payload: JsonObject = {"mode": mode}
            await self._address.ask(lambda: self._workflow.signal(names.SIGNAL_CANCEL, payload))
