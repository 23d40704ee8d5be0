"""A worker of pydantic-ai on Temporal, configured as its documentation does."""

import asyncio

from pydantic_ai.durable_exec.temporal import PydanticAIPlugin
from temporalio.client import Client
from temporalio.worker import Worker

from benchmarks.peers.programs.job import Job, the_job
from benchmarks.peers.programs.pydantic_ai_temporal_workflow import Notes
from benchmarks.usage import report_when_asked


async def main(job: Job) -> None:
    """Carry runs until standard input ends."""
    report_when_asked()
    options = {"max_cached_workflows": 0} if job.variant == "replayed" else {}
    async with Worker(
        await Client.connect(job.address, plugins=[PydanticAIPlugin()]),
        task_queue=job.queue,
        workflows=[Notes],
        **options,
    ):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(the_job()))
