"""Where effects belong in the trace of their run."""

from dataclasses import replace
from typing import Any

import pytest

from outlast.loop.calls import HandoffResult, ModelReply, PlannedCall, PreparedRun
from outlast.loop.checks import CheckResult, FinalizedAnswer, RequiredStep
from outlast.loop.effects import (
    AnswerFinalized,
    CallModel,
    CancelEffect,
    CheckInput,
    Command,
    EffectFailed,
    FinalizeAnswer,
    Finish,
    HandoffFinished,
    InputChecked,
    ModelReplied,
    PrepareRun,
    RunAgent,
    RunHandoff,
    RunPrepared,
    RunTool,
)
from outlast.loop.events import CancelRequested, MessageReceived, RunStarted
from outlast.loop.items import Message
from outlast.loop.machine import advance
from outlast.loop.state import LoopState
from outlast.loop.trace_mark import TraceMark, TurnMark
from outlast.loop.values import Failure, JsonObject, Usage

SAID: JsonObject = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hi."}],
}
HANDS_OVER: JsonObject = {
    "type": "function_call",
    "call_id": "h1",
    "name": "transfer_to_b",
    "arguments": "{}",
}


class Run:
    """A run whose effects are answered by hand; every event is a second after the one before."""

    def __init__(
        self,
        *,
        traced: bool = True,
        keep_open: bool = False,
        required_steps: tuple[RequiredStep, ...] = (),
        max_turns: int | None = None,
    ) -> None:
        self.state, self.at_ms = LoopState(), 0
        hello = Message("m1", ({"role": "user", "content": "Hello"},))
        started = RunStarted(
            at_ms=0,
            run_id="r",
            agent="A",
            message=hello,
            keep_open=keep_open,
            max_turns=max_turns,
        )
        (self.newest,) = self.take(started)
        assert isinstance(self.newest, PrepareRun)
        self.answer(RunPrepared, result=PreparedRun(traced=traced, required_steps=required_steps))

    def take(self, event: Any) -> tuple[Command, ...]:
        self.at_ms += 1_000
        self.state, commands = advance(self.state, replace(event, at_ms=self.at_ms))
        return commands

    def answer(self, kind: Any, **fields: Any) -> Any:
        number = self.state.pending[-1].effect
        commands = self.take(kind(at_ms=0, effect=number, **fields))
        self.newest = commands[-1] if commands else None
        return self.newest


def mark_of(effect: object) -> TraceMark:
    assert isinstance(effect, CallModel | RunHandoff | FinalizeAnswer)
    assert effect.trace is not None
    return effect.trace


def test_a_run_that_is_not_traced_has_no_marks() -> None:
    run = Run(traced=False)
    assert isinstance(run.newest, CallModel)
    assert (run.newest.trace, run.state.trace) == (None, None)
    assert run.answer(ModelReplied, result=ModelReply(items=(SAID,))).status == "completed"


def test_the_first_effect_begins_the_trace_and_the_agents_work() -> None:
    run = Run()
    begun = TraceMark(
        started_at_ms=1_000,
        since_ms=2_000,
        question=0,
        begins="trace",
        asked_ms=2_000,
        turn=TurnMark(number=1, since_ms=2_000),
    )
    assert mark_of(run.newest) == begun
    assert run.state.pending == (run.newest,)


def test_the_first_effect_of_a_turn_knows_the_turn_before() -> None:
    run = Run()
    first = mark_of(run.newest)
    spent = Usage(requests=1, input_tokens=7)
    run.answer(ModelReplied, result=ModelReply(items=(), final="again", usage=spent))
    second = TurnMark(number=2, since_ms=3_000, spent=spent)
    assert mark_of(run.newest) == replace(first, begins="turn", turn=second, ended=first.turn)
    concluding = run.answer(ModelReplied, result=ModelReply(items=(SAID,)))
    assert mark_of(concluding) == replace(first, begins=None, turn=second)


def test_calls_are_in_the_turn_of_the_reply_that_asks_for_them() -> None:
    run = Run()
    turn = mark_of(run.newest).turn
    calls = [
        {"type": "function_call", "call_id": f"c{at}", "name": "f", "arguments": "{}"}
        for at in range(2)
    ]
    plans = (PlannedCall(item=0, kind="tool"), PlannedCall(item=1, kind="agent", target="B"))
    run.answer(ModelReplied, result=ModelReply(items=tuple(calls), calls=plans))
    tool, nested = run.state.pending
    assert isinstance(tool, RunTool)
    assert isinstance(nested, RunAgent)
    for effect in (tool, nested):
        assert effect.trace is not None
        assert (effect.trace.begins, effect.trace.turn, effect.trace.ended) == (None, turn, None)


def test_a_check_of_the_question_is_in_its_first_turn() -> None:
    run = Run(required_steps=("check_first",))
    check = run.newest
    assert isinstance(check, CheckInput)
    assert check.trace is not None
    assert (check.trace.begins, check.trace.turn) == ("trace", TurnMark(number=1, since_ms=2_000))
    asked = mark_of(run.answer(InputChecked, result=CheckResult()))
    assert (asked.begins, asked.turn) == (None, check.trace.turn)


def test_a_check_of_what_is_said_later_is_between_two_turns() -> None:
    run = Run(required_steps=("check",))
    assert isinstance(run.newest, CallModel)
    first = mark_of(run.newest).turn
    run.take(InputChecked(at_ms=0, effect=run.state.pending[0].effect, result=CheckResult()))
    run.take(MessageReceived(at_ms=0, message=Message("m2", ({"role": "user", "content": "!"},))))
    again = ModelReply(items=(), final="again", required_steps=("check",))
    check = run.answer(ModelReplied, result=again)
    assert isinstance(check, CheckInput)
    assert check.stage == "added"
    assert check.trace is not None
    assert (check.trace.begins, check.trace.turn, check.trace.ended) == (None, None, first)
    asked = mark_of(run.answer(InputChecked, result=CheckResult()))
    assert (asked.begins, asked.ended) == ("turn", None)
    assert asked.turn is not None
    assert asked.turn.number == 2


def test_a_question_without_a_turn_is_concluded_outside_of_turns() -> None:
    run = Run(max_turns=0)
    concluding = mark_of(run.newest)
    assert (concluding.begins, concluding.turn) == ("trace", None)


def test_an_agent_that_takes_over_begins_its_work() -> None:
    run = Run()
    plan = PlannedCall(item=0, kind="handoff", target="B", callback=True, rivals=("C",))
    handing_over = run.answer(ModelReplied, result=ModelReply(items=(HANDS_OVER,), calls=(plan,)))
    assert isinstance(handing_over, RunHandoff)
    assert (handing_over.rivals, mark_of(handing_over).handovers) == (("C",), 0)
    took_over = mark_of(run.answer(HandoffFinished, result=HandoffResult()))
    assert (took_over.begins, took_over.handovers, took_over.since_ms) == ("agent", 1, 4_000)
    assert took_over.turn == TurnMark(number=2, since_ms=4_000)
    assert (took_over.ended, took_over.asked_ms) == (None, 2_000)
    assert took_over.key("r") == mark_of(handing_over).key("r")


def test_every_answer_is_concluded_so_that_its_end_can_be_told() -> None:
    run = Run()
    concluding = run.answer(ModelReplied, result=ModelReply(items=(SAID,)))
    assert isinstance(concluding, FinalizeAnswer)
    assert concluding.candidate.output == "Hi."
    finished = run.answer(AnswerFinalized, result=FinalizedAnswer())
    assert (finished.status, finished.final_output) == ("completed", "Hi.")


def test_a_failure_is_concluded_and_stands() -> None:
    run, failure = Run(), Failure(code="model_call_failed", message="No such model.")
    concluding = run.answer(EffectFailed, failure=failure)
    assert isinstance(concluding, FinalizeAnswer)
    assert concluding.candidate.failure == failure
    finished = run.answer(AnswerFinalized, result=FinalizedAnswer(final=False, declined=True))
    assert (finished.status, finished.failure) == ("failed", failure)


def test_a_failure_stands_also_if_it_cannot_be_told() -> None:
    run, failure = Run(), Failure(code="model_call_failed", message="No such model.")
    run.answer(EffectFailed, failure=failure)
    finished = run.answer(EffectFailed, failure=Failure(code="timeout", message="No worker."))
    assert finished.failure == failure


@pytest.mark.parametrize("says_at", ["idle", "finalizing"])
def test_every_question_has_a_trace_of_its_own(says_at: str) -> None:
    run = Run(keep_open=True)
    first = mark_of(run.newest)
    more = MessageReceived(at_ms=0, message=Message("m2", ({"role": "user", "content": "More"},)))
    run.answer(ModelReplied, result=ModelReply(items=(SAID,), usage=Usage(requests=1)))
    if says_at == "finalizing":
        run.take(more)
        asked = run.answer(AnswerFinalized, result=FinalizedAnswer())
    else:
        run.answer(AnswerFinalized, result=FinalizedAnswer())
        (asked,) = run.take(more)
    second = mark_of(asked)
    assert (second.begins, second.question, second.handovers) == ("trace", 1, 0)
    assert second.turn == TurnMark(number=1, since_ms=second.asked_ms, spent=second.spent)
    assert (second.ended, second.spent.requests, second.asked_ms > first.asked_ms) == (
        None,
        1,
        True,
    )
    assert second.key("r") != first.key("r")


def test_two_runs_of_one_id_have_different_keys() -> None:
    assert TraceMark(started_at_ms=1).key("r") != TraceMark(started_at_ms=2).key("r")


def stopped(run: Run) -> FinalizeAnswer:
    """Stop a run whose model is being asked, and return what is still to do."""
    *stops, conclude = run.take(CancelRequested(at_ms=0))
    assert stops == [CancelEffect(effect=2)]
    assert isinstance(conclude, FinalizeAnswer)
    assert (run.state.phase, run.state.status) == ("closing", "running")
    return conclude


def test_the_end_of_a_question_that_was_stopped_is_told_before_the_run_closes() -> None:
    run = Run()
    turn = mark_of(run.newest).turn
    conclude = stopped(run)
    assert conclude.candidate.failure == Failure(code="cancelled", message="The run was cancelled.")
    assert (mark_of(conclude).begins, mark_of(conclude).turn) == (None, turn)
    finish = run.answer(AnswerFinalized, result=FinalizedAnswer(final=False, declined=True))
    assert (finish.status, run.state.answers, run.state.failure) == ("cancelled", (), None)


def test_a_run_that_cannot_tell_of_its_end_closes_all_the_same() -> None:
    run = Run()
    stopped(run)
    assert run.answer(EffectFailed, failure=Failure(code="internal", message="No.")).status == (
        "cancelled"
    )


def test_a_run_that_is_stopped_twice_tells_of_one_end() -> None:
    run = Run()
    conclude = stopped(run)
    assert run.take(CancelRequested(at_ms=0)) == ()
    assert run.state.pending == (conclude,)


def test_a_conversation_that_is_stopped_between_questions_has_nothing_to_tell() -> None:
    run = Run(keep_open=True)
    run.answer(ModelReplied, result=ModelReply(items=(SAID,)))
    run.answer(AnswerFinalized, result=FinalizedAnswer())
    assert run.state.phase == "idle"
    (finish,) = run.take(CancelRequested(at_ms=0))
    assert isinstance(finish, Finish)
