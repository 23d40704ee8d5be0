"""A handle on one run: send, decide, take over, cancel, wait, read.

All reading uses the run's history, so it works without a worker.
"""

import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing, suppress
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Literal, TypeAlias

from temporalio.client import Client, WorkflowExecutionDescription, WorkflowFailureError

from outlast.agents.checks import check_printable
from outlast.agents.errors import RunClosed, UserError
from outlast.archive import workflow_handle
from outlast.client.people.actions import (
    MessageReceipt,
    outcome_of,
)
from outlast.client.people.cases import Cases
from outlast.client.people.nested_requests import (
    FoundRequest,
    found_requests,
    found_waits,
    present_requests,
)
from outlast.client.read import run_end
from outlast.client.read.delta_poller import RawEvent, with_deltas
from outlast.client.read.events import (
    RawResponsesStreamEvent,
    StreamedState,
    StreamEvent,
    changes,
)
from outlast.client.read.history import Progress, RunReader
from outlast.client.read.read_range import (
    CaughtUp,
    HistoryPlace,
    ReadRange,
    RequestKey,
    TakenIn,
    answer_to,
    is_settled,
)
from outlast.client.read.undelivered import notices_after_end
from outlast.client.results.local_definitions import LocalDefinitions
from outlast.client.results.pending_waits import PendingWait
from outlast.client.results.run_result import (
    RunResult,
    error_of,
    result_of,
    result_of_answer,
    run_details,
)
from outlast.client.results.run_state import ENGINE
from outlast.client.timeline import Step, Timeline
from outlast.client.transport.content import reader_of, with_content_stored
from outlast.client.transport.executions import first_of
from outlast.client.transport.messages import check_choice, check_input
from outlast.client.transport.reset import reset_to_failed_step
from outlast.client.transport.run_address import RunAddress
from outlast.client.trouble import server_facts
from outlast.contract import names, records
from outlast.edges.clock import now_ms
from outlast.edges.interpreter_end import wait_for_native_threads
from outlast.loop.actions import CancelMode, RetryRecord, WithdrawRecord
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.items import SendMode
from outlast.loop.notices import Undelivered
from outlast.loop.revision import revised
from outlast.loop.run_changes import ItemsRecorded, run_changes
from outlast.loop.state import LoopState, has_message
from outlast.loop.values import JsonObject
from outlast.tracing.provider import opentelemetry_caller
from outlast.tracing.receivers import REGISTRATION
from outlast.views.run import RunSnapshot, loop_state, snapshot_of
from outlast.views.trouble import Trouble, troubles

ReaderTest: TypeAlias = Callable[[RunReader], bool]
"""Whether a reader has read so far that the states of the run count."""


@dataclass(frozen=True)
class SentMessage:
    """A message that a run has accepted; its answer comes later.

    Attributes:
        id: the message's id.
        handle: the run.
    """

    id: str
    handle: "RunHandle" = field(repr=False)

    async def answer(self) -> RunResult:
        """Wait until the message is answered, through approvals and however long.

        Raises:
            AgentsException: the question has no answer; the subclass says why.
        """
        return await self.handle.wait_for_answer(self.id)

    def stream_events(self) -> AsyncGenerator[StreamEvent]:
        """Yield the run's events from the message's arrival to its answer.

        The text comes while it is written if the message was sent with `stream=True`; see
        `Runner.start` and `RunHandle.stream_events`. Approvals and takeovers are among the events.
        Numbers count from the first of them.

        Raises:
            AgentsException: the question has no answer; raised after all earlier events.
        """
        return self.handle.stream_answer(self.id)

    async def outcome(self) -> MessageReceipt:
        """Return the current outcome of the message; needs no worker."""
        return outcome_of(loop_state(await self.handle.state()), self.id)

    async def withdraw(self) -> MessageReceipt:
        """Take the message back, as long as no question has taken it.

        Raises:
            UserError: the run has taken it already.
            RunClosed: the run has ended.
        """
        return await self.handle.withdraw(self.id)


class RunHandle(Cases):
    """A handle on one run, found by its id; any number may exist.

    Its methods raise `RunNotFound` if there is no such run, and `ServerUnavailable` if the server
    does not answer for too long.

    Args:
        client: connected to the run's server.
        run_id: the workflow id.
        definitions: the agents that this process defines; without it, results only have their names.
        from_engine: the client belongs to this process's own engine, which may be another one by
            the time the run resumes.
        patience: how long calls wait for a server that does not answer, or for a run that accepts
            nothing; default: OUTLAST_PATIENCE_SECONDS, or five minutes.
        first_execution_id: the run's first execution, so that the handle stays on this run when
            another one uses its id later; None means the newest run with the id at each call.

    Attributes:
        id: the workflow id.
        client: the client.

    Raises:
        RunNotFound: no run can have the id, such as an empty one.
    """

    def __init__(
        self,
        client: Client,
        run_id: str,
        definitions: LocalDefinitions | None = None,
        *,
        from_engine: bool = False,
        patience: timedelta | None = None,
        first_execution_id: str | None = None,
    ) -> None:
        wait_for_native_threads()
        self.id = run_id
        self.client = client
        self.kept_client: Any = ENGINE if from_engine else client
        self._definitions = definitions or LocalDefinitions()
        self._definitions.content = reader_of(client)
        self._address = RunAddress(client, run_id, patience, first=first_execution_id)
        self._patience = self._address.patience
        self._stopped: RunReader | None = None  # where the last wait has stopped reading
        self._sent = set[str]()  # the messages that were sent since then

    @property
    def first_execution_id(self) -> str | None:
        """The run's first execution, or None if the handle is on the newest run with its id."""
        return self._address.first

    @property
    def patience(self) -> timedelta:
        """How long calls wait for a server that does not answer."""
        return self._patience

    def pinned(self, first_execution_id: str | None) -> "RunHandle":
        """Return a handle that stays on the run that began with an execution."""
        if first_execution_id in {None, self.first_execution_id}:
            return self
        handle = copy(self)
        address = RunAddress(self.client, self.id, self._patience, first=first_execution_id)
        handle._address = address  # noqa: SLF001  its own class
        return handle

    def __repr__(self) -> str:
        return f"RunHandle({self.id!r})"

    async def check(self) -> WorkflowExecutionDescription:
        """Check that the run exists, and return the server's description of it."""
        return self._address.checked(await self._address.ask(self._address.describe))

    async def result(self) -> RunResult:
        """Wait until the run is closed, through approvals and however long.

        Raises:
            RunCancelled: the run was cancelled.
            AgentsException: the run failed; the subclass says why.
        """
        if self.first_execution_id is None:
            return await self.pinned(first_of(await self.check())).result()
        execution = self.first_execution_id
        while True:
            failed: WorkflowFailureError | None = None
            try:
                await self._address.wait(execution)
            except WorkflowFailureError as error:
                failed = error
            state, reader = await self._caught_up()
            if reader.is_over and failed is None:
                break
            newest = (await self.check()).run_id
            if newest == execution:
                break
            execution = newest  # a reset has begun another one
        if failed is not None:
            raise run_end.error_of_closing(failed, state, self._definitions)
        return run_end.result_or_raise(state, self._definitions, self.kept_client)

    async def trouble(self) -> tuple[Trouble, ...]:
        """Return what keeps the run from going on, the most important first; needs no worker.

        The server has three seconds to answer; that it does not is a trouble, too. Texts are as
        everybody may read them. `outlast.views.trouble.words` makes sentences of it.
        """
        async with self._address.errors():
            facts = await server_facts(self.client, self.id, first=self.first_execution_id)
        state = (await self._caught_up())[0] if facts.answers else LoopState()
        return troubles(state, facts, now_ms())

    async def state(self) -> RunSnapshot:
        """Return the run's current state, read from its history; needs no worker."""
        return (await self.present())[0]

    async def present(self) -> tuple[RunSnapshot, HistoryPlace]:
        """Return the run's current state, and the place of its history to read on from."""
        state, reader = await self._caught_up()
        return snapshot_of(state), reader.place

    async def _caught_up(self) -> tuple[LoopState, RunReader]:
        """Return the run's current state, and the reader that has read it."""
        reader = reader_of_run(self)
        async with self._address.errors():
            state = await reader.catch_up()
        # A run that has just been started does not know its id yet.
        return state if state.run_id else revised(state, run_id=self.id), reader

    async def wait_for_answer(self, message_id: str) -> RunResult:
        """Wait until a message is answered, through approvals and however long.

        Raises:
            RunCancelled: the run was cancelled before there was an answer.
            RunClosed: the run ended without answering this message.
            UserError: the message was withdrawn.
            AgentsException: the question has no answer; the subclass says why.
        """
        arrived = False

        def is_answered(state: LoopState) -> bool:
            return answer_to(state, message_id) is not None

        def is_over(state: LoopState) -> bool:
            nonlocal arrived
            has = has_message(state, message_id)
            withdrawn, arrived = arrived and not has, arrived or has
            return withdrawn or is_answered(state)

        reader = await self._until(is_over, reader=self._reader_for(message_id))
        handle, state = self.pinned(reader.first), reader.state
        if arrived and not has_message(state, message_id):
            raise UserError(f"The message {message_id!r} was withdrawn, so nobody answers it.")
        answer = answer_to(state, message_id)
        if answer is not None and answer.failure is not None:
            # The question may have been retried since.
            since = _since((await handle.present())[1])
            state = (await handle._until(is_answered, since)).state  # noqa: SLF001  its own class
            answer = answer_to(state, message_id)
        if answer is not None and answer.failure is not None:
            raise error_of(answer.failure, state, self._definitions)
        if answer is not None:
            return result_of_answer(state, answer, self._definitions, client=self.kept_client)
        result = await handle.result()  # raises unless it completed
        raise RunClosed(
            f"The run {self.id} has ended and did not answer the message {message_id!r}.",
            run_data=run_details(loop_state(result.snapshot), self._definitions),
        )

    async def wait_for_people(self) -> RunResult:
        """Wait until the run is closed, or needs a person or a message.

        What had reached the run before the call is taken in first; see `wait`.
        """
        return await self._wait_until_settled(await self._taken_in())

    async def wait_until_settled(
        self, since: HistoryPlace | None, *, without: frozenset[RequestKey] = frozenset()
    ) -> RunResult:
        """Like `wait_for_people`, but ignore waits before `since` and decided requests."""
        return await self._wait_until_settled(_since(since), without)

    async def _wait_until_settled(
        self, present: ReaderTest, without: frozenset[RequestKey] = frozenset()
    ) -> RunResult:
        reader = await self._until(lambda one: is_settled(one, without), present)
        state = reader.state
        if not is_settled(state, without):  # ended by the engine
            return await self.pinned(reader.first).result()
        return run_end.result_or_raise(state, self._definitions, self.kept_client)

    async def wait(self, condition: Callable[[RunSnapshot], bool]) -> RunResult:
        """Wait until the run's state satisfies a condition, or the run is closed.

        The present state counts, and each one after it. The present state is the one in which the
        run has taken in everything that had reached it before the call, from any process: after
        `send`, a wait for "idle" waits for the answer. Past states do not count; `past` yields
        them.
        """
        present = await self._taken_in()
        state = (await self._until(lambda one: condition(snapshot_of(one)), present)).state
        return result_of(state, self._definitions, client=self.kept_client)

    async def _taken_in(self) -> ReaderTest:
        """Return whether a reader has seen the run take in everything that has reached it by now."""
        return TakenIn((await self._caught_up())[1]).is_reached

    async def _until(
        self,
        condition: Callable[[LoopState], bool],
        present: ReaderTest = lambda _: True,
        *,
        reader: RunReader | None = None,
    ) -> RunReader:
        """Return a reader that has read on until a condition is true, or the run is closed.

        Without `present`, past states count, too.
        """
        reader = reader or reader_of_run(self, each_task=True)
        async with aclosing(_translated(self, reader.follow(from_start=False))) as following:
            async for _ in following:
                if present(reader) and condition(reader.state):
                    break
        if reader.closed_by is None:
            self._stopped = reader
            self._sent.clear()
        await REGISTRATION.settled()  # the program may read what its processors have received
        return reader

    def _reader_for(self, message_id: str) -> RunReader | None:
        """Return the reader that stopped before a message, so that its answer is ahead of it."""
        reader = self._stopped
        if reader is None:
            return None
        # A reader that is past the message's withdrawal would wait for it for ever.
        if message_id not in self._sent and not has_message(reader.state, message_id):
            return None
        self._stopped = None  # no two waits read on with the same reader
        return reader

    async def past(self) -> AsyncGenerator[StreamedState]:
        """Yield every state of the run so far with the events that led to it; wait for no more.

        States and numbers are those of `stream_states`.
        """
        numbered = _Numbered(self._definitions, LoopState())
        async with aclosing(past_progress(self)) as steps:
            async for step in steps:
                for one in await numbered.take(step):
                    yield replace(one, is_present=True)

    async def read_states(self, read_range: ReadRange) -> AsyncGenerator[RunSnapshot | RawEvent]:
        """Yield the states of a range and the models' events, until the run is settled."""
        from_start = read_range.begins is None
        reader = reader_of_run(self)
        begun = CaughtUp(read_range.begins, from_start=from_start)
        present = CaughtUp(read_range.settles, from_start=from_start)
        following = with_deltas(
            _translated(self, reader.follow(from_start=from_start)),
            self.client,
            self.id,
            first=self.first_execution_id,
        )
        seen = 0
        if from_start:
            yield RunSnapshot()
        async with aclosing(following) as events:
            async for event in events:
                if not begun.is_reached(reader.place):
                    continue
                if isinstance(event, Progress):
                    await self._definitions.content.prefetch(event.state.items[seen:])
                    seen = len(event.state.items)
                yield snapshot_of(event.state) if isinstance(event, Progress) else event
                settled = isinstance(event, Progress) and present.is_reached(reader.place)
                if settled and read_range.is_settled(reader.state):
                    return
        await self.pinned(reader.first).result()  # ended by the engine: raises its error

    async def stream_events(self, from_event: int = 0) -> AsyncIterator[StreamEvent]:
        """Yield the run's events from the first one on, until it is closed.

        Events and their numbers are the same for every reader at any time, also across
        continue-as-new. Between them come the models' events, without numbers: in pieces for a live
        reader, in one piece for a late reader, before the items of the reply. Needs no worker.

        Args:
            from_event: the number of the first event wanted: the last number seen plus one.
        """
        async with aclosing(self._stream(progress_of(self), LoopState())) as events:
            async for event in events:
                if (event.next_id if event.id is None else event.id) >= from_event:
                    yield event

    async def stream_states(self) -> AsyncGenerator[StreamedState | RawResponsesStreamEvent]:
        """Yield the run's states with the events that led to each, until it is closed.

        The events are those of `stream_events`, with the same numbers, and the models' events come
        between the states. A state says whether the reader has caught up with the run. A signal that
        no worker has taken yields the same state again.
        """
        present = CaughtUp((await self.present())[1], from_start=True)
        reader = reader_of_run(self, each_signal=True)
        following = _translated(self, reader.follow(from_start=True))
        async with aclosing(self._states(following, LoopState())) as states:
            async for one in states:
                if isinstance(one, StreamedState):
                    yield replace(one, is_present=present.is_reached(one.place))
                else:
                    yield one

    async def stream_answer(self, message_id: str) -> AsyncGenerator[StreamEvent]:
        """Yield the events from a message to its answer; see `SentMessage.stream_events`."""

        def has_arrived(state: LoopState) -> bool:
            return has_message(state, message_id)

        def is_over(state: LoopState) -> bool:
            return answer_to(state, message_id) is not None or not has_arrived(state)

        progress = self._follow_since(has_arrived)
        async with aclosing(self._stream(progress, None, has_arrived, is_over)) as events:
            async for event in events:
                yield event
        await self.wait_for_answer(message_id)  # raises what has become of it

    async def _follow_since(self, begins: Callable[[LoopState], bool]) -> AsyncGenerator[Progress]:
        """Follow from the newest history, or from the first if `begins` held before it."""
        async with aclosing(progress_of(self, from_start=False)) as following:
            async for first in following:
                if begins(first.state):
                    break
                yield first
                async for progress in following:
                    yield progress
                return
        async with aclosing(progress_of(self)) as following:
            async for progress in following:
                yield progress

    async def _stream(
        self,
        progress: AsyncIterator[Progress],
        before: LoopState | None,
        begins: Callable[[LoopState], bool] = lambda _: True,
        ends: Callable[[LoopState], bool] = lambda _: False,
    ) -> AsyncGenerator[StreamEvent]:
        """Yield the events from `before`, or the first state that `begins` accepts, to one that `ends`."""
        async with aclosing(self._states(progress, before, begins, ends)) as states:
            async for one in states:
                for event in one.events if isinstance(one, StreamedState) else (one,):
                    yield event

    async def _states(
        self,
        progress: AsyncIterator[Progress],
        before: LoopState | None,
        begins: Callable[[LoopState], bool] = lambda _: True,
        ends: Callable[[LoopState], bool] = lambda _: False,
    ) -> AsyncGenerator[StreamedState | RawResponsesStreamEvent]:
        numbered = _Numbered(self._definitions, before)
        first = self.first_execution_id
        async with aclosing(with_deltas(progress, self.client, self.id, first=first)) as steps:
            async for one in steps:
                if not isinstance(one, Progress):
                    if numbered.before is not None:
                        yield RawResponsesStreamEvent(raw=one, next_id=numbered.next_id)
                    continue
                if numbered.before is None and begins(one.state):
                    numbered.before = one.state
                for state in await numbered.take(one):
                    yield state
                if numbered.before is not None and ends(numbered.before):
                    return

    async def send(
        self,
        input: str | list[JsonObject],
        *,
        message_id: str | None = None,
        mode: SendMode = "steer",
        stream: bool = False,
        author: str = "",
    ) -> SentMessage:
        """Send a message, and return when the run, even if busy, has accepted it.

        Args:
            input: a text, or Responses items.
            message_id: makes a repeated call the same message; default: a new id.
            mode: when a busy run takes it: `queue` after its answer; `steer` at its next model
                call; `interrupt` now: the model call under way is cancelled, and tools that have
                begun finish.
            stream: stream the model calls for the answer; a run that was started with
                `stream=True` streams all.
            author: the member of the team who writes in the customer's place: a policy with
                `exclude_requester` does not let them decide about what they ask for.

        Raises:
            RunClosed: the run has ended; nothing was sent.
            UserError: the input is neither text nor items, or too large.
        """
        content = check_input(input)
        check_choice("send(mode=...)", mode, SendMode)
        check_printable("send(message_id=...)", message_id or "")
        check_printable("send(author=...)", author, is_name=True)
        message_id = message_id or f"m-{secrets.token_hex(8)}"
        record = records.SendRecord(
            input=content,
            message_id=message_id,
            mode=mode,
            stream=stream,
            caller=opentelemetry_caller(),
            author=author,
        )
        record = await with_content_stored(self.client, record)
        if self._stopped is not None:
            self._sent.add(message_id)
        await self._address.update(names.UPDATE_SEND, records.write(record), message_id)
        return SentMessage(message_id, self)

    async def withdraw(self, message_id: str) -> MessageReceipt:
        """Take a message back that no question has taken; see `SentMessage.withdraw`."""
        payload = records.write(WithdrawRecord(message_id=message_id))
        await self._address.update(names.WITHDRAW, payload, f"withdraw-{message_id}")
        return MessageReceipt(run_id=self.id, message_id=message_id, status="withdrawn")

    async def retry(self) -> SentMessage:
        """Retry the last question, if it failed. Returns when the run has accepted the retry.

        Nothing is sent or recorded again, and what the failed try has done stays: the model reads
        the outputs of finished tool calls. An open conversation asks it by itself; a run that has
        failed and closed is reset to the step that failed.

        Returns:
            The question's last message, whose answer comes later.

        Raises:
            UserError: the last question has not failed.
        """
        state, reader = await self._caught_up()
        if state.outcome is None:
            count = len(state.answers)
            payload = records.write(RetryRecord(answers=count))
            await self._address.update(names.UPDATE_RETRY, payload, f"retry-{count}")
        else:
            async with self._address.errors():
                await reset_to_failed_step(self.client, state, reader.first)
        waiting = [message.id for message in state.inbox]
        answered = state.answers[-1].to if state.answers else ()
        return SentMessage([*waiting, *answered][-1], self)

    async def approvals(self) -> tuple[ApprovalRequest, ...]:
        """Return the pending approval requests, here and in nested runs.

        Each request is read from the run that made it.
        """
        return await present_requests((await self._caught_up())[0], self.client)

    async def requests(self) -> tuple[FoundRequest, ...]:
        """Return the pending requests, each with the run that made it; see `approvals`.

        `shown` of each is the request as everybody may see it.
        """
        return await found_requests((await self._caught_up())[0], self.client)

    async def timeline(self) -> tuple[Step, ...]:
        """Return what the run did, in the order in which each step began; needs no worker."""
        timeline = Timeline()
        async with aclosing(past_progress(self)) as steps:
            async for step in steps:
                timeline.take(step.event, step.state)
        return tuple(timeline.steps)

    async def pending_waits(self) -> tuple[PendingWait, ...]:
        """Return the calls that wait for something outside of the run; needs no worker.

        Calls of nested runs are among them; `run_id` says whose each is. `outlast.client.finish`
        finishes a wait.
        """
        return await found_waits((await self._caught_up())[0], self.client)

    async def undelivered(self) -> tuple[Undelivered, ...]:
        """Return the newest notices about this run that nobody has heard of; needs no worker."""
        (state, _), description = await self._caught_up(), await self.check()
        execution = description.run_id
        if state.outcome is None or not execution:
            return state.undelivered
        late = await self._address.ask(lambda: notices_after_end(self.client, execution))
        return (*state.undelivered, *late.undelivered)

    async def cancel(self, mode: Literal["immediate", "after_turn"] = "immediate") -> None:
        """Request to stop the run, immediately or after its turn.

        The method returns when the request has arrived. `after_turn` closes a conversation that
        waits for a message as completed.

        Raises:
            RunClosed: the run has ended already.
        """
        check_choice("cancel(mode=...)", mode, CancelMode)
        # The server accepts the cancellation of an ended workflow without an error.
        description = await self._address.ask(self._address.describe)
        if description.close_time is not None:
            raise self._address.closed_error(description)
        if mode == "immediate":
            first = first_of(description)
            await self._address.ask(workflow_handle(self.client, self.id, first=first).cancel)
        else:
            payload: JsonObject = {"mode": mode}
            # A run that has ended now did so meanwhile: an attempt whose answer was lost ended it.
            with suppress(RunClosed):
                await self._address.ask(lambda: self._address.signal(names.SIGNAL_CANCEL, payload))


@dataclass
class _Numbered:
    """Numbers the events between the states of a run.

    Attributes:
        definitions: the agents of this process.
        before: the newest state; None where the first one is not reached.
        next_id: the number of the next event.
    """

    definitions: LocalDefinitions
    before: LoopState | None
    next_id: int = 0

    async def take(self, step: Progress) -> Iterable[StreamedState]:
        """Return the next state with the events that led to it; nothing before the first state."""
        before = self.before
        if before is None:
            return ()
        recorded = (
            item
            for change in run_changes(before, step.event, step.state)
            if isinstance(change, ItemsRecorded)
            for item in change.items
        )
        await self.definitions.content.prefetch(recorded)
        events = tuple(changes(before, step.state, self.next_id, self.definitions))
        self.next_id += len(events)
        self.before = step.state
        state = snapshot_of(step.state)
        return (StreamedState(state=state, events=events, place=step.place, cause=step.event),)


def progress_of(run: RunHandle, *, from_start: bool = True) -> AsyncGenerator[Progress]:
    """Yield every event of a run with the loop's state after it, until it is closed.

    Without `from_start`, begin with the run's state when it last continued as new, which is faster
    for a long conversation.
    """
    return _translated(run, reader_of_run(run).follow(from_start=from_start))


def past_progress(run: RunHandle) -> AsyncGenerator[Progress]:
    """Yield every event of a run so far with the loop's state after it; wait for no further one."""
    return _translated(run, reader_of_run(run).read_all())


def reader_of_run(
    run: RunHandle, *, each_task: bool = False, each_signal: bool = False
) -> RunReader:
    """Return a reader of a run's history."""
    return RunReader(
        run.client,
        run.id,
        run.patience,
        first=run.first_execution_id,
        each_task=each_task,
        each_signal=each_signal,
    )


async def _translated(
    run: RunHandle, reading: AsyncGenerator[Progress]
) -> AsyncGenerator[Progress]:
    address = RunAddress(run.client, run.id, run.patience, first=run.first_execution_id)
    async with address.errors(), aclosing(reading):
        async for progress in reading:
            yield progress


def _since(place: HistoryPlace | None) -> ReaderTest:
    """Return whether a reader, which begins with the newest history, has read up to a place."""
    present = CaughtUp(place, from_start=False)
    return lambda reader: present.is_reached(reader.place)
