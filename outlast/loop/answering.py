"""How a question ends: with an answer, with a failure, or because somebody stopped the run.

Owns: candidates and their conclusion, giving up, the end of a run, and what a session gets then.
Must not know: how a turn begins or acts; it says so with the phase `turned`, in which the next
turn begins.
"""

from dataclasses import replace

from outlast.loop import phrases, requests
from outlast.loop.calls import ModelReply
from outlast.loop.changes import apply
from outlast.loop.checks import Candidate, FinalizedAnswer
from outlast.loop.effects import CancelEffect, Command
from outlast.loop.events import RunEnded
from outlast.loop.items import Item, last_words, refusal_of, text_of
from outlast.loop.state import Answer, Ending, LoopState, SaveFailure, Step, revised
from outlast.loop.transcript import (
    drop_unchecked,
    last_message,
    note,
    take_over,
    withhold_turn,
)
from outlast.loop.values import Failure, Json


def end_of_reply(state: LoopState, reply: ModelReply) -> Step:
    """A reply without calls: an answer, or nothing yet. Only its last message counts."""
    if reply.final == "again":
        return revised(state, phase="turned"), ()
    index = last_message(state, len(reply.items))
    if reply.final == "value":
        return propose(state, Candidate(output=reply.value, item=index)), ()
    raw = state.items[index].raw if index is not None else {}
    refused = refusal_of(raw)
    if refused is not None:
        return fail(state, Failure(code="model_refusal", message=refused))
    return propose(state, Candidate(output=text_of(raw), item=index)), ()


def propose(state: LoopState, candidate: Candidate) -> LoopState:
    """Have an answer, which is given once it is concluded."""
    return revised(state, phase="finalizing", candidate=candidate)


def conclude(state: LoopState, candidate: Candidate) -> Step:
    """Give an answer, or first ask users' code what becomes of it."""
    is_due = "finalize_answer" in state.required_steps or state.trace is not None
    if candidate.failure is None and not candidate.outcomes and not is_due:
        return _answer(note(state, len(state.items)), candidate.output, candidate.item)
    return requests.issue(state, requests.conclusion(state, candidate))


def concluded(state: LoopState, conclusion: FinalizedAnswer) -> Step:
    """Take over what became of an answer."""
    if state.phase == "closing":
        return end_told(state), ()
    candidate = state.candidate or Candidate()
    state = revised(
        state,
        context=apply(state.context, conclusion.changes),
        guardrails=(*state.guardrails, *conclusion.results),
    )
    if candidate.failure is not None and (conclusion.declined or not conclusion.final):
        return give_up(state, candidate.failure)
    index = candidate.item
    if conclusion.message is not None and conclusion.failure is None:
        index = len(state.items)
        said = Item("message", conclusion.message, state.agent)
        state = revised(state, items=(*state.items, said))
    if conclusion.failure is not None:
        return _not_answered(state, candidate, conclusion, conclusion.failure)
    if not conclusion.final:
        return revised(state, phase="turned", candidate=None), ()
    output = conclusion.output if conclusion.replaced else candidate.output
    if _is_blocked(conclusion):
        return _answer(_withhold(state, candidate, conclusion), output, index)
    return _answer(note(state, len(state.items)), output, index)


def fail(state: LoopState, failure: Failure) -> Step:
    """The question cannot be answered, unless a handler makes an answer of the failure.

    Where the run is traced, its end is told in a conclusion, whether there is a handler or not.
    """
    handled = is_handled(state, failure)
    if not handled and state.trace is None:
        return give_up(state, failure)
    keep = {"save_session", "check_input"} if handled else {"save_session"}
    state, stops = abandon(state, phrases.NOT_RUN, keep=frozenset(keep))
    return propose(state, Candidate(failure=failure)), stops


def is_handled(state: LoopState, failure: Failure) -> bool:
    """Whether somebody may make an answer of a failure."""
    return failure.code in state.handled or "*" in state.handled


def next_question(state: LoopState) -> Step:
    """Take up the next question, wait for it, or close."""
    if state.cancel is not None:
        return close_gently(state), ()
    if state.inbox:
        return revised(state, phase="turned"), ()
    if state.keep_open:
        return revised(state, phase="idle"), ()
    return close(state, "completed"), ()


def cancel_now(state: LoopState) -> Step:
    """Stop at once, whatever is in flight."""
    if state.phase == "closing" and any(one.kind == "finalize_answer" for one in state.pending):
        return state, ()  # it has been stopped, and whoever listens is being told
    state, stops = abandon(state, phrases.CANCELLED, keep=frozenset())
    state = revised(state, candidate=None, to_save=(), noted=len(state.items))
    return close(state, "cancelled"), stops


def close_gently(state: LoopState) -> LoopState:
    """Close between two questions: how the last one ended is how the run ends."""
    return close(state, "completed" if state.failure is None else "failed")


def close(state: LoopState, outcome: Ending) -> LoopState:
    """End the run, as soon as everything is saved."""
    return retry_saving(revised(state, phase="closing", closing=outcome))


def finish(state: LoopState, outcome: Ending) -> Step:
    """Everything is done and saved. Where a question that is traced was stopped, tell of its end."""
    if state.trace is not None and state.trace.question == len(state.answers):
        stopped = Candidate(failure=Failure(code="cancelled", message=phrases.STOPPED))
        return requests.issue(state, requests.conclusion(state, stopped))
    state = revised(state, phase="closed", outcome=outcome, closing=None)
    return state, (requests.finish(state, outcome),)


def ended(state: LoopState, event: RunEnded) -> LoopState:
    """Close a run as the engine left it: nothing is in flight, and nobody is waited for."""
    state, _ = abandon(state, phrases.CANCELLED, keep=frozenset())
    return revised(
        state,
        phase="closed",
        outcome=event.outcome,
        failure=event.failure if event.failure is not None else state.failure,
        blocked=(),
        candidate=None,
        closing=None,
    )


def end_told(state: LoopState) -> LoopState:
    """Nothing is left to be told of the run: the end of its last question was, or cannot be."""
    return revised(state, trace=None)


def saved(state: LoopState) -> LoopState:
    """The session has the oldest of what was queued for it."""
    left = state.to_save[1:]
    trouble = state.save_failure if left else None
    return revised(state, to_save=left, save_failure=trouble, has_saved=True)


def retry_saving(state: LoopState) -> LoopState:
    """Try again to save what the session did not take."""
    if state.save_failure is None:
        return state
    return revised(state, save_failure=replace(state.save_failure, retrying=True))


def save_failed(state: LoopState, failure: Failure, at_ms: int) -> Step:
    """Keep what the session did not take: a conversation tries again, any other run fails."""
    since = at_ms if state.save_failure is None else state.save_failure.at_ms
    trouble = SaveFailure(at_ms=since, failure=failure)
    if state.phase == "closing":
        why = state.failure or failure
        outcome = "cancelled" if state.closing == "cancelled" else "failed"
        return revised(state, save_failure=trouble, closing=outcome, failure=why), ()
    if state.keep_open:
        return revised(state, save_failure=trouble), ()
    state, commands = give_up(state, failure)
    return revised(state, save_failure=trouble), commands


def abandon(state: LoopState, output: str, *, keep: frozenset[str]) -> Step:
    """Stop what is in flight. What has finished counts; what has not begun gets `output`."""
    stopped = tuple(effect for effect in state.pending if effect.kind not in keep)
    stops: tuple[Command, ...] = tuple(CancelEffect(effect=one.effect) for one in stopped)
    outputs = {"settled": None, "running": phrases.CANCELLED}
    calls = [
        replace(call, output=outputs.get(call.status, output) or call.output)
        for call in state.calls
        if call.status != "told"
    ]
    approvals = tuple(
        replace(request, status="cancelled") if request.status == "pending" else request
        for request in state.approvals
    )
    pending = tuple(effect for effect in state.pending if effect not in stopped)
    state = revised(state, approvals=approvals, calls=(), nested=(), pending=pending)
    return take_over(state, calls), stops


def _answer(state: LoopState, output: Json, item: int | None) -> Step:
    # Guardrails have seen an empty answer, and nothing of what was said before it.
    is_guarded = any(record.stage == "output" for record in state.guardrails)
    if state.parent is not None and not is_guarded and (output is None or output == ""):
        output = last_words(state.items[state.asked_from :])
    answer = Answer(state.answering, item, state.agent)
    return next_question(_settled(state, answer, output, None))


def not_concluded(state: LoopState, failure: Failure) -> Step:
    """The check of an answer failed: it counts only where no guardrail had to pass it."""
    candidate = state.candidate or Candidate()
    return _not_answered(state, candidate, FinalizedAnswer(), failure)


def _not_answered(
    state: LoopState, candidate: Candidate, conclusion: FinalizedAnswer, failure: Failure
) -> Step:
    """An answer that guardrails blocked, or did not all pass, is not shown, saved or kept."""
    if _is_blocked(conclusion) or "check_output" in state.required_steps:
        return give_up(_withhold(state, candidate, conclusion), failure)
    return give_up(note(state, len(state.items)), failure)


def _withhold(state: LoopState, candidate: Candidate, conclusion: FinalizedAnswer) -> LoopState:
    """Withhold the newest turn; the session gets of it, at most, that a tool was called."""
    if candidate.failure is not None:  # a handler's answer was never in the transcript
        return revised(state, noted=len(state.items))
    default = phrases.WITHHELD if _is_blocked(conclusion) else phrases.UNCHECKED
    placeholder = conclusion.withheld or default
    state = withhold_turn(state, placeholder)
    if candidate.tool_made:
        return note(state, len(state.items), withheld=placeholder)
    return revised(state, noted=len(state.items))


def _is_blocked(conclusion: FinalizedAnswer) -> bool:
    return any(record.stage == "output" and record.tripped for record in conclusion.results)


def give_up(state: LoopState, failure: Failure) -> Step:
    """The question has no answer. A conversation says so and stays open; a run closes."""
    state, stops = abandon(state, phrases.NOT_RUN, keep=frozenset({"save_session"}))
    state = drop_unchecked(state)
    answer = Answer(state.answering, None, state.agent, failure)
    state = revised(_settled(state, answer, None, failure), noted=len(state.items))
    if state.keep_open:
        state, commands = next_question(state)
        return state, (*stops, *commands)
    return close(state, "failed"), stops


def _settled(state: LoopState, answer: Answer, output: Json, failure: Failure | None) -> LoopState:
    return revised(
        state,
        answers=(*state.answers, answer),
        answering=(),
        candidate=None,
        final_output=output,
        failure=failure,
        turn=0,
    )
