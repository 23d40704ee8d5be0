"""`outlast demo --desk` at a terminal: a person in the browser does what the demo waits for."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from playwright.async_api import expect

from tests.browser.people import chat_texts, conversation_texts, give_back, say, take_over, write
from tests.browser.window import PHONE, Windows

LONGEST_SECONDS: Final = 100
ENTER: Final = b"\n"
_STYLE: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
WORDS: Final = "Hello Mara, this is really Lee."
REPLY: Final = "That is very kind."
NOTE: Final = "She wants to know who is there."


class Terminal:
    """A terminal in which the demo runs.

    Attributes:
        told: what the demo has printed, without styles.
    """

    def __init__(self, descriptor: int) -> None:
        self.told = ""
        self._descriptor = descriptor
        self._more = asyncio.Event()
        asyncio.get_running_loop().add_reader(descriptor, self._read)

    async def until(self, pattern: str) -> str:
        """Wait until the demo has printed something, and return the pattern's first group."""
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                while (found := re.search(pattern, self.told)) is None:
                    self._more.clear()
                    await self._more.wait()
        except TimeoutError:
            raise AssertionError(f"{pattern} is not in:\n{self.told}") from None
        return found[1] if found.groups() else found[0]

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._descriptor, keys)

    def close(self) -> None:
        """Read no more."""
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _read(self) -> None:
        try:
            more = os.read(self._descriptor, 65_536)
        except OSError:  # the demo has ended
            asyncio.get_running_loop().remove_reader(self._descriptor)
            return
        self.told += _STYLE.sub("", more.decode(errors="replace")).replace("\r", "")
        self._more.set()


@asynccontextmanager
async def demo_at_a_terminal(
    home: Path,
) -> AsyncGenerator[tuple[Terminal, asyncio.subprocess.Process]]:
    """Start the demo as a person does."""
    ours, theirs = os.openpty()
    dropped = ("TEMPORAL_", "OPENAI_", "CI")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    demo = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "outlast.cli.entry", "demo", "--desk"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**kept, "TMPDIR": str(home), "COLUMNS": "240", "TERM": "xterm"},
    )
    os.close(theirs)
    terminal = Terminal(ours)
    try:
        yield terminal, demo
    finally:
        if demo.returncode is None:
            demo.terminate()
            await asyncio.wait_for(demo.wait(), LONGEST_SECONDS)
        terminal.close()


@pytest.mark.timeout(2 * LONGEST_SECONDS)
async def test_a_person_in_the_browser_decides_and_takes_the_conversation_over(
    windows: Windows, tmp_path: Path
) -> None:
    windows.may_lose_server = True
    lee, mara = await windows.open(), await windows.open(PHONE)
    async with demo_at_a_terminal(tmp_path) as (terminal, demo):
        await mara.goto(await terminal.until(r"Mara's page +(http\S+)"))

        # The refund: the demo suggests 350 EUR; Lee approves the whole, on its page.
        await lee.goto(await terminal.until(r"click +(http\S+/requests/\S+)"))
        await terminal.until(r"Do you approve it\?")
        await lee.get_by_role("button", name="Approve").click()
        await expect(mara.get_by_text("I have refunded 389.00 EUR")).to_be_visible()

        # The customer asks for a human.
        await lee.goto(await terminal.until(r"click +(http\S+/conversations/[^/\s]+)\s"))
        await terminal.until("Enter takes the conversation over")
        await take_over(lee)
        await terminal.until("You are Lee. What do you say to Mara")
        await say(lee, WORDS)
        await terminal.until("You are Mara. What do you say")
        await expect(mara.get_by_text(WORDS)).to_be_visible()
        await write(mara, REPLY)
        await terminal.until("What should the agent know")
        await give_back(lee, NOTE)
        await expect(mara.get_by_text(f"lee has told me: {NOTE}")).to_be_visible()

        # Everything is killed; then Mara writes no more.
        await terminal.until("Enter ends")
        terminal.type(ENTER)
        await terminal.until("Enter ends the demo")
        await expect(mara.get_by_text("This conversation has ended.")).to_be_visible()
        await expect(lee.get_by_text("The conversation has ended.").first).to_be_visible()
        for texts in (await chat_texts(mara), await conversation_texts(lee)):
            assert len(texts) == len(set(texts)), texts
            assert [one for one in texts if one in {WORDS, REPLY}] == [WORDS, REPLY]
        terminal.type(ENTER)
        assert await asyncio.wait_for(demo.wait(), LONGEST_SECONDS) == 0
    assert "side effects, each exactly once" in terminal.told
    assert os.listdir(tmp_path) == []  # noqa: PTH208  pathlib has no listing for async functions
