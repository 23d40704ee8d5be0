"""How long a customer waits for a person's reply: when the clock runs, what is told, and by whom."""

from typing import Any

from outlast.loop.effects import CountHours, EffectAnswered, NotifyPeople
from outlast.loop.notices import Notice
from outlast.loop.open_hours import CountedReply, HoursCounted
from outlast.loop.start import ReplyTimes
from outlast.views.customer import customer_view
from outlast.workflows.presentation import waits
from tests.laws.driver import Play, clock_of, said

HOUR = 3_600_000
TIMES = ReplyTimes(first_ms=HOUR, next_ms=4 * HOUR, warn_ms=HOUR // 4)
WITHIN = ReplyTimes(
    first_ms=HOUR, next_ms=4 * HOUR, within="support-hours", away="We are back on {day}."
)


def resting(times: ReplyTimes | None = TIMES, **start: Any) -> Play:
    """A conversation in which the last word is ours."""
    play = Play(keep_open=True, reply_times=times, **start)
    play.prepared(notifies=True, notifies_later=True)
    play.replies(said("Hello to you."))
    return play


def told(play: Play) -> list[Notice]:
    """What people were told of replies."""
    sent = [one for one in play.issued if isinstance(one, NotifyPeople)]
    return [one for effect in sent for one in effect.notices if one.event.startswith("reply_")]


def asks(play: Play) -> list[CountHours]:
    return [one for one in play.outstanding.values() if isinstance(one, CountHours)]


def test_the_clock_runs_from_the_customers_word_to_the_reply_of_who_holds_it() -> None:
    play = resting()
    play.holds()
    assert play.state.case.reply is None, "the last word is ours"
    play.hears("m2", "Where is it?")
    clock = play.state.case.reply
    assert clock is not None
    since = clock.since_ms
    assert (clock.due_ms, clock.warn_ms) == (since + HOUR, since + HOUR * 3 // 4)
    play.passes(HOUR // 2)
    play.hears("m3", "Please!")
    assert play.state.case.reply == clock, "it does not begin anew"
    play.says("It is on its way.")
    assert play.state.case.reply is None
    assert play.state.case.replied
    play.passes(9 * HOUR)
    assert not told(play)
    play.hears("m4", "And now?")
    clock = play.state.case.reply
    assert clock is not None
    assert clock.due_ms == clock.since_ms + 4 * HOUR


def test_people_are_warned_and_told_that_it_is_late_once_each() -> None:
    play = resting()
    play.holds()
    play.hears("m2", "Where is it?")
    clock = play.state.case.reply
    assert clock is not None
    (bar,) = [one for one in waits(play.state) if one.summary == "A reply is due"]
    assert bar.due_ms == clock.warn_ms
    play.passes(HOUR)
    play.passes(HOUR)
    (late,) = told(play)
    assert (late.event, late.by, late.at_ms) == ("reply_late", "ann", clock.due_ms)
    play.says("Sorry.")
    play.hears("m3", "And now?")
    play.passes(4 * HOUR - HOUR // 8)
    play.passes(HOUR)
    assert [one.event for one in told(play)] == ["reply_late", "reply_due", "reply_late"]


def test_an_assigned_conversation_has_a_clock_and_the_answer_of_the_agent_ends_it() -> None:
    play = resting()
    play.hears("m2", "Where is it?")
    assert play.state.case.reply is None, "nobody has it"
    play.case("assign", team="billing")
    assert play.state.case.reply is not None
    play.passes(HOUR)
    assert [(one.event, one.by) for one in told(play)] == [("reply_late", "billing")]
    play.case("assign", team="billing", to="bob")
    assert play.state.case.reply.late, "another person does not begin it anew"
    play.replies(said("It is on its way."))
    assert play.state.case.reply is None


def test_the_clock_ends_with_the_assignment() -> None:
    play = resting()
    play.case("assign", to="bob")
    play.hears("m2", "Where is it?")
    assert play.state.case.reply is not None
    play.case("assign")
    assert play.state.case.reply is None


def test_a_run_without_targets_has_no_clock() -> None:
    play = resting(None)
    play.holds()
    play.hears("m2", "Where is it?")
    assert play.state.case.reply is None


def test_a_target_without_a_warning_is_late_alone() -> None:
    play = resting(ReplyTimes(first_ms=HOUR, next_ms=HOUR))
    play.holds()
    play.hears("m2", "Where is it?")
    play.passes(HOUR)
    assert [one.event for one in told(play)] == ["reply_late"]


# --- Within a calendar -----------------------------------------------------------------------------


def test_a_worker_counts_the_hours_and_the_customer_reads_when_somebody_is_back() -> None:
    play = resting(WITHIN)
    play.holds()
    play.hears("m2", "Where is it?")
    (effect,) = asks(play)
    assert effect.reply is not None
    assert (effect.reply.within, effect.reply.lasts_ms) == ("support-hours", HOUR)
    assert play.state.case.reply is not None
    assert play.state.case.reply.due_ms is None
    play.counted(factor=60)
    clock = play.state.case.reply
    assert clock is not None
    assert clock.due_ms == clock.since_ms + 60 * HOUR
    assert customer_view(play.state).waits_for == "We are back on {day}."
    play.passes(30 * HOUR)
    assert customer_view(play.state).waits_for is None
    assert not told(play)
    play.passes(30 * HOUR)
    assert [one.event for one in told(play)] == ["reply_late"]
    assert not asks(play)


def test_a_count_that_comes_after_the_reply_changes_nothing() -> None:
    play = resting(WITHIN)
    play.holds()
    play.hears("m2", "Where is it?")
    (effect,) = asks(play)
    play.says("Here.")
    play.hears("m3", "And now?")
    play.take(EffectAnswered(at_ms=play.now_ms, effect=effect.effect, result=clock_of(effect)))
    clock = play.state.case.reply
    assert clock is not None
    assert clock.due_ms is None
    (effect,) = asks(play)
    nothing = HoursCounted(reply=CountedReply(since_ms=0, due_ms=1))
    play.take(EffectAnswered(at_ms=play.now_ms, effect=effect.effect, result=nothing))
    assert play.state.case.reply == clock
    assert len(asks(play)) == 1


def test_a_calendar_that_no_worker_can_count_leaves_the_customer_without_a_target() -> None:
    play = resting(WITHIN)
    play.holds()
    play.hears("m2", "Where is it?")
    (effect,) = asks(play)
    play.fails(effect, text="It does not end.")
    assert not asks(play)
    assert play.state.ignored[-1].what == "hours of a reply"
    play.passes(100 * HOUR)
    assert not told(play)
    play.says("Here.")
    play.hears("m3", "And now?")
    (effect,) = asks(play)
    play.says("Here.")
    play.fails(effect)
    assert play.state.case.reply is None
