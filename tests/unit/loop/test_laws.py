"""What holds of every run, whatever happens in whatever order.

`Play.take` checks the laws of a single step after every event: invariants, items that only grow,
one output per call, messages that are kept, effects that are numbered and issued once, stray
events that change nothing, one end after which nothing is asked for. The laws here hold of whole
runs, and all of them are tried on realistic and on hostile ones.
"""

import copy
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.contract import records
from outlast.loop.actions import CaseDeed
from outlast.loop.approvals import ApprovalTerms
from outlast.loop.calls import ModelReply
from outlast.loop.changes import Change, diff
from outlast.loop.effects import (
    CallModel,
    CancelResponse,
    CleanUp,
    Command,
    EffectAnswered,
    EffectFailed,
    RunTool,
)
from outlast.loop.events import LineAttached, TimePassed
from outlast.loop.invariants import violations
from outlast.loop.machine import advance
from outlast.loop.problems import say_problem
from outlast.loop.start import Customer
from outlast.loop.state import LoopState, stands_still
from outlast.loop.values import Json
from outlast.loop.votes import next_due_ms
from tests.laws import people
from tests.laws.driver import Part, Play, gated, reply_of, tool, transfer, unknown
from tests.laws.strategies import (
    CHANGES,
    PRODUCTIVE,
    Script,
    answer_to,
    awaited,
    examples,
    make_move,
    moves_of,
    play_script,
    replies,
    scripts,
)
from tests.laws.tally import played

MANY, SOME = examples(24), examples(10)


# --- The driver ----------------------------------------------------------------------------------

EFFECTIVE = (
    *(f"{kind}: {what}" for kind in ("approve", "reject") for what in ("tool", "output", "budget")),
    *("edit: tool", "edit: budget", "respond: tool", "approve and remember: tool"),
    *("claim", "claim by force", "hold, immediate", "hold, after_turn", "say"),
    *("release", "release to another agent", "withdraw a message", "time passes, something is due"),
    *("deliver", "deliver, while nothing waits", "set aside", "take back"),
    *("message, queue", "message, steer", "message, interrupt"),
    *(f"case: {do}" for do in get_args(CaseDeed)),
    *("the team answers", "the customer rates it"),
)
"""What people do in random runs; see `tests/laws/tally.py`, which prints the whole table."""

ENDINGS = (
    *("tool: approved", "tool: edited", "tool: rejected", "tool: responded", "tool: superseded"),
    *("output: approved", "output: rejected", "budget: approved", "budget: edited"),
    *("(on_expiry=reject)", "(on_expiry=approve)", "(on_expiry=fail)", "escalated", "reminded"),
)
"""What becomes of requests, by the end of its name in the table."""


@pytest.mark.skipif(float(os.environ.get("OUTLAST_LAWS", "0")) < 1, reason="takes seconds")
@pytest.mark.no_cover
def test_random_runs_do_everything_that_people_do() -> None:
    """Laws that hold of refused moves only would prove nothing."""
    tally = played(900)
    for name in EFFECTIVE:
        effective, taken = tally.effective[name], tally.taken[name]
        assert effective >= max(2, taken / 6), f"{name}: {effective} of {taken} have an effect"
    missing = [name for name in ENDINGS if not any(one.endswith(name) for one in tally.outcomes)]
    assert missing == []


def withheld(play: Play) -> set[int]:
    """Return the model calls that made no turn, since a program was about to stop the run."""
    return {
        event.effect
        for event in play.events
        if isinstance(event, EffectAnswered)
        and isinstance(event.result, ModelReply)
        and event.result.withheld
    }


def failed(play: Play) -> set[int]:
    """Return the effects that failed."""
    return {event.effect for event in play.events if isinstance(event, EffectFailed)}


# --- Any sequence --------------------------------------------------------------------------------


@MANY
@given(scripts())
def test_every_step_of_any_run_keeps_the_laws(script: Script) -> None:
    """L1 to L4, L6 and L7: `Play` checks them at every step, and here at the end."""
    play = play_script(script)
    stopped = play.stopped
    assert len(set(stopped)) == len(stopped), "an effect is stopped once"
    assert set(stopped) <= {one.effect for one in play.issued}
    calls = [one for one in play.issued if isinstance(one, CallModel) and one.begun is None]
    # A line may make a question's first call unasked, and hand a call on to a worker.
    has_line = any(isinstance(one, LineAttached) for one in play.events)
    for earlier, later in pairwise(calls):
        allowed = {earlier.turn + 1, 1}
        if has_line:
            allowed |= {2, earlier.turn}
        if earlier.effect in withheld(play) | failed(play):
            allowed |= {earlier.turn}  # the turn begins again, or another call takes the place
        assert later.turn in allowed


@MANY
@given(scripts(moves=PRODUCTIVE))
def test_every_step_of_a_run_that_gets_far_keeps_the_laws(script: Script) -> None:
    play = play_script(script)
    budget = play.state.start.max_turns
    assert budget is None or play.state.question.turn <= budget


@SOME
@given(scripts())
def test_the_same_events_make_the_same_run_and_are_left_alone(script: Script) -> None:
    """L5: the state after each event is a function of the events, and nothing given is touched."""
    play = play_script(script)
    events = copy.deepcopy(play.events)
    state, commands = LoopState(), list[Command]()
    for event in events:
        before = copy.deepcopy(state)
        after, further = advance(state, event)
        assert state == before
        state = after
        commands.extend(further)
    assert events == play.events
    assert state == play.state
    assert commands == play.commands


@SOME
@given(scripts())
def test_what_happens_twice_counts_once(script: Script) -> None:
    """L6: the second time changes nothing, but that a decision or a signal is noted."""
    play = Play(**script.start)
    for move in moves_of(play, script):
        event = make_move(play, script, move)
        settled = play.state
        assert play.take(event) == ()
        assert replace(play.state, ignored=()) == replace(settled, ignored=())


# --- Continue as new -----------------------------------------------------------------------------


def carried(state: LoopState) -> LoopState:
    """What a new history would start from."""
    return records.read_state(json.loads(json.dumps(records.write_state(state))))


@SOME
@given(scripts(max_moves=20))
def test_a_run_goes_on_the_same_in_a_new_history(script: Script) -> None:
    """L8: at any point, with the pending effects as what is asked for again."""
    play = Play(**script.start)
    for move in moves_of(play, script):
        read = carried(play.state)
        assert read == play.state
        dues = [next_due_ms(one) for one in play.state.approvals]
        assert [next_due_ms(one) for one in read.approvals] == dues, "L24: a time was lost"
        assert read.pending == tuple(play.outstanding.values())
        play.state = read
        make_move(play, script, move)
    straight, commands = LoopState(), list[Command]()
    for event in play.events:
        straight, further = advance(straight, event)
        commands.extend(further)
    assert straight == play.state
    assert commands == play.commands


# --- Time ----------------------------------------------------------------------------------------


def told(state: LoopState, until_ms: int, extra: Sequence[int] = ()) -> LoopState:
    """Return a state after time that is told whenever something is due, and at further times."""
    further = sorted(at for at in extra if at < until_ms)
    while (due := people.next_due(state)) is not None and due <= until_ms:
        while further and further[0] < due:
            state, _ = advance(state, TimePassed(at_ms=further.pop(0)))
        state, _ = advance(state, TimePassed(at_ms=due))
    for at in (*further, until_ms):
        state, _ = advance(state, TimePassed(at_ms=at))
    return state


TIMES = st.lists(st.sampled_from([1, 999, 5_000, 31_000, 60_000, 10**6, 10**7]), max_size=6)


@SOME
@given(scripts(max_moves=20), TIMES)
def test_time_that_is_told_more_often_does_nothing_more(script: Script, steps: list[int]) -> None:
    """L22: only when something is due does time change a run, however often it is told."""
    play = play_script(script)
    now, extra = play.now_ms, [play.now_ms + sum(steps[: at + 1]) for at in range(len(steps))]
    until_ms = extra[-1] if extra else now
    state, _ = advance(play.state, TimePassed(at_ms=now))
    assert told(state, until_ms, extra) == told(state, until_ms)


@SOME
@given(people.terms(), TIMES)
def test_time_that_is_told_late_comes_to_the_same(terms: ApprovalTerms, steps: list[int]) -> None:
    """L23: told once at the end, a request has the status and the audience that it would have.

    Reminders that were missed are one. A request that escalates when it expires gets its whole time
    again from when that is told, so being late may only leave people more time.
    """
    play = Play.ready(customer=Customer(people.REQUESTER))
    play.replies(gated("pay", "c1", terms=terms))
    until_ms = play.now_ms + sum(steps)
    late, _ = advance(play.state, TimePassed(at_ms=until_ms))
    punctual = told(play.state, until_ms)
    (one,), (other,) = late.approvals, punctual.approvals
    if terms.on_expiry == "escalate" and terms.escalations and one.status == "pending":
        assert one.expires_at_ms is None or one.expires_at_ms > until_ms
        assert other.status in {"pending", "expired"}
        return
    assert one.status == other.status
    assert (late.phase, late.outcome) == (punctual.phase, punctual.outcome)
    assert one.reminders <= other.reminders
    if one.status == "pending":
        assert one.escalated == other.escalated
        assert next_due_ms(one) == next_due_ms(other)


# --- Any order -----------------------------------------------------------------------------------

CALLS = st.lists(
    st.sampled_from(["tool", "tool", "gated", "unknown", "handoff"]), min_size=1, max_size=6
)


def _parts(kinds: list[str]) -> list[Part]:
    make: dict[str, Callable[[int], Part]] = {
        "tool": lambda at: tool("f", f"c{at}"),
        "gated": lambda at: gated("g", f"c{at}"),
        "unknown": lambda at: unknown("nobody", f"c{at}"),
        "handoff": lambda at: transfer("Billing", f"c{at}"),
    }  # fmt: skip
    return [make[kind](at) for at, kind in enumerate(kinds)]


def _drive(play: Play, choices: list[int], changes: list[tuple[Change, ...]]) -> None:
    """Answer and decide, whatever is next by choice, until the model is asked again."""
    rejected: set[str] = {one.id for one in play.state.approvals if int(one.call_id[1:]) % 3 == 2}
    for choice in [*choices, *[0] * 50]:
        open_ = [
            *play.state.pending_approvals,
            *(one for one in play.outstanding.values() if isinstance(one, RunTool)),
        ]
        if not open_:
            return
        chosen = open_[choice % len(open_)]
        if isinstance(chosen, RunTool):
            number = int(chosen.call_id[1:])
            play.returns(chosen.call_id, f"output {number}", *changes[number % len(changes)])
        else:
            play.decided(chosen.id, "reject" if chosen.id in rejected else "approve")
    raise AssertionError("the turn does not end")


@SOME
@given(
    kinds=CALLS,
    choices=st.lists(st.integers(0, 9), max_size=12),
    changes=st.lists(st.sampled_from(CHANGES), min_size=1, max_size=6),
)
def test_results_and_decisions_in_any_order_come_to_the_same(
    kinds: list[str], choices: list[int], changes: list[tuple[Change, ...]]
) -> None:
    """L9: also where changes conflict; the order of the calls decides.

    But what has finished is told before people are waited for, so where they are, the outputs
    come in the order of the pauses: the same ones, each once.
    """
    runs = [Play.ready(context={"n": 0, "log": ["0"], "deep": {}}) for _ in range(2)]
    for play, order in zip(runs, (choices, []), strict=True):
        play.replies(*_parts(kinds))
        _drive(play, order, changes)
    one, other = (play.state for play in runs)
    if "gated" not in kinds:
        assert one.items == other.items
        assert one.context == other.context
    assert sorted(runs[0].outputs.items()) == sorted(runs[1].outputs.items())
    assert len(one.items) == len(other.items)
    assert (one.phase, one.agent, one.question.turn) == (
        other.phase,
        other.agent,
        other.question.turn,
    )


@SOME
@given(
    log=st.sampled_from([[], ["0"]]),
    count=st.integers(1, 5),
    choices=st.lists(st.integers(0, 9), max_size=6),
)
def test_no_append_is_lost_whatever_tools_saw(
    log: list[str], count: int, choices: list[int]
) -> None:
    """L9, for tools that really read the context they are given."""
    play = Play.ready(context={"log": log})
    play.replies(
        *(tool("note", f"c{at}") if at % 2 else gated("note", f"c{at}") for at in range(count))
    )
    for choice in [*choices, *[0] * 20]:
        waiting = [one.id for one in play.state.pending_approvals]
        at = choice % (len(waiting) + len(play.running_ids) or 1)
        if at < len(waiting):
            play.decided(waiting[at])
        elif play.running_ids:
            run = play.running(play.running_ids[at - len(waiting)])
            left: Json = {"log": [*run.context["log"], run.call_id]}
            play.returns(run.call_id, "ok", *diff(run.context, left))
    assert play.state.phase == "thinking"
    assert sorted(play.state.context["log"]) == sorted([*log, *(f"c{at}" for at in range(count))])


# --- Liveness ------------------------------------------------------------------------------------


@SOME
@given(
    script=scripts(max_moves=12),
    answers=st.lists(replies(), min_size=1, max_size=4).map(tuple),
    choices=st.lists(st.integers(0, 99), min_size=1, max_size=30),
)
def test_a_run_ends_when_everything_it_asks_for_is_answered(
    script: Script, answers: tuple[ModelReply, ...], choices: list[int]
) -> None:
    """L10: whatever happened before, and whatever the answers are, for a bounded run."""
    start: dict[str, Any] = {**script.start}
    start |= {"max_turns": script.start["max_turns"] or 4, "keep_open": False}
    play = Play(**start)
    for move in moves_of(play, script):
        make_move(play, script, move)
    for step in range(400):
        if play.state.phase == "closed":
            break
        choice = choices[step % len(choices)]
        own = people.waiting(play.state)
        if own and (stands_still(play.state) or choice % 3 == 0):
            # People who reject a handler's answer for ever are asked for ever.
            play.take(people.settling(play, own[0], choice if step < 100 else 0))
            continue
        if play.state.phase == "held":
            if say_problem(play.state, replace(people.released(play), verified=True)):
                play.take(people.taken_back(play))
            play.take(people.released(play))
            continue
        out = list(play.outstanding.values())
        parked = [one for one in play.state.calls if one.status == "parked"]
        if parked and (not out or choice % 3 == 1):
            play.take(awaited(play, parked[choice % len(parked)]))
            continue
        assert out, "an open run waits for something"
        # A provider that goes on making one response for ever is asked for it for ever.
        how = choice if step < 100 else 0
        play.take(answer_to(out[choice % len(out)], answers, how, play.now_ms))
    assert play.state.phase == "closed"
    assert play.finish.status in {"completed", "failed", "cancelled"}


@SOME
@given(scripts(max_moves=12))
def test_a_run_can_always_be_cancelled(script: Script) -> None:
    play = play_script(script)
    play.cancelled()
    for effect in list(play.outstanding.values()):
        assert isinstance(effect, CleanUp | CancelResponse), "only what began outside is waited for"
        play.take(answer_to(effect, (reply_of(),), 0, 1))
    assert play.state.phase == "closed"
    assert not play.outstanding


@SOME
@given(scripts(max_moves=20))
def test_a_gentle_cancel_ends_a_run_without_a_further_model_call(script: Script) -> None:
    """An answer comes with `completed`, a failure with `failed`, nothing with `cancelled`.

    The call of a realtime line that ends meanwhile moves to a worker: it is of the same turn.
    """
    play = play_script(script)
    play.cancelled("after_turn")
    turns = play.state.turns
    while play.outstanding:
        play.take(answer_to(next(iter(play.outstanding.values())), (reply_of(),), 0, 1))
    assert play.state.phase == "closed", "nobody has to be waited for"
    assert play.state.turns == turns
    finish = play.finish
    assert (finish.failure is not None) == (finish.status == "failed")
    assert finish.final_output is None or finish.status == "completed"


def test_a_run_of_many_turns_keeps_everything() -> None:
    play = Play.ready(max_turns=None)
    state = play.state
    for turn in range(300):
        reply = reply_of(tool("f", f"c{turn}"))
        state, _ = advance(state, answer_to(state.pending[0], (reply,), 0, 1))
        state, _ = advance(state, answer_to(state.pending[0], (reply,), 0, 1))
    assert (state.turns, len(state.items)) == (301, 601)
    assert violations(state) == []
