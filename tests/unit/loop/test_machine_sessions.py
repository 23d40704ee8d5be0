"""Sessions and server threads: what is saved when, what is sent, and what a failure means."""

from typing import Any

import pytest

from outlast.loop.effects import CallModel, Finish, PrepareRun, RunHandoff, SaveSession
from outlast.loop.items import Message
from outlast.loop.start import Parent
from outlast.loop.state import in_order, items_of, items_to_save
from outlast.loop.values import Failure, JsonObject, ServerThread
from outlast.loop.view import ViewEdit
from tests.laws.driver import Play, gated, message, refused, said, thought, tool, transfer

OLD: JsonObject = {"role": "assistant", "content": "said before"}


def with_session(**start: Any) -> Play:
    """A run whose first model call is out, and whose question is saved."""
    play = Play(session=True, **start)
    play.prepared()
    play.saved()
    return play


def ranges(play: Play) -> list[tuple[int, int]]:
    return [(one.start, one.stop) for one in play.issued if isinstance(one, SaveSession)]


def saving(play: Play) -> list[str]:
    """The kinds of the items that are being saved."""
    return [one.kind for one in items_to_save(play.state, play.only(SaveSession))]


# --- How a run with a session begins -------------------------------------------------------------


def test_a_session_is_read_before_anything_else() -> None:
    play = Play(session=True, said=message("start", "Hello"))
    prepare = play.only(PrepareRun)
    assert (prepare.input, prepare.run_id) == (
        ({"role": "user", "content": "Hello"},),
        "support-42",
    )
    assert Play().only(PrepareRun).input is None


def test_what_was_said_before_is_shown_and_not_saved_again() -> None:
    play = Play(session=True, said=message("start", "Hello"))
    asked: JsonObject = {"role": "user", "content": "Hello"}
    play.prepared(input=(OLD, asked), old=(0,))
    assert play.kinds == ["history", "input"]
    assert play.state.question.answering == ("start",)
    assert play.only(CallModel).input_length == 2
    assert (ranges(play), saving(play)) == ([(1, 2)], ["input"])
    assert (play.state.question.replies_from, play.state.view.history) == (2, 2)


def test_what_a_callback_puts_between_is_saved_around_what_the_session_has() -> None:
    play = Play(session=True)
    first: JsonObject = {"role": "developer", "content": "Be brief."}
    play.prepared(input=(first, OLD, first, OLD), old=(1, 3))
    assert play.kinds == ["input", "history", "input", "history"]
    play.saved()
    play.replies(said("Hello."))
    play.saved()
    play.saved()
    assert ranges(play) == [(0, 1), (2, 3), (4, 5)]
    assert play.finish.status == "completed"


def test_a_message_that_came_meanwhile_is_shown_after_what_the_worker_made() -> None:
    play = Play(session=True)
    play.hears("m2", "And this?")
    play.prepared(input=(OLD,), old=(0,))
    assert play.state.question.answering == ("start", "m2")
    assert [item.raw["content"] for item in play.state.items] == ["said before", "And this?"]


def test_a_run_that_is_stopped_before_its_first_turn_keeps_what_was_said() -> None:
    play = Play(session=True)
    play.cancelled("after_turn")
    play.prepared(input=(OLD, OLD), old=(0,))
    assert play.state.inbox == (Message("start", (), play.accepted[0].at_ms),)
    play.saved()
    assert play.finish.status == "cancelled"


def test_an_agent_that_works_as_a_tool_is_asked_what_its_worker_makes_of_the_arguments() -> None:
    play = Play(parent=Parent(run_id="root", prefix="e1."), said=message("c1", "{}"))
    assert play.only(PrepareRun).input == ({"role": "user", "content": "{}"},)
    play.prepared(input=({"role": "user", "content": "Where is it?"},))
    assert [item.raw["content"] for item in play.state.items] == ["Where is it?"]
    play.replies(said("Here."))
    assert ranges(play) == [], "it has no session"
    assert play.finish.final_output == "Here."


# --- What is saved when --------------------------------------------------------------------------


def test_the_question_is_saved_first_and_every_turn_after_it() -> None:
    play = with_session()
    play.replies(tool("look_up", "c1"))
    assert ranges(play) == [(0, 1)]
    play.returns("c1")
    assert (ranges(play)[1:], saving(play)) == ([(1, 3)], ["tool_call", "tool_output"])
    assert play.only(CallModel).turn == 2, "the model is asked meanwhile"
    play.saved()
    play.replies(said("Done."))
    assert (play.state.phase, saving(play)) == ("closing", ["message"])
    play.saved()
    assert play.finish == Finish(status="completed", final_output="Done.")


def test_one_thing_is_saved_at_a_time_in_order() -> None:
    play = Play(session=True)
    play.prepared()
    play.replies(tool("look_up", "c1"))
    play.returns("c1")
    play.replies(said("Done."))
    assert ranges(play) == [(0, 1)]
    assert [(one.start, one.stop) for one in play.state.saving.to_save] == [(0, 1), (1, 3), (3, 4)]
    play.saved()
    play.saved()
    assert play.state.phase == "closing"
    play.saved()
    assert ranges(play) == [(0, 1), (1, 3), (3, 4)]
    assert play.finish.status == "completed"


def test_of_a_turn_that_failed_what_is_done_is_saved_or_the_next_run_does_it_again() -> None:
    play = with_session()
    careful = tool("careful", "c2", fatal=True)
    play.replies(
        thought(), tool("book", "c1"), said("Now."), thought(), careful, tool("slow", "c3")
    )
    play.returns("c1", "booked")
    play.fails(play.running("c2"))
    assert saving(play) == ["reasoning", "tool_call", "tool_output"]
    assert items_to_save(play.state, play.only(SaveSession))[1].raw["call_id"] == "c1"
    play.saved()
    assert (play.finish.status, len(ranges(play))) == ("failed", 2)
    assert play.outputs["c1"] == "booked"


def test_of_a_turn_that_failed_with_nothing_done_nothing_is_saved() -> None:
    play = with_session()
    play.replies(tool("careful", "c1", fatal=True), tool("slow", "c2"))
    play.fails(play.running("c1"))
    assert (len(ranges(play)), play.finish.status) == (1, "failed")


def test_a_call_that_is_done_beside_an_answer_that_a_guardrail_may_block_is_not_saved() -> None:
    play = with_session()
    careful = tool("careful", "c2", fatal=True)
    play.replies(tool("final", "c1", final=True), careful, required_steps=("finalize_answer",))
    play.returns("c1")
    play.fails(play.running("c2"))
    assert len(ranges(play)) == 1


def test_a_handoffs_turn_is_saved_without_what_a_filter_dropped_from_it() -> None:
    play = with_session()
    play.replies(tool("f", "c1"), transfer("Billing", "h1", callback=True, filters=True))
    play.returns("c1")
    play.called_back(edit=ViewEdit(segments=((0, 1),), history=1, dropped=(1, 3)))
    assert (ranges(play)[1:], saving(play)) == ([(1, 5)], ["handoff_call", "handoff_output"])
    assert play.only(SaveSession).dropped == (1, 3)


def arranging(*, drops_output: bool = False) -> ViewEdit:
    """A filter of a turn with a tool that replaces its call, and puts a message first and last."""
    first: JsonObject = {"type": "message", "role": "assistant", "content": []}
    last: JsonObject = {**first, "id": "last"}
    call: JsonObject = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '"***"'}
    arranged = (-1, -2, 2, 3, 4, -3)
    return ViewEdit(
        segments=((0, 1), first, call, (2, 4 if drops_output else 5), last),
        history=1,
        dropped=(1, 4) if drops_output else (1,),
        added=(first, call, last),
        arranged=tuple(at for at in arranged if not (drops_output and at == 4)),
    )


def test_what_a_filter_puts_in_has_its_place_in_the_run_and_in_the_session() -> None:
    play = with_session()
    play.replies(tool("f", "c1"), transfer("Billing", "h1", callback=True, filters=True))
    play.returns("c1")
    before = play.state.items
    play.called_back(edit=arranging())
    items = play.state.items
    assert items[: len(before)] == before, "the transcript only grows"
    assert [item.kind for item in items[4:]] == ["message", "other", "handoff_output", "message"]
    order = [at for at in in_order(play.state, range(len(items))) if at not in play.state.hidden]
    assert [items[at].kind for at in order] == [
        "input", "message", "other", "handoff_call", "tool_output", "handoff_output", "message",
    ]  # fmt: skip
    save = play.only(SaveSession)
    assert items_to_save(play.state, save) == tuple(items[at] for at in order[1:])
    seen = [item.raw for item in items_of(play.state, play.only(CallModel))]
    assert seen == [items[at].raw for at in order], "the next agent reads the same"


def test_what_comes_after_an_output_that_a_filter_drops_has_its_place_too() -> None:
    play = with_session()
    play.replies(tool("f", "c1"), transfer("Billing", "h1", callback=True, filters=True))
    play.returns("c1")
    play.called_back(edit=arranging(drops_output=True))
    assert play.state.hidden == (1, 4)
    assert saving(play) == ["message", "other", "handoff_call", "tool_output", "message"]


def test_what_is_being_saved_stays_in_its_order_when_a_later_filter_arranges_it() -> None:
    play = with_session()
    play.replies(gated("refund", "c1"), transfer("Billing", "h1", callback=True, filters=True))
    save = play.only(SaveSession)
    play.decided("a1", "reject")
    play.called_back(edit=ViewEdit(segments=(), history=0, arranged=(2, 1, 3, 4)))
    assert play.only(SaveSession) == save
    assert saving(play) == ["tool_call", "handoff_call"]
    play.saved()
    assert saving(play) == ["tool_output", "handoff_output"]


def test_what_is_being_saved_stays_the_same_when_a_later_filter_drops_it() -> None:
    play = Play(session=True)
    play.prepared()
    play.replies(tool("f", "c1"))
    play.returns("c1")
    play.replies(transfer("Billing", "h1", callback=True, filters=True))
    play.called_back(edit=ViewEdit(segments=((0, 1),), history=1, dropped=(0, 1, 2)))
    assert saving(play) == ["input"]
    play.saved()
    assert saving(play) == ["tool_call", "tool_output"], "that turn had ended before"


def test_calls_are_saved_while_people_decide_and_their_outputs_later() -> None:
    play = with_session()
    play.replies(gated("refund", "c1"))
    assert (ranges(play)[1:], saving(play)) == ([(1, 2)], ["tool_call"])
    assert play.state.status == "running", "who is waited for finds everything saved"
    play.saved()
    assert play.state.status == "waiting"
    play.decided("a1", "reject")
    assert (ranges(play)[2:], saving(play)) == ([(2, 3)], ["tool_output"])


def test_what_has_finished_is_saved_before_people_are_waited_for() -> None:
    play = with_session()
    play.replies(tool("look_up", "c1"), gated("refund", "c2"), tool("count", "c3"))
    play.returns("c3")
    assert ranges(play) == [(0, 1)]
    play.returns("c1")
    assert saving(play) == ["tool_call"] * 3 + ["tool_output"] * 2
    play.saved()
    play.decided("a1", "reject")
    assert list(play.outputs) == ["c1", "c3", "c2"]
    assert saving(play) == ["tool_output"]


@pytest.mark.parametrize("rule", ["final", "judged"])
def test_a_turn_whose_answer_may_be_blocked_is_not_saved_while_people_decide(rule: str) -> None:
    play = with_session()
    part = gated("refund", "c1", final=rule == "final")
    play.replies(part, judged=rule == "judged", required_steps=("finalize_answer",))
    assert ranges(play) == [(0, 1)]


def test_an_answer_is_saved_when_it_is_given() -> None:
    play = with_session()
    play.replies(said("Hello."), required_steps=("finalize_answer",))
    assert ranges(play) == [(0, 1)]
    play.concluded()
    assert saving(play) == ["message"]


@pytest.mark.parametrize(
    ("conclusion", "saved"),
    [
        ({"failure": Failure(code="ValueError", message="x")}, [(0, 1), (1, 2)]),
        ({"final": False}, [(0, 1), (1, 2)]),
        ({"message": said("Better.")[0]}, [(0, 1), (1, 3)]),
    ],
)
def test_what_a_conclusion_leaves_is_saved(
    conclusion: dict[str, Any], saved: list[tuple[int, int]]
) -> None:
    play = with_session()
    play.replies(said("Hello."), required_steps=("finalize_answer",))
    play.concluded(**conclusion)
    assert ranges(play) == saved


def test_an_answer_whose_conclusion_broke_is_saved() -> None:
    play = with_session()
    play.replies(said("Hello."), required_steps=("finalize_answer",))
    play.fails(next(one for one in play.outstanding.values() if one.kind == "finalize_answer"))
    assert ranges(play) == [(0, 1), (1, 2)]


def test_a_turn_that_has_no_answer_is_not_saved() -> None:
    play = with_session(keep_open=True)
    play.replies(refused("I will not."))
    play.hears("m2")
    assert ranges(play) == [(0, 1), (2, 3)]


def test_what_led_to_used_up_turns_is_saved() -> None:
    play = with_session(max_turns=1)
    play.replies(tool("f", "c1"))
    play.returns("c1")
    assert (play.state.phase, ranges(play)) == ("closing", [(0, 1), (1, 3)])
    play.saved()
    assert play.finish.status == "failed"


def test_a_gentle_cancel_saves_the_turn_it_waited_for() -> None:
    play = with_session()
    play.replies(tool("f", "c1"))
    play.cancelled("after_turn")
    play.returns("c1")
    assert (play.state.phase, saving(play)) == ("closing", ["tool_call", "tool_output"])
    closing = play.state
    play.cancelled("after_turn")
    assert play.state is closing
    play.saved()
    assert play.finish.status == "cancelled"


@pytest.mark.parametrize("early", [False, True])
def test_a_gentle_cancel_saves_what_was_done_when_it_does_not_wait_for_people(
    *, early: bool
) -> None:
    play = with_session()
    play.replies(tool("look_up", "c1"), gated("refund", "c2"))
    if early:
        play.cancelled("after_turn")
    play.returns("c1")
    if not early:
        play.cancelled("after_turn")
    while play.outstanding:
        play.saved()
    saved = {at for start, stop in ranges(play) for at in range(start, stop)}
    assert saved == set(range(5)), "the calls, and what each came to"
    assert play.finish.status == "cancelled"


def test_an_unchecked_turn_is_not_saved_when_it_is_stopped() -> None:
    play = with_session()
    play.replies(gated("refund", "c1", final=True), required_steps=("finalize_answer",))
    play.cancelled("after_turn")
    assert (play.finish.status, ranges(play)) == ("cancelled", [(0, 1)])


def test_an_immediate_cancel_saves_nothing_further() -> None:
    play = with_session()
    play.replies(tool("f", "c1"))
    play.returns("c1")
    play.cancelled()
    assert (play.finish.status, play.state.saving.to_save) == ("cancelled", ())


def test_what_is_said_to_a_run_that_closes_can_be_read_in_its_inbox() -> None:
    play = with_session()
    play.replies(said("Done."))
    play.hears("m2")
    play.saved()
    assert [one.id for one in play.state.inbox] == ["m2"]


# --- When it cannot be saved ---------------------------------------------------------------------


def test_a_run_fails_when_its_session_does_not_take_the_question() -> None:
    play = Play(session=True)
    play.prepared()
    model = play.only(CallModel).effect
    failure = play.fails(play.only(SaveSession), "session_failed")
    assert play.stopped == [model]
    assert play.answers() == [(("start",), "session_failed")]
    assert play.state.failure == failure
    assert play.state.phase == "closed"


def test_a_conversation_answers_while_its_session_takes_nothing() -> None:
    play = Play(session=True, keep_open=True)
    play.prepared()
    failure = play.fails(play.only(SaveSession), "session_failed")
    trouble = play.state.saving.save_failure
    assert trouble is not None
    assert trouble.failure == failure
    play.replies(said("Done."))
    assert play.answers() == [(("start",), None)]
    assert play.state.status == "idle"
    assert not play.outstanding, "until somebody says something again"


def test_what_the_session_did_not_take_is_saved_with_the_next_question() -> None:
    play = Play(session=True, keep_open=True)
    play.prepared()
    play.fails(play.only(SaveSession), "session_failed")
    assert play.state.saving.save_failure is not None
    since = play.state.saving.save_failure.at_ms
    play.replies(said("Done."))
    play.hears("m2")
    assert saving(play) == ["input"]
    play.fails(play.only(SaveSession), "session_failed")
    assert play.state.saving.save_failure.at_ms == since
    play.replies(said("Again."))
    play.hears("m3")
    for _ in range(5):
        assert play.state.saving.save_failure is not None
        play.saved()
    assert (play.state.saving.to_save, play.state.saving.save_failure) == ((), None)
    ranges = dict.fromkeys(
        (one.start, one.stop) for one in play.issued if isinstance(one, SaveSession)
    )
    assert list(ranges) == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]


@pytest.mark.parametrize("recovers", [False, True])
def test_a_conversation_with_unsaved_items_does_not_end_as_completed(*, recovers: bool) -> None:
    play = Play(session=True, keep_open=True)
    play.prepared()
    play.replies(said("Done."))
    failure = play.fails(play.only(SaveSession), "session_failed")
    play.cancelled("after_turn")
    assert play.state.phase == "closing"
    if recovers:
        play.saved()
        play.saved()
        assert play.finish == Finish(status="completed", final_output="Done.")
    else:
        play.fails(play.only(SaveSession), "session_failed")
        assert play.finish == Finish(status="failed", failure=failure)
        assert [one.start for one in play.state.saving.to_save] == [0, 1], "it says what is missing"


def test_an_answer_that_was_given_stays_and_the_run_says_that_it_is_not_saved() -> None:
    play = with_session()
    play.replies(said("Done."))
    failure = play.fails(play.only(SaveSession), "session_failed")
    assert play.finish == Finish(status="failed", failure=failure)
    assert play.answers() == [(("start",), None)]


def test_a_run_that_was_cancelled_ends_so_although_its_last_save_fails() -> None:
    play = Play.ready(session=True)
    play.replies(tool("f", "c1"))
    play.cancelled("after_turn")
    play.returns("c1")
    assert play.state.phase == "closing"
    while play.outstanding:
        play.fails(play.only(SaveSession), "session_failed")
    assert (play.finish.status, play.finish.failure) == ("cancelled", None)
    assert play.state.saving.save_failure is not None


def test_a_run_that_failed_already_keeps_its_own_failure() -> None:
    play = with_session(max_turns=1)
    play.replies(tool("f", "c1"))
    play.returns("c1")
    play.fails(play.only(SaveSession), "session_failed")
    assert play.finish.failure is not None
    assert play.finish.failure.code == "max_turns_exceeded"


# --- Threads on the provider's server ------------------------------------------------------------


def sent(play: Play) -> list[str]:
    return [item.kind for item in items_of(play.state, play.only(CallModel))]


def test_without_a_thread_everything_is_sent_every_time() -> None:
    play = Play.ready()
    play.replies(tool("f", "c1"), response_id="r1")
    play.returns("c1")
    call = play.only(CallModel)
    assert (call.on_server, call.previous_response_id, call.conversation_id) == (0, None, None)
    assert [one.response_id for one in play.state.responses] == ["r1"]


def test_a_conversation_on_the_server_gets_what_it_does_not_have() -> None:
    play = Play.ready(thread=ServerThread(conversation_id="conv"), keep_open=True)
    assert (play.only(CallModel).conversation_id, sent(play)) == ("conv", ["input"])
    play.replies(tool("f", "c1"), response_id="r1")
    play.returns("c1")
    call = play.only(CallModel)
    assert (call.conversation_id, call.previous_response_id, call.on_server) == ("conv", None, 2)
    assert sent(play) == ["tool_output"]
    play.replies(said("Done."), response_id="r2")
    play.hears("m2")
    assert sent(play) == ["input"]


def test_a_chain_follows_the_newest_response() -> None:
    play = Play.ready(thread=ServerThread(previous_response_id="r0", chained=True))
    assert play.only(CallModel).previous_response_id == "r0"
    play.replies(transfer("Billing", "h1"), response_id="r1")
    assert play.only(CallModel).previous_response_id == "r1"
    assert sent(play) == ["handoff_output"]
    play.replies(tool("f", "c1"))
    play.returns("c1")
    assert play.only(CallModel).previous_response_id == "r1", "a response without an id"


def test_a_model_call_that_failed_has_told_the_server_nothing() -> None:
    play = Play.ready(thread=ServerThread(chained=True), keep_open=True)
    play.fails(play.only(CallModel))
    play.hears("m2")
    assert (play.only(CallModel).on_server, sent(play)) == (0, ["input", "input"])


def test_a_callback_that_only_runs_asks_for_no_transcript() -> None:
    play = Play.ready(thread=ServerThread(chained=True))
    play.replies(transfer("Billing", "h1", callback=True))
    assert items_of(play.state, play.only(RunHandoff)) == ()


# --- What stops while the session is being saved -------------------------------------------------


@pytest.mark.parametrize("handled", [(), ("*",)])
def test_a_question_that_fails_does_not_stop_a_save(handled: tuple[str, ...]) -> None:
    play = Play(session=True, keep_open=True, handled=handled)
    play.prepared()
    save = play.only(SaveSession)
    play.fails(play.only(CallModel))
    assert play.only(SaveSession) is save
    assert save.effect not in play.stopped


def test_a_run_that_stops_waiting_does_not_stop_a_save() -> None:
    play = Play(session=True)
    play.prepared()
    save = play.only(SaveSession)
    play.replies(gated("refund", "c1"))
    play.cancelled("after_turn")
    assert save.effect not in play.stopped


def test_new_guardrails_of_the_agent_do_not_stop_a_save() -> None:
    play = Play(session=True)
    play.prepared()
    save = play.only(SaveSession)
    play.replies(unchecked=True, required_steps=("check",))
    assert play.only(SaveSession) is save
    assert play.state.question.unchecked_from == 0
    assert play.only(CallModel).starts


def test_finished_calls_are_saved_before_the_run_waits_for_people() -> None:
    play = with_session()
    play.replies(tool("look_up", "c1"), gated("refund", "c2"), required_steps=("finalize_answer",))
    play.returns("c1")
    assert saving(play) == ["tool_call", "tool_call", "tool_output"]


def test_a_finished_call_that_may_be_the_answer_is_saved_with_the_answer() -> None:
    play = with_session()
    calls = tool("look_up", "c1"), gated("refund", "c2", final=True)
    play.replies(*calls, required_steps=("finalize_answer",))
    play.returns("c1")
    assert play.state.status == "waiting"
    assert ranges(play) == [(0, 1)]
