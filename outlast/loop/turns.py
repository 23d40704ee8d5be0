"""A turn: messages, guardrails, the model call, its calls, nested runs and handoffs."""

from collections.abc import Sequence
from dataclasses import replace

from outlast.loop import case_acts, compaction, effect_factory, ledger, outside, phrases, spending
from outlast.loop.approvals import Evidence, Remembered
from outlast.loop.aside import Aside, entries_read
from outlast.loop.call_forms import MAY_CALL, MCP_APPROVAL
from outlast.loop.calls import (
    AgentResult,
    Call,
    HandoffResult,
    ModelReply,
    PreparedRun,
    RequiredApproval,
    ToolResult,
)
from outlast.loop.changes import apply, clashes, diff
from outlast.loop.checks import ENDS_CALLER, INPUT_CHECKS, Candidate, CheckResult, ToolOutcome
from outlast.loop.effects import CallModel, CheckInput, RunAgent, RunTool
from outlast.loop.endings import (
    close,
    end_of_reply,
    fail_question,
    is_handled,
    set_candidate,
    settle_requests,
    stop_thinking,
    stop_waiting,
)
from outlast.loop.events import (
    BudgetLent,
    MessageReceived,
    MessageWithdrawn,
    NestedReported,
    RetryRequested,
)
from outlast.loop.items import Item
from outlast.loop.people import (
    ask_people,
    ask_to_go_on,
    covers,
    hold_for_team,
    leave_to_person,
    rejected,
    remembered,
    said_checked,
)
from outlast.loop.problems import retry_problem, sender_at, withdraw_problem
from outlast.loop.redacted import Redacted
from outlast.loop.revision import revised, revised_call
from outlast.loop.start import with_agent
from outlast.loop.state import (
    LoopState,
    NestedWaits,
    has_message,
    is_being_checked,
    line_call,
    stands_still,
)
from outlast.loop.transcript import (
    begin_question,
    call_of,
    change_view,
    record_messages,
    record_outputs,
    record_prepared_input,
    record_reply,
    storing,
    with_call,
    with_first_model,
    with_ignored,
)
from outlast.loop.values import Failure, Json, JsonObject, is_reference
from outlast.loop.view import shown

# --- Messages --------------------------------------------------------------------------------------


def message_received(state: LoopState, event: MessageReceived) -> LoopState:
    """Put a message into the inbox, once."""
    if has_message(state, event.message.id):
        return state
    state = case_acts.roused(state)
    phase = "turned" if state.phase in {"idle", "held"} else state.phase
    state = ledger.retry_saving(revised(state, inbox=(*state.inbox, event.message), phase=phase))
    if event.message.mode == "interrupt":
        return _interrupt(state)
    return outside.woken(state, event.at_ms)


def _interrupt(state: LoopState) -> LoopState:
    """Stop the model call and calls that have not begun, to answer the newest message.

    The model call under way is cancelled; tools that have begun run to their end.
    """
    if state.phase == "thinking" and line_call(state) is None:
        return stop_thinking(state)
    gate = state.gate
    if gate is not None and gate.budget is None:
        return settle_requests(state, "superseded")
    if state.phase != "acting":
        return state
    for index, call in enumerate(state.calls):
        if call.status in {"planned", "waiting", "parked"}:
            output = phrases.STOPPED_WAITING if call.may_have_begun else phrases.SUPERSEDED
            dropped = revised_call(call, status="settled", output=output, parked=None, looking=None)
            state = outside.cleaned_up(with_call(state, index, dropped), (call,))
    return settle_requests(state, "superseded", but=gate)


def message_withdrawn(state: LoopState, event: MessageWithdrawn) -> LoopState:
    """Forget a message that no question has taken yet."""
    problem = withdraw_problem(state, event.message_id)
    if problem is not None:
        return with_ignored(state, event.at_ms, f"withdraw {event.message_id:.80}", problem)
    rest = tuple(one for one in state.inbox if one.id != event.message_id)
    return revised(state, inbox=rest)


def retry_requested(state: LoopState, event: RetryRequested) -> LoopState:
    """Call the model again for the failed question, with everything that it has led to so far.

    Its items stay and are not recorded again: what the failed try has done is not repeated.
    Guardrails check the question anew, and what they did not pass may be saved if they pass it now.
    """
    problem = retry_problem(state, event.answers)
    if problem is not None:
        return with_ignored(state, event.at_ms, "retry", problem)
    *earlier, failed = state.answers
    state = revised(
        state,
        answers=(*earlier, replace(failed, to=())),
        answering=failed.to,
        authors=failed.authors,
        failure=None,
        guardrails=(),
    )
    state = with_first_model(ledger.retry_saving(ledger.retry_blocked(state)))
    budget = spending.used_up(state, event.at_ms)
    if budget is not None:
        return ask_to_go_on(state, budget, event.at_ms)
    return _check_question(state)


# --- How a turn begins -----------------------------------------------------------------------------


def run_prepared(state: LoopState, prepared: PreparedRun) -> LoopState:
    """Take the starting agent's definition, and the prepared input."""
    context = prepared.context if state.context is None else state.context
    context = apply(context, prepared.changes)
    state = revised(
        state,
        phase="turned" if state.inbox or state.hold is not None else "idle",
        model=prepared.model,
        context=context,
        required_steps=prepared.required_steps,
        notifies=prepared.notifies,
        notifies_later=prepared.notifies_later,
        notifies_mentions=prepared.notifies_mentions,
    )
    if prepared.stores:
        state = storing(state)
    if prepared.input is None:
        return state
    return ledger.add_prepared(record_prepared_input(state, prepared.input, prepared.old))


def begin_turn(state: LoopState, at_ms: int) -> LoopState:
    """Record new messages, check them, and then call the model.

    A person who holds the conversation reads the messages instead. A budget that is used up comes
    first.
    """
    if state.cancel is not None:
        return close(ledger.block_unchecked(ledger.queue(state)), "cancelled")
    is_held = state.hold is not None
    spent = state.start.max_turns is not None and state.question.turn >= state.start.max_turns
    state = _take_messages(state, at_ms, spent=spent and not is_held)
    if is_held:
        return leave_to_person(state)
    answered = ledger.answered_inputs(state)
    if answered and not INPUT_CHECKS.isdisjoint(state.required_steps):
        inputs = tuple(state.items[at] for at in answered)
        check = effect_factory.input_check(state, "added", inputs)
        return effect_factory.issue(revised(state, phase="checking"), check)
    if spent:
        message = phrases.turns_used_up(state.question.turn)
        return fail_question(state, Failure(code="max_turns_exceeded", message=message))
    budget = spending.used_up(state, at_ms)
    if budget is not None:
        return ask_to_go_on(state, budget, at_ms)
    if state.question.turn == 0:
        return _check_question(state)
    unchecked = state.question.unchecked_from
    if unchecked is not None:
        check = effect_factory.input_check(state, "added", state.items[unchecked:])
        return effect_factory.issue(revised(state, phase="checking"), check)
    return _ask_model(state)


def _take_messages(state: LoopState, at_ms: int, *, spent: bool) -> LoopState:
    """Record new messages; the first ones begin a question.

    Args:
        state: the state.
        at_ms: the time, in milliseconds since the epoch.
        spent: whether the question has used up its turns: a further message has its own budget.
    """
    first, before = not state.question.answering, len(state.items)
    if state.hold is not None and not state.inbox:
        return state
    if first:
        state = ledger.hide_blocked(state)
    if first or not spent:
        state = record_messages(state, all_of_them=first or state.hold is not None)
    checks = not spent and not INPUT_CHECKS.isdisjoint(state.required_steps)
    state = ledger.add_messages(state, before, checks=checks)
    if first:
        start = before if state.question.unchecked_from is None else state.question.unchecked_from
        state = revised(begin_question(state, at_ms), question_from=start)
    return state


def _check_question(state: LoopState) -> LoopState:
    """Run the input guardrails that come before the model call, if there are any."""
    if "check_first" not in state.required_steps:
        return _ask_model(state)
    everything = shown(state.view, state.items, len(state.items))
    check = effect_factory.input_check(state, "blocking", everything)
    return effect_factory.issue(revised(state, phase="checking"), check)


def _ask_model(state: LoopState) -> LoopState:
    """Call the model; parallel input guardrails run beside a question's first call."""
    state = compaction.applied(state)
    if state.question.turn == 0 and "check" in state.required_steps:
        everything = shown(state.view, state.items, len(state.items))
        check = effect_factory.input_check(state, "parallel", everything)
        state = effect_factory.issue(state, check)
    state = revised(state, phase="thinking", turn=state.question.turn + 1, turns=state.turns + 1)
    state = effect_factory.issue(state, effect_factory.model_call(state))
    return revised(state, starts=False)


def input_checked(
    state: LoopState, effect: CheckInput, result: CheckResult, at_ms: int
) -> LoopState:
    """Go on with what input guardrails passed; what they did not pass has no answer."""
    state = revised(state, context=apply(state.context, result.changes))
    if effect.stage == "said":
        return said_checked(state, result.failure, at_ms)
    if effect.stage == "added" and state.answered_unchecked:
        if result.failure is not None:
            what = "a message that a person answered"
            state = with_ignored(state, at_ms, what, result.failure.message)
        state = ledger.settle_answered(state, passed=result.failure is None)
        return revised(state, phase="turned")
    state = revised(state, guardrails=(*state.question.guardrails, *result.results))
    if result.failure is not None:
        return _not_passed(state, result.failure)
    if state.phase == "checking" and state.hold is not None and state.cancel is None:
        return revised(state, phase="turned")  # checked again when the person releases it
    if state.phase == "checking" and state.cancel is None:
        budget = spending.used_up(state, at_ms)
        if budget is not None:  # by a summary that was written meanwhile
            return ask_to_go_on(ledger.await_check(state, None), budget, at_ms)
        state = _ask_model(state)
        return state if is_being_checked(state) else ledger.await_check(state, None)
    state = ledger.await_check(state, None)
    return close(state, "cancelled") if state.phase == "checking" else state


def _not_passed(state: LoopState, failure: Failure) -> LoopState:
    """Fail the question, and keep it out of later model calls, checks and the session."""
    return ledger.block_unchecked(fail_question(state, failure))


# --- The model's reply -----------------------------------------------------------------------------


def model_called(state: LoopState, call: CallModel, reply: ModelReply, at_ms: int) -> LoopState:
    """Take the reply of a model call, or go on with it if the provider still makes the reply."""
    if reply.withheld:
        return _turn_withheld(state, call)
    if reply.refused:
        state = _without_refused(state, call, reply, at_ms)
    if reply.begun is None:
        return model_replied(state, reply, at_ms)
    state = revised(state, context=apply(state.context, reply.changes))
    return effect_factory.issue(state, effect_factory.model_call_again(state, call, reply.begun))


def _without_refused(state: LoopState, call: CallModel, reply: ModelReply, at_ms: int) -> LoopState:
    """Set aside what the provider refused: it took the request without it."""
    read = entries_read(state.view, state.items, call.input_length, call.aside, call.on_server)
    known = {one.place for one in state.aside}
    found: list[Aside] = []
    for one in reply.refused:
        if 0 <= one.entry < len(read):
            key = read[one.entry][0]
            item, digest = (key, "") if isinstance(key, int) else (None, key)
            found.append(
                Aside(item=item, digest=digest, part=one.part, reason=one.reason, at_ms=at_ms)
            )
    return revised(state, aside=(*state.aside, *(one for one in found if one.place not in known)))


def thread_lost(state: LoopState, call: CallModel, at_ms: int) -> LoopState:
    """Call the model again with the whole conversation, which the provider's server has no more.

    What came before the run, and only the server had, is lost: the model reads that it is.
    """
    thread, lost = state.server.thread, call.previous_response_id
    assert thread is not None  # noqa: S101  the call goes on from a response
    state = with_ignored(state, at_ms, f"response {lost!s:.80}", phrases.THREAD_LOST)
    if all(one.response_id != lost for one in state.responses):
        note: JsonObject = {"role": "developer", "content": phrases.EARLIER_PART_LOST}
        state = revised(state, items=(*state.items, Item("note", note)))
    thread = replace(thread, previous_response_id=None)
    state = revised(state, thread=thread, on_server=0, starts=call.starts)
    budget = spending.used_up(state, at_ms)
    if budget is not None:
        return ask_to_go_on(state, budget, at_ms)
    state = effect_factory.issue(state, effect_factory.model_call(state))
    return revised(state, starts=False)


def model_replied(state: LoopState, reply: ModelReply, at_ms: int) -> LoopState:
    """Record a reply, and act on its calls, or take it as the answer."""
    if reply.unchecked:
        return _check_anew(state, reply)
    state = record_reply(storing(state) if reply.stores else state, reply)
    state = compaction.wanted(state, reply.compaction)
    if reply.failure is not None:
        return fail_question(state, reply.failure)
    return begin_calls(state, at_ms) if reply.calls else end_of_reply(state, reply)


def _turn_withheld(state: LoopState, call: CallModel) -> LoopState:
    """Return to the end of the turn before; without a request to stop, the turn begins again."""
    return revised(
        state,
        phase="turned",
        turn=state.question.turn - 1,
        turns=state.turns - 1,
        starts=call.starts,
    )


def _check_anew(state: LoopState, reply: ModelReply) -> LoopState:
    """Run the input guardrails that the agent has now, and then call the model again."""
    state = revised(
        state,
        phase="turned",
        pending=tuple(one for one in state.pending if not isinstance(one, CheckInput)),
        required_steps=reply.required_steps,
        turn=state.question.turn - 1,
        starts=True,
    )
    return ledger.await_check_of_question(state)


def begin_calls(state: LoopState, at_ms: int, first: int = 0) -> LoopState:
    """Start every call from an index on that may start; request approval for the others."""
    state = revised(state, phase="acting")
    for index, call in enumerate(state.calls):
        gated = call.status == "held" and call.plan.approval is not None
        if index < first or not (call.status == "planned" or gated):
            continue
        kept = remembered(state, call)
        if kept is not None and kept.decision.type == "reject":  # whatever the rule says
            state = with_call(state, index, rejected(call, kept.decision))
        elif call.plan.approval is not None:
            request = effect_factory.approval(state, call, call.plan.approval, at_ms)
            sender = sender_at(state, at_ms, verified=kept is not None and kept.verified)
            if kept is None or not covers(kept, request, sender):
                state = ask_people(state, index, request)
            else:
                evidence = Evidence(
                    decisions=(kept.decision,),
                    requested_at_ms=at_ms,
                    run_id=kept.run_id,
                    authors=state.question.authors,
                )
                state = with_call(state, index, revised_call(call, evidence=evidence))
    return state


# --- Calls: which run, and what their outputs do ---------------------------------------------------


def act(state: LoopState) -> LoopState:
    """Start calls, and go on once every call is settled; a handoff waits for all other calls.

    Returns:
        The same state if there is nothing to do before something happens.
    """
    state = _start_calls(state)
    if any(call.status in {"waiting", "running", "parked"} for call in state.calls):
        if not stands_still(state):
            return state
        return _pause(state) if state.cancel is None else stop_waiting(state)
    if state.gate is not None:  # the nested runs that needed the budget have ended
        state = settle_requests(revised(state, gate=None), "superseded")
    state = record_outputs(state, [call for call in state.calls if call.status == "settled"])
    handoffs = tuple(call for call in state.calls if call.status == "held")
    if not handoffs:
        return _use_outputs(revised(state, calls=()), state.calls)
    winner, *others = handoffs
    ignored = [revised_call(call, output=phrases.HANDOFF_IGNORED) for call in others]
    state = revised(record_outputs(state, ignored), calls=(winner,))
    if not winner.plan.callback:
        return _switch_agent(state, HandoffResult())
    state = revised(state, phase="transferring")
    return effect_factory.issue(state, effect_factory.handoff_run(state, winner))


def _start_calls(state: LoopState) -> LoopState:
    """Start planned calls in their order, up to the parallel limit."""
    running = sum(call.status == "running" for call in state.calls)
    for index, call in enumerate(state.calls):
        if state.question.parallel is not None and running >= state.question.parallel:
            break
        if call.status == "planned" and call.form == MCP_APPROVAL:  # the provider runs the tool
            output = phrases.EDITED_ELSEWHERE if call.edited else MAY_CALL
            state = with_call(state, index, revised_call(call, status="settled", output=output))
        elif call.status == "planned":
            run = effect_factory.call_run(state, index)
            state = with_call(state, index, revised_call(call, status="running", effect=run.effect))
            state = effect_factory.issue(state, run)
            if isinstance(run, RunAgent) and run.budgets:
                lent = effect_factory.lent_to(run, state.question.responses_from)
                state = revised(state, lent=(*state.lent, lent))
            running += 1
    return state


def _pause(state: LoopState) -> LoopState:
    """Record finished calls before the run waits for people, which may take days."""
    state = _record_settled(state)
    return state if ledger.may_be_withheld(state) else ledger.queue(state)


def _record_settled(state: LoopState) -> LoopState:
    """Record the outputs of finished calls in the transcript, and what parked ones changed."""
    settled = [call for call in state.calls if call.status == "settled"]
    if not (settled or any(call.changes for call in state.calls)):
        return state
    state = record_outputs(state, settled, changed=state.calls)
    calls = tuple(
        revised_call(
            call, status="recorded" if call.status == "settled" else call.status, changes=()
        )
        for call in state.calls
    )
    return revised(state, calls=calls)


def _use_outputs(state: LoopState, calls: Sequence[Call]) -> LoopState:
    """Send the outputs to the model, take one as the answer, or let a rule decide."""
    if state.question.judged:
        outcomes = tuple(
            ToolOutcome(name=call.name, call_id=call.call_id, output=call.output, value=call.value)
            for call in calls
            if call.plan.kind != "unknown" and call.form != MCP_APPROVAL
        )
        if outcomes:
            return set_candidate(state, Candidate(outcomes=outcomes, tool_made=True))
    last = next((call for call in calls if call.plan.final), None)
    if last is None:
        return revised(state, phase="turned")
    output = last.output if last.value is None else last.value
    return set_candidate(state, Candidate(output=output, tool_made=True))


def tool_finished(state: LoopState, effect: RunTool, result: ToolResult, at_ms: int) -> LoopState:
    """Apply the result of a tool call; or ask people, or run the call again as an activity."""
    if result.required is not None:
        return _ask_again(state, call_of(state, effect), result.required, at_ms)
    if result.deferred:
        index = call_of(state, effect)
        call = state.calls[index]
        policy = replace(call.plan.policy, fast=False)
        call = revised_call(call, status="planned", plan=replace(call.plan, policy=policy))
        return with_call(state, index, call)
    if result.wait is not None:
        state = _with_clashes(state, effect, result, at_ms)
        return outside.park(state, effect, result, result.wait, at_ms)
    state = revised(state, guardrails=(*state.question.guardrails, *result.checks))
    if result.failure is not None:
        return _fail_with_call(state, effect, result.output, result.failure)
    state = _settle(_with_clashes(state, effect, result, at_ms), effect, result)
    return hold_for_team(state, result.team, at_ms) if result.team else state


def _ask_again(state: LoopState, index: int, required: RequiredApproval, at_ms: int) -> LoopState:
    """Let a call wait for the approval that a worker found missing."""
    call = state.calls[index]
    plan = replace(
        call.plan,
        approval=required,
        source=required.source,
        policy=replace(call.plan.policy, fast=False, defers=False),
    )
    arguments = required.arguments or call.arguments
    call = revised_call(call, plan=plan, arguments=arguments, evidence=None, effect=None)
    request = effect_factory.approval(state, call, required, at_ms)
    return ask_people(with_call(state, index, call), index, request)


def _with_clashes(
    state: LoopState, effect: RunTool | RunAgent, result: ToolResult, at_ms: int
) -> LoopState:
    """Note the fields that this call and one that ran beside it in another worker both set."""
    others = [
        one
        for one in state.calls
        if one.effect != effect.effect and (not result.host or one.host != result.host)
    ]
    paths = clashes(result.changes, [change for one in others for change in one.changes])
    if not paths:
        return state
    return with_ignored(state, at_ms, "context", phrases.clash(effect.name, paths))


def _settle(state: LoopState, effect: RunTool | RunAgent, result: ToolResult) -> LoopState:
    """Take over the result of a call, which is recorded when the reply's calls are."""
    index = call_of(state, effect)
    call = state.calls[index]
    output = result.output
    if call.edited:
        output = phrases.edited(output, call.arguments, _reason_of_edit(state, call))
    made = call if call.changes else result  # a tool that returned a wait ran in that attempt
    settled = revised_call(
        call,
        status="settled",
        output=output,
        value=result.value,
        changes=(*call.changes, *result.changes),
        host=made.host,
        order=made.order,
        custom_data=result.custom_data,
    )
    return with_call(state, index, settled)


def _reason_of_edit(state: LoopState, call: Call) -> str | None:
    """Return what the person who edited a call last said about it."""
    edits = (
        vote.decision
        for request in state.approvals
        if request.id == call.approval  # who forks a run may edit a call without a request
        for vote in reversed(request.votes)
        if vote.decision.type == "edit"
    )
    return next((one.message for one in edits), None)


def call_failed(state: LoopState, effect: RunTool | RunAgent, failure: Failure) -> LoopState:
    """Turn a failure into the call's output, unless the plan of the call is fatal."""
    state = _without_nested(state, effect)
    output = phrases.tool_failed(effect.name, failure.code)
    details = dict(failure.details or {})
    ends_caller = details.pop(ENDS_CALLER, False) is True
    if ends_caller or state.calls[call_of(state, effect)].plan.fatal:
        return _fail_with_call(state, effect, output, replace(failure, details=details or None))
    return _settle(state, effect, ToolResult(output=output))


def _fail_with_call(
    state: LoopState, effect: RunTool | RunAgent, output: Json, failure: Failure
) -> LoopState:
    if not is_handled(state, failure):  # a handler's answer is saved with the whole turn
        state = _save_finished_calls(state)
    index = call_of(state, effect)
    call = revised_call(state.calls[index], status="settled", output=output)
    return fail_question(with_call(state, index, call), failure)


def _save_finished_calls(state: LoopState) -> LoopState:
    """Queue finished calls for the session; otherwise the next run would repeat them."""
    done = {call.call_id for call in state.calls if call.status == "settled"}
    if not state.start.session or not done or ledger.may_be_withheld(state):
        return state
    return ledger.queue_calls(_record_settled(state), done)


# --- Nested runs -----------------------------------------------------------------------------------


def agent_finished(
    state: LoopState, effect: RunAgent, result: AgentResult, at_ms: int
) -> LoopState:
    """Apply the result of a nested run, with its usage and context changes."""
    state = revised(
        state,
        usage=state.usage.plus(result.usage),
        nested_uses=spending.with_nested(state, result.uses),
    )
    state = spending.settled(state, effect.nested_id, result.spent)
    state = _passed_up(state, effect.nested_id, result.remembered)
    state = _with_redacted(state, result.redacted)
    if result.required is not None:
        state, index = _without_nested(state, effect), call_of(state, effect)
        # A nested run is not believed what its call's arguments are.
        return _ask_again(state, index, replace(result.required, arguments=""), at_ms)
    if result.status != "completed":
        message = f"The run of {effect.target} was {result.status}."
        failure = result.failure or Failure(code="tool_failed", message=message)
        return call_failed(state, effect, failure)
    changes = diff(effect.context, result.context)
    output = result.final_output
    if not is_reference(output):
        output = phrases.as_text(output)
    as_tool = ToolResult(output=output, value=result.final_output, changes=changes)
    state = _without_nested(state, effect)
    return _settle(_with_clashes(state, effect, as_tool, at_ms), effect, as_tool)


def nested_reported(state: LoopState, event: NestedReported) -> LoopState:
    """Show what a nested run waits for; a cancelled run does not wait for it."""
    ours = (
        one
        for one in state.pending
        if isinstance(one, RunAgent) and one.nested_id == event.nested_id
    )
    effect = next(ours, None)
    if effect is None:
        return state
    # Anybody may have sent it: a request of another run must not pass for one of this run's.
    prefix = f"{effect.prefix}e{effect.effect}."
    if not all(
        one.id.startswith(prefix) and f"{one.run_id}/".startswith(f"{event.nested_id}/")
        for one in event.requests
    ):
        what, why = f"report of {event.nested_id:.80}", "It has requests of another run."
        return with_ignored(state, event.at_ms, what, why)
    others = tuple(one for one in state.nested if one.nested_id != event.nested_id)
    newest = NestedWaits(nested_id=event.nested_id, requests=event.requests, deliveries=event.waits)
    state = spending.with_report(state, event)
    return revised(_with_redacted(state, event.redacted), nested=(*others, newest))


def budget_lent(state: LoopState, event: BudgetLent) -> LoopState:
    """Go on with a larger share of the parent's budget."""
    budgets = state.start.budgets
    index = next((at for at, one in enumerate(budgets) if one.lent == event.index), None)
    more = 0 if index is None else event.share - spending.limit_of(state, index)
    if index is None or more <= 0:
        return state
    waits = state.phase == "asking" and state.gate is None
    return revised(
        state,
        extended=(*state.extended, (index, more)),
        wants=tuple(one for one in state.wants if one != index),
        phase="turned" if waits else state.phase,
    )


def _passed_up(state: LoopState, nested_id: str, remembered: Sequence[Remembered]) -> LoopState:
    """Keep the decisions that a nested run took for further calls of its agents."""
    kept = (
        replace(one, run_id="" if one.run_id == state.run_id else one.run_id or nested_id)
        for one in remembered
    )
    newer = tuple(one for one in kept if one not in state.remembered)
    return revised(state, remembered=(*state.remembered, *newer)) if newer else state


def _with_redacted(state: LoopState, redacted: Sequence[Redacted]) -> LoopState:
    """Hide from people what a nested run hides."""
    newer = tuple(one for one in redacted if one not in state.redacted)
    return revised(state, redacted=(*state.redacted, *newer)) if newer else state


def _without_nested(state: LoopState, effect: RunTool | RunAgent) -> LoopState:
    if isinstance(effect, RunTool):
        return state
    nested = tuple(one for one in state.nested if one.nested_id != effect.nested_id)
    return spending.without_wants(revised(state, nested=nested), effect.nested_id)


# --- Handoffs --------------------------------------------------------------------------------------


def handed_over(state: LoopState, result: HandoffResult, at_ms: int) -> LoopState:
    """Make another agent the active one, or ask people first."""
    if result.required is None:
        return _switch_agent(state, result)
    return _ask_again(revised(state, phase="acting"), 0, result.required, at_ms)


def _switch_agent(state: LoopState, result: HandoffResult) -> LoopState:
    """Make another agent the active one; its first turn begins."""
    call = state.calls[0]
    target, own_name = call.plan.target, call.plan.target_own_name
    if result.target is not None:
        target, own_name = result.target, result.target_own_name
        if result.target_changes is not None:
            state = revised(state, start=with_agent(state.start, target, result.target_changes))
    state = revised(state, context=apply(state.context, result.changes))
    told = phrases.handed_over(own_name or target) if result.output is None else result.output
    named = target if own_name or result.output is not None else ""  # the output names it otherwise
    state = record_outputs(state, [revised_call(call, output=told)], target=named)
    if result.edit is not None:
        # The provider's server has the unedited items, so the next call sends all items again.
        state = revised(change_view(state, result.edit), on_server=0)
    elif result.target is None and call.plan.target_compaction:
        state = compaction.wanted(state, call.plan.target_compaction)
    return revised(
        with_first_model(state),
        phase="turned",
        calls=(),
        agent=target,
        model=result.target_model or call.plan.target_model,
        required_steps=result.required_steps or call.plan.target_steps,
        handoff_path=(*state.handoff_path, target),
        starts=True,
    )
