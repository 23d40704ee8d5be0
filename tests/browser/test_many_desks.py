"""Several `outlast serve` behind one address: a reader that changes processes goes on by its cursor."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import httpx2

from outlast.agents.hosts import LOOPBACK
from tests.browser.model import counted
from tests.browser.people import come_as_customer, until_texts, write
from tests.browser.stage import Stage
from tests.browser.window import Windows

LAST = 120


@dataclass
class RoundRobin:
    """Passes each connection on to the next of several ports.

    Attributes:
        port: where it listens.
        passed: the ports that connections went to, in order.
    """

    ports: list[int]
    port: int = 0
    passed: list[int] = field(default_factory=list[int])
    _open: set[asyncio.StreamWriter] = field(default_factory=set[asyncio.StreamWriter])

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Listen."""
        turns = cycle(self.ports)

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            target = next(turns)
            self.passed.append(target)
            up, down = await asyncio.open_connection(LOOPBACK, target)
            self._open |= {writer, down}
            await asyncio.gather(_pump(reader, down), _pump(up, writer))

        server = await asyncio.start_server(accept, LOOPBACK, 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            self.cut_all()
            server.close()

    def cut_all(self) -> None:
        """End all connections in the middle."""
        for writer in self._open:
            writer.transport.abort()
        self._open.clear()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


PIECES = 5
"""How many pieces of text a reader takes before its connection ends."""


async def test_a_reader_of_the_api_goes_on_at_another_process(stage: Stage) -> None:
    handle = await stage.start_run("Writer", "say Hello!", "read by turns")
    await handle.wait_for_answer("start")
    balancer = RoundRobin([desk.port for desk in stage.desks.values()])
    reading = Reading()
    async with balancer.running():
        await reading.connect(balancer.port)
        message = await handle.send(f"count to {LAST}")
        while not reading.is_answered:
            await reading.connect(balancer.port)
        await handle.wait_for_answer(message.id)
    assert len(set(balancer.passed)) == 2
    assert len(balancer.passed) > 5
    assert reading.snapshots == 1, "every other connection went on by its cursor"
    assert len(reading.text.split()) > LAST / 2
    assert counted(LAST).startswith(reading.text)
    assert reading.messages == ["say Hello!", "Hello!", f"count to {LAST}", counted(LAST)]


@dataclass
class Reading:
    """What a reader has got over all its connections."""

    cursor: str = ""
    snapshots: int = 0
    text: str = ""
    messages: list[str] = field(default_factory=list[str])

    @property
    def is_answered(self) -> bool:
        """Whether the finished answer has come."""
        return len(self.messages) == 4

    async def connect(self, port: int) -> None:
        """Read a few pieces of text in a new connection, or the snapshot."""
        headers = {"Last-Event-ID": self.cursor} if self.cursor else {}
        url = f"http://{LOOPBACK}:{port}/api/conversations/read%20by%20turns/events"
        pieces, event = 0, ""
        async with (
            httpx2.AsyncClient(trust_env=False, timeout=60) as http,
            http.stream("GET", url, headers=headers) as response,
        ):
            assert response.status_code == 200
            async for line in response.aiter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    event = value
                elif name == "id":
                    self.cursor = value
                elif name == "data":
                    self._take(event, json.loads(value))
                    pieces += event == "text"
                elif not line and (self.is_answered or pieces == PIECES or event == "snapshot"):
                    return

    def _take(self, event: str, content: dict[str, Any]) -> None:
        if event == "snapshot":
            self.snapshots += 1
            self.messages = [one["text"] for one in content["run"]["items"] if one.get("text")]
        elif event == "text":
            self.text += content["text"]
        elif event == "event" and (item := content.get("item")) and item.get("text"):
            self.messages.append(item["text"])


async def test_pages_go_on_when_connections_are_cut(stage: Stage, windows: Windows) -> None:
    windows.may_lose_server = True
    await stage.start_run("Writer", "say Hello!", "cut")
    balancer = RoundRobin([desk.port for desk in stage.desks.values()])
    async with balancer.running():
        customer = await windows.open()
        url = f"http://{LOOPBACK}:{balancer.port}"
        await come_as_customer(customer, stage, "cut", url)
        texts = ["say Hello!", "Hello!"]
        await until_texts(customer, texts)
        await write(customer, f"count to {LAST}")
        await customer.locator("#progress", has_text="n9 ").wait_for()
        balancer.cut_all()
        await until_texts(customer, [*texts, f"count to {LAST}", counted(LAST)])
        await customer.close()
    assert len(set(balancer.passed)) == 2
