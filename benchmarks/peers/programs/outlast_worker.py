"""A worker of outlast, which connects and runs as `outlast worker` does."""

import asyncio
from typing import Any

from benchmarks.model_server import AGENTS
from benchmarks.peers.programs.job import Job, the_job
from benchmarks.peers.programs.note import keep_note
from benchmarks.usage import report_when_asked
from outlast import Agent, function_tool
from outlast.agents.context.wrapper import ToolContext
from outlast.cli import event_loop
from outlast.client.transport.connection import connect
from outlast.models import OpenAIProvider
from outlast.worker import AgentWorker


def agent_of(job: Job) -> Agent[Any]:
    """Return the starting agent."""

    # The tool changes nothing, but in the ledger's rows.
    reads = not job.ledger and job.transport != "activities"

    @function_tool(needs_approval=job.variant == "approvals", effect="read" if reads else None)
    async def note(context: ToolContext[Any], number: int) -> str:
        """Keep a note.

        Args:
            context: the call's.
            number: The number of the note.
        """
        return await keep_note(number, job, run=context.run_id, key=context.idempotency_key)

    front, back = (
        Agent[Any](name, instructions="You keep notes.", tools=[note]) for name in AGENTS
    )
    if job.variant == "handoffs":
        front.handoffs.append(back)
        back.handoffs.append(front)
    return front


async def main(job: Job) -> None:
    """Carry runs until standard input ends."""
    report_when_asked()
    options: dict[str, Any] = {"max_cached_workflows": 0} if job.variant == "replayed" else {}
    async with AgentWorker(
        await connect(job.address),
        agents=[agent_of(job)],
        task_queue=job.queue,
        model_provider=OpenAIProvider(base_url=job.model_url, api_key="none"),
        **options,
    ):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    event_loop.run(main(the_job()))
