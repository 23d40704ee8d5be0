"""Going on with a run that waited for people.

Owns: what a `RunState` holds, sent to the run in an order in which all of it counts, and only
once, however often it is tried. Must not know: what comes of it.
"""

from typing import Any

from outlast.agents.context.codec import write_context
from outlast.agents.errors import DecisionRefused, RunClosed, RunNotFound, UserError
from outlast.client.handle import RunHandle
from outlast.client.nested_requests import request_in, state_of
from outlast.client.reading import ReadRange
from outlast.client.run_state import RunState, StagedDecision
from outlast.loop import state as loop


async def resume(handle: RunHandle, staged: RunState, *, context: Any = None) -> ReadRange:
    """Send a run what was decided and said, and return the part of it that is to be read now.

    Args:
        handle: the run.
        staged: what was decided and said.
        context: what a program gave as context; it has to be the run's own.

    Raises:
        DecisionRefused: somebody else has decided otherwise meanwhile.
        RunClosed: the run was cancelled, or has ended and takes no more messages.
        RunNotFound: there is no such run here.
        UserError: the run lives in no server, or has another context.
    """
    if staged.snapshot is not None:
        raise UserError(
            f"The run {staged.run_id!r} was run in memory and is on no server. Go on with "
            "run_in_memory(agent, state, ...)."
        )
    state, begins = await handle.present()
    if state.outcome == "cancelled":
        raise RunClosed(
            f"The run {staged.run_id!r} was cancelled and cannot go on. Go on with a new one: "
            "Runner.run(result.last_agent, result.to_input_list(mode='normalized'))."
        )
    if context is not None and write_context(context) != state.context:
        raise UserError(
            f"The run {staged.run_id!r} has its context already, as its callables have left it; it "
            "cannot be replaced. Leave context= out."
        )
    # First what is said, and then what lets the run go on, or it might end before it was told.
    for one in staged.staged_input():
        if not loop.has_message(state, one.message_id):
            await handle.send(one.input, message_id=one.message_id)
    decisions = staged.staged_decisions()
    for one in decisions:
        await _send(handle, state, one)
    sent = bool(decisions or staged.staged_input())
    _, settles = await handle.present() if sent else (state, begins)
    staged.clear_pending_input()  # the run has it now
    return ReadRange(
        begins=begins,
        settles=settles,
        without=frozenset((one.run_id, one.decision.request_id) for one in decisions),
    )


async def _send(handle: RunHandle, state: loop.LoopState, one: StagedDecision) -> None:
    """Send a decision, unless it was sent before.

    Raises:
        DecisionRefused: the run that asks has another one.
    """
    if not one.run_id:
        if not _is_made(state, one):
            await handle.decide(one.decision, nested_id="")
        return
    try:
        await handle.decide(one.decision, nested_id=one.run_id)
    except (RunClosed, RunNotFound):  # it was decided before, by this decision or by another
        nested = await state_of(one.run_id, handle.client)
        if nested is not None:
            _is_made(nested, one)


def _is_made(state: loop.LoopState, one: StagedDecision) -> bool:
    """Whether a run has this very decision, because it was sent before.

    Raises:
        DecisionRefused: the run has another one.
    """
    request = request_in(state, one.decision.request_id)
    if request is None or request.status == "pending":
        return False
    wanted = "approved" if one.decision.type == "approve" else "rejected"
    if request.status != wanted:
        raise DecisionRefused(f"Approval {request.id} is already {request.status}.")
    return True
