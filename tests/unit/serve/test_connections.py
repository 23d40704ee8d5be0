"""Clients that are slow on purpose, before the desk's own server, by real sockets."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from outlast.agents.errors import UserError
from outlast.serve import connections, desk, http_server, routing, sse
from outlast.serve.connections import ConnectionLimits, Connections
from outlast.serve.feed import FeedLimits
from outlast.serve.http_server import serve_desk
from outlast.serve.routing import DeskRequest, route
from outlast.serve.sse import EventStream, ServerSentEvent
from tests.unit.serve.test_app import CLIENT

QUICK = ConnectionLimits(connections=40, head=timedelta(seconds=0.3), stalled=timedelta(seconds=1))
GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n"
LARGE = b"x" * 8_000_000


class Returns:
    """Stands for a function that returns always the same."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __call__(self, *_: object) -> Any:
        return self._value


class Floods:
    """Events without end; how many were asked for, and whether the stream has ended."""

    made = 0
    has_ended = False

    async def events(self) -> AsyncGenerator[ServerSentEvent]:
        try:
            while True:
                self.made += 1
                yield ServerSentEvent("x" * 100_000)
        finally:
            self.has_ended = True


async def _large(_request: Request) -> Response:
    return Response(LARGE)


async def _echo(asked: DeskRequest) -> Response:
    return Response(await asked.http.body())


async def _quiet_events() -> AsyncGenerator[ServerSentEvent]:
    yield ServerSentEvent("a")
    await asyncio.Event().wait()


async def _quiet(_asked: DeskRequest) -> Response:
    return EventStream(_quiet_events())


@asynccontextmanager
async def served(
    bounds: ConnectionLimits = QUICK, floods: Floods | None = None, **options: Any
) -> AsyncGenerator[int]:
    """Serve a desk with some further routes; yield its port."""

    async def flood(_request: Request) -> Response:
        return EventStream((floods or Floods()).events())

    app = desk(CLIENT, api_keys={"shop": "k" * 30}, **options)
    app.router.routes += [
        Route("/flood", flood),
        Route("/large", _large),
        route("/echo", _echo, action=None, methods=["POST"]),
        route("/quiet", _quiet, action=None),
    ]
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve_desk(app, "127.0.0.1", 0, stop, ready.set_result, bounds))
    try:
        yield await ready
    finally:
        stop.set()
        await serving


async def opened(port: int, sent: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    return reader, writer


async def all_of(reader: asyncio.StreamReader) -> bytes:
    found = b""
    with suppress(ConnectionError):
        while piece := await reader.read(65_536):
            found += piece
    return found


async def answers(port: int) -> bool:
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
        return (await http.get("/health", timeout=5)).status_code == 200


DRIPS = [
    # What is sent first, then every now and then, and what the answer begins with.
    (b"", b"", b""),
    (b"", b"G", b"408"),
    (GET + b"X-A: ", b"a", b"408"),
    (GET + b"\r\nGET /h", b"a", b"200 OK"),
    (GET + b"Content-Length: 50000\r\n\r\n", b"1", b"200 OK"),
    (GET + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n", b"200 OK"),
    (GET + b"Connection: upgrade\r\nUpgrade: websocket\r\n", b"X", b"408"),
    (POST + b"Content-Length: 50\r\n\r\n", b"1", b"408"),
    (POST + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n", b"408"),
]


async def test_who_sends_a_byte_now_and_then_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "BODY_SECONDS", 0.3)

    async def drip(port: int, first: bytes, dripped: bytes) -> bytes:
        reader, writer = await opened(port, first)
        reading = asyncio.create_task(all_of(reader))
        async with asyncio.timeout(8):
            while not reading.done():
                writer.write(dripped)
                await asyncio.wait({reading}, timeout=0.1)
        writer.close()
        return reading.result()

    async with served() as port:
        found = await asyncio.gather(*(drip(port, *row[:2]) for row in DRIPS))
        assert await answers(port)
    for (first, dripped, says), answer in zip(DRIPS, found, strict=True):
        assert says in answer.partition(b"\r\n")[0], (first, dripped, answer)


async def test_a_slow_body_is_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "BODY_SECONDS", 0.5)
    async with served() as port:
        reader, writer = await opened(port, POST + b"Content-Length: 5\r\n\r\n")
        answer = await all_of(reader)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"comes too slowly: it may take 30 seconds" in answer
        writer.close()


async def test_a_body_that_comes_steadily_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "BODY_SECONDS", 1.0)
    monkeypatch.setattr(routing, "SLOWEST_BODY", 10)
    async with served() as port:
        head = POST + b"Connection: close\r\nContent-Length: 40\r\n\r\n"
        reader, writer = await opened(port, head)
        for _ in range(8):
            await asyncio.sleep(0.15)
            writer.write(b"12345")
        assert (await all_of(reader)).endswith(b"12345" * 8)
        writer.close()


async def test_many_connections_do_not_keep_anybody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = replace(QUICK, head=timedelta(minutes=1))
    alive = Connections(limits)
    monkeypatch.setattr("outlast.serve.http_server.Connections", Returns(alive))
    async with served(limits) as port:
        held = [await opened(port, GET) for _ in range(300)]
        assert await answers(port)
        assert 30 < len(alive) <= 40
        for _, writer in held:
            writer.close()


async def test_where_all_have_a_request_in_work_a_new_one_is_refused() -> None:
    async with served(replace(QUICK, connections=3)) as port:
        held = [
            await opened(port, b"GET /quiet HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in "abc"
        ]
        for reader, _ in held:
            assert (await reader.readuntil(b"data: a")).startswith(b"HTTP/1.1 200")
        reader, late = await opened(port)
        answer = await all_of(reader)
        late.close()
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: 5" in answer
        assert answer.endswith(b"Try again in a moment.")
        for _, writer in held:
            writer.close()
        await asyncio.sleep(0.2)
        assert await answers(port)


@pytest.mark.parametrize("path", [b"/flood", b"/large"])
async def test_who_reads_nothing_is_ended_and_holds_little(
    path: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "SEND_SECONDS", 20.0)
    floods, alive = Floods(), Connections(QUICK)
    monkeypatch.setattr("outlast.serve.http_server.Connections", Returns(alive))
    async with served(floods=floods) as port:
        with socket.socket() as silent:
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            silent.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(silent, ("127.0.0.1", port))
            await loop.sock_sendall(
                silent, b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
            )
            await asyncio.sleep(0.5)
            assert len(alive) == 1
            made = floods.made
            async with asyncio.timeout(8):
                while len(alive):  # noqa: ASYNC110  nothing says when it is ended
                    await asyncio.sleep(0.1)
            assert floods.made <= made + 1 < 150  # what the kernel keeps of it, and no more
            async with asyncio.timeout(8):
                while floods.has_ended is not (path == b"/flood"):  # noqa: ASYNC110  likewise
                    await asyncio.sleep(0.01)


async def test_who_reads_slowly_but_reads_is_served() -> None:
    async with served() as port:
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 200_000)
            slow.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(slow, ("127.0.0.1", port))
            request = b"GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            await loop.sock_sendall(slow, request)
            size = 0
            while piece := await loop.sock_recv(slow, 300_000):
                size += len(piece)
                await asyncio.sleep(0.05)
        assert size > len(LARGE)


@pytest.mark.parametrize(
    ("limits", "key", "status", "says"),
    [
        (FeedLimits(readers_per_person=2), "", 429, "has 2 streams already. Close a page"),
        (FeedLimits(streams_per_program=2), "k" * 30, 429, "The API key 'shop' has 2 streams"),
        (FeedLimits(streams=2), "", 503, "This desk sends as many streams as it may."),
        (FeedLimits(streams=2), "k" * 30, 503, "This desk sends as many streams as it may."),
    ],
)
async def test_streams_are_bounded(limits: FeedLimits, key: str, status: int, says: str) -> None:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with (
        served(QUICK, limits=limits) as port,
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http,
    ):
        stream = partial(http.stream, "GET", "/quiet", headers=headers)
        async with stream(), stream():
            refused = await http.get("/quiet", headers=headers)
            assert refused.status_code == status
            assert says in refused.json()["error"]["message"]
            assert refused.headers["Retry-After"] == "5"
        await asyncio.sleep(0.2)
        async with stream() as again:
            assert again.status_code == 200


@pytest.mark.parametrize("name", ["connections", "head", "stalled"])
def test_bounds_are_positive(name: str) -> None:
    zero: Any = 0 if name == "connections" else timedelta()
    with pytest.raises(UserError, match=name):
        ConnectionLimits(**{name: zero})


def test_fewer_connections_where_there_are_fewer_files(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    resource: Any = connections.resource
    monkeypatch.setattr(resource, "getrlimit", Returns((256, 1_024)))
    monkeypatch.setattr(resource, "setrlimit", Returns(None))
    assert Connections(ConnectionLimits()).most == 824
    assert "so the desk takes 824 connections at once" in caplog.text
    assert Connections(ConnectionLimits(connections=50)).most == 50


def test_the_end_of_an_answer_waits_for_no_acknowledgement_of_its_beginning() -> None:
    """With Nagle's algorithm, each answer on a connection that is kept took 40 ms longer."""
    with (
        http_server._listener("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
