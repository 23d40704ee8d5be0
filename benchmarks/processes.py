"""Child processes of benchmarks, with line-based requests; they end with their standard input."""

import asyncio
import os
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parent.parent


class Child:
    """A Python program that answers lines with lines. The first line it prints says it is ready.

    Attributes:
        greeting: that first line.
    """

    def __init__(self, *arguments: str, env: dict[str, str] | None = None) -> None:
        self._arguments = arguments
        self._env = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
        self._process: asyncio.subprocess.Process | None = None
        self.greeting = ""

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *self._arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=self._env,
            cwd=ROOT,
        )
        self.greeting = await self._read_line()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            await self._process.communicate(b"")  # not None: with that it would stay open

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """End it at once."""
        assert self._process is not None
        self._process.kill()

    async def ask(self) -> str:
        """Send a line and return the answer."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        return await self._read_line()

    async def _read_line(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(self._arguments)} ended; its error is printed above")
        return line.decode().strip()
