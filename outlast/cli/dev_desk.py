"""The desk of `outlast dev`: an `outlast serve` for the user of this machine."""

import asyncio
from collections.abc import Sequence

from outlast.cli import terminal
from outlast.cli.dev_worker import ReadyProcess


class DevDesk:
    """Shows the agents of one target, and starts again where they change.

    Args:
        arguments: those of `outlast serve`, without the port.
        port: the port; 0 for a free one.
    """

    def __init__(self, arguments: Sequence[str], port: int) -> None:
        self._arguments = arguments
        self._port = port
        self._process: ReadyProcess | None = None
        self._watcher: asyncio.Task[None] | None = None

    async def start(self) -> str | None:
        """Start it and return its address; None, and its words on the screen, if it cannot."""
        process = await ReadyProcess.start(
            [*self._arguments, "--port", str(self._port)], command="serve"
        )
        self._process = process
        found = await process.ready()
        if isinstance(found, str):
            self._process = None
            terminal.say(terminal.err(), ("no desk", "bold red"), f": {found}")
            return None
        url = str(found["url"])
        self._port = int(url.rpartition(":")[2])  # pages that are open find it again
        self._watcher = asyncio.create_task(self._report_end(process))
        return url

    async def restart(self) -> None:
        """Start it again with the agents as they are now."""
        is_new = self._process is None
        await self.stop()
        url = await self.start()
        if is_new and url is not None:
            terminal.say(terminal.err(), "The desk is at ", url)

    async def stop(self) -> None:
        """Stop it."""
        process, self._process = self._process, None
        if self._watcher is not None:
            self._watcher.cancel()
        if process is None:
            return
        await process.stop()

    async def _report_end(self, process: ReadyProcess) -> None:
        await process.ended()
        self._process = None
        await process.report_end("desk")
