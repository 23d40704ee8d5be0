"""What a run did, step by step."""

from typing import Any

import pytest
from hypothesis import given, settings

from outlast.client.timeline import Step, Timeline
from outlast.loop.calls import Call
from outlast.loop.checks import GuardrailRecord
from outlast.loop.effects import BACKGROUND, CallModel, CompactView, EffectFailed, PrepareRun
from outlast.loop.events import RunEnded
from outlast.loop.machine import advance
from outlast.loop.state import LoopState
from outlast.loop.values import Failure, Usage
from tests.laws.driver import (
    SITUATIONS,
    Play,
    gated,
    message,
    play_in,
    play_with_everything,
    said,
    thought,
    tool,
    transfer,
    unknown,
)
from tests.laws.strategies import Script, play_script, scripts
from tests.unit.client.parked import TWO_DAYS_MS, parked_play, running_play
from tests.unit.loop.test_compaction import summarised, talk

HIDDEN = BACKGROUND - {"keep_line_open", "compact_view"} | {"prepare_run"}
"""Kinds of effects that are no steps."""


def steps_of(play: Play) -> tuple[Step, ...]:
    """Return the timeline of a run, and check what has to hold after each event."""
    timeline, state, known = Timeline(), LoopState(), list[Step]()
    for event in play.events:
        before = timeline.steps[:]
        state, _ = advance(state, event)
        timeline.take(event, state)
        check(timeline.steps, before, state)
        known = timeline.steps
    return tuple(known)


def _waited_for(call: Call) -> list[str]:
    """Return the wait of a call that nothing has come for, also while its tool looks for itself."""
    arrived = {one.name for one in call.arrived}
    name = None if call.outside is None else call.outside.wait.name
    return [] if name is None or name in arrived else [name]


def check(steps: list[Step], before: list[Step], state: LoopState) -> None:
    """Check a timeline against the state after the same events."""
    assert [step.number for step in steps] == list(range(len(steps)))
    for old, new in zip(before, steps, strict=False):
        assert (old.kind, old.at_ms) == (new.kind, new.at_ms), "a step became another one"
    goes_on = [step for step in steps if step.status in {"running", "waiting", "blocked"}]
    assert [step for step in steps if step.ended_ms is None] == goes_on
    effects = {one.effect for one in state.pending if one.kind not in HIDDEN}
    ended = state.outcome is not None
    assert {step.effect for step in goes_on if step.effect} == (set() if ended else effects)
    waiting = {step.request.id for step in goes_on if step.request is not None}
    pending = {one.id for one in state.approvals if one.status == "pending"}
    assert waiting == pending
    waits = [] if ended else [name for call in state.calls for name in _waited_for(call)]
    if len({call.call_id for call in state.calls}) == len(state.calls):  # else they share a step
        assert sorted(step.name for step in goes_on if step.kind == "wait") == sorted(waits)
    held = [step.by for step in goes_on if step.kind == "takeover"]
    assert held == ([] if state.hold is None or ended else [state.hold.by])
    assert sum(step.kind == "model" and step.status == "done" for step in steps) <= len(
        state.responses
    )
    answered = sum(one.failure is None for one in state.answers)
    by_people = sum(step.kind == "said" for step in steps)
    assert answered - by_people <= sum(step.kind == "answer" for step in steps) <= answered
    assert all(0 <= at < len(state.items) for step in steps for at in step.items)


def kinds(steps: tuple[Step, ...], **fields: Any) -> list[str]:
    """Return the kinds of the steps with these fields."""
    return [
        step.kind
        for step in steps
        if all(getattr(step, name) == value for name, value in fields.items())
    ]


OPEN_IN: dict[str, list[tuple[str, str]]] = {
    "preparing": [],
    "thinking": [("model", "")],
    "running": [("tool", "look_up"), ("tool", "count")],
    "waiting": [("request", "refund")],
    "mixed": [("request", "refund"), ("tool", "look_up")],
    "held": [("tool", "look_up")],
    "transferring": [("handoff", "Billing")],
    "idle": [],
    "checking": [("guardrails", "input")],
    "held up": [("model", ""), ("guardrails", "input")],
    "finalizing": [("guardrails", "answer")],
    "nested": [("agent", "Billing")],
    "saving": [("model", "")],
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_what_goes_on_is_open(situation: str) -> None:
    play = play_in(situation, keep_open=situation == "idle")
    steps = steps_of(play)
    found = [(step.kind, step.name) for step in steps if step.ended_ms is None]
    assert sorted(found) == sorted(OPEN_IN[situation])
    assert steps[0].kind == "message"
    assert steps[0].text == "Hello"


@settings(max_examples=40)
@given(scripts())
def test_any_run_has_a_timeline(script: Script) -> None:
    steps_of(play_script(script))


def test_a_value_for_another_wait_leaves_the_present_one_open() -> None:
    play = parked_play()
    play.delivers(name="invoice", delivery_id="d2")
    waits = [one for one in steps_of(play) if one.kind == "wait"]
    assert [(one.name, one.status) for one in waits] == [
        ("courier", "waiting"),
        ("invoice", "done"),
    ]


def test_every_kind_of_effect_is_a_step_or_no_work_of_the_run() -> None:
    found = set(kinds(steps_of(play_with_everything())))
    assert {"model", "tool", "agent", "handoff", "guardrails", "line", "takeover"} <= found


def test_a_model_call_has_its_model_tokens_calls_and_duration() -> None:
    play = Play.ready()
    spent = Usage(
        requests=1, input_tokens=30, output_tokens=4, total_tokens=34, cost_micros=120, priced=1
    )
    play.replies(thought(), tool("look_up", "c1"), model="gpt-test", usage=spent)
    [step] = [one for one in steps_of(play) if one.kind == "model"]
    assert (step.agent, step.model, step.turn, step.usage) == ("Triage", "gpt-test", 1, spent)
    assert (step.calls, step.took_ms) == (("look_up",), 1_000)
    assert [play.state.items[at].kind for at in step.items] == ["reasoning", "tool_call"]


def test_a_model_that_was_not_called_since_the_run_is_to_stop_has_replied_nothing() -> None:
    play = Play.ready()
    play.replies(tool("f", "c1"))
    play.returns("c1", "one")
    play.cancelled("after_turn")
    play.replies(withheld=True)
    models = [one for one in steps_of(play) if one.kind == "model"]
    assert [one.status for one in models] == ["done", "cancelled"]


def test_a_tool_has_its_call_and_its_output() -> None:
    play = play_in("running")
    play.returns("c2", "2 orders")
    play.returns("c1", "lost", failed=True)
    first, second = [one for one in steps_of(play) if one.kind == "tool"]
    assert (first.name, first.status, second.status) == ("look_up", "failed", "done")
    raws = [[play.state.items[at].raw for at in step.items] for step in (first, second)]
    assert [[raw["type"] for raw in pair] for pair in raws] == [
        ["function_call", "function_call_output"]
    ] * 2
    assert raws[1][1]["output"] == "2 orders"


def test_the_same_call_id_twice_keeps_its_outputs_apart() -> None:
    play = Play.ready()
    for output in ("first", "second"):
        play.replies(tool("look_up", "c1"))
        play.returns("c1", output)
    tools = [one for one in steps_of(play) if one.kind == "tool"]
    assert [play.state.items[one.items[1]].raw["output"] for one in tools] == ["first", "second"]


def test_calls_that_nothing_carries_out_are_steps_too() -> None:
    play = Play.ready()
    play.replies(unknown("fly", "c1"), gated("refund", "c2"))
    play.decided("a1", "reject", by="ann", message="Not this one.")
    tools = [one for one in steps_of(play) if one.kind == "tool"]
    assert [(one.name, one.status) for one in tools] == [
        ("fly", "cancelled"),
        ("refund", "cancelled"),
    ]


def test_a_request_says_who_decided_and_when() -> None:
    play = play_in("waiting")
    play.claimed("a1", by="bob")
    play.decided("a1", by="bob", verified=True)
    [step] = [one for one in steps_of(play) if one.kind == "request"]
    assert step.request is not None
    assert (step.by, step.status, step.request.status) == ("bob", "done", "approved")
    assert step.ended_ms == step.request.decided_at_ms
    assert step.took_ms == 2_000


def test_a_takeover_is_one_step_with_the_words_after_it() -> None:
    play = play_in("idle", keep_open=True)
    play.holds("ann")
    play.hears("m1", "Is somebody there?")
    play.says("Ann here.", by="ann")
    play.releases("ann", note="Refund agreed.", to="Billing")
    steps = steps_of(play)
    at = kinds(steps).index("takeover")
    found = [(one.kind, one.by, one.text, one.name) for one in steps[at:]]
    assert found[:3] == [
        ("takeover", "ann", "", ""),
        ("message", "", "Is somebody there?", ""),
        ("said", "ann", "Ann here.", ""),
    ]
    assert ("release", "ann", "Refund agreed.", "Billing") in found
    assert kinds(steps).count("answer") == 1, "the agent's, before"
    assert "handoff" not in kinds(steps)
    assert (steps[at].status, steps[at].took_ms) == ("done", 3_000)


def test_who_takes_the_conversation_from_another_has_a_step_of_their_own() -> None:
    play = play_in("idle", keep_open=True)
    play.holds("ann")
    play.holds("bob")  # refused
    play.holds("bob", force=True)
    found = [one for one in steps_of(play) if one.kind in {"takeover", "ignored", "release"}]
    assert [(one.kind, one.by, one.status) for one in found] == [
        ("takeover", "ann", "done"),
        ("ignored", "", "done"),
        ("takeover", "bob", "running"),
    ]
    assert "ann" in found[1].text


def test_handoffs_with_and_without_user_code_are_steps() -> None:
    for callback in (False, True):
        play = Play.ready()
        play.replies(transfer("Billing", "h1", callback=callback))
        if callback:
            play.called_back()
        [step] = [one for one in steps_of(play) if one.kind == "handoff"]
        assert (step.agent, step.name, step.status) == ("Triage", "Billing", "done")


def test_guardrails_tell_their_verdicts() -> None:
    play = play_in("checking")
    record = GuardrailRecord(stage="input", name="no_insults", tripped=True)
    play.checked(results=(record,), failure=Failure(code="tripwire", message="Blocked."))
    [step] = [one for one in steps_of(play) if one.kind == "guardrails"]
    assert [(one.name, one.tripped) for one in step.checks] == [("no_insults", True)]
    assert (step.status, step.failure) == ("failed", Failure(code="tripwire", message="Blocked."))


def test_a_failed_question_and_its_retry_are_steps() -> None:
    play = Play.ready(keep_open=True)
    failure = play.fails(play.only(CallModel))
    play.retried()
    play.replies(said("Now it works."))
    steps = steps_of(play)
    assert kinds(steps) == ["message", "model", "failure", "retry", "model", "answer"]
    assert steps[1].failure == steps[2].failure == failure


def test_a_cancelled_run_ends_what_goes_on() -> None:
    play = play_in("running")
    play.cancelled()
    steps = steps_of(play)
    assert kinds(steps, status="cancelled") == ["tool", "tool"]
    assert "cancel" in kinds(steps)


def test_a_run_that_the_engine_ends_has_an_end() -> None:
    play = play_in("running")
    why = Failure(code="terminated", message="The run was terminated: test")
    play.events.append(RunEnded(at_ms=play.now_ms, outcome="terminated", failure=why))
    last = steps_of(play)[-1]
    assert (last.kind, last.name, last.failure) == ("end", "terminated", why)


def test_a_reader_that_has_a_part_of_the_history_begins_there() -> None:
    play = play_in("waiting")
    timeline = Timeline()
    timeline.take(None, play.state)
    step = timeline.steps[-1]
    assert step.request is not None
    assert step.request.id == "a1"


def test_a_message_that_comes_twice_is_one_step() -> None:
    play = play_in("idle", keep_open=True)
    play.hears("m1", "Again")
    play.hears("m1", "Again")
    assert [one.text for one in steps_of(play) if one.kind == "message"] == ["Hello", "Again"]


def test_steps_hold_no_arguments_and_no_outputs() -> None:
    play = Play.ready()
    secret = "DE89-3704"
    play.replies(tool("pay", "c1", f'{{"iban": "{secret}"}}'))
    play.returns("c1", f"paid to {secret}")
    assert secret not in repr(steps_of(play))


def test_looking_up_the_agent_is_no_step() -> None:
    play = play_in("preparing")
    assert isinstance(play.only(PrepareRun), PrepareRun)
    assert kinds(steps_of(play)) == ["message"]


# --- Waits for something outside -----------------------------------------------------------------


def waits_in(steps: tuple[Step, ...]) -> list[tuple[str, str, str, str, int | None]]:
    """Return the waits: name, status, who delivered, words, and how long they took."""
    return [
        (step.name, step.status, step.by, step.text, step.took_ms)
        for step in steps
        if step.kind == "wait"
    ]


def test_a_call_that_was_parked_for_two_days_did_not_run_for_two_days() -> None:
    play = parked_play()
    [wait] = [step for step in steps_of(play) if step.kind == "wait"]
    assert (wait.status, wait.calls, wait.until_ms) == (
        "waiting",
        ("book",),
        wait.at_ms + TWO_DAYS_MS,
    )
    play.passes(TWO_DAYS_MS - 5_000)
    play.delivers()
    play.returns("c1", "here")
    steps = [step for step in steps_of(play) if step.name in {"book", "courier"}]
    assert [(step.kind, step.status) for step in steps] == [
        ("tool", "done"),
        ("wait", "done"),
        ("tool", "done"),
    ]
    first, wait, second = steps
    assert (first.took_ms or 0) + (second.took_ms or 0) < 10_000 < (wait.took_ms or 0)
    assert (wait.by, wait.until_ms, len(first.items), len(second.items)) == (
        "courier.example",
        None,
        1,
        2,
    )


def test_a_value_that_came_before_its_wait_is_a_moment() -> None:
    play = running_play()
    play.delivers()
    play.begins_to_wait()
    assert waits_in(steps_of(play)) == [("courier", "done", "courier.example", "", 0)]


def test_a_wait_ends_without_a_value_in_time() -> None:
    play = parked_play()
    play.nothing_comes()
    assert waits_in(steps_of(play)) == [
        ("courier", "failed", "", "Nothing came in time.", TWO_DAYS_MS)
    ]


def test_people_who_let_a_call_wait_as_long_again_begin_another_wait() -> None:
    play = parked_play(on_timeout="ask")
    play.nothing_comes()
    [request] = play.state.own_requests
    assert [(one[0], one[1]) for one in waits_in(steps_of(play))] == [("courier", "waiting")]
    play.decided(request.id, "approve")
    assert [(one[0], one[1]) for one in waits_in(steps_of(play))] == [
        ("courier", "failed"),
        ("courier", "waiting"),
    ]


@pytest.mark.parametrize("how", ["message", "cancel"])
def test_a_wait_that_nobody_needs_any_more_is_not_finished(how: str) -> None:
    play = parked_play()
    if how == "message":
        play.hears("m2", mode="interrupt")
    else:
        play.cancelled()
    [(name, status, *_)] = waits_in(steps_of(play))
    assert (name, status) == ("courier", "cancelled")


# --- Summaries of long conversations ---------------------------------------------------------------


def summaries(play: Play) -> list[tuple[str, int, str]]:
    found = [one for one in steps_of(play) if one.kind == "summary"]
    return [(one.status, one.entries, one.text) for one in found]


def test_a_summary_is_a_step_with_its_model_tokens_cost_and_text() -> None:
    play = talk()
    entries = play.only(CompactView).entries
    assert summaries(play) == [("running", entries, "")]
    used = Usage(total_tokens=7, cost_micros=3)
    items = ({"role": "user", "content": "In short: A-17."},)
    summarised(play, items=items, usage=used, model="small")
    [step] = [one for one in steps_of(play) if one.kind == "summary"]
    assert (step.status, step.text) == ("done", "In short: A-17.")
    assert (step.model, step.usage, step.agent) == ("small", used, "Triage")
    play.hears("more", "and now")
    assert summaries(play) == [("done", entries, "In short: A-17.")]


def test_a_summary_that_failed_or_came_too_late_or_was_none_says_so() -> None:
    failed = talk()
    effect = failed.only(CompactView).effect
    failure = Failure(code="model_call_failed", message="The model is away.")
    failed.take(EffectFailed(at_ms=failed.now_ms, effect=effect, failure=failure))
    assert [one[0] for one in summaries(failed)] == ["failed"]
    ended = talk()
    ended.cancelled("immediate")
    assert [one[0] for one in summaries(ended)] == ["cancelled"]
    none = talk()
    summarised(none, items=())
    assert [one[0] for one in summaries(none)] == ["cancelled"]
    refused = talk()
    summarised(refused, items=(), usage=Usage(total_tokens=7), failure=failure)
    assert [one[0] for one in summaries(refused)] == ["failed"]


def test_the_provider_s_own_summary_has_a_text_for_people() -> None:
    play = talk()
    opaque = {"type": "compaction", "encrypted_content": "gAAAA"}
    summarised(play, items=({"role": "user", "content": "Where is it?"}, opaque))
    [(_, _, text)] = summaries(play)
    assert text == "Where is it?\n\n(encrypted by the provider)"


def times_of(play: Play) -> list[int]:
    timeline, state = Timeline(), LoopState()
    for event in play.events:
        state, _ = advance(state, event)
        timeline.take(event, state)
        assert len(timeline.times) <= len(state.items)
    return timeline.times


def test_every_item_has_the_time_when_it_was_written_or_arrived() -> None:
    play = Play(said=message("m0", "Hello", 5), keep_open=True)
    play.prepared()
    arrived = play.now_ms
    play.hears("m1", "And this", "queue")
    replied = play.now_ms
    play.replies(said("Hi."))
    times = times_of(play)
    assert [(one.kind, at) for one, at in zip(play.state.items, times, strict=True)] == [
        ("input", 5),
        ("message", replied),
        ("input", arrived),
    ]


def test_items_that_a_fork_took_along_have_no_time() -> None:
    play = Play(keep_open=True)
    play.prepared()
    play.replies(said("Hi."))
    timeline = Timeline()
    timeline.take(None, play.state)
    assert timeline.times == [0] * len(play.state.items)


@given(scripts())
def test_there_is_a_time_for_every_item_that_was_recorded(script: Script) -> None:
    play = play_script(script)
    assert len(times_of(play)) == len(play.state.items)
