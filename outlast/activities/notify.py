"""Carries out `NotifyPeople`: passes notices to each notifier of the worker."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import cast

from temporalio import activity
from temporalio.service import RPCError

from outlast.activities.carry_out import FIRST, Attempt
from outlast.activities.errors import EffectError
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.logs import get_logger
from outlast.contract import failures, policies
from outlast.contract.effects import EffectRequest
from outlast.loop.effects import NotifyPeople
from outlast.loop.values import Json
from outlast.ports.notifier import (
    Notification,
    Notifier,
    NotifierRejected,
    NotifierUnavailable,
    notification,
)

logger = get_logger(__name__)


async def notify_people(
    worker: WorkerDeps, request: EffectRequest[NotifyPeople], attempt: Attempt = FIRST
) -> None:
    """Deliver notices through every notifier of the worker, each in order.

    A retry continues where each notifier stopped. What cannot be delivered by the last attempt is
    logged and left out: a run never fails because of a notification.

    Raises:
        EffectError: a notifier failed, and a retry may help.
    """
    effect = request.effect
    round_ = _Round(attempt)
    namespace, execution = "default", ""
    if activity.in_activity() and worker.notifiers:
        namespace = activity.info().namespace
        execution = await _execution(effect.run_id, is_last=round_.is_last)
    pending = [
        notification(one, effect.run_id, execution=execution, namespace=namespace)
        for one in effect.notices
    ]
    failed = await asyncio.gather(
        *(round_.deliver(notifier, pending) for notifier in worker.notifiers)
    )
    errors = [error for error in failed if error is not None]
    if errors and not round_.is_last:
        waits = [error.retry_after for error in errors if error.retry_after is not None]
        raise EffectError(
            failures.INTERNAL,
            "; ".join(str(error) for error in errors),
            retryable=True,
            retry_after=max(waits, default=None),
        )


async def _execution(run_id: str, *, is_last: bool) -> str:
    """Return the first run id of the run that this activity belongs to; the server says it.

    At the last attempt it may be unknown, and people decide without links and buttons.

    Raises:
        EffectError: the server does not answer, and a retry may help.
    """
    info = activity.info()
    if info.workflow_id != run_id or info.workflow_run_id is None:
        return ""
    handle = activity.client().get_workflow_handle(run_id, run_id=info.workflow_run_id)
    try:
        return (await handle.describe()).raw_info.first_run_id
    except RPCError as error:
        if is_last:
            logger.warning("The run %s was not described: %s", run_id, error.message)
            return ""
        raise EffectError(failures.INTERNAL, error.message, retryable=True) from error


class _Round:
    """One attempt to deliver, which reports its progress to the attempts after it."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._done = _counts(attempt.progress)
        self.is_last = attempt.number >= policies.NOTIFY.attempts

    async def deliver(
        self, notifier: Notifier, pending: Sequence[Notification]
    ) -> NotifierUnavailable | None:
        """Deliver the remaining notices, and return the error that stopped the notifier."""
        failed: NotifierUnavailable | None = None
        for at, notice in enumerate(pending):
            if at < self._done.get(notifier.name, 0):
                continue
            if notice.event in notifier.events:
                failed = await self._try(notifier, notice)
                if failed is not None and not self.is_last:
                    return failed
            self._done[notifier.name] = at + 1
            if self._attempt.report is not None:
                self._attempt.report({"done": dict(self._done)})
        return failed

    async def _try(self, notifier: Notifier, notice: Notification) -> NotifierUnavailable | None:
        """Deliver one notification, and return the failure if a retry may help."""
        try:
            async with asyncio.timeout(notifier.timeout.total_seconds()):
                await notifier.notify(replace(notice, attempt=self._attempt.number))
        except NotifierRejected as error:
            logger.warning("%s", _sentence(notifier, notice, "was refused", error))
        except Exception as error:  # noqa: BLE001  a notifier is users' code
            sentence = _sentence(notifier, notice, "was not delivered", error)
            if self.is_last:
                logger.warning("%s; this was the last attempt", sentence)
            after = error.retry_after if isinstance(error, NotifierUnavailable) else None
            return NotifierUnavailable(sentence, retry_after=_bounded(after))
        return None


def _counts(progress: Json) -> dict[str, int]:
    """Return how many notices each notifier has dealt with, from the report of an attempt."""
    report = cast("dict[str, Json]", progress) if isinstance(progress, dict) else {}
    done = report.get("done")
    counts = cast("dict[str, Json]", done) if isinstance(done, dict) else {}
    return {name: count for name, count in counts.items() if isinstance(count, int)}


def _sentence(notifier: Notifier, notice: Notification, what: str, error: Exception) -> str:
    reason = str(error) or type(error).__name__
    if isinstance(error, TimeoutError) and not str(error):
        reason = f"no answer within {notifier.timeout.total_seconds():g} s"
    return f"Notification {notice.id} {what} by {notifier.name}: {reason}"


def _bounded(after: timedelta | None) -> timedelta | None:
    return None if after is None else min(max(after, timedelta()), policies.LONGEST_RETRY_AFTER)
