"""`outlast demo --desk` in a browser."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

from tests.browser.window import Windows

LONGEST_SECONDS = 100


async def test_the_demo_leaves_its_desk_open(windows: Windows, tmp_path: Path) -> None:
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
        found = re.search(r"desk +(http://127\.0\.0\.1:\d+)", told)
        assert found, told
        window = await windows.open()
        answer = await window.request.get(f"{found[1]}/health")
        assert await answer.json() == {"status": "ok"}
    finally:
        demo.send_signal(signal.SIGTERM)
        code = await asyncio.wait_for(demo.wait(), LONGEST_SECONDS)
    assert code == 0
    assert "✓ 3 workers were killed; 4 carried the run" in told
    assert len(re.findall("kill -9 of the Temporal server", told)) == 1
    assert os.listdir(tmp_path) == []  # noqa: PTH208  pathlib has no listing for async functions
