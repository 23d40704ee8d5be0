"""A worker of the floor, with all defaults or with the transport and event loop of outlast's."""

import asyncio
import json
from typing import Any, cast

from httpx2 import create_ssl_context
from openai import AsyncOpenAI
from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker

from benchmarks.floor import Floor, FloorActivities
from benchmarks.peers.programs.job import Job, the_job
from benchmarks.peers.programs.note import keep_note
from benchmarks.usage import report_when_asked
from outlast import ModelSettings
from outlast.cli import event_loop
from outlast.client.transport.connection import connect
from outlast.models.openai.body_encoding import encode
from outlast.models.openai.http_session import HttpResponse, HttpSession


class Activities(FloorActivities):
    """The floor's activities, with the tool of all subjects."""

    def __init__(self, client: AsyncOpenAI, job: Job) -> None:
        super().__init__(client, "")
        self._job = job

    @activity.defn(name="note")
    async def note(self, _arguments: str) -> str:
        """Keep a note."""
        info = activity.info()
        return await keep_note(
            json.loads(_arguments)["number"],
            self._job,
            run=info.workflow_id or "",
            key=info.activity_id,
        )


class _WorkerTransport:
    """The client with the transport of outlast's worker in place of its own."""

    def __init__(self, client: AsyncOpenAI) -> None:
        self._session = HttpSession(client, create_ssl_context())

    async def post(self, path: str, *, body: dict[str, Any], **_: Any) -> HttpResponse:
        """Send a body and return the response."""
        response = await self._session.post(path, encode(body), ModelSettings())
        if response is None:
            raise RuntimeError("the model redirects")
        return response


def client_of(job: Job) -> AsyncOpenAI:
    """Return the model's client."""
    client = AsyncOpenAI(base_url=job.model_url, api_key="none", max_retries=0)
    if job.transport == "worker":
        return cast("AsyncOpenAI", _WorkerTransport(client))
    if job.transport != "default":
        raise ValueError(f"no transport {job.transport!r}: take default or worker")
    return client


async def main(job: Job) -> None:
    """Carry runs until standard input ends."""
    report_when_asked()
    activities = Activities(client_of(job), job)
    options: dict[str, Any] = {"max_cached_workflows": 0} if job.variant == "replayed" else {}
    async with Worker(
        await (connect if job.transport == "worker" else Client.connect)(job.address),
        task_queue=job.queue,
        workflows=[Floor],
        activities=[activities.ask_model, activities.note],
        build_id="floor",
        **options,
    ):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    (event_loop.run if the_job().transport == "worker" else asyncio.run)(main(the_job()))
