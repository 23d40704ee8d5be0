"""The model's own words about a request: what the agent wrote before its call.

Nobody has checked them, and they may deceive: people decide by the arguments.
"""

from collections.abc import Collection, Iterable

from temporalio.client import Client

from outlast.agents.errors import AgentsException
from outlast.client.people.nested_requests import state_of
from outlast.contract.blobs import readable
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.items import call_id_of, text_of
from outlast.loop.state import CALL_KINDS, LoopState, visible_item_count
from outlast.views.redaction import redaction_of
from outlast.views.run import AnyState, loop_state


def model_words(run: AnyState, request: ApprovalRequest, groups: Collection[str] = ()) -> str:
    """Return what the agent wrote before its call, of the question that led to it; or nothing.

    Only what readers may see counts, and nothing is told that is hidden from their groups.
    """
    state = loop_state(run)
    if request.kind == "output":
        return ""
    items = state.items[: visible_item_count(state)]
    turn = next(
        (
            item.turn
            for item in reversed(items)
            if item.kind in CALL_KINDS and call_id_of(item.raw) == request.call_id
        ),
        state.turns,
    )
    last = max((at for at, item in enumerate(items) if 0 < item.turn <= turn), default=-1)
    for item in reversed(items[: last + 1]):
        if item.kind == "input":
            break
        if item.kind == "message" and item.turn and item.agent == request.agent:
            return redaction_of(state, groups).text(text_of(readable(item.raw)).strip())
    return ""


async def read_words(
    client: Client,
    state: AnyState,
    requests: Iterable[ApprovalRequest],
    groups: Collection[str] = (),
) -> dict[str, str]:
    """Return the model's words about requests by id; those of nested runs are read there."""
    root = loop_state(state)
    states: dict[str, LoopState] = {"": root, root.run_id: root}
    found: dict[str, str] = {}
    for request in requests:
        if request.run_id not in states:
            try:
                nested = await state_of(request.run_id, client)
            except AgentsException:  # the request is shown without words
                nested = None
            states[request.run_id] = nested or LoopState()
        found[request.id] = model_words(states[request.run_id], request, groups)
    return found
