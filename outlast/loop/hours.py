"""Times that count only the hours of a calendar: a worker counts them, because the loop knows no calendar.

A request comes with times that the worker of its call has counted. They are counted anew when what
they count from has changed: after a takeover, for which no time passes; after a reminder, which needs
the time of the next one; for a request whose terms are older than itself, such as that of a budget;
and when a person says that the calendar has changed.
"""

from dataclasses import replace
from typing import Final

from outlast.loop import effect_factory, reply_clock, votes
from outlast.loop.approvals import ApprovalRequest, ApprovalTerms
from outlast.loop.effects import CountHours
from outlast.loop.open_hours import CountedHours, Durations, HoursCounted, HoursOfRequest
from outlast.loop.revision import revised
from outlast.loop.state import LoopState
from outlast.loop.transcript import with_ignored
from outlast.loop.values import Failure

SLACK_MS: Final = 60_000
"""How much later than its terms were made a request may begin, with the times that they have."""


def counted_terms(
    terms: ApprovalTerms, clock: Durations, from_ms: int, reminders: int = 0
) -> ApprovalTerms:
    """Return terms with the durations that the hours of a calendar come to, from a moment on."""
    assert terms.hours is not None  # noqa: S101  the caller checks it
    steps = zip(terms.escalations, clock.escalations_ms, strict=True)
    hours = replace(
        terms.hours, from_ms=from_ms, reminders=reminders, remind_in_ms=clock.remind_in_ms
    )
    return replace(
        terms,
        expires_in_ms=clock.expires_in_ms,
        escalations=tuple(replace(step, after_ms=after_ms) for step, after_ms in steps),
        hours=hours,
    )


def _asks(request: ApprovalRequest) -> bool:
    hours = request.terms.hours
    if hours is None or request.status != "pending" or request.paused_at_ms is not None:
        return False
    from_ms = hours.from_ms
    moved = from_ms is None or abs(from_ms - request.counts_from_ms) > SLACK_MS
    return moved or hours.reminders != request.reminders


def begun(state: LoopState) -> LoopState:
    """Let a worker count the times that need it; the same state if none does."""
    reply = reply_clock.asked(state)
    if state.closing is not None or not (state.calls or state.gate or reply):
        return state
    asked = tuple(
        HoursOfRequest(
            request_id=one.id,
            within=one.terms.hours.within,
            open=one.terms.hours.open,
            from_ms=one.counts_from_ms,
            reminders=one.reminders,
        )
        for one in state.approvals
        if one.terms.hours is not None and _asks(one)
    )
    if not asked and reply is None:
        return state
    effect = CountHours(effect=state.next_effect, run_id=state.run_id, requests=asked, reply=reply)
    return effect_factory.issue(state, effect)


def counted(state: LoopState, result: HoursCounted, at_ms: int) -> LoopState:
    """Take the times that a worker has counted, of requests that count from the same moment still."""
    known = {(one.request_id, one.from_ms): one for one in result.requests}
    pairs = ((one, known.get((one.id, one.counts_from_ms))) for one in state.approvals)
    newer = tuple(one if found is None else _timed(one, found, at_ms) for one, found in pairs)
    return revised(reply_clock.counted(state, result.reply), approvals=newer)


def _timed(request: ApprovalRequest, one: CountedHours, at_ms: int) -> ApprovalRequest:
    terms, clock = request.terms, one.clock
    if (
        request.status != "pending"
        or terms.hours is None
        or len(clock.escalations_ms) != len(terms.escalations)
    ):
        return request
    since, remind_in = request.counts_from_ms, clock.remind_in_ms
    soonest = at_ms + votes.SHORTEST_REMINDER_MS
    return replace(
        request,
        terms=counted_terms(terms, clock, since, one.reminders),
        expires_at_ms=None if clock.expires_in_ms is None else since + clock.expires_in_ms,
        remind_at_ms=None if remind_in is None else max(since + remind_in, soonest),
    )


def not_counted(state: LoopState, effect: CountHours, failure: Failure, at_ms: int) -> LoopState:
    """Leave requests the times that they have, because no worker can count their hours."""
    asked = {one.request_id: one for one in effect.requests}
    kept = list[ApprovalRequest]()
    for request in state.approvals:
        hours, one = request.terms.hours, asked.get(request.id)
        if hours is not None and one is not None and request.status == "pending":
            hours = replace(hours, from_ms=one.from_ms, reminders=one.reminders)
            kept.append(replace(request, terms=replace(request.terms, hours=hours)))
        else:
            kept.append(request)
    what = f"hours of {', '.join(asked) or 'a reply'}"
    state = reply_clock.not_counted(state, effect.reply)
    return with_ignored(revised(state, approvals=tuple(kept)), at_ms, what, failure.message)


def uncounted(state: LoopState) -> LoopState:
    """Ask for the times of all open requests anew, because their calendar has changed."""
    pending = tuple(
        replace(one, terms=replace(one.terms, hours=replace(one.terms.hours, from_ms=None)))
        if one.terms.hours is not None and one.status == "pending"
        else one
        for one in state.approvals
    )
    return state if pending == state.approvals else revised(state, approvals=pending)
