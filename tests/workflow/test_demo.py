"""`outlast demo` as a process: it kills real workers, and has to come to the proof in time."""

import asyncio
import json
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

LONGEST_SECONDS = 60


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """No key, a configuration that must not matter, and a place of its own for what is left."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TEMPORAL_", "OPENAI_"))}
    return {**kept, "TMPDIR": str(tmp_path), "TEMPORAL_ADDRESS": "nowhere.example:7233"}


def names_in(directory: Path) -> list[str]:
    return [entry.name for entry in directory.iterdir()]


async def start(environment: dict[str, str], *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "outlast.cli.entry", "demo", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
        # A shell starts its background jobs with SIGINT ignored, and so its tests' children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.full
async def test_two_workers_are_killed_and_everything_happens_once(
    environment: dict[str, str], tmp_path: Path
) -> None:
    began = time.monotonic()
    process = await start(environment, "--yes", "--keep")

    out, err = await asyncio.wait_for(process.communicate(), LONGEST_SECONDS)

    told = out.decode()
    assert (process.returncode, err.decode()) == (0, "")
    assert time.monotonic() - began < LONGEST_SECONDS
    killed = re.findall(r"kill -9 (\d+)", told)
    assert len(killed) == len(set(killed)) == 2
    assert re.search(r"UI +http://127\.0\.0\.1:\d+\n", told)
    assert re.search(r"http://127\.0\.0\.1:\d+/namespaces/default/workflows/demo-\w+\n", told)
    assert re.search(r"a Temporal signal, `decide` with .*approve", told)
    assert re.search(r" 2x +1x +change_address\(", told)
    assert re.search(r" 1x +1x +refund_order\(", told)
    assert "✓ 2 side effects, each exactly once" in told
    assert "✓ 3 of 3 messages have one answer, 5 of 5 calls one output" in told
    assert "✓ 2 workers were killed; 3 carried the run" in told
    assert re.search(r"✓ the whole history: \d+ events, \d+\.\d KB", told)
    (kept,) = names_in(tmp_path)
    assert "shop.db" in names_in(tmp_path / kept)


@pytest.mark.smoke
async def test_an_interrupted_demo_leaves_nothing_behind(
    environment: dict[str, str], tmp_path: Path
) -> None:
    process = await start(environment, "--json")
    assert process.stdout is not None
    said: list[dict[str, object]] = []
    async with asyncio.timeout(LONGEST_SECONDS):
        while not any("kill -9 in" in str(one.get("text")) for one in said):
            said.append(json.loads(await process.stdout.readline()))
    pids = [int(pid) for pid in re.findall(r"process (\d+)", json.dumps(said))]
    assert len(pids) == 2  # server, worker

    process.send_signal(signal.SIGINT)
    await asyncio.wait_for(process.communicate(), LONGEST_SECONDS)

    assert process.returncode == 130
    assert names_in(tmp_path) == []
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
