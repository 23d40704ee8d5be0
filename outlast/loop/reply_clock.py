"""How long a customer waits for a person's reply: the clock, its warning, and its end.

The clock runs while the conversation is held or assigned and a message of the customer has no answer.
It stops with the reply, and so while the last word is ours.
"""

from dataclasses import asdict, replace

from outlast.loop.case import ReplyClock
from outlast.loop.open_hours import CountedReply, HoursOfReply
from outlast.loop.revision import revised
from outlast.loop.state import LoopState


def waits_for_person(state: LoopState) -> bool:
    """Whether the customer waits for a person."""
    case = state.case
    is_theirs = state.hold is not None or case.to or case.team
    is_open = state.phase not in {"closing", "closed"} and case.resolved_ms is None
    return bool(is_open and is_theirs and (state.inbox or state.question.answering))


def kept(state: LoopState, at_ms: int) -> LoopState:
    """Start or stop the clock; the same state if it is right."""
    times, clock = state.start.reply_times, state.case.reply
    if times is None or waits_for_person(state) == (clock is not None):
        return state
    if clock is not None:
        return revised(state, case=replace(state.case, reply=None, replied=True))
    lasts = times.next_ms if state.case.replied else times.first_ms
    clock = ReplyClock(since_ms=at_ms, lasts_ms=lasts)
    if not times.within:
        due = at_ms + lasts
        warn = None if times.warn_ms is None else max(due - times.warn_ms, at_ms)
        clock = replace(clock, due_ms=due, warn_ms=warn, is_counted=True)
    return _with(state, clock)


def asked(state: LoopState) -> HoursOfReply | None:
    """Return what a worker has to count; None for nothing."""
    times, clock = state.start.reply_times, state.case.reply
    if times is None or clock is None or clock.is_counted:
        return None
    return HoursOfReply(
        since_ms=clock.since_ms,
        within=times.within,
        lasts_ms=clock.lasts_ms,
        warn_ms=times.warn_ms,
        away=times.away,
        days=times.days,
    )


def counted(state: LoopState, found: CountedReply | None) -> LoopState:
    """Take the times that a worker has counted, if the customer still waits since then."""
    clock = state.case.reply
    if clock is None or found is None or clock.since_ms != found.since_ms:
        return state
    return _with(state, replace(clock, **asdict(found), is_counted=True))


def not_counted(state: LoopState, wanted: HoursOfReply | None) -> LoopState:
    """Let the customer wait without a target, because no worker can count the hours."""
    clock = state.case.reply
    if clock is None or wanted is None or clock.since_ms != wanted.since_ms:
        return state
    return _with(state, replace(clock, is_counted=True))


def next_ms(state: LoopState) -> int | None:
    """Return when people are warned or back, or the time is over; None if nothing comes."""
    clock = state.case.reply
    if clock is None:
        return None
    warn = None if clock.warned else clock.warn_ms
    due = None if clock.late else clock.due_ms
    times = (warn, due, clock.back_ms if clock.away else None)
    return min((one for one in times if one is not None), default=None)


def aged(state: LoopState, at_ms: int) -> LoopState:
    """Note that people are to be warned, that the time is over, or that they are back."""
    clock, due = state.case.reply, next_ms(state)
    if clock is None or due is None or due > at_ms:
        return state
    warned, late, back = (
        one is not None and one <= at_ms for one in (clock.warn_ms, clock.due_ms, clock.back_ms)
    )
    away = "" if back else clock.away
    return _with(state, replace(clock, warned=warned or late, late=late, away=away))


def _with(state: LoopState, clock: ReplyClock) -> LoopState:
    return revised(state, case=replace(state.case, reply=clock))
