"""Forks: runs that begin with the state of another one after an event."""

from dataclasses import replace
from typing import Any

from hypothesis import given

from outlast.loop import invariants
from outlast.loop.approvals import ApprovalTerms
from outlast.loop.calls import ToolResult
from outlast.loop.effects import CallModel, Command, RunAgent, RunTool
from outlast.loop.events import RunForked
from outlast.loop.fork import Fork, ForkedCall, RecordedCall, forked_call
from outlast.loop.forked_state import cannot_fork
from outlast.loop.machine import advance
from outlast.loop.start import Budget, Parent
from outlast.loop.state import LoopState
from outlast.loop.values import ServerThread
from tests.laws.driver import Play, gated, nested, said, tool
from tests.laws.strategies import Script, examples, make_move, moves_of, scripts
from tests.unit.loop.test_fallback import fail, failure_of

MINUTE = 60_000
DAY = 24 * 60 * MINUTE
SOURCE = Fork(run_id="support-42", event=3)


def forked(
    state: LoopState, *, later_ms: int = 0, **fork: Any
) -> tuple[LoopState, tuple[Command, ...]]:
    event = RunForked(
        at_ms=state.at_ms + later_ms,
        run_id="copy",
        chain_id="copy-1",
        fork=replace(SOURCE, **fork),
        settings={"model": "other"},
    )
    return advance(state, event)


@examples(60)
@given(scripts())
def test_a_fork_of_any_state_keeps_the_laws_and_does_what_was_under_way(script: Script) -> None:
    play = Play(**script.start)
    for move in moves_of(play, script):
        make_move(play, script, move)
        if cannot_fork(play.state) is not None:
            continue
        state, commands = forked(play.state, later_ms=DAY)
        assert invariants.violations(state) == []
        assert state.phase == play.state.phase or play.state.gate is not None
        assert list(commands) == list(state.pending), "the shell does all that is pending"
        assert not [one for one in state.pending if one.of_source]
        assert "support-42" not in {getattr(one, "run_id", "") for one in state.pending}
        assert state.items == play.state.items
        assert [one.id for one in state.approvals] == [one.id for one in play.state.approvals]
        assert state.pending_approvals == state.own_requests


def test_a_model_call_that_was_under_way_is_made_for_the_fork() -> None:
    play = Play.ready(thread=ServerThread(conversation_id="conv"), session=True)
    state, commands = forked(play.state)
    [made] = commands
    assert isinstance(made, CallModel)
    assert (made.run_id, made.settings, made.conversation_id) == ("copy", {"model": "other"}, None)
    assert (state.server.thread, state.start.session) == (None, False)
    assert (state.run_id, state.chain_id) == ("copy", "copy-1")


def test_a_fork_begins_with_the_first_of_the_agents_models() -> None:
    play = Play.ready()
    fail(play, failure_of())
    state, commands = forked(play.state)
    [made] = commands
    assert isinstance(made, CallModel)
    assert (made.model_at, made.tried) == (0, ())
    assert (state.question.model_at, state.question.tried, state.model) == (0, (), "first")


def test_a_pause_of_the_source_goes_on_in_the_fork() -> None:
    play = Play.ready(keep_open=True, budgets=(Budget(of="seconds", limit=60),))
    play.replies(said("Hello."))
    since_ms = play.state.pauses.since_ms
    assert since_ms is not None
    state, _ = forked(play.state, later_ms=DAY)
    assert (state.pauses.since_ms, state.pauses.total_ms) == (since_ms, 0)


def test_a_tool_that_was_under_way_is_answered_from_the_record_or_not_at_all() -> None:
    play = Play.ready()
    play.replies(tool("refund", "c1", arguments='{"n": 1}'), tool("look", "c2"))
    known = RecordedCall(name="refund", arguments='{"n": 1}', result=ToolResult(output="done"))
    _, commands = forked(play.state, recorded=(known,), allowed=("look",))
    calls = {one.name: one.forked for one in commands if isinstance(one, RunTool)}
    assert calls == {
        "refund": ForkedCall(allowed=False, recorded=ToolResult(output="done")),
        "look": ForkedCall(allowed=True),
    }


def test_calls_that_come_later_are_made_as_in_a_fork_too() -> None:
    play = Play.ready()
    state, _ = forked(play.state)
    assert state.fork is not None
    assert forked_call(state.fork, "refund", "{}") == ForkedCall(allowed=False)
    assert forked_call(replace(state.fork, allowed=("*",)), "refund", "{}") == ForkedCall(
        allowed=True
    )
    assert forked_call(None, "refund", "{}") is None


def test_a_call_that_was_under_way_gets_other_arguments() -> None:
    play = Play.ready()
    play.replies(tool("refund", "c1"), tool("look", "c2"))
    state, commands = forked(play.state, arguments=(("c1", '{"n": 5}'),))
    calls = {one.call_id: one.arguments for one in commands if isinstance(one, RunTool)}
    assert calls == {"c1": '{"n": 5}', "c2": "{}"}
    assert [one.edited for one in state.calls] == [True, False]


def test_a_nested_run_that_was_under_way_begins_again_as_one_of_the_fork() -> None:
    play = Play.ready()
    play.replies(nested("Billing", "c1"))
    [before] = play.outstanding.values()
    assert isinstance(before, RunAgent)
    play.reported(waits=("bank",))
    state, [run] = forked(play.state)
    assert isinstance(run, RunAgent)
    assert run.nested_id == before.nested_id.replace("support-42", "copy")
    assert (run.run_id, run.fork, state.nested) == ("copy", state.fork, ())
    assert state.status == "running"


def test_the_times_of_a_request_are_as_far_away_as_they_were() -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1", terms=ApprovalTerms(expires_in_ms=MINUTE)))
    state, commands = forked(play.state, later_ms=DAY)
    [before], [after] = play.state.approvals, state.pending_approvals
    assert before.expires_at_ms is not None
    assert after.expires_at_ms == before.expires_at_ms + DAY
    assert commands == ()


def test_the_time_of_a_wait_is_as_far_away_as_it_was() -> None:
    play = Play.ready()
    play.replies(tool("book", "c1"))
    play.parks("c1", timeout_ms=MINUTE)
    state, _ = forked(play.state, later_ms=DAY)
    [before], [after] = play.state.calls, state.calls
    assert before.parked is not None
    assert after.parked is not None
    assert (after.parked.since_ms, after.parked.ends_ms) == (
        before.parked.since_ms + DAY,
        (before.parked.ends_ms or 0) + DAY,
    )
    assert state.status == "parked"


def test_a_run_that_has_ended_cannot_be_forked() -> None:
    play = Play.ready()
    assert cannot_fork(play.state) is None
    play.cancelled()
    assert "Choose an earlier event." in (cannot_fork(play.state) or "")


def test_a_run_that_is_not_prepared_cannot_be_forked() -> None:
    assert "Choose a later event." in (cannot_fork(LoopState()) or "")


def test_a_nested_run_is_forked_with_the_run_that_it_is_nested_in() -> None:
    play = Play.ready(parent=Parent(run_id="outer", prefix="e3."))
    assert cannot_fork(play.state) == "The run is nested in outer. Fork that run."
