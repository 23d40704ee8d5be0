"""People in workflow tests: who they are, and how they decide by update and by signal.

Owns: `refusal`, which sends one decision either way and says what became of it. Must not know: the
rule that a test is about.
"""

from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.errors import DecisionRefused
from outlast.agents.tools.function_tool import function_tool
from outlast.client.audit import audit_run
from outlast.client.handle import RunHandle
from outlast.contract import records
from outlast.loop.approvals import Decision, Person
from outlast.loop.state import LoopState
from outlast.testing import ScriptedModel, call
from outlast.views.run import loop_state
from tests.workflow.desk import Desk, waits_for

ANN = Person(subject="ann", groups=("billing",))
BOB = Person(subject="bob", groups=("billing",))
EVE = Person(subject="eve", groups=("sales",))
LEA = Person(subject="lea", groups=("leads",))

both_channels = pytest.mark.parametrize("channel", ["update", "signal"])
"""Runs a test with each of the two ways to reach a run."""


def by(person: Person, kind: Any = "approve", request_id: str = "a1", **fields: Any) -> Decision:
    """Return a person's decision."""
    return Decision(
        request_id=request_id, type=kind, by=person.subject, groups=person.groups, **fields
    )


def clerk(
    policy: ApprovalPolicy | bool = True,
    ran: list[int] | None = None,
    **options: Any,
) -> Agent[Any]:
    """Return an agent whose tool `refund` waits for people, and notes what it has refunded."""

    async def refund(order: str, euros: int) -> str:
        if ran is not None:
            ran.append(euros)
        return f"refunded {euros} for {order}"

    tool = function_tool(refund, needs_approval=policy, **options)
    return Agent(name="Clerk", tools=[tool])


def refunds(*euros: int) -> list[Any]:
    """Return a reply that calls `refund` for each amount."""
    return [call("refund", f"c{one}", order="A-17", euros=one) for one in euros]


async def waiting(
    desk: Desk, agent: Agent[Any], model: ScriptedModel, count: int = 1, **options: Any
) -> RunHandle:
    """Return a run at rest that waits for so many decisions."""
    await desk.open(agent, model=model)
    handle = await desk.start(agent, **options)
    # It has not been at rest before, and time may end the wait before anybody looks.
    is_asking = waits_for(count)
    await desk.ever(handle, lambda state: is_asking(state) and state.status == "waiting")
    return handle


async def refusal(desk: Desk, handle: RunHandle, channel: str, decision: Decision) -> str | None:
    """Send a decision, and return why it does not count, or None if it does.

    A refused update leaves no event in the history. A signal cannot be refused: it is in the
    state's list of ignored attempts, and in the audit with what its sender claimed.
    """
    if channel == "update":
        await desk.settled(handle)
        before = await desk.event_types(handle)
        try:
            await handle.decide(decision)
        except DecisionRefused as error:
            assert await desk.event_types(handle) == before, "a refused update leaves no event"
            return str(error)
        return None
    seen = await handle.state()
    await desk.workflow(handle).signal("decide", records.write(decision))
    state = await desk.until(handle, lambda one: _took_a_decision(loop_state(seen), one))
    if state.ignored == seen.ignored:
        return None
    *_, tried = (await audit_run(desk.client, handle.id)).records
    assert (tried.event, tried.request_id, tried.decision, tried.by, tried.verified) == (
        "ignored",
        decision.request_id,
        decision.type,
        decision.by or "",
        False,
    )
    assert tried.note == state.ignored[-1].why
    return state.ignored[-1].why


def _took_a_decision(before: LoopState, after: LoopState) -> bool:
    return len(after.ignored) > len(before.ignored) or _votes(after) > _votes(before)


def _votes(state: LoopState) -> int:
    return sum(len(request.votes) for request in state.approvals)
