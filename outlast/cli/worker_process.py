"""An `outlast worker` in a process of its own, as `dev` and `worker --processes` start it."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any


class WorkerProcess:
    """A worker that ends when its standard input does, so it never outlives this process.

    It has a session of its own: Ctrl-C goes to this process only, which ends it in order.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @staticmethod
    async def spawn(
        arguments: Sequence[str], *, command: str = "worker", **options: Any
    ) -> asyncio.subprocess.Process:
        """Start a process with arguments of `outlast worker`, or of another command."""
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "outlast.cli.entry", command, "--until-eof", *arguments),
            stdin=asyncio.subprocess.PIPE,
            start_new_session=True,
            **options,
        )

    def retire(self) -> None:
        """Let the worker finish its running calls and end."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def kill(self) -> None:
        """End the worker at once, which loses nothing."""
        with suppress(ProcessLookupError):
            self._process.kill()
