"""How long an evaluation takes: 100 cases of a support desk, with a scripted model.

    python -m benchmarks.evals --cases 100

Each case has four model calls, two tools, a handoff and an approval.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

from outlast import Agent, function_tool
from outlast.evals import check_report, dataset_of, load_dataset, save_dataset, task_of
from outlast.loop.values import JsonObject
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, record_in_memory, say


@function_tool
def look_up(order_id: str) -> str:
    """Look an order up."""
    return f"{order_id}: 40 EUR"


@function_tool(needs_approval=True)
def refund(order_id: str, euros: int) -> str:
    """Refund an order."""
    return f"refunded {euros} EUR for {order_id}"


def desk() -> Agent[Any]:
    """Return the agents."""
    billing = Agent[Any](name="Billing", tools=[look_up, refund])
    return Agent[Any](name="Triage", tools=[look_up], handoffs=[billing])


def reply(request: ModelRequest) -> list[JsonObject]:
    """Look up, hand over, refund and answer, by what is done so far."""
    order_id = str(request.input[0]["content"]).rpartition(" ")[2]
    done = sum(one.get("type") == "function_call_output" for one in request.input)
    if done == 0:
        return [call("look_up", "c1", order_id=order_id)]
    if done == 1:
        return [call("transfer_to_billing", "c2")]
    if done == 2:
        return [call("refund", "c3", order_id=order_id, euros=40)]
    return say("You get 40 EUR back.")


def size_of(folder: Path) -> int:
    """Return the bytes of the files in a folder."""
    return sum(one.stat().st_size for one in folder.iterdir())


async def main(cases: int) -> None:
    """Make a data set, and evaluate on it."""
    model = ScriptedModel(always=reply)
    recordings = [
        await record_in_memory(
            desk(),
            f"Refund A-{number}",
            model=model,
            run_id=f"r-{number}",
            decide=lambda _: True,
        )
        for number in range(cases)
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "refunds.yaml"
        seconds: dict[str, float] = {}
        began = time.perf_counter()
        save_dataset(dataset_of(recordings), file)
        seconds["written"] = time.perf_counter() - began
        size = size_of(Path(folder))
        began = time.perf_counter()
        dataset = load_dataset(file)
        seconds["read"] = time.perf_counter() - began
    began = time.perf_counter()
    report = await dataset.evaluate(task_of(desk(), model=model), progress=False, max_concurrency=4)
    seconds["evaluated"] = time.perf_counter() - began
    checked = check_report(report)
    assert checked.is_good, checked.report()
    times = ", ".join(f"{what} in {one:.2f} s" for what, one in seconds.items())
    print(f"{cases} cases, {size / 1024:.0f} KB: {times}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100)
    asyncio.run(main(parser.parse_args().cases))
