"""Each invariant is reported when it is broken, and only then."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from outlast.loop.call_forms import output_item
from outlast.loop.checks import Candidate
from outlast.loop.effects import SaveSession
from outlast.loop.invariants import BrokenInvariantError, check, violations
from outlast.loop.items import Item
from outlast.loop.revision import revised
from outlast.loop.state import Answer, Blocked, ItemsToSave, LoopState
from tests.laws.driver import SITUATIONS, Play, message, play_in, said, tool, transfer


def in_(situation: str) -> LoopState:
    return play_in(situation, keep_open=True).state


def approval_twice(state: LoopState) -> LoopState:
    return replace(state, approvals=state.approvals * 2)


def save_of(state: LoopState) -> SaveSession:
    return next(effect for effect in state.pending if isinstance(effect, SaveSession))


BROKEN: list[tuple[str, str, Callable[[LoopState], LoopState]]] = [
    ("I1", "thinking", lambda s: replace(s, next_effect=2)),
    ("I1", "running", lambda s: replace(s, pending=(s.pending[0], s.pending[0]))),
    ("I1", "thinking", lambda s: replace(s, pending=(replace(s.pending[0], effect=0),))),
    ("I2", "preparing", lambda s: replace(s, pending=())),
    ("I2", "thinking", lambda s: replace(s, pending=())),
    ("I2", "transferring", lambda s: replace(s, pending=())),
    ("I2", "thinking", lambda s: replace(s, phase="preparing")),
    ("I2", "idle", lambda s: replace(s, pending=in_("thinking").pending)),
    ("I2", "running", lambda s: replace(s, pending=in_("thinking").pending)),
    ("I2", "checking", lambda s: replace(s, pending=())),
    ("I2", "finalizing", lambda s: replace(s, pending=())),
    ("I2", "running", lambda s: replace(s, phase="closing", closing="failed")),
    ("I2", "held up", lambda s: replace(s, phase="finalizing")),
    ("I3", "running", lambda s: replace(s, pending=s.pending[:1])),
    ("I3", "running", lambda s: replace(s, pending=(replace(s.pending[0], effect=1), s.pending[1]))),
    ("I4", "thinking", lambda s: replace(s, calls=in_("running").calls)),
    ("I4", "transferring", lambda s: replace(s, calls=())),
    ("I5", "waiting", lambda s: replace(s, approvals=())),
    ("I5", "thinking", lambda s: replace(s, approvals=in_("waiting").approvals)),
    ("I6", "running", lambda s: replace(s, items=(*s.items, Item("tool_output", output_item("c1", "x"))))),
    ("I6", "idle", lambda s: replace(s, items=(*s.items, Item("tool_call", tool("f", "c9")[0])))),
    ("I6", "idle", lambda s: replace(s, items=(*s.items, Item("handoff_call", transfer("B", "h")[0])))),
    ("I6", "running", lambda s: replace(s, calls=tuple(replace(c, status="recorded") for c in s.calls))),
    ("I6", "running", lambda s: replace(s, calls=(*s.calls, replace(s.calls[0], call_id="c9", status="settled")))),
    ("I7", "thinking", lambda s: revised(s, turn=11)),
    ("I8", "waiting", approval_twice),
    ("I9", "thinking", lambda s: replace(s, inbox=(message("start"),))),
    ("I9", "idle", lambda s: replace(s, answers=(*s.answers, Answer(("start",), None, "A")))),
    ("I9", "idle", lambda s: replace(s, answers=(Answer(("a", "a"), None, "A"),))),
    ("I10", "thinking", lambda s: replace(s, outcome="failed")),
    ("I10", "idle", lambda s: replace(s, phase="closed")),
    ("I11", "idle", lambda s: replace(s, start=replace(s.start, keep_open=False))),
    ("I11", "idle", lambda s: replace(s, inbox=(message("m2"),))),
    ("I11", "idle", lambda s: revised(s, answering=("m2",))),
    ("I12", "running", lambda s: replace(s, pending=(), calls=tuple(replace(c, status="settled") for c in s.calls))),
    ("I13", "saving", lambda s: revised(s, to_save=())),
    ("I13", "saving", lambda s: revised(replace(s, next_effect=9, pending=(*s.pending, replace(save_of(s), effect=8))), to_save=s.saving.to_save * 2)),
    ("I13", "thinking", lambda s: revised(s, to_save=(ItemsToSave(start=0, stop=1),))),
    ("I14", "finalizing", lambda s: revised(s, candidate=None)),
    ("I14", "thinking", lambda s: revised(s, candidate=Candidate())),
    ("I15", "thinking", lambda s: replace(s, phase="turned", pending=())),
    ("I15", "thinking", lambda s: replace(s, phase="closing", closing="failed", pending=())),
    ("I16", "thinking", lambda s: replace(s, closing="failed")),
    ("I17", "thinking", lambda s: replace(s, blocked=(Blocked(effect=99, at_ms=0, lacks="a tool"),))),
    ("I16", "saving", lambda s: replace(s, phase="closing")),
]  # fmt: skip


@pytest.mark.parametrize("law", sorted({law for law, _, _ in BROKEN}))
def test_a_broken_invariant_is_named(law: str) -> None:
    for at, (_, situation, broken) in enumerate(one for one in BROKEN if one[0] == law):
        state = broken(in_(situation))
        case = f"case {at} of {law}, {situation}"
        assert law in [sentence.split(":")[0] for sentence in violations(state)], case
        with pytest.raises(BrokenInvariantError) as caught:
            check(state)
        assert str(caught.value) in violations(state), case
        assert str(caught.value).startswith(f"{caught.value.number}: "), case


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_sound_state_breaks_no_invariant(situation: str) -> None:
    assert violations(in_(situation)) == []
    check(in_(situation))


def test_a_run_that_has_not_begun_breaks_no_invariant() -> None:
    assert violations(LoopState()) == []


def test_every_invariant_is_numbered_and_covered_here() -> None:
    named = {law for law, _, _ in BROKEN}
    assert named == {f"I{number}" for number in range(1, 18)}
    worst = replace(in_("idle"), next_effect=0, pending=in_("running").pending * 2, phase="closed")
    assert len(violations(worst)) >= 3


def test_a_call_id_that_a_model_uses_again_is_two_calls() -> None:
    play = play_in("running", keep_open=True)
    play.returns("c1")
    play.returns("c2")
    play.replies(tool("look_up", "c1"))
    play.returns("c1")
    play.replies(said("Done."))
    assert play.kinds.count("tool_call") == play.kinds.count("tool_output") == 3


def test_a_tool_and_a_handoff_that_share_an_id_are_two_calls() -> None:
    """The tool has its output, and the handoff, whose callback runs, has none yet."""
    play = Play.ready()
    play.replies(tool("look_up", "same"), transfer("Billing", "same", callback=True))
    play.returns("same")
    assert play.state.phase == "transferring"
    play.called_back()
    assert play.kinds[-2:] == ["tool_output", "handoff_output"]


def test_a_call_with_two_outputs_breaks_an_invariant() -> None:
    """Each call has one output: a second one is as wrong as none."""
    state = in_("idle")
    call = Item("tool_call", tool("f", "c9")[0])
    output = Item("tool_output", output_item("c9", "x"))
    assert violations(replace(state, items=(*state.items, call, output))) == []
    assert violations(replace(state, items=(*state.items, call, output, output)))


def test_each_step_looks_at_the_calls_of_the_newest_turn_only() -> None:
    """So the time it takes does not grow; what is read again is looked at as a whole."""
    raw = tool("f", "c9")[0]
    said_later = Item("message", {"role": "assistant"}, "A", 2)
    older = revised(in_("idle"), turns=2, items=(Item("tool_call", raw, "A", 1), said_later))
    check(older)
    assert [law.partition(":")[0] for law in violations(older)] == ["I6"]
    with pytest.raises(BrokenInvariantError, match="I6"):
        check(revised(older, items=(Item("tool_call", raw, "A", 2), said_later)))


def test_every_law_is_numbered_and_reads_as_a_sentence() -> None:
    """The number is in the error that ends a run, and in the documents."""
    broken = {law for _, situation, breaks in BROKEN for law in violations(breaks(in_(situation)))}
    assert all(re.fullmatch(r"I[0-9]+: [a-z][a-z ,]*[a-z]", law) for law in broken), broken
    assert {law.partition(":")[0] for law in broken} == {f"I{at}" for at in range(1, 18)}


def test_a_run_may_close_while_its_answer_is_finalized() -> None:
    state = replace(in_("finalizing"), phase="closing", closing="cancelled")
    assert not [law for law in violations(state) if law.startswith("I2:")]


def test_guardrails_may_check_while_the_session_is_saved() -> None:
    save = save_of(in_("saving"))
    checking = in_("checking")
    state = revised(
        replace(checking, next_effect=9, pending=(*checking.pending, replace(save, effect=8))),
        to_save=in_("saving").saving.to_save,
    )
    assert violations(state) == []
