"""A realtime line: the connection to the model, kept in step with the run that records it.

The line passes the model's events on, reports every finished turn to the run, and carries out what
the run decides: outputs, handoffs, the next response. It decides nothing about turns itself, and it
may die at any time: another line finds everything in the run.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final, TypeAlias, cast

from outlast.activities.errors import EffectError
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.errors import AgentsException, RunClosed, RunNotFound, UserError
from outlast.agents.guardrails.guardrail import OutputGuardrailResult
from outlast.agents.logs import get_logger
from outlast.agents.usage import Usage
from outlast.loop.approvals import DecisionType
from outlast.loop.calls import ModelReply, PlannedCall
from outlast.loop.checks import GuardrailRecord
from outlast.loop.effect_factory import model_call
from outlast.loop.effects import CallModel
from outlast.loop.state import LoopState
from outlast.loop.values import Failure, JsonObject
from outlast.ports.model import ModelError, ModelResponse
from outlast.realtime.agents import RealtimeAgent
from outlast.realtime.events import RealtimeReconnected, ReconnectReason
from outlast.realtime.last_item import LastItem, missed_events
from outlast.realtime.line_events import (
    LineClosed,
    LineEvent,
    LineLost,
    ModelDue,
    OutputReady,
    Progress,
    SessionEvents,
    model_call_on,
)
from outlast.realtime.line_run import LineRun
from outlast.realtime.live_agent import LiveAgent, live_agent, live_reply
from outlast.realtime.port.config import (
    RealtimeClientMessage,
    RealtimeRunConfig,
    RealtimeSessionModelSettings,
)
from outlast.realtime.port.item_ids import PREFIX
from outlast.realtime.port.model import RealtimeModel, RealtimeModelConfig
from outlast.realtime.port.model_events import (
    RealtimeModelEvent,
    RealtimeModelRawServerEvent,
    RealtimeModelToolCallEvent,
)
from outlast.realtime.port.model_inputs import (
    RealtimeModelSendEvent,
    RealtimeModelSendRawMessage,
    RealtimeModelSendSessionUpdate,
    RealtimeModelSendToolOutput,
    RealtimeModelSendUserInput,
    RealtimeModelUserInput,
)
from outlast.realtime.seed import new_id, output_text, session_item, session_items
from outlast.realtime.speech_checks import records_of
from outlast.realtime.turns import FinishedTurn, Turns, call_raw
from outlast.views.acts import decision_about
from outlast.views.run import RunSnapshot, snapshot_of

logger: Final = get_logger(__name__)

SESSION_LIMIT: Final = timedelta(minutes=55)
"""When a session gets a new connection; providers end sessions after 60 minutes."""

TRANSCRIPT_WAIT_SECONDS: Final = 0.5
"""How long a turn waits for the transcript of what the user said before it."""

RECONNECTS: Final = (0.0, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
"""The seconds before each attempt to reconnect."""

SHORT_LIVED: Final = 5
SHORT_LIVED_SECONDS: Final = 2.0
"""How many connections in a row may be lost at once, before the line gives up."""

FAILED_RESPONSES: Final = (0.5, 1.0, 2.0, 4.0)
"""The seconds before each attempt to get a response that the provider could not make."""

CAUGHT_UP_SECONDS: Final = 5.0
"""The longest wait of a new connection for the run to record the old one's turns."""

STILL_WORKING: Final = (
    "Say in one short sentence, in the user's language, that you are still working on it. "
    "Do not guess the result."
)
WAITING_FOR_A_PERSON: Final = (
    "Say in one short sentence, in the user's language, that a colleague has to approve this and "
    "that you are waiting. Do not guess the decision."
)

Listener: TypeAlias = Callable[[LineEvent], Awaitable[None]]
"""Takes the events of a line, such as the session does."""


@dataclass(frozen=True, kw_only=True)
class LineOptions:
    """How a line is kept.

    Attributes:
        notice_after: how long a caller waits for a tool until the agent says that it is working;
            None for never.
        session_limit: when a connection is replaced, at the end of a turn; None for never.
    """

    model_config: RealtimeModelConfig = field(default_factory=RealtimeModelConfig)
    run_config: RealtimeRunConfig
    notice_after: timedelta | None = timedelta(seconds=10)
    session_limit: timedelta | None = SESSION_LIMIT


class Line:
    """One line of a run.

    Attributes:
        agent: the name of the agent whose settings the model has.
        call_id: the provider's id of a call that the line is attached to, if it is one.
    """

    def __init__(
        self,
        model: RealtimeModel,
        run: LineRun,
        worker: WorkerDeps,
        options: LineOptions,
        session: SessionEvents,
        tell: Listener,
    ) -> None:
        self.id: str = ""
        self.agent: str = ""
        self._model = model
        self._run = run
        self._worker = worker
        self._options = options
        self.call_id: str | None = options.model_config.get("call_id")
        self._initial = options.model_config.get("initial_model_settings") or {}
        of_run = options.run_config.get("model_settings") or {}
        self._settings: dict[str, Any] = {**of_run, **self._initial}
        self._tell = tell
        self._state: LoopState = LoopState()
        self._changed = asyncio.Event()
        self._turns = Turns(f"line-{secrets.token_hex(6)}")
        self._event_taken = asyncio.Event()
        self._session = session
        self._progress = Progress(session)
        self._finished: asyncio.Queue[FinishedTurn] = asyncio.Queue()
        self._reporting: asyncio.Task[None] | None = None
        self._reported = ""
        self._calls: dict[str, RealtimeModelToolCallEvent] = {}
        self._checks: dict[str, tuple[GuardrailRecord, ...]] = {}
        self._connected = asyncio.Event()
        self._renewing: asyncio.Task[None] | None = None
        self._is_old = False
        self._is_lost = False
        self._quiet_switch = False
        self._failures = 0
        self._connected_at = 0.0
        self._short_lived = 0
        self._last = LastItem(self._raw)
        self._found: JsonObject | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._notice: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False

    def is_probe(self, item_id: str) -> bool:
        """Whether an item is only there for a moment, and no part of the conversation."""
        return item_id == self._last.probe

    @property
    def state(self) -> RunSnapshot:
        """The newest state of the run."""
        return snapshot_of(self._state)

    # --- Opening and closing ----------------------------------------------------------------------

    async def open(self) -> None:
        """Connect to the model, and attach to the run.

        Raises:
            AgentsException: the run or its agent does not work, or the provider refuses.
        """
        self._state = await self._prepared()
        await self._connect()
        try:
            self.id = await self._run.attach()
            # What the line before reported last was taken before this line was attached.
            self._state = await self._run.state()
        except BaseException:  # also a program that gives up: nobody else closes the connection
            await self._model.close()
            raise
        self._progress.attached(self.id)
        await self._seed()
        self._progress.begin(self._state)
        self._connected.set()
        if self._state.agent != self.agent:
            await self._switch(self._state.agent)
        if not await self._recover() and self._due() is not None:
            await self._respond()
        self._spawn(self._follow())
        self._reporting = self._spawn(self._report_turns())

    async def close(self) -> None:
        """Hang up: report the last words, close the connection, and let the run continue."""
        if self._ended:
            return
        self._ended = True
        await self._disconnect()
        if self._reporting is not None and not self._reporting.done():
            with suppress(TimeoutError):
                async with asyncio.timeout(CAUGHT_UP_SECONDS):
                    await self._finished.join()
        if self._timer is not None:
            self._timer.cancel()
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._disconnect()  # it may have been opened again meanwhile
        try:
            while not self._finished.empty():
                await self._report(self._finished.get_nowait())
            if said := self._turns.take_said():
                await self._run.send(said)
        finally:
            await self._run.hang_up()

    async def _prepared(self) -> LoopState:
        """Return the state of the run once its agent has been checked; refuse one that ended."""
        state = LoopState()
        async with aclosing(self._run.follow()) as states:
            async for state in states:
                if state.phase not in {"new", "preparing"}:
                    break
        if state.outcome is not None:
            reason = state.failure.message if state.failure is not None else state.outcome
            raise UserError(f"The run {self._run.run_id!r} has ended: {reason}")
        return state

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # nobody awaits these tasks: the session has to say it
            logger.exception("the line %s of the run %r failed", self.id, self._run.run_id)
            await self._tell(LineClosed(error))

    # --- The connection ---------------------------------------------------------------------------

    async def _connect(self) -> None:
        self.agent = self._state.agent
        settings = self._settings_of(await self._live(self.agent), starting=True)
        config: dict[str, Any] = {**self._options.model_config, "initial_model_settings": settings}
        await self._model.connect(cast("RealtimeModelConfig", config))
        self._connected_at = asyncio.get_running_loop().time()
        self._limit_session()
        is_first = not self.id and not self._state.line_token
        if self.call_id and not is_first:
            self._last = LastItem(self._raw)
            self._found = await self._last.find()

    async def _seed(self) -> None:
        """Give the session the conversation so far, as far as it may not have it."""
        seeded = self._missing_from()
        while seeded < len(self._state.items):  # the run goes on meanwhile
            items = self._state.items[seeded:]
            for raw in session_items(self._run.run_id, items, seeded, self._state.aside):
                await self._create(raw)
            seeded += len(items)

    async def _recover(self) -> bool:
        """Report the last item of a call that the line before left; return whether it left one."""
        found, self._found = self._found, None
        missed = missed_events(found, self._state.items)
        for event in missed:
            what = type(event).__name__
            logger.info("the line %s reports what the line before it did not: %s", self.id, what)
            await self.take(event)
        if found is not None and self._turns.unanswered() and not self._turns.speaks:
            await self._respond()
            return True
        return bool(missed)

    def _limit_session(self) -> None:
        limit = self._options.session_limit
        self._is_old = False
        if self._timer is not None:
            self._timer.cancel()
        if limit is not None and not self.call_id:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(limit.total_seconds(), self._grow_old)

    def _grow_old(self) -> None:
        self._is_old = True
        if not self._turns.speaks and self._due() is None:
            self._renew("session_limit")

    def lost(
        self, error: Exception | None = None, *, reason: ReconnectReason = "connection_lost"
    ) -> bool:
        """Open the connection again, after it was lost; return whether that makes sense."""
        if self._ended or (isinstance(error, ModelError) and not error.retryable):
            return False
        lasted = asyncio.get_running_loop().time() - self._connected_at
        self._short_lived = self._short_lived + 1 if lasted < SHORT_LIVED_SECONDS else 0
        if self._short_lived > SHORT_LIVED:
            return False
        self._renew(reason)
        return True

    def _renew(self, reason: ReconnectReason) -> None:
        self._is_lost = True
        self._connected.clear()
        if self._renewing is None or self._renewing.done():
            self._renewing = self._spawn(self._reconnect(reason))

    async def _reconnect(self, reason: ReconnectReason) -> None:
        await self._disconnect()
        await self._caught_up()
        while self._is_lost:  # the new one may be lost, too
            problem = await self._open_again()
            if problem is not None:
                await self._tell(LineClosed(problem))
                return
            await self._resume(reason)

    async def _disconnect(self) -> None:
        # However closing fails, the connection is gone, and its last words still count.
        with suppress(Exception):
            await self._model.close()
        for turn in self._turns.end():
            self._finished.put_nowait(turn)

    async def _open_again(self) -> Exception | None:
        """Open the connection, with pauses between the attempts; return why it cannot be opened."""
        problem: Exception = ModelError(
            "The connection is lost.", code="unreachable", retryable=True
        )
        for pause in RECONNECTS:
            await asyncio.sleep(pause)
            self._is_lost = False
            await self._disconnect()
            try:
                await self._connect()
                await self._seed()
            except (ModelError, AgentsException, OSError) as error:
                self._is_lost, problem = True, error
                if isinstance(error, ModelError) and not error.retryable:
                    break
            if not self._is_lost:
                return None
        return problem

    async def _resume(self, reason: ReconnectReason) -> None:
        """Resume after a lost connection with the words that the model has not answered."""
        self._progress.begin(self._state)
        due = self._due()
        self._connected.set()
        await self._recover()
        await self._tell(RealtimeReconnected(reason, self._session.info))
        if self._state.agent != self.agent:
            await self._switch(self._state.agent)
        words = () if self.call_id else self._turns.unanswered()
        for raw in words:
            item = session_item(raw, f"{PREFIX}{secrets.token_hex(8)}")
            if item is not None:
                await self._create(item)
        if words or due is not None:
            await self._respond()

    async def _caught_up(self) -> None:
        """Wait until the run has the turns of the old connection, as far as possible."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CAUGHT_UP_SECONDS):
                await self._finished.join()
                while not self._has_folded(self._reported):
                    self._changed.clear()
                    await self._changed.wait()

    def _has_folded(self, response_id: str) -> bool:
        """Whether the run has a response, or there is none."""
        return not response_id or any(
            one.response_id == response_id for one in self._state.responses
        )

    def _missing_from(self) -> int:
        """Return the index of the first item that the session may not have.

        A new session has none. A call has all items up to the last reply that came from it; what
        came after it may be there or not, and is sent again with the same ids as before, so that
        the provider refuses what it has.
        """
        turns = [one.turn for one in self._state.responses if one.request_id == self.call_id]
        if not self.call_id or not turns:
            return 0
        spoken = [
            at
            for at, item in enumerate(self._state.items, 1)
            if item.kind in {"message", "tool_call", "handoff_call"} and item.turn <= turns[-1]
        ]
        return spoken[-1] if spoken else 0

    # --- Settings ---------------------------------------------------------------------------------

    async def _live(self, agent: str) -> LiveAgent:
        try:
            return await live_agent(self._worker, replace(model_call(self._state), agent=agent))
        except EffectError as error:
            raise UserError(str(error)) from error

    def _settings_of(
        self, live: LiveAgent, *, starting: bool = False
    ) -> RealtimeSessionModelSettings:
        settings: dict[str, Any] = {**self._settings}
        if live.prompt is not None:
            settings["prompt"] = live.prompt
        settings["instructions"] = live.instructions or ""
        settings["tools"] = [*live.offer.tools.values()]
        settings["handoffs"] = [*live.offer.handoffs.values()]
        if starting:
            settings.update(self._initial)
        if self._options.run_config.get("tracing_disabled"):
            settings["tracing"] = None
        return cast("RealtimeSessionModelSettings", settings)

    async def _switch(self, agent: str) -> None:
        self.agent = agent
        settings = self._settings_of(await self._live(agent))
        await self._send(RealtimeModelSendSessionUpdate(session_settings=settings))

    # --- What the model says ----------------------------------------------------------------------

    async def take(self, event: RealtimeModelEvent) -> None:
        """Take an event of the model."""
        if isinstance(event, RealtimeModelToolCallEvent):
            self._calls[event.call_id] = event
        if isinstance(event, RealtimeModelRawServerEvent):
            await self._take_raw(event.data)
        for turn in self._turns.take(event):
            self._finished.put_nowait(turn)
        self._event_taken.set()

    async def _take_raw(self, data: Any) -> None:
        """Notice a response that the provider could not make, and the last item of a call."""
        frame: dict[str, Any] = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
        self._last.take(frame)
        if frame.get("type") != "response.done":
            return
        response: dict[str, Any] = frame.get("response") or {}
        if response.get("status") != "failed":
            self._failures = 0
            return
        details: dict[str, Any] = response.get("status_details") or {}
        error = details.get("error") or {"message": "The response failed."}
        await self._tell(self._session.error(error))
        if self._due() is not None and self._failures < len(FAILED_RESPONSES):
            self._spawn(self._respond_later(FAILED_RESPONSES[self._failures]))
            self._failures += 1

    async def _respond_later(self, pause: float) -> None:
        await asyncio.sleep(pause)
        if self._due() is not None and not self._turns.speaks:
            await self._respond()

    async def _report_turns(self) -> None:
        while True:
            turn = await self._finished.get()
            try:
                await self._wait_for_transcripts(turn)
                await self._report(turn)
            finally:
                self._finished.task_done()
            if self._is_old and not self._turns.speaks and not turn.calls_tools:
                self._renew("session_limit")

    async def _wait_for_transcripts(self, turn: FinishedTurn) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(TRANSCRIPT_WAIT_SECONDS):
                while self._turns.waits(turn):
                    self._event_taken.clear()
                    await self._event_taken.wait()

    async def _report(self, turn: FinishedTurn) -> None:
        checks = self._checks.pop(turn.response_id, ())
        if not turn.output:
            return
        said = self._turns.take_said(turn)
        reply = await self._planned(turn)
        if checks:
            reply = replace(reply, checks=(*reply.checks, *checks))
        self._progress.replied([*said, *reply.items])
        self._reported = turn.response_id
        try:
            await self._run.reply(said, reply)
        except (RunClosed, RunNotFound):
            logger.info("the run %r has ended before %s", self._run.run_id, turn.response_id)
            return
        if reply.failure is not None:
            await self._refuse_calls(turn, reply.failure)

    async def _planned(self, turn: FinishedTurn) -> ModelReply:
        effect = replace(self._due() or model_call(self._state), agent=self.agent)
        response = ModelResponse(
            output=list(turn.output), usage=Usage.of(turn.usage), response_id=turn.response_id
        )
        own_name = str(getattr(self._model, "model", "")) or type(self._model).__name__
        model = self._settings.get("model_name") or own_name
        try:
            reply = await live_reply(self._worker, effect, self._state.items, response, model=model)
        except EffectError as error:
            failure = Failure(code=error.code, message=error.message, details=error.details)
            rest = tuple(raw for raw in turn.output if raw["type"] != "function_call")
            return ModelReply(
                items=rest, usage=turn.usage, failure=failure, response_id=turn.response_id
            )
        return replace(reply, request_id=self.call_id)

    async def _refuse_calls(self, turn: FinishedTurn, failure: Failure) -> None:
        calls = [str(raw["call_id"]) for raw in turn.output if raw["type"] == "function_call"]
        for call_id in calls:
            if not self._progress.sent(call_id):
                words = f"This call was not run: {failure.message}"
                await self._send_output(call_id, words, respond=call_id == calls[-1])

    def check_tripped(
        self, response_id: str, results: list[OutputGuardrailResult], agent: str, text: str
    ) -> None:
        """Keep the results of guardrails, for the report of the response."""
        self._checks[response_id] = records_of(results, agent, text)

    # --- What the run decides ---------------------------------------------------------------------

    async def _follow(self) -> None:
        async with aclosing(self._run.follow()) as states:
            async for state in states:
                self._state = state
                self._changed.set()
                for event in self._progress.read(state):
                    await self._answer(event)
                    await self._tell(event)
                if self._progress.under_way:
                    self._give_notice()

    async def _answer(self, event: LineEvent) -> None:
        match event:
            case ModelDue():
                await self._go_on(event)
            case OutputReady() if self._connected.is_set():
                if not self._progress.sent(event.call_id):
                    await self._send_output(event.call_id, output_text(event.output), respond=True)
            case LineLost():  # this line is alive
                self._progress.line = self.id = await self._run.attach()
            case _:  # the session tells the program of it
                pass

    def _due(self) -> CallModel | None:
        return model_call_on(self.id, self._state)

    async def _go_on(self, due: ModelDue) -> None:
        if not self._connected.is_set():
            return  # the next connection gets everything, and speaks then
        if due.effect.agent != self.agent:
            await self._switch(due.effect.agent)
        fresh = [
            (at, raw)
            for at, raw in ((at, item.raw) for at, item in due.items)
            if raw.get("type") != "function_call_output"
            or not self._progress.sent(str(raw.get("call_id")))
        ]
        if self._quiet_switch:
            self._quiet_switch = False
            return
        for at, raw in fresh:
            call_id = str(raw.get("call_id"))
            if raw.get("type") == "function_call_output" and call_id in self._calls:
                is_last = at == fresh[-1][0]
                await self._send_output(call_id, output_text(raw.get("output")), respond=is_last)
                if is_last:
                    return
            elif item := session_item(raw, new_id(self._run.run_id, raw, at)):
                await self._create(item)
        await self._respond()

    def _give_notice(self) -> None:
        """Let the agent say that it is working, if a tool takes longer than a caller likes."""
        if self._options.notice_after is None or (self._notice and not self._notice.done()):
            return
        self._notice = self._spawn(self._notices(self._options.notice_after.total_seconds()))

    async def _notices(self, pause: float) -> None:
        while True:
            await asyncio.sleep(pause)
            if not self._progress.under_way:
                return
            if not self._turns.speaks and self._connected.is_set():
                waits = next(reversed(self._progress.under_way.values()))
                words = WAITING_FOR_A_PERSON if waits else STILL_WORKING
                response: JsonObject = {"instructions": words, "tool_choice": "none"}
                await self._raw("response.create", {"response": response})
            pause *= 2

    # --- What people do on the line ---------------------------------------------------------------

    async def say(self, message: RealtimeModelUserInput) -> None:
        """Send a message of the user to the model."""
        await self._connected.wait()
        self._turns.send(message)
        await self._model.send_event(RealtimeModelSendUserInput(user_input=message))

    async def pass_on(self, event: RealtimeModelSendEvent) -> None:
        """Send a message of the program to the model; audio is dropped while there is no model."""
        if self._connected.is_set():
            await self._model.send_event(event)

    async def decide(self, call_id: str, kind: DecisionType, **fields: Any) -> None:
        """Send a person's decision about a call that waits for it, as the program was told of it."""
        for request in (await self._run.state()).pending_approvals:
            if request.call_id == call_id and request.kind != "worker":
                shown = self._progress.asked.get(request.id, request)
                await self._run.decide(decision_about(shown, kind, channel="line", **fields))
                return

    async def update_agent(self, agent: RealtimeAgent[Any]) -> None:
        """Make another agent active, as a handoff of the program.

        Raises:
            UserError: the agent is not reachable from the starting agent.
        """
        name = self._worker.registry.agent(agent.name).name
        call_id = f"update-{secrets.token_hex(6)}"
        raw = call_raw(call_id, "update_agent")
        live = await self._live(name)
        plan = PlannedCall(
            item=0, kind="handoff", target=name, target_steps=live.invocation.required_steps()
        )
        reply = ModelReply(items=(raw,), calls=(plan,), response_id=call_id, model="program")
        self._quiet_switch = True
        self._progress.replied([raw])
        await self._run.reply((), reply)

    # --- Sending ----------------------------------------------------------------------------------

    async def _send_output(self, call_id: str, text: str, *, respond: bool) -> None:
        call = self._calls.get(call_id) or RealtimeModelToolCallEvent("", call_id, "")
        await self._send(RealtimeModelSendToolOutput(call, text, respond))

    async def _create(self, item: JsonObject) -> None:
        self._turns.ignore_item(str(item["id"]))
        await self._raw("conversation.item.create", {"item": item})

    async def _respond(self) -> None:
        await self._raw("response.create", {})

    async def _raw(self, kind: str, other_data: JsonObject) -> None:
        message: RealtimeClientMessage = {"type": kind}
        if other_data:
            message["other_data"] = other_data
        await self._send(RealtimeModelSendRawMessage(message))

    async def _send(self, event: RealtimeModelSendEvent) -> None:
        """Send something to the model; a lost connection gets it again when it is renewed."""
        try:
            await self._model.send_event(event)
        except Exception as error:  # noqa: BLE001  the end of the connection is an event of its own
            if self._connected.is_set() and not self._ended:
                logger.debug("the line %s could not send: %s", self.id, error)
                await self._tell(self._session.error(error))
