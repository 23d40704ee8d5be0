"""Carries out `NotifyPeople`: passes notices to each notifier of the worker."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from temporalio import activity
from temporalio.service import RPCError

from outlast.activities.attempt import FIRST, Attempt
from outlast.activities.errors import EffectError
from outlast.activities.worker_deps import WorkerDeps
from outlast.activities.worker_memory import Deliveries
from outlast.agents.json_values import as_object
from outlast.agents.logs import LEFT_OUT, get_logger, logs_exception_texts
from outlast.contract import failures, policies, records
from outlast.contract.effects import EffectRequest
from outlast.loop.effects import NotifyPeople
from outlast.loop.notices import Delivered, Notice, NoticeReceipt, Undelivered, undelivered
from outlast.loop.values import Json, JsonObject
from outlast.ports.notifier import (
    Notification,
    Notifier,
    NotifierRejected,
    NotifierUnavailable,
    notification,
)
from outlast.views.redaction import redaction_of_effect

logger: Final = get_logger(__name__)


async def notify_people(
    worker: WorkerDeps, request: EffectRequest[NotifyPeople], attempt: Attempt = FIRST
) -> NoticeReceipt:
    """Deliver notices through every notifier of the worker, each in order.

    A retry continues where each notifier stopped. What cannot be delivered by the last attempt is
    in the receipt, and logged: a run never fails because of a notification.

    Raises:
        EffectError: a notifier failed, and a retry may help.
    """
    effect = request.effect
    round_ = _Round(attempt, worker.memory.deliveries)
    namespace, execution = "default", ""
    if activity.in_activity() and worker.notifiers:
        namespace = activity.info().namespace
        execution = await _execution(effect.run_id, is_last=round_.is_last)
    if not worker.notifiers:
        why = "the worker that took it has no notifiers"
        return NoticeReceipt(undelivered=tuple(undelivered(one, why) for one in effect.notices))
    hides = redaction_of_effect(request.hidden)
    said = ((one, replace(one, text=hides.text(one.text))) for one in effect.notices)
    pending = [
        (one, notification(shown, effect.run_id, execution=execution, namespace=namespace))
        for one, shown in said
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
    return NoticeReceipt(
        undelivered=tuple(round_.lost),
        delivered=tuple(_delivered(worker.notifiers, effect.notices, round_.lost)),
    )


def _delivered(
    notifiers: Sequence[Notifier], notices: Sequence[Notice], lost: Sequence[Undelivered]
) -> Iterator[Delivered]:
    missed = {(one.notifier, one.event, one.request_id, one.at_ms) for one in lost}
    for notifier in notifiers:
        for one in notices:
            request_id = "" if one.request is None else one.request.id
            key = (notifier.name, one.event, request_id, one.at_ms)
            if one.event in notifier.events and key not in missed:
                yield Delivered(
                    event=one.event, request_id=request_id, notifier=notifier.name, at_ms=one.at_ms
                )


async def _execution(run_id: str, *, is_last: bool) -> str:
    """Return the first run id of the run that this activity belongs to; the server says it.

    At the last attempt it may be unknown, and people decide without links and buttons.
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

    def __init__(self, attempt: Attempt, deliveries: Deliveries) -> None:
        self._attempt = attempt
        self._deliveries = deliveries
        self._done = _counts(attempt.progress)
        self.lost = _lost(attempt.progress)
        self.is_last = attempt.number >= policies.NOTIFY.attempts

    async def deliver(
        self, notifier: Notifier, pending: Sequence[tuple[Notice, Notification]]
    ) -> NotifierUnavailable | None:
        """Deliver the remaining notices, and return the error that stopped the notifier."""
        failed: NotifierUnavailable | None = None
        # In order: a reminder must not arrive before its request.
        for at, (notice, message) in enumerate(pending):
            if at < self._done.get(notifier.name, 0):
                continue
            if message.event in notifier.events:
                failed = await self._try(notifier, notice, message)
                if failed is not None and not self.is_last:
                    return failed
            self._done[notifier.name] = at + 1
            if self._attempt.report is not None:
                lost = [records.write(one) for one in self.lost]
                done: JsonObject = {"done": dict(self._done)}
                self._attempt.report({**done, "lost": lost} if lost else done)
        return failed

    async def _try(
        self, notifier: Notifier, notice: Notice, message: Notification
    ) -> NotifierUnavailable | None:
        async def notify() -> None:
            async with asyncio.timeout(notifier.timeout.total_seconds()):
                await notifier.notify(replace(message, attempt=self._attempt.number))

        try:
            await self._deliveries.once(notifier, message.id, notify)
        except NotifierRejected as error:
            sentence = _sentence(notifier, message, "was refused", error)
            logger.warning("%s", _logged(sentence, error))
            self.lost.append(undelivered(notice, sentence, notifier.name))
        except Exception as error:  # noqa: BLE001  a notifier is users' code
            sentence = _sentence(notifier, message, "was not delivered", error)
            if self.is_last:
                logger.warning("%s; this was the last attempt", _logged(sentence, error))
                self.lost.append(undelivered(notice, sentence, notifier.name))
            after = error.retry_after if isinstance(error, NotifierUnavailable) else None
            return NotifierUnavailable(sentence, retry_after=_bounded(after))
        return None


def _lost(progress: Json) -> list[Undelivered]:
    lost: Json = (as_object(progress) or {}).get("lost", [])
    try:
        return list(records.read(tuple[Undelivered, ...], lost))
    except records.UnreadableRecordError:
        return []


def _counts(progress: Json) -> dict[str, int]:
    counts = as_object((as_object(progress) or {}).get("done")) or {}
    return {name: count for name, count in counts.items() if isinstance(count, int)}


def _sentence(notifier: Notifier, notice: Notification, what: str, error: Exception) -> str:
    reason = str(error) or type(error).__name__
    if isinstance(error, TimeoutError) and not str(error):
        reason = f"no answer within {notifier.timeout.total_seconds():g} s"
    return f"Notification {notice.id} {what} by {notifier.name}: {reason}"


def _logged(sentence: str, error: Exception) -> str:
    """Return a sentence for the log, without the text of its error where logs have none."""
    text = str(error)
    if not text or logs_exception_texts():
        return sentence
    return sentence.removesuffix(text) + f"{type(error).__name__} {LEFT_OUT}"


def _bounded(after: timedelta | None) -> timedelta | None:
    return None if after is None else min(max(after, timedelta()), policies.LONGEST_RETRY_AFTER)
