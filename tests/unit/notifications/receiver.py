"""An HTTP server that answers each request as a test says."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

HANGS = "hangs"
BREAKS = "breaks"


@dataclass
class Receiver:
    """A server with what it has received.

    Attributes:
        url: its address.
        outcomes: a status or more for each request to come: `HANGS`, `BREAKS`, or a status with
            headers. Afterwards, every request is answered with 200.
        bodies: the bodies received.
        headers: the headers received.
    """

    url: str = ""
    outcomes: list[int | str | tuple[int, Mapping[str, str]]] = field(
        default_factory=list[int | str | tuple[int, Mapping[str, str]]]
    )
    bodies: list[bytes] = field(default_factory=list[bytes])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.read())
        self.headers.append(dict(request.headers))
        outcome = self.outcomes.pop(0) if self.outcomes else 200
        if outcome == HANGS:
            await self.released.wait()
        if outcome == BREAKS:
            assert request.transport is not None
            request.transport.close()
        if isinstance(outcome, tuple):
            return web.Response(status=outcome[0], headers=outcome[1])
        return web.Response(status=outcome if isinstance(outcome, int) else 200, text="ok" * 10)


@asynccontextmanager
async def serve(app: web.Application) -> AsyncGenerator[str]:
    """Serve an application, and yield its address."""
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def receiving(
    *outcomes: int | str | tuple[int, Mapping[str, str]],
) -> AsyncGenerator[Receiver]:
    """Serve a receiver of webhooks."""
    receiver = Receiver(outcomes=list(outcomes))
    app = web.Application()
    app.router.add_post("/hook", receiver.answer)
    async with serve(app) as url:
        receiver.url = f"{url}/hook"
        try:
            yield receiver
        finally:
            receiver.released.set()
