"""What people do with the case of a conversation, and what time does with it."""

from dataclasses import replace

from outlast.loop import hours, reply_clock, votes
from outlast.loop.actions import CaseAction
from outlast.loop.case import COMMENTS_KEPT, Case, Comment
from outlast.loop.endings import close, next_question
from outlast.loop.events import PersonActed
from outlast.loop.revision import revised
from outlast.loop.state import LoopState, rests


def act_on_case(state: LoopState, event: PersonActed[CaseAction]) -> LoopState:
    """Apply what a person did with the case."""
    if event.action.do == "recount":
        state = hours.uncounted(state)
    case = _after(state.case, event)
    if case == state.case:
        return state
    is_over = case.resolved_ms is not None and state.case.resolved_ms is None
    state = revised(state, case=case)
    if not is_over or state.hold is None:
        return state
    # Who resolves gives the conversation back, too: nothing in it waits for an answer.
    pending = tuple(votes.resumed(one, event.at_ms) for one in state.approvals)
    return next_question(revised(state, hold=None, given_up=None, starts=True, approvals=pending))


def _after(case: Case, event: PersonActed[CaseAction]) -> Case:  # noqa: PLR0911  a row each
    action, by, at_ms = event.action, event.person.subject, event.at_ms
    match action.do:
        case "assign":
            if (action.team, action.to) == (case.team, case.to):
                return case
            return replace(case, team=action.team, to=action.to, since_ms=at_ms, due_ms=None)
        case "comment":
            if any(one.id == action.comment_id for one in case.comments):
                return case
            comment = Comment(id=action.comment_id, by=by, text=action.text, at_ms=at_ms)
            return replace(case, comments=(*case.comments, comment)[-COMMENTS_KEPT:])
        case "resolve":
            if case.resolved_ms is not None:
                return case
            return replace(case, resolved_ms=at_ms, resolved_by=by, snoozed_until_ms=None)
        case "reopen":
            return _opened(case)
        case "snooze":
            return replace(case, snoozed_until_ms=action.until_ms)
        case "recount":
            return replace(case, recounted_ms=at_ms)
        case "tag":
            return replace(case, tags=_changed(case.tags, action))
        case _:  # link
            return replace(case, links=_changed(case.links, action))


def _changed(words: tuple[str, ...], action: CaseAction) -> tuple[str, ...]:
    kept = dict.fromkeys((*words, *action.add))
    return tuple(one for one in kept if one not in action.remove)


def _opened(case: Case) -> Case:
    return replace(case, resolved_ms=None, resolved_by="", snoozed_until_ms=None)


def roused(state: LoopState) -> LoopState:
    """Reopen the case, because the customer wrote or a person took the conversation over."""
    case = state.case
    if case.resolved_ms is None and case.snoozed_until_ms is None:
        return state
    return revised(state, case=_opened(case))


def due_ms(state: LoopState) -> int | None:
    """Return when the case comes back, or ends, or a reply is due; None for never."""
    times = (_comes_back_ms(state), reply_clock.next_ms(state))
    return min((one for one in times if one is not None), default=None)


def _comes_back_ms(state: LoopState) -> int | None:
    case = state.case
    if case.resolved_ms is not None and rests(state):
        return case.resolved_ms + state.start.resolved_stays_ms
    return case.snoozed_until_ms


def pass_time(state: LoopState, at_ms: int) -> LoopState:
    """End a conversation that was resolved long ago, bring back one that was put off, and warn."""
    state = reply_clock.aged(state, at_ms)
    due = _comes_back_ms(state)
    if due is None or due > at_ms:
        return state
    if state.case.resolved_ms is None:
        return revised(state, case=replace(state.case, snoozed_until_ms=None))
    return close(state, "completed")
