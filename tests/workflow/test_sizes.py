"""Messages that no server records: refused at once with the figure, and nobody else waits for them."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.converter import DataConverter
from temporalio.service import RPCError

from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.client.handle import RunHandle
from outlast.contract.records import LARGEST_BYTES
from outlast.testing import ScriptedModel, say
from tests.workflow.codecs import Sealed, with_codec
from tests.workflow.desk import PATIENCE_SECONDS, Desk

HELPER = Agent[Any](name="Helper")


class Doubling(Sealed):
    """Encrypts, and makes everything twice as large."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        sealed = await super().encode(payloads)
        return [Payload(metadata=one.metadata, data=one.data + one.data) for one in sealed]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        halves = [one.data[: len(one.data) // 2] for one in payloads]
        pairs = zip(payloads, halves, strict=True)
        return await super().decode(
            [Payload(metadata=one.metadata, data=half) for one, half in pairs]
        )


def text(size: int) -> str:
    """Return text that no compression makes much smaller."""
    return random.Random(1).randbytes(size // 2).hex()


async def idle(desk: Desk) -> RunHandle:
    await desk.open(HELPER, model=ScriptedModel(always=lambda _: say("Yes.")))
    handle = await desk.start(HELPER, keep_open=True)
    await desk.until_status(handle, "idle")
    return handle


@pytest.mark.parametrize("size", [LARGEST_BYTES, 3_900_000])
async def test_a_message_that_is_too_large_for_a_raw_caller_holds_nobody_up(desk: Desk, size: int):
    handle = await idle(desk)
    payload = {"input": text(size), "message_id": "large"}
    async with asyncio.timeout(PATIENCE_SECONDS / 4):
        with pytest.raises((WorkflowUpdateFailedError, RPCError)) as raised:
            await desk.workflow(handle).execute_update("send", payload)  # pyright: ignore[reportUnknownMemberType]  the SDK's own annotation
    if isinstance(raised.value, WorkflowUpdateFailedError):
        assert "of at most 1,900,000" in str(raised.value.cause)
    async with asyncio.timeout(PATIENCE_SECONDS / 4):
        answer = await (await handle.send("And you?")).answer()
    assert answer.final_output == "Yes."
    assert "large" not in {one for done in answer.snapshot.answers for one in done.to}
    if size != LARGEST_BYTES:
        desk.ids.clear()  # the server calls what it did with the update a failed task


async def test_sizes_are_measured_as_they_are_sent(desk: Desk, client: Client):
    own = Desk(with_codec(client, Doubling(b"key")), cached=desk.cached)
    try:
        handle = await idle(own)
        with pytest.raises(UserError, match=r"has 2,0\d\d,\d+ bytes, of at most 1,900,000"):
            await handle.send(text(1_000_000))
        with pytest.raises(UserError, match="of at most"):
            await own.start(HELPER, text(1_000_000))
        assert (await (await handle.send(text(900_000))).answer()).final_output == "Yes."
        raw = replace(DataConverter.default, payload_codec=Doubling(b"key"))
        sender = Client(client.service_client, data_converter=raw).get_workflow_handle(handle.id)
        payload = {"input": text(980_000), "message_id": "large"}
        with pytest.raises(WorkflowUpdateFailedError) as raised:
            await sender.execute_update("send", payload)  # pyright: ignore[reportUnknownMemberType]  the SDK's own annotation
        assert "has 1,960," in str(raised.value.cause)
    finally:
        await own.close_all()
