"""The worker's own judgement of decisions, whatever the state of the run says."""

from typing import Any

import pytest

from outlast.activities.approvals.gate import GuardedCall, tool_verdict
from outlast.agents.approvals.policy import ApprovalPolicy, Audience
from outlast.agents.tools.function_tool import function_tool
from outlast.loop.approvals import Decision, Evidence
from outlast.testing import call
from tests.unit.activities.desk import invocation_of


@function_tool(needs_approval=ApprovalPolicy(audience=Audience(exclude_requester=True)))
def pay(amount: int) -> None:
    """Pay."""


@pytest.mark.parametrize(
    ("customer", "authors", "runs"),
    [("", (), True), ("rob", ("bob",), True), ("rob", ("bob", "Ann"), False), ("ann", (), False)],
)
async def test_a_worker_runs_no_call_that_only_its_requesters_have_approved(
    customer: str, authors: tuple[str, ...], *, runs: bool
) -> None:
    raw: Any = call("pay", "c1", amount=5)
    decision = Decision(request_id="a1", type="approve", by="ann")
    guarded = GuardedCall(
        call_id="c1",
        arguments=raw["arguments"],
        digest_of_tool=lambda: "",
        evidence=Evidence(decisions=(decision,), authors=authors),
        execution=None,
    )
    invocation = invocation_of(settings={"customer": {"id": customer}})
    verdict = await tool_verdict(pay, invocation, raw, guarded)
    assert (verdict.required is None) is runs
    if verdict.required is not None:
        assert "asked for this" in str(verdict.required.reason)
