"""Approval requests of runs in memory, which take decisions by the rules of the loop."""

import asyncio
from collections.abc import Sequence

from outlast.agents.errors import DecisionRefused, RunNotFound
from outlast.loop.approvals import ApprovalRequest, ApprovalTerms, Audience, Decision
from outlast.loop.votes import Sender, refusal, voted

REFUND = ApprovalRequest(
    id="a1",
    call_id="c1",
    name="refund",
    agent="Billing",
    arguments='{"order": "A-17", "amount": 250}',
    args_digest="d" * 64,
    reason="over 100 €",
    terms=ApprovalTerms(
        risk="medium", audience=Audience(subjects=("ann",), groups=("billing",)), quorum=1
    ),
    requested_at_ms=1_000_000,
)


class Runs:
    """Stands for the runs of a namespace.

    Attributes:
        requests: the requests by run.
        decided: the decisions that were accepted.
        executions: the first run id of each run.
        hangs: set to make every decision wait.
    """

    def __init__(self, *requests: ApprovalRequest) -> None:
        self.requests = {"support-42": list(requests or (REFUND,))}
        self.executions = {"support-42": "e-1"}
        self.decided: list[Decision] = []
        self.failure: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def execution(self, run_id: str) -> str:
        if self.failure is not None:
            raise self.failure
        self._of(run_id)
        return self.executions[run_id]

    async def find(self, run_id: str, request_id: str) -> ApprovalRequest | None:
        if self.failure is not None:
            raise self.failure
        return next((one for one in self._of(run_id) if one.id == request_id), None)

    async def decide(self, run_id: str, decision: Decision) -> None:
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        requests = self._of(run_id)
        sender = Sender(at_ms=1_500_000, verified=True)
        problem = refusal(requests, decision, sender)
        if problem is not None:
            raise DecisionRefused(problem)
        self.decided.append(decision)
        self.requests[run_id] = [
            voted(one, decision, sender, one.arguments) if one.id == decision.request_id else one
            for one in requests
        ]

    async def pending(self) -> Sequence[tuple[str, ApprovalRequest]]:
        if self.failure is not None:
            raise self.failure
        return [
            (run_id, one)
            for run_id, requests in self.requests.items()
            for one in requests
            if one.status == "pending"
        ]

    def _of(self, run_id: str) -> list[ApprovalRequest]:
        if run_id not in self.requests:
            raise RunNotFound(f"There is no run {run_id!r}.")
        return self.requests[run_id]
