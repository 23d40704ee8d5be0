"""Values of event loops, and one client in several of them."""

import asyncio

import pytest
from openai import AsyncOpenAI

from outlast.models.loop_values import LoopValues
from outlast.models.openai.connection import OpenAIConnection
from outlast.ports.model import ModelError


async def test_a_client_is_used_in_one_open_event_loop_at_a_time() -> None:
    client = AsyncOpenAI(api_key="k", base_url="http://127.0.0.1:1/v1")

    async def use() -> AsyncOpenAI:
        return await OpenAIConnection(client=client).client("/models")

    assert await asyncio.to_thread(asyncio.run, use()) is client
    assert await use() is client, "the loop before is closed"
    with pytest.raises(ModelError, match="used in another event loop") as caught:
        await asyncio.to_thread(asyncio.run, use())
    assert not caught.value.retryable


async def test_values_of_closed_loops_are_dropped() -> None:
    values: LoopValues[str] = LoopValues()

    async def elsewhere() -> str | None:
        values.set("there")
        return values.get()

    assert await asyncio.to_thread(asyncio.run, elsewhere()) == "there"
    assert values.get() is None
    values.set("here")
    assert values._values == {asyncio.get_running_loop(): "here"}
    assert (values.pop_others(), values.pop(), values.pop()) == ([], "here", None)
