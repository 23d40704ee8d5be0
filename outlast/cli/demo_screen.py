"""The demo's output as lines or JSON lines, and its input from the keyboard."""

import asyncio
import math
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, replace
from datetime import datetime

from temporalio.client import Client

from outlast.cli import review, terminal, view
from outlast.cli.signals import stop_requested
from outlast.client.follower import Follower, Retry
from outlast.client.moments import RunEvent
from outlast.contract import names
from outlast.edges.clock import now_ms
from outlast.edges.rendering import iso_time
from outlast.testing.demo.proof import Deed
from outlast.testing.demo.story import Choice, Staff
from outlast.views.records import ApprovalRequest, Person
from outlast.views.run import RunSnapshot

CUSTOMER = "Mara"

_CHUNK_BYTES = 4096
_DEED_COLUMNS: tuple[terminal.Column[terminal.Row], ...] = (
    terminal.Column("begun", numbers=True),
    terminal.Column("applied", numbers=True),
    terminal.Column("side effect, and its idempotency key", folds=True),
)


class TerminalNarrator:
    """Prints the story, each line with its time."""

    def __init__(self, console: terminal.Screen, *, as_json: bool) -> None:
        self._console = console
        self._as_json = as_json

    def scene(self, title: str) -> None:
        """Begin a new part of the story."""
        if self._as_json:
            self._record("scene", title)
        else:
            terminal.say(self._console, "")
            terminal.say(self._console, (title, "bold underline"))

    def note(self, text: str, *, loud: bool = False) -> None:
        """Print a note about what the demo does."""
        if self._as_json:
            self._record("note", text)
        else:
            self._line(now_ms(), ("·", "dim"), (text, "bold red" if loud else "italic"))

    def event(self, event: RunEvent) -> None:
        """Print an event of the run."""
        if self._as_json:
            terminal.print_json_line(event.record())
        elif event.text and event.type != "status":
            event = replace(event, who="(note)") if event.type == "note" else event
            self._line(event.at_ms, *view.event_cells(event, user=CUSTOMER))

    async def follow(self, client: Client, run_id: str) -> AsyncGenerator[RunSnapshot]:
        """Print a run's events live, and yield each state, until the run is closed."""
        follower = Follower(client, run_id)
        async with follower.report_retries(self._note_retry):
            async for step in follower.steps():
                for entry in step.entries:
                    self.event(entry.event)
                yield step.state

    def facts(self, rows: Sequence[tuple[str, str]]) -> None:
        """Print names with values, such as links."""
        if self._as_json:
            terminal.print_json_line({"type": "facts", **dict(rows)})
            return
        for name, value in rows:
            self._line(None, (name, "dim"), value)

    def deeds(self, deeds: Sequence[Deed]) -> None:
        """Print the side effects, and the number of times each happened."""
        if self._as_json:
            for deed in deeds:
                terminal.print_json_line({"type": "side_effect", **asdict(deed)})
            return
        rows: list[terminal.Row] = []
        for deed in deeds:
            applied = "refused" if deed.wanted == 0 == deed.applied else f"{deed.applied}x"
            lines: list[terminal.Part] = [deed.what, (deed.key, "dim")]
            if deed.resumed:
                lines.append(("begun again after its wait, only to take what arrived", "dim"))
            rows.append([f"{deed.attempts}x", applied, lines])
        terminal.say_table(self._console, _DEED_COLUMNS, rows)

    def waiting(self, text: str) -> AbstractAsyncContextManager[object]:
        """Return a context manager that shows a spinner on a terminal."""
        return terminal.waiting(self._console, text)

    def verdict(self, text: str, *, good: bool) -> None:
        """Print one finding of the proof."""
        if self._as_json:
            terminal.print_json_line({"type": "verdict", "ok": good, "text": text})
        else:
            mark = ("  ✓ ", "bold green") if good else ("  ✗ ", "bold red")
            terminal.say(self._console, mark, text)

    def _note_retry(self, retry: Retry) -> None:
        # Only retries of model calls: the demo's story covers the tools.
        if retry.activity == names.ACTIVITY_MODEL:
            self.note(f"{retry}")

    def _line(self, at_ms: int | None, who: terminal.Part, text: terminal.Part) -> None:
        at = None if at_ms is None else datetime.fromtimestamp(at_ms / 1000).astimezone()
        when = "" if at is None else f"{at:%H:%M:%S}"
        cells = ((when, "dim"), who, text)
        terminal.say_columns(self._console, *cells, widths=[len("00:00:00"), view.WHO_WIDTH])

    def _record(self, kind: str, text: str) -> None:
        terminal.print_json_line({"type": kind, "at": iso_time(now_ms()), "text": text})


class PatientStaff(Staff):
    """Does what is suggested, and leaves the desk open until Ctrl-C."""

    def __init__(self, narrator: TerminalNarrator) -> None:
        self._narrator = narrator

    async def leave(self) -> None:
        """Wait for a signal."""
        self._narrator.note("The desk stays open for you to look around. Ctrl-C ends the demo.")
        await stop_requested().wait()


class TerminalStaff(Staff):
    """The person at the terminal, who plays everybody of the desk and the customer.

    Args:
        console: where questions are asked.
        has_desk: whether a question may be settled in a browser before anybody answers it here.
            What happens then begins a line of its own, so the question ends with its line.
    """

    speaks = True

    def __init__(self, console: terminal.Screen, *, has_desk: bool = False) -> None:
        self._console = console
        self._has_desk = has_desk
        self._typed = b""

    async def decide(self, request: ApprovalRequest, by: Person, suggested: Choice) -> Choice:
        """Show the request, and ask for a decision."""
        review.show_approval(self._console, request, request.run_id)
        edits = suggested.arguments is not None
        choices = "[y]es, [n]o, or [e]dit the amount" if edits else "[y]es or [n]o"
        answer = ""
        while answer not in ({"y", "n", "e"} if edits else {"y", "n"}):
            prompt = f"  You are {by.display or by.subject}. Do you approve it? {choices}: "
            answer = (await self._ask(prompt)).lower()[:1]
        if answer == "y":
            return Choice(type="approve")
        if answer == "n":
            message = await self._ask("  What should the agent know about it? ")
            return Choice(type="reject", message=message or None)
        amount = await self._amount(float((suggested.arguments or {})["amount"]))
        return Choice(type="edit", arguments={**(suggested.arguments or {}), "amount": amount})

    async def accept(self, by: Person) -> bool:
        """Wait for Enter, where somebody may do it in the browser before."""
        if self._has_desk:
            name = by.display or by.subject
            await self._ask(f"  You are {name}. Enter takes the conversation over. ")
        return True

    async def write(self, prompt: str, suggested: str) -> str:
        """Ask for a text; Enter takes the suggestion."""
        terminal.say(self._console, f"  {prompt}")
        return await self._ask(f"  (Enter: {suggested}) ") or suggested

    async def _amount(self, suggested: float) -> float:
        while True:
            typed = await self._ask(f"  How many EUR? (Enter: {suggested:.2f}) ")
            try:
                amount = round(float(typed), 2) if typed else suggested
            except ValueError:
                continue
            if 0 < amount < math.inf:
                return amount

    async def next_message(self) -> str:
        """Ask for a message."""
        return await self._ask(
            "  You are Mara now. Ask for an invoice, a refund, a human ... (Enter ends) "
        )

    async def leave(self) -> None:
        """Wait until the person has finished with the UI."""
        await self._ask("  The server stays up for you to look around. Enter ends the demo. ")

    async def _ask(self, question: str) -> str:
        """Read a line, without a thread, which Ctrl-C could not end."""
        if self._has_desk:
            terminal.say(self._console, (question, "bold yellow"))
        else:
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
