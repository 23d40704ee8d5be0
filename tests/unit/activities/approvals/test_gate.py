"""The worker's own judgement of decisions, whatever the state of the run says."""

from dataclasses import replace
from typing import Any

import pytest

from outlast.activities.approvals.gate import GuardedCall, seen_now, tool_ruling
from outlast.agents.approvals.policy import ApprovalPolicy, Audience
from outlast.agents.tools.function_tool import function_tool
from outlast.contract.identity import (
    IdentityKey,
    IdentityKeys,
    Place,
    new_key_pair,
    read_keys,
    signed,
)
from outlast.edges.clock import now_ms
from outlast.loop.approvals import Decision, Evidence
from outlast.loop.calls import RequiredApproval
from outlast.ports.identity import Execution, Lineage, WorkerIdentity
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
    ruling = await tool_ruling(pay, invocation, raw, guarded)
    assert (ruling is None) is runs
    if ruling is not None:
        assert "asked for this" in str(ruling.reason)


@pytest.mark.parametrize(
    ("until", "made_for", "now", "refused"),
    [
        ("run", 2, 2, ""),
        ("run", 2, 3, "another question of the conversation"),
        ("run", 0, 3, "another question of the conversation"),
        ("run", None, 3, "does not say for which question it holds"),
        ("run", 2, None, "another question of the conversation"),
        ("conversation", 2, 3, ""),
        ("conversation", None, 3, ""),
    ],
)
async def test_what_is_remembered_for_a_question_lets_no_call_of_another_one_run(
    until: Any, made_for: int | None, now: int | None, refused: str
) -> None:
    raw: Any = call("pay", "c1", amount=5)

    def guarded(*decisions: Decision) -> GuardedCall:
        return GuardedCall(
            call_id="c2",
            arguments=raw["arguments"],
            digest_of_tool=lambda: "t",
            evidence=Evidence(decisions=decisions, question=now),
            execution=None,
        )

    asked = await tool_ruling(pay, invocation_of(), raw, guarded())
    assert isinstance(asked, RequiredApproval)
    seen = replace(seen_now(guarded(), asked.terms), call_id="c1", question=made_for)
    kept = Decision(
        request_id="a1", type="approve", by="ann", seen=seen, remember=True, remember_until=until
    )
    ruling = await tool_ruling(pay, invocation_of(), raw, guarded(kept))
    assert refused in str(ruling and ruling.reason)
    assert (ruling is not None) is bool(refused)


DAY_MS = 24 * 3_600_000
MINE, THEIRS = read_keys(new_key_pair()[0])[0], read_keys(new_key_pair()[0])[0]


@pytest.mark.parametrize(
    ("signed_with", "trusted", "age_ms", "why"),
    [
        (MINE, (MINE,), 0, None),
        (MINE, (THEIRS, MINE), 0, None),
        (MINE, (MINE,), 7 * DAY_MS, None),
        (MINE, (MINE,), 7 * DAY_MS + 6 * 60_000, "its signature is too old"),
        (MINE, (MINE,), -6 * 60_000, "it is signed in the future (compare the clocks)"),
        (MINE, (THEIRS,), 0, "it is signed with the key MINE, which this worker does not trust"),
        (MINE, (), 0, "this worker has no identity key to check its proof with"),
    ],
)
async def test_a_vote_counts_by_the_keys_and_the_clock_of_the_worker_that_runs_the_call(
    signed_with: IdentityKey, trusted: tuple[IdentityKey, ...], age_ms: int, why: str | None
) -> None:
    @function_tool(needs_approval=ApprovalPolicy(audience="billing"))
    def refund(amount: int) -> None:
        """Refund."""

    raw: Any = call("refund", "c1", amount=5)
    guarded = GuardedCall(
        call_id="c1",
        arguments=raw["arguments"],
        digest_of_tool=lambda: "t",
        evidence=None,
        execution=None,
    )
    invocation = invocation_of()
    first = await tool_ruling(refund, invocation, raw, guarded)
    assert isinstance(first, RequiredApproval)
    here = Execution(namespace="default", workflow_id="support-42", execution_id="e-1")
    decision = Decision(
        request_id="a1",
        type="approve",
        by="ann",
        groups=("billing",),
        seen=seen_now(guarded, first.terms),
    )
    place = Place(namespace="default", chain_id="e-1", run_id="support-42")
    vote = signed(decision, place, signed_with, at_ms=now_ms() - age_ms)

    async def lineage(workflow_id: str, execution_id: str = "") -> Lineage:
        assert (workflow_id, execution_id) == ("support-42", "e-1")
        return Lineage(chain_id="e-1")

    identity = WorkerIdentity(IdentityKeys(trusted), lineage)
    invocation = replace(invocation, worker=replace(invocation.worker, identity=identity))
    decided = replace(guarded, evidence=Evidence(decisions=(vote,)), execution=here)
    ruling = await tool_ruling(refund, invocation, raw, decided)
    assert (ruling is None) is (why is None)
    if ruling is not None:
        reason = str(ruling.reason).replace(MINE.id, "MINE")
        assert reason.startswith(f"The decision of ann does not count: {why}")
