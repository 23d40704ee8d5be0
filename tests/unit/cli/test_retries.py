import asyncio
from datetime import timedelta

import pytest
from temporalio.client import Client

from outlast.cli import retries as module
from outlast.cli.retries import Retry, tell_retries
from outlast.client.runner import Runner
from outlast.ports.model import ModelError
from outlast.testing import ScriptedModel
from tests.unit.cli.conftest import Open, eventually

BUSY = ModelError("The service is busy.", code="model_call_failed", retryable=True)


async def test_each_failed_attempt_is_told_once_with_its_reason(
    client: Client, open_desk: Open, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_EVERY", timedelta(milliseconds=20))
    told: list[Retry] = []
    queue = await open_desk(ScriptedModel(BUSY, BUSY, "Here I am."))
    handle = await Runner.start("Helper", "Hi", id=run_id, client=client, task_queue=queue)

    async with tell_retries(client, run_id, told.append):
        assert (await handle.result()).final_output == "Here I am."

    assert [(retry.activity, retry.attempt) for retry in told] == [
        ("call_model", 1),
        ("call_model", 2),
    ]
    assert all("The service is busy." in retry.reason for retry in told)
    assert str(told[0]).startswith("call_model, attempt 1: ")


async def test_the_reason_is_told_also_where_it_was_too_long_for_the_server(
    client: Client, open_desk: Open, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_EVERY", timedelta(milliseconds=20))
    told: list[Retry] = []
    endless = ModelError("Überlastet. " * 1_000, code="model_call_failed", retryable=True)
    queue = await open_desk(ScriptedModel(endless, "Here I am."))
    handle = await Runner.start("Helper", "Hi", id=run_id, client=client, task_queue=queue)

    async with tell_retries(client, run_id, told.append):
        await handle.result()

    assert [retry.reason[:12] for retry in told] == ["Überlastet. "]


async def test_what_cannot_be_asked_is_no_error(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_EVERY", timedelta(0))
    asked = 0
    describe = module._retries

    async def count(*arguments: object) -> list[tuple[str, Retry]]:
        nonlocal asked
        asked += 1
        return await describe(*arguments)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(module, "_retries", count)

    async with tell_retries(client, "never-was", print), asyncio.timeout(20):
        await eventually(lambda: asked > 2)
