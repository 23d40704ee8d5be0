"""Access to approval requests for decisions from chats and mails."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from temporalio.client import Client

from outlast.client.handle import RunHandle
from outlast.contract import names
from outlast.ports.notifier import Notification
from outlast.views.records import ApprovalRequest, Decision

MOST_LISTED = 1_000
"""How many runs are searched for requests at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRef:
    """The one request that a link or a button decides.

    A run's id may be used again, and the ids of its requests count from `a1`: so the reference
    also names the execution, and what people saw.

    Attributes:
        run_id: the run.
        execution: the first run id of the run's execution chain.
        request_id: the request.
        digest: the digest of what people saw: see `ApprovalRequest.digest`.
    """

    run_id: str
    execution: str
    request_id: str
    digest: str


def ref_of(notice: Notification) -> RequestRef:
    """Return the reference to a notice's request."""
    return RequestRef(
        run_id=notice.run_id,
        execution=notice.execution,
        request_id=notice.request_id,
        digest=notice.digest,
    )


class Requests(Protocol):
    """Access to the approval requests of runs."""

    async def execution(self, run_id: str) -> str:
        """Return the first run id of a run's newest execution chain."""
        ...

    async def find(self, run_id: str, request_id: str) -> ApprovalRequest | None:
        """Return a request, or None if the run has no such request."""
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


async def find_referred(requests: Requests, ref: RequestRef) -> ApprovalRequest | None:
    """Return the request that a reference is for, also if it has changed since; None without one."""
    if not ref.execution or await requests.execution(ref.run_id) != ref.execution:
        return None
    return await requests.find(ref.run_id, ref.request_id)


class RunRequests:
    """The approval requests of the runs of a Temporal namespace.

    Decisions are signed if `OUTLAST_IDENTITY_KEY` has the key of the workers.

    Args:
        client: a connected client.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def execution(self, run_id: str) -> str:
        """Return the first run id of a run; see `Requests.execution`."""
        return (await RunHandle(self._client, run_id).check()).raw_info.first_run_id

    async def find(self, run_id: str, request_id: str) -> ApprovalRequest | None:
        """Return a request of a run; see `Requests.find`."""
        state = await RunHandle(self._client, run_id).state()
        return next((one for one in state.approvals if one.id == request_id), None)

    async def decide(self, run_id: str, decision: Decision) -> None:
        """Send a decision to a run; see `Requests.decide`."""
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
