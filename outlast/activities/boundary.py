"""The Temporal activities, which fetch requests, heartbeat and translate errors."""

import asyncio
import contextvars
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, Self, cast

from temporalio import activity
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.attempt import Attempt, attempt_effect
from outlast.activities.attempt_error import AttemptError, next_attempt_in
from outlast.activities.content import ATTEMPTS, recorded_result, whole_request
from outlast.activities.errors import EffectError, cut, is_retryable, worker_lookup
from outlast.activities.heartbeats.engine_heartbeat import (
    Clocks,
    began_in_time,
    heartbeat_timeout,
    sender_and_poller,
    through_the_loop,
)
from outlast.activities.heartbeats.heartbeats import Beat, heartbeats
from outlast.activities.heartbeats.stream_heartbeats import (
    Cadence,
    StreamHeartbeats,
    is_billed,
)
from outlast.activities.model.retry import OF_THE_MODEL
from outlast.activities.scheduled import send_scheduled_message
from outlast.activities.worker_deps import WorkerDeps
from outlast.contract import failures, names, policies, records
from outlast.contract.effects import EffectKind, EffectRequest, kind_of_activity
from outlast.contract.streams.call_windows import FinishedCall, call_windows, place_of
from outlast.contract.streams.turn_stops import turn_stops
from outlast.contract.streams.window import DeltaWindow, ShownText
from outlast.edges import lazy
from outlast.loop.calls import ModelReply
from outlast.loop.effects import AgentEffect, CallModel, RunTool
from outlast.loop.fallback import NEXT_MODEL
from outlast.loop.values import Json, JsonObject
from outlast.ports.identity import Execution
from outlast.temporal.payloads.readable import raw_json
from outlast.tracing.current import CURRENT

CLAIM_ATTEMPTS = 20  # with the waits, five seconds: enough to move a run to another worker
CLAIM_WAIT_SECONDS = 0.25

RECORDING_SECONDS = 2.0
"""How long before its time-out an attempt has to be done with its result."""


class EffectActivities:
    """The activities of a worker."""

    def __init__(self, worker: WorkerDeps) -> None:
        self._deps = worker
        self._began_at = time.time()
        self._clocks = Clocks()

    @property
    def all(self) -> list[Any]:
        """The activities to register with a Temporal worker."""
        own = [self.run_effect, self.refuse_effect, self.free_nested_id, self.check_quality]
        return [*own, send_scheduled_message]

    @activity.defn(dynamic=True)
    async def run_effect(self, arguments: Sequence[RawValue]) -> Any:
        """Carry out the effect of the activity's type.

        One dynamic activity serves all types, so that a missing tool is refused with a message, and
        agents can be added while the worker runs.
        """
        converter, info = activity.payload_converter(), activity.info()
        payload: JsonObject = converter.from_payload(arguments[0].payload)
        with _Scope(info, payload, self._deps.model_patience, self._began_at) as scope:
            late, own = self._deps.memory.late_results, ("", "", "")
            if info.is_local:
                own = (info.workflow_run_id or "", info.activity_id, info.activity_type)
                if (written := late.find(own)) is not None:
                    return raw_json(converter, written)
            begun = time.monotonic()
            written = await self._written_result(scope, payload)
            if info.is_local:
                late.keep(own, written, time.monotonic() - begun)
            return raw_json(converter, written)

    @activity.defn(name=names.ACTIVITY_QUALITY)
    async def check_quality(self, payload: JsonObject) -> JsonObject:
        """Carry out a step of a quality check, which few workers have: it needs the extra `evals`.

        Raises:
            ApplicationError: the extra is missing.
        """
        try:
            step: Any = lazy.load("outlast.evals.quality:carry_out")
        except ImportError as error:
            message = f"A quality check needs {error.name}: pip install 'outlast[evals]'"
            raise ApplicationError(message, type=failures.USER_ERROR) from error
        done: JsonObject = await step(payload, self._deps)
        return done

    async def _written_result(self, scope: "_Scope", payload: JsonObject) -> bytes:
        info = scope.info
        kind = kind_of_activity(info.activity_type)
        if kind is None or not kind.function:
            message = f"This worker has no activity {info.activity_type!r}. Is it on the right task queue?"
            raise EffectError(failures.USER_ERROR, message, retryable=True)
        ends, execution = _ends_at(info), _execution(info)
        request = _of_its_run(await self._request_of(kind, payload, info), execution)
        effect = request.effect
        with worker_lookup():
            worker = await self._deps.of_execution(execution, effect)
        _see_as(worker.caller)
        if not (isinstance(effect, CallModel) and effect.begun is not None):
            # A response in the background needs no content before the provider has made it.
            attempts = min(kind.policy(effect).attempts or ATTEMPTS, ATTEMPTS)
            request = await whole_request(worker, request, is_last=info.attempt >= attempts)
        if isinstance(effect, CallModel):
            result = await _call_model(worker, request, scope, execution)
        else:
            attempt = Attempt(
                number=info.attempt,
                progress=info.heartbeat_details[0] if info.heartbeat_details else None,
                report=None if scope.beat.send is None else partial(_report_progress, scope.beat),
                execution=execution,
                patient=scope.patient,
                arrived=effect.arrived if isinstance(effect, RunTool) else (),
            )
            result = await attempt_effect(worker, request, attempt)
        within = max(ends - time.monotonic(), 0.0)
        recorded = await recorded_result(self._deps.content, request, result, within=within)
        return records.write_json(recorded)

    async def _request_of(
        self, kind: EffectKind, payload: JsonObject, info: activity.Info
    ) -> EffectRequest[Any]:
        if not await began_in_time(info, self._clocks):
            raise _abandoned_error()
        if "claim" not in payload:
            if isinstance(cast("object", payload), dict) and isinstance(
                payload.get("effect"), dict
            ):
                return records.read(EffectRequest[kind.effect], payload)
            return EffectRequest(effect=records.read(kind.effect, payload))
        effect = int(payload["claim"])
        run_id = info.workflow_run_id
        request = self._deps.state.requests.take(run_id, effect) if run_id else None
        if isinstance(request, EffectRequest) and isinstance(request.effect, kind.effect):
            return request
        return await _ask_workflow(kind, effect)

    @activity.defn(name=names.ACTIVITY_REFUSE)
    async def refuse_effect(self, payload: JsonObject) -> JsonObject:
        """Fail an effect if its result is too large for the run's history."""
        raise ApplicationError(payload["message"], type=payload["code"], non_retryable=True)

    @activity.defn(name=names.ACTIVITY_FREE_ID)
    async def free_nested_id(self, nested_id: str) -> None:
        """End the open run with an id if the calling run has started it.

        Raises:
            ApplicationError: somebody else has started it.
        """
        try:
            await _end_abandoned(nested_id)
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:  # it has ended meanwhile
                raise


async def _call_model(
    worker: WorkerDeps, request: EffectRequest[CallModel], scope: "_Scope", execution: Execution
) -> ModelReply:
    """Call a model, and show its text to readers of this process and in heartbeats."""
    info, client = scope.info, activity.client()
    place = place_of(client, execution.workflow_id)
    chain_id = worker.key.chain_id if worker.key is not None else ""
    window = DeltaWindow(
        effect=int(info.activity_id), attempt=info.attempt, execution=execution.execution_id
    )
    is_read_here = partial(call_windows.has_reader, place)
    cadence = Cadence.of(request.effect.settings, is_billed=is_billed(client))
    shown = ShownText.before(info.heartbeat_details[0] if info.heartbeat_details else None)
    stream = StreamHeartbeats(window, scope.beat, cadence, is_read_here, shown)
    attempt = Attempt(
        number=info.attempt,
        on_event=stream.feed,
        execution=execution,
        has_reader_here=is_read_here,
        is_stopped=partial(turn_stops.is_stopped, execution.workflow_id, chain_id, window.effect),
        shown=shown,
    )
    with call_windows.running(place, window), stream:
        reply: ModelReply = await attempt_effect(worker, request, attempt)
    call_windows.keep(FinishedCall(place, window.effect, reply.response_id), window)
    return reply


async def _end_abandoned(nested_id: str) -> None:
    client, parent_id = activity.client(), activity.info().workflow_id
    description = await client.get_workflow_handle(nested_id).describe()
    if description.close_time is not None:
        return
    # The server knows which workflow has started it.
    if description.parent_id != parent_id or description.workflow_type != names.WORKFLOW:
        raise ApplicationError(
            f"The id {nested_id!r} of this nested run is in use by a workflow that its parent "
            "has not started. End that workflow, and ask again.",
            type=failures.USER_ERROR,
            non_retryable=True,
        )
    abandoned = client.get_workflow_handle(nested_id, run_id=description.run_id)
    await abandoned.terminate(reason="Its parent was reset, and runs it again.")


def _see_as(caller: contextvars.Context | None) -> None:
    """Set the context variables of the program that runs the run in this process.

    Only this attempt's task gets them. Variables that the attempt has already, such as the
    engine's, stay; and its spans belong to the run's trace, not to the program's place in it.
    """
    if caller is None:
        return
    own = contextvars.copy_context()
    for variable, value in caller.items():
        if variable not in own and variable is not CURRENT:
            variable.set(value)


def _execution(info: activity.Info) -> Execution:
    return Execution(
        namespace=info.workflow_namespace or info.namespace,
        workflow_id=info.workflow_id or "",
        execution_id=info.workflow_run_id or "",
    )


def _of_its_run(request: EffectRequest[Any], execution: Execution) -> EffectRequest[Any]:
    """Return the request under the id that the server names for its workflow.

    A workflow of somebody else's may schedule it with another id, which would give an approved call
    that runs again another idempotency key.
    """
    effect, run_id = request.effect, execution.workflow_id
    if not isinstance(effect, AgentEffect) or effect.run_id == run_id:
        return request
    return replace(request, effect=replace(effect, run_id=run_id))


async def _ask_workflow(kind: EffectKind, effect: int) -> EffectRequest[Any]:
    """Fetch a request that is not in this process from the workflow, page by page.

    Retried for a while: the workflow may be busy, or moving to another worker.
    """
    info = activity.info()
    handle = activity.client().get_workflow_handle(
        info.workflow_id or "", run_id=info.workflow_run_id
    )
    pages: list[str] = []
    more, failures_left = True, CLAIM_ATTEMPTS
    while more:
        try:
            page: JsonObject = await handle.query(names.QUERY_REQUEST, args=[effect, len(pages)])
        except RPCError as error:
            failures_left -= 1
            if failures_left == 0 or error.status == RPCStatusCode.NOT_FOUND:
                raise
            await asyncio.sleep(CLAIM_WAIT_SECONDS)
            continue
        pages.append(str(page["data"]))
        more = bool(page["more"])
    if not any(pages):
        message = "The run has ended; this attempt's result is not needed."
        raise EffectError(failures.CANCELLED, message, retryable=False)
    return records.load(EffectRequest[kind.effect], pages)


def _ends_at(info: activity.Info) -> float:
    """Return until when the server waits for a result, less the time that storing it takes."""
    longest = info.start_to_close_timeout or timedelta(milliseconds=policies.LONGEST_MS)
    return time.monotonic() + longest.total_seconds() - RECORDING_SECONDS


def _report_progress(beat: Beat, progress: Json) -> None:
    """Send progress at once, and with every further heartbeat: one without would remove it."""
    beat.send = through_the_loop(lambda: progress)
    beat.note_sent()
    activity.heartbeat(progress)


class _Scope:
    """One attempt: heartbeats while it runs, and a failure with Temporal's retry options.

    The heartbeats come from a thread, so that a blocked event loop does not stop them. The first
    comes after a while: most effects have ended by then, and heartbeats are billed in a cloud.

    If this worker lacks what the effect needs, the attempt fails at once; the run shows that and
    schedules the effect again with a `patient` request, which is retried until a worker has
    everything. Any other failure ends the patient request, and the next has all its attempts.
    """

    def __init__(
        self,
        info: activity.Info,
        payload: JsonObject,
        patience: timedelta | None,
        worker_began_at: float,
    ) -> None:
        self.info = info
        self.patient: bool = (
            isinstance(cast("object", payload), dict) and payload.get("patient") is True
        )
        self._patience, self._worker_began_at = patience, worker_began_at
        loop, key = asyncio.get_running_loop(), info.task_token
        what = f"{info.activity_type} of {info.workflow_id}"
        if info.is_local:
            self.beat = Beat(what, loop, key=key)
        else:
            interval = heartbeat_timeout(info).total_seconds() / policies.BEATS_WITHIN_TIMEOUT
            send, poller = sender_and_poller()
            self.beat = Beat(what, loop, send, interval, key, poller)

    def __enter__(self) -> Self:
        heartbeats.add(self.beat)
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        heartbeats.remove(self.beat)
        match error:
            case None | ApplicationError():
                pass
            case asyncio.CancelledError() if _is_abandoned():
                # Temporal would log a cancellation that it had not requested.
                raise _abandoned_error() from None
            case EffectError():
                error = self._within_patience(error)
                raise self._typed(error) from error.__cause__ or error
            case records.UnreadableRecordError():
                raise AttemptError(
                    str(error), of=error, type=failures.INTERNAL, non_retryable=True
                ) from error
            case Exception():  # a defect of ours or of a codec fails the attempt
                again = is_retryable(error)
                raise AttemptError(
                    cut(f"The worker failed: {type(error).__name__}: {error}"),
                    of=error,
                    type=failures.FAILED_ON_CAPABLE_WORKER
                    if again and self.patient
                    else failures.INTERNAL,
                    non_retryable=self.patient or not again,
                ) from error
            case _:
                pass

    def _within_patience(self, error: EffectError) -> EffectError:
        """Make a model's failure the last one where the next attempt would come too late.

        Time in which no worker hosted the run does not count. Retry settings of the model outrank
        the worker's patience. A model that another one follows gets no more than a program's
        patience: somebody waits.
        """
        patience, is_followed = self._patience, NEXT_MODEL in (error.details or {})
        if is_followed and patience is None:
            patience = policies.MODEL_PATIENCE
        is_ours = error.code in OF_THE_MODEL and error.attempts is None and error.retryable
        if patience is None or not is_ours:
            return error
        asked = error.retry_after
        delay = next_attempt_in(asked and min(asked, policies.LONGEST_RETRY_AFTER))
        tried = time.time() - max(self.info.scheduled_time.timestamp(), self._worker_began_at)
        if tried + delay.total_seconds() <= patience.total_seconds():
            return error
        error.retryable = False
        return error if is_followed else _impatient(error, tried_seconds=tried, delay=delay)

    def _typed(self, error: EffectError) -> AttemptError:
        delay, longest = error.retry_after, policies.LONGEST_RETRY_AFTER
        lacks = error.code == failures.WORKER_LACKS
        found = self.patient and error.retryable and not lacks
        tried_enough = error.attempts is not None and self.info.attempt >= error.attempts
        return AttemptError(
            error.message,
            *([error.details] if error.details else []),
            of=error.__cause__ or error,
            attempts=error.attempts,
            type=failures.FAILED_ON_CAPABLE_WORKER if found else error.code,
            non_retryable=not self.patient
            if lacks
            else found or not error.retryable or tried_enough,
            next_retry_delay=min(delay, longest) if delay is not None else None,
            category=_category(error),
        )


def _category(error: EffectError) -> ApplicationErrorCategory:
    """Return whether logs and metrics count a failed attempt as a failure."""
    if error.code == failures.MODEL_WORKING:
        return ApplicationErrorCategory.BENIGN
    return ApplicationErrorCategory.UNSPECIFIED


def _impatient(error: EffectError, *, tried_seconds: float, delay: timedelta) -> EffectError:
    impatient = EffectError(
        error.code,
        f"{error.message.rstrip('.')}. This program gave up after {tried_seconds:.0f} s: the next "
        f"attempt would be {delay.total_seconds():.0f} s later. {policies.MODEL_PATIENCE_VARIABLE}=600 in its "
        "environment waits for longer, and so does ModelSettings(retry=...).",
        retryable=False,
        details=error.details,
    )
    impatient.__cause__ = error.__cause__
    return impatient.with_traceback(error.__traceback__)


def _abandoned_error() -> ApplicationError:
    return ApplicationError(
        "The server no longer waits for this attempt.",
        type=failures.CANCELLED,
        category=ApplicationErrorCategory.BENIGN,
    )


def _is_abandoned() -> bool:
    details = activity.cancellation_details()
    return details is not None and (details.not_found or details.timed_out)
