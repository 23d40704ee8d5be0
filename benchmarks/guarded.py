"""Measures what the gate costs a call: one without a policy, and one that two people approved.

    python benchmarks/guarded.py

The whole check is timed as a worker makes it: the policy for the arguments that will run, their
digests, and a signature for each decision. The bar is 2 ms of CPU for a guarded call.
"""

import asyncio
import statistics
import sys
import time
from dataclasses import replace
from functools import partial
from typing import Any

from outlast import Agent, ApprovalPolicy, function_tool
from outlast.activities.approvals.gate import GuardedCall, seen_now, tool_digest, tool_ruling
from outlast.activities.invocation import Invocation
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.registry import Registry
from outlast.agents.tools.definition import FunctionTool
from outlast.contract.identity import (
    IdentityKey,
    IdentityKeys,
    Place,
    new_key_pair,
    new_shared_key,
    read_keys,
    signed,
)
from outlast.loop.approvals import Decision, Evidence
from outlast.loop.call_forms import FUNCTION, call_item
from outlast.loop.effects import RunTool
from outlast.ports.identity import Execution, WorkerIdentity
from outlast.testing import ScriptedModel

AT_MOST_MS = 2.0
CALLS = 300
ROUNDS = 7
ARGUMENTS = '{"order": "A-17", "euros": 500, "note": "' + "x" * 1_000 + '"}'
RUN = Execution(namespace="default", workflow_id="support-42", execution_id="first")
TWO = ApprovalPolicy(audience="billing", quorum=2)


@function_tool
async def look_up(order: str, euros: int, note: str) -> str:
    """Look an order up."""
    return f"{order} {euros} {note}"


@function_tool(needs_approval=TWO)
async def refund(order: str, euros: int, note: str) -> str:
    """Refund an order."""
    return f"{order} {euros} {note}"


AGENT = Agent[Any](name="Desk", tools=[look_up, refund])


def guarded(key: IdentityKey | None) -> GuardedCall:
    """Return the call of the refund, with the decisions of two people who signed with a key."""
    call = GuardedCall(
        call_id="c1",
        arguments=ARGUMENTS,
        digest_of_tool=partial(tool_digest, "Desk", refund),
        evidence=None,
        execution=RUN,
    )
    if key is None:
        return call
    seen = seen_now(call, TWO.terms(possible=("approve", "edit", "reject", "respond")))
    place = Place(namespace=RUN.namespace, chain_id=RUN.execution_id, run_id=RUN.workflow_id)
    now_ms = time.time_ns() // 1_000_000
    decisions = tuple(
        signed(
            Decision(request_id="a1", type="approve", by=by, groups=("billing",), seen=seen),
            place,
            key,
            at_ms=now_ms,
        )
        for by in ("ann", "bob")
    )
    return replace(call, evidence=Evidence(decisions=decisions))


async def milliseconds(tool: FunctionTool, key: IdentityKey | None) -> float:
    """Return the median CPU time of the gate of one call."""
    keys = IdentityKeys(() if key is None else (key,))
    worker = WorkerDeps(
        registry=Registry([AGENT]), models=ScriptedModel(), identity=WorkerIdentity(keys)
    )
    effect = RunTool(
        effect=1, agent="Desk", run_id="support-42", turn=1, name=tool.name, call_id="c1",
        arguments=ARGUMENTS,
    )  # fmt: skip
    invocation = Invocation.of(worker, effect)
    raw = call_item(FUNCTION, call_id="c1", name=tool.name, arguments=ARGUMENTS)
    call = guarded(key)
    times: list[float] = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(CALLS):
            found = await tool_ruling(tool, invocation, raw, replace(call))
            assert found is None, found
        times.append((time.process_time() - began) / CALLS * 1_000)
    return statistics.median(times)


async def main() -> int:
    """Print the cost of each kind of call; return 1 if a guarded one exceeds the limit."""
    (pair,) = read_keys(new_key_pair()[0])
    (secret,) = read_keys(new_shared_key())
    plain = await milliseconds(look_up, None)
    print(f"a call without a policy:          {plain * 1_000:8.1f} µs")
    worst = 0.0
    for name, key in (("Ed25519", pair), ("shared secret", secret)):
        spent = await milliseconds(refund, key)
        worst = max(worst, spent)
        print(f"approved by two, {name + ':':<16} {spent * 1_000:8.1f} µs")
    print(f"at most {AT_MOST_MS:g} ms for a guarded call")
    return int(worst > AT_MOST_MS)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
