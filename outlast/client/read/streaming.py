"""Streams a run while it executes, from a server or from memory."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from typing import Any, Literal, Protocol

from outlast.agents.items.stream_events import (
    OF_LONG_RUNS,
    AgentUpdatedStreamEvent,
    ProgramEvent,
    RawResponsesStreamEvent,
    RunItemStreamEvent,
)
from outlast.client.read.delta_poller import RawEvent
from outlast.client.read.events import StatusStreamEvent, changes
from outlast.client.read.run_end import error_of_end
from outlast.client.results.local_definitions import LocalDefinitions
from outlast.client.results.result_members import RunResultBase
from outlast.client.results.run_responses import last_turn
from outlast.client.results.summaries import progress_summary
from outlast.client.transport.messages import check_choice
from outlast.contract import records
from outlast.contract.streams.turn_stops import TurnReader, turn_stops
from outlast.loop.actions import CancelMode
from outlast.loop.effects import CallModel
from outlast.loop.items import call_id_of
from outlast.loop.state import CALL_KINDS, OUTPUT_KINDS, LoopState
from outlast.loop.values import Json, JsonObject
from outlast.tracing.receivers import REGISTRATION
from outlast.views.run import RunSnapshot, loop_state, snapshot_of


class RunSource(Protocol):
    """The source of a run's states.

    Attributes:
        client: for results to keep, once the run is open.
        run_id: the workflow id; empty for a run in memory.
    """

    client: Any
    run_id: str

    @property
    def first_execution_id(self) -> str | None:
        """The run's first execution; None until the run is open, and in memory."""
        ...

    def states(self) -> AsyncIterator[RunSnapshot | RawEvent]:
        """Start or resume the run, and yield its states until it is settled.

        The first state is the one where reading begins; `RunSnapshot()` for a new run. Then comes one
        state after each event, and the models' events before the state with their reply.
        """
        ...

    async def cancel(self, mode: CancelMode) -> None:
        """Stop the run; returns when the request has arrived."""
        ...


class RunResultStreaming(RunResultBase):
    """A run and its stream of events; `Runner.run_streamed` returns one.

    The run continues even if its events are not read. All members of a result can be read in the
    meantime, up to the run's current state.

    Attributes:
        max_turns: the maximum number of model calls for the answer; None for no limit.
        is_complete: whether the run has ended, waits for people, or was cancelled.
    """

    def __init__(
        self,
        source: RunSource,
        *,
        starting_agent: Any,
        run_input: str | list[JsonObject],
        definitions: LocalDefinitions,
        max_turns: int | None,
    ) -> None:
        super().__init__(RunSnapshot(), definitions)
        self.max_turns = max_turns
        self.is_complete: bool = False
        self._run_input = run_input
        self._starting_agent = starting_agent
        self._source = source
        self._number = 0
        self._context: Json = None
        self._opened = False
        self._stands_still = False
        self._cancelled: CancelMode | None = None
        self._cancelling: list[asyncio.Task[None]] = []
        self._place = TurnReader()
        turn_stops.add(source.run_id, self._place)
        self._waits = False
        self._error: Exception | None = None
        self._events: asyncio.Queue[ProgramEvent | StatusStreamEvent | None] = asyncio.Queue()
        self._task = asyncio.get_running_loop().create_task(self._read())
        self._task.add_done_callback(self._end)

    def __repr__(self) -> str:
        return (
            f"RunResultStreaming(current_agent={self.current_agent.name!r}, "
            f"current_turn={self.current_turn}, max_turns={self.max_turns}, "
            f"is_complete={self.is_complete}, final_output={self._state.final_output!r})"
        )

    def __str__(self) -> str:
        return progress_summary(
            "RunResultStreaming",
            self,
            turn=self.current_turn,
            max_turns=self.max_turns,
            is_complete=self.is_complete,
        )

    @property
    def final_output(self) -> Any:
        """The answer; None until the run has ended.

        Raises:
            UserError: the answer does not fit the agent's output type.
        """
        return self._final_output if self.is_complete else None

    @final_output.setter
    def final_output(self, value: Any) -> None:
        """Show another answer in this object, as in the SDK; the run keeps its own."""
        self._final_output = value

    @property
    def current_agent(self) -> Any:
        """The active agent."""
        return self._starting_agent if self._state.phase == "new" else self.last_agent

    @property
    def last_agent(self) -> Any:
        """The agent that is, or was last, active."""
        if self._state.phase == "new":
            return self._starting_agent
        return self._definitions.agent(self._state.agent)

    @property
    def current_turn(self) -> int:
        """The number of model calls for the answer so far."""
        return self._state.turns - last_turn(self._state.items[: self._state.question.replies_from])

    @property
    def run_loop_task(self) -> "asyncio.Task[None]":
        """The task that reads the run; it raises the same errors as `stream_events`."""
        return self._task

    @property
    def run_loop_exception(self) -> Exception | None:
        """The exception of the run, once it has failed."""
        return self._error

    def to_input_list(
        self, mode: Literal["preserve_all", "normalized"] = "preserve_all"
    ) -> list[JsonObject]:
        """Return the conversation as input items, to start another run from.

        While calls of a turn are running, or were just cancelled, the conversation ends before that
        turn: no model accepts a call without its output.

        Args:
            mode: see `RunResult.to_input_list`.

        Raises:
            UserError: there is no such mode.
        """
        state = self._state
        end = _end_of_whole_turns(state)
        if state.status != "running" or end == len(state.items):
            return super().to_input_list(mode)
        whole = replace(state, items=state.items[:end])
        return RunResultBase(snapshot_of(whole), self._definitions).to_input_list(mode)

    def cancel(self, mode: Literal["immediate", "after_turn"] = "immediate") -> None:
        """Stop the run.

        Args:
            mode: `immediate` cancels everything and ends the events now, without an error;
                `after_turn` lets the turn finish and save its items. The next turn does not begin
                if this process hosts the run and the program, which iterates over the events, calls
                it within 250 ms of the turn's last event; elsewhere, or later, the model may
                be called once more.
        """
        check_choice("cancel(mode=...)", mode, CancelMode)
        self._cancelled = mode
        request = asyncio.create_task(self._source.cancel(mode))
        self._cancelling.append(request)
        self._place.stop(request)
        if mode == "immediate":
            while not self._events.empty():
                self._events.get_nowait()
            self.is_complete = True
            self._events.put_nowait(None)

    async def stream_events(self) -> AsyncGenerator[ProgramEvent | StatusStreamEvent]:
        """Yield the run's events: model output, items, and changes of the active agent.

        While a person has the conversation, or no worker can go on, the stream stays open: a
        `StatusStreamEvent` says so, and another one when it is over. What the person says and what
        the agent answers afterwards follow.

        Raises:
            AgentsException: the run failed; raised after all earlier events.
            Exception: an exception of user code in the run.
        """
        with self._place.iterating():
            while (event := await self._next_event()) is not None:
                yield event
        self._events.put_nowait(None)  # for a second reader
        await asyncio.gather(*self._cancelling)
        if self._error is not None and self._cancelled != "immediate":
            raise self._error

    async def _next_event(self) -> ProgramEvent | StatusStreamEvent | None:
        """Return the next event; the program has handled those before."""
        self._waits = True
        self._note_place()
        try:
            return await self._events.get()
        finally:
            self._waits = False

    def _note_place(self) -> None:
        """Tell the next turn's model call whether the program has handled the events before it."""
        calls = [one.effect for one in self._state.pending if isinstance(one, CallModel)]
        if calls:
            self._place.received(max(calls), seen=self._waits and self._events.empty())

    async def _read(self) -> None:
        try:
            async for update in self._source.states():
                self._client = self._source.client
                self._place.first_execution_id = self._source.first_execution_id
                if isinstance(update, RunSnapshot):
                    self._advance(loop_state(update))
                    self._note_place()
                else:
                    self._emit(RawResponsesStreamEvent(raw=update, next_id=self._number))
            self._error = self._failure()
        except Exception as error:  # noqa: BLE001  raised below, and by `stream_events`
            self._error = error
        finally:
            self._definitions.update_context(self._state.context)
        await REGISTRATION.settled()  # the program may read what its processors have received
        if self._error is not None and self._cancelled != "immediate":
            raise self._error

    def _end(self, reading: "asyncio.Task[None]") -> None:
        if not reading.cancelled():
            reading.exception()  # mark it as retrieved: `stream_events` raises it
        turn_stops.remove(self._source.run_id, self._place)
        self.is_complete = True
        self._events.put_nowait(None)

    def _advance(self, state: LoopState) -> None:
        before = self._state
        self._state = state
        self._forget()
        if state.context is not self._context:  # before the events, whose reader may look
            self._context = state.context
            self._definitions.update_context(state.context)
        if not self._opened:
            self._opened = True
            if state.phase != "new":  # the run resumes: emit its active agent
                agent = self._definitions.agent(state.agent)
                self._emit(AgentUpdatedStreamEvent(id=0, new_agent=agent))
            return
        for event in changes(before, state, self._number, self._definitions):
            self._number = event.id + 1
            if isinstance(event, RunItemStreamEvent):
                if event.name not in OF_LONG_RUNS:
                    self._emit(event)
            elif isinstance(event, AgentUpdatedStreamEvent):
                self._emit(event)
            elif isinstance(event, StatusStreamEvent):
                stands_still = event.reason != ""
                if stands_still or self._stands_still:
                    self._emit(event)
                self._stands_still = stands_still

    def _emit(self, event: ProgramEvent | StatusStreamEvent) -> None:
        if self._cancelled != "immediate":
            self._events.put_nowait(event)

    def _failure(self) -> Exception | None:
        if self._state.outcome == "cancelled" and self._cancelled is not None:
            return None
        return error_of_end(self._state, self._definitions)

    def _input_items(self) -> list[JsonObject]:
        if self._state.phase == "new":
            return list(records.messages_of(self._run_input))
        return super()._input_items()


def _end_of_whole_turns(state: LoopState) -> int:
    """Return where the first turn with open calls begins; without one, the end."""
    answered = {call_id_of(item.raw) for item in state.items if item.kind in OUTPUT_KINDS}
    open_turns = {
        item.turn
        for item in state.items
        if item.kind in CALL_KINDS and call_id_of(item.raw) not in answered
    }
    return next(
        (at for at, item in enumerate(state.items) if item.turn in open_turns), len(state.items)
    )
