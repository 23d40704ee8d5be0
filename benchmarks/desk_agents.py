"""The agent of `desk_load.py` and `tests/cluster`, which `outlast worker` and `outlast serve` load.

`CLUSTER_BUILD` names the version of a worker, `CLUSTER_LEDGER` the file of effects, and
`CLUSTER_PACE` the seconds between two pieces of a streamed answer.
"""

import asyncio
import os
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import WorkerDeploymentConfig

from outlast import Agent, ToolContext, function_tool
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, paced, say
from outlast.worker import AgentWorkerConfig

QUEUE = "support"
AGENT = "Support"
DEPLOYMENT = "support-agents"
STORY = 60
"""The words of a long answer."""

_COMMIT_SECONDS = 0.05


class Ledger:
    """The effects of tools: one row for each idempotency key, with the number of attempts."""

    def __init__(self, path: Path) -> None:
        """Open the file, and make it if it is missing."""
        self._path = path
        with closing(self._connect()) as file, file:
            file.execute("PRAGMA journal_mode=WAL")
            file.execute(
                "CREATE TABLE IF NOT EXISTS effects "
                "(key TEXT PRIMARY KEY, run TEXT, what TEXT, attempts INTEGER)"
            )

    def enter(self, key: str, run: str, what: str) -> None:
        """Enter an effect; one whose key is there already only counts as another attempt."""
        with closing(self._connect()) as file, file:
            file.execute(
                "INSERT INTO effects VALUES (?, ?, ?, 1) "
                "ON CONFLICT (key) DO UPDATE SET attempts = attempts + 1",
                (key, run, what),
            )

    def effects(self) -> dict[str, list[tuple[str, int]]]:
        """Return the effects of each run and their attempts, oldest first."""
        found: dict[str, list[tuple[str, int]]] = {}
        with closing(self._connect()) as file:
            rows = file.execute("SELECT run, what, attempts FROM effects ORDER BY rowid")
            for run, what, attempts in rows:
                found.setdefault(run, []).append((what, attempts))
        return found

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=30)


def support(ledger: Ledger | None) -> Agent[Any]:
    """Return an agent whose refunds need a person, and whose couriers report back."""

    async def enter(ctx: ToolContext[Any], what: str) -> str:
        assert ledger is not None
        await asyncio.sleep(_COMMIT_SECONDS)
        ledger.enter(f"{ctx.idempotency_key} {what}", ctx.run_id or "", what)
        await asyncio.sleep(_COMMIT_SECONDS)
        return what

    @function_tool(needs_approval=True)
    async def refund(ctx: ToolContext[Any], order: str) -> str:
        """Refund an order.

        Args:
            ctx: the call's.
            order: The order.
        """
        return await enter(ctx, f"refunded {order}")

    @function_tool
    async def courier(ctx: ToolContext[Any], order: str) -> str:
        """Book a courier, and wait for the pickup.

        Args:
            ctx: the call's.
            order: The order.
        """
        await ctx.once("book", enter, ctx, f"booked {order}")
        who = await ctx.wait_for("pickup", timeout=timedelta(days=2), schema=str)
        return await enter(ctx, f"picked up {order} by {who}")

    return Agent[Any](name=AGENT, tools=[refund, courier])


def answer_of(said: str) -> str:
    """Return how the answer to a message begins."""
    return f"About {said}:"


def story(said: str) -> str:
    """Return a long answer."""
    return " ".join([answer_of(said), *(f"w{number}" for number in range(STORY))])


def reply(request: ModelRequest, build: str) -> Any:
    """Return what the script says: a call for `refund` and `courier`, a long answer for `story`."""
    said = [str(one["content"]) for one in request.input if one.get("role") == "user"][-1]
    what, _, order = said.partition(" ")
    done = {one["call_id"]: one["output"] for one in request.input if "output" in one}
    call_id = said.replace(" ", "-")
    if what in {"refund", "courier"} and call_id not in done:
        return [call(what, call_id, order=order)]
    if what == "story":
        return say(story(said))
    return say(f"{answer_of(said)} {done.get(call_id, 'fine')}, says version {build}")


def scripted(build: str, pace: float) -> ScriptedModel:
    """Return the model; it keeps no requests, so that its memory does not grow."""

    def take(request: ModelRequest) -> Any:
        model.requests.clear()
        model.names.clear()
        return reply(request, build)

    model = ScriptedModel(always=paced(pace, take))
    return model


def agents() -> list[Agent[Any]]:
    """Return the agents of a desk, which runs none of them."""
    return [support(None)]


def desk_config() -> AgentWorkerConfig:
    """Return what a desk reads: its agents and their task queue."""
    return {"agents": agents(), "task_queue": QUEUE}


def worker_config() -> AgentWorkerConfig:
    """Return the arguments of a worker of one version."""
    build = os.environ["CLUSTER_BUILD"]
    return {
        "agents": [support(Ledger(Path(os.environ["CLUSTER_LEDGER"])))],
        "task_queue": QUEUE,
        "model_provider": scripted(build, float(os.environ.get("CLUSTER_PACE", "0"))),
        "deployment_config": WorkerDeploymentConfig(
            version=WorkerDeploymentVersion(DEPLOYMENT, build),
            use_worker_versioning=True,
            default_versioning_behavior=VersioningBehavior.PINNED,
        ),
    }
