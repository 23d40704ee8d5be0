"""What people hear of a run, and that the run does not depend on it."""

from outlast.loop.effects import CancelEffect, NotifyPeople
from tests.loop_driver import Play, gated, said


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
