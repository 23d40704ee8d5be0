"""Times that count the hours of a calendar: when a worker counts them, and what a run makes of them."""

from dataclasses import replace
from typing import Any

import pytest

from outlast.loop.approvals import ApprovalRequest, ApprovalTerms, Audience, EscalationStep
from outlast.loop.effects import CountHours, EffectAnswered
from outlast.loop.hours import SLACK_MS, counted_terms
from outlast.loop.open_hours import CountedHours, Durations, Hours, HoursCounted
from outlast.loop.start import Budget, Parent
from tests.laws.driver import WITHIN, Play, clock_of, gated, play_in

HOUR = 3_600_000
LEADS = Audience(groups=("leads",))
STEPS = replace(
    WITHIN,
    audience=Audience(groups=("support",)),
    escalations=(EscalationStep(after_ms=2 * HOUR, audience=LEADS),),
    hours=Hours(
        within="support-hours",
        open=Durations(expires_in_ms=4 * HOUR, escalations_ms=(2 * HOUR,), remind_in_ms=HOUR),
    ),
)


def asking(terms: ApprovalTerms = WITHIN, **start: Any) -> Play:
    """A run that asks people about a call."""
    play = play_in("thinking", **start)
    play.replies(gated("refund", "c1", terms=terms))
    return play


def asks(play: Play) -> list[CountHours]:
    """What workers are asked to count."""
    return [one for one in play.outstanding.values() if isinstance(one, CountHours)]


def request(play: Play) -> ApprovalRequest:
    """The only request."""
    (found,) = play.state.approvals
    return found


def test_terms_that_a_worker_has_counted_need_no_further_count() -> None:
    at_ms = play_in("thinking").now_ms
    clock = Durations(expires_in_ms=64 * HOUR, escalations_ms=(62 * HOUR,), remind_in_ms=61 * HOUR)
    play = asking(counted_terms(STEPS, clock, at_ms))
    since = request(play).requested_at_ms
    assert since - at_ms < SLACK_MS
    assert not asks(play)
    assert request(play).expires_at_ms == since + 64 * HOUR
    assert request(play).remind_at_ms == since + 61 * HOUR
    assert request(play).terms.escalations[0].after_ms == 62 * HOUR


def test_terms_that_nobody_has_counted_are_counted_and_do_not_expire_before() -> None:
    play = asking(STEPS)
    (effect,) = asks(play)
    (asked,) = effect.requests
    since = request(play).requested_at_ms
    assert (asked.request_id, asked.within, asked.from_ms) == ("a1", "support-hours", since)
    assert STEPS.hours is not None
    assert asked.open == STEPS.hours.open
    assert request(play).expires_at_ms is None
    assert play.state.status == "waiting"
    play.counted(factor=10)
    assert not asks(play)
    assert request(play).expires_at_ms == since + 40 * HOUR
    assert request(play).remind_at_ms == since + 10 * HOUR
    play.passes(21 * HOUR)
    assert request(play).escalated == 1


def test_the_next_reminder_is_counted_after_each_one() -> None:
    play = asking()
    play.counted()
    since = request(play).requested_at_ms
    play.passes(3 * HOUR)
    (effect,) = asks(play)
    assert (request(play).reminders, effect.requests[0].reminders) == (1, 1)
    play.counted()
    assert request(play).remind_at_ms == since + 6 * HOUR
    assert not asks(play)


def test_a_takeover_lets_the_times_be_counted_from_later_on() -> None:
    play = asking()
    play.counted()
    play.holds()
    play.passes(100 * HOUR)
    assert not asks(play), "no time passes for it"
    play.releases()
    (effect,) = asks(play)
    begins = request(play).counts_from_ms
    assert effect.requests[0].from_ms == begins
    assert begins >= request(play).requested_at_ms + 100 * HOUR
    play.counted(factor=5)
    assert request(play).expires_at_ms == begins + 20 * HOUR


def test_a_count_that_comes_after_the_next_takeover_is_made_anew() -> None:
    play = asking()
    (effect,) = asks(play)
    play.holds()
    play.passes(50 * HOUR)
    play.releases()
    play.take(EffectAnswered(at_ms=play.now_ms, effect=effect.effect, result=clock_of(effect)))
    assert request(play).expires_at_ms is None, "it was counted from another moment"
    assert len(asks(play)) == 1
    play.counted()
    assert request(play).expires_at_ms == request(play).counts_from_ms + 12 * HOUR


def test_what_does_not_fit_a_request_changes_nothing_and_is_not_asked_for_ever() -> None:
    play = asking(STEPS)
    (effect,) = asks(play)
    before = request(play)
    forged = CountedHours(request_id="a1", clock=Durations(), from_ms=before.counts_from_ms)
    other = replace(forged, request_id="a7")
    result = HoursCounted(requests=(forged, other))
    play.take(EffectAnswered(at_ms=play.now_ms, effect=effect.effect, result=result))
    assert request(play).expires_at_ms is None
    assert len(asks(play)) == 1


def test_a_decided_request_is_not_counted() -> None:
    play = asking()
    (effect,) = asks(play)
    play.decided("a1")
    play.take(EffectAnswered(at_ms=play.now_ms, effect=effect.effect, result=clock_of(effect)))
    assert request(play).expires_at_ms is None
    assert not asks(play)


def test_times_that_no_worker_can_count_stay_and_the_run_says_so() -> None:
    play = asking()
    (effect,) = asks(play)
    play.fails(effect, text="It does not end within three years.")
    assert not asks(play)
    assert request(play).expires_at_ms is None
    assert play.state.ignored[-1].what == "hours of a1"
    assert play.state.ignored[-1].why == "It does not end within three years."
    play.decided("a1")
    play.running("c1")


def test_a_failure_leaves_requests_of_others_alone() -> None:
    play = play_in("thinking")
    play.replies(gated("refund", "c1"), gated("refund", "c2", terms=WITHIN))
    (effect,) = asks(play)
    play.fails(effect)
    first, second = play.state.approvals
    assert first.terms.hours is None
    assert second.terms.hours is not None
    assert second.terms.hours.from_ms == second.counts_from_ms


def test_a_person_lets_open_requests_be_counted_by_a_changed_calendar() -> None:
    play = play_in("thinking", keep_open=True)
    play.replies(gated("refund", "c1", terms=WITHIN), gated("look", "c2"))
    play.counted(factor=2)
    play.case("recount")
    (effect,) = asks(play)
    assert [one.request_id for one in effect.requests] == ["a1"]
    since = play.state.approvals[0].requested_at_ms
    assert play.state.approvals[0].expires_at_ms == since + 8 * HOUR, "until it is counted"
    play.counted(factor=5)
    assert play.state.approvals[0].expires_at_ms == since + 20 * HOUR


def test_a_recount_while_one_is_under_way_asks_for_no_second_one() -> None:
    play = asking()
    assert play.case("recount") == ()
    assert play.state.case.recounted_ms == play.state.at_ms
    play.counted()
    assert not asks(play)


def test_a_recount_leaves_requests_without_hours_alone() -> None:
    play = asking(ApprovalTerms())
    before = play.state.approvals
    play.case("recount")
    assert (play.state.approvals, asks(play)) == (before, [])


def test_a_nested_run_has_requests_of_its_own_to_count_anew() -> None:
    play = asking(parent=Parent(run_id="support-1", prefix="f1."))
    play.counted()
    play.case("tag", add=("vip",))
    assert play.state.case.tags == ()
    play.case("recount")
    assert len(asks(play)) == 1


def test_a_budget_counts_from_its_request_although_its_terms_are_of_the_start() -> None:
    play = Play(budgets=(Budget(of="model_calls", limit=1, terms=WITHIN),))
    play.prepared()
    play.replies(gated("look", "c1"))
    play.decided("a1")
    play.returns("c1")
    (effect,) = asks(play)
    assert effect.requests[0].request_id == "a2"
    play.counted()
    assert (
        play.state.approvals[1].expires_at_ms == play.state.approvals[1].requested_at_ms + 12 * HOUR
    )


@pytest.mark.parametrize("late", [0, SLACK_MS + 1])
def test_terms_are_counted_anew_where_their_request_comes_much_later(late: int) -> None:
    at_ms = play_in("thinking").now_ms
    clock = Durations(expires_in_ms=5 * HOUR, remind_in_ms=HOUR)
    play = play_in("thinking")
    play.passes(late)
    play.replies(gated("refund", "c1", terms=counted_terms(WITHIN, clock, at_ms)))
    assert bool(asks(play)) is bool(late)


def test_the_end_of_a_run_stops_the_count() -> None:
    play = asking()
    play.cancelled()
    assert play.state.phase == "closed"
    assert not asks(play)


def test_people_who_are_asked_for_a_value_are_reminded_in_hours_and_the_request_never_expires() -> (
    None
):
    play = asking()
    play.counted()
    play.decided("a1")
    play.parks("c1", timeout_ms=HOUR, on_timeout="ask")
    play.passes(HOUR)
    second = play.state.approvals[1]
    assert second.wait == "courier"
    (effect,) = asks(play)
    assert effect.requests[0].open == Durations(remind_in_ms=HOUR)
    play.counted()
    second = play.state.approvals[1]
    assert (second.expires_at_ms, second.remind_at_ms) == (None, second.requested_at_ms + 3 * HOUR)
