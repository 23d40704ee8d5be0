"""Requests of nested runs: which run asked, and how a request stands that waits no more.

Owns: finding the run by the request's id, where the run that it is nested in has forgotten it.
Must not know: how a decision is sent.
"""

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.client.history import RunReader
from outlast.client.sending import RunAddress
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.call_forms import name_of
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject


async def asker_of(
    request_id: str, root: LoopState, client: Client
) -> tuple[str, JsonObject | None]:
    """Return the nested run to send a decision to, and what came of the request in one that ended.

    Args:
        request_id: the request, such as `e3.a1`.
        root: the run that the decision was made at.
        client: the client.

    Returns:
        The run's id, empty where the run itself has to say what it knows of the request; and, of
        a nested run that has ended, the answer that it gave to the decision that counted.
    """
    for one in root.pending_approvals:
        if one.id == request_id:
            return one.run_id, None
    if root.phase == "closed":
        return "", None
    nested = await _run_that_asked(request_id, root, client)
    request = None if nested is None else request_in(nested, request_id)
    if nested is None or request is None:
        return "", None
    if nested.phase != "closed":
        return nested.run_id, None
    by = request.decision.by if request.decision else None
    return nested.run_id, {"status": request.status, "by": by}


async def state_of(run_id: str, client: Client) -> LoopState | None:
    """Return where a run is, or None if there is no such run, or no more.

    Raises:
        AgentsException: the server does not say.
    """
    try:
        return await RunReader(client, run_id).catch_up()
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return None
        raise await RunAddress(client, run_id).translated(error) from error


def request_in(run: LoopState, request_id: str) -> ApprovalRequest | None:
    """Return a request that a run made itself, or None."""
    return next((one for one in run.approvals if one.id == request_id), None)


async def _run_that_asked(request_id: str, run: LoopState, client: Client) -> LoopState | None:
    """Follow the id down: `e3.e5.a1` is a request of what step 5 of what step 3 began is.

    A nested run is named after its tool and its step; the id has the step only, and the transcript
    the tools. There are never many.
    """
    own = run.start.parent.prefix if run.start.parent else ""
    step, dot, _ = request_id.removeprefix(own).partition(".")
    if not dot:
        return run
    called = dict.fromkeys(name_of(item.raw) for item in run.items if item.kind == "tool_call")
    for name in called:
        nested = await state_of(f"{run.run_id}/{name}-{step.removeprefix('e')}", client)
        if nested is not None:
            return await _run_that_asked(request_id, nested, client)
    return None
