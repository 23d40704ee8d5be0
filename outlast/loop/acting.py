"""How a turn acts: which calls run, wait for people, or are held back, and what comes of them.

Owns: the calls of one reply, from the plan to the last output. Must not know: how the next turn
begins; it says so with the phase `turned`.
"""

from collections.abc import Sequence
from dataclasses import replace

from outlast.loop import phrases, requests
from outlast.loop.answering import abandon, close, fail, is_handled, propose
from outlast.loop.approvals import Decision, Remembered
from outlast.loop.calls import AgentResult, Call, HandoffResult, ToolResult
from outlast.loop.changes import Change, apply, diff
from outlast.loop.checks import ENDS_CALLER, Candidate, ToolOutcome
from outlast.loop.effects import Command, RunAgent, RunTool
from outlast.loop.state import LoopState, Step, is_held, revised, waits_for_people
from outlast.loop.transcript import (
    call_of,
    change_view,
    note,
    note_calls,
    take_over,
    with_call,
)
from outlast.loop.values import Failure, Json, is_reference


def start_acting(state: LoopState, at_ms: int) -> Step:
    """Start every call that may start; ask people about those that may not."""
    state = revised(state, phase="acting")
    for index, call in enumerate(state.calls):
        if call.status != "planned":
            continue
        decision = _remembered(state, call)
        if decision is not None and decision.type == "reject":  # whatever the tool's rule says now
            state = with_call(state, index, _rejected(call, decision))
        elif decision is None and call.plan.needs_approval:
            state = _ask_people(state, index, at_ms)
    return continue_acting(state)


def decide(state: LoopState, decision: Decision, at_ms: int) -> Step:
    """Take over a decision that counts, for every waiting call that it goes for."""
    asked = next(one for one in state.approvals if one.id == decision.request_id)
    if decision.remember:
        kept = Remembered(agent=asked.agent, name=asked.name, decision=decision)
        state = revised(state, remembered=(*state.remembered, kept))
    for request in state.approvals:
        same = (request.agent, request.name) == (asked.agent, asked.name)
        if request.status == "pending" and (request is asked or (decision.remember and same)):
            state = _decide_one(state, request.id, decision, at_ms)
    return continue_acting(revised(state, starts=True))


def tool_finished(state: LoopState, effect: RunTool, result: ToolResult) -> Step:
    """Take over what a tool came to."""
    state = revised(state, guardrails=(*state.guardrails, *result.checks))
    if result.failure is not None:
        return _fail_with(state, effect, result.output, result.failure)
    return _settle(state, effect, result.output, result.value, result.changes)


def agent_finished(state: LoopState, effect: RunAgent, result: AgentResult) -> Step:
    """Take over what an agent that worked as a tool came to, also what it spent and changed."""
    state = revised(state, usage=state.usage.plus(result.usage))
    if result.status != "completed":
        message = f"The run of {effect.target} was {result.status}."
        failure = result.failure or Failure(code="tool_failed", message=message)
        return call_failed(state, effect, failure)
    changes = diff(effect.context, result.context)
    output = result.final_output
    if not is_reference(output):
        output = phrases.as_text(output)
    return _settle(_without_nested(state, effect), effect, output, result.final_output, changes)


def call_failed(state: LoopState, effect: RunTool | RunAgent, failure: Failure) -> Step:
    """A failure is told to the model, unless the call's plan says otherwise."""
    state = _without_nested(state, effect)
    output = phrases.tool_failed(effect.name, failure.code)
    details = dict(failure.details or {})
    ends_caller = details.pop(ENDS_CALLER, False) is True
    if ends_caller or state.calls[call_of(state, effect)].plan.fatal:
        return _fail_with(state, effect, output, replace(failure, details=details or None))
    return _settle(state, effect, output, None, ())


def continue_acting(state: LoopState) -> Step:
    """Go on when every call is settled; a handoff waits for all others."""
    state, commands = _start_calls(state)
    if any(call.status in {"planned", "waiting", "running"} for call in state.calls):
        if state.cancel is not None and waits_for_people(state):
            state, stops = stop_waiting(state)
            return state, (*commands, *stops)
        return (_pause(state) if waits_for_people(state) else state), commands
    state = take_over(state, [call for call in state.calls if call.status == "settled"])
    settled = [call for call in state.calls if call.status in {"settled", "told"}]
    handoffs = tuple(call for call in state.calls if call.status == "held")
    if not handoffs:
        return _end_of_calls(revised(state, calls=()), settled), commands
    winner, *others = handoffs
    ignored = [replace(call, output=phrases.HANDOFF_IGNORED) for call in others]
    state = revised(take_over(state, ignored), calls=(winner,))
    if not winner.plan.callback:
        state, further = hand_over(state, HandoffResult())
    else:
        state = revised(state, phase="transferring")
        state, further = requests.issue(state, requests.handoff_run(state, winner))
    return state, (*commands, *further)


def stop_waiting(state: LoopState) -> Step:
    """Stop a turn in which only people are waited for. What was done in it is saved."""
    may_be_blocked = _may_be_blocked(state)
    state, stops = abandon(state, phrases.CANCELLED, keep=frozenset({"save_session"}))
    state = state if may_be_blocked else note(state, len(state.items))
    return close(state, "cancelled"), stops


def hand_over(state: LoopState, result: HandoffResult) -> Step:
    """Make another agent the active one; its first turn begins."""
    call = state.calls[0]
    target = result.target or call.plan.target
    state = revised(state, context=apply(state.context, result.changes))
    state = take_over(state, [replace(call, output=phrases.handed_over(target))])
    if result.edit is not None:
        # What the provider's server has is not this view: it is told everything anew.
        state = revised(change_view(state, result.edit), known=0)
    state = revised(
        state,
        phase="turned",
        calls=(),
        agent=target,
        model=result.target_model or call.plan.target_model,
        required_steps=result.required_steps or call.plan.target_duties,
        handoff_path=(*state.handoff_path, target),
        starts=True,
    )
    return state, ()


def _pause(state: LoopState) -> LoopState:
    """Tell what has finished before people are waited for, which may take days."""
    state = _told(state)
    return state if _may_be_blocked(state) else note(state, len(state.items))


def _told(state: LoopState) -> LoopState:
    """Write the outputs of the calls that have finished into the transcript."""
    state = take_over(state, [call for call in state.calls if call.status == "settled"])
    calls = tuple(
        replace(call, status="told", changes=()) if call.status == "settled" else call
        for call in state.calls
    )
    return revised(state, calls=calls)


def _end_of_calls(state: LoopState, calls: Sequence[Call]) -> LoopState:
    """The outputs go to the model, or one of them is the answer, or a rule decides whether."""
    if state.judged:
        outcomes = tuple(
            ToolOutcome(name=call.name, call_id=call.call_id, output=call.output, value=call.value)
            for call in calls
            if call.plan.kind != "unknown"
        )
        if outcomes:
            return propose(state, Candidate(outcomes=outcomes, tool_made=True))
    last = next((call for call in calls if call.plan.final), None)
    if last is None:
        return revised(state, phase="turned")
    output = last.output if last.value is None else last.value
    return propose(state, Candidate(output=output, tool_made=True))


def _start_calls(state: LoopState) -> Step:
    """Start the calls that may run, in their order, as many as may run at once."""
    commands: list[Command] = []
    for index, call in enumerate(state.calls):
        running = sum(one.status == "running" for one in state.calls)
        if state.parallel is not None and running >= state.parallel:
            break
        if call.status == "planned":
            run = requests.call_run(state, index)
            state = with_call(state, index, replace(call, status="running", effect=run.effect))
            state, started = requests.issue(state, run)
            commands.extend(started)
    return state, tuple(commands)


def _settle(
    state: LoopState,
    effect: RunTool | RunAgent,
    output: Json,
    value: Json,
    changes: Sequence[Change],
) -> Step:
    index = call_of(state, effect)
    settled = replace(
        state.calls[index], status="settled", output=output, value=value, changes=tuple(changes)
    )
    return continue_acting(with_call(state, index, settled))


def _fail_with(
    state: LoopState, effect: RunTool | RunAgent, output: Json, failure: Failure
) -> Step:
    if not is_handled(state, failure):  # an answer that is made of it is saved with the whole turn
        state = _with_done_saved(state)
    index = call_of(state, effect)
    call = replace(state.calls[index], status="settled", output=output)
    return fail(with_call(state, index, call), failure)


def _with_done_saved(state: LoopState) -> LoopState:
    """Have the session get the calls of the turn that are done, or the next run makes them again."""
    done = {call.call_id for call in state.calls if call.status == "settled"}
    if not state.session or not done or _may_be_blocked(state):
        return state
    return note_calls(_told(state), done)


def _decide_one(state: LoopState, request_id: str, decision: Decision, at_ms: int) -> LoopState:
    approved = decision.type == "approve"
    approvals = tuple(
        replace(
            request,
            status="approved" if approved else "rejected",
            decision=decision,
            decided_at_ms=at_ms,
        )
        if request.id == request_id
        else request
        for request in state.approvals
    )
    state = revised(state, approvals=approvals)
    index, call = next(
        (index, one) for index, one in enumerate(state.calls) if one.approval == request_id
    )
    if approved:
        return with_call(state, index, replace(call, status="planned"))
    return with_call(state, index, _rejected(call, decision))


def _rejected(call: Call, decision: Decision) -> Call:
    output = decision.message or call.plan.rejection or phrases.REJECTED
    return replace(call, status="settled", output=output)


def _ask_people(state: LoopState, index: int, at_ms: int) -> LoopState:
    call = state.calls[index]
    request = requests.approval(state, call, at_ms)
    state = revised(state, approvals=(*state.approvals, request))
    return with_call(state, index, replace(call, status="waiting", approval=request.id))


def _remembered(state: LoopState, call: Call) -> Decision | None:
    """Return the newest decision that goes for every call of this tool by this agent."""
    for one in reversed(state.remembered):
        if (one.agent, one.name) == (state.agent, call.name):
            return one.decision
    return None


def _may_be_blocked(state: LoopState) -> bool:
    """Whether a guardrail may still take back what the turn has said so far."""
    ends = state.judged or any(call.plan.final for call in state.calls)
    return is_held(state) or (ends and "finalize_answer" in state.required_steps)


def _without_nested(state: LoopState, effect: RunTool | RunAgent) -> LoopState:
    if isinstance(effect, RunTool) or not state.nested:
        return state
    nested = tuple(one for one in state.nested if one.nested_id != effect.nested_id)
    return revised(state, nested=nested)
