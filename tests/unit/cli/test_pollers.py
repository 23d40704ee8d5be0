import asyncio
import io
from datetime import timedelta

import pytest
from rich.console import Console
from temporalio.client import Client

from outlast.cli import pollers as module
from outlast.cli.pollers import hint_without_worker, pollers
from outlast.testing import ScriptedModel
from tests.unit.cli.conftest import Open, eventually


async def test_a_worker_is_seen_by_its_identity(client: Client, open_desk: Open) -> None:
    queue = await open_desk(ScriptedModel())

    seen: list[str] = []
    async with asyncio.timeout(10):
        while client.identity not in seen:
            seen = await pollers(client, queue)


async def test_nobody_waits_on_an_unknown_queue(client: Client) -> None:
    assert await pollers(client, "nobody-is-here") == []


async def test_people_who_wait_for_nobody_are_told(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HINT_AFTER", timedelta(0))
    said = io.StringIO()

    async with hint_without_worker(client, "nobody-is-here", Console(file=said)):
        await eventually(lambda: "outlast worker MODULE" in said.getvalue())


async def test_a_short_wait_gives_no_hint(client: Client) -> None:
    said = io.StringIO()

    async with hint_without_worker(client, "nobody-is-here", Console(file=said)):
        pass

    assert said.getvalue() == ""
