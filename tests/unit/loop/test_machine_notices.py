"""What people hear of a run, and that the run does not depend on it."""

from outlast.loop.case import MOST_MENTIONED
from outlast.loop.effects import (
    CancelEffect,
    Command,
    EffectAnswered,
    NotifyAfterEnd,
    NotifyPeople,
)
from outlast.loop.notices import Notice, NoticeEvent, NoticeReceipt, Undelivered
from tests.laws.driver import Play, gated, said


def listened(*, keep_open: bool = False) -> Play:
    play = Play(keep_open=keep_open)
    play.prepared(notifies=True)
    return play


def test_people_hear_of_a_request_and_of_its_decision() -> None:
    play = listened()
    (created,) = play.replies(gated("refund", "c1"))
    assert isinstance(created, NotifyPeople)
    assert created.run_id == play.run_id
    assert [(one.event, one.request and one.request.id) for one in created.notices] == [
        ("created", "a1")
    ]
    play.notified()
    play.decided("a1", by="ann")
    (decided,) = play.only(NotifyPeople).notices
    assert (decided.event, decided.by) == ("decided", "ann")


def test_notices_are_not_answered_by_what_answers_something_else() -> None:
    play = listened()
    (created,) = play.replies(gated("refund", "c1"))
    assert isinstance(created, NotifyPeople)
    before = play.state
    assert play.take(EffectAnswered(at_ms=play.now_ms, effect=created.effect, result=None)) == ()
    assert play.state is before


def test_people_hear_who_takes_the_conversation_over_and_gives_it_back() -> None:
    play = listened(keep_open=True)
    play.replies(said("Hello."))
    play.holds("ann")
    (held,) = play.only(NotifyPeople).notices
    play.notified()
    play.releases("ann")
    (released,) = play.only(NotifyPeople).notices
    assert [(held.event, held.by), (released.event, released.by)] == [
        ("held", "ann"),
        ("released", "ann"),
    ]
    assert held.number != released.number


def test_a_run_without_notifiers_notifies_nobody() -> None:
    play = Play.ready()
    assert play.replies(gated("refund", "c1")) == ()


def test_a_notification_that_fails_changes_nothing() -> None:
    play = listened()
    play.replies(gated("refund", "c1"))
    before = play.state
    play.fails(play.only(NotifyPeople))
    assert play.state.pending == ()
    assert play.state.approvals == before.approvals
    assert play.state.status == "waiting"


def test_a_failed_question_leaves_notifications_alone_and_the_end_of_the_run_stops_them() -> None:
    play = listened()
    play.replies(gated("refund", "c1"))
    effect = play.only(NotifyPeople).effect
    commands = play.cancelled()
    assert CancelEffect(effect=effect) in commands
    assert play.state.outcome == "cancelled"


def heard(commands: tuple[Command, ...]) -> list[NoticeEvent]:
    return [
        notice.event
        for one in commands
        if isinstance(one, NotifyAfterEnd | NotifyPeople)
        for notice in one.notices
    ]


def test_the_end_of_a_run_leaves_its_notices_to_what_outlives_it() -> None:
    play = Play()
    play.prepared(notifies=True, notifies_later=True)
    play.replies(gated("refund", "c1"))
    effect = play.only(NotifyPeople).effect
    commands = play.cancelled()
    assert CancelEffect(effect=effect) in commands
    (last,) = (one for one in commands if isinstance(one, NotifyAfterEnd))
    assert [one.event for one in last.notices] == ["created", "cancelled"]
    assert commands.index(last) == len(commands) - 2, "the end comes last"


def test_a_notice_under_way_at_the_answer_outlives_the_run() -> None:
    play = Play()
    play.prepared(notifies=True, notifies_later=True)
    play.replies(gated("refund", "c1"))
    play.notified()
    play.decided("a1", by="ann")
    play.returns("c1", "refunded")
    commands = play.replies(said("Done."))
    assert play.state.outcome == "completed"
    assert heard(commands) == ["decided"]


def test_a_run_that_was_prepared_by_an_earlier_version_ends_as_it_did() -> None:
    play = listened()
    play.replies(gated("refund", "c1"))
    assert heard(play.cancelled()) == []


def test_what_nobody_has_heard_of_is_kept() -> None:
    play = listened()
    play.replies(gated("refund", "c1"))
    play.fails(play.only(NotifyPeople), text="No worker.")
    (lost,) = play.state.undelivered
    assert (lost.event, lost.request_id, lost.notifier, lost.why) == (
        "created",
        "a1",
        "",
        "No worker.",
    )
    play.decided("a1", by="ann")
    refused = Undelivered(event="decided", request_id="a1", notifier="chat", why="410", at_ms=5)
    effect = play.only(NotifyPeople).effect
    receipt = NoticeReceipt(undelivered=(refused,))
    play.take(EffectAnswered(at_ms=play.now_ms, effect=effect, result=receipt))
    assert play.state.undelivered == (lost, refused)


def test_the_person_who_has_the_conversation_hears_that_its_user_waits() -> None:
    play = Play(keep_open=True)
    play.prepared(notifies=True, notifies_later=True)
    play.replies(said("Hello."))
    play.holds("ann")
    play.notified()
    (waiting,) = play.hears("m1", "Are you there?")
    assert isinstance(waiting, NotifyPeople)
    assert [(one.event, one.by) for one in waiting.notices] == [("waiting", "ann")]
    play.notified()
    assert heard(play.hears("m2", "Hello?")) == [], "they know"
    play.says("Yes.", "ann")
    assert heard(play.hears("m3", "Good.")) == ["waiting"]


def notices_of(play: Play) -> list[Notice]:
    effects = [one for one in play.state.pending if isinstance(one, NotifyPeople)]
    return [one for effect in effects for one in effect.notices]


def mentions(play: Play) -> list[tuple[tuple[str, ...], str | None, str]]:
    found = [one for one in notices_of(play) if one.event == "mentioned"]
    return [(one.people, one.by, one.text) for one in found]


def test_a_colleague_hears_once_of_each_comment_that_mentions_them_and_nobody_of_their_own() -> (
    None
):
    play = Play(keep_open=True)
    play.prepared(notifies=True, notifies_mentions=True)
    play.replies(said("Hello."))
    text = "Look, @cid and @ann."
    play.case("comment", text=text, comment_id="c1", add=("@cid", "@Ann", "@cid", "vip"))
    assert mentions(play) == [(("cid",), "ann", text)]
    play.case("comment", text=text, comment_id="c1", add=("@cid",))
    assert len(mentions(play)) == 1
    play.case("comment", text="Thank you, @ann.", comment_id="c2", add=("@ann",))
    play.case("tag", add=("@cid",))
    assert len(mentions(play)) == 1
    play.case("comment", by="bob", text="@cid again", comment_id="c3", add=("@cid",))
    named = [(one.at_ms, one.number) for one in notices_of(play)]
    assert len(set(named)) == len(named) == 2
    many = tuple(f"@p{at}" for at in range(100))
    play.case("comment", text="all", comment_id="c4", add=many)
    assert len(mentions(play)[-1][0]) == MOST_MENTIONED


def test_a_run_of_an_earlier_version_tells_nobody_of_a_mention() -> None:
    play = listened(keep_open=True)
    play.replies(said("Hello."))
    play.case("comment", text="@cid", comment_id="c1", add=("@cid",))
    assert notices_of(play) == []
