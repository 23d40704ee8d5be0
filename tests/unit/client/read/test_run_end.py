"""How a run ended: the result, or the error that says why there is none."""

from dataclasses import replace
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent, WorkflowExecutionTerminatedEventAttributes
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError, TerminatedError

from outlast.agents.agent import Agent
from outlast.agents.errors import (
    AgentsException,
    MaxTurnsExceeded,
    ModelCallFailed,
    RunCancelled,
    RunTerminated,
    UserError,
)
from outlast.client.read.history import ended_by_engine
from outlast.client.read.run_end import error_of_closing, result_or_raise
from outlast.client.results.local_definitions import LocalDefinitions
from outlast.contract import failures
from outlast.loop.effects import CallModel
from outlast.loop.invariants import violations
from outlast.loop.machine import advance
from outlast.loop.state import LoopState
from outlast.loop.values import Failure
from tests.laws.driver import Play, gated, said, tool

TRIAGE = Agent[Any](name="Triage")
KNOWN = LocalDefinitions(TRIAGE)


def test_a_run_that_waits_or_has_answered_has_a_result() -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1"))
    result = result_or_raise(play.state, KNOWN, "a client")
    assert result.last_agent is TRIAGE
    assert result.to_state().client == "a client"
    play.decided("a1", "reject")
    play.replies(said("Done."))
    assert result_or_raise(play.state, KNOWN, None).final_output == "Done."


def test_a_run_that_failed_has_an_error() -> None:
    play = Play.ready(max_turns=1)
    play.replies(tool("look_up", "c1"))
    play.returns("c1")
    with pytest.raises(MaxTurnsExceeded) as caught:
        result_or_raise(play.state, KNOWN, None)
    assert caught.value.run_data.last_agent is TRIAGE


def test_a_question_of_a_conversation_that_failed_has_one_too() -> None:
    play = Play.ready(keep_open=True)
    play.fails(play.only(CallModel), failures.MODEL_CALL_FAILED)
    with pytest.raises(ModelCallFailed):
        result_or_raise(play.state, KNOWN, None)


def test_a_run_that_was_cancelled_has_no_result() -> None:
    play = Play.ready()
    play.cancelled()
    with pytest.raises(RunCancelled, match="The run support-42 was cancelled"):
        result_or_raise(play.state, KNOWN, None)


def test_what_the_run_itself_says_of_its_failure_counts_more() -> None:
    """The details of a failure are in the history and not in the failure of the workflow."""
    details = {"exception": "builtins:ValueError", "text": "no money"}
    failure = Failure(code=failures.USER_ERROR, message="pay failed", details=details)
    state = replace(Play.ready().state, failure=failure)
    closing = WorkflowFailureError(cause=ApplicationError("pay failed", type="user_error"))
    error = error_of_closing(closing, state, KNOWN)
    assert type(error) is ValueError
    assert isinstance(error.__cause__, UserError)
    assert error.__cause__.__cause__ is closing


def test_a_run_that_the_engine_ended_says_how() -> None:
    state = Play.ready().state
    stopped = WorkflowFailureError(cause=TerminatedError("by ann"))
    error = error_of_closing(stopped, state, KNOWN)
    assert isinstance(error, RunTerminated)
    assert str(error) == "The run was terminated: by ann"
    assert error.__cause__ is stopped
    odd = error_of_closing(WorkflowFailureError(cause=ApplicationError("Odd.")), state, KNOWN)
    assert type(odd) is AgentsException


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("TERMINATED", "terminated"),
        ("CANCELED", "cancelled"),
        ("TIMED_OUT", "failed"),
        ("FAILED", "failed"),
        ("CONTINUED_AS_NEW", "waiting"),
    ],
)
def test_a_run_that_the_engine_ended_waits_for_nobody(kind: str, status: str) -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1"))
    waiting = play.state
    assert (waiting.status, len(waiting.pending_approvals)) == ("waiting", 1)
    end = HistoryEvent(event_type=EventType.Value(f"EVENT_TYPE_WORKFLOW_EXECUTION_{kind}"))
    event = ended_by_engine(waiting, end)
    left = waiting if event is None else advance(waiting, event)[0]
    assert left.status == status
    assert violations(left) == []
    assert bool(left.pending_approvals) == (status == "waiting")
    assert (left.failure is not None) == (status in {"failed", "terminated"})


def test_a_terminated_run_says_why_and_by_whom() -> None:
    why = WorkflowExecutionTerminatedEventAttributes(reason="too large", identity="history-service")
    end = HistoryEvent(
        event_type=EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
        workflow_execution_terminated_event_attributes=why,
    )
    state = Play.ready(keep_open=True, session=True).state
    event = ended_by_engine(state, end)
    assert event is not None
    left, commands = advance(state, event)
    assert commands == ()
    with pytest.raises(RunTerminated, match=r"terminated: too large \(by history-service\)"):
        result_or_raise(left, KNOWN, None)


def test_a_run_that_was_terminated_before_it_began_says_so() -> None:
    end = HistoryEvent(event_type=EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED)
    event = ended_by_engine(LoopState(), end)
    assert event is not None
    assert advance(LoopState(), event)[0].status == "terminated"
