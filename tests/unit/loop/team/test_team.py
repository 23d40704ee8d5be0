"""The machine of a team: examples, and laws over random events."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.loop.canonical import canonical_name
from outlast.loop.team.events import (
    DutyChanged,
    ReturnsCounted,
    RunGone,
    RunReported,
    TeamEvent,
    TellRun,
    TermsChanged,
    TimeCame,
)
from outlast.loop.team.machine import advance
from outlast.loop.team.state import Rule, TeamCase, TeamState, TeamTerms

Told = tuple[TellRun, ...]


class Team:
    """A team to which things happen, a second apart unless a time is said."""

    def __init__(self, **terms: Any) -> None:
        self.state = TeamState(terms=TeamTerms(**terms))
        self.told: list[TellRun] = []

    def take(self, event: TeamEvent) -> Told:
        self.state, commands = advance(self.state, event)
        self.told += commands
        return commands

    def duty(self, *people: str, on: bool = True, capacity: int | None = None) -> Told:
        told: Told = ()
        for one in people:
            told += self.take(
                DutyChanged(subject=one, on_duty=on, capacity=capacity, at_ms=self.later())
            )
        return told

    def report(self, run: str, number: int = 1, *, chain_id: str = "", **fields: Any) -> Told:
        return self.take(
            RunReported(
                chain_id=chain_id or f"x-{run}",
                run_id=run,
                report=number,
                at_ms=self.later(),
                **fields,
            )
        )

    def later(self) -> int:
        return self.state.at_ms + 1_000

    def whose(self) -> dict[str, str]:
        return {one.run_id: one.to for one in self.state.cases}


def test_conversations_go_round_and_wait_where_nobody_has_room() -> None:
    team = Team(capacity=2)
    team.duty("ann", "bob")
    told = [team.report(one) for one in "abcde"]
    assert [one.to for some in told for one in some] == ["ann", "bob", "ann", "bob", ""]
    assert team.report("a", 2, gone=True) == (
        TellRun(chain_id="x-e", run_id="e", report=1, to="ann"),
    )
    assert team.whose() == {"b": "bob", "c": "ann", "d": "bob", "e": "ann"}


def test_the_least_busy_gets_the_next_one_and_among_equals_who_waited_longest() -> None:
    team = Team(rule="least_busy")
    team.duty("ann")
    team.report("a")
    team.report("b")
    team.duty("bob", "cid")
    for one in "cdef":
        team.report(one)
    assert list(team.whose().values()) == ["ann", "ann", "bob", "cid", "bob", "cid"]


def test_a_person_may_have_more_or_less_than_the_others() -> None:
    team = Team(capacity=1)
    team.duty("ann", capacity=3)
    team.duty("bob", capacity=0)
    for one in "abcd":
        team.report(one)
    assert list(team.whose().values()) == ["ann", "ann", "ann", ""]


def test_what_is_not_taken_in_time_goes_on_to_who_has_not_had_it_and_then_begins_anew() -> None:
    team = Team(return_ms=60_000)
    team.duty("ann", "bob")
    [told] = team.report("a")
    assert (told.to, told.due_ms) == ("ann", team.state.at_ms + 60_000)
    seen: list[str] = []
    for _ in range(3):
        assert team.state.next_due_ms is not None
        [told] = team.take(TimeCame(at_ms=team.state.next_due_ms))
        seen.append(told.to)
    assert seen == ["bob", "ann", "bob"]
    assert team.state.next_due_ms == team.state.at_ms + 60_000


def test_what_is_taken_stays_with_who_took_it_until_they_give_it_back() -> None:
    team = Team(return_ms=60_000)
    team.duty("ann", "bob")
    team.report("a")
    assert team.report("a", 2, to="ann", taken=True) == ()
    assert team.state.next_due_ms is None
    assert team.take(TimeCame(at_ms=team.state.at_ms + 600_000)) == ()
    assert team.duty("ann", on=False) == ()
    assert team.whose() == {"a": "ann"}
    [told] = team.report("a", 3)
    assert (told.to, told.report) == ("bob", 3)


def test_whoever_leaves_duty_hands_over_what_waits() -> None:
    team = Team()
    team.duty("ann")
    team.report("a")
    team.report("b")
    assert [one.to for one in team.duty(" ANN ", on=False)] == ["", ""]
    assert [one.to for one in team.duty("bob")] == ["bob", "bob"]
    assert [one.subject for one in team.state.members] == ["ann", "bob"]


def test_a_person_may_be_named_who_is_not_on_duty_and_it_goes_on_if_they_do_not_come() -> None:
    team = Team(return_ms=60_000, capacity=1)
    team.duty("ann")
    [told] = team.report("a", to="zoe")
    assert told.to == "zoe"
    [told] = team.take(TimeCame(at_ms=team.state.at_ms + 60_000))
    assert told.to == "ann"
    [told] = team.report("a", 2, to="zoe")
    assert (told.to, told.report) == ("zoe", 2)


def test_what_comes_late_or_twice_changes_nothing() -> None:
    team = Team()
    team.duty("ann")
    team.report("a", 2)
    before = team.state
    assert team.report("a", 1, gone=True) == ()
    assert team.report("a", 2, to="bob") == ()
    assert replace(team.state, at_ms=before.at_ms) == before
    assert team.take(RunGone(chain_id="x-other", at_ms=team.later())) == ()
    team.take(RunGone(chain_id="x-a", at_ms=team.later()))
    assert team.state.cases == ()


def test_of_two_runs_with_an_id_the_one_that_started_last_has_it() -> None:
    team = Team(capacity=1)
    team.duty("ann")
    team.report("a", 7, began_ms=1_000)
    [told] = team.report("a", chain_id="x-again", began_ms=2_000)
    assert (told.chain_id, told.to, len(team.state.cases)) == ("x-again", "ann", 1)
    before = team.state.cases
    assert team.report("a", 8, began_ms=1_000) == ()
    assert team.report("a", 9, began_ms=1_000, gone=True) == ()
    assert team.state.cases == before


def test_who_leaves_duty_keeps_their_number_until_they_say_another() -> None:
    team = Team()
    team.duty("ann", capacity=2)
    team.duty("ann", on=False)
    assert team.state.capacity_of(team.state.members[0]) == 2
    assert (team.state.knows(" ANN "), team.state.knows("bob")) == (True, False)
    team.duty("ann")
    assert team.state.capacity_of(team.state.members[0]) == 5


def test_a_duty_that_ends_by_itself_hands_over_what_waits() -> None:
    team = Team()
    team.take(DutyChanged(subject="ann", until_ms=60_000, at_ms=1_000))
    team.report("a")
    assert team.state.next_due_ms == 60_000
    [told] = team.take(TimeCame(at_ms=60_000))
    assert (told.to, team.state.members[0].on_duty, team.state.next_due_ms) == ("", False, None)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"subject": " "}, "must be a name of at most 500 characters"),
        ({"subject": "a" * 501}, "must be a name of at most 500 characters"),
        ({"subject": "ann", "capacity": -1}, "capacity must be 0 or more, not -1"),
    ],
)
def test_a_duty_of_nobody_is_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        DutyChanged(at_ms=0, **fields)


def test_new_terms_count_for_what_is_assigned_from_then_on() -> None:
    team = Team(capacity=1)
    team.duty("ann")
    team.report("a")
    team.report("b")
    terms = TeamTerms(capacity=2, return_ms=5)
    [told] = team.take(TermsChanged(terms=terms, at_ms=team.later()))
    assert (told.run_id, told.due_ms) == ("b", team.state.at_ms + 5)
    assert team.state.cases[0].due_ms is None


def counted(team: Team, *times: tuple[str, int, int | None], **changes: Any) -> ReturnsCounted:
    terms = team.state.terms
    fields: dict[str, Any] = {
        "within": terms.within,
        "return_ms": terms.return_ms,
        "at_ms": team.later(),
        **changes,
    }
    return ReturnsCounted(times=times, **fields)


def test_the_hours_of_a_calendar_are_counted_by_a_worker_and_then_it_goes_on() -> None:
    team = Team(return_ms=60_000, within="support-hours")
    team.duty("ann", "bob")
    [told] = team.report("a")
    [case] = team.state.cases
    assert (told.to, told.due_ms, case.counts_ms) == ("ann", None, team.state.at_ms)
    assert team.state.next_due_ms is None
    assert case.counts_ms is not None
    due = case.counts_ms + 500_000
    [told] = team.take(counted(team, ("x-a", case.counts_ms, due), ("x-z", 1, 2)))
    assert (told.to, told.due_ms, team.state.cases[0].counts_ms) == ("ann", due, None)
    [told] = team.take(TimeCame(at_ms=due))
    assert (told.to, team.state.cases[0].counts_ms) == ("bob", due)
    assert team.report("a", 2, to="bob", taken=True) == ()
    assert (team.state.cases[0].due_ms, team.state.cases[0].counts_ms) == (None, None)


def test_what_was_counted_for_other_terms_or_from_another_moment_does_not_count() -> None:
    team = Team(return_ms=60_000, within="support-hours")
    team.duty("ann")
    team.report("a")
    [case] = team.state.cases
    assert case.counts_ms is not None
    time = ("x-a", case.counts_ms, 900_000)
    assert team.take(counted(team, time, within="nights")) == ()
    assert team.take(counted(team, time, return_ms=1)) == ()
    assert team.take(counted(team, ("x-a", case.counts_ms + 1, 900_000))) == ()
    assert team.state.cases[0] == case
    # A duration that no worker can count never ends.
    assert team.take(counted(team, ("x-a", case.counts_ms, None))) == ()
    assert (team.state.cases[0].due_ms, team.state.cases[0].counts_ms) == (None, None)


@pytest.mark.parametrize(
    ("terms", "due", "counts"),
    [
        (TeamTerms(return_ms=5_000), True, False),
        (TeamTerms(return_ms=5_000, within="nights"), False, True),
        (TeamTerms(), False, False),
    ],
)
def test_what_nobody_has_counted_yet_is_counted_by_the_newest_terms(
    terms: TeamTerms, due: bool, counts: bool
) -> None:
    team = Team(return_ms=60_000, within="support-hours")
    team.duty("ann")
    team.report("a")
    from_ms = team.state.at_ms
    team.take(TermsChanged(terms=terms, at_ms=team.later()))
    [case] = team.state.cases
    assert case.due_ms == (from_ms + 5_000 if due else None)
    assert case.counts_ms == (from_ms if counts else None)


@pytest.mark.parametrize("terms", [{"capacity": 0}, {"return_ms": 0}])
def test_terms_by_which_nobody_could_have_a_conversation_are_refused(terms: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be 1 or more, not 0"):
        TeamTerms(**terms)


# --- Laws -------------------------------------------------------------------------------------------

PEOPLE = st.sampled_from(["ann", "bob", "cid", "Ann "])
CHAINS = [(run, again) for run in "abcd" for again in (0, 1)]
"""Each id is used twice."""


def reported(chain: tuple[str, int], **fields: Any) -> RunReported:
    run, again = chain
    return RunReported(chain_id=f"{run}{again}", run_id=run, began_ms=again, **fields)


RULES: st.SearchStrategy[Rule] = st.sampled_from(("round_robin", "least_busy"))
TERMS = st.builds(
    TeamTerms,
    rule=RULES,
    capacity=st.integers(1, 3),
    return_ms=st.none() | st.integers(1, 50),
    within=st.sampled_from(("", "support-hours")),
)
TIMES = st.integers(0, 200)
EVENTS: st.SearchStrategy[TeamEvent] = st.one_of(
    st.builds(
        reported,
        st.sampled_from(CHAINS),
        report=st.integers(1, 20),
        gone=st.booleans(),
        to=st.just("") | PEOPLE,
        at_ms=TIMES,
    ),
    st.builds(
        reported,
        st.sampled_from(CHAINS),
        report=st.integers(1, 20),
        to=PEOPLE,
        taken=st.just(True),
        at_ms=TIMES,
    ),
    st.builds(
        DutyChanged,
        subject=PEOPLE,
        on_duty=st.booleans(),
        capacity=st.none() | st.integers(0, 3),
        until_ms=st.none() | TIMES,
        at_ms=TIMES,
    ),
    st.builds(TermsChanged, terms=TERMS, at_ms=TIMES),
    st.builds(RunGone, chain_id=st.sampled_from([f"{a}{b}" for a, b in CHAINS]), at_ms=TIMES),
    st.builds(TimeCame, at_ms=TIMES),
    st.builds(
        ReturnsCounted,
        within=st.just("support-hours"),
        return_ms=st.integers(1, 50),
        times=st.lists(
            st.tuples(st.sampled_from([f"{a}{b}" for a, b in CHAINS]), TIMES, st.none() | TIMES)
        ).map(tuple),
        at_ms=TIMES,
    ),
)


@given(st.lists(EVENTS, max_size=40))
def test_laws_of_a_team(events: list[TeamEvent]) -> None:
    state = TeamState()
    heard: dict[str, TellRun] = {}
    for event in events:
        before = state
        state, told = advance(state, event)
        heard |= {one.chain_id: one for one in told}
        _holds(before, event, state, told, heard)
        assert advance(before, event) == (state, told)


def _holds(
    before: TeamState, event: TeamEvent, after: TeamState, told: Told, heard: dict[str, TellRun]
) -> None:
    cases = {one.chain_id: one for one in after.cases}
    assert len({one.run_id for one in after.cases}) == len(after.cases), (
        "an id has one conversation"
    )
    names = [canonical_name(one.subject) for one in after.members]
    assert len(set(names)) == len(names), "a person is there once"
    assert after.at_ms == max(event.at_ms, before.at_ms)
    due = after.next_due_ms
    sets_times = DutyChanged | ReturnsCounted | TermsChanged
    assert due is None or due > after.at_ms or isinstance(event, sets_times)
    free = [one for one in after.members if after.room_of(one)]
    assert not (free and any(not one.to for one in after.cases)), "nobody waits where there is room"
    for old, new in pairwise(after.cases):
        assert old.since_ms <= new.since_ms
    for one in after.cases:
        _holds_of(before, event, after, one)
        is_news = one.taken or (heard[one.chain_id].to, heard[one.chain_id].due_ms) == (
            one.to,
            one.due_ms,
        )
        assert is_news, "the newest word that a run has heard is true"
    assert {one.chain_id for one in told} <= cases.keys()


def _holds_of(before: TeamState, event: TeamEvent, after: TeamState, case: TeamCase) -> None:
    old = next((one for one in before.cases if one.chain_id == case.chain_id), None)
    by_team = case.to and not case.taken and (old is None or old.to != case.to)
    if isinstance(event, RunReported) and event.chain_id == case.chain_id and event.to:
        by_team = False
    if by_team:
        [member] = [one for one in after.members if one.subject == case.to]
        assert member.on_duty
        capacity = after.terms.capacity if member.capacity is None else member.capacity
        assert after.load_of(case.to) <= capacity, "the team gives nobody more than they take"
    assert case.counts_ms is None or (case.to and not case.taken and case.due_ms is None)
    assert case.counts_ms is None or (after.terms.within and after.terms.return_ms), (
        "hours count where there are hours"
    )
    if old is not None and old.taken and not isinstance(event, RunReported):
        assert case == old, "what is taken stays"
    if isinstance(event, DutyChanged) and not event.on_duty and not case.taken and case.to:
        assert canonical_name(case.to) != canonical_name(event.subject)


@given(RULES, st.integers(0, 30), st.integers(2, 4))
def test_who_has_room_gets_as_many_as_the_others(rule: Rule, runs: int, people: int) -> None:
    team = Team(capacity=100, rule=rule)
    team.duty(*(f"p{one}" for one in range(people)))
    for at in range(runs):
        team.report(f"r{at}")
    loads = [team.state.load_of(one.subject) for one in team.state.members]
    assert max(loads) - min(loads) <= 1
