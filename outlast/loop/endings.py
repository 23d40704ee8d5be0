"""How a question and a run end: answered, failed, cancelled, closed."""

from collections.abc import Sequence
from dataclasses import replace

from outlast.loop import effect_factory, ledger, outside, phrases
from outlast.loop.approvals import ApprovalStatus
from outlast.loop.calls import Call, ModelReply
from outlast.loop.changes import apply
from outlast.loop.checks import Candidate, FinalizedAnswer
from outlast.loop.effects import OUTLIVING_FAILURE, CallModel, Effect
from outlast.loop.events import CancelRequested, RunEnded
from outlast.loop.items import Item, last_words, refusal_of, text_of
from outlast.loop.revision import revised, revised_call
from outlast.loop.state import Answer, Ending, Gate, LoopState, visible_item_count
from outlast.loop.transcript import drop_gate, last_message, record_outputs, withhold_turn
from outlast.loop.values import Failure, Json, JsonObject

# --- An answer ------------------------------------------------------------------------------------


def end_of_reply(state: LoopState, reply: ModelReply) -> LoopState:
    """Take a reply without calls: its last message is the answer, or the model goes on."""
    if reply.final == "again":
        return revised(state, phase="turned")
    index = last_message(state, len(reply.items))
    if reply.final == "value":
        return set_candidate(state, Candidate(output=reply.value, item=index))
    raw = state.items[index].raw if index is not None else {}
    refused = refusal_of(raw)
    if refused is not None:
        return fail_question(state, Failure(code="model_refusal", message=refused))
    return set_candidate(state, Candidate(output=text_of(raw), item=index))


def set_candidate(state: LoopState, candidate: Candidate) -> LoopState:
    """Set the answer, which is final once it passes finalizing."""
    return revised(state, phase="finalizing", candidate=candidate)


def finalize(state: LoopState, candidate: Candidate, at_ms: int) -> LoopState:
    """Answer at once, or first run the user code that finalizes the answer."""
    is_due = "finalize_answer" in state.required_steps
    if candidate.failure is None and not candidate.outcomes and not is_due:
        return _give_answer(state, candidate.output, candidate.item, at_ms)
    return effect_factory.issue(state, effect_factory.finalization(state, candidate))


def answer_finalized(state: LoopState, finalized: FinalizedAnswer, at_ms: int) -> LoopState:
    """Apply the result of finalizing."""
    candidate = state.question.candidate or Candidate()
    state = revised(
        state,
        context=apply(state.context, finalized.changes),
        guardrails=(*state.question.guardrails, *finalized.results),
    )
    if candidate.failure is not None and _failure_is_final(candidate.failure, finalized):
        return settle_unanswered(state, candidate.failure)
    index = candidate.item
    if finalized.message is not None and finalized.failure is None:
        index = len(state.items)
        said = Item("message", finalized.message, state.agent)
        state = revised(state, items=(*state.items, said))
    if finalized.failure is not None:
        return _not_answered(state, candidate, finalized, finalized.failure)
    if not finalized.final:
        return revised(state, phase="turned", candidate=None)
    output = finalized.output if finalized.replaced else candidate.output
    if _is_blocked(finalized):
        return answer(_withhold(state, candidate, finalized), output, index)
    return _give_answer(state, output, index, at_ms)


def finalizing_failed(state: LoopState, failure: Failure) -> LoopState:
    """Fail the question after its answer could not be finalized."""
    candidate = state.question.candidate or Candidate()
    return _not_answered(state, candidate, FinalizedAnswer(), failure)


def _failure_is_final(failure: Failure, finalized: FinalizedAnswer) -> bool:
    """Whether a failure stands; after an empty answer, the model may be called again."""
    return finalized.declined or not (finalized.final or failure.code == "invalid_final_output")


def _give_answer(state: LoopState, output: Json, item: int | None, at_ms: int) -> LoopState:
    """Answer the question, or request approval of the answer first."""
    terms = state.question.answer_terms
    if terms is None:
        return answer(ledger.queue(state), output, item)
    request = effect_factory.answer_approval(state, output, terms, at_ms)
    visible = visible_item_count(state)
    gate = Gate(
        request_id=request.id,
        output=output,
        item=item,
        shown=visible if item is None else min(visible, item),
        failure=(state.question.candidate or Candidate()).failure,
    )
    return revised(
        state,
        phase="asking",
        candidate=None,
        approvals=(*state.approvals, request),
        gate=gate,
    )


def answer(state: LoopState, output: Json, item: int | None) -> LoopState:
    """Answer the question; the next one begins."""
    # Guardrails passed the empty answer, but not the earlier items, which must not replace it.
    is_guarded = any(record.stage == "output" for record in state.question.guardrails)
    if state.start.parent is not None and not is_guarded and (output is None or output == ""):
        output = last_words(state.items[state.question.replies_from :])
    given = Answer(state.question.answering, item, state.agent)
    return next_question(with_answer(state, given, output, None))


def reject_answer(state: LoopState, gate: Gate, why: str | None) -> LoopState:
    """Let the model answer anew; it reads why, and users and sessions get neither.

    An error handler's answer is not made anew: the question fails with the handler's failure.
    """
    if gate.failure is not None:
        return settle_unanswered(state, gate.failure)
    state = drop_gate(state)
    note: JsonObject = {"role": "developer", "content": phrases.answer_rejected(why)}
    items = (*state.items, Item("note", note))
    hidden = (*state.hidden, len(state.items))
    return revised(state, phase="turned", items=items, hidden=hidden)


def _withhold(state: LoopState, candidate: Candidate, finalized: FinalizedAnswer) -> LoopState:
    """Withhold the newest turn; the session gets its tool call at most, not the output."""
    if candidate.failure is not None:  # a handler's answer was never in the transcript
        return ledger.skip(state)
    default = phrases.WITHHELD if _is_blocked(finalized) else phrases.UNCHECKED
    placeholder = finalized.withheld or default
    state = withhold_turn(state, placeholder)
    if candidate.tool_made:
        return ledger.queue(state, withheld=placeholder)
    return ledger.skip(state)


def _is_blocked(finalized: FinalizedAnswer) -> bool:
    return any(record.stage == "output" and record.tripped for record in finalized.results)


# --- No answer ------------------------------------------------------------------------------------


def fail_question(state: LoopState, failure: Failure) -> LoopState:
    """Fail the question, unless a handler turns the failure into an answer."""
    if not is_handled(state, failure):
        return settle_unanswered(state, failure)
    keep = OUTLIVING_FAILURE | {"check_input"}
    state = cancel_pending(state, phrases.NOT_RUN, keep=keep)
    return set_candidate(state, Candidate(failure=failure))


def is_handled(state: LoopState, failure: Failure) -> bool:
    """Whether a handler may turn a failure into an answer."""
    return failure.code in state.start.handled or "*" in state.start.handled


def _not_answered(
    state: LoopState, candidate: Candidate, finalized: FinalizedAnswer, failure: Failure
) -> LoopState:
    """Fail the question; withhold an answer that guardrails blocked or did not fully check."""
    if _is_blocked(finalized) or "check_output" in state.required_steps:
        return settle_unanswered(_withhold(state, candidate, finalized), failure)
    return settle_unanswered(ledger.queue(state), failure)


def settle_unanswered(state: LoopState, failure: Failure) -> LoopState:
    """End the question without an answer; a conversation stays open, a run closes."""
    state = ledger.block_unchecked(cancel_pending(state, phrases.NOT_RUN, keep=OUTLIVING_FAILURE))
    given = Answer(state.question.answering, None, state.agent, failure)
    state = ledger.skip(with_answer(state, given, None, failure))
    if state.start.keep_open or state.hold is not None:
        return next_question(state)
    return close(state, "failed")


def with_answer(
    state: LoopState, given: Answer, output: Json, failure: Failure | None
) -> LoopState:
    """Record the answer of the question, or why there is none."""
    return revised(
        state,
        answers=(*state.answers, replace(given, authors=state.question.authors)),
        answering=(),
        authors=(),
        candidate=None,
        final_output=output,
        failure=failure,
        turn=0,
    )


def next_question(state: LoopState) -> LoopState:
    """Start the next question, wait for one, or close."""
    if state.cancel is not None:
        return _close_when_idle(state)
    if state.inbox or state.hold is not None:
        return revised(state, phase="turned")
    if state.start.keep_open:
        return revised(state, phase="idle")
    return _close_when_idle(state)


# --- Cancellation ---------------------------------------------------------------------------------


def cancel_requested(state: LoopState, event: CancelRequested) -> LoopState:
    """Cancel the run immediately or after the turn; `_go_on` stops a turn that waits for people."""
    if event.mode == "immediate":
        return _cancel_now(state)
    if state.phase == "closing":
        return state
    rests = state.phase == "held" and not state.question.answering
    if rests or state.phase == "idle":
        return _close_when_idle(state)
    phase = "turned" if state.phase == "held" else state.phase
    return revised(state, cancel="after_turn", phase=phase)


def _cancel_now(state: LoopState) -> LoopState:
    """Stop immediately, and cancel everything that is pending."""
    state = cancel_pending(state, phrases.CANCELLED)
    return close(ledger.give_up(revised(state, candidate=None)), "cancelled")


def stop_waiting(state: LoopState) -> LoopState:
    """Stop a turn that only waits for people, and save its finished calls."""
    may_be_withheld = ledger.may_be_withheld(state)
    keep = frozenset({"save_session", "notify_people"})
    state = cancel_pending(state, phrases.CANCELLED, keep=keep)
    return close(state if may_be_withheld else ledger.queue(state), "cancelled")


def stop_thinking(state: LoopState) -> LoopState:
    """Cancel the model call under way; the turn counts."""
    calls = tuple(one for one in state.pending if isinstance(one, CallModel))
    rest = tuple(one for one in state.pending if not isinstance(one, CallModel))
    return give_up_responses(revised(state, pending=rest, phase="turned"), calls)


def give_up_responses(state: LoopState, dropped: Sequence[Effect]) -> LoopState:
    """Let the provider stop the responses in the background of model calls that were dropped."""
    for one in dropped:
        if isinstance(one, CallModel) and one.begun is not None:
            state = effect_factory.issue(state, effect_factory.cancellation_of_response(state, one))
    return state


def cancel_pending(
    state: LoopState, output: str, *, keep: frozenset[str] = frozenset()
) -> LoopState:
    """Cancel pending effects; finished calls count, and calls not started get `output`.

    Tools that want to end what they began outside of the run do so, and the provider stops a
    response in the background.
    """
    dropped = state.calls
    calls = [
        call if call.status == "settled" else revised_call(call, output=_stopped(call, output))
        for call in state.calls
        if call.status != "recorded"
    ]
    keep |= {"clean_up", "cancel_response"}
    pending = tuple(effect for effect in state.pending if effect.kind in keep)
    given_up = tuple(effect for effect in state.pending if effect.kind not in keep)
    state = settle_requests(drop_gate(state), "cancelled")
    state = revised(state, calls=(), nested=(), pending=pending)
    state = outside.cleaned_up(record_outputs(state, calls), dropped)
    return give_up_responses(state, given_up)


def _stopped(call: Call, output: str) -> str:
    """Return the output of a call that does not end: a call that has begun may have taken effect."""
    return phrases.CANCELLED if call.status == "running" or call.may_have_begun else output


def settle_requests(
    state: LoopState, status: ApprovalStatus, *, but: Gate | None = None
) -> LoopState:
    """Settle every pending request without a decision, but for that of a gate."""
    kept = "" if but is None else but.request_id
    approvals = tuple(
        replace(one, status=status) if one.status == "pending" and one.id != kept else one
        for one in state.approvals
    )
    return revised(state, approvals=approvals)


# --- The end of the run ---------------------------------------------------------------------------


def close(state: LoopState, outcome: Ending) -> LoopState:
    """End the run as soon as everything is saved."""
    state = revised(ledger.give_up_answered(state), unsaid=(), phase="closing", closing=outcome)
    return ledger.retry_saving(state)


def _close_when_idle(state: LoopState) -> LoopState:
    """Close between two questions; the outcome of the last question is that of the run."""
    return close(state, "completed" if state.failure is None else "failed")


def saving_failed(state: LoopState, failure: Failure, at_ms: int) -> LoopState:
    """Keep items that the session did not accept; only a conversation retries."""
    if state.phase == "closing":
        outcome = "cancelled" if state.closing == "cancelled" else "failed"
        state = revised(state, closing=outcome, failure=state.failure or failure)
    elif not state.start.keep_open:
        state = settle_unanswered(state, failure)
    return ledger.saving_failed(state, failure, at_ms)


def run_ended(state: LoopState, event: RunEnded) -> LoopState:
    """Close a run that the engine ended: nothing is pending any more."""
    return revised(
        cancel_pending(state, phrases.CANCELLED),
        phase="closed",
        outcome=event.outcome,
        pending=(),
        failure=event.failure if event.failure is not None else state.failure,
        blocked=(),
        candidate=None,
        closing=None,
    )
