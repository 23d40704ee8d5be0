"""Reads the requests and waits of nested runs from the runs that made them.

A run forgets the requests of a nested run that has ended; the request's id leads to that run.
"""

from dataclasses import dataclass, replace

from temporalio.client import Client

from outlast.archive import workflow_handle
from outlast.client.read.history import RunReader
from outlast.client.results.pending_waits import PendingWait, pending_waits
from outlast.client.transport.run_address import unless_gone
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.call_forms import name_of
from outlast.loop.effects import RunAgent
from outlast.loop.state import LoopState
from outlast.views.proofs import Proof, ProofReader
from outlast.views.redaction import shown_request
from outlast.views.run import AnyState, RunSnapshot, loop_state, snapshot_of


@dataclass(frozen=True, slots=True)
class FoundRequest:
    """A request, and the state of the run that made it, which decides it.

    Attributes:
        request: the request; its `run_id` is the nested run, or empty for the root run's own.
        state: the state of that run.
    """

    request: ApprovalRequest
    state: RunSnapshot

    @property
    def shown(self) -> ApprovalRequest:
        """The request as everybody may see it, whatever their groups."""
        return shown_request(self.request, loop_state(self.state))

    def proofs(self, reader: ProofReader) -> tuple[Proof, ...]:
        """Return whether each vote is proven to a reader: it is read with what `shown` hides."""
        return reader.of_votes(self.request, loop_state(self.state))


async def found_requests(root: AnyState, client: Client) -> tuple[FoundRequest, ...]:
    """Return the pending requests of a run and of its nested runs, as they are now.

    Reports of nested runs are not read: one may be late, and anybody who reaches the server may
    send one. The nested runs are those that the run waits for, if the server says that they are
    nested in it.
    """
    state = loop_state(root)
    found = [FoundRequest(one, snapshot_of(state)) for one in state.own_requests]
    for nested in await _nested_runs(state, client):
        requests = (replace(one, run_id=nested.run_id) for one in nested.own_requests)
        found += [FoundRequest(one, snapshot_of(nested)) for one in requests]
    return tuple(found)


async def found_waits(root: AnyState, client: Client) -> tuple[PendingWait, ...]:
    """Return what the calls of a run and of its nested runs wait for outside, as they are now."""
    state = loop_state(root)
    nested = await _nested_runs(state, client)
    return tuple(wait for run in (state, *nested) for wait in pending_waits(run))


async def _nested_runs(root: LoopState, client: Client) -> list[LoopState]:
    """Return the states of the nested runs that a run waits for, and of those nested in them."""
    found = list[LoopState]()
    waiting = _nested_ids(root)
    while waiting:
        run_id = waiting.pop(0)
        nested = await state_of(run_id, client)
        if nested is not None and await is_nested_in(run_id, root.run_id, client):
            found.append(nested)
            waiting += _nested_ids(nested)
    return found


async def present_requests(root: AnyState, client: Client) -> tuple[ApprovalRequest, ...]:
    """Return the requests that `found_requests` finds."""
    return tuple(one.request for one in await found_requests(root, client))


async def find_request(request_id: str, root: AnyState, client: Client) -> FoundRequest | None:
    """Return a request of a run, or of a run nested in it, by its id, also if it is settled.

    Returns:
        The request, or None if there is none with this id.
    """
    state = loop_state(root)
    own = (*state.own_requests, *state.approvals)
    if (request := next((one for one in own if one.id == request_id), None)) is not None:
        return FoundRequest(request, snapshot_of(state))
    for found in await found_requests(state, client):
        if found.request.id == request_id:
            return found
    own_prefix = state.start.parent.prefix if state.start.parent else ""
    if "." not in request_id.removeprefix(own_prefix):
        return None
    nested = await _requesting_run(request_id, state, client)
    request = None if nested is None else request_in(nested, request_id)
    if nested is None or request is None:
        return None
    return FoundRequest(replace(request, run_id=nested.run_id), snapshot_of(nested))


def _nested_ids(run: LoopState) -> list[str]:
    return [one.nested_id for one in run.pending if isinstance(one, RunAgent)]


async def is_nested_in(run_id: str, root_id: str, client: Client) -> bool:
    """Whether a run was started by another one, or by a run nested in that one."""
    seen = {run_id}
    while True:
        described = workflow_handle(client, run_id).describe()
        description = await unless_gone(client, run_id, described)
        if description is None:
            return False
        run_id = description.parent_id or ""
        if run_id in {"", root_id} or run_id in seen:
            return run_id == root_id
        seen.add(run_id)


async def run_of_request(
    request_id: str, root: LoopState, client: Client
) -> tuple[str, ApprovalRequest | None, LoopState | None]:
    """Return the id of the nested run that made a request; empty if the root run handles it.

    With it come the request, settled, if the nested run has ended, and the state of the nested run
    if it was read.
    """
    for one in root.pending_approvals:
        if one.id == request_id:
            return one.run_id, None, None
    if root.phase == "closed":
        return "", None, None
    nested = await _requesting_run(request_id, root, client)
    request = None if nested is None else request_in(nested, request_id)
    if nested is None or request is None:
        return "", None, None
    return nested.run_id, request if nested.phase == "closed" else None, nested


async def state_of(run_id: str, client: Client) -> LoopState | None:
    """Return the state of a run, or None if there is no such run any more."""
    return await unless_gone(client, run_id, RunReader(client, run_id).catch_up())


def request_in(run: LoopState, request_id: str) -> ApprovalRequest | None:
    """Return a request that a run made itself, or None."""
    return next((request for request in run.approvals if request.id == request_id), None)


async def _requesting_run(request_id: str, run: LoopState, client: Client) -> LoopState | None:
    """Follow the effects in the id: `e3.e5.a1` leads to effect 3, then to effect 5.

    The id of a nested run consists of its tool and its effect; a request's id has only the effects,
    so the tools come from the transcript. There are few candidates.
    """
    own = run.start.parent.prefix if run.start.parent else ""
    step, dot, _ = request_id.removeprefix(own).partition(".")
    if not dot:
        return run
    called = dict.fromkeys(name_of(item.raw) for item in run.items if item.kind == "tool_call")
    for name in called:
        nested_id = f"{run.run_id}/{name}-{step.removeprefix('e')}"
        nested = await state_of(nested_id, client)
        # Somebody may have started a run of their own in its place.
        if nested is not None and await is_nested_in(nested_id, run.run_id, client):
            return await _requesting_run(request_id, nested, client)
    return None
