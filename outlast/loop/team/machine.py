"""Every transition of a team.

A run reports that it waits for the team, that somebody has taken it, or that it has gone on. The
team says whose it is. Both are levels, not steps: the newest report and the newest answer replace
all before, so what comes twice, late or never does no harm.

A conversation that its person does not take in time goes on to somebody who has not had it, and
once everybody has, begins anew. Whoever leaves duty hands over what they have not taken.

An id may be used again. The run that started last has it; one before it has ended.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from outlast.loop.canonical import canonical_name, same_person
from outlast.loop.team.events import (
    DutyChanged,
    ReturnsCounted,
    RunGone,
    RunReported,
    TeamEvent,
    TellRun,
    TermsChanged,
)
from outlast.loop.team.state import Member, TeamCase, TeamState


def advance(state: TeamState, event: TeamEvent) -> tuple[TeamState, tuple[TellRun, ...]]:
    """Return the next state and the commands after one event.

    Args:
        state: the state before the event; `TeamState()` before the first.
        event: what happened.
    """
    at_ms = max(event.at_ms, state.at_ms)
    after = _assigned(_take_event(_due_passed(replace(state, at_ms=at_ms)), event))
    before = {one.chain_id: one for one in state.cases}
    return after, tuple(
        _told(one) for one in after.cases if _has_news(before.get(one.chain_id), one)
    )


def _take_event(state: TeamState, event: TeamEvent) -> TeamState:
    match event:
        case RunReported():
            return _reported(state, event)
        case DutyChanged():
            return _duty_changed(state, event)
        case TermsChanged():
            state = replace(state, terms=event.terms)
            return _each_case(state, lambda one: _recounted(state, one))
        case ReturnsCounted():
            return _counted(state, event)
        case RunGone():
            return _without(state, event.chain_id)
        case _:  # `TimeCame`: what is due has returned
            return state


def _reported(state: TeamState, event: RunReported) -> TeamState:
    known = next((one for one in state.cases if one.run_id == event.run_id), None)
    if known is not None and known.chain_id != event.chain_id:
        if event.began_ms < known.began_ms or event.gone:
            return state
        state, known = _without(state, known.chain_id), None
    if known is not None and event.report <= known.report:
        return state
    if event.gone:
        return _without(state, event.chain_id)
    case = known or TeamCase(
        chain_id=event.chain_id,
        run_id=event.run_id,
        report=0,
        began_ms=event.began_ms,
        since_ms=state.at_ms,
    )
    case = replace(case, report=event.report)
    if event.to:
        case = _untimed(case, to=event.to, taken=event.taken, passed=())
        case = case if event.taken else _timed(state, case, state.at_ms)
    else:
        case = _passed_on(case)
    cases = state.cases if known is not None else (*state.cases, case)
    return replace(state, cases=tuple(case if one is known else one for one in cases))


def _duty_changed(state: TeamState, event: DutyChanged) -> TeamState:
    known = next((one for one in state.members if same_person(one.subject, event.subject)), None)
    member = known or Member(subject=event.subject)
    capacity = event.capacity if event.on_duty else member.capacity
    until_ms = event.until_ms if event.on_duty else None
    newer = replace(member, on_duty=event.on_duty, capacity=capacity, until_ms=until_ms)
    members = state.members if known is not None else (*state.members, newer)
    state = replace(state, members=tuple(newer if one is known else one for one in members))
    return state if event.on_duty else _handed_over(state, event.subject)


def _handed_over(state: TeamState, subject: str) -> TeamState:
    """Take back what a person who has left duty has not taken."""

    def taken_back(one: TeamCase) -> TeamCase:
        is_theirs = one.to and not one.taken and same_person(one.to, subject)
        return _untimed(one, to="") if is_theirs else one

    return _each_case(state, taken_back)


def _due_passed(state: TeamState) -> TeamState:
    """Take back what its person has not taken in time, and end the duty of whoever leaves now."""

    def returned(one: TeamCase) -> TeamCase:
        return _passed_on(one) if one.due_ms is not None and one.due_ms <= state.at_ms else one

    state = _each_case(state, returned)
    for member in state.members:
        if member.on_duty and member.until_ms is not None and member.until_ms <= state.at_ms:
            left = replace(member, on_duty=False, until_ms=None)
            members = tuple(left if one is member else one for one in state.members)
            state = _handed_over(replace(state, members=members), member.subject)
    return state


def _passed_on(case: TeamCase) -> TeamCase:
    """Return a case that goes on to somebody else than its person, if there is anybody."""
    passed = (*case.passed, canonical_name(case.to)) if case.to else case.passed
    return _untimed(case, to="", taken=False, passed=passed)


def _assigned(state: TeamState) -> TeamState:
    """Assign what waits, the oldest first, as long as somebody has room."""
    for case in state.cases:
        if case.to:
            continue
        member, passed = _next_for(state, case)
        if member is None:
            return state
        number = state.assigned + 1
        newer = _timed(state, replace(case, to=member.subject, passed=passed), state.at_ms)
        newest = replace(member, newest=number)
        state = replace(
            state,
            assigned=number,
            members=tuple(newest if one is member else one for one in state.members),
            cases=tuple(newer if one is case else one for one in state.cases),
        )
    return state


def _next_for(state: TeamState, case: TeamCase) -> tuple[Member | None, tuple[str, ...]]:
    """Return who gets a conversation, and who has passed on it; a new round if everybody has."""
    free = [one for one in state.members if state.room_of(one)]
    fresh = [one for one in free if canonical_name(one.subject) not in case.passed]
    passed = case.passed if fresh else ()
    counts_load = state.terms.rule != "round_robin"

    def order(one: Member) -> tuple[int, int]:
        return state.load_of(one.subject) if counts_load else 0, one.newest

    return min(fresh or free, key=order, default=None), passed


def _timed(state: TeamState, case: TeamCase, from_ms: int) -> TeamCase:
    """Return a case whose time to be taken begins; a worker counts the hours of a calendar."""
    terms = state.terms
    if terms.return_ms is None:
        return _untimed(case)
    if terms.within:
        return replace(case, due_ms=None, counts_ms=from_ms)
    return replace(case, due_ms=from_ms + terms.return_ms, counts_ms=None)


def _untimed(case: TeamCase, **changes: Any) -> TeamCase:
    return replace(case, due_ms=None, counts_ms=None, **changes)


def _recounted(state: TeamState, case: TeamCase) -> TeamCase:
    """Return a case with other terms: only what no worker has counted yet changes."""
    return case if case.counts_ms is None else _timed(state, case, case.counts_ms)


def _counted(state: TeamState, event: ReturnsCounted) -> TeamState:
    """Take the times that a worker has counted, unless the terms are others by now."""
    if (event.within, event.return_ms) != (state.terms.within, state.terms.return_ms):
        return state
    known = {(chain_id, from_ms): due_ms for chain_id, from_ms, due_ms in event.times}

    def counted(one: TeamCase) -> TeamCase:
        if one.counts_ms is None or (one.chain_id, one.counts_ms) not in known:
            return one
        return replace(one, due_ms=known[one.chain_id, one.counts_ms], counts_ms=None)

    return _each_case(state, counted)


def _each_case(state: TeamState, change: Callable[[TeamCase], TeamCase]) -> TeamState:
    return replace(state, cases=tuple(map(change, state.cases)))


def _without(state: TeamState, chain_id: str) -> TeamState:
    return replace(state, cases=tuple(one for one in state.cases if one.chain_id != chain_id))


def _has_news(before: TeamCase | None, after: TeamCase) -> bool:
    """Whether a run hears of something: not of what it has reported itself."""
    if after.taken:
        return False
    if before is None or before.report != after.report:
        return True
    return (before.to, before.due_ms) != (after.to, after.due_ms)


def _told(case: TeamCase) -> TellRun:
    return TellRun(
        chain_id=case.chain_id,
        run_id=case.run_id,
        report=case.report,
        to=case.to,
        due_ms=case.due_ms,
    )
