"""What people do with the case of a conversation, and what time does with it."""

from dataclasses import dataclass, replace

from outlast.loop import hours, reply_clock, votes
from outlast.loop.actions import CaseAction, TeamReport
from outlast.loop.canonical import same_person
from outlast.loop.case import COMMENTS_KEPT, Case, Comment, Rating
from outlast.loop.effects import ReportToTeam
from outlast.loop.endings import close, next_question
from outlast.loop.events import ConversationRated, Event, PersonActed, TeamAnswered
from outlast.loop.problems import rating_problem
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
            if (action.team, action.to) == (case.team, case.to) and case.waits == bool(case.team):
                return case
            return replace(
                case,
                team=action.team,
                to=action.to,
                since_ms=at_ms,
                due_ms=None,
                waits=bool(action.team),
            )
        case "comment":
            if any(one.id == action.comment_id for one in case.comments):
                return case
            comment = Comment(id=action.comment_id, by=by, text=action.text, at_ms=at_ms)
            # A mention of a colleague is a tag, too, so that they find the conversation by it.
            tags = _changed(case.tags, action)
            return replace(case, tags=tags, comments=(*case.comments, comment)[-COMMENTS_KEPT:])
        case "resolve":
            if case.resolved_ms is not None:
                return case
            over = replace(case, due_ms=None, waits=False, snoozed_until_ms=None)
            return replace(over, resolved_ms=at_ms, resolved_by=by)
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


def rated(state: LoopState, event: ConversationRated) -> LoopState:
    """Keep what the customer thinks of the conversation; the newest rating counts."""
    if rating_problem(state) is not None:
        return state
    case = state.case
    if case.rating is not None and (case.rating.score, case.rating.text) == (
        event.score,
        event.text,
    ):
        return state
    rating = Rating(score=event.score, text=event.text, at_ms=event.at_ms)
    return revised(state, case=replace(case, rating=rating))


# --- The team of a conversation --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a run stands with its team.

    Attributes:
        team: the team that has to act.
        to: whose it is; empty for nobody yet.
        held: whether somebody has taken it over: from then on, there is as much time again to answer.
        taken: whether they have answered, or put it off, so that it does not go on to the next one.
    """

    team: str
    to: str
    held: bool
    taken: bool


def standing_of(state: LoopState) -> Standing | None:
    """Return how a run stands with its team; None if no team has to act."""
    case, hold = state.case, state.hold
    if not (case.team and case.waits) or state.phase in {"closing", "closed"}:
        return None
    has_said = hold is not None and same_person(hold.speaker or "", case.to)
    taken = case.to != "" and (has_said or case.snoozed_until_ms is not None)
    return Standing(team=case.team, to=case.to, held=hold is not None, taken=taken)


def taken_over(state: LoopState, by: str, at_ms: int) -> LoopState:
    """Give the case to a person who takes the conversation over, or answers in it."""
    case = state.case
    if not case.team or (case.waits and same_person(case.to, by)):
        return state
    return revised(state, case=replace(case, to=by or case.to, since_ms=at_ms, waits=True))


def given_to_team(state: LoopState, team: str, at_ms: int) -> LoopState:
    """Assign the case to a team, which says whose it is."""
    state = roused(state)
    case = replace(state.case, team=team, to="", since_ms=at_ms, due_ms=None, waits=True)
    return revised(state, case=case)


def given_back(state: LoopState) -> LoopState:
    """Note that the agent goes on, so that the team has nothing to do."""
    if not state.case.waits:
        return state
    return revised(state, case=replace(state.case, waits=False, due_ms=None))


def assigned(state: LoopState, event: TeamAnswered) -> LoopState:
    """Apply the team's answer to the newest report; to an older one, it is none any more.

    What somebody has taken stays theirs.
    """
    case, standing = state.case, standing_of(state)
    asked = (case.team, state.start.chain_id, case.report)
    if standing is None or standing.taken:
        return state
    if (event.team, event.chain_id, event.report) != asked:
        return state
    since_ms = case.since_ms if same_person(case.to, event.to) else event.at_ms
    newer = replace(case, to=event.to, since_ms=since_ms, due_ms=event.due_ms)
    return state if newer == case else revised(state, case=newer)


def with_report(before: LoopState, after: LoopState, event: Event) -> LoopState:
    """Count a report to the team where the run stands otherwise with it than before.

    What a team has answered itself is no news for it, unless who gets the conversation has it and
    has spoken in it.
    """
    newer = standing_of(after)
    is_known = isinstance(event, TeamAnswered) and not (newer is not None and newer.taken)
    if is_known or standing_of(before) == newer:
        return after
    return revised(after, case=replace(after.case, report=after.case.report + 1, due_ms=None))


def reports(before: LoopState, after: LoopState) -> list[ReportToTeam]:
    """Return what the teams of a conversation hear of a step that counted a report."""
    old, new = standing_of(before), standing_of(after)
    report = TeamReport(
        chain_id=after.start.chain_id,
        run_id=after.run_id,
        report=after.case.report,
        began_ms=after.start.started_at_ms,
    )
    told: list[ReportToTeam] = []
    if old is not None and (new is None or new.team != old.team):
        told.append(ReportToTeam(team=old.team, record=replace(report, gone=True)))
    if new is not None:
        record = replace(report, to=new.to, taken=new.taken)
        told.append(ReportToTeam(team=new.team, record=record))
    return told


# --- Time ------------------------------------------------------------------------------------------


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
