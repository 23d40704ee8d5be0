"""What holds of every state, whatever happened. Numbered; tests check them after every event.

Owns: the laws of a single state. The laws of sequences are in the tests.
"""

from collections import Counter

from outlast.loop.state import CALL_KINDS, OUTPUT_KINDS, LoopState, may_save

_EFFECT_OF_PHASE = {
    "preparing": "prepare_run",
    "checking": "check_input",
    "thinking": "call_model",
    "transferring": "run_handoff",
}

_SIDE_EFFECTS = frozenset({"save_session", "check_input", "offload_items"})
"""What may be in flight beside a phase's own effect."""


def violations(state: LoopState) -> list[str]:
    """Return the broken invariants of a state, as sentences; empty when all hold."""
    effects = [effect.effect for effect in state.pending]
    saving = [effect for effect in state.pending if effect.kind == "save_session"]
    running = {call.effect for call in state.calls if call.status == "running"}
    waiting = {call.approval for call in state.calls if call.status == "waiting"}
    asked = {request.id for request in state.approvals if request.status == "pending"}
    current = Counter(
        (call.plan.kind == "handoff", call.call_id) for call in state.calls if call.status != "told"
    )
    answered = [name for answer in state.answers for name in answer.to]
    messages = [*answered, *state.answering, *(message.id for message in state.inbox)]
    checks = {
        "I1: effects have distinct numbers below the next one": len(set(effects)) == len(effects)
        and all(0 < effect < state.next_effect for effect in effects),
        "I2: each phase has exactly the effects it is named for": _has_its_effects(state),
        "I3: every running call has its effect": state.phase != "acting"
        or running
        == {one.effect for one in state.pending if one.kind in {"run_tool", "run_agent"}},
        "I4: calls exist only while they are acted on": bool(state.calls)
        == (state.phase in {"acting", "transferring"}),
        "I5: every waiting call has its pending approval, and the reverse": waiting == asked,
        "I6: every call has exactly one output, but for those being acted on": _calls_without_output(
            state
        )
        == current,
        "I7: an answer takes no more turns than allowed": state.max_turns is None
        or state.turn <= state.max_turns,
        "I8: approval ids are distinct": len({request.id for request in state.approvals})
        == len(state.approvals),
        "I9: no message is lost or doubled": len(set(messages)) == len(messages),
        "I10: a run is closed exactly when it has an outcome": (state.phase == "closed")
        == (state.outcome is not None),
        "I11: only an open conversation is idle, and with an empty inbox": state.phase != "idle"
        or (state.keep_open and not state.inbox and not state.answering),
        "I12: acting has something to wait for": state.phase != "acting"
        or bool(running or waiting),
        "I13: what may be saved is being saved, one range at a time": may_save(state)
        <= len(saving)
        <= min(len(state.to_save), 1),
        "I14: an answer waits for its conclusion exactly while there is one": (
            state.phase == "finalizing"
        )
        == (state.candidate is not None),
        "I15: only what is held or being saved stays where it would go on by itself": state.phase
        not in {"turned", "closing"}
        or bool(state.pending),
        "I17: only what is in flight is blocked": {one.effect for one in state.blocked}
        <= set(effects),
        "I16: a run closes because it has decided how": (state.phase == "closing")
        == (state.closing is not None),
    }
    return [law for law, holds in checks.items() if not holds]


def _has_its_effects(state: LoopState) -> bool:
    kinds = [effect.kind for effect in state.pending]
    if state.phase == "checking":
        return [kind for kind in kinds if kind not in _SIDE_EFFECTS - {"check_input"}] == [
            "check_input"
        ]
    own = sorted(kind for kind in kinds if kind not in _SIDE_EFFECTS)
    if state.phase == "acting":
        return set(own) <= {"run_tool", "run_agent"}
    if state.phase == "finalizing":
        return own == ([] if "check_input" in kinds else ["finalize_answer"])
    if state.phase == "closing":
        return own in ([], ["finalize_answer"])
    effect = _EFFECT_OF_PHASE.get(state.phase)
    return own == ([effect] if effect else [])


def _calls_without_output(state: LoopState) -> Counter[tuple[bool, str]]:
    """Count the calls less their outputs, by whether it is a handoff and by call id."""
    calls: Counter[tuple[bool, str]] = Counter()
    for item in state.items:
        step = 1 if item.kind in CALL_KINDS else -1 if item.kind in OUTPUT_KINDS else 0
        if step:
            calls[item.kind.startswith("handoff"), str(item.raw.get("call_id", ""))] += step
    return Counter({call: count for call, count in calls.items() if count})
