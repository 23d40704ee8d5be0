"""Access to approval requests for decisions from chats and mails."""

from collections.abc import Sequence
from typing import Protocol

from temporalio.client import Client

from outlast.client.handle import RunHandle
from outlast.client.identity import signed
from outlast.contract import names
from outlast.loop.approvals import ApprovalRequest, Decision

MOST_LISTED = 1_000
"""How many runs are searched for requests at most."""


class Requests(Protocol):
    """Access to the approval requests of runs."""

    async def find(self, run_id: str, request_id: str) -> ApprovalRequest | None:
        """Return a request, or None if the run has no such request.

        Raises:
            AgentsException: there is no such run, or the server refused.
        """
        ...

    async def decide(self, run_id: str, decision: Decision) -> None:
        """Send a decision to a run.

        Raises:
            AgentsException: the run refused it; the message says why.
        """
        ...

    async def pending(self) -> Sequence[tuple[str, ApprovalRequest]]:
        """Return the pending requests of all open runs, each with the id of its run."""
        ...


class RunRequests:
    """The approval requests of the runs of a Temporal namespace.

    Decisions are signed if `OUTLAST_IDENTITY_KEY` has the key of the workers.

    Args:
        client: a connected client.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def find(self, run_id: str, request_id: str) -> ApprovalRequest | None:
        """Return a request of a run; see `Requests.find`."""
        state = await RunHandle(self._client, run_id).state()
        return next((one for one in state.approvals if one.id == request_id), None)

    async def decide(self, run_id: str, decision: Decision) -> None:
        """Send a decision to a run; see `Requests.decide`."""
        decision = signed(decision, run_id)
        # The run made the request itself, even if its id is that of a nested run.
        await RunHandle(self._client, run_id).decide(decision, nested_id="")

    async def pending(self) -> Sequence[tuple[str, ApprovalRequest]]:
        """Return the pending requests of all open runs; see `Requests.pending`."""
        query = (
            f"WorkflowType = '{names.WORKFLOW}' AND ExecutionStatus = 'Running' "
            f"AND {names.ATTRIBUTE_APPROVALS} > 0"
        )
        found: list[tuple[str, ApprovalRequest]] = []
        async for run in self._client.list_workflows(query, limit=MOST_LISTED):
            state = await RunHandle(self._client, run.id).state()
            found += [(run.id, one) for one in state.approvals if one.status == "pending"]
        return found
