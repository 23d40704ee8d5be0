"""The Temporal server is killed with SIGKILL in the middle of a conversation and starts again."""

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from temporalio.client import Client

from outlast.contract import names
from outlast.dev import EmbeddedServer, running_server
from tests.crash.conversation import DESK, ShortTasks, Talk
from tests.crash.trial import Moment, Report, Trial, at_event, first_event
from tests.crash.verdict import check

_LOOK_SECONDS = 0.02


async def hold_on_killed_servers(
    folder: Path, model_url: str, moments: Sequence[Moment], talk: Talk = DESK
) -> Report:
    """Hold a conversation on a server that is killed, and started again, at each moment."""
    data_dir = folder / "server"
    server = EmbeddedServer(
        data_dir=data_dir, ui_port=None, search_attributes=names.SEARCH_ATTRIBUTES
    )
    await server.start()
    address = server.address
    port = int(address.rpartition(":")[2])

    async def kill_and_start_again() -> None:
        nonlocal server
        os.kill(server.info.pid, signal.SIGKILL)
        while running_server(data_dir) is not None:  # noqa: ASYNC110  another process makes it true
            await asyncio.sleep(_LOOK_SECONDS)
        await server.stop()
        server = EmbeddedServer(data_dir=data_dir, port=port, ui_port=None)
        await server.start()

    try:
        trial = Trial(
            client=await Client.connect(address, interceptors=[ShortTasks()]),
            address=address,
            model_url=model_url,
            folder=folder,
            talk=talk,
        )
        return await trial.hold(moments, instead=kill_and_start_again)
    finally:
        await server.stop()


@pytest.mark.full
@pytest.mark.timeout(600)
async def test_a_killed_server_changes_nothing_for_those_who_stay(
    tmp_path: Path, model_url: str, baseline: Report
):
    moments = [
        first_event(baseline.events, "activity_task_started call_model"),
        first_event(baseline.events, "activity_task_started tool:change_address"),
        first_event(baseline.events, "workflow_execution_signaled decide") - 1,
    ]
    report = await hold_on_killed_servers(tmp_path, model_url, [at_event(one) for one in moments])
    check(report, baseline)
