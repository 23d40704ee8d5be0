"""Realtime lines: who makes the model calls, and what becomes of what is said meanwhile."""

import pytest

from outlast.loop import phrases
from outlast.loop.effects import CallModel, CancelEffect, KeepLineOpen, RunTool
from outlast.loop.problems import line_problem
from outlast.loop.state import line_of
from tests.laws.driver import BUSY, Play, gated, play_in, said, tool, transfer


def call_at_rest(**start: object) -> Play:
    """A conversation that began with a call; nobody has said anything yet."""
    play = Play(silent=True, keep_open=True, **start)  # pyright: ignore[reportArgumentType]
    play.prepared()
    play.attached()
    return play


def test_a_conversation_without_a_message_is_idle_until_somebody_speaks() -> None:
    play = call_at_rest()
    assert play.state.phase == "idle"
    assert line_of(play.state) == play.only(KeepLineOpen)
    play.speaks(said("Hello, how can I help?"))
    assert play.answers() == [(("said:spoken-3",), None)]
    assert play.state.final_output == "Hello, how can I help?"
    assert play.state.phase == "idle"


def test_what_is_said_and_answered_on_the_line_is_one_question() -> None:
    play = call_at_rest()
    play.speaks(said("It left on Monday."), heard="Where is my order?")
    assert play.kinds == ["input", "message"]
    assert play.state.usage.requests == 0
    assert play.state.turns == 1
    assert [one.response_id for one in play.state.responses] == ["spoken-3"]


def test_a_tool_called_on_the_line_runs_and_the_line_reads_the_output() -> None:
    play = call_at_rest()
    play.speaks(tool("look_up", "c1"), heard="Where is it?")
    assert play.only(RunTool).name == "look_up"
    play.returns("c1", "on Monday")
    call = play.only(CallModel)
    assert (call.line, call.turn) == ("l1", 2)
    play.speaks(said("It left on Monday."))
    assert play.state.final_output == "It left on Monday."
    assert play.state.turns == 2
    assert play.kinds == ["input", "tool_call", "tool_output", "message"]


def test_a_message_by_text_is_answered_by_the_line() -> None:
    play = call_at_rest()
    play.hears("m1", "I type this.")
    assert play.only(CallModel).line == "l1"
    play.speaks(said("I read it."))
    assert play.answers() == [(("m1",), None)]


def test_a_handoff_on_the_line_changes_the_agent_before_the_next_call() -> None:
    play = call_at_rest()
    play.speaks(transfer("Billing", "h1"), heard="My invoice is wrong.")
    call = play.only(CallModel)
    assert (call.agent, call.line) == ("Billing", "l1")
    assert play.state.handoff_path == ("Triage", "Billing")


def test_what_is_said_while_a_person_decides_runs_beside_it() -> None:
    play = call_at_rest()
    play.speaks(gated("refund", "c1"), heard="I want my money back.")
    play.speaks(tool("look_up", "c2"), heard="And where is the other order?")
    assert [one.status for one in play.state.calls] == ["waiting", "running"]
    play.returns("c2", "on its way")
    play.speaks(said("It is on its way. I still wait for the refund."))
    assert play.state.phase == "acting"
    play.decided("a1")
    play.returns("c1", "refunded")
    assert play.only(CallModel).line == "l1"
    play.speaks(said("Done."))
    assert play.outputs == {"c2": "on its way", "c1": "refunded"}
    assert len(play.state.answers) == 1
    assert play.state.turns == 2


def test_the_decision_of_one_call_is_asked_once_whatever_is_said_meanwhile() -> None:
    play = call_at_rest()
    play.speaks(gated("refund", "c1"), gated("refund", "c2"), parallel=1)
    play.decided("a1")
    play.decided("a2")
    assert [one.status for one in play.state.calls] == ["running", "planned"]
    play.speaks(tool("look_up", "c3"))
    assert [one.status for one in play.state.calls] == ["running", "planned", "planned"]
    assert len(play.state.approvals) == 2


def test_after_the_caller_hung_up_a_worker_makes_the_model_call() -> None:
    play = call_at_rest()
    play.speaks(gated("refund", "c1"), heard="I want my money back.")
    play.hung_up()
    assert play.state.status == "waiting"
    play.decided("a1")
    play.returns("c1", "refunded")
    assert play.only(CallModel).line == ""
    play.replies(said("Your refund is done."))
    assert play.state.final_output == "Your refund is done."


def test_a_model_call_that_the_line_did_not_make_goes_to_a_worker() -> None:
    play = call_at_rest()
    play.hears("m1")
    first = play.only(CallModel)
    play.hung_up()
    second = play.only(CallModel)
    assert (second.line, second.turn) == ("", first.turn)
    assert second.effect > first.effect


def test_a_line_that_is_silent_for_too_long_is_given_up() -> None:
    play = call_at_rest()
    play.hears("m1")
    play.fails(play.only(KeepLineOpen), "timeout")
    assert play.only(CallModel).line == ""
    assert line_of(play.state) is None
    assert play.state.failure is None


def test_the_newest_line_takes_over() -> None:
    play = call_at_rest()
    play.hears("m1")
    hold = play.only(KeepLineOpen)
    commands = play.attached("l2")
    assert CancelEffect(effect=hold.effect) in commands
    assert play.only(CallModel).line == "l2"
    play.speaks(said("I am the old line."), line="l1")
    assert play.state.ignored[-1].what == "reply on the line l1"
    play.speaks(said("I am the new line."), line="l2")
    assert play.state.final_output == "I am the new line."


def test_a_line_attaches_once() -> None:
    play = call_at_rest()
    assert play.attached() == ()
    play.cancelled()
    assert play.finish.status == "cancelled"
    assert play.attached("l2") == ()


def test_a_reply_is_taken_once() -> None:
    play = call_at_rest()
    play.speaks(tool("look_up", "c1"), heard="Where?", response_id="r1")
    play.speaks(tool("look_up", "c1"), heard="Where?", response_id="r1")
    assert len(play.state.calls) == 1
    play.returns("c1")
    play.speaks(tool("look_up", "c1"), heard="Where?", response_id="r1")
    assert play.only(CallModel)


def test_a_call_made_while_the_agent_changes_is_answered_but_not_run() -> None:
    play = call_at_rest()
    play.speaks(transfer("Billing", "h1", callback=True), heard="My invoice.")
    play.speaks(tool("look_up", "c9"), heard="Are you there?")
    assert play.outputs["c9"] == phrases.NOT_RUN_NOW
    play.called_back()
    assert play.state.agent == "Billing"
    assert play.only(CallModel).line == "l1"


def test_a_problem_of_a_late_call_is_told_as_it_is() -> None:
    play = call_at_rest()
    play.speaks(transfer("Billing", "h1", callback=True))
    play.speaks(tool("look_up", "c9", problem="No such order."))
    assert play.outputs["c9"] == "No such order."


@pytest.mark.parametrize("situation", [*BUSY, "idle"])
def test_a_call_can_begin_in_every_situation(situation: str) -> None:
    play = play_in(situation, keep_open=True)
    play.attached()
    before = play.state
    play.speaks(said("Hello."), heard="Hello?")
    if situation == "preparing":
        assert play.state.ignored
    else:
        assert len(play.state.items) == len(before.items) + 2
    play.hung_up()
    assert line_of(play.state) is None


def test_a_model_call_of_a_worker_goes_on_beside_the_line() -> None:
    play = Play.ready(keep_open=True)
    play.attached()
    assert play.only(CallModel).line == ""
    play.replies(said("By text."))
    assert play.state.final_output == "By text."


def test_the_end_of_a_run_ends_its_line() -> None:
    play = Play.ready()
    play.attached()
    commands = play.replies(said("Goodbye."))
    assert play.finish.status == "completed"
    assert any(isinstance(one, CancelEffect) for one in commands)


def test_a_failed_question_keeps_the_line() -> None:
    play = call_at_rest()
    play.speaks(tool("careful", "c1", fatal=True), heard="Do it.")
    play.fails(play.running("c1"))
    assert play.state.phase == "idle"
    assert play.state.failure is not None
    assert line_of(play.state) is not None


def test_a_run_without_turns_takes_no_line() -> None:
    play = call_at_rest(max_turns=0)
    assert line_of(play.state) is None
    assert "max_turns=0" in (line_problem(play.state) or "")
    play.cancelled()
    assert "has ended" in (line_problem(play.state) or "")


def test_the_conversation_on_the_providers_server_is_another_one() -> None:
    from outlast.loop.values import ServerThread

    play = call_at_rest(thread=ServerThread(chained=True))
    play.speaks(said("Hello."), heard="Hello?")
    assert play.state.server.on_server == 0
    assert play.state.server.thread == ServerThread(chained=True)
