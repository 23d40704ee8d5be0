"""Decisions about a run's calls, made and read through a result's context."""

from typing import Final

from outlast.client.results.run_state import RunState
from outlast.loop import state as loop
from outlast.loop.approvals import ApprovalStatus

_OUTCOMES: Final[dict[ApprovalStatus, bool]] = {
    "approved": True,
    "edited": True,
    "rejected": False,
    "responded": False,
    "expired": False,
}
"""Whether a call ran after its request. Others have no decision: pending, or gone with the call."""


class ResultDecisions:
    """Implements `outlast.agents.context.wrapper.Decisions` for a result.

    `waiting` receives new decisions; `result.to_state()` starts with them.
    """

    def __init__(self, waiting: RunState, snapshot: loop.LoopState) -> None:
        self.waiting = waiting
        self.approve: Final = waiting.approve
        self.reject: Final = waiting.reject
        self._snapshot = snapshot

    def __deepcopy__(self, _memo: object) -> "ResultDecisions":
        """Return the same decisions: a copy of a context, as `asdict` makes it, decides no other run."""
        return self

    def is_approved(self, tool_name: str, call_id: str) -> bool | None:
        """Return the decision about a call, or the remembered one for its tool; or None."""
        decision = self._decision(tool_name, call_id)
        return None if decision is None else decision[0]

    def rejection_message(self, tool_name: str, call_id: str) -> str | None:
        """Return what the model reads of a rejected call; None if nobody rejected it with words."""
        approved, message = self._decision(tool_name, call_id) or (True, None)
        return None if approved else message

    def _decision(self, tool_name: str, call_id: str) -> tuple[bool, str | None] | None:
        staged = {
            (one.run_id, one.decision.request_id): one.decision
            for one in self.waiting.staged_decisions()
        }
        for request in (*self._snapshot.pending_approvals, *self._snapshot.approvals):
            if (request.name, request.call_id) != (tool_name, call_id):
                continue
            decision = staged.get((request.run_id, request.id))
            if decision is not None and request.status == "pending":
                return decision.type == "approve", decision.message
            if request.status in _OUTCOMES:
                made = request.decision
                return _OUTCOMES[request.status], made.message if made is not None else None
        sticky = [
            remembered.decision
            for remembered in self._snapshot.remembered
            if remembered.name == tool_name
        ]
        names = {(r.run_id, r.id): r.name for r in self._snapshot.pending_approvals}
        sticky += [
            value for key, value in staged.items() if value.remember and names[key] == tool_name
        ]
        return (sticky[-1].type == "approve", sticky[-1].message) if sticky else None
