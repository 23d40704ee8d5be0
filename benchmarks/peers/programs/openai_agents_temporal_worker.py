"""A worker of `temporalio-openai-agents`, configured as its README does."""

import asyncio
from datetime import timedelta

from agents import OpenAIProvider
from openai import AsyncOpenAI
from temporalio.client import Client
from temporalio.openai_agents import ModelActivityParameters, OpenAIAgentsPlugin
from temporalio.worker import Worker

from benchmarks.peers.programs.job import Job, the_job
from benchmarks.peers.programs.openai_agents_temporal_workflow import Notes, note
from benchmarks.usage import report_when_asked


async def main(job: Job) -> None:
    """Carry runs until standard input ends."""
    report_when_asked()
    # Temporal retries, so the client does not: the plugin's own default.
    model_client = AsyncOpenAI(base_url=job.model_url, api_key="none", max_retries=0)
    plugin = OpenAIAgentsPlugin(
        model_params=ModelActivityParameters(
            start_to_close_timeout=timedelta(seconds=30),
            streaming_topic="events" if job.variant == "streamed" else None,
        ),
        model_provider=OpenAIProvider(openai_client=model_client),
    )
    options = {"max_cached_workflows": 0} if job.variant == "replayed" else {}
    async with Worker(
        await Client.connect(job.address, plugins=[plugin]),
        task_queue=job.queue,
        workflows=[Notes],
        activities=[note],
        **options,
    ):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(the_job()))
