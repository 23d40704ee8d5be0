"""Cancelling: at once or after the turn, wherever the run is."""

from dataclasses import replace

import pytest

from outlast.loop import phrases
from outlast.loop.changes import Change
from outlast.loop.effects import CallModel, CancelEffect, Finish
from tests.laws.driver import BUSY, SITUATIONS, Play, gated, play_in, refused, said, tool, transfer

# --- At once -------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep_open", [False, True])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_cancel_stops_everything_in_flight_and_ends_the_run(
    situation: str, *, keep_open: bool
) -> None:
    play = play_in(situation, keep_open=keep_open or situation == "idle")
    running = list(play.outstanding)
    commands = play.cancelled()
    assert commands == (*(CancelEffect(effect=number) for number in running), play.finish)
    assert (play.state.phase, play.state.outcome) == ("closed", "cancelled")
    assert play.finish.status == "cancelled"
    assert play.finish.failure is None
    assert play.state.pending_approvals == ()


@pytest.mark.parametrize("situation", BUSY)
def test_what_a_cancelled_run_still_answers_is_ignored(situation: str) -> None:
    play = play_in(situation)
    effects = list(play.outstanding.values())
    play.cancelled()
    before = play.state
    for effect in effects:
        play.fails(effect)
    assert play.state is before


def test_calls_that_were_cancelled_say_so_and_finished_ones_keep_their_output() -> None:
    play = Play.ready(context={"n": 0})
    play.replies(
        tool("f", "c1"),
        tool("g", "c2"),
        gated("h", "c3"),
        transfer("Billing", "h1"),
        tool("i", "c4", problem="Bad."),
    )
    play.returns("c2", "two", Change("set", ("n",), 2))
    play.cancelled()
    assert list(play.outputs.items()) == [
        ("c1", phrases.CANCELLED),
        ("c2", "two"),
        ("c3", phrases.CANCELLED),
        ("h1", phrases.CANCELLED),
        ("c4", "Bad."),
    ]
    assert play.state.context == {"n": 2}
    assert play.state.agent == "Triage"


def test_an_immediate_cancel_does_not_wait_for_the_turn_of_a_gentle_one() -> None:
    play = play_in("running")
    play.cancelled("after_turn")
    play.cancelled()
    assert play.finish.status == "cancelled"
    assert play.stopped == [3, 4]


def test_a_message_that_a_cancelled_run_never_saw_is_kept() -> None:
    play = play_in("running")
    play.hears("m2")
    play.cancelled()
    assert [one.id for one in play.state.inbox] == ["m2"]
    assert play.state.question.answering == ("start",)


# --- After the turn ------------------------------------------------------------------------------


@pytest.mark.parametrize("situation", [name for name in BUSY if name != "waiting"])
def test_a_gentle_cancel_stops_nothing_that_runs(situation: str) -> None:
    play = play_in(situation)
    before = play.state
    assert play.cancelled("after_turn") == ()
    assert play.state.cancel == "after_turn"
    assert (play.state.pending, play.state.phase) == (before.pending, before.phase)
    changed = play.state
    play.cancelled("after_turn")
    assert replace(play.state, at_ms=changed.at_ms) == changed


def test_a_gentle_cancel_of_an_unprepared_run_makes_no_model_call() -> None:
    play = Play()
    play.cancelled("after_turn")
    play.prepared()
    assert play.finish.status == "cancelled"
    assert (play.state.turns, play.state.items) == (0, ())


@pytest.mark.parametrize("keep_open", [False, True])
def test_an_answer_that_was_on_its_way_still_counts(*, keep_open: bool) -> None:
    play = Play.ready(keep_open=keep_open)
    play.cancelled("after_turn")
    play.replies(said("Done."))
    assert play.finish == Finish(status="completed", final_output="Done.")
    assert play.answers() == [(("start",), None)]


def test_a_gentle_cancel_closes_although_a_message_waits() -> None:
    play = Play.ready(keep_open=True)
    play.hears("m2")
    play.cancelled("after_turn")
    play.replies(said("Done."))
    assert play.finish.status == "completed"
    assert [one.id for one in play.state.inbox] == ["m2"]


@pytest.mark.parametrize("keep_open", [False, True])
@pytest.mark.parametrize("ending", ["model", "refusal", "callback", "fatal", "prepare"])
def test_a_failure_after_a_gentle_cancel_ends_the_run_as_failed(
    ending: str, *, keep_open: bool
) -> None:
    situation = {"callback": "transferring", "prepare": "preparing"}.get(ending, "thinking")
    play = play_in(situation, keep_open=keep_open)
    if ending == "fatal":
        play.replies(tool("f", "c1", fatal=True))
    play.cancelled("after_turn")
    if ending == "refusal":
        play.replies(refused("No."))
    else:
        play.fails(next(iter(play.outstanding.values())))
    assert play.finish.status == "failed"
    assert play.finish.failure == play.state.failure
    assert play.finish.failure is not None


def test_tools_finish_and_no_further_model_call_is_made() -> None:
    play = play_in("running")
    play.cancelled("after_turn")
    play.returns("c2", "two")
    play.returns("c1", "one")
    assert play.finish.status == "cancelled"
    assert list(play.outputs.items()) == [("c1", "one"), ("c2", "two")]
    assert play.state.turns == 1
    assert play.stopped == []


def test_a_reply_with_calls_is_acted_on_after_a_gentle_cancel() -> None:
    """The turn is the model call and what it asks for."""
    play = Play.ready()
    play.cancelled("after_turn")
    play.replies(tool("f", "c1"))
    play.returns("c1", "one")
    assert (play.finish.status, play.outputs) == ("cancelled", {"c1": "one"})


def test_a_reply_that_says_nothing_yet_ends_a_gently_cancelled_run() -> None:
    play = Play.ready()
    play.cancelled("after_turn")
    play.replies(final="again")
    assert play.finish.status == "cancelled"


def test_a_handoff_is_the_end_of_a_gently_cancelled_turn() -> None:
    play = play_in("held")
    play.cancelled("after_turn")
    play.returns("c1")
    assert (play.finish.status, play.state.agent) == ("cancelled", "Billing")


def test_a_callback_finishes_after_a_gentle_cancel() -> None:
    play = play_in("transferring", context={})
    play.cancelled("after_turn")
    play.called_back(Change("set", ("n",), 1))
    assert (play.finish.status, play.state.agent) == ("cancelled", "Billing")
    assert play.state.context == {"n": 1}
    assert play.state.turns == 1


def test_a_gentle_cancel_does_not_wait_for_people() -> None:
    play = play_in("waiting")
    play.cancelled("after_turn")
    assert play.finish.status == "cancelled"
    assert play.outputs == {"c1": phrases.CANCELLED}
    assert play.state.approvals[0].status == "cancelled"


def test_a_gentle_cancel_waits_for_tools_but_not_for_people() -> None:
    play = play_in("mixed")
    play.cancelled("after_turn")
    assert play.state.phase == "acting"
    play.returns("c1", "found")
    assert play.finish.status == "cancelled"
    assert play.outputs == {"c1": "found", "c2": phrases.CANCELLED}
    assert play.state.approvals[0].status == "cancelled"


def test_a_reply_that_only_waits_for_people_ends_a_gently_cancelled_run() -> None:
    play = Play.ready()
    play.cancelled("after_turn")
    play.replies(gated("refund", "c1"))
    assert play.finish.status == "cancelled"
    assert [one.status for one in play.state.approvals] == ["cancelled"]
    assert play.outputs == {"c1": phrases.CANCELLED}


def test_a_person_may_still_decide_while_tools_finish() -> None:
    play = play_in("mixed")
    play.cancelled("after_turn")
    play.decided("a1")
    play.returns("c1", "found")
    assert play.running_ids == ["c2"]
    play.returns("c2", "refunded")
    assert play.finish.status == "cancelled"
    assert play.outputs == {"c1": "found", "c2": "refunded"}


def test_a_rejection_while_others_wait_ends_a_gently_cancelled_run_when_the_tools_are_done() -> (
    None
):
    play = Play.ready()
    play.replies(tool("f", "c1"), gated("g", "c2"), gated("h", "c3"))
    play.cancelled("after_turn")
    play.decided("a1", "reject", message="No.")
    assert play.state.phase == "acting"
    play.returns("c1", "one")
    assert play.finish.status == "cancelled"
    assert play.outputs == {"c1": "one", "c2": "No.", "c3": phrases.CANCELLED}
    assert [one.status for one in play.state.approvals] == ["rejected", "cancelled"]


def test_used_up_turns_do_not_turn_a_cancel_into_a_failure() -> None:
    play = Play.ready(max_turns=1)
    play.replies(tool("f", "c1"))
    play.cancelled("after_turn")
    play.returns("c1")
    assert (play.finish.status, play.finish.failure) == ("cancelled", None)


# --- An idle conversation ------------------------------------------------------------------------


def test_an_idle_conversation_that_is_closed_gently_is_complete() -> None:
    play = play_in("idle", keep_open=True)
    play.cancelled("after_turn")
    assert play.finish == Finish(status="completed", final_output="Hello to you.")


def test_an_idle_conversation_whose_last_question_failed_closes_as_it_would_have_before() -> None:
    """Whether the wish to stop came just before the failure or after it makes no difference."""
    before, after = Play.ready(keep_open=True), Play.ready(keep_open=True)
    before.cancelled("after_turn")
    before.fails(before.only(CallModel))
    after.fails(after.only(CallModel))
    after.cancelled("after_turn")
    assert after.finish == before.finish


@pytest.mark.parametrize("mode", ["immediate", "after_turn"])
def test_a_run_that_ends_well_has_no_failure(mode: str) -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("First."))
    play.hears("m2")
    play.fails(play.only(CallModel))
    play.cancelled("immediate" if mode == "immediate" else "after_turn")
    assert (play.finish.failure is not None) == (play.finish.status == "failed")


def test_a_cancelled_run_does_not_pass_off_an_old_answer_as_its_own() -> None:
    """The end of a run carries an answer only when the run is complete."""
    play = Play.ready(keep_open=True)
    play.replies(said("To the first question."))
    play.hears("m2")
    play.cancelled()
    assert play.finish == Finish(status="cancelled")
    assert play.state.final_output == "To the first question."


def test_a_turn_whose_call_was_withheld_has_not_begun() -> None:
    play = Play.ready()
    play.replies(tool("f", "c1"))
    play.returns("c1", "one")
    assert (play.only(CallModel).turn, play.state.turns) == (2, 2)
    play.cancelled("after_turn")
    play.replies(withheld=True)
    assert (play.state.phase, play.state.outcome) == ("closed", "cancelled")
    assert (play.state.turns, len(play.state.responses)) == (1, 1)
    assert play.outputs == {"c1": "one"}


def test_a_turn_whose_call_was_withheld_begins_again_where_nobody_stops_the_run() -> None:
    play = Play.ready()
    play.replies(tool("f", "c1"), transfer("Billing", "h1"))
    play.returns("c1", "one")
    before = play.only(CallModel)
    assert before.starts
    play.replies(withheld=True)
    again = play.only(CallModel)
    assert again == replace(before, effect=again.effect)
    play.replies(said("Done."))
    assert (play.state.outcome, play.state.turns) == ("completed", 2)
