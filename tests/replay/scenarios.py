"""One short run for each feature whose history has to be readable for ever.

Owns: the scenarios that `record.py` records. A scenario is never changed once its history is
released: a new behaviour is a new scenario.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from outlast import Agent, RunContextWrapper, RunHandle, ToolContext, function_tool, handoff
from outlast.agents.tool import ToolRetry
from outlast.loop.values import JsonObject
from outlast.testing import call, say
from outlast.testing.scripted_model import Step

Play: TypeAlias = Callable[[RunHandle], Awaitable[None]]


@function_tool
async def note(ctx: ToolContext[dict[str, Any]], text: str) -> str:
    """Note something."""
    ctx.context.setdefault("notes", []).append(text)
    return f"noted {text}"


@function_tool(fast=True)
def look_up(order_id: str) -> dict[str, str]:
    """Look an order up."""
    return {"order_id": order_id, "status": "delivered"}


@function_tool(needs_approval=True)
async def refund(ctx: ToolContext[Any], amount: int) -> str:
    """Pay back."""
    return f"paid {amount} under {ctx.tool_call_id}"


@function_tool(retry=ToolRetry(attempts=1))
async def broken() -> str:
    """Fail."""
    raise ConnectionError("nobody answers")


def handed_over(ctx: RunContextWrapper[Any]) -> None:
    """Note in the context who had the conversation."""
    ctx.context["handed_over"] = True


billing = Agent[Any](name="Billing", tools=[refund, note])
orders = Agent[Any](name="Orders", tools=[look_up, note, broken])
triage = Agent[Any](
    name="Triage", tools=[note], handoffs=[handoff(billing, on_handoff=handed_over), orders]
)
orders.handoffs.append(triage)

LONG = "a long question " * 200


async def to_the_end(handle: RunHandle) -> None:
    """Wait for the run's end."""
    await handle.result()


async def _approve(handle: RunHandle) -> None:
    await handle.wait_for_people()
    await handle.approve("a1", by="ann")
    await handle.result()


async def _reject_by_signal(handle: RunHandle) -> None:
    await handle.wait_for_people()
    workflow = handle.client.get_workflow_handle(handle.id)
    await workflow.signal("decide", {"request_id": "a9", "type": "approve"})
    await workflow.signal("unheard", "of")
    decision = {"request_id": "a1", "type": "reject", "message": "too much", "by": "bob"}
    await workflow.signal("decide", decision)
    await handle.result()


async def _converse(handle: RunHandle) -> None:
    for text in ("and then?", "and now?"):
        await (await handle.send(text)).answer()
    await handle.cancel("after_turn")
    await handle.result()


async def _cancel_while_waiting(handle: RunHandle) -> None:
    await handle.wait_for_people()
    await handle.cancel()


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What is asked of whom, what the model says, and what people do."""

    steps: tuple[Step, ...]
    play: Play = to_the_end
    agent: Agent[Any] = field(default_factory=lambda: triage)
    question: str = "hello"
    keep_open: bool = False
    max_turns: int | None = 10
    settings: JsonObject = field(default_factory=dict[str, Any])


def _many_turns(count: int) -> tuple[Step, ...]:
    return (*([call("note", f"c{at}", text=str(at))] for at in range(count)), "done")


SCENARIOS: dict[str, Scenario] = {
    "answer": Scenario(steps=("hello to you",)),
    "parallel_tools": Scenario(
        steps=([call("note", "c1", text="a"), call("note", "c2", text="b")], "done")
    ),
    "unknown_tool_and_bad_arguments": Scenario(
        steps=([call("nothing", "c1"), call("note", "c2", text=5)], "done")
    ),
    "fast_tool": Scenario(agent=orders, steps=([call("look_up", "c1", order_id="A-17")], "done")),
    "failing_tool": Scenario(agent=orders, steps=([call("broken", "c1")], "sorry")),
    "handoffs_and_tools": Scenario(
        steps=(
            [
                call("note", "c1", text="a"),
                call("transfer_to_billing", "c2"),
                call("transfer_to_orders", "c3"),
            ],
            "Billing here",
        )
    ),
    "handoffs_in_a_circle": Scenario(
        steps=([call("transfer_to_orders", "c1")], [call("transfer_to_triage", "c2")], "back")
    ),
    "approved": Scenario(
        agent=billing,
        steps=([call("refund", "c1", amount=5), call("note", "c2", text="a")], "done"),
        play=_approve,
    ),
    "rejected_by_signal": Scenario(
        agent=billing, steps=([call("refund", "c1", amount=5)], "done"), play=_reject_by_signal
    ),
    "conversation": Scenario(steps=("one", "two", "three"), keep_open=True, play=_converse),
    "cancelled_while_waiting": Scenario(
        agent=billing, steps=([call("refund", "c1", amount=5)],), play=_cancel_while_waiting
    ),
    "too_many_turns": Scenario(steps=_many_turns(3), max_turns=2),
    "refused": Scenario(
        steps=([*say("well"), {"type": "message", "content": [{"type": "refusal"}]}],)
    ),
    "claims": Scenario(steps=_many_turns(3), question=LONG),
    "continued_as_new": Scenario(steps=_many_turns(6), settings={"roll_over_events": 40}),
}
