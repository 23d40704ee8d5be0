"""A Node process that runs a front end's real clients, as a script tells it: one for each test file."""

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, Final, Self

HERE: Final = Path(__file__).parent
PATIENCE_SECONDS: Final = 60
_LONGEST_LINE: Final = 10_000_000


class ClientError(Exception):
    """The client raised an error."""


class FrontEnd:
    """A Node process that takes commands.

    Args:
        script: the file with the commands.

    Attributes:
        events: what came from streams, each with the name of its client.
        unhandled: errors that the client let fall.
    """

    def __init__(self, script: str) -> None:
        self._script = HERE / script
        self.events: list[dict[str, Any]] = []
        self.unhandled: list[str] = []
        self._replies: dict[int, asyncio.Future[Any]] = {}
        self._ids = itertools.count(1)
        self._news = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *("node", str(self._script)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=HERE,
            limit=_LONGEST_LINE,
        )
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_error: object) -> None:
        assert self._process is not None
        assert self._reading is not None
        if self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                await self._process.wait()
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def one_test(self) -> AsyncGenerator[Self]:
        """Have neither clients, events nor errors of other tests."""
        yield self
        await self.do("forget")
        self.events.clear()
        self.unhandled.clear()

    async def do(self, what: str, **fields: Any) -> Any:
        """Send a command, and return its result.

        Raises:
            ClientError: the client raised an error.
        """
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.begin(what, **fields)

    def begin(self, what: str, **fields: Any) -> asyncio.Future[Any]:
        """Send a command, whose result comes later."""
        assert self._process is not None
        assert self._process.stdin is not None
        number = next(self._ids)
        reply = self._replies[number] = asyncio.get_running_loop().create_future()
        line = json.dumps({"id": number, "do": what, **fields})
        self._process.stdin.write(f"{line}\n".encode())
        return reply

    async def until(self, condition: Callable[[list[dict[str, Any]]], bool]) -> None:
        """Wait until the events that have come satisfy a condition."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition(self.events):
                news = self._news
                await news.wait()

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self._take(json.loads(line))
            news, self._news = self._news, asyncio.Event()
            news.set()

    def _take(self, said: dict[str, Any]) -> None:
        if "unhandled" in said:
            self.unhandled.append(said["unhandled"])
        elif "event" in said:
            self.events.append({"from": said["from"], **said["event"]})
        else:
            reply = self._replies.pop(said["id"])
            if reply.cancelled():
                return
            if "error" in said:
                reply.set_exception(ClientError(said["error"]))
            else:
                reply.set_result(said["result"])
