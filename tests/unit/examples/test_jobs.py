"""The jobs: a process of its own, and a workflow of the user's own, each run as it stands."""

import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from jobs import own_workflow, subprocess_job
from temporalio.client import Client

from outlast import Runner
from outlast.local.engine import LocalEngine
from outlast.testing import ScriptedModel, call
from outlast.worker import AgentWorker
from tests.eventually import eventually
from tests.servers import TemporalServer


@pytest.fixture(autouse=True)
async def place(
    server: TemporalServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[Path]:
    """A server and a folder for jobs."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", server.address)
    monkeypatch.setenv("RENDER_SECONDS", "0")
    monkeypatch.setattr(subprocess_job, "JOBS", tmp_path)
    yield tmp_path
    await LocalEngine.close_shared()


def folders(place: Path) -> list[Path]:
    return list(place.iterdir())


def new_id() -> str:
    return f"job-{secrets.token_hex(4)}"


@pytest.mark.breaks_rules("item-id")
async def test_a_process_renders_and_delivers_what_it_has_made(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    title = "-n '$(touch broken)' \"; exit 1"
    model = ScriptedModel([call("render_video", "../../c1", title=title)], "Done.")
    monkeypatch.setattr(subprocess_job.desk, "model", model)
    await subprocess_job.main(new_id())
    assert capsys.readouterr().out == "Done.\n"
    [folder] = folders(place)
    assert (folder / "video").read_text() == title
    output = model.requests[1].input[-1]["output"]
    assert output == f"The video is in {folder.name[:8]} and has {len(title)} bytes."


async def test_a_run_that_is_cancelled_ends_its_process(
    place: Path, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    monkeypatch.setenv("RENDER_SECONDS", "600")
    queue = new_id()
    async with AgentWorker(
        client,
        agents=[subprocess_job.desk],
        task_queue=queue,
        model_provider=ScriptedModel([call("render_video", "c1", title="Elm Street")]),
    ):
        handle = await Runner.start("Studio", "Hi", id=new_id(), client=client, task_queue=queue)
        await eventually(lambda: [one for one in folders(place) if (one / "pid").exists()])
        [folder] = folders(place)
        group = os.getpgid(int((folder / "pid").read_text()))
        await handle.wait(lambda state: state.status == "parked")
        await handle.cancel()
        await eventually(lambda: not is_alive(group))


def is_alive(group: int) -> bool:
    """Whether a group has a process."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_workflow_of_the_shop_ships_and_the_courier_signals_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    order = f"A-{secrets.token_hex(4)}"
    model = ScriptedModel([call("ship_order", "c1", order=order, days=1)], "Shipped.")
    monkeypatch.setattr(own_workflow.desk, "model", model)
    await own_workflow.main(new_id(), order)
    assert capsys.readouterr().out == "ship_order waits for ShipOrder\nShipped.\n"
    assert model.requests[1].input[-1]["output"] == (
        f'{{"order":"{order}","tracking":"P-{order}-today"}}'
    )
