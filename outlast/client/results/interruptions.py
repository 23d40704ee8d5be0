"""The calls in a result that wait for approval."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from outlast.agents.items.run_items import ToolApprovalItem, raw_of
from outlast.agents.items.tool_origin import ToolOrigin
from outlast.client.results.local_definitions import LocalDefinitions
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.call_forms import FUNCTION, call_item
from outlast.loop.effects import RunAgent
from outlast.loop.items import Item, call_id_of
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject


class Interruption(ToolApprovalItem):
    """A call that waits, or waited, for a person's approval.

    Attributes:
        request: the approval request as readers see it: its reason, status, decision and the rest.
    """

    def __init__(
        self,
        request: ApprovalRequest,
        agent: Any,
        raw: JsonObject,
        tool_origin: ToolOrigin | None = None,
    ) -> None:
        super().__init__(
            agent=agent,
            raw_item=raw,
            tool_name=request.name,
            approval_id=request.id,
            tool_origin=tool_origin,
        )
        self.request = request

    @property
    def id(self) -> str:
        """The id for a decision, as in `handle.approve(id)`."""
        return self.request.id

    @property
    def arguments(self) -> str:
        """The arguments as JSON text: as the newest edit wants them, without redacted values."""
        return self.request.arguments

    @property
    def run_id(self) -> str:
        """The id of the nested run that waits; empty for the run itself."""
        return self.request.run_id

    def to_call(self) -> JsonObject:
        """Return the call with the model's own arguments, without redacted values."""
        return deepcopy(raw_of(self))


def interruption(
    request: ApprovalRequest, items: Sequence[Item], definitions: LocalDefinitions
) -> Interruption:
    """Return an approval request as a public object."""
    at = None if request.run_id else place_of_call(request, items)
    hides = bool(request.terms.redact)
    raw = _rebuilt_call(request, definitions) if at is None or hides else items[at].raw
    origin = definitions.origin(request.agent, request.name)
    return Interruption(request, definitions.agent(request.agent), raw, origin)


def pending_in_order(state: LoopState) -> list[ApprovalRequest]:
    """Return the requests for approval in the order of the calls, including nested runs.

    A nested run requests approval after its sibling calls do, so the order of requests differs.
    """
    tools = {
        effect.effect: effect.nested_id for effect in state.pending if isinstance(effect, RunAgent)
    }
    asking = {
        nested.nested_id: [request.id for request in nested.requests] for nested in state.nested
    }
    place: dict[str, int] = {}
    for at, call in enumerate(state.calls):
        nested_id = "" if call.effect is None else tools.get(call.effect, "")
        place |= dict.fromkeys((call.approval or "", *asking.get(nested_id, ())), at)
    asked = (one for one in state.pending_approvals if one.kind != "worker")
    return sorted(asked, key=lambda one: place.get(one.id, len(place)))


def _rebuilt_call(request: ApprovalRequest, definitions: LocalDefinitions) -> JsonObject:
    tool = definitions.tool(request.agent, request.name)
    return call_item(
        FUNCTION if tool is None else tool.form,
        call_id=request.call_id,
        name=request.name,
        arguments=request.arguments,
    )


def place_of_call(request: ApprovalRequest, items: Sequence[Item]) -> int | None:
    """Return the index of the call that a request is about, or None."""
    for at in range(len(items) - 1, -1, -1):
        item = items[at]
        is_agents_call = item.kind == "tool_call" and item.agent == request.agent
        if is_agents_call and call_id_of(item.raw) == request.call_id:
            return at
    return None
