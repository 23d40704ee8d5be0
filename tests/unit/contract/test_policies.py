"""Bounds and retries: every effect has them, and a bad setting cannot break a run."""

from typing import Any

import pytest

from outlast.contract import policies
from outlast.contract.effects import kind_of
from outlast.loop.calls import ExecutionOptions
from outlast.loop.effects import (
    CallModel,
    CheckInput,
    FinalizeAnswer,
    PrepareRun,
    RunAgent,
    RunHandoff,
    SaveSession,
)
from outlast.loop.start import Start
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject
from tests.laws.driver import BUSY, Play, play_in, tool, transfer

OWN = ExecutionOptions(timeout_ms=7, attempts=1, queue="gpu")


def policy_of(effect: Any) -> Any:
    return kind_of(effect).policy(effect)


def test_an_agent_is_looked_up_quickly_and_locally() -> None:
    policy = policy_of(Play().only(PrepareRun))
    assert policy is policies.PREPARE
    assert policy.fast


def test_a_model_call_outlasts_most_incidents_and_is_never_local() -> None:
    policy = policy_of(Play.ready().only(CallModel))
    assert policy is policies.MODEL
    assert not policy.fast
    waits = [
        min(policy.initial_interval_ms * policy.backoff**at, policy.maximum_interval_ms)
        for at in range(policy.attempts - 1)
    ]
    assert sum(waits) >= 4 * 60_000


def test_tools_and_callbacks_run_by_their_plan() -> None:
    play = Play.ready()
    play.replies(tool("f", "c1", policy=OWN), transfer("Billing", "h1", callback=True, policy=OWN))
    assert policy_of(play.running("c1")) is OWN
    play.returns("c1")
    assert policy_of(play.only(RunHandoff)) is OWN


@pytest.mark.parametrize("settings", [{"session": "s"}, {"on_run_start": True}])
def test_a_run_that_begins_with_a_session_or_a_hook_may_take_longer_to_begin(
    settings: JsonObject,
) -> None:
    """It reads a database or runs user code, which is no work for a local activity."""
    policy = policy_of(Play(settings=settings).only(PrepareRun))
    assert policy is policies.LOAD
    assert not policy.fast


def test_a_nested_run_is_not_tried_again_as_a_whole() -> None:
    """It retries what it does by itself, and its tools must not run twice."""
    assert policy_of(play_in("nested").only(RunAgent)).attempts == 1


def test_users_code_around_a_turn_is_retried_and_never_local() -> None:
    check, conclude = (
        play_in("checking").only(CheckInput),
        play_in("finalizing").only(FinalizeAnswer),
    )
    for policy in (policy_of(check), policy_of(conclude)):
        assert (policy.fast, policy.attempts > 1) == (False, True)


def test_a_save_is_tried_for_long() -> None:
    """What it does not save is lost to the session, and saving twice changes nothing."""
    policy = policy_of(play_in("saving").only(SaveSession))
    assert policy.attempts >= 10


@pytest.mark.parametrize("situation", [name for name in BUSY if name != "waiting"])
def test_every_effect_is_bounded(situation: str) -> None:
    for effect in play_in(situation).state.pending:
        policy = policy_of(effect)
        assert 0 < policy.timeout_ms <= policies.LONGEST_MS
        assert policy.attempts > 0, "zero would mean without end"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (None, policies.HEARTBEAT_MS),
        ({}, policies.HEARTBEAT_MS),
        ({"other": 1}, policies.HEARTBEAT_MS),
        ({"heartbeat_ms": 2_500}, 2_500),
    ],
)
def test_a_run_may_set_how_long_a_worker_may_be_silent(
    settings: dict[str, Any] | None, expected: int
) -> None:
    assert policies.heartbeat_ms(settings) == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (None, None),
        ({"stream_interval_ms": 20}, 20),
        ({"stream_interval_ms": 250}, 250),
        ({"stream_interval_ms": 60_000}, 60_000),
        ({"stream_interval_ms": 1}, 20),
        ({"stream_interval_ms": 60_001}, 60_000),
        ({"stream_interval_ms": 0}, None),
        ({"stream_interval_ms": -5}, None),
        ({"stream_interval_ms": "often"}, None),
    ],
)
def test_a_run_may_set_how_often_its_text_is_sent(
    settings: dict[str, Any] | None, expected: int | None
) -> None:
    assert policies.stream_interval_ms(settings) == expected


@pytest.mark.parametrize(
    ("events", "size_bytes", "rolls"),
    [
        (0, 0, False),
        (policies.ROLL_OVER_EVENTS - 1, policies.ROLL_OVER_BYTES - 1, False),
        (policies.ROLL_OVER_EVENTS, 0, True),
        (0, policies.ROLL_OVER_BYTES, True),
        (99_999, 99_999_999, True),
    ],
)
def test_a_history_is_continued_when_it_is_long_or_large(
    events: int, size_bytes: int, *, rolls: bool
) -> None:
    assert policies.rolls_over(LoopState(), events=events, size_bytes=size_bytes) is rolls


def test_a_run_may_set_when_its_history_is_continued() -> None:
    state = LoopState(start=Start(settings={"roll_over_events": 40}))
    assert not policies.rolls_over(state, events=39, size_bytes=0)
    assert policies.rolls_over(state, events=40, size_bytes=0)


@pytest.mark.parametrize("bad", ["many", None, [], {}, "", float("nan")])
def test_a_bad_setting_is_as_good_as_none(bad: Any) -> None:
    """Settings can be typed by hand, and the workflow asks these questions outside of any net."""
    state = LoopState(start=Start(settings={"roll_over_events": bad}))
    assert not policies.rolls_over(state, events=5, size_bytes=0)
    assert policies.rolls_over(state, events=policies.ROLL_OVER_EVENTS, size_bytes=0)
    assert policies.heartbeat_ms({"heartbeat_ms": bad}) == policies.HEARTBEAT_MS


@pytest.mark.parametrize("bad", [0, -1, 1, 3])
def test_no_setting_makes_a_run_continue_for_ever_without_a_step(bad: int) -> None:
    """A history begins with three events, before the run has done anything."""
    state = LoopState(start=Start(settings={"roll_over_events": bad}))
    assert not policies.rolls_over(state, events=3, size_bytes=0)


@pytest.mark.parametrize("bad", [0, -1])
def test_a_heartbeat_is_never_zero(bad: int) -> None:
    """The engine would take zero as none, and a dead worker would be noticed after a day."""
    assert policies.heartbeat_ms({"heartbeat_ms": bad}) > 0


def test_a_history_is_full_before_the_server_ends_it() -> None:
    assert not policies.is_full(events=100, size_bytes=2_000_000, running=0)
    assert policies.is_full(events=100, size_bytes=43_000_000, running=1)
    assert policies.is_full(events=45_001, size_bytes=0, running=0)
    assert policies.is_full(events=1, size_bytes=30_000_000, running=20)


def test_a_history_is_full_exactly_where_another_effect_would_not_fit() -> None:
    room = policies.FULL_BYTES - policies.EFFECT_BYTES
    assert not policies.is_full(events=1, size_bytes=room, running=0)
    assert policies.is_full(events=1, size_bytes=room + 1, running=0)
    assert not policies.is_full(events=1, size_bytes=room - 2 * policies.EFFECT_BYTES, running=2)
    assert policies.is_full(events=1, size_bytes=room + 1 - policies.EFFECT_BYTES, running=1)
    assert not policies.is_full(events=policies.FULL_EVENTS, size_bytes=0, running=0)
    assert policies.is_full(events=policies.FULL_EVENTS + 1, size_bytes=0, running=0)


def test_the_default_policies_are_those_of_the_reference() -> None:
    """Operators plan with these numbers; some of them decide what a replay does."""
    assert {
        name: (value.timeout_ms, value.attempts, value.maximum_interval_ms, value.fast)
        for name, value in vars(policies).items()
        if isinstance(value, ExecutionOptions)
    } == {
        "MODEL": (600_000, 10, 60_000, False),
        "PREPARE": (10_000, 3, ExecutionOptions().maximum_interval_ms, True),
        "HOURS": (10_000, 5, ExecutionOptions().maximum_interval_ms, True),
        "LOAD": (60_000, 5, ExecutionOptions().maximum_interval_ms, False),
        "CHECK": (
            300_000,
            ExecutionOptions().attempts,
            ExecutionOptions().maximum_interval_ms,
            False,
        ),
        "UNTIL_A_WORKER_HAS_IT": (ExecutionOptions().timeout_ms, 0, 15_000, False),
        "NESTED": (ExecutionOptions().timeout_ms, 1, ExecutionOptions().maximum_interval_ms, False),
        "SAVE": (60_000, 10, 60_000, False),
        "OFFLOAD": (120_000, 5, 60_000, False),
        "NOTIFY": (120_000, 20, 600_000, False),
        "BEGUN": (120_000, 0, 30_000, False),
        "CANCEL_RESPONSE": (30_000, 5, ExecutionOptions().maximum_interval_ms, False),
        "COMPACT": (600_000, 3, 60_000, False),
        "SCHEDULED": (15_000, 0, 60_000, False),
        "QUALITY": (300_000, 5, 300_000, False),
        "LINE": (86_400_000, 1, 30_000, False),
    }


def test_the_limits_of_runs_are_those_of_the_reference() -> None:
    assert {
        name: value
        for name, value in vars(policies).items()
        if name.isupper() and type(value) is int
    } == {
        "WAIT_FOR_A_TOOL_MS": 900_000,
        "WAIT_FOR_A_WORKER_MS": 604_800_000,
        "LONGEST_MS": 86_400_000,
        "SLACK_MS": 5_000,
        "HEARTBEAT_MS": 10_000,
        "LINE_HEARTBEAT_MS": 30_000,
        "ROLL_OVER_EVENTS": 1_250,
        "ROLL_OVER_BYTES": 2_000_000,
        "MAY_BE_CARRIED": 8_000_000,
        "TRIED_AGAIN_AFTER_BYTES": 2_000_000,
        "FULL_BYTES": 44_000_000,
        "FULL_EVENTS": 45_000,
        "EFFECT_BYTES": 1_100_000,
        "FAST_CALLS": 12,
        "STARTED_AT_ONCE_BYTES": 1_500_000,
        "LONGEST_INBOX": 1_000,
        "SHORTEST_HISTORY": 20,
        "BEATS_WITHIN_TIMEOUT": 3,
        "SHORTEST_STREAM_MS": 20,
        "LONGEST_STREAM_MS": 60_000,
    }
    assert policies.LONGEST_RETRY_AFTER.total_seconds() == 300


def test_no_setting_is_lower_than_its_least_value() -> None:
    assert policies.heartbeat_ms({"heartbeat_ms": 1}) == 500
    state = LoopState(start=Start(settings={"roll_over_events": 1}))
    assert policies.rolls_over(state, events=20, size_bytes=0)
    assert not policies.rolls_over(state, events=19, size_bytes=0)
