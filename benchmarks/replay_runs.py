"""How long replays of recorded runs take: 1,000 runs of a support desk, in one process.

    python -m benchmarks.replay_runs --runs 1000

The runs are made in memory with varied scripts: tools, handoffs, approvals that are given, edited and
refused, tools that wait, guardrails, and conversations of several questions.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

from outlast import (
    Agent,
    ApprovalPolicy,
    Audience,
    GuardrailFunctionOutput,
    ToolContext,
    function_tool,
    input_guardrail,
)
from outlast.client.recordings import Recording
from outlast.loop.approvals import ApprovalRequest, Decision
from outlast.loop.values import JsonObject
from outlast.testing import ScriptedModel, call, record_in_memory, replay, say


@function_tool
def look_up_order(order_id: str) -> str:
    """Look an order up."""
    return json.dumps({"order": order_id, "state": "shipped", "lines": ["a book"] * 20})


@function_tool
def search_articles(query: str, limit: int = 5) -> list[str]:
    """Search the articles of the help centre."""
    return [f"{query}: article {number} " + "words " * 40 for number in range(limit)]


@function_tool(
    needs_approval=ApprovalPolicy(audience=Audience(groups=["billing"]), redact=["iban"])
)
def refund_order(order_id: str, euros: int, iban: str) -> str:
    """Refund an order."""
    return f"refunded {euros} EUR for {order_id} to {iban}"


@function_tool
async def book_courier(context: ToolContext[Any], order_id: str) -> str:
    """Book a courier, and wait for the pickup."""
    pickup = await context.wait_for("courier", timeout=timedelta(days=2))
    return f"picked up {order_id}: {pickup}"


@input_guardrail
def no_threats(context: Any, agent: Any, said: Any) -> GuardrailFunctionOutput:
    """Let no threat through."""
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered="threat" in str(said))


def desk(*, asks: bool = True) -> list[Agent[Any]]:
    """Return the agents; `asks=False` makes the change that replays find: no courier."""
    billing = Agent(name="Billing", instructions="Bill.", tools=[look_up_order, refund_order])
    tools: list[Any] = [look_up_order, *([book_courier] if asks else [])]
    shipping = Agent(name="Shipping", instructions="Ship.", tools=tools)
    triage = Agent(
        name="Triage",
        instructions="Route.",
        tools=[search_articles, look_up_order],
        handoffs=[billing, shipping],
        input_guardrails=[no_threats],
    )
    return [triage, billing, shipping]


def script(chance: random.Random) -> list[Any]:
    """Return the replies of a run: of 2 to 12 model calls."""
    order, ids = f"A-{chance.randrange(10_000)}", iter(range(100))

    def one(name: str, **arguments: Any) -> JsonObject:
        return call(name, f"call_{next(ids)}", **arguments)

    steps: list[Any] = []
    for _ in range(chance.randrange(1, 4)):
        looked = [one("search_articles", query=f"{order} late", limit=3)]
        steps.append([*looked, *([one("look_up_order", order_id=order)] * chance.randrange(2))])
    kind = chance.choice(["talk", "refund", "ship"])
    if kind == "refund":
        steps.append([one("transfer_to_billing")])
        steps.append([one("look_up_order", order_id=order)])
        amount = chance.randrange(5, 500)
        steps.append([one("refund_order", order_id=order, euros=amount, iban="DE12 3456 7890")])
    elif kind == "ship":
        steps.append([one("transfer_to_shipping")])
        steps.append([one("book_courier", order_id=order)])
    steps.append(say(f"Your order {order} is on its way. " * 5))
    return steps


async def recorded(number: int) -> Recording:
    """Return the recording of a run that is chosen by a number."""
    chance = random.Random(number)

    def decide(request: ApprovalRequest) -> Decision | bool | str:
        who: dict[str, Any] = {"request_id": request.id, "by": "ann", "groups": ("billing",)}
        wanted = {**json.loads(request.arguments), "euros": 4}
        made = chance.choice(["approve", "approve", "edit", "reject"])
        more = {"edited_arguments": wanted} if made == "edit" else {}
        return Decision(**who, type=made, **more)  # type: ignore[arg-type]

    said = "This is a threat" if chance.random() < 0.05 else f"Where is my order {number}?"
    model = ScriptedModel(*script(chance))
    try:
        return await record_in_memory(
            desk()[0],
            said,
            model=model,
            decide=decide,
            deliver={"courier": "at noon"},
            run_id=f"support-{number}",
        )
    finally:
        await model.aclose()


async def main(runs: int, folder: Path | None) -> None:
    """Record runs, replay them against the same and against changed agents, and print figures."""
    documents = [(await recorded(number)).to_json() for number in range(runs)]
    if folder is not None:
        (folder / "runs.jsonl").write_text("\n".join(documents) + "\n")
    size = sum(map(len, documents))
    for name, agents in (("same agents", desk()), ("without a tool", desk(asks=False))):
        began, found = time.perf_counter(), Counter[str]()
        calls = 0
        for document in documents:
            replayed = await replay(Recording.from_json(document), agents)
            calls += sum(one.kind == "model" for one in replayed.now.entries)
            found["changed" if not replayed.is_same else "same"] += 1
        took = time.perf_counter() - began
        sys.stdout.write(
            f"{name}: {runs} runs, {calls} model calls, {size / 1e6:.1f} MB: {took:.1f} s, "
            f"{took / runs * 1000:.1f} ms each, {dict(found)}\n"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--keep", type=Path, help="a folder for the recordings")
    wanted = parser.parse_args()
    asyncio.run(main(wanted.runs, wanted.keep))
