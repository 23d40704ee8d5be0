"""Takes requests over a socket, for frameworks that run inside the program that uses them.

A connection is one request: a line of JSON in, and lines of JSON out, of which the last has an
`answer` or an `error`. `approve` requests are for runs that wait. Needs the standard library only.
"""

import asyncio
import json
import traceback
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

Say = Callable[[dict[str, Any]], Awaitable[None]]


@dataclass
class Waiting:
    """The calls of a run that wait for a person."""

    pending: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    decided: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))


@dataclass
class Request:
    """A request to run a conversation.

    Attributes:
        id: of the run; the same id again goes on with the run.
        question: of the user.
        turns: how many there will be.
        say: sends a line to who asked.
        waiting: the calls of this run that wait for a person.
    """

    id: str
    question: str
    turns: int
    say: Say
    waiting: Waiting


Run = Callable[[Request], Awaitable[str]]


async def serve(run: Run, approve: Callable[[Request], Awaitable[None]] | None = None) -> None:
    """Print a greeting with the port, and take requests until the process ends.

    Args:
        run: carries a request out.
        approve: what a decision does; it is called when a call waits.
    """
    waiting: defaultdict[str, Waiting] = defaultdict(Waiting)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def say(line: dict[str, Any]) -> None:
            writer.write(json.dumps(line).encode() + b"\n")
            await writer.drain()

        asked = json.loads(await reader.readline())
        request = Request(
            asked["id"], asked.get("question", ""), asked.get("turns", 0), say, waiting[asked["id"]]
        )
        try:
            if asked["do"] == "approve":
                await request.waiting.pending.acquire()
                if approve is not None:
                    await approve(request)
                request.waiting.decided.release()
                await say({"answer": "approved"})
            else:
                await say({"answer": await run(request)})
        except Exception as error:  # noqa: BLE001  the one who asked has to know
            traceback.print_exc()
            await say({"error": f"{type(error).__name__}: {error}"})
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    await asyncio.Event().wait()
