"""What an effect's result does, its failure, or the lack of a worker that can carry it out."""

from collections.abc import Callable, Mapping
from typing import Any, Final, assert_never

from outlast.loop import (
    compaction,
    effect_factory,
    endings,
    fallback,
    hours,
    ledger,
    lines,
    people,
    phrases,
    turns,
    votes,
)
from outlast.loop.approvals import ApprovalRequest, Decision
from outlast.loop.checks import CheckResult
from outlast.loop.effects import (
    CallModel,
    CancelResponse,
    CheckInput,
    CleanUp,
    CompactView,
    CountHours,
    Effect,
    EffectEvent,
    EffectFailed,
    FinalizeAnswer,
    KeepLineOpen,
    NotifyPeople,
    OffloadItems,
    PrepareRun,
    RunAgent,
    RunHandoff,
    RunTool,
    SaveSession,
)
from outlast.loop.events import EffectBlocked, PersonActed
from outlast.loop.notices import Undelivered, undelivered
from outlast.loop.problems import sender_of
from outlast.loop.revision import revised
from outlast.loop.state import Blocked, LoopState
from outlast.loop.transcript import call_of, take_offload, with_call, with_ignored
from outlast.loop.values import Failure

RESPONSE_NOT_FOUND: Final = "response_not_found"
"""The reason of a model call that failed since its provider no longer has the previous response."""

MOST_UNDELIVERED: Final = 50
"""How many undelivered notices a run keeps."""


def effect_answered(state: LoopState, event: EffectEvent) -> LoopState:
    """Apply what became of an effect; nothing if the effect is not pending any more."""
    effect = next((one for one in state.pending if one.effect == event.effect), None)
    if effect is None:
        return state
    rest = revised(state, pending=tuple(one for one in state.pending if one is not effect))
    if isinstance(event, EffectFailed):
        return _effect_failed(rest, effect, event.failure, event.at_ms)
    if not isinstance(event.result, effect.result or type(None)):  # of another kind of effect
        return state
    return _DONE[type(effect)](rest, effect, event.result, event.at_ms)


_DONE: Final[Mapping[type[Effect], Callable[[LoopState, Any, Any, int], LoopState]]] = {
    PrepareRun: lambda rest, effect, result, at_ms: turns.run_prepared(rest, result),
    CheckInput: turns.input_checked,
    CallModel: turns.model_called,
    CancelResponse: lambda rest, effect, result, at_ms: rest,
    CompactView: compaction.summarised,
    RunTool: turns.tool_finished,
    CleanUp: lambda rest, effect, result, at_ms: rest,
    RunAgent: turns.agent_finished,
    RunHandoff: lambda rest, effect, result, at_ms: turns.handed_over(rest, result, at_ms),
    FinalizeAnswer: lambda rest, effect, result, at_ms: endings.answer_finalized(
        rest, result, at_ms
    ),
    SaveSession: lambda rest, effect, result, at_ms: ledger.saved(rest),
    OffloadItems: lambda rest, effect, result, at_ms: take_offload(rest, effect, result),
    KeepLineOpen: lambda rest, effect, result, at_ms: lines.reroute_model_call(rest),
    CountHours: lambda rest, effect, result, at_ms: hours.counted(rest, result, at_ms),
    NotifyPeople: lambda rest, effect, result, at_ms: _with_undelivered(rest, result.undelivered),
}
"""What the result of each kind of effect does: from the state without it, itself, result and time."""


def _effect_failed(  # noqa: C901, PLR0911, PLR0912  a row for each effect
    state: LoopState, effect: Effect, failure: Failure, at_ms: int
) -> LoopState:
    """Turn a call's failure into its output, unless its plan is fatal; end the run otherwise.

    A run that cannot be prepared closes, even a conversation: it has no agent.
    """
    match effect:
        case PrepareRun():
            return endings.close(revised(state, failure=failure), "failed")
        case CheckInput():
            return turns.input_checked(state, effect, CheckResult(failure=failure), at_ms)
        case CallModel() if _lost_its_thread(effect, failure):
            given_up = endings.give_up_responses(state, (effect,))
            return turns.thread_lost(given_up, effect, at_ms)
        case CallModel():
            return fallback.model_failed(state, effect, failure, at_ms)
        case RunHandoff():
            return endings.fail_question(state, failure)
        case FinalizeAnswer():
            return endings.finalizing_failed(state, failure)
        case SaveSession():
            return endings.saving_failed(state, failure, at_ms)
        case KeepLineOpen():  # nobody has heard of the line for too long
            return lines.reroute_model_call(state)
        case NotifyPeople():  # a run does not depend on who hears of it
            lost = tuple(undelivered(one, failure.message) for one in effect.notices)
            return _with_undelivered(state, lost)
        case CountHours():
            return hours.not_counted(state, effect, failure, at_ms)
        case OffloadItems():  # large content stays inline until a worker can store it
            return revised(state, stores=False)
        case CompactView():  # the next reply asks for it again
            return with_ignored(state, at_ms, "compaction", failure.message)
        case CancelResponse():
            what = f"cancel of response {effect.response_id:.80}"
            return with_ignored(state, at_ms, what, failure.message)
        case CleanUp():
            return with_ignored(state, at_ms, f"clean-up of {effect.name}", failure.message)
        case RunTool() | RunAgent():
            return turns.call_failed(state, effect, failure)
        case _:
            assert_never(effect)


def _lost_its_thread(call: CallModel, failure: Failure) -> bool:
    """Whether the provider does not have the response that a model call goes on from."""
    reason = (failure.details or {}).get("reason")
    return reason == RESPONSE_NOT_FOUND and call.previous_response_id is not None and not call.line


def effect_blocked(state: LoopState, event: EffectBlocked) -> LoopState:
    """Show that no worker can carry out an effect, until one can."""
    effect = next((one for one in state.pending if one.effect == event.effect), None)
    if effect is None:
        return state
    others = tuple(one for one in state.blocked if one.effect != event.effect)
    if not event.lacks:
        return revised(state, blocked=others) if others != state.blocked else state
    request = effect_factory.blocked_effect(state, effect, event.lacks, event.at_ms)
    newest = Blocked(effect=event.effect, at_ms=event.at_ms, lacks=event.lacks, request=request)
    return revised(state, blocked=(*others, newest))


def without_stale_blocks(state: LoopState) -> LoopState:
    """Forget the blocks of effects that are no longer pending."""
    if not state.blocked:
        return state
    pending = {effect.effect for effect in state.pending}
    kept = tuple(one for one in state.blocked if one.effect in pending)
    return state if kept == state.blocked else revised(state, blocked=kept)


def take_decision(state: LoopState, event: PersonActed[Decision]) -> LoopState:
    """Count a decision; one about a blocked effect gives the effect up."""
    for block in state.blocked:
        request = block.request
        if request is not None and request.id == event.action.request_id:
            sender = sender_of(state, event)
            request = votes.voted(request, event.action, sender, request.arguments)
            return _give_up(state, block, request)
    return people.take_decision(state, event)


def _give_up(state: LoopState, block: Blocked, request: ApprovalRequest) -> LoopState:
    """Go on without an effect that no worker can carry out: a person does not wait any more.

    The model reads a call's output. Anything else fails as if it had failed by itself.
    """
    effect = next(one for one in state.pending if one.effect == block.effect)
    decision = request.decision
    assert decision is not None  # noqa: S101  one person is enough to reject
    pending = tuple(one for one in state.pending if one is not effect)
    approvals = (*state.approvals, request)
    state = revised(state, pending=pending, approvals=approvals, starts=True)
    if isinstance(effect, RunTool):
        index = call_of(state, effect)
        return with_call(state, index, people.rejected(state.calls[index], decision))
    if isinstance(effect, RunHandoff):
        call = people.rejected(state.calls[0], decision)
        return revised(state, phase="acting", calls=(call,))
    message = phrases.given_up(decision.by, block.lacks, decision.message)
    failure = Failure(code="user_error", message=message)
    state = endings.give_up_responses(state, (effect,))
    if isinstance(effect, CallModel | CheckInput):  # a handler would wait for the worker, too
        return endings.settle_unanswered(state, failure)
    return _effect_failed(state, effect, failure, block.at_ms)


def _with_undelivered(state: LoopState, lost: tuple[Undelivered, ...]) -> LoopState:
    """Keep the newest notices that nobody has heard of."""
    newest = (*state.undelivered, *lost)[-MOST_UNDELIVERED:]
    return revised(state, undelivered=newest) if lost else state
