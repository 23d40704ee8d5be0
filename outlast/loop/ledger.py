"""The ledger of the transcript: what is checked, blocked, queued for the session, and saved.

Nothing else changes these places of the state: `unchecked_from` (input guardrails have not passed
what follows), `blocked_from` (they did not pass it), `answered_unchecked` (a person answered it
before they judged it), and `saving`.
"""

from dataclasses import replace

from outlast.loop.checks import INPUT_CHECKS
from outlast.loop.items import call_id_of
from outlast.loop.revision import revised
from outlast.loop.state import (
    ItemsToSave,
    LoopState,
    SaveFailure,
    in_order,
    is_being_checked,
    turn_start,
)
from outlast.loop.transcript import hide_from
from outlast.loop.values import Failure
from outlast.loop.view import without_places

# --- What guardrails have passed -----------------------------------------------------------------


def await_check(state: LoopState, start: int | None) -> LoopState:
    """Keep items from an index on out of the session until input guardrails pass them."""
    return revised(state, unchecked_from=start)


def await_check_of_question(state: LoopState) -> LoopState:
    """Keep the question out of the session until input guardrails pass it again."""
    start = state.question.question_from
    has_input = start < len(state.items) and state.items[start].kind == "input"
    return await_check(state, start if has_input else None)


def add_messages(state: LoopState, before: int, *, checks: bool) -> LoopState:
    """Take in messages that were recorded from an index on; what needs no check may be saved.

    Args:
        state: the state with the messages.
        before: the length of the transcript without them.
        checks: whether input guardrails judge them first.
    """
    if not checks:
        state = await_check(state, None)
    elif state.question.unchecked_from is None and len(state.items) > before:
        state = await_check(state, before)
    return queue(state)


def add_prepared(state: LoopState) -> LoopState:
    """Take in the prepared input: the session has the items of its own already."""
    inputs = [at for at, item in enumerate(state.items) if item.kind == "input"]
    if not INPUT_CHECKS.isdisjoint(state.required_steps):
        state = await_check(state, next(iter(inputs), None))
    for at in inputs:
        state = queue(revised(state, queued_up_to=at), at + 1)
    return skip(state)


def block_unchecked(state: LoopState) -> LoopState:
    """Keep items that input guardrails did not pass out of the session.

    They stay in the transcript for people, and in the view until the next question begins.
    """
    start = state.question.unchecked_from
    if start is None:
        return state
    kept, late = _split_queue(state, start)
    skipped = min([state.saving.queued_up_to, *(one.start for one in late)])
    state = revised(
        state,
        to_save=kept,
        unchecked_from=None,
        blocked_from=start,
        skipped_from=skipped if state.start.session else None,
    )
    return skip(state)


def _split_queue(
    state: LoopState, start: int
) -> tuple[tuple[ItemsToSave, ...], tuple[ItemsToSave, ...]]:
    """Return the ranges before an index, and those after it; what is being saved comes before."""
    is_saving = any(effect.kind == "save_session" for effect in state.pending)
    ranges = state.saving.to_save
    first = next((at for at, one in enumerate(ranges) if one.stop > start), len(ranges))
    first = max(first, 1 if is_saving else 0)
    return ranges[:first], ranges[first:]


def hide_blocked(state: LoopState) -> LoopState:
    """Hide the last question and its replies from the model, if guardrails blocked it."""
    if state.blocked_from is None:
        return state
    return hide_from(revised(state, blocked_from=None, skipped_from=None), state.blocked_from)


def retry_blocked(state: LoopState) -> LoopState:
    """Let the last question be saved after all, if guardrails pass it this time.

    What was said since and is saved stays; the question would come after it, so it is left out.
    """
    skipped, queued = state.saving.skipped_from, state.saving.queued_up_to
    state = revised(
        state,
        blocked_from=None,
        queued_up_to=queued if skipped is None else skipped,
        skipped_from=None,
    )
    if INPUT_CHECKS.isdisjoint(state.required_steps):
        return await_check(state, None)
    return await_check_of_question(state)


def may_be_withheld(state: LoopState) -> bool:
    """Whether a guardrail or a person may still withhold the turn's items."""
    ends = state.question.judged or any(call.plan.final for call in state.calls)
    if state.gate is not None and state.gate.budget is None:
        return True
    return is_being_checked(state) or (ends and "finalize_answer" in state.required_steps)


# --- What a person answered before guardrails judged it ------------------------------------------


def answer_unchecked(state: LoopState, stop: int) -> LoopState:
    """Keep messages that a person answers out of the session until they are checked.

    Args:
        state: the state.
        stop: the index of the person's answer.
    """
    start, saving = state.question.unchecked_from, state.saving
    if start is None:
        return state
    kept, late = _split_queue(state, start)
    return revised(
        state,
        unchecked_from=None,
        answered_unchecked=(*state.answered_unchecked, (start, stop)),
        to_save=kept,
        queued_up_to=min([saving.queued_up_to, *(one.start for one in late)]),
    )


def answered_inputs(state: LoopState) -> tuple[int, ...]:
    """Return the oldest messages that a person answered before input guardrails checked them."""
    if not state.answered_unchecked:
        return ()
    inputs = range(*state.answered_unchecked[0])
    return tuple(at for at in inputs if state.items[at].kind == "input")


def settle_answered(state: LoopState, *, passed: bool) -> LoopState:
    """Take the verdict about the messages of `answered_inputs`.

    Those that did not pass stay in the transcript for people; the model and the session never get
    them. The session gets what people said meanwhile once everything before it is checked.
    """
    inputs, (_, *rest) = answered_inputs(state), state.answered_unchecked
    state = revised(state, answered_unchecked=tuple(rest))
    if passed:
        return state
    view = without_places(state.view, len(state.items), frozenset(inputs))
    return queue(revised(state, view=view), inputs[-1] + 1, without=inputs)


# --- What the session gets -----------------------------------------------------------------------


def queue(
    state: LoopState,
    stop: int | None = None,
    *,
    withheld: str | None = None,
    without: tuple[int, ...] = (),
) -> LoopState:
    """Queue the transcript for the session, up to an index and up to what is not checked yet.

    Args:
        state: the state.
        stop: the index after the last item; None for the whole transcript.
        withheld: what the session gets in place of the newest tool output.
        without: items that the session does not get.
    """
    length = len(state.items) if stop is None else stop
    if state.answered_unchecked:
        length = min(length, state.answered_unchecked[0][0])
    if not state.start.session or length <= state.saving.queued_up_to:
        return state
    start = state.saving.queued_up_to
    dropped = _left_out(state, start, length, without)
    if len(dropped) == length - start:
        return revised(state, queued_up_to=length, skipped_from=None)
    newest = ItemsToSave(start=start, stop=length, dropped=dropped, withheld=withheld)
    return _with_range(state, newest)


def _left_out(
    state: LoopState, start: int, stop: int, without: tuple[int, ...] = ()
) -> tuple[int, ...]:
    """Return the items of a range that the session does not get: hidden ones and its own history."""
    hidden = {at for at in (*state.hidden, *without) if start <= at < stop}
    known = {at for at in range(start, stop) if state.items[at].kind == "history"}
    return tuple(sorted(hidden | known))


def _with_range(state: LoopState, newest: ItemsToSave) -> LoopState:
    kept = [at for at in range(newest.start, newest.stop) if at not in newest.dropped]
    order = in_order(state, kept) if state.arranged else kept
    if order != kept:
        newest = replace(newest, order=tuple(order))
    to_save = (*state.saving.to_save, newest)
    return revised(state, to_save=to_save, queued_up_to=newest.stop, skipped_from=None)


def queue_calls(state: LoopState, call_ids: set[str]) -> LoopState:
    """Queue some calls of the newest turn, and their outputs, for the session.

    Reasoning goes with the call that follows it: providers reject one without the other.
    """
    queued = state.saving.queued_up_to
    first, length = max(queued, turn_start(state)), len(state.items)
    dropped = [*_left_out(state, queued, first)]
    reasoning: list[int] = []
    for at in range(first, length):
        item = state.items[at]
        if item.kind == "reasoning":
            reasoning.append(at)
            continue
        if item.kind not in {"tool_call", "tool_output"} or call_id_of(item.raw) not in call_ids:
            dropped.extend((*reasoning, at))
        reasoning.clear()
    newest = ItemsToSave(start=queued, stop=length, dropped=(*dropped, *reasoning))
    return _with_range(state, newest)


def skip(state: LoopState) -> LoopState:
    """Keep what is not queued out of the session for good."""
    return revised(state, queued_up_to=len(state.items))


def give_up(state: LoopState) -> LoopState:
    """Save nothing further: the run stops at once."""
    return skip(revised(state, answered_unchecked=(), to_save=()))


def give_up_answered(state: LoopState) -> LoopState:
    """Keep messages out of the session that a person answered and nobody will check any more."""
    if not state.answered_unchecked:
        return state
    while state.answered_unchecked:
        state = settle_answered(state, passed=False)
    return queue(state)


def saved(state: LoopState) -> LoopState:
    """Drop the oldest range from the session's queue: it is saved."""
    left = state.saving.to_save[1:]
    trouble = state.saving.save_failure if left else None
    return revised(state, to_save=left, save_failure=trouble, has_saved=True)


def saving_failed(state: LoopState, failure: Failure, at_ms: int) -> LoopState:
    """Keep items that the session did not accept, and note since when."""
    trouble = state.saving.save_failure
    since = at_ms if trouble is None else trouble.at_ms
    return revised(state, save_failure=SaveFailure(at_ms=since, failure=failure))


def retry_saving(state: LoopState) -> LoopState:
    """Retry saving the items that the session did not accept."""
    if state.saving.save_failure is None:
        return state
    return revised(state, save_failure=replace(state.saving.save_failure, retrying=True))
