"""What holds where another of an agent's models is called, since one did not answer."""

from dataclasses import replace

from outlast.loop.effects import CallModel, EffectFailed
from outlast.loop.events import Event
from outlast.loop.state import LoopState


def follows(call: CallModel, event: Event, before: LoopState) -> bool:
    """Whether a model call is made by the model after the one whose failure an event tells."""
    failed = event.effect if isinstance(event, EffectFailed) else None
    return any(
        one.effect == failed and one.tried == call.tried[:-1] and len(call.tried) > len(one.tried)
        for one in before.pending
        if isinstance(one, CallModel)
    )


def check_fallback(before: LoopState, event: Event, after: LoopState) -> None:
    """L35: the next model is a later one, is asked the same, and the failed one is named."""
    known = {one.effect: one for one in before.pending if isinstance(one, CallModel)}
    failed = known.get(event.effect) if isinstance(event, EffectFailed) else None
    if failed is None:
        return
    for call in after.pending:
        if not isinstance(call, CallModel) or not follows(call, event, before):
            continue
        assert call.model_at > failed.model_at, "a model is called that has been tried"
        assert (after.turns, after.responses, after.items) == (
            before.turns,
            before.responses,
            before.items,
        ), "a model that does not answer is no turn"
        kept = {"model_at": failed.model_at, "tried": failed.tried, "begun": failed.begun}
        same = replace(call, effect=failed.effect, context=failed.context, **kept)
        assert same == failed, "the next model is asked something else"
        question = (after.question.model_at, after.question.tried)
        assert question == (call.model_at, call.tried), "the question forgets its model"
