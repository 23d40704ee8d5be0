"""Workers are killed with SIGKILL while tools have jobs: each job is started once, and counts."""

import asyncio
import os
import secrets
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.worker import Worker

from outlast import RunConfig, RunHandle, Runner
from outlast.client import connect
from outlast.testing import ScriptedModel, call, say
from outlast.worker import AgentWorker
from tests.crash.desk_worker import READY, DeskSettings, DeskWorker
from tests.eventually import eventually
from tests.servers import TemporalServer
from tests.workflow.test_long_runs import true_in_the_end
from tests.workflow.test_temporal_tools import is_open

pytestmark = [pytest.mark.full, pytest.mark.timeout(120)]

QUICK = RunConfig(heartbeat_timeout=timedelta(seconds=2))


def reply(request: Any) -> Any:
    """Call the agent's only tool once, and say what came of it."""
    outputs = [item["output"] for item in request.input if "output" in item]
    if outputs:
        return say(outputs[-1])
    asked = request.input[0]["content"]
    if request.tools[0].name == "render_video":
        return [call("render_video", "c1", title=asked)]
    return [call("ship_order", "c1", order=asked, days=3)]


async def serve(settings: DeskSettings, line: Connection) -> None:
    """Carry the runs of both agents; the first attempts begin a job and then hang, if it says so."""
    from jobs import own_workflow, subprocess_job

    from outlast.extensions import temporal_tools

    os.environ["TEMPORAL_ADDRESS"] = settings.address
    os.environ["RENDER_SECONDS"] = "2"
    subprocess_job.JOBS = settings.database
    hangs = settings.database / "hang"

    async def hang() -> None:
        while hangs.exists():  # noqa: ASYNC110  the test's process removes it
            await asyncio.sleep(0.01)

    start_process, start_workflow = subprocess_job.start, temporal_tools._Operation._start

    async def start_and_hang(*arguments: Any) -> int:
        done = start_process(*arguments)
        await hang()
        return done

    async def start_errand_and_hang(self: Any, ctx: Any, arguments: Any) -> str:
        done = await start_workflow(self, ctx, arguments)
        await hang()
        return done

    subprocess_job.start = start_and_hang
    temporal_tools._Operation._start = start_errand_and_hang
    client = await connect(settings.address, "default")
    async with AgentWorker(
        client,
        agents=[subprocess_job.desk, own_workflow.desk],
        task_queue=settings.task_queue,
        model_provider=ScriptedModel(always=reply),
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
    ):
        line.send(READY)
        await asyncio.Event().wait()


@dataclass(frozen=True, kw_only=True)
class Jobs:
    """One test's part of the server, and what its workers need."""

    client: Client
    settings: DeskSettings

    def worker(self) -> DeskWorker:
        """Return a worker of both agents, not started yet."""
        return DeskWorker(self.settings, serve)

    def let_attempts_hang(self) -> None:
        """Let attempts hang between the start of the job and the record of the wait."""
        (self.settings.database / "hang").touch()

    def let_attempts_go_on(self) -> None:
        """Let attempts go on."""
        (self.settings.database / "hang").unlink()

    async def ask(self, agent: str, text: str) -> RunHandle:
        """Start a run."""
        return await Runner.start(
            agent,
            text,
            id=f"jobs-{secrets.token_hex(4)}",
            run_config=QUICK,
            client=self.client,
            task_queue=self.settings.task_queue,
        )

    async def attempts(self, handle: RunHandle) -> int:
        """Return how often the run's tool was begun, in all activities of it."""
        history = await self.client.get_workflow_handle(handle.id).fetch_history()
        return sum(
            event.activity_task_started_event_attributes.attempt
            for event in history.events
            if event.HasField("activity_task_started_event_attributes")
            and _type_of(history.events, event).startswith("tool:")
        )


def _type_of(events: Any, started: Any) -> str:
    scheduled = events[started.activity_task_started_event_attributes.scheduled_event_id - 1]
    return scheduled.activity_task_scheduled_event_attributes.activity_type.name


@pytest.fixture
async def jobs(server: TemporalServer, tmp_path: Path) -> Jobs:
    settings = DeskSettings(
        address=server.address,
        task_queue=f"jobs-{secrets.token_hex(4)}",
        database=tmp_path,
        log=tmp_path / "log",
    )
    return Jobs(client=await server.connect(), settings=settings)


def _folders(jobs: Jobs) -> list[Path]:
    return [one for one in jobs.settings.database.iterdir() if one.is_dir()]


async def test_a_process_is_started_once_although_its_worker_is_killed_twice(jobs: Jobs) -> None:
    jobs.let_attempts_hang()
    async with jobs.worker() as first:
        handle = await jobs.ask("Studio", "Elm Street")
        await eventually(lambda: any((one / "pid").exists() for one in _folders(jobs)))
        [folder] = _folders(jobs)
        pid = (folder / "pid").read_text()
        await first.kill()
        assert first.was_killed
    jobs.let_attempts_go_on()
    async with jobs.worker() as second:
        await handle.wait(lambda state: state.status == "parked")
        await second.kill()
    await eventually((folder / "video").exists)  # the job needs no worker
    async with jobs.worker():
        answer = (await handle.result()).final_output
    assert answer == f"The video is in {folder.name[:8]} and has 10 bytes."
    assert _folders(jobs) == [folder]
    assert (folder / "pid").read_text() == pid
    assert await jobs.attempts(handle) >= 3, "begun, begun again, and with the result"


async def test_a_workflow_is_started_once_although_its_worker_is_killed_twice(jobs: Jobs) -> None:
    from jobs.shipping import ShipOrder, pack

    order = f"A-{secrets.token_hex(4)}"
    shipping = jobs.client.get_workflow_handle(f"shipping-{order}")
    jobs.let_attempts_hang()
    async with Worker(jobs.client, task_queue="shipping", workflows=[ShipOrder], activities=[pack]):
        async with jobs.worker() as first:
            handle = await jobs.ask("Shop", order)
            await true_in_the_end(lambda: is_open(shipping))
            await first.kill()
            assert first.was_killed
        execution = (await shipping.describe()).run_id
        jobs.let_attempts_go_on()
        async with jobs.worker() as second:
            await handle.wait(lambda state: state.status == "parked")
            await second.kill()
        await shipping.signal("collected", "today")
        await shipping.result()
        async with jobs.worker():
            answer = (await handle.result()).final_output
    assert answer == f'{{"order":"{order}","tracking":"P-{order}-today"}}'
    assert (await shipping.describe()).run_id == execution
    assert await jobs.attempts(handle) >= 3
