"""`outlast demo --desk` in a browser: both pages of its conversation, while everything is killed."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

from playwright.async_api import expect

from tests.browser.people import chat_texts, conversation_texts
from tests.browser.window import PHONE, Windows

LONGEST_SECONDS = 100
SAID = 14
"""What Mara, the agents and Lee say: seven messages and their answers."""


async def test_two_pages_follow_the_demo_and_its_desk_stays_open(
    windows: Windows, tmp_path: Path
) -> None:
    windows.may_lose_server = True
    supporter, mara = await windows.open(), await windows.open(PHONE)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TEMPORAL_", "OPENAI_"))}
    demo = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "outlast.cli.entry", "demo", "--desk", "--yes"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        env={**kept, "TMPDIR": str(tmp_path)},
    )
    assert demo.stdout is not None
    told = ""
    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            while "The desk stays open" not in told:
                line = (await demo.stdout.readline()).decode()
                assert line, f"the demo ended: {told}"
                told += line
                if found := re.search(r"desk +(http\S+/conversations/\S+)", line):
                    await supporter.goto(found[1])
                elif found := re.search(r"Mara's page +(http\S+)", line):
                    await mara.goto(found[1])
        await expect(mara.get_by_text("This conversation has ended.")).to_be_visible()
        await expect(supporter.get_by_text("The conversation has ended.").first).to_be_visible()
        for texts in (await chat_texts(mara), await conversation_texts(supporter)):
            assert len(texts) == len(set(texts)) == SAID, texts
            assert sum("Order C-3 is delivered" in text for text in texts) == 1
    finally:
        demo.send_signal(signal.SIGTERM)
        code = await asyncio.wait_for(demo.wait(), LONGEST_SECONDS)
    assert code == 0
    assert "✓ 4 workers were killed; 5 carried the run" in told
    assert len(re.findall("kill -9 of the Temporal server", told)) == 1
    assert os.listdir(tmp_path) == []  # noqa: PTH208  pathlib has no listing for async functions
