"""A realtime session: a program's interface to a line."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, Self, cast

from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import ModelCallFailed, UserError
from outlast.agents.guardrails.guardrail import OutputGuardrail
from outlast.agents.json_values import as_object, as_text
from outlast.agents.usage import Usage
from outlast.ports.model import ModelError
from outlast.realtime.agents import RealtimeAgent
from outlast.realtime.conversation import Conversation
from outlast.realtime.events import (
    RealtimeAgentEndEvent,
    RealtimeAgentStartEvent,
    RealtimeAudio,
    RealtimeAudioEnd,
    RealtimeAudioInterrupted,
    RealtimeEventInfo,
    RealtimeGuardrailTripped,
    RealtimeHistoryAdded,
    RealtimeHistoryUpdated,
    RealtimeInputAudioTimeoutTriggered,
    RealtimeRawModelEvent,
    RealtimeSessionEvent,
    ReconnectReason,
)
from outlast.realtime.line import Line, Listener
from outlast.realtime.line_events import (
    LineClosed,
    LineEvent,
    LineLost,
    ModelDue,
    OutputReady,
    SessionEvents,
)
from outlast.realtime.port.config import RealtimeUserInput
from outlast.realtime.port.item_ids import PREFIX
from outlast.realtime.port.items import RealtimeItem
from outlast.realtime.port.model import RealtimeModel, RealtimeModelListener
from outlast.realtime.port.model_events import (
    RealtimeModelAudioDoneEvent,
    RealtimeModelAudioEvent,
    RealtimeModelAudioInterruptedEvent,
    RealtimeModelConnectionStatusEvent,
    RealtimeModelEndOfStreamEvent,
    RealtimeModelErrorEvent,
    RealtimeModelEvent,
    RealtimeModelExceptionEvent,
    RealtimeModelInputAudioTimeoutTriggeredEvent,
    RealtimeModelInputAudioTranscriptionCompletedEvent,
    RealtimeModelItemDeletedEvent,
    RealtimeModelItemUpdatedEvent,
    RealtimeModelOutputTextDeltaEvent,
    RealtimeModelTranscriptDeltaEvent,
    RealtimeModelTurnEndedEvent,
    RealtimeModelTurnStartedEvent,
)
from outlast.realtime.port.model_inputs import (
    RealtimeModelSendAudio,
    RealtimeModelSendInterrupt,
    RealtimeModelSendUserInput,
)
from outlast.realtime.seed import history_of
from outlast.realtime.session_run import SessionRun
from outlast.realtime.speech_checks import SpeechChecks, tripped
from outlast.views.run import RunSnapshot

_END: Final = object()

_EXPIRED = frozenset({"session_expired", "session_limit_reached"})


class RealtimeSession(RealtimeModelListener):
    """A conversation by voice, recorded in a durable run.

    Use it as an async context manager, or call `enter` and `close`. Iterate over it for events.
    Closing hangs up; the run stays open for whatever is pending, and for text messages.

    Attributes:
        id: the id of the run; `RealtimeRunner.attach(id)` finds it from anywhere.
    """

    def __init__(
        self,
        *,
        run: SessionRun,
        model: RealtimeModel,
        open_line: Callable[[SessionEvents, Listener], Awaitable[Line]],
        guardrails: list[OutputGuardrail[Any]],
        debounce: int,
    ) -> None:
        self.id: str = run.id
        self._run = run
        self._model = model
        self._open_line = open_line
        self._definitions = run.definitions
        self._guardrails = guardrails
        self._info = RealtimeEventInfo(context=RunContextWrapper[Any](None, run_id=run.id))
        self._events = SessionEvents(run.definitions, self._info)
        self._line: Line | None = None
        self._conversation = Conversation()
        self._queue: asyncio.Queue[RealtimeSessionEvent | object] = asyncio.Queue()
        self._waiters = 0
        self._checks = SpeechChecks(debounce)
        self._checking: set[asyncio.Task[None]] = set()
        self._interrupted: set[str] = set()
        self._response: str | None = None
        self._is_speaking = False
        self._speaker = ""
        self._expired = False
        self._was_closed = False
        self._error: BaseException | None = None
        self._ended = False
        self._closing: asyncio.Task[None] | None = None

    @property
    def model(self) -> RealtimeModel:
        """The model, to add listeners or to send messages of the provider's own."""
        return self._model

    @property
    def history(self) -> list[RealtimeItem]:
        """The items of the conversation so far."""
        return list(self._conversation.items)

    async def __aenter__(self) -> Self:
        """Start or find the run, connect to the model, and attach the line to the run.

        Raises:
            AgentsException: the run or its agent does not work, or the provider refuses the
                session (`ModelCallFailed`).
        """
        if self._line is not None:
            raise UserError("This session is open already. Start another with runner.run().")
        self._line = line = await self._open_line(self._events, self.on_line_event)
        self._model.add_listener(self)
        try:
            await line.open()
        except BaseException as error:  # also cancelled: the run must not wait for this line
            self._model.remove_listener(self)
            self._ended = True
            await self._run.leave(line.state)
            if isinstance(error, ModelError):
                raise _for_programs(error) from error
            raise
        self._speaker = line.agent
        earlier = history_of(self.id, line.state.items)
        earlier_ids = {item.item_id for item in earlier}
        fresh = (item for item in self._conversation.items if item.item_id not in earlier_ids)
        self._conversation = Conversation((*earlier, *fresh))
        self._take_state(line.state)
        self._put_history()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def enter(self) -> Self:
        """Open the session without a context manager; call `close` at the end."""
        return await self.__aenter__()

    async def close(self) -> None:
        """Hang up: report the last words, and close the connection. The run stays open."""
        if self._line is None:
            return
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(self._line))
        await asyncio.shield(self._closing)

    async def _close(self, line: Line) -> None:
        self._ended = True
        self._wake()
        self._model.remove_listener(self)
        for task in self._checking:
            task.cancel()
        await asyncio.gather(*self._checking, return_exceptions=True)
        try:
            await line.close()
        finally:
            await self._run.leave(line.state)

    async def __aiter__(self) -> AsyncIterator[RealtimeSessionEvent]:
        """Iterate over the events until the session ends."""
        while not (self._ended and self._queue.empty()):
            if self._error is not None and self._queue.empty():
                await self.close()
                raise self._error
            self._waiters += 1
            try:
                event = await self._queue.get()
            finally:
                self._waiters -= 1
            if event is not _END:
                yield cast("RealtimeSessionEvent", event)
        if self._error is not None:
            error, self._error = self._error, None
            await self.close()
            raise error

    # --- What a program does ----------------------------------------------------------------------

    async def send_message(self, message: RealtimeUserInput) -> None:
        """Send a text or a message of the user, and let the model answer.

        Raises:
            UserError: the session is not open.
        """
        await self._open().say(message)

    async def send_audio(self, audio: bytes, *, commit: bool = False) -> None:
        """Send a piece of the user's audio, in the session's format.

        Args:
            audio: the samples.
            commit: whether the user's turn ends here, where the provider does not detect turns.

        Raises:
            UserError: the session is not open.
        """
        await self._open().pass_on(RealtimeModelSendAudio(audio=audio, commit=commit))

    async def interrupt(self) -> None:
        """Stop the model.

        Raises:
            UserError: the session is not open.
        """
        await self._open().pass_on(RealtimeModelSendInterrupt())

    async def update_agent(self, agent: RealtimeAgent[Any]) -> None:
        """Make another agent active, as a handoff of the program.

        The model gets the agent's settings as soon as no tool call runs, and says nothing by
        itself.

        Raises:
            UserError: the session is not open, or the starting agent does not lead to this agent.
        """
        await self._open().update_agent(agent)

    async def approve_tool_call(self, call_id: str, *, always: bool = False) -> None:
        """Approve a tool call that waits. Does nothing if none waits under this id.

        Args:
            call_id: the id of the call, as in `RealtimeToolApprovalRequired`.
            always: also approve every further call of this tool by this agent in this run.

        Raises:
            UserError: the session is not open.
            AgentsException: the run refuses it, such as for other arguments than the program was
                told of, because somebody has changed them since.
        """
        await self._open().decide(call_id, "approve", remember=always)

    async def reject_tool_call(
        self, call_id: str, *, always: bool = False, rejection_message: str | None = None
    ) -> None:
        """Reject a tool call that waits. Does nothing if none waits under this id.

        Args:
            call_id: the id of the call, as in `RealtimeToolApprovalRequired`.
            always: also reject every further call of this tool by this agent in this run.
            rejection_message: what the model reads as the output of the call.

        Raises:
            UserError: the session is not open.
        """
        line = self._open()
        await line.decide(call_id, "reject", message=rejection_message, remember=always)

    def _open(self) -> Line:
        if self._line is None or self._ended:
            raise UserError(
                "The session is not open: use `async with await runner.run() as session`."
            )
        return self._line

    # --- What the model says ----------------------------------------------------------------------

    async def on_event(self, event: RealtimeModelEvent) -> None:
        """Take an event of the model."""
        if self._ended or self._line is None:
            return
        self._put(RealtimeRawModelEvent(data=event, info=self._info))
        await self._line.take(event)
        match event:
            case RealtimeModelErrorEvent():
                self._take_error(event.error)
            case RealtimeModelTurnStartedEvent():
                self._start_turn(event.response_id)
            case RealtimeModelTurnEndedEvent():
                self._end_turn(event.response_id)
            case RealtimeModelConnectionStatusEvent():
                self._was_closed = event.status == "disconnected"
            case RealtimeModelExceptionEvent():
                self._take_exception(event)
            case RealtimeModelEndOfStreamEvent():
                self._take_end()
            case _:
                self._take_content(event)

    def _take_content(self, event: RealtimeModelEvent) -> None:
        match event:
            case RealtimeModelAudioEvent(item_id=item_id, content_index=index):
                if event.response_id not in self._interrupted:
                    self._put(RealtimeAudio(event, item_id, index, self._info))
            case RealtimeModelAudioDoneEvent():
                self._put(RealtimeAudioEnd(self._info, event.item_id, event.content_index))
            case RealtimeModelAudioInterruptedEvent():
                self._put(RealtimeAudioInterrupted(self._info, event.item_id, event.content_index))
            case RealtimeModelInputAudioTimeoutTriggeredEvent():
                self._put(RealtimeInputAudioTimeoutTriggered(self._info))
            case RealtimeModelItemUpdatedEvent():
                self._take_item(event, event.item.item_id)
            case (
                RealtimeModelItemDeletedEvent()
                | RealtimeModelInputAudioTranscriptionCompletedEvent()
            ):
                self._take_item(event, event.item_id)
            case RealtimeModelTranscriptDeltaEvent() | RealtimeModelOutputTextDeltaEvent():
                self._take_words(event)
            case _:
                pass

    def _take_item(self, event: RealtimeModelEvent, item_id: str) -> None:
        if self._line is not None and self._line.is_probe(item_id):
            return
        is_new = self._conversation.find(item_id) is None
        self._conversation = self._conversation.take(event)
        item = self._conversation.find(item_id)
        if is_new and item is not None:
            self._put(RealtimeHistoryAdded(item=item, info=self._info))
        else:
            self._put_history()

    def _take_words(
        self, event: RealtimeModelTranscriptDeltaEvent | RealtimeModelOutputTextDeltaEvent
    ) -> None:
        self._conversation = self._conversation.take(event)
        if self._response is None:  # one without a start event or an id
            self._response, self._is_speaking = event.response_id, True
        text = self._checks.grow(event.item_id, event.delta)
        if text is not None:
            is_audio = isinstance(event, RealtimeModelTranscriptDeltaEvent)
            self._check(text, event.response_id, is_audio=is_audio)

    def _start_turn(self, response_id: str | None) -> None:
        if self._line is not None:
            self._speaker = self._line.agent
        self._response, self._is_speaking = response_id, True
        agent = self._definitions.agent(self._speaker)
        self._put(RealtimeAgentStartEvent(agent=agent, info=self._info))

    def _end_turn(self, response_id: str | None) -> None:
        self._conversation = self._conversation.take(RealtimeModelTurnEndedEvent())
        if response_id is not None:
            self._interrupted.discard(response_id)
            if not self._checking:
                self._model.retire_response_audio(response_id)
        if response_id is not None and self._response not in {None, response_id}:
            return  # the end of an earlier response
        self._checks.forget()
        self._is_speaking = False
        agent = self._definitions.agent(self._speaker)
        self._put(RealtimeAgentEndEvent(agent=agent, info=self._info))

    def _take_error(self, error: Any) -> None:
        message, code = _field(error, "message"), _field(error, "code")
        if "already exists" in message and PREFIX in message:
            return  # an item that was sent again, to be sure
        self._expired = self._expired or code in _EXPIRED
        self._put(self._events.error(error))

    def _take_exception(self, event: RealtimeModelExceptionEvent) -> None:
        error = event.exception
        is_lost, self._was_closed = isinstance(error, ModelError), False
        if is_lost and self._line is not None and self._line.lost(error):
            return
        if event.context and not is_lost:  # one bad message; the connection is open
            self._put(self._events.error(error))
            return
        self._finish(error)

    def _take_end(self) -> None:
        """End the session, unless the provider closed a connection that is no call."""
        reason: ReconnectReason = "session_limit" if self._expired else "connection_lost"
        was_closed, self._was_closed, self._expired = self._was_closed, False, False
        line = self._line
        may_go_on = was_closed and line is not None and not line.call_id
        if line is None or not may_go_on or not line.lost(reason=reason):
            self._finish(None)

    def _finish(self, error: BaseException | None) -> None:
        """End the session; its events can still be read."""
        if isinstance(error, ModelError):
            error = _for_programs(error)
        self._error = self._error or error
        self._ended = self._ended or error is None
        self._wake(always=True)
        if self._closing is None and self._line is not None and error is None:
            self._closing = asyncio.create_task(self._close(self._line))

    # --- Guardrails -------------------------------------------------------------------------------

    def _check(self, text: str, response_id: str, *, is_audio: bool) -> None:
        agent = self._definitions.agent(self._speaker)
        every = [*agent.output_guardrails, *self._guardrails]
        guardrails = list({id(one): one for one in every}.values())  # each once
        if guardrails and response_id not in self._interrupted:
            check = self._run_checks(guardrails, agent, text, response_id, is_audio=is_audio)
            task = asyncio.create_task(check)
            self._checking.add(task)
            task.add_done_callback(self._checking.discard)

    async def _run_checks(
        self,
        guardrails: list[OutputGuardrail[Any]],
        agent: RealtimeAgent[Any],
        text: str,
        response_id: str,
        *,
        is_audio: bool,
    ) -> None:
        results = await tripped(guardrails, self._info.context, agent, text)
        if not results or self._ended or response_id in self._interrupted or self._line is None:
            return
        self._interrupted.add(response_id)
        self._line.check_tripped(response_id, results, agent.name, text)
        self._put(RealtimeGuardrailTripped(results, text, self._info))
        is_newest = self._response == response_id
        is_speaking = is_newest and self._is_speaking
        if is_speaking or is_audio:
            stop = RealtimeModelSendInterrupt(
                force_response_cancel=is_speaking,
                response_id=response_id,
                cancel_response_only=is_speaking and not is_audio,
                playback_only=not is_speaking,
            )
            await self._line.pass_on(stop)
        if is_newest:
            names = ", ".join(result.guardrail.get_name() for result in results)
            feedback = RealtimeModelSendUserInput(user_input=f"guardrail triggered: {names}")
            await self._model.send_event_if(feedback, lambda: self._response == response_id)

    # --- What the run decides ---------------------------------------------------------------------

    async def on_line_event(self, event: LineEvent) -> None:
        """Take an event of the line."""
        if self._line is not None:
            self._take_state(self._line.state)
        match event:
            case LineClosed():
                self._finish(event.error)
            case ModelDue() | OutputReady() | LineLost():
                pass
            case _:
                self._put(event)

    def _put_history(self) -> None:
        self._put(RealtimeHistoryUpdated(history=self.history, info=self._info))

    def _take_state(self, state: RunSnapshot) -> None:
        with suppress(UserError):
            self._info.context.context = self._run.read_context(state.context)
        self._info.context.usage = Usage.of(state.usage)

    def _put(self, event: RealtimeSessionEvent) -> None:
        if not self._ended:
            self._queue.put_nowait(event)

    def _wake(self, *, always: bool = False) -> None:
        for _ in range(max(self._waiters, int(always))):
            self._queue.put_nowait(_END)


def _for_programs(error: ModelError) -> ModelCallFailed:
    failed = ModelCallFailed(error.message)
    failed.details = {"reason": error.code, "status": error.status}
    failed.__cause__ = error
    return failed


def _field(error: object, name: str) -> str:
    fields = as_object(error)
    return as_text(getattr(error, name, None) if fields is None else fields.get(name)) or ""
