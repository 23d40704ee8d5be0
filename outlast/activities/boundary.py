"""The Temporal activities, which fetch requests, heartbeat and translate errors."""

import asyncio
import contextlib
import contextvars
import time
from collections.abc import Generator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, cast

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
    fallback_poller_starter,
    heartbeat_timeout,
    sender,
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
from outlast.loop.calls import Arrival, ModelReply
from outlast.loop.effects import AgentEffect, CallModel, Effect, RunTool
from outlast.loop.fallback import NEXT_MODEL
from outlast.loop.values import Json, JsonObject
from outlast.payloads.readable import raw_json
from outlast.ports.identity import Execution
from outlast.streams.call_windows import FinishedCall, call_windows, place_of
from outlast.streams.turn_stops import turn_stops
from outlast.streams.window import DeltaWindow, ShownText
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
        return [self.run_effect, self.refuse_effect, self.free_nested_id, send_scheduled_message]

    @activity.defn(dynamic=True)
    async def run_effect(self, arguments: Sequence[RawValue]) -> Any:
        """Carry out the effect of the activity's type.

        One dynamic activity serves all types, so that a missing tool is refused with a message, and
        agents can be added while the worker runs.
        """
        converter = activity.payload_converter()
        payload: JsonObject = converter.from_payload(arguments[0].payload)
        info = activity.info()
        kind = kind_of_activity(info.activity_type)
        with _send_heartbeats() as beat, _typed_errors(payload), self._patience():
            if kind is None or not kind.function:
                raise EffectError(
                    failures.USER_ERROR,
                    f"This worker has no activity {info.activity_type!r}. Is it on the right task "
                    "queue?",
                    retryable=True,
                )
            begun = time.monotonic()
            own = (info.workflow_run_id or "", info.activity_id, info.activity_type)
            if info.is_local and (late := self._deps.memory.late_results.find(own)) is not None:
                return raw_json(converter, late)
            ends = _ends_at(info)
            execution = _execution(info)
            request = _of_its_run(await self._request_of(kind, payload), execution)
            with worker_lookup():
                worker = await self._deps.of_execution(execution, request.effect)
            _see_as(worker.caller)
            attempts = kind.policy(request.effect).attempts or ATTEMPTS
            is_last = info.attempt >= min(attempts, ATTEMPTS)
            arrived = _arrived(request.effect)
            if not _looks_for_response(request.effect):
                request = await whole_request(worker, request, is_last=is_last)
            if isinstance(request.effect, CallModel):
                result = await self._call_model(worker, request, beat, execution)
            else:
                attempt = Attempt(
                    number=info.attempt,
                    progress=info.heartbeat_details[0] if info.heartbeat_details else None,
                    report=None if beat.send is None else partial(_report_progress, beat),
                    execution=execution,
                    patient=_is_patient(payload),
                    arrived=arrived,
                )
                result = await attempt_effect(worker, request, attempt)
            within = max(ends - time.monotonic(), 0.0)
            written = records.write_json(
                await recorded_result(self._deps.content, request, result, within=within)
            )
            if info.is_local:
                self._deps.memory.late_results.keep(own, written, time.monotonic() - begun)
            return raw_json(converter, written)

    @contextlib.contextmanager
    def _patience(self) -> Generator[None]:
        """Make a model's failure the last one where the next attempt would come too late.

        Time in which no worker hosted the run does not count. Retry settings of the model outrank
        the worker's patience. A model that another one follows gets no more than a program's
        patience: somebody waits.
        """
        try:
            yield
        except EffectError as error:
            patience, info = self._deps.model_patience, activity.info()
            is_followed = NEXT_MODEL in (error.details or {})
            if is_followed and patience is None:
                patience = policies.MODEL_PATIENCE
            is_ours = error.code in OF_THE_MODEL and error.attempts is None and error.retryable
            if patience is not None and is_ours:
                asked = error.retry_after
                delay = next_attempt_in(asked and min(asked, policies.LONGEST_RETRY_AFTER))
                since = max(info.scheduled_time.timestamp(), self._began_at)
                tried = time.time() - since
                if tried + delay.total_seconds() > patience.total_seconds():
                    error.retryable = False
                    if is_followed:
                        raise
                    raise _impatient(error, tried_seconds=tried, delay=delay) from error.__cause__
            raise

    async def _request_of(self, kind: EffectKind, payload: JsonObject) -> EffectRequest[Any]:
        if not await began_in_time(activity.info(), self._clocks):
            raise _abandoned_error()
        if "claim" not in payload:
            if isinstance(cast("object", payload), dict) and isinstance(
                payload.get("effect"), dict
            ):
                return records.read(EffectRequest[kind.effect], payload)
            return EffectRequest(effect=records.read(kind.effect, payload))
        effect = int(payload["claim"])
        run_id = activity.info().workflow_run_id
        request = self._deps.state.requests.take(run_id, effect) if run_id else None
        if isinstance(request, EffectRequest) and isinstance(request.effect, kind.effect):
            return request
        return await _ask_workflow(kind, effect)

    async def _call_model(
        self,
        worker: WorkerDeps,
        request: EffectRequest[CallModel],
        beat: Beat,
        execution: Execution,
    ) -> ModelReply:
        info = activity.info()
        run_id = str(info.workflow_id)
        place = place_of(activity.client(), run_id)
        chain_id = worker.key.chain_id if worker.key is not None else ""
        window = DeltaWindow(
            effect=int(info.activity_id),
            attempt=info.attempt,
            execution=execution.execution_id,
        )
        is_read_here = partial(call_windows.has_reader, place)
        cadence = Cadence.of(request.effect.settings, is_billed=is_billed(activity.client()))
        shown = ShownText.before(info.heartbeat_details[0] if info.heartbeat_details else None)
        stream = StreamHeartbeats(window, beat, cadence, is_read_here, shown)
        attempt = Attempt(
            number=info.attempt,
            on_event=stream.feed,
            execution=execution,
            has_reader_here=is_read_here,
            is_stopped=partial(turn_stops.is_stopped, run_id, chain_id, window.effect),
            shown=shown,
        )
        with call_windows.running(place, window), stream:
            reply: ModelReply = await attempt_effect(worker, request, attempt)
        call_windows.keep(FinishedCall(place, window.effect, reply.response_id), window)
        return reply

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


def _looks_for_response(effect: Effect) -> bool:
    """Whether an effect needs no content before the provider has made a response."""
    return isinstance(effect, CallModel) and effect.begun is not None


def _arrived(effect: Effect) -> tuple[Arrival, ...]:
    return effect.arrived if isinstance(effect, RunTool) else ()


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


@contextlib.contextmanager
def _send_heartbeats() -> Generator[Beat]:
    """Heartbeat from a thread while an effect runs; a blocked event loop does not stop it.

    The first comes after a while: most effects have ended by then, and heartbeats are billed in a
    cloud.
    """
    info = activity.info()
    loop = asyncio.get_running_loop()
    what = f"{info.activity_type} of {info.workflow_id}"
    key, longest = info.task_token, heartbeat_timeout(info).total_seconds()
    if info.is_local:
        beat = Beat(what, loop, key=key)
    else:
        interval = longest / policies.BEATS_WITHIN_TIMEOUT
        beat = Beat(what, loop, sender(), interval, key, fallback_poller_starter())
    heartbeats.add(beat)
    try:
        yield beat
    finally:
        heartbeats.remove(beat)


def _ends_at(info: activity.Info) -> float:
    """Return until when the server waits for a result, less the time that storing it takes."""
    longest = info.start_to_close_timeout or timedelta(milliseconds=policies.LONGEST_MS)
    return time.monotonic() + longest.total_seconds() - RECORDING_SECONDS


def _report_progress(beat: Beat, progress: Json) -> None:
    """Send progress at once, and with every further heartbeat: one without would remove it."""
    beat.send = through_the_loop(lambda: progress)
    beat.note_sent()
    activity.heartbeat(progress)


@contextlib.contextmanager
def _typed_errors(payload: JsonObject) -> Generator[None]:
    """Translate an effect's failure into an error with Temporal's retry options.

    If this worker lacks what the effect needs, the attempt fails at once; the run shows that and
    schedules the effect again with a `patient` request, which is retried until a worker has
    everything. Any other failure ends the patient request, and the next has all its attempts.
    """
    patient = _is_patient(payload)
    try:
        yield
    except asyncio.CancelledError:
        if not _is_abandoned():
            raise
        # Temporal would log a cancellation that it had not requested.
        raise _abandoned_error() from None
    except ApplicationError:
        raise
    except EffectError as error:
        delay = error.retry_after
        longest = policies.LONGEST_RETRY_AFTER
        raised = error.__cause__ or error
        lacks = error.code == failures.WORKER_LACKS
        found = patient and error.retryable and not lacks
        final = found or not error.retryable or _tried_enough(error)
        raise AttemptError(
            error.message,
            *([error.details] if error.details else []),
            of=raised,
            attempts=error.attempts,
            type=failures.FAILED_ON_CAPABLE_WORKER if found else error.code,
            non_retryable=not patient if lacks else final,
            next_retry_delay=min(delay, longest) if delay is not None else None,
            category=_category(error),
        ) from raised
    except records.UnreadableRecordError as error:
        raise AttemptError(
            str(error), of=error, type=failures.INTERNAL, non_retryable=True
        ) from error
    except Exception as error:  # a defect of ours or of a codec fails the attempt
        message = cut(f"The worker failed: {type(error).__name__}: {error}")
        again = is_retryable(error)
        raise AttemptError(
            message,
            of=error,
            type=failures.FAILED_ON_CAPABLE_WORKER if again and patient else failures.INTERNAL,
            non_retryable=patient or not again,
        ) from error


def _category(error: EffectError) -> ApplicationErrorCategory:
    """Return whether logs and metrics count a failed attempt as a failure."""
    if error.code == failures.MODEL_WORKING:
        return ApplicationErrorCategory.BENIGN
    return ApplicationErrorCategory.UNSPECIFIED


def _is_patient(payload: JsonObject) -> bool:
    return isinstance(cast("object", payload), dict) and payload.get("patient") is True


def _impatient(error: EffectError, *, tried_seconds: float, delay: timedelta) -> EffectError:
    return EffectError(
        error.code,
        f"{error.message.rstrip('.')}. This program gave up after {tried_seconds:.0f} s: the next "
        f"attempt would be {delay.total_seconds():.0f} s later. {policies.MODEL_PATIENCE_VARIABLE}=600 in its "
        "environment waits for longer, and so does ModelSettings(retry=...).",
        retryable=False,
        details=error.details,
    )


def _abandoned_error() -> ApplicationError:
    return ApplicationError(
        "The server no longer waits for this attempt.",
        type=failures.CANCELLED,
        category=ApplicationErrorCategory.BENIGN,
    )


def _is_abandoned() -> bool:
    details = activity.cancellation_details()
    return details is not None and (details.not_found or details.timed_out)


def _tried_enough(error: EffectError) -> bool:
    return error.attempts is not None and activity.info().attempt >= error.attempts
