"""Servers of S3 for tests, and a network before them that holds back the rest of an upload."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Self

PATIENCE_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Server:
    """A server that runs, with the key of a user who may use all buckets."""

    port: int
    key_id: str
    secret: str
    process: asyncio.subprocess.Process

    def environment(self, **others: str) -> dict[str, str]:
        """Return what a program needs to reach it, as users of S3-compatible servers set it."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": self.key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            **others,
        }

    def store(self, bucket: str = "archive", **options: Any) -> Any:
        """Return obstore's store of a bucket."""
        from obstore.store import S3Store

        return S3Store(
            bucket,
            endpoint=options.pop("endpoint", f"http://127.0.0.1:{self.port}"),
            region="us-east-1",
            access_key_id=options.pop("key_id", self.key_id),
            secret_access_key=options.pop("secret", self.secret),
            client_options={"allow_http": True},
            **options,
        )

    async def kill(self) -> None:
        """End it as a power cut does; what it stored is lost."""
        self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def s3_server(port: int = 0) -> AsyncGenerator[S3Server]:
    """Start a server in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.s3_program",
        str(port),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            found, key_id, secret = json.loads(await process.stdout.readline())
        yield S3Server(port=found, key_id=key_id, secret=secret, process=process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@dataclass
class SlowNetwork:
    """Forwards connections to a server, and holds back the end of one upload.

    Attributes:
        to: the server's port.
        holds: the end of the path of the upload, such as `.history`; empty for none.
        held: is set when an upload is held.
    """

    to: int
    holds: str = ""
    held: asyncio.Event = field(default_factory=asyncio.Event)
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set[asyncio.Task[Any]])

    @property
    def url(self) -> str:
        """Where clients connect."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, to = await asyncio.open_connection("127.0.0.1", self.to)
        except OSError:
            writer.close()
            return
        both = [self._upload(reader, to), _copy(there, writer)]
        tasks = [asyncio.create_task(one) for one in both]
        self._tasks |= {*tasks}
        for task in tasks:
            task.add_done_callback(self._tasks.discard)

    async def _upload(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                path = data.partition(b" HTTP/1.1")[0]
                if self.holds and path.startswith(b"PUT ") and path.endswith(self.holds.encode()):
                    head, end, body = data.partition(b"\r\n\r\n")
                    writer.write(head + end + body[: len(body) // 2])
                    await writer.drain()
                    self.held.set()
                    await reader.read()  # until the sender has died
                    break
                writer.write(data)
                await writer.drain()
        writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
