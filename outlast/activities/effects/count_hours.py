"""Carries out `CountHours`: counts the times of requests, and of a reply, by the worker's calendars."""

from outlast.activities.attempt import FIRST, Attempt
from outlast.activities.errors import mistake, worker_lookup
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.approvals.hours import clock_durations
from outlast.agents.config.reply_times import counted_reply
from outlast.agents.errors import UserError
from outlast.contract.effects import EffectRequest
from outlast.edges import clock
from outlast.loop.effects import CountHours
from outlast.loop.open_hours import CountedHours, CountedReply, HoursCounted, HoursOfReply


async def count_hours(
    worker: WorkerDeps, request: EffectRequest[CountHours], attempt: Attempt = FIRST
) -> HoursCounted:
    """Count the times of requests.

    Raises:
        EffectError: this worker does not have a calendar, and another may; or a duration does not end
            within three years.
    """
    del attempt
    counted: list[CountedHours] = []
    for one in request.effect.requests:
        with worker_lookup():
            calendar = worker.calendar(one.within)
        try:
            durations = clock_durations(calendar, one.open, one.from_ms, clock.now_ms())
        except UserError as error:
            raise mistake(str(error)) from error
        counted.append(
            CountedHours(
                request_id=one.request_id,
                clock=durations,
                from_ms=one.from_ms,
                reminders=one.reminders,
            )
        )
    return HoursCounted(requests=tuple(counted), reply=_of_reply(worker, request.effect.reply))


def _of_reply(worker: WorkerDeps, asked: HoursOfReply | None) -> CountedReply | None:
    if asked is None:
        return None
    with worker_lookup():
        calendar = worker.calendar(asked.within)
    try:
        return counted_reply(calendar, asked, clock.time_of(asked.since_ms))
    except UserError as error:
        raise mistake(str(error)) from error
