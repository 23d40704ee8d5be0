"""Compaction: what the model reads of a long conversation becomes shorter, and nothing is lost.

When a model call has used much of its model's window, the worker says so with the reply. An effect
beside the run then makes a summary of the older part of the view, and the next model call reads the
summary instead. The transcript stays as it is: sessions, readers and people see every item.

The run goes on meanwhile. Only when the window is nearly full, the next model call waits.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from outlast.loop import effect_factory
from outlast.loop.call_forms import FORM_OF_OUTPUT, is_call
from outlast.loop.calls import CompactionNeed, ViewSummary
from outlast.loop.changes import apply
from outlast.loop.effects import CompactView
from outlast.loop.items import Item, call_id_of
from outlast.loop.revision import revised
from outlast.loop.state import Compacted, LoopState
from outlast.loop.transcript import with_ignored
from outlast.loop.values import NO_USAGE
from outlast.loop.view import ViewEdit, edited, places_in_transcript, shown, size

LEAST_KEPT: Final = 0.3
"""The share of the view that stays as it is, at least: the newest items, by their length."""

LEAST_SUMMARISED: Final = 0.2
"""The share of the view that a summary replaces, at least; a shorter one is not worth a call."""


def wanted(state: LoopState, need: CompactionNeed) -> LoopState:
    """Note whether a reply asks for a shorter view."""
    if need == state.compaction.wants:
        return state
    return revised(state, compaction=replace(state.compaction, wants=need))


def begun(state: LoopState) -> LoopState:
    """Begin to summarize the older part of the view, if the last reply asked for it and it can be.

    Returns:
        The same state if there is nothing to do.
    """
    state = _without_stale(state)
    wants = state.compaction.wants
    if not wants or state.closing is not None or pending(state) is not None:
        return state
    state = revised(state, compaction=replace(state.compaction, wants=""))
    if state.server.thread is not None:  # the provider has the conversation
        return state
    if state.compaction.ready is not None:  # the next call reads less than the last one
        return state
    length = len(state.items)
    entries = cut(shown(state.view, state.items, length))
    places = places_in_transcript(state.view, length, (entries - 1,))
    if not places:  # there is nothing to cut, or only another summary
        return state
    effect = effect_factory.compaction(state, entries, places[0], first=wants == "first")
    return effect_factory.issue(state, effect)


def _without_stale(state: LoopState) -> LoopState:
    """Give up a summary whose part of the view has changed meanwhile, such as by a handoff."""
    effect = pending(state)
    if effect is None:
        return state
    has_more = effect.entries < size(state.view, effect.input_length)
    if has_more and _begins_as_it_was(state, effect.entries, effect.place):
        return state
    rest = tuple(one for one in state.pending if one is not effect)
    return revised(state, pending=rest)


def _begins_as_it_was(state: LoopState, entries: int, place: int) -> bool:
    length = len(state.items)
    found = places_in_transcript(state.view, length, (entries - 1,))
    return found == (place,)


def cut(entries: Sequence[Item]) -> int:
    """Return how many of the entries of a view a summary replaces; 0 for none.

    The newest part stays. No call is separated from its output, nor reasoning from what follows it.
    """
    sizes = [len(json.dumps(one.raw)) for one in entries]
    total, kept, found = sum(sizes), 0, 0
    open_after = _open_calls(entries)
    for at in range(len(entries) - 1, 0, -1):
        kept += sizes[at]
        if kept >= LEAST_KEPT * total and _may_cut(entries, at) and not open_after[at - 1]:
            found = at
            break
    return found if total - kept >= LEAST_SUMMARISED * total else 0


def _may_cut(entries: Sequence[Item], at: int) -> bool:
    """Whether a question or a reply of the model begins with an entry."""
    begins, before = entries[at].raw, entries[at - 1].raw
    is_between = begins.get("role") == "user" or before.get("type") in FORM_OF_OUTPUT
    return is_between and before.get("type") != "reasoning"


def _open_calls(entries: Sequence[Item]) -> list[bool]:
    """Return for each entry whether a call has no output up to it."""
    waiting, found = Counter[str](), list[bool]()  # some models repeat the ids of their calls
    for one in entries:
        if is_call(one.raw):
            waiting[call_id_of(one.raw)] += 1
        elif one.raw.get("type") in FORM_OF_OUTPUT:
            waiting[call_id_of(one.raw)] -= 1
        found.append(any(count > 0 for count in waiting.values()))
    return found


def pending(state: LoopState) -> CompactView | None:
    """Return the effect that summarizes the view at present, if there is one."""
    return next((one for one in state.pending if isinstance(one, CompactView)), None)


def holds_back(state: LoopState) -> bool:
    """Whether the next model call waits for the summary, since the window is nearly full."""
    effect = pending(state)
    return effect is not None and effect.first and state.cancel is None and state.hold is None


def summarised(state: LoopState, effect: CompactView, result: ViewSummary, at_ms: int) -> LoopState:
    """Keep a summary until the next model call; its tokens count at once, also if it is not used."""
    state = revised(state, context=apply(state.context, result.changes))
    if result.failure is not None:  # the next reply asks for it again
        state = with_ignored(state, at_ms, "compaction", result.failure.message)
    if not result.items and result.usage == NO_USAGE:
        return state
    by_model = result.usage != NO_USAGE  # it may have no name of its own: a provider's default
    done = Compacted(
        at_ms=at_ms,
        agent=effect.agent,
        model=result.model or (state.model if by_model else ""),
        question=len(state.answers),
        entries=effect.entries if result.items else 0,
        place=effect.place,
        items=result.items,
        usage=result.usage,
    )
    state = revised(state, usage=state.usage.plus(result.usage))
    ready = done if result.items else None
    made = (*state.compaction.made, replace(done, items=()))
    return revised(state, compaction=replace(state.compaction, ready=ready, made=made))


def applied(state: LoopState) -> LoopState:
    """Let the model read the summary from now on, unless the view has changed in the meantime."""
    ready = state.compaction.ready
    if ready is None:
        return state
    state = revised(state, compaction=replace(state.compaction, ready=None))
    length = len(state.items)
    if not _begins_as_it_was(state, ready.entries, ready.place):
        return state
    whole = size(state.view, length)
    history = state.view.history - ready.entries + len(ready.items)
    edit = ViewEdit(
        segments=(*ready.items, (ready.entries, whole)), history=max(history, len(ready.items))
    )
    return revised(state, view=edited(state.view, length, edit))
