"""A support desk with a guarded tool, its recorded runs, and other versions of it."""

from dataclasses import replace
from typing import Any

from outlast import Agent, function_tool
from outlast.client.recordings import Recording
from outlast.loop.approvals import ApprovalRequest
from outlast.testing import ScriptedModel, call, record_in_memory

RAN: list[str] = []
"""The calls of tools that really ran."""


@function_tool
def look_up(order_id: str) -> str:
    """Look an order up."""
    RAN.append(order_id)
    return f"{order_id}: 40 EUR"


def pay_back(order_id: str, amount: int) -> str:
    """Refund an order."""
    RAN.append(order_id)
    return f"refunded {amount}"


guarded = function_tool(pay_back, name_override="refund", needs_approval=True)
unguarded = function_tool(pay_back, name_override="refund")


def desk(refund: Any = guarded, **fields: Any) -> Agent[Any]:
    billing = Agent(name="Billing", tools=[look_up, refund], **fields)
    return Agent(name="Triage", tools=[look_up], handoffs=[billing])


def approves(request: ApprovalRequest) -> bool:
    return True


def refuses(request: ApprovalRequest) -> str:
    return "No."


SCRIPT: tuple[Any, ...] = (
    [call("look_up", "c1", order_id="A-1")],
    [call("transfer_to_billing", "c2")],
    [call("refund", "c3", order_id="A-1", amount=40)],
    "Done.",
)


async def recorded(
    *script: Any, agent: Agent[Any] | None = None, said: Any = "Refund A-1", **options: Any
) -> Recording:
    """Return the recording of a run, as a file has it."""
    model = ScriptedModel(*(script or SCRIPT))
    options = {"decide": approves, "run_id": "r1", **options}
    made = await record_in_memory(agent or desk(), said, model=model, **options)
    RAN.clear()
    return Recording.from_json(made.to_json())


def still_open(recording: Recording) -> Recording:
    """Return the recording of a conversation that waits for the next message."""
    return replace(
        recording,
        status="idle",
        complete=False,
        start=replace(recording.start, keep_open=True),
        entries=recording.entries[:-1],
    )
