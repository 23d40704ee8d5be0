"""What a run did, step by step, from its events."""

from hypothesis import given

from outlast.client.read.history import Progress
from outlast.client.steps import RunStep, StepLog
from outlast.loop.changes import Change
from outlast.loop.effects import CallModel
from outlast.loop.events import EffectBlocked
from outlast.loop.machine import advance
from outlast.loop.state import LoopState
from outlast.loop.values import Usage
from tests.laws.driver import (
    Play,
    gated,
    nested,
    play_with_everything,
    said,
    tool,
    transfer,
)
from tests.laws.strategies import Script, examples, play_script, scripts


def log_of(play: Play) -> StepLog:
    log, state = StepLog(), LoopState()
    for event in play.events:
        state, _ = advance(state, event)
        log.take(Progress(event, state))
    return log


def named(play: Play) -> list[tuple[str, str, str]]:
    return [(one.kind, one.name, one.status) for one in log_of(play).steps]


def step(play: Play, step_id: str) -> RunStep:
    return next(one for one in log_of(play).steps if one.id == step_id)


def test_the_steps_of_a_run_are_in_the_order_in_which_they_began() -> None:
    play = Play(keep_open=True)
    play.prepared(model="small")
    play.replies(said("I look."), tool("look_up", "c1", '{"q": 1}'), gated("refund", "c2"))
    play.returns("c1", "found", Change("set", ("crm",), 1))
    play.decided("a1", "reject", by="ann")
    play.replies(transfer("Billing", "h1"), usage=Usage(total_tokens=7), model="large")
    play.holds("bob")
    play.fails(play.only(CallModel), code="broken")

    assert named(play) == [
        ("other", "The start of Triage", "done"),
        ("model_call", "small", "done"),
        ("tool", "look_up", "done"),
        ("approval", "refund", "done"),
        ("model_call", "large", "done"),
        ("model_call", "model-Billing", "failed"),
        ("handoff", "Triage to Billing", "done"),
        ("takeover", "takeover", "running"),
    ]
    assert (step(play, "a1").by, step(play, "a1").outcome) == ("ann", "rejected")
    first, second, third = (one for one in log_of(play).steps if one.kind == "model_call")
    assert (first.turn, second.turn, third.turn) == (1, 2, 3)
    assert (first.output, second.usage.total_tokens) == ("I look.", 7)
    assert third.failure is not None
    assert third.failure.code == "broken"
    looked = next(one for one in log_of(play).steps if one.kind == "tool")
    assert (looked.arguments, looked.output, looked.turn) == ('{"q": 1}', "found", 1)
    assert looked.ended_ms is not None
    assert looked.ended_ms >= looked.began_ms > 0


def test_a_step_that_waits_for_a_worker_says_what_for() -> None:
    play = Play()
    play.prepared()
    play.replies(tool("look_up", "c1"))
    (effect,) = play.outstanding
    play.take(EffectBlocked(at_ms=play.now_ms, effect=effect, lacks="the tool look_up"))
    assert step(play, f"e{effect}").lacks == "the tool look_up"
    play.take(EffectBlocked(at_ms=play.now_ms, effect=effect, lacks=""))
    assert step(play, f"e{effect}").lacks == ""


def test_a_step_that_was_stopped_is_cancelled() -> None:
    play = Play()
    play.prepared()
    play.replies(tool("look_up", "c1"), nested("Orders", "c2"))
    play.cancelled()
    steps = {one.name: one for one in log_of(play).steps}
    assert steps["look_up"].status == "cancelled"
    assert steps["ask_orders"].nested_id == "support-42/ask_orders-4"
    assert steps["ask_orders"].target == "Orders"


def test_the_run_of_every_effect_has_a_step_for_each() -> None:
    kinds = {one.kind for one in log_of(play_with_everything()).steps}
    assert kinds >= {
        "model_call",
        "tool",
        "nested_run",
        "handoff",
        "guardrails",
        "answer",
        "takeover",
        "call",
        "other",
    }


@examples(50)
@given(scripts())
def test_in_any_run_each_effect_is_one_step_and_nothing_runs_after_the_end(script: Script) -> None:
    play = play_script(script)
    log = log_of(play)
    ids = [one.id for one in log.steps]
    assert len(ids) == len(set(ids))
    assert {f"e{effect}" for effect in play.requests} <= set(ids)
    pending = {f"e{one.effect}" for one in log.state.pending}
    running = {one.id for one in log.steps if one.id[1:].isdigit() and one.ended_ms is None}
    assert running == pending
