"""Numbered invariants of a run's state.

The workflow checks them after every event and fails a run that breaks one. The tests also check
laws of sequences of events.
"""

from collections.abc import Callable
from typing import Final

from outlast.loop.effects import BACKGROUND
from outlast.loop.items import call_id_of
from outlast.loop.state import CALL_KINDS, OUTPUT_KINDS, LoopState, may_save

_EFFECTS_BESIDE: Final = BACKGROUND | {"check_input"}
"""Effects that may be pending in any phase."""

_EFFECT_OF_PHASE: Final = {
    "preparing": "prepare_run",
    "thinking": "call_model",
    "transferring": "run_handoff",
}


class BrokenInvariantError(Exception):
    """An invariant of the run's state is broken, which is a defect of outlast."""

    @property
    def number(self) -> str:
        """The number of the invariant, such as `I6`."""
        return str(self).partition(":")[0]


def check(state: LoopState) -> None:
    """Check a state after an event, in time that does not grow with the run.

    Calls and outputs are counted in the newest turn only: earlier ones were checked when they were
    new.

    Raises:
        BrokenInvariantError: an invariant is broken; the message names it.
    """
    for law, holds in _LAWS.items():
        if not holds(state):
            raise BrokenInvariantError(law)
    if not _calls_have_outputs(state, _newest_turn(state)):
        raise BrokenInvariantError(_OUTPUTS)


def violations(state: LoopState) -> list[str]:
    """Return the broken invariants of a state, as sentences; empty when all hold."""
    broken = [law for law, holds in _LAWS.items() if not holds(state)]
    return broken if _calls_have_outputs(state, 0) else [*broken, _OUTPUTS]


def _effects_are_numbered(state: LoopState) -> bool:
    numbers = [effect.effect for effect in state.pending]
    return len(set(numbers)) == len(numbers) and all(
        0 < number < state.next_effect for number in numbers
    )


def _phase_has_its_effects(state: LoopState) -> bool:
    kinds = [effect.kind for effect in state.pending]
    if state.phase == "checking":
        beside = _EFFECTS_BESIDE - {"check_input"}
        return [kind for kind in kinds if kind not in beside] == ["check_input"]
    own = sorted(kind for kind in kinds if kind not in _EFFECTS_BESIDE)
    if state.phase == "acting":
        return set(own) <= {"run_tool", "run_agent"}
    if state.phase == "finalizing":
        return own == ([] if "check_input" in kinds else ["finalize_answer"])
    if state.phase == "closing":
        return own in ([], ["finalize_answer"])
    effect = _EFFECT_OF_PHASE.get(state.phase)
    return own == ([effect] if effect else [])


def _running_calls_have_effects(state: LoopState) -> bool:
    running = {call.effect for call in state.calls if call.status == "running"}
    calls = {one.effect for one in state.pending if one.kind in {"run_tool", "run_agent"}}
    return state.phase != "acting" or running == calls


def _waiting_calls_have_approvals(state: LoopState) -> bool:
    waiting = {call.request_id for call in state.calls if call.status == "waiting"}
    waiting |= {state.gate.request_id} if state.gate is not None else set()
    return waiting == {request.id for request in state.approvals if request.status == "pending"}


def _approvals_are_distinct(state: LoopState) -> bool:
    return len({request.id for request in state.approvals}) == len(state.approvals)


def _messages_are_distinct(state: LoopState) -> bool:
    answered = [name for answer in state.answers for name in answer.to]
    messages = [*answered, *state.question.answering, *(message.id for message in state.inbox)]
    return len(set(messages)) == len(messages)


def _saves_one_range(state: LoopState) -> bool:
    saving = sum(effect.kind == "save_session" for effect in state.pending)
    return may_save(state) <= saving <= min(len(state.saving.to_save), 1)


def _waits_in_its_phase(state: LoopState) -> bool:
    if state.phase == "asking":
        return state.gate is not None or bool(state.wants)
    beside = state.phase == "acting" and state.gate is not None and state.gate.budget is not None
    return beside or state.gate is None


def _idle_is_open_and_empty(state: LoopState) -> bool:
    return state.phase != "idle" or (
        state.start.keep_open and not state.inbox and not state.question.answering
    )


def _acting_waits_for_something(state: LoopState) -> bool:
    return state.phase != "acting" or any(
        call.status in {"running", "waiting", "parked"} for call in state.calls
    )


def _parked_calls_wait(state: LoopState) -> bool:
    return all(
        one.parked is not None
        and all(arrival.name != one.parked.wait.name for arrival in one.arrived)
        for one in state.calls
        if one.status == "parked"
    )


def _calls_have_outputs(state: LoopState, start: int) -> bool:
    """Whether the calls without outputs, from an index on, are exactly the current calls."""
    without_output: dict[tuple[bool, str], int] = {}
    for item in state.items[start:]:
        step = 1 if item.kind in CALL_KINDS else -1 if item.kind in OUTPUT_KINDS else 0
        if step:
            call = (item.kind.startswith("handoff_"), call_id_of(item.raw))
            without_output[call] = without_output.get(call, 0) + step
    for one in state.calls:
        if one.status != "recorded":
            call = (one.plan.kind == "handoff", one.call_id)
            without_output[call] = without_output.get(call, 0) - 1
    return not any(without_output.values())


def _newest_turn(state: LoopState) -> int:
    """Return the index from which on the calls and outputs are those of the newest turn."""
    at = len(state.items)
    while at > 0 and state.items[at - 1].turn in {0, state.turns}:
        at -= 1
    return at


_OUTPUTS: Final = "I6: every call has exactly one output, but for those being acted on"

_LAWS: Final[dict[str, Callable[[LoopState], bool]]] = {
    "I1: effects have distinct numbers below the next one": _effects_are_numbered,
    "I2: each phase has exactly the effects it is named for": _phase_has_its_effects,
    "I3: every running call has its effect": _running_calls_have_effects,
    "I4: calls exist only while they are acted on": lambda state: (
        bool(state.calls) == (state.phase in {"acting", "transferring"})
    ),
    "I5: every waiting call, answer or budget has its pending approval, and the reverse": (
        _waiting_calls_have_approvals
    ),
    "I7: an answer takes no more turns than allowed": lambda state: (
        state.start.max_turns is None or state.question.turn <= state.start.max_turns
    ),
    "I8: approval ids are distinct": _approvals_are_distinct,
    "I9: no message is lost or doubled": _messages_are_distinct,
    "I10: a run is closed exactly when it has an outcome": lambda state: (
        (state.phase == "closed") == (state.outcome is not None)
    ),
    "I11: only an open conversation is idle, and with an empty inbox": _idle_is_open_and_empty,
    "I12: acting has something to wait for": _acting_waits_for_something,
    "I13: what may be saved is being saved, one range at a time": _saves_one_range,
    "I14: an answer waits to be finalized exactly while there is one": lambda state: (
        (state.phase == "finalizing") == (state.question.candidate is not None)
    ),
    "I15: only what is held or being saved stays where it would go on by itself": lambda state: (
        state.phase not in {"turned", "closing"} or bool(state.pending)
    ),
    "I16: a run closes because it has decided how": lambda state: (
        (state.phase == "closing") == (state.closing is not None)
    ),
    "I17: only what is in flight is blocked": lambda state: (
        {one.effect for one in state.blocked} <= {effect.effect for effect in state.pending}
    ),
    "I18: an answer or a budget waits exactly in the phase asking, or beside nested runs": (
        _waits_in_its_phase
    ),
    "I20: a parked call waits for something that has not come": _parked_calls_wait,
    "I19: a conversation rests with the person who holds it": lambda state: (
        (state.phase != "held" or state.hold is not None)
        and (state.phase != "idle" or state.hold is None)
    ),
}
