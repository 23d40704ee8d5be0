"""Histories are archived in a bucket, whatever is killed during an upload."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.archive import Archive, ObjectArchiveStore, use_archive, verify
from outlast.client.recordings import record_run
from outlast.testing import ScriptedModel
from tests import forked
from tests.s3_servers import S3Server, SlowNetwork, s3_server
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.test_archive import (
    DESK,
    answered,
    archived,
    closed_run,
    echo,
    ended,
    listed,
    taken_by_retention,
    until,
)

NAMED = Agent[Any](name="Desk")


@pytest.fixture(scope="module")
async def s3() -> AsyncIterator[S3Server]:
    pytest.importorskip("obstore")
    pytest.importorskip("moto")
    async with s3_server() as server:
        yield server


@asynccontextmanager
async def worker_process(
    desk: Desk, **environment: str
) -> AsyncGenerator[asyncio.subprocess.Process]:
    process = await forked.start(
        "-m",
        "tests.archive_worker_program",
        desk.client.service_client.config.target_host,
        desk.client.namespace,
        desk.queue,
        env={**os.environ, **environment},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.parametrize("part", [".history", ".json"])
async def test_a_worker_that_is_killed_in_an_upload_leaves_nothing_half(
    desk: Desk, s3: S3Server, part: str
):
    prefix = f"killed-{desk.queue}"
    archive = Archive(ObjectArchiveStore(s3.store(prefix=prefix)))
    place = {"OUTLAST_ARCHIVE": f"s3://archive/{prefix}"}
    async with SlowNetwork(s3.port) as network, AsyncExitStack() as stack:
        slow = s3.environment(**place, AWS_ENDPOINT_URL=network.url)
        worker = await stack.enter_async_context(worker_process(desk, **slow))
        handle = await desk.start_short(NAMED, "message 0", keep_open=True)
        network.holds = part
        for number in range(1, 4):  # over more than one history
            await answered(handle, f"message {number}")
        async with asyncio.timeout(PATIENCE_SECONDS):
            await network.held.wait()
        worker.kill()
        await worker.wait()

        assert [one.problem for one in await verify(archive) if one.problem] == []
        before = await archive.histories_of(desk.client.namespace, handle.id)
        await stack.enter_async_context(worker_process(desk, **s3.environment(**place)))
        await answered(handle, "after the kill")
        await archived(archive, handle, len(before) + 1)
        await handle.cancel("after_turn")
        await desk.result(handle)
        await until(lambda: ended(archive, handle))
        entries = await archive.histories_of(desk.client.namespace, handle.id)
    ids = [one.execution_id for one in entries]
    assert len(ids) == len(set(ids))
    assert [one.previous for one in entries] == ["", *ids[:-1]]
    names = await archive.names("runs/")
    assert len(names) == 2 * len(entries), "a history and an entry of each, once"
    assert [one.problem for one in await verify(archive)] == [""] * len(entries)
    before_retention = await record_run(desk.client, handle.id)
    use_archive(desk.client, archive)
    await taken_by_retention(desk.client, entries)
    desk.ids.remove(handle.id)
    assert (await record_run(desk.client, handle.id)).to_json() == before_retention.to_json()


async def test_a_bucket_that_dies_in_an_upload_is_an_outage_and_is_filled_later(desk: Desk):
    pytest.importorskip("obstore")
    pytest.importorskip("moto")
    few = {"max_retries": 1, "retry_timeout": timedelta(seconds=10)}
    await desk.open(DESK, model=ScriptedModel(always=echo))
    handle = await closed_run(desk)
    async with s3_server() as s3, SlowNetwork(s3.port, holds=".history") as network:
        store = s3.store(endpoint=network.url, retry_config=few)
        archive = Archive(ObjectArchiveStore(store))
        looking = asyncio.create_task(listed(desk, archive, 1))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await network.held.wait()
        network.holds = ""
        await s3.kill()
        swept = await looking
        [failed] = swept.failed
        assert failed.run_id == handle.id
        assert "cannot be written: BucketError: " in failed.why
        async with s3_server(port=s3.port) as again:
            later = Archive(ObjectArchiveStore(again.store(endpoint=network.url)))
            swept = await listed(desk, later, 1)
            assert swept.failed == ()
            [entry] = await later.histories_of(desk.client.namespace, handle.id)
            assert len(await later.events(entry)) == entry.events
            assert len(await later.names("runs/")) == 2


async def test_workers_that_write_one_bucket_at_once_store_the_same(desk: Desk, s3: S3Server):
    """S3 has no transactions: every name is written with one content, so none are needed."""
    archive = Archive(ObjectArchiveStore(s3.store(prefix=f"two-{desk.queue}")))
    await desk.open(DESK, model=ScriptedModel(always=echo))
    handles = [await closed_run(desk) for _ in range(3)]
    await listed(desk, Archive(ObjectArchiveStore(s3.store(prefix=f"seen-{desk.queue}"))), 3)
    for swept in await asyncio.gather(*(listed(desk, archive, 3) for _ in range(3))):
        assert swept.failed == ()
    for handle in handles:
        [entry] = await archive.histories_of(desk.client.namespace, handle.id)
        assert len(await archive.events(entry)) == entry.events
    assert len(await archive.names("runs/")) == 6
