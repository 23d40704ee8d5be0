"""Where Temporal calls the effects: requests are found, heartbeats beat, errors are translated.

Owns: the activities themselves. Everything of Temporal that an effect needs is here, and nothing
else is.
"""

import asyncio
import contextlib
import time
from collections.abc import Generator, Sequence
from typing import Any, cast

from temporalio import activity
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.attempt_error import AttemptError
from outlast.activities.carry_out import Attempt, carry_out
from outlast.activities.content import recorded_result, whole_request
from outlast.activities.engine_heartbeat import began_in_time, heartbeat_timeout, relief, sender
from outlast.activities.errors import EffectError, cut, is_retryable
from outlast.activities.heartbeats import Beat, heartbeats
from outlast.activities.worker_deps import WorkerDeps
from outlast.contract import claims, failures, names, policies, records
from outlast.contract.deltas import DeltaWindow
from outlast.contract.effects import EffectKind, EffectRequest, kind_of_activity
from outlast.loop.effects import CallModel
from outlast.loop.values import JsonObject

STREAM_BEAT_SECONDS = 0.03
"""How often what a model says is looked at; the Temporal SDK sends it on at its own pace."""

_NOTHING = contextlib.nullcontext()

CLAIM_ATTEMPTS = 20
CLAIM_WAIT_SECONDS = 0.25


class EffectActivities:
    """The activities of a worker."""

    def __init__(self, worker: WorkerDeps) -> None:
        self._deps = worker

    @property
    def _worker(self) -> WorkerDeps:
        """What is known to the run that the activity belongs to."""
        return self._deps.of_run(activity.info().workflow_id or "")

    @property
    def all(self) -> list[Any]:
        """What to register with a Temporal worker."""
        return [self.carry_out, self.refuse_effect]

    @activity.defn(dynamic=True)
    async def carry_out(self, arguments: Sequence[RawValue]) -> JsonObject:
        """Carry an effect out: the activity's type says which.

        One dynamic activity serves them all, so that a tool that this worker lacks is refused in
        words, and so that agents can be added while the worker runs.
        """
        payload: JsonObject = activity.payload_converter().from_payload(arguments[0].payload)
        info = activity.info()
        kind = kind_of_activity(info.activity_type)
        window: DeltaWindow | None = None
        if kind is not None and kind.effect is CallModel:
            window = DeltaWindow(effect=int(info.activity_id), attempt=info.attempt)
        with _beating(window), _typed_errors(payload):
            if kind is None or not kind.function:
                raise EffectError(
                    failures.USER_ERROR,
                    f"This worker has no activity {info.activity_type!r}. Is it on the right task "
                    "queue?",
                    retryable=True,
                )
            content = self._deps.content
            request = await whole_request(content, await _claimed(kind, payload))
            attempt = Attempt(number=info.attempt, on_event=window and window.feed)
            result = await carry_out(self._worker, request, attempt)
            return records.write(await recorded_result(content, request, result))

    @activity.defn(name=names.ACTIVITY_REFUSE)
    async def refuse_effect(self, payload: JsonObject) -> JsonObject:
        """Fail in the place of an effect for whose result the run has no room."""
        raise ApplicationError(payload["message"], type=payload["code"], non_retryable=True)


async def _claimed(kind: EffectKind, payload: JsonObject) -> EffectRequest[Any]:
    """Return an effect's request: as it came, from this process, or from the workflow.

    Raises:
        ApplicationError: the server has given this attempt up before it began here.
    """
    if not await began_in_time(activity.info()):
        raise _given_up()
    if "claim" not in payload:
        return records.read(EffectRequest[kind.effect], payload)
    effect = int(payload["claim"])
    run_id = activity.info().workflow_run_id
    request = claims.take(run_id, effect) if run_id else None
    if isinstance(request, EffectRequest) and isinstance(request.effect, kind.effect):
        return request
    return await _ask_workflow(kind, effect)


async def _ask_workflow(kind: EffectKind, effect: int) -> EffectRequest[Any]:
    """Ask the workflow for a request that is not in this process, page by page.

    The workflow may be busy with another query or moving to another worker, so a refusal is
    tried again for a while before the attempt fails.
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
        message = "The run does not wait for this any more."
        raise EffectError(failures.CANCELLED, message, retryable=False)
    return records.load(EffectRequest[kind.effect], pages)


@contextlib.contextmanager
def _beating(window: DeltaWindow | None = None) -> Generator[None]:
    """Heartbeat while an effect runs, so that a dead worker is noticed and a cancel arrives.

    The heartbeats come from a thread that a blocked event loop does not stop. Where a model
    streams, the loop sends what it said as soon as there is something new, and the thread only
    where the loop has not.
    """
    info = activity.info()
    loop = asyncio.get_running_loop()
    what = f"{info.activity_type} of {info.workflow_id}"
    key, longest = info.task_token, heartbeat_timeout(info).total_seconds()
    if info.is_local:
        beat = Beat(what, loop, key=key)
    elif window is None:
        beat = Beat(what, loop, sender(), longest / 4, key, relief())
    else:
        beat = Beat(what, loop, sender(window.details), longest / 2, key, relief())
    heartbeats.add(beat)
    try:
        with _NOTHING if window is None or info.is_local else _saying(window, beat):
            yield
    finally:
        heartbeats.remove(beat)


@contextlib.contextmanager
def _saying(window: DeltaWindow, beat: Beat) -> Generator[None]:
    """Heartbeat from the loop while a model speaks, with what it said."""
    interval = beat.interval / 2
    pause = min(interval, STREAM_BEAT_SECONDS)
    silent = 0.0

    def look() -> None:
        nonlocal silent, timer
        timer = beat.loop.call_later(pause, look)
        silent += pause
        if window.news() is not None or silent >= interval:
            silent = 0.0
            beat.last = time.monotonic()
            activity.heartbeat(window.details())

    # A timer and no task: most effects end before the first beat, and a task costs ten times it.
    timer = beat.loop.call_later(pause, look)
    try:
        yield
    finally:
        timer.cancel()


@contextlib.contextmanager
def _typed_errors(payload: JsonObject) -> Generator[None]:
    """Translate an effect's failure into what Temporal retries, or does not.

    Where this worker lacks what the effect needs, the run hears of it at once, shows it, and asks
    again with a `patient` request, which is retried until a worker has it. What else fails then is
    for the run's next request, which has all of the effect's attempts.
    """
    patient = isinstance(cast("object", payload), dict) and payload.get("patient") is True
    try:
        yield
    except asyncio.CancelledError:
        if not _is_given_up():
            raise
        # Nobody reads this. To end cancelled without having been asked to would be logged.
        raise _given_up() from None
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
            type=failures.WORKER_FOUND if found else error.code,
            non_retryable=not patient if lacks else final,
            next_retry_delay=min(delay, longest) if delay is not None else None,
        ) from raised
    except records.UnreadableRecordError as error:
        raise AttemptError(
            str(error), of=error, type=failures.INTERNAL, non_retryable=True
        ) from error
    except Exception as error:
        message = cut(f"The worker could not answer: {type(error).__name__}: {error}")
        again = is_retryable(error)
        raise AttemptError(
            message,
            of=error,
            type=failures.WORKER_FOUND if again and patient else failures.INTERNAL,
            non_retryable=patient or not again,
        ) from error


def _given_up() -> ApplicationError:
    return ApplicationError(
        "The server does not wait for this attempt any more.",
        type=failures.CANCELLED,
        category=ApplicationErrorCategory.BENIGN,
    )


def _is_given_up() -> bool:
    """Tell whether the server knows this attempt no more: its run has ended, or its time is up."""
    details = activity.cancellation_details()
    return details is not None and (details.not_found or details.timed_out)


def _tried_enough(error: EffectError) -> bool:
    return error.attempts is not None and activity.info().attempt >= error.attempts
