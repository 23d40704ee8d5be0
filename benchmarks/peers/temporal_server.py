"""A Temporal development server that meters actions."""

import asyncio
import os
import re
import socket
import tempfile
import time
import urllib.request
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from outlast.contract import names
from outlast.dev import find_temporal_cli
from outlast.dev.server_process import HOST, ServerSettings

START_SECONDS = 60
_ACTION = re.compile(
    r'^action\{action_type="([^"]+)",namespace="default".*\} ([0-9.e+]+)$', re.MULTILINE
)


class MeteredServer:
    """A server with the settings of `outlast.dev`, its database in memory.

    Attributes:
        address: for clients.
        pid: of the process.
    """

    def __init__(self) -> None:
        self.address = f"{HOST}:{_free_port()}"
        self._metrics_port = _free_port()
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    async def __aenter__(self) -> Self:
        settings = ServerSettings(
            port=int(self.address.rpartition(":")[2]),
            ui_port=None,
            namespace="default",
            search_attributes=names.SEARCH_ATTRIBUTES,
            in_memory=True,
        )
        flags = [*settings.flags(Path()), "--metrics-port", str(self._metrics_port)]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TEMPORAL_")}
        log = Path(tempfile.gettempdir()) / "benchmarks-peers-server.log"
        with ExitStack() as stack:
            file = stack.enter_context(log.open("wb"))
            self._process = await asyncio.create_subprocess_exec(
                find_temporal_cli(), "server", "start-dev", *flags,
                stdout=file, stderr=file, env=environment,
            )  # fmt: skip
        deadline = time.monotonic() + START_SECONDS
        while not await _answers(self.address):
            if self._process.returncode is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the Temporal server does not start; see {log}")
            await asyncio.sleep(0.1)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def actions(self) -> Counter[str]:
        """Return the server's own count of actions so far, by its name of the operation."""
        url = f"http://{HOST}:{self._metrics_port}/metrics"
        text = await asyncio.to_thread(lambda: urllib.request.urlopen(url).read().decode())
        counted: Counter[str] = Counter()
        for operation, value in _ACTION.findall(text):
            counted[operation] += int(float(value))
        return counted


async def _answers(address: str) -> bool:
    from temporalio.client import Client

    try:
        client = await Client.connect(address)
        async for _ in client.list_workflows(limit=1):
            pass
    except RuntimeError:  # an RPCError is one, too
        return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]
