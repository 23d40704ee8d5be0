"""The workflow of a run: an interpreter of the loop's commands.

Everything that reaches the workflow (its input, signals, updates, results of activities, a
request to cancel) becomes an event; `advance` answers with commands; each command is carried out
here. Nothing in this file knows what a tool, a turn or an approval is for: a feature is a new
event or command, and this file does not grow with it.

Two rules keep runs alive. No exception leaves a handler, so no workflow task ever fails: every
error becomes an event or a typed failure of the workflow. And one coroutine carries out all
commands, after everything that a workflow task delivered has become an event.
"""

import asyncio
import contextlib
import inspect
import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue, RetryPolicy, SearchAttributeUpdate
from temporalio.exceptions import ApplicationError, FailureError, WorkflowAlreadyStartedError

from outlast.contract import (
    failures,
    history,
    names,
    policies,
    records,
    stages,
)
from outlast.contract.effects import activity_type, kind_of, payload_of, request_of
from outlast.contract.refusals import proof_refusal, refusal_of
from outlast.contract.stages import Stage, StageObserver
from outlast.contract.worker_state import INLINE_BYTES, WorkerState
from outlast.loop import invariants, phrases
from outlast.loop.effects import (
    CallModel,
    CancelEffect,
    Command,
    Effect,
    Finish,
    LendBudget,
    NotifyAfterEnd,
    NotifyParent,
    ReportToTeam,
    RunAgent,
    RunTool,
)
from outlast.loop.events import (
    CancelRequested,
    EffectBlocked,
    Event,
    MessageReceived,
    TimePassed,
)
from outlast.loop.human_actions import HUMAN_ACTIONS
from outlast.loop.machine import advance
from outlast.loop.spending import model_uses, spent_of_parent
from outlast.loop.state import LoopState, line_of, redacted_in
from outlast.loop.stored import weight
from outlast.loop.values import JsonObject
from outlast.temporal.payloads.attributes import CUSTOMER, TENANT, first_attributes
from outlast.temporal.payloads.failures import engine_failure
from outlast.temporal.payloads.readable import raw_json
from outlast.views.redaction import shown_notices, told
from outlast.workflows import presentation
from outlast.workflows.timeline import WaitBars
from outlast.workflows.translation import (
    NO_ATTRIBUTES,
    attribute_update,
    check_size,
    end_as_cancelled,
    readable_update,
    received_json,
    retry_policy,
    typed_error,
)

if TYPE_CHECKING:
    from outlast.workflows.team_reports import TeamReports

LARGEST_CARRIED_BYTES = 1_900_000
"""The maximum compressed size. The server takes payloads of 2 MB, and histories of 50 MB."""

LISTED_FOR_MS = 10_000
"""A wait for approval stays listed for this time at least: each change of search attributes and each
timer is billed, and a run whose calls are approved at once would change them twice a turn."""

DEFECTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""Errors that fail the run instead of its task, which Temporal would retry for ever. Not every
`Exception`: a worker whose code does not fit a history must not end the run."""


T = TypeVar("T")
Handler = TypeVar("Handler", bound=Callable[..., Any])

NOTHING = RawValue(Payload(metadata={"encoding": b"binary/null"}))
"""The argument of a handler that was called without one."""


def takes_raw_value(handler: Handler) -> Handler:
    """Make the SDK pass a single argument unconverted, and accept too many arguments.

    The SDK converts arguments by annotation if their number matches; otherwise it fails the run or
    drops the signal. The signature therefore names one raw value and hides the rest.
    """
    parameters = inspect.signature(handler).parameters.values()
    shown = [one for one in parameters if one.kind is not inspect.Parameter.VAR_POSITIONAL]
    # The SDK only takes a function for a method if its `self` has no annotation.
    shown[0] = shown[0].replace(annotation=inspect.Parameter.empty)
    vars(handler)["__signature__"] = inspect.Signature(shown)
    return handler


def described_signal(name: str, description: str) -> Any:
    """Return a handler for a signal that people may send from the Temporal UI."""

    @workflow.signal(name=name, description=description)
    @takes_raw_value
    def signal(self: Any, payload: RawValue = NOTHING, *_more: Any) -> None:
        self.take_signal(name, [payload])

    return signal


def described_update(name: str, description: str) -> Any:
    """Return a handler for an update, with its validator."""

    @workflow.update(name=name, description=description)
    @takes_raw_value
    def update(self: Any, payload: RawValue = NOTHING, *_more: Any) -> JsonObject:
        return self.take_update(name, [payload])

    @update.validator
    @takes_raw_value
    def validate(self: Any, payload: RawValue = NOTHING, *_more: Any) -> None:
        self.validate_update(name, [payload])

    return update


def with_human_actions(kind: type[T]) -> type[T]:
    """Add a signal and an update for everything that people can do in a run."""
    for one in HUMAN_ACTIONS:
        setattr(kind, f"signal_{one.name}", described_signal(one.name, one.usage))
        setattr(kind, f"update_{one.name}", described_update(one.name, one.usage))
    return kind


@workflow.defn(name=names.WORKFLOW, sandboxed=False, failure_exception_types=DEFECTS)
@with_human_actions
class AgentRun:
    """One run of an agent: one question and its answer, or a conversation that stays open."""

    _shown_at = 0
    _shows_later: asyncio.Task[None] | None = None
    _writes = 0
    _case_writes = 0

    @workflow.init
    @takes_raw_value
    def __init__(self, payload: RawValue = NOTHING, *_more: Any) -> None:
        """Read the input here, so that early signals find a started run."""
        info = workflow.info()
        self._id, self._run_id = info.workflow_id, info.run_id
        self._state = LoopState()
        self._stages: tuple[Stage, ...] = ()
        self._observer: StageObserver | None = lent(names.OBSERVER)
        self._worker: WorkerState | None = lent(names.WORKER_STATE)
        self._commands: list[Command] = []
        self._running: dict[int, asyncio.Task[None]] = {}
        self._requests: dict[int, Any] = {}
        self._bars = WaitBars(self._on_due)
        self._news = True
        self._stepped = False
        self._rested = False
        self._carries_from = 0
        self._refused = -1
        self._starting = asyncio.Lock()
        self._started: tuple[int, int] = (0, 0)
        self._signalling: asyncio.Task[None] | None = None
        self._cancel_requested = False
        self._defect: ApplicationError | None = None
        self._visibility = False
        self._unlisted = self._uncased = False
        self._reports: TeamReports | None = None
        unlisted_before = is_new = False
        try:
            record = records.read(records.RunInput, received_json(payload))
            self._visibility, unlisted_before = record.visibility, record.unlisted
            if record.carried is not None:
                self._state = records.read_carried(record.carried)
            chain_id, now_ms = info.original_execution_run_id, self._now_ms()
            is_new = (begins := history.start_of(self._id, record, now_ms, chain_id)) is not None
            if begins is None:
                self._stages = stages.resumed(self._state, record.stages)
                self._commands.extend(self._state.pending)
            else:
                self._take(begins)
        except records.UnreadableRecordError as error:
            self._defect = typed_error(
                failures.USER_ERROR, f"The run's input is unreadable: {error}"
            )
        self._shown = {} if unlisted_before else self._first_shown(is_new=is_new)

    @workflow.run
    @takes_raw_value
    async def run(self, payload: RawValue = NOTHING, *_more: Any) -> JsonObject:
        """Carry out commands until the loop ends the run.

        Raises:
            ApplicationError: the run failed; the type is the failure's code.
        """
        while True:
            await self._until_there_is_news()
            if self._defect is not None:
                await self._leave_everything()
                raise self._defect
            waits = not (self._stepped or self._commands)
            moves = (self._rested and self._upgrades()) or (waits and self._rolls_over())
            if moves and not self._cancel_requested:
                await self._await_late_cancellation()
            if self._cancel_requested:
                self._cancel_requested = False
                self._take(CancelRequested(at_ms=self._now_ms()))
            if self._stepped and self._rolls_over():
                self._continue_as_new()
            self._stepped = False
            while self._commands:
                command = self._commands.pop(0)
                if isinstance(command, Finish):
                    if self._reports is not None:
                        await self._reports.until_sent()
                    return self._finish(command)
                if isinstance(command, NotifyAfterEnd):
                    await self._notify_after_end(command)
                else:
                    self._dispatch(command)
            self._show()
            self._rested = self._state.phase == "idle" and not self._running

    async def _leave_everything(self) -> None:
        """Cancel pending effects: a local activity must not end after its workflow."""
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _until_there_is_news(self) -> None:
        while not (self._news or self._cancel_requested):
            try:
                await workflow.wait_condition(lambda: self._news or self._cancel_requested)
            except asyncio.CancelledError:
                # A cancellation by the engine. Waiting once more delivers everything else of
                # this workflow task before the cancellation.
                self._cancel_requested = True
                await workflow.wait_condition(lambda: True)
        self._news = False

    async def _await_late_cancellation(self) -> None:
        """Wait until a cancellation that came with a message has been delivered, too.

        The SDK delivers messages first and runs the workflow, and delivers a fired timer last.
        """
        try:
            await workflow.sleep(timedelta(milliseconds=1))
        except asyncio.CancelledError:
            self._cancel_requested = True
        self._stepped = True

    # --- Events -----------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        self._news = True
        before = self._state
        try:
            self._state, commands = advance(before, event)
            invariants.check(self._state)
        except invariants.BrokenInvariantError as error:
            message = f"outlast has a defect: invariant {error} is broken after {event!r:.200}."
            self._defect = typed_error(failures.INTERNAL, message)
            return
        except Exception as error:  # noqa: BLE001  a defect must fail the run, not hang its task
            message = f"outlast has a defect: {type(error).__name__}: {error}"
            self._defect = typed_error(failures.INTERNAL, message)
            return
        self._commands.extend(commands)
        self._report_stages(before, event)

    def _on_due(self) -> None:
        self._take(TimePassed(at_ms=self._now_ms()))

    def _report_stages(self, before: LoopState, event: Event) -> None:
        """Pass the stages that began and ended to the worker, for new events only."""
        try:
            self._stages, changes = stages.advanced(self._stages, before, event, self._state)
            if changes and self._observer is not None and not workflow.unsafe.is_replaying():
                self._observer(self._state, changes)
        except Exception:  # noqa: BLE001  whatever it is, the run goes on
            workflow.logger.exception("The stages of a run could not be reported")

    signal_cancel: Any = described_signal(
        names.SIGNAL_CANCEL, 'Stop the run: {"mode": "immediate" or "after_turn"}'
    )
    signal_nested: Any = described_signal(
        names.SIGNAL_NESTED, "From nested runs: their pending approvals"
    )

    @workflow.signal(dynamic=True)
    def signal_other(self, name: str, arguments: Sequence[RawValue]) -> None:
        """Take a signal that only programs send, or record an unknown one for its sender to see."""
        self.take_signal(name, arguments[:1])

    update_send: Any = described_update(
        names.UPDATE_SEND,
        'Send a message: {"input": "...", "message_id": "a unique id", "mode": "queue", "steer" or '
        '"interrupt"}',
    )
    update_retry: Any = described_update(
        names.UPDATE_RETRY,
        'Ask the last question again, which failed: {"answers": the number of answers}',
    )

    @workflow.update(dynamic=True)
    def update_other(self, name: str, arguments: Sequence[RawValue]) -> JsonObject:
        """Take an update that only programs send."""
        return self.take_update(name, arguments[:1])

    @update_other.validator
    def validate_other(self, name: str, arguments: Sequence[RawValue]) -> None:
        """Refuse an update that does not exist, or that would have no effect."""
        self.validate_update(name, arguments[:1])

    def take_signal(self, name: str, arguments: Sequence[RawValue]) -> None:
        """Take a signal; one that has no effect is noted in the state."""
        payload = [received_json(argument) for argument in arguments]
        self._take(history.signalled(name, payload, self._now_ms()))

    def take_update(self, name: str, arguments: Sequence[RawValue]) -> JsonObject:
        """Take an accepted update, and return its receipt."""
        payload = [received_json(argument) for argument in arguments]
        event = history.updated(name, payload, self._now_ms())
        self._take(event)
        return presentation.receipt(self._state, event)

    def validate_update(self, name: str, arguments: Sequence[RawValue]) -> None:
        """Refuse an update that is unreadable or has no effect, before it is written into history.

        Raises:
            ApplicationError: it is refused; the message says why.
        """
        for argument in arguments:
            check_size(argument)
        payload = [received_json(argument) for argument in arguments]
        event = readable_update(name, payload, self._now_ms())
        body = payload[0] if payload else None
        namespace = workflow.info().namespace
        unproven = proof_refusal(self._state, name, body, namespace, lent(names.VERIFIER))
        refused = unproven or refusal_of(self._state, event)
        if refused is not None:
            raise typed_error(refused.code, refused.message)
        if isinstance(event, MessageReceived):
            self._refuse_if_full()

    def _refuse_if_full(self) -> None:
        if self._is_full():
            raise typed_error(failures.CONVERSATION_FULL, phrases.conversation_full(self._id))
        if len(self._state.inbox) >= policies.LONGEST_INBOX:
            raise typed_error(
                failures.RUN_BUSY,
                f"The run {self._id} has {policies.LONGEST_INBOX:,} unanswered messages, which is the "
                "limit. Check what the run waits for, or send again after its next answer.",
            )

    # --- Commands ---------------------------------------------------------------------------------

    def _dispatch(
        self, command: CancelEffect | NotifyParent | LendBudget | ReportToTeam | Effect
    ) -> None:
        match command:
            case CancelEffect():
                task = self._running.pop(command.effect, None)
                if task is not None:
                    task.cancel()
            case NotifyParent() | LendBudget():
                self._signalling = asyncio.create_task(self._signal_run(command, self._signalling))
            case ReportToTeam():
                if self._reports is None:
                    from outlast.workflows.team_reports import TeamReports

                    self._reports = TeamReports()
                self._reports.send(command)
            case CallModel(line=line) if line:
                pass  # the line sees it in the history, and replies by signal
            case _:
                self._running[command.effect] = asyncio.create_task(self._perform(command))

    async def _signal_run(
        self, command: NotifyParent | LendBudget, before: asyncio.Task[None] | None
    ) -> None:
        """Signal the parent or a nested run, one after the other; one that has ended is ignored."""
        if before is not None:
            await before
        run_id, name, record = records.signal_of(command)
        with contextlib.suppress(FailureError):
            await workflow.get_external_workflow_handle(run_id).signal(name, record)

    async def _notify_after_end(self, command: NotifyAfterEnd) -> None:
        """Start the workflow that delivers the last notices, whatever happens meanwhile."""
        starting = asyncio.create_task(self._start_notices(command))
        while not starting.done():
            with contextlib.suppress(asyncio.CancelledError):
                await workflow.wait_condition(starting.done)

    async def _start_notices(self, command: NotifyAfterEnd) -> None:
        for number, record in enumerate(
            records.notices_records(self._id, shown_notices(self._state, command.notices))
        ):
            with contextlib.suppress(FailureError):
                await workflow.start_child_workflow(
                    names.WORKFLOW_NOTICES,
                    record,
                    id=names.notices_id(self._run_id, number),
                    parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                    static_summary=presentation.notices_summary(self._id),
                )

    async def _perform(self, effect: Effect) -> None:
        """Run one activity, and make exactly one event from its end.

        An effect that no worker can carry out is shown as blocked, and runs again until one can.
        """
        try:
            event = await self._ended(effect)
            while isinstance(event, EffectBlocked):
                self._take(event)
                event = await self._ended(effect)
        except asyncio.CancelledError:
            return
        self._running.pop(effect.effect, None)
        self._requests.pop(effect.effect, None)
        self._stepped = True
        self._take(event)

    async def _ended(self, effect: Effect) -> Event:
        """Run one activity, and return its event."""
        blocked = history.is_blocked(self._state, effect)
        try:
            payload = received_json(await self._execute(effect, blocked=blocked))
            return history.answered(effect, payload, self._now_ms())
        except FailureError as error:
            failure = engine_failure(error)
        except Exception as error:  # noqa: BLE001  an effect never raises: it has an event
            failure = failures.EngineFailure(kind="other", message=str(error))
        return history.failed(effect, failure, self._now_ms(), blocked=blocked)

    async def _execute(self, effect: Effect, *, blocked: bool) -> Any:
        if isinstance(effect, CallModel | RunTool | RunAgent) and self._is_full():
            return await self._refuse(effect)
        if isinstance(effect, RunAgent):
            return await self._run_nested(effect)
        kind = kind_of(effect)
        policy = kind.policy(effect)
        one_attempt = timedelta(milliseconds=policy.timeout_ms + policies.SLACK_MS)
        if policy.fast and not blocked and self._may_be_local(effect):
            # Inputs of local activities are not recorded, so the whole request travels.
            return await workflow.execute_local_activity(
                activity_type(effect),
                _sent(records.write_json(payload_of(request_of(self._state, effect)))),
                activity_id=str(effect.effect),
                result_type=RawValue,
                start_to_close_timeout=one_attempt,
                schedule_to_close_timeout=timedelta(milliseconds=policies.LONGEST_MS),
                retry_policy=retry_policy(policy),
                summary=presentation.summary(self._state, effect),
            )
        longest_ms, request = policies.LONGEST_MS, self._request(effect, patient=blocked)
        retries = retry_policy(policy)
        if blocked:
            longest_ms = kind.wait_for_worker_ms
            retries = retry_policy(policies.UNTIL_A_WORKER_HAS_IT)
        return await workflow.execute_activity(
            activity_type(effect),
            request,
            activity_id=str(effect.effect),
            result_type=RawValue,
            task_queue=policy.queue,
            start_to_close_timeout=one_attempt,
            schedule_to_close_timeout=timedelta(milliseconds=longest_ms),
            heartbeat_timeout=timedelta(
                milliseconds=policies.heartbeat_ms(self._state.start.settings, kind.heartbeat_ms)
            ),
            retry_policy=retries,
            summary=presentation.summary(self._state, effect),
        )

    def _may_be_local(self, effect: Effect) -> bool:
        """Whether a fast effect may be a local activity, as few calls of one reply are."""
        fast = [call.effect for call in self._state.calls if call.plan.policy.fast]
        return effect.effect not in fast or fast.index(effect.effect) < policies.FAST_CALLS

    def _is_full(self) -> bool:
        """Whether the history can neither be continued nor take another effect's result."""
        if self._carries_from == 0:
            return False
        info = workflow.info()
        return self._refused == len(self._state.answers) or policies.is_full(
            events=info.get_current_history_length(),
            size_bytes=info.get_current_history_size(),
            running=max(len(self._running) - 1, 0),
        )

    async def _refuse(self, effect: Effect) -> Any:
        """Fail an effect in history, so that every reader of the history sees the failure.

        The rest of the question is refused as well: a model would only repeat the call.
        """
        self._refused = len(self._state.answers)
        return await workflow.execute_local_activity(
            names.ACTIVITY_REFUSE,
            {"code": failures.CONVERSATION_FULL, "message": phrases.conversation_full(self._id)},
            activity_id=str(effect.effect),
            start_to_close_timeout=timedelta(seconds=30),
            retry_policy=RetryPolicy(maximum_attempts=1),
            summary=presentation.summary(self._state, effect),
        )

    async def _room_to_start(self, size_bytes: int) -> None:
        """Wait until a nested run's input fits into the workflow task that starts it."""
        async with self._starting:
            at, started = self._started
            now = workflow.info().get_current_history_length()
            started = started if at == now else 0
            is_full = started > 0 and started + size_bytes > policies.STARTED_AT_ONCE_BYTES
            if is_full:
                await workflow.sleep(timedelta(milliseconds=1))  # ends the workflow task
                now, started = workflow.info().get_current_history_length(), 0
            self._started = now, started + size_bytes

    async def _run_nested(self, effect: RunAgent) -> Any:
        """Run an agent used as a tool as a child workflow, which is cancelled with this run.

        After a reset, the nested run of the abandoned history may still have the id. What else may
        have it is not this run's to end.
        """
        record = records.nested_input(effect, visibility=self._visibility and not self._unlisted)
        payload = records.write(record)
        while True:
            await self._room_to_start(len(json.dumps(payload)))
            # Must be read in the workflow task of the start.
            listed = self._writes_attributes(*names.ATTRIBUTES_OF_ALL)
            try:
                return await workflow.execute_child_workflow(
                    names.WORKFLOW,
                    payload,
                    id=effect.nested_id,
                    result_type=RawValue,
                    parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
                    search_attributes=first_attributes(effect.target, *_owners())
                    if listed
                    else None,
                    static_summary=presentation.summary(self._state, effect),
                )
            except WorkflowAlreadyStartedError:
                await workflow.execute_activity(
                    names.ACTIVITY_FREE_ID,
                    effect.nested_id,
                    activity_id=str(effect.effect),
                    start_to_close_timeout=timedelta(seconds=30),
                    schedule_to_close_timeout=timedelta(minutes=5),
                    summary=presentation.summary(self._state, effect),
                )

    def _request(self, effect: Effect, *, patient: bool) -> Any:
        """Return the request itself if it is small, else a claim on it.

        `patient` ones have waited for a worker that can carry the effect out.
        """
        request = request_of(self._state, told(self._state, effect))
        inline = kind_of(effect).inline(effect)
        written = records.small(payload_of(request), INLINE_BYTES) if inline else None
        if written is not None:
            return {**json.loads(written), "patient": True} if patient else _sent(written)
        self._requests[effect.effect] = request
        if self._worker is not None:  # lent by `OutlastPlugin`; others fetch the request by query
            self._worker.requests.offer(self._run_id, effect.effect, request)
        return {"claim": effect.effect, **({"patient": True} if patient else {})}

    def _finish(self, finish: Finish) -> JsonObject:
        """Return the run's result, or end the workflow as failed or cancelled.

        Raises:
            ApplicationError: the run failed.
            asyncio.CancelledError: it was cancelled.
        """
        changed = presentation.attributes(self._state) != self._shown
        is_cancelled = finish.status == "cancelled"
        if changed or is_cancelled:
            self._show(at_once=True)
            if is_cancelled:
                end_as_cancelled()
        if finish.status == "failed" and finish.failure is not None:
            failure = finish.failure
            spent = records.spent_of(self._state)
            raise typed_error(failure.code, failure.message, failure.details, spent=spent)
        result = records.RunResultRecord(
            status=finish.status,
            agent=self._state.agent,
            final_output=finish.final_output,
            failure=finish.failure,
            turns=self._state.turns,
            usage=self._state.usage,
            uses=model_uses(self._state),
            context=self._state.context if self._state.start.parent else None,
            remembered=self._state.remembered if self._state.start.parent else (),
            redacted=redacted_in(self._state) if self._state.start.parent else (),
            spent=spent_of_parent(self._state),
        )
        return records.write(result)

    # --- Continuing in a new history
    # ----------------------------------------------------------------

    def _rolls_over(self) -> bool:
        """Whether to continue in a new history: between two steps, with no pending effect.

        A realtime line goes on: its activity begins again in the new history under the same id,
        which is all that the line's heartbeats name.

        Called after a step, or after `_await_late_cancellation`: the SDK delivers signals before a
        cancellation of the same workflow task, and a cancellation after the end of this history
        would be lost. What the loop has just commanded would be lost as well, unless the new
        history begins with it: it begins with the pending effects, and with nothing else.
        """
        info = workflow.info()
        events, size_bytes = info.get_current_history_length(), info.get_current_history_size()
        if info.is_target_worker_deployment_version_changed() and not self._may_change_version():
            # The turn ends first; then the new version takes over.
            events, size_bytes = events // 2, size_bytes // 2
        line = line_of(self._state)
        return (
            self._running.keys() <= {line.effect if line is not None else 0}
            and info.get_current_history_size() >= self._carries_from
            and self._state.phase not in {"new", "closed"}
            and all(one in self._state.pending for one in self._commands)
            and (self._signalling is None or self._signalling.done())
            and (self._reports is None or self._reports.all_sent)
            and workflow.all_handlers_finished()
            and (
                self._upgrades()
                or info.is_continue_as_new_suggested()
                or policies.rolls_over(self._state, events=events, size_bytes=size_bytes)
            )
        )

    def _upgrades(self) -> bool:
        """Whether to continue on the worker deployment's new version: at rest, or just after it."""
        at_rest = self._rested or self._state.phase == "idle"
        cannot = self._running or self._carries_from
        return at_rest and not cannot and self._may_change_version()

    def _may_change_version(self) -> bool:
        """Whether a pinned run has a new version, and no open plan of its own version.

        A plan names tools and agents of the version that made it, so that version has to finish it.
        """
        state = self._state
        planned = state.calls or state.question.candidate or state.closing
        return not planned and workflow.info().is_target_worker_deployment_version_changed()

    def _continue_as_new(self) -> None:
        """Continue in a new history, or in this one if no payload can hold the state."""
        fits = weight(self._state.items) <= policies.MAY_BE_CARRIED
        carried = records.write_state(self._state) if fits else {}
        if not fits or len(carried.get("zlib", "")) > LARGEST_CARRIED_BYTES:
            size = workflow.info().get_current_history_size()
            self._carries_from = size + policies.TRIED_AGAIN_AFTER_BYTES
            return
        self._show(at_once=True)
        listed = (name for name, value in self._shown.items() if value is not None)
        unlisted = self._visibility and not self._writes_attributes(*listed)
        record = records.RunInput(
            agent=self._state.agent,
            visibility=self._visibility,
            unlisted=unlisted,
            carried=carried,
            stages=self._stages,
        )
        upgrade = workflow.ContinueAsNewVersioningBehavior.AUTO_UPGRADE
        workflow.continue_as_new(
            records.write(record),
            search_attributes=NO_ATTRIBUTES if unlisted else None,
            initial_versioning_behavior=upgrade if self._may_change_version() else None,
        )

    # --- What people see --------------------------------------------------------------------------

    def _show(self, *, at_once: bool = False) -> None:
        """Show what the run waits for: in its search attributes, and as bars of the timeline."""
        attributes, now_ms = presentation.attributes(self._state), self._now_ms()
        was_brief = not at_once and self._was_brief(attributes, now_ms)
        if attributes != self._shown and not was_brief:
            changed = [one for one in attributes if attributes[one] != self._shown.get(one)]
            if not self._lists_case(changed):
                changed = [one for one in changed if one not in names.ATTRIBUTES_OF_CASE]
            updates: list[SearchAttributeUpdate[Any]] = [
                attribute_update(name, attributes[name]) for name in changed
            ]
            if updates and self._writes_attributes(*changed):
                workflow.upsert_search_attributes(updates)  # pyright: ignore[reportUnknownMemberType]  the SDK's own annotation
            self._shown, self._shown_at = attributes, now_ms
        self._bars.show(presentation.waits(self._state), now_ms, may_return=was_brief)

    def _first_shown(self, *, is_new: bool) -> presentation.Attributes:
        """Return the attributes that the server has when this history begins.

        The history before has written those of the state. A new run starts with its agent alone,
        also if its state waits already, as that of a fork does; a history without the patch was
        recorded before this held.
        """
        shown = presentation.attributes(self._state)
        if not is_new or not self._visibility:
            return shown
        first = presentation.first_attributes(self._state.agent)
        return first if first != shown and workflow.patched("outlast-listed-fork") else shown

    def _was_brief(self, attributes: presentation.Attributes, now_ms: int) -> bool:
        """Whether an approval took so little time that its end is shown later.

        It is shown after `LISTED_FOR_MS`, or with the next wait before, or at the run's end.
        """
        status = names.ATTRIBUTE_STATUS
        is_over = self._shown.get(status) == "waiting" and attributes[status] is None
        left_ms = self._shown_at + LISTED_FOR_MS - now_ms
        if not is_over or left_ms <= 0 or not self._visibility or self._unlisted:
            return False
        if self._shows_later is None:
            self._shows_later = asyncio.create_task(self._show_in(left_ms))
        return True

    async def _show_in(self, after_ms: int) -> None:
        await workflow.sleep(timedelta(milliseconds=after_ms))
        self._shows_later = None
        self._news = True

    def _lists_case(self, written: Sequence[str]) -> bool:
        """Whether to write the attributes of a case; after one no, this history writes none of them.

        The namespace of an older version lacks only these, so the run is found by all others.
        """
        is_of_case = not names.ATTRIBUTES_OF_CASE.isdisjoint(written)
        if not is_of_case or not self._visibility or self._unlisted or self._uncased:
            return not self._uncased
        self._case_writes += 1
        lacks = self._worker is not None and bool(names.ATTRIBUTES_OF_CASE & self._worker.lacks)
        lacking = workflow.unsafe.is_replaying() or lacks
        self._uncased = lacking and workflow.patched(f"outlast-uncased-{self._case_writes}")
        return not self._uncased

    def _writes_attributes(self, *written: str) -> bool:
        """Whether to write search attributes now; after one no, this history writes none.

        A server refuses every workflow task that writes an attribute which the namespace lacks.
        What this process found out about the namespace is recorded as a patch, only in such
        histories.
        """
        if not self._visibility or self._unlisted:
            return False
        self._writes += 1
        lacks = frozenset[str]() if self._worker is None else self._worker.lacks
        lacking = workflow.unsafe.is_replaying() or not lacks.isdisjoint(
            {*written, *_listed_owners()}
        )
        self._unlisted = lacking and workflow.patched(f"outlast-unlisted-{self._writes}")
        return not self._unlisted

    @property
    def has_ended(self) -> bool:
        """Whether the loop has ended the run, so that no effect follows."""
        return self._state.phase == "closed"

    def current_details(self) -> str:
        """Return the details that the Temporal UI shows, in Markdown.

        `Details` makes them when somebody looks: for every step, they would cost more than the
        loop itself.
        """
        return presentation.details(self._state)

    @workflow.query(name=names.QUERY_STATE, description="A short snapshot of the run")
    def query_state(self) -> JsonObject:
        """Return a short snapshot of the run."""
        return presentation.state_view(self._state)

    @workflow.query(name=names.QUERY_TRANSCRIPT, description="The newest items of the transcript")
    def query_transcript(self) -> list[JsonObject]:
        """Return the newest items, formatted for people."""
        return presentation.transcript_view(self._state)

    @workflow.query(name=names.QUERY_APPROVALS, description="The pending approval requests")
    def query_approvals(self) -> list[JsonObject]:
        """Return the pending approval requests."""
        return presentation.approvals_view(self._state)

    @workflow.query(name=names.QUERY_REQUEST, description="For workers: a request by its claim")
    def query_request(self, effect: int = 0, page: int = 0) -> JsonObject:
        """Return one page of an effect's request; no data if the effect is no longer pending."""
        pending = next((one for one in self._state.pending if one.effect == effect), None)
        if pending is None:
            return {"data": "", "more": False}
        # What the run hides may grow while pages are read.
        request = self._requests.get(effect) or request_of(self._state, pending)
        return records.page_of(records.dump(request), page)

    @workflow.query(name=names.QUERY_SNAPSHOT, description="For tests: the whole state")
    def query_snapshot(self, page: int = 0) -> JsonObject:
        """Return one page of the whole state."""
        return records.page_of(records.dump(self._state), page)

    def _now_ms(self) -> int:
        return workflow.time_ns() // 1_000_000


def lent(name: str) -> Any:
    """Return a function that the worker lends its workflows, or None."""
    functions: dict[str, Any] = {**workflow.extern_functions()}  # pyright: ignore[reportUnknownMemberType]  the SDK's own annotation
    return functions.get(name)


def _sent(written: bytes) -> Any:
    """Return JSON text as an argument."""
    return raw_json(workflow.payload_converter(), written)


def _owners() -> tuple[str, str]:
    """Return the tenant and the customer that this run is listed with; empty for none."""
    listed = workflow.info().typed_search_attributes
    return listed.get(TENANT, ""), listed.get(CUSTOMER, "")


def _listed_owners() -> list[str]:
    """Return which attributes of a tenant and a customer this run is listed with."""
    return [
        name for name, value in zip(names.ATTRIBUTES_OF_OWNERS, _owners(), strict=True) if value
    ]
