"""Where effects belong in the trace of their run."""

from dataclasses import replace
from typing import Any

import pytest

from outlast.loop.calls import Briefing, HandoffResult, ModelReply, PlannedCall
from outlast.loop.checks import Conclusion
from outlast.loop.commands import CallModel, Command, Conclude, PrepareRun, RunHandoff
from outlast.loop.events import (
    AnswerConcluded,
    EffectFailed,
    HandoffFinished,
    MessageReceived,
    ModelReplied,
    RunPrepared,
    RunStarted,
)
from outlast.loop.items import Message
from outlast.loop.machine import advance
from outlast.loop.state import RunState
from outlast.loop.trace_mark import TraceMark
from outlast.loop.values import Failure, JsonObject

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

    def __init__(self, *, traced: bool = True, keep_open: bool = False) -> None:
        self.state, self.at_ms = RunState(), 0
        hello = Message("m1", ({"role": "user", "content": "Hello"},))
        started = RunStarted(at_ms=0, run_id="r", agent="A", message=hello, keep_open=keep_open)
        (self.newest,) = self.take(started)
        assert isinstance(self.newest, PrepareRun)
        self.answer(RunPrepared, briefing=Briefing(traced=traced))

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
    assert isinstance(effect, CallModel | RunHandoff | Conclude)
    assert effect.trace is not None
    return effect.trace


def test_a_run_that_is_not_traced_has_no_marks() -> None:
    run = Run(traced=False)
    assert isinstance(run.newest, CallModel)
    assert (run.newest.trace, run.state.trace) == (None, None)
    assert run.answer(ModelReplied, reply=ModelReply(items=(SAID,))).status == "completed"


def test_the_first_effect_begins_the_trace_and_the_agents_work() -> None:
    run = Run()
    begun = TraceMark(started_at_ms=1_000, since_ms=2_000, question=0, begins="trace")
    assert mark_of(run.newest) == begun
    run.answer(ModelReplied, reply=ModelReply(items=(), final="again"))
    assert mark_of(run.newest) == replace(begun, begins=None)
    assert run.state.pending == (run.newest,)


def test_an_agent_that_takes_over_begins_its_work() -> None:
    run = Run()
    plan = PlannedCall(item=0, kind="handoff", target="B", callback=True, rivals=("C",))
    handing_over = run.answer(ModelReplied, reply=ModelReply(items=(HANDS_OVER,), calls=(plan,)))
    assert isinstance(handing_over, RunHandoff)
    assert (handing_over.rivals, mark_of(handing_over).handovers) == (("C",), 0)
    took_over = mark_of(run.answer(HandoffFinished, result=HandoffResult()))
    assert (took_over.begins, took_over.handovers, took_over.since_ms) == ("agent", 1, 4_000)
    assert took_over.key("r") == mark_of(handing_over).key("r")


def test_every_answer_is_concluded_so_that_its_end_can_be_told() -> None:
    run = Run()
    concluding = run.answer(ModelReplied, reply=ModelReply(items=(SAID,)))
    assert isinstance(concluding, Conclude)
    assert concluding.candidate.output == "Hi."
    finished = run.answer(AnswerConcluded, conclusion=Conclusion())
    assert (finished.status, finished.final_output) == ("completed", "Hi.")


def test_a_failure_is_concluded_and_stands() -> None:
    run, failure = Run(), Failure(code="model_call_failed", message="No such model.")
    concluding = run.answer(EffectFailed, failure=failure)
    assert isinstance(concluding, Conclude)
    assert concluding.candidate.failure == failure
    finished = run.answer(AnswerConcluded, conclusion=Conclusion(final=False, declined=True))
    assert (finished.status, finished.failure) == ("failed", failure)


def test_a_failure_stands_also_if_it_cannot_be_told() -> None:
    run, failure = Run(), Failure(code="model_call_failed", message="No such model.")
    run.answer(EffectFailed, failure=failure)
    finished = run.answer(EffectFailed, failure=Failure(code="timeout", message="No worker."))
    assert finished.failure == failure


@pytest.mark.parametrize("says_at", ["idle", "concluding"])
def test_every_question_has_a_trace_of_its_own(says_at: str) -> None:
    run = Run(keep_open=True)
    first = mark_of(run.newest)
    more = MessageReceived(at_ms=0, message=Message("m2", ({"role": "user", "content": "More"},)))
    run.answer(ModelReplied, reply=ModelReply(items=(SAID,)))
    if says_at == "concluding":
        run.take(more)
        asked = run.answer(AnswerConcluded, conclusion=Conclusion())
    else:
        run.answer(AnswerConcluded, conclusion=Conclusion())
        (asked,) = run.take(more)
    second = mark_of(asked)
    assert (second.begins, second.question, second.handovers) == ("trace", 1, 0)
    assert second.key("r") != first.key("r")


def test_two_runs_of_one_id_have_different_keys() -> None:
    assert TraceMark(started_at_ms=1).key("r") != TraceMark(started_at_ms=2).key("r")
