"""One client in several event loops."""

import asyncio
import threading

import httpcore2
import httpx2
import pytest
from openai import AsyncOpenAI

from outlast.models.loop_values import LoopValues
from outlast.models.openai.pools import LoopPools, split_pools


class Around(httpx2.AsyncBaseTransport):
    """A transport of a program's own, such as one that counts."""

    def __init__(self, inside: httpx2.AsyncBaseTransport) -> None:
        self.inside = inside


def client(transport: httpx2.AsyncBaseTransport | None = None) -> AsyncOpenAI:
    http_client = httpx2.AsyncClient(
        transport=transport, mounts={"all://proxied": httpx2.AsyncHTTPTransport(http2=False)}
    )
    return AsyncOpenAI(api_key="k", base_url="http://127.0.0.1:1/v1", http_client=http_client)


def transports(of: AsyncOpenAI) -> list[httpx2.AsyncBaseTransport | None]:
    inner = of._client
    return [inner._transport, *inner._mounts.values()]


def test_every_pool_of_a_client_is_split_once_and_nothing_else_changes() -> None:
    inside = httpx2.AsyncHTTPTransport(limits=httpx2.Limits(max_connections=7))
    one = client(Around(inside))
    before = transports(one)
    split_pools(one)
    first = inside._pool
    split_pools(one)
    assert transports(one) == before
    assert inside._pool is first
    assert isinstance(first, LoopPools)
    assert first._max_connections == 7
    mounted = before[1]
    assert isinstance(mounted, httpx2.AsyncHTTPTransport)
    assert isinstance(mounted._pool, LoopPools)


def test_what_has_no_pool_is_left_as_it_is() -> None:
    transport = httpx2.MockTransport(lambda _request: httpx2.Response(200))
    split_pools(client(transport))
    split_pools(object())  # type: ignore[arg-type]  a double of a test


async def test_each_loop_has_a_pool_like_the_first() -> None:
    pools = LoopPools(httpcore2.AsyncConnectionPool(max_connections=7))
    here = pools._of_loop()
    assert pools._of_loop() is here

    async def elsewhere() -> httpcore2.AsyncConnectionPool:
        return pools._of_loop()

    there = await asyncio.to_thread(asyncio.run, elsewhere())
    assert there is not here
    assert (there._max_connections, there._connections) == (7, [])
    assert there._connections is not here._connections


async def test_who_closes_the_client_closes_the_pools_of_every_loop() -> None:
    closed: list[str] = []

    class Pool(httpcore2.AsyncConnectionPool):
        async def aclose(self) -> None:
            closed.append(threading.current_thread().name)

    pools = LoopPools(Pool())
    pools._of_loop()
    opened, over = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def elsewhere() -> None:
        pools._of_loop()
        loops.append(asyncio.get_running_loop())
        opened.set()
        await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(elsewhere()), name="other")
    thread.start()
    await asyncio.to_thread(opened.wait)
    async with pools:
        pass
    while closed.count("other") < 1:  # noqa: ASYNC110  another thread closes it
        await asyncio.sleep(0.01)
    loops[0].call_soon_threadsafe(over.set)
    await asyncio.to_thread(thread.join)
    assert sorted(closed) == ["MainThread", "MainThread", "other"]


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


@pytest.mark.parametrize("name", ["_connections", "_requests"])
def test_a_pool_still_has_what_a_copy_of_it_must_not_share(name: str) -> None:
    """An upgrade of `httpcore2` that renames these would share connections between loops again."""
    assert vars(httpcore2.AsyncConnectionPool())[name] == []
