"""What holds of model calls whose response the provider makes in the background."""

from outlast.loop.calls import ModelReply
from outlast.loop.effects import CallModel, CancelResponse, EffectAnswered
from outlast.loop.events import Event, RunEnded
from outlast.loop.state import LoopState


def check_background(before: LoopState, event: Event, after: LoopState) -> None:
    """Check one step: no response is forgotten, and a model call that goes on is the same one."""
    known = {one.effect: one for one in before.pending if isinstance(one, CallModel)}
    call = known.get(event.effect) if isinstance(event, EffectAnswered) else None
    result = event.result if isinstance(event, EffectAnswered) else None
    reply = result if isinstance(result, ModelReply) and call is not None else None
    check_responses(known, event, after, reply, call)
    if reply is not None and call is not None and reply.begun is not None:
        check_goes_on(call, reply, before, after)


def check_responses(
    known: dict[int, CallModel],
    event: Event,
    after: LoopState,
    reply: ModelReply | None,
    call: CallModel | None,
) -> None:
    """L33: a response that was begun is waited for until it is read, or it is cancelled."""
    if isinstance(event, RunEnded):  # nothing can run any more
        return
    begun = {one.begun.response_id for one in known.values() if one.begun is not None}
    if reply is not None and call is not None:
        begun -= {call.begun.response_id} if call.begun is not None else set[str]()
        begun |= {reply.begun.response_id} if reply.begun is not None else set[str]()
    waited = {
        one.begun.response_id
        for one in after.pending
        if isinstance(one, CallModel) and one.begun is not None
    }
    cancelled = {one.response_id for one in after.pending if isinstance(one, CancelResponse)}
    assert begun <= waited | cancelled, "a response goes on for nobody"
    assert not waited & cancelled, "a response is cancelled that the run waits for"


def check_goes_on(call: CallModel, reply: ModelReply, before: LoopState, after: LoopState) -> None:
    """L34: a response that was begun is no turn, and the call for it asks the same."""
    assert after.responses == before.responses
    assert after.items[: call.input_length] == before.items[: call.input_length]
    again = [
        one for one in after.pending if isinstance(one, CallModel) and one.begun == reply.begun
    ]
    assert all(
        (one.turn, one.agent, one.input_length, one.on_server, one.previous_response_id)
        == (call.turn, call.agent, call.input_length, call.on_server, call.previous_response_id)
        for one in again
    ), "the model call changed while the provider makes its response"
