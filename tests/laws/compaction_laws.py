"""What holds of every step of a run whose view becomes shorter, by rules of its own.

It must not use `outlast.loop.compaction`, which is what it checks.
"""

from collections.abc import Sequence

from outlast.loop.call_forms import FORM_OF_OUTPUT, is_call
from outlast.loop.calls import ViewSummary
from outlast.loop.effects import CallModel, Command, CompactView, EffectAnswered
from outlast.loop.events import Event, RetryRequested
from outlast.loop.items import call_id_of
from outlast.loop.state import LoopState
from outlast.loop.view import shown


def check_compaction(
    before: LoopState, event: Event, after: LoopState, commands: Sequence[Command]
) -> None:
    """Check one step: what the model reads may become shorter, and what people read does not."""
    if isinstance(event, EffectAnswered) and isinstance(event.result, ViewSummary):
        check_transcript(before, event.effect, event.result, after)
    assert sum(isinstance(one, CompactView) for one in after.pending) <= 1, "two summaries at once"
    for command in commands:
        if isinstance(command, CallModel):
            asked_again = isinstance(event, RetryRequested) or command.begun is not None
            begins = before.phase != "checking" and not asked_again
            check_model_call(after, command, begins=begins)
        if isinstance(command, CompactView):
            check_part(after, command)


def check_transcript(before: LoopState, effect: int, result: ViewSummary, after: LoopState) -> None:
    """L30: a summary changes no item, and its tokens count once."""
    assert after.items[: len(before.items)] == before.items
    known = {one.effect for one in before.pending}
    is_pending = effect in known and after.usage != before.usage
    more = result.usage.total_tokens if is_pending else 0
    assert after.usage.total_tokens == before.usage.total_tokens + more


def check_model_call(after: LoopState, call: CallModel, *, begins: bool) -> None:
    """L31: a turn waits where the window is nearly full; no call is separated from its output."""
    waits = any(isinstance(one, CompactView) and one.first for one in after.pending)
    assert not (waits and begins), "a model call did not wait for the summary"
    if len(after.handoff_path) > 1:  # a filter may leave out anything
        return
    raws = [one.raw for one in shown(after.view, after.items, call.input_length)]
    calls = {call_id_of(one) for one in raws if is_call(one)}
    outputs = {call_id_of(one) for one in raws if one.get("type") in FORM_OF_OUTPUT}
    assert outputs <= calls, "an output without its call"


def check_part(after: LoopState, effect: CompactView) -> None:
    """L32: the newest part of the view stays, and calls without an output with it."""
    entries = shown(after.view, after.items, effect.input_length)
    assert 0 < effect.entries < len(entries)
    older = [one.raw for one in entries[: effect.entries]]
    outputs = [call_id_of(one) for one in older if one.get("type") in FORM_OF_OUTPUT]
    missing = [call_id_of(one) for one in older if is_call(one)]
    assert set(missing) <= set(outputs), "a call is summarised before its output is there"
