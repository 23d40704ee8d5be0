"""Resumes a run that waits for people.

Sends decisions and messages in an order in which all count, and each only once.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from outlast.agents.context.codec import write_context
from outlast.agents.errors import DecisionRefused, RunClosed, RunNotFound, UserError
from outlast.client.handle import RunHandle
from outlast.client.people.nested_requests import request_in, state_of
from outlast.client.read.read_range import ReadRange
from outlast.client.results.run_state import RunState, StagedDecision
from outlast.client.start.resumed_settings import PassedSettings, check_resumed
from outlast.loop import state as loop
from outlast.loop.votes import settled_problem
from outlast.views.run import loop_state


async def resume(
    handle: RunHandle,
    staged: RunState,
    *,
    context: Any = None,
    passed: PassedSettings | None = None,
    follow: Callable[[], Awaitable[None]] | None = None,
) -> ReadRange:
    """Send a run its decisions and messages, and return the range to read now.

    `follow` hosts the run and gives it the objects of this call, once nothing is refused.

    Raises:
        DecisionRefused: somebody else has decided differently in the meantime.
        RunClosed: the run was cancelled, or has ended and takes no more messages.
        RunNotFound: there is no such run here.
        UserError: the run is on no server, or has another context or other settings.
    """
    if staged.snapshot is not None:
        raise UserError(
            f"The run {staged.run_id!r} was run in memory and is on no server. Resume it with "
            "run_in_memory(agent, state, ...)."
        )
    snapshot, begins = await handle.present()
    state = loop_state(snapshot)
    if state.outcome == "cancelled":
        raise RunClosed(
            f"The run {staged.run_id!r} was cancelled and cannot go on. Start a new run: "
            "Runner.run(result.last_agent, result.to_input_list(mode='normalized'))."
        )
    if passed is not None:
        await check_resumed(handle, state, passed)
    if context is not None and write_context(context, state.context) != state.context:
        raise UserError(
            f"The run {staged.run_id!r} already has its context, with the changes of its callables, "
            "and the context cannot be replaced. Leave context= out."
        )
    if follow is not None:
        await follow()
        snapshot, begins = await handle.present()  # with what was sent while nobody hosted the run
        state = loop_state(snapshot)
    # Send messages before decisions, or the run might end before it gets them.
    for message in staged.staged_input():
        if not loop.has_message(state, message.message_id):
            await handle.send(message.input, message_id=message.message_id)
    decisions = staged.staged_decisions()
    for decision in decisions:
        await _send(handle, state, decision)
    sent = bool(decisions or staged.staged_input())
    _, settles = await handle.present() if sent else (snapshot, begins)
    staged.clear_pending_input()  # the run has it now
    return ReadRange(
        begins=begins,
        settles=settles,
        without=frozenset(
            (decision.run_id, decision.decision.request_id) for decision in decisions
        ),
    )


async def _send(handle: RunHandle, state: loop.LoopState, one: StagedDecision) -> None:
    if not one.run_id:
        if not _is_made(state, one):
            await handle.decide(one.decision, nested_id="")
        return
    try:
        await handle.decide(one.decision, nested_id=one.run_id)
    except (RunClosed, RunNotFound):  # it was decided before, in the same way or another
        nested = await state_of(one.run_id, handle.client)
        if nested is not None:
            _is_made(nested, one)


def _is_made(state: loop.LoopState, one: StagedDecision) -> bool:
    request = request_in(state, one.decision.request_id)
    if request is None or request.status == "pending":
        return False
    made = [vote.decision for vote in request.votes]
    if one.decision.type not in {
        decision.type for decision in (*made, request.decision) if decision
    }:
        raise DecisionRefused(f"Approval {request.id}{settled_problem(request)}")
    return True
