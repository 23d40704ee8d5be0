"""The people of the demo: whoever sits at the terminal, or nobody, and then a script decides.

Owns: the questions and how their answers are read. Must not know: what comes of an answer.
"""

import asyncio
import getpass
import os
import sys
from dataclasses import dataclass
from typing import Protocol

from outlast.cli import terminal, view
from outlast.loop.approvals import ApprovalRequest

_CHUNK_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a person chose about an approval request."""

    approve: bool
    by: str
    message: str | None = None


class Person(Protocol):
    """Who decides, and who may say something as the customer.

    Attributes:
        speaks: whether there is anybody to say something.
    """

    speaks: bool

    async def decide(self, request: ApprovalRequest) -> Choice:
        """Decide about a request."""
        ...

    async def next_message(self) -> str:
        """Return what the customer says next; nothing ends the conversation."""
        ...

    async def leave(self) -> None:
        """Return when everything may be cleared away."""
        ...


class Script:
    """Decides without asking anybody."""

    speaks = False

    async def decide(self, request: ApprovalRequest) -> Choice:
        """Approve what the story is about."""
        return Choice(approve=True, by="the demo")

    async def next_message(self) -> str:
        """Say nothing more."""
        return ""

    async def leave(self) -> None:
        """Wait for nobody."""


class TerminalPerson:
    """Whoever sits at the terminal."""

    speaks = True

    def __init__(self, console: terminal.Screen) -> None:
        self._console = console
        self._typed = b""

    async def decide(self, request: ApprovalRequest) -> Choice:
        """Show the request, and ask."""
        view.show_approval(self._console, request, request.run_id)
        answer = ""
        while answer not in {"y", "n"}:
            answer = (await self._ask("  Do you approve it? [y/n] ")).lower()[:1]
        message = None
        if answer == "n":
            message = await self._ask("  What should the agent be told? ") or None
        return Choice(approve=answer == "y", by=getpass.getuser(), message=message)

    async def next_message(self) -> str:
        """Ask for a message."""
        return await self._ask(
            "  You are Mara now. Ask for an invoice, a refund, a human ... (Enter ends) "
        )

    async def leave(self) -> None:
        """Let the person look at the UI for as long as they like."""
        await self._ask("  The server stays up for you to look around. Enter ends the demo. ")

    async def _ask(self, question: str) -> str:
        """Read a line. Not in a thread: that could not be left on Ctrl-C.

        Raises:
            EOFError: the terminal is closed.
        """
        terminal.ask(self._console, question)
        while b"\n" not in self._typed:
            more = await self._read()
            if not more:
                terminal.say(self._console, "")
                raise EOFError
            self._typed += more
        line, _, self._typed = self._typed.partition(b"\n")
        return line.decode(errors="replace").strip()

    async def _read(self) -> bytes:
        loop = asyncio.get_running_loop()
        descriptor = sys.stdin.fileno()
        typed: asyncio.Future[bytes] = loop.create_future()

        def read() -> None:
            loop.remove_reader(descriptor)
            if not typed.done():
                typed.set_result(os.read(descriptor, _CHUNK_BYTES))

        loop.add_reader(descriptor, read)
        try:
            return await typed
        finally:
            loop.remove_reader(descriptor)
