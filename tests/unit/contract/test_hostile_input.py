"""What people, models and tools can send that reads well and breaks a run later."""

from dataclasses import replace
from typing import Any

import pytest

from outlast.contract import history, names
from outlast.contract.history import opening
from outlast.contract.records import (
    RunInput,
    UnreadableRecordError,
    read,
    read_carried,
    read_state,
    write,
    write_state,
)
from outlast.loop.events import CancelRequested
from outlast.loop.state import LoopState
from tests.laws.driver import SITUATIONS, Play, play_in, said, tool


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


HOSTILE = [
    pytest.param("half a character: \ud83d", id="half a character"),
    pytest.param(nested(400), id="nested deep"),
    pytest.param(float("nan"), id="not a number"),
    pytest.param(float("inf"), id="infinity"),
]


def carries(state: LoopState) -> bool:
    """Whether a state comes through continue-as-new as it is."""
    return opening(write(RunInput(carried=write_state(state)))) == state


@pytest.mark.parametrize("value", HOSTILE)
def test_no_result_of_a_tool_can_break_a_run_later(value: Any) -> None:
    """It is refused, or cleaned, where it comes in: a run that cannot be carried hangs for ever."""
    play = Play.ready()
    play.replies(tool("f", "c1"))
    play.take(history.answered(play.running("c1"), {"output": value}, 7))
    assert play.state.phase == "thinking"
    assert carries(play.state)


@pytest.mark.parametrize("value", HOSTILE)
def test_no_message_can_break_a_run_later(value: Any) -> None:
    play = play_in("idle", keep_open=True)
    content = value if isinstance(value, str) else [{"role": "user", "content": value}]
    payload = {"input": content, "message_id": "m2"}
    try:
        event = history.updated(names.UPDATE_SEND, [payload], 7)
    except UnreadableRecordError:
        return  # refused in words is as good
    play.take(event)
    assert carries(play.state)


@pytest.mark.parametrize("fields", [{"max_turns": -1}, {"max_turns": -(10**9)}])
def test_no_input_can_break_the_invariants(fields: dict[str, Any]) -> None:
    try:
        record = read(RunInput, {"agent": "Triage", **fields})
    except UnreadableRecordError:
        return  # refused in words is as good
    play = Play(max_turns=record.max_turns)
    play.prepared()
    assert play.finish.status == "failed"


@pytest.mark.parametrize("carried", [{}, {"agent": "A"}, write_state(LoopState())])
def test_a_state_that_never_began_is_not_carried_on(carried: dict[str, Any]) -> None:
    """It would wait for ever: nothing but a start counts in it, and no start comes."""
    record = read(RunInput, {"agent": "A", "carried": carried})
    assert record.carried is not None
    with pytest.raises(UnreadableRecordError, match="has not started"):
        read_state(record.carried)


def test_a_signal_without_a_payload_is_the_plain_cancel() -> None:
    """The Temporal UI and CLI send a signal without input as readily as one with an empty one."""
    assert history.signalled("cancel", [], 7) == CancelRequested(at_ms=7)
    assert history.signalled("cancel", [None], 7) == CancelRequested(at_ms=7)


def test_a_carried_state_that_has_ended_is_refused() -> None:
    play = Play.ready()
    play.replies(said("Done."))
    with pytest.raises(UnreadableRecordError, match="has ended"):
        read_carried(write_state(play.state))


def test_a_carried_state_that_would_never_go_on_is_refused() -> None:
    stuck = replace(Play.ready().state, pending=())
    with pytest.raises(UnreadableRecordError, match="breaks an invariant: I2"):
        read_carried(write_state(stuck))


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_carried_state_that_goes_on_is_read(situation: str) -> None:
    state = play_in(situation, keep_open=True).state
    assert read_carried(write_state(state)) == state
