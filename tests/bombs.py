"""Sends a bomb to each door, and prints what each costs: `python -m tests.bombs DIRECTORY`.

A bomb has 100 MB: one text, a nesting, or empty lists. Its pieces are made as they are read, so what
memory is taken is that of the door. The longest pause of the event loop is CPU time between two of
its turns, which other processes do not change.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import httpx2
from starlette.requests import Request

from outlast import Agent
from outlast.a2a import remote
from outlast.agents.approvals.policy_file import ApprovalFile
from outlast.agents.errors import UserError
from outlast.deliveries.bodies import BodyReader, json_of
from outlast.deliveries.problems import Refused
from outlast.edges.bodies import DOORS, BodyRefused
from outlast.edges.bodies.answers import AnswerTooLarge, bound_answers
from outlast.evals.datasets import load_dataset
from outlast.mcp.stdio import MessageReader
from outlast.models.openai.http_session import read_whole
from outlast.models.openai.server_events import EventData
from outlast.pricing import _read as read_prices
from outlast.serve import desk
from outlast.testing.recorded_runs import load_runs
from tests.unit.serve.test_app import CLIENT

SIZE: Final = 100_000_000
KEY: Final = "a-key-of-a-shop-that-nobody-guesses"
KINDS: Final = {
    "text": (b'{"a": "', b"a" * 60_000),
    "deep": (b"", b"[" * 60_000),
    "lists": (b"[", b"[]," * 20_000),
}


def pieces(kind: str) -> Iterator[bytes]:
    """Yield a bomb."""
    begin, again = KINDS[kind]
    yield begin
    for _ in range(SIZE // len(again)):
        yield bytes(bytearray(again))  # each has memory of its own


async def each(kind: str) -> AsyncIterator[bytes]:
    """Yield a bomb as a network does: other tasks have their turn after each piece."""
    for piece in pieces(kind):
        yield piece
        await asyncio.sleep(0)


# --- The doors -----------------------------------------------------------------------------------


def receiver(kind: str) -> Callable[[], Awaitable[Any]]:
    """Return what an application reads a bomb with."""
    bomb = each(kind)

    async def receive() -> Any:
        piece = await anext(bomb, None)
        return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

    return receive


async def nobody(_connection: object) -> None:
    """Know nobody who sends no key."""


def to_desk(path: str, *headers: tuple[bytes, bytes], key: str = KEY) -> Any:
    """Return what sends a bomb to a path of the desk."""

    async def send_bomb(kind: str, _place: Path) -> str:
        login: Any = SimpleNamespace(routes=(), path=None, person=nobody)
        app = desk(CLIENT, agents=[Agent(name="A")], api_keys={"shop": KEY}, login=login)
        own = [(b"authorization", f"Bearer {key}".encode())] if key else []
        scope: Any = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [
                (b"host", b"localhost"),
                (b"content-type", b"application/json"),
                *own,
                *headers,
            ],
            "client": ("10.0.0.1", 5000),
            "scheme": "http",
            "app": app,
        }
        sent = bytearray()

        async def send(message: Any) -> None:
            sent.extend(message.get("body", b""))

        await app(scope, receiver(kind), send)
        return sent.decode()

    return send_bomb


async def to_webhook(kind: str, _place: Path) -> str:
    """Send a bomb to an address of deliveries."""
    request = Request({"type": "http", "headers": [], "method": "POST"}, receiver(kind))
    try:
        json_of(await BodyReader().read(request))
    except Refused as error:
        return error.message
    return ""


def answering(kind: str) -> httpx2.AsyncClient:
    """Return a client whose server answers with a bomb."""

    class Answer(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in each(kind):
                yield piece

    class Server(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            del request
            return httpx2.Response(200, stream=Answer())

    return httpx2.AsyncClient(transport=Server())


def from_server(door: str) -> Any:
    """Return what reads a bomb from a server."""

    async def get(kind: str, _place: Path) -> str:
        async with answering(kind) as client:
            bound_answers(client, DOORS[door])
            try:
                await client.get("http://server")
            except AnswerTooLarge as error:
                return str(error)
        return ""

    return get


async def from_process(kind: str, _place: Path) -> str:
    """Read a bomb from a server in a child process."""
    reader = MessageReader()
    reader.feed(b'{"jsonrpc": "2.0", "id": 7, "result": ')
    async for piece in each(kind):
        assert not reader.feed(piece)
    (message,) = reader.feed(b"}\n")
    answer: Any = message
    assert answer.message.id == 7
    return str(answer.message.error.message)


def from_agent(path: str) -> Any:
    """Return what reads a bomb from an agent of somebody else."""

    async def ask(kind: str, _place: Path) -> str:
        origins = frozenset({"http://agent:80"})
        agent: Any = remote.RemoteAgent(agent="http://agent", origins=origins)
        real = remote.http_client
        remote.http_client = lambda: answering(kind)
        try:
            if path == "card":
                await agent.card()
            else:
                await agent.task(remote.Endpoint("http://agent", "JSONRPC"), "t")
        except remote.A2AError as error:
            return str(error)
        finally:
            remote.http_client = real
        return ""

    return ask


async def from_model(kind: str, _place: Path) -> str:
    """Read a bomb as the reply of a model."""

    class Response:
        status, headers = 200, dict[str, str]()
        content = SimpleNamespace(iter_any=lambda: each(kind))

        async def __aenter__(self) -> None: ...

        async def __aexit__(self, *_: object) -> None: ...

    response: Any = Response()
    try:
        await read_whole(response)
    except BodyRefused as error:
        return str(error)
    return ""


async def from_stream(kind: str, _place: Path) -> str:
    """Read a bomb as an event of a model's reply."""
    events = EventData()
    try:
        for piece in chain([b"data: "], pieces(kind)):
            list(events.feed(piece))
            await asyncio.sleep(0)
    except BodyRefused as error:
        return str(error)
    return ""


def from_file(name: str, load: Callable[[Path], Any]) -> Any:
    """Return what reads a bomb in a file."""

    async def read(kind: str, place: Path) -> str:
        path = place / name
        with path.open("wb") as file:
            file.writelines(pieces(kind))
        try:
            load(path)
        except UserError as error:
            return str(error)
        finally:
            path.unlink()
        return ""

    return read


AGUI: Final = to_desk("/agui/A")
A2A: Final = ((b"a2a-version", b"1.0"),)

BOMBED: Final[dict[str, tuple[str, Any]]] = {
    "API": ("api", to_desk("/api/conversations/c/messages")),
    "A2A JSON-RPC": ("wire", to_desk("/a2a/A", *A2A)),
    "A2A HTTP": ("wire", to_desk("/a2a/A/message:send", *A2A)),
    "AG-UI": ("history", AGUI),
    "Vercel": ("history", to_desk("/vercel/A")),
    "Responses": ("history", to_desk("/v1/responses")),
    "A2A, nobody": ("nobody", to_desk("/a2a/A", *A2A, key="")),
    "AG-UI, nobody": ("nobody", to_desk("/agui/A", key="")),
    "webhook": ("webhook", to_webhook),
    "OIDC": ("oidc", from_server("oidc")),
    "A2A card": ("a2a card", from_agent("card")),
    "A2A answer": ("a2a answer", from_agent("task")),
    "MCP by HTTP": ("mcp", from_server("mcp")),
    "MCP by stdio": ("mcp", from_process),
    "model reply": ("model reply", from_model),
    "model event": ("model event", from_stream),
    "policy file": ("policy", from_file("a.toml", ApprovalFile.load)),
    "price list": ("prices", from_file("a.toml", read_prices)),
    "data set": ("data set", from_file("a.json", load_dataset)),
    "recording": ("recording", from_file("a.json", load_runs)),
}
"""The doors that the program can send to, and how."""


# --- What it costs -------------------------------------------------------------------------------


def memory(name: str) -> int:
    """Return a figure of this process's memory, in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def forget_the_peak() -> None:
    """Let `VmHWM` begin anew."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


async def cost(send: Any, kind: str, place: Path) -> dict[str, Any]:
    """Return what a bomb costs."""
    longest, is_over = 0.0, False

    async def tick() -> None:
        nonlocal longest
        while not is_over:
            before = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - before)

    forget_the_peak()
    before = memory("VmRSS")
    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0)
    said = await send(kind, place)
    is_over = True
    await ticking
    return {"said": said, "bytes": memory("VmHWM") - before, "pause": longest}


def main(place: Path) -> None:
    """Send all bombs, each to a process that has the memory of no other."""
    for name, (door, send) in BOMBED.items():
        for kind in KINDS:
            child = os.fork()
            if child == 0:
                found = asyncio.run(cost(send, kind, place))
                line = json.dumps({"name": name, "door": door, "kind": kind, **found})
                os.write(1, f"{line}\n".encode())
                os._exit(0)
            os.waitpid(child, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
