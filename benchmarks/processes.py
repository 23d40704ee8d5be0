"""Child processes of benchmarks, with line-based requests; they end with their standard input."""

import asyncio
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parent.parent


class Child:
    """A Python program that answers lines with lines. The first line it prints says it is ready.

    Attributes:
        greeting: that first line.
    """

    def __init__(
        self,
        *arguments: str,
        env: dict[str, str] | None = None,
        python: Path | None = None,
        log: Path | None = None,
    ) -> None:
        """Describe the program; entering starts it.

        Args:
            arguments: the program and its arguments.
            env: further environment variables.
            python: the interpreter, if not this process's.
            log: the file that its standard error is appended to, if not this process's.
        """
        self._arguments = arguments
        self._python = python or Path(sys.executable)
        self._log = log
        self._env = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
        self._process: asyncio.subprocess.Process | None = None
        self.greeting = ""

    async def __aenter__(self) -> Self:
        with ExitStack() as stack:
            log = stack.enter_context(self._log.open("ab")) if self._log else None
            self._process = await asyncio.create_subprocess_exec(
                self._python,
                *self._arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
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

    async def ask(self, line: str = "") -> str:
        """Send a line and return the answer."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        return await self._read_line()

    async def _read_line(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            where = f"at the end of {self._log}" if self._log else "printed above"
            raise RuntimeError(f"{' '.join(self._arguments)} ended; its error is {where}")
        return line.decode().strip()
