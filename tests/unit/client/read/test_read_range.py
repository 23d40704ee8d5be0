"""Reading a run along: what is present, and when it is settled."""

import pytest

from outlast.client.read.read_range import CaughtUp, is_settled
from tests.laws.driver import Play, gated, play_in, said


@pytest.mark.parametrize(
    ("situation", "settled"),
    [("thinking", False), ("running", False), ("mixed", False), ("waiting", True)],
)
def test_a_run_is_settled_where_it_needs_somebody(situation: str, settled: bool) -> None:
    assert is_settled(play_in(situation).state) is settled


def test_a_run_that_has_ended_is_settled() -> None:
    play = Play.ready()
    play.replies(said("Done."))
    assert is_settled(play.state)
    assert is_settled(play_in("idle", keep_open=True).state)


def test_what_was_decided_is_not_waited_for() -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1"), gated("ban", "c2"))
    assert is_settled(play.state, frozenset({("", "a9"), ("other", "a1")}))
    assert not is_settled(play.state, frozenset({("", "a1")}))
    play.decided("a1", "reject")
    assert is_settled(play.state, frozenset({("", "a1")}))


def test_a_run_is_not_settled_before_its_session_has_everything() -> None:
    play = Play.ready(session=True)
    play.saved()
    play.replies(gated("refund", "c1"))
    assert play.state.pending_approvals
    assert not is_settled(play.state)
    play.saved()
    assert is_settled(play.state)
    play = Play.ready(session=True, keep_open=True)
    play.saved()
    play.replies(said("Done."))
    assert play.state.phase == "idle"
    assert not is_settled(play.state)
    play.saved()
    assert is_settled(play.state)


def test_a_place_in_the_same_history_can_be_compared() -> None:
    present = CaughtUp(("h2", 3), from_start=False)
    assert [present.is_reached(("h2", at)) for at in range(5)] == [False] * 3 + [True] * 2
    assert present.is_reached(("h3", 0)), "it has continued as new meanwhile"


def test_a_reader_that_begins_with_the_first_history_has_to_come_to_the_place() -> None:
    present = CaughtUp(("h2", 3), from_start=True)
    assert not present.is_reached(("h1", 9))
    assert not present.is_reached(("h2", 2))
    assert present.is_reached(("h2", 3))
    assert present.is_reached(("h3", 0))
    assert CaughtUp(None, from_start=True).is_reached(("h1", 0))
