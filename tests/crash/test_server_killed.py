"""The Temporal server is killed with SIGKILL in the middle of a conversation and starts again."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from temporalio.client import Client

from outlast.contract import names
from outlast.dev import EmbeddedServer, running_server
from tests.crash.conversation import ShortTasks
from tests.crash.trial import Report, Trial, at_event, first_event
from tests.crash.verdict import check

_LOOK_SECONDS = 0.02


async def killed_and_started_again(server: EmbeddedServer, data_dir: Path) -> EmbeddedServer:
    port = int(server.address.rpartition(":")[2])
    os.kill(server.info.pid, signal.SIGKILL)
    while running_server(data_dir) is not None:  # noqa: ASYNC110  another process makes it true
        await asyncio.sleep(_LOOK_SECONDS)
    await server.stop()
    again = EmbeddedServer(data_dir=data_dir, port=port, ui_port=None)
    await again.start()
    return again


@pytest.mark.full
async def test_a_killed_server_changes_nothing_for_those_who_stay(
    tmp_path: Path, model_url: str, baseline: Report
):
    data_dir = tmp_path / "server"
    server = EmbeddedServer(
        data_dir=data_dir, ui_port=None, search_attributes=names.SEARCH_ATTRIBUTES
    )
    moments = [
        first_event(baseline.events, "activity_task_started call_model"),
        first_event(baseline.events, "activity_task_started tool:change_address"),
        first_event(baseline.events, "workflow_execution_signaled decide") - 1,
    ]
    await server.start()
    try:
        trial = Trial(
            client=await Client.connect(server.address, interceptors=[ShortTasks()]),
            address=server.address,
            model_url=model_url,
            folder=tmp_path,
        )
        holding = asyncio.create_task(trial.hold())
        await trial.begun.wait()
        for moment in moments:
            assert await at_event(moment)(trial)
            server = await killed_and_started_again(server, data_dir)
        report = await holding
    finally:
        await server.stop()
    check(report, baseline)
