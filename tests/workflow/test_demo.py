"""`outlast demo` as a process: it kills real workers, and has to come to the proof in time."""

import asyncio
import io
import json
import os
import re
import signal
import time
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import Any

import pytest

from tests import forked

LONGEST_SECONDS = 60
DEMO = ("-m", "outlast.cli.entry", "demo")
PIPES: dict[str, Any] = {"stdin": DEVNULL, "stdout": PIPE, "stderr": PIPE}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """No key, a configuration that must not matter, and a place of its own for what is left."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TEMPORAL_", "OPENAI_"))}
    return {**kept, "TMPDIR": str(tmp_path), "TEMPORAL_ADDRESS": "nowhere.example:7233"}


def names_in(directory: Path) -> list[str]:
    return [entry.name for entry in directory.iterdir()]


@pytest.mark.full
async def test_workers_are_killed_and_everything_happens_once(
    environment: dict[str, str], tmp_path: Path
) -> None:
    began = time.monotonic()
    process = await forked.start_anew(*DEMO, "--yes", "--keep", env=environment, **PIPES)

    out, err = await asyncio.wait_for(process.communicate(), LONGEST_SECONDS)

    told = out.decode()
    assert (process.returncode, err.decode()) == (0, "")
    assert time.monotonic() - began < LONGEST_SECONDS
    killed = re.findall(r"kill -9 (\d+)", told)
    assert len(killed) == len(set(killed)) == 3
    assert re.search(r"UI +http://127\.0\.0\.1:\d+\n", told)
    assert re.search(r"http://127\.0\.0\.1:\d+/namespaces/default/workflows/demo-\w+\n", told)
    assert "waits for one person of the group billing, but not the customer" in told
    assert re.search(r"ann +edited a1 after", told)
    assert "I have refunded 350.00 EUR for order A-42, the amount that a colleague has set." in told
    assert re.search(r"courier +Orders waits in send_courier until \w+, \d\d:\d\d\n", told)
    assert told.count("No worker takes it, so the Temporal server keeps it.") == 2
    assert len(re.findall(r'Orders +← \{.*"parcel": "LE-2207"', told)) == 1
    assert "The courier has collected parcel LE-2207, 9.4 kg, at 10:24." in told
    assert re.search(r"lee +approved a2 after", told)
    assert re.search(r"lee +takes the conversation over", told)
    assert re.search(r"lee \(team\) +Hello Mara, this is Lee\.", told)
    assert re.search(r"lee +gives the conversation back to Orders", told)
    assert re.search(r"Orders +Lee has told me: A new machine is kept for her", told)
    assert re.search(r" 2x +1x +change_address\(", told)
    assert re.search(r" 1x +1x +refund_order\(amount=350\.0, ", told)
    assert re.search(r" 2x +1x +send_courier\(order_id=\"A-42\"\)", told)
    assert told.count("begun again after its wait, only to take what arrived") == 1
    assert re.search(r" 1x +1x +ask_human\(", told)
    assert "✓ 4 side effects, each exactly once" in told
    assert "✓ 6 of 6 messages have one answer, 9 of 9 calls one output" in told
    assert "✓ 3 workers were killed; 4 carried the run" in told
    assert "✓ the courier's webhook came 2 times while no worker ran, and counted once" in told
    assert re.search(r"✓ the whole history: \d+ events, \d+\.\d KB", told)
    (kept,) = names_in(tmp_path)
    assert "shop.db" in names_in(tmp_path / kept)


@pytest.mark.full
async def test_a_person_at_a_terminal_decides_speaks_and_gives_the_conversation_back(
    environment: dict[str, str],
) -> None:
    typed = [
        ("or [e]dit the amount: ", "e"),
        ("How many EUR? (Enter: 350.00) ", "299"),
        ("What do you say to Mara?", "We fetch it on Monday."),
        ("You are Mara. What do you say?", ""),
        ("What should the agent know?", "She is at home on Monday."),
        ("You are Mara now.", "Please refund order C-3, it is broken."),
        ("You are Ann. Do you approve it? [y]es or [n]o: ", "y"),
        ("You are Bob. Do you approve it? [y]es or [n]o: ", "y"),
        ("You are Mara now.", "Can a courier pick up C-3?"),
        ("You are Mara now.", ""),
        ("Enter ends the demo.", ""),
    ]
    ours, its = os.openpty()
    environment["TERM"] = "dumb"
    process = await forked.start(*DEMO, stdin=its, stdout=its, stderr=its, env=environment)
    os.close(its)

    told = ""
    with os.fdopen(ours, "rb+", buffering=0) as terminal:
        for prompt, text in typed:
            seen = len(told)
            while prompt not in told[seen:]:
                shown = await shown_on(terminal)
                assert shown, f"it ended before {prompt!r}: {told}"
                told += shown
            terminal.write(f"{text}\n".encode())
        while more := await shown_on(terminal):
            told += more

    assert await asyncio.wait_for(process.wait(), LONGEST_SECONDS) == 0
    told = " ".join(told.split())  # lines are as wide as the terminal
    assert "I have refunded 299.00 EUR for order A-42, the amount that a colleague has set" in told
    assert re.search(r"lee \(team\) +We fetch it on Monday\.", told)
    assert re.search(r"Orders +Lee has told me: She is at home on Monday\.", told)
    assert re.search(r"ann +votes for a3: 1 of 2 votes", told)
    assert re.search(r"bob +approved a3 after", told)
    assert "✓ 6 side effects, each exactly once" in told


async def shown_on(terminal: io.FileIO) -> str:
    """Return what a terminal shows next; nothing when its program has ended."""
    readable = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(terminal, readable.set)
    try:
        await asyncio.wait_for(readable.wait(), LONGEST_SECONDS)
        return terminal.read(4096).decode(errors="replace").replace("\r\n", "\n")
    except OSError:  # the other end is closed
        return ""
    finally:
        loop.remove_reader(terminal)


async def test_an_interrupted_demo_leaves_nothing_behind(
    environment: dict[str, str], tmp_path: Path
) -> None:
    process = await forked.start(*DEMO, "--json", env=environment, **PIPES)
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
