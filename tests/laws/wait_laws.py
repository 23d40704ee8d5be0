"""What holds of every step of a run with calls that wait for something outside, by rules of its own.

Owns: `WaitLaws`, which `Play` checks after every event. It decides for itself which deliveries
count: it must not use `outlast.loop.outside`, which is what it checks.
"""

import json
from collections.abc import Sequence
from typing import Any, cast

from outlast.loop import phrases
from outlast.loop.calls import Call, OutsideWait, ToolResult
from outlast.loop.effects import CleanUp, Command, EffectAnswered, EffectFailed, RunTool
from outlast.loop.events import Event, MessageReceived, RunEnded, RunStarted, ValueDelivered
from outlast.loop.schemas import problem_of
from outlast.loop.state import LoopState
from outlast.loop.values import Json, is_reference
from tests.laws.people_laws import is_decision

Key = tuple[int, int, str, str]
"""The question, the turn and the id of a call, and one of its waits."""

ENDED = {"settled", "recorded"}


class WaitLaws:
    """Checks the waits of one run, event by event."""

    def __init__(self) -> None:
        self._came: dict[Key, tuple[str, Json]] = {}
        self._ambiguous: set[tuple[int, int]] = set()

    def check(
        self,
        before: LoopState,
        timed: LoopState,
        event: Event,
        after: LoopState,
        commands: Sequence[Command],
    ) -> None:
        """Check one step.

        Args:
            before: the state before the event.
            timed: the state if only the event's time had come.
            event: the event.
            after: the state after it.
            commands: what the loop asks for.
        """
        if before.phase == "closed":
            return
        for state in (timed, after):
            ids = [one.call_id for one in state.calls if one.plan.kind == "tool"]
            if len(set(ids)) < len(ids):  # nobody can say which of them a value is for
                self._ambiguous.add(turn_of(state))
        self._without_a_delivery(timed)
        if isinstance(event, ValueDelivered):
            self._check_delivery(timed, event, after)
        if isinstance(event, EffectAnswered) and isinstance(event.result, ToolResult):
            self._drop_misfit(timed, event.effect, event.result)
        self._without_a_delivery(after)
        begun = {one.effect for one in timed.pending}  # by time, before the event
        for command in commands:
            if isinstance(command, RunTool) and command.effect not in begun:
                self._check_arrivals((command.question, command.turn), command)
        for call in after.calls:
            if call.plan.kind == "tool":
                self._check_arrivals(turn_of(after), call)
        self._check_ends(before, event, after)
        check_deadlines(event, after)
        check_clean_ups(before, timed, event, after, commands)

    def _without_a_delivery(self, state: LoopState) -> None:
        """Learn which waits ended by time or by a person, and that no other receipt is made up."""
        for one in state.receipts:
            key = one.question, one.turn, one.call_id, one.name
            if not one.delivery_id:
                self._came.setdefault(key, ("", None))

    def _check_delivery(self, timed: LoopState, event: ValueDelivered, after: LoopState) -> None:
        """L25: a delivery that counts is taken; L26: another changes nothing but `ignored`."""
        key = event.question, event.turn, event.call_id, event.name
        if key[:2] in self._ambiguous:
            return
        found = [one for one in after.receipts if (one.question, one.turn) == key[:2]]
        receipts = [one for one in found if (one.call_id, one.name) == key[2:]]
        if self._counts(timed, event, key):
            self._came[key] = event.delivery_id, event.value
            assert [one.delivery_id for one in receipts] == [event.delivery_id]
            return
        for name in LoopState.__dataclass_fields__:
            same = getattr(after, name) == getattr(timed, name)
            assert same or name in {"ignored", "at_ms"}, f"a refused delivery changed {name}"
        is_known = self._came.get(key, ("", None))[0] == event.delivery_id
        assert (after.ignored == timed.ignored) == is_known, "refused, and nobody can see it"

    def _counts(self, timed: LoopState, event: ValueDelivered, key: Key) -> bool:
        """Whether a value is the first for a wait of a call that goes on, and fits."""
        if key in self._came or key[:2] != turn_of(timed):
            return False
        open_calls = [
            one
            for one in timed.calls
            if one.call_id == event.call_id and one.plan.kind == "tool" and one.status not in ENDED
        ]
        if not open_calls or not may_keep(open_calls[0], event):
            return False
        parked = open_calls[0].parked or open_calls[0].looking
        wait = None if parked is None else parked.wait
        if wait is None or wait.name != event.name:
            return True
        if wait.signed and not event.verified and event.proof is None:
            return False
        return wait.schema is None or problem_of(as_read(event.value), wait.schema) is None

    def _drop_misfit(self, timed: LoopState, effect: int, result: ToolResult) -> None:
        """Forget an early value that does not fit, or a proof that does not count: more may come."""
        wait = result.wait
        call = next((one for one in timed.calls if one.effect == effect), None)
        if call is None or call.status != "running" or wait is None:
            return
        key = (*turn_of(timed), call.call_id, wait.name)
        delivery_id, value = self._came.get(key, ("", None))
        proofs = {one.name: one.proof for one in call.arrived}
        drops = bool(result.unproven) or (wait.signed and proofs.get(wait.name) is None)
        if wait.schema is not None:
            drops |= problem_of(as_read(value), wait.schema) is not None
        if delivery_id and drops:
            del self._came[key]

    def _check_arrivals(self, turn: tuple[int, int], call: Call | RunTool) -> None:
        """L25: a call has exactly what was delivered to it: nothing is lost, and nothing twice."""
        if turn in self._ambiguous:
            return
        due = {key[3]: came for key, came in self._came.items() if key[:3] == (*turn, call.call_id)}
        names = [one.name for one in call.arrived]
        assert len(set(names)) == len(names), "a wait has two values"
        assert set(names) == set(due), "a value is lost, or made up"
        for one in call.arrived:
            delivery_id, value = due[one.name]
            assert one.delivery_id == delivery_id
            assert not delivery_id or one.value == value

    def _check_ends(self, before: LoopState, event: Event, after: LoopState) -> None:
        """L27: a wait ends by a delivery, a person, its deadline, a message, or with the call."""
        if turn_of(before) in self._ambiguous:
            return
        for index, call in enumerate(before.calls):
            if call.parked is None:
                continue
            later = after.calls[index] if index < len(after.calls) else None
            same = turn_of(before) == turn_of(after) and after.phase == "acting"
            if not same or later is None or later.call_id != call.call_id:
                later = None
            if later is None or later.status in ENDED:
                check_is_stopped(call, later, before, after)
            elif later.parked is None or later.parked.since_ms != call.parked.since_ms:
                wait = call.call_id, call.parked.wait.name
                is_delivered = (
                    isinstance(event, ValueDelivered) and (event.call_id, event.name) == wait
                )
                due_ms = call.parked.due_ms
                is_due = due_ms is not None and due_ms <= event.at_ms
                is_decided = call.parked.request_id is not None and is_decision(event)
                hears = isinstance(event, MessageReceived) and call.parked.wait.until_message
                is_over = is_delivered or is_due or is_decided or hears
                assert is_over, f"{event} ended a wait"


def as_read(value: Any) -> Any:
    """Return a value with a text for each reference to one in the blob store."""
    if is_reference(value):
        return "a long text"
    if isinstance(value, dict):
        return {key: as_read(one) for key, one in cast("dict[str, Any]", value).items()}
    return [as_read(one) for one in cast("list[Any]", value)] if isinstance(value, list) else value


def may_keep(call: Call, event: ValueDelivered) -> bool:
    """Whether a call has room for a value, and its texts are short."""
    values = [event.value, *(one.value for one in call.arrived)]
    longest = max(len(event.name), len(event.delivery_id), len(event.source))
    return (
        len(values) <= 100 and sum(map(len, map(json.dumps, values))) <= 500_000 and longest <= 256
    )


def turn_of(state: LoopState) -> tuple[int, int]:
    """Return the question and the turn of a state's calls."""
    return len(state.answers), state.question.turn


def check_is_stopped(call: Call, later: Call | None, before: LoopState, after: LoopState) -> None:
    """A call that was stopped while it waited does not say that it was not run."""
    outputs = [later.output] if later is not None else []
    outputs += [
        one.raw.get("output")
        for one in after.items[len(before.items) :]
        if one.raw.get("call_id") == call.call_id
    ]
    ended = {phrases.CANCELLED, phrases.STOPPED_WAITING, phrases.WITHHELD}
    assert not ended.isdisjoint(map(str, outputs)), f"{call.call_id} waits no more: {outputs}"


def check_clean_ups(
    before: LoopState,
    timed: LoopState,
    event: Event,
    after: LoopState,
    commands: Sequence[Command],
) -> None:
    """L29: a tool cleans up exactly if its call is dropped while it waits, and wants to."""
    cleaned = [one.call_id for one in commands if isinstance(one, CleanUp)]
    if isinstance(event, RunEnded):
        assert not cleaned
        return
    goes_on = turn_of(after) == turn_of(before) and after.phase == "acting"
    pending = {one.effect for one in timed.pending}  # time may have stopped it before
    ends = event.effect if isinstance(event, EffectAnswered | EffectFailed) else None
    ends = ends if ends in pending else None
    dropped: list[str] = []
    for index, call in enumerate(before.calls):
        later = after.calls[index] if goes_on and index < len(after.calls) else None
        still = later is not None and later.call_id == call.call_id and later.status not in ENDED
        wants = wants_clean_up(call)
        if call.effect is not None and call.effect == ends:  # it ends, or is stopped as it begins
            wait = getattr(getattr(event, "result", None), "wait", None)
            wants = isinstance(wait, OutsideWait) and wait.cleanup
            if isinstance(wait, OutsideWait) and wait.until_message and before.inbox:
                wants = False  # a message ends it as it begins
        if wants and not still:
            dropped.append(call.call_id)
    given_up = {one.request.call_id for one in before.blocked if one.request is not None}
    if is_decision(event):  # no worker can carry the call out, nor clean up after it
        dropped = [one for one in dropped if one not in given_up or one in cleaned]
    assert sorted(cleaned) == sorted(dropped), f"{event} dropped {dropped}"


def wants_clean_up(call: Call) -> bool:
    """Whether a call waits, or its tool looks for itself, and wants to clean up if it is dropped."""
    parked = call.parked or call.looking
    return call.status not in ENDED and parked is not None and parked.wait.cleanup


def check_deadlines(event: Event, after: LoopState) -> None:
    """L28: no wait outlives its deadline. A second start, which changes nothing, passes no time."""
    if after.phase != "acting" or isinstance(event, RunStarted):
        return
    for call in after.calls:
        due_ms = None if call.parked is None else call.parked.due_ms
        assert due_ms is None or due_ms > event.at_ms, "a wait goes on after its deadline"
