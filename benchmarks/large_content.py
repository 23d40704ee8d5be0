"""Measures history size, memory and lost content with large images and tool outputs.

`python benchmarks/large_content.py` runs 200 messages with a picture of 1.8 MB each and 150 turns
of four tool outputs of 490 kB. The worker is a process of its own. The exit code is 1 if a limit is
exceeded. The server, its data and the blobs are in a temporary directory.
"""

import argparse
import asyncio
import base64
import hashlib
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from temporalio.client import Client

from outlast import Agent, Runner, Usage, function_tool
from outlast.blobs import FileBlobStore
from outlast.client import RunHandle
from outlast.contract import names
from outlast.dev import EmbeddedServer
from outlast.ports.model import ModelRequest, ModelResponse
from outlast.worker import AgentWorker

PHOTO_BYTES = 1_800_000
OUTPUT_BYTES = 490_000
CALLS = 4
LARGEST_HISTORY = 5_000_000
QUEUE = "large-content"


def photo(number: int) -> str:
    """A picture that nothing makes smaller."""
    data = random.Random(number).randbytes(PHOTO_BYTES * 3 // 4)
    return "data:image/jpeg;base64," + base64.b64encode(data).decode()


def photos_in(items: Any) -> list[str]:
    """Return the pictures in the input of a model."""
    parts = [one for item in items if isinstance(item["content"], list) for one in item["content"]]
    return [part["image_url"] for part in parts if part["type"] == "input_image"]


@function_tool
async def read(number: int) -> str:
    """Read a page."""
    return random.Random(number).randbytes(OUTPUT_BYTES // 2).hex()


class Model:
    """A model that counts the content of its requests and keeps none of it."""

    def __init__(self, turns: int) -> None:
        self._turns = turns

    def get_model(self, name: str | None) -> "Model":
        """Return this model, for every name."""
        del name
        return self

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        """Answer with the number of photos, or call four tools for so many turns."""
        if request.instructions == "Look.":
            seen = photos_in([one for one in request.input if one.get("role") == "user"])
            whole = sum(len(one) > PHOTO_BYTES * 0.99 for one in seen)
            return ModelResponse(output=[said(f"{whole} photos")], usage=Usage(requests=1))
        outputs = [one["output"] for one in request.input if "output" in one]
        assert all(len(one) == OUTPUT_BYTES for one in outputs)
        if len(outputs) >= self._turns * CALLS:
            return ModelResponse(output=[said(f"{len(outputs)} outputs")], usage=Usage(requests=1))
        first = len(outputs)
        return ModelResponse(
            output=[called(first + one) for one in range(CALLS)], usage=Usage(requests=1)
        )


def said(text: str) -> dict[str, Any]:
    """Return a message of a model."""
    part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "role": "assistant", "content": [part]}


def called(number: int) -> dict[str, Any]:
    """Return a call of the tool."""
    arguments = json.dumps({"number": number})
    return {
        "type": "function_call",
        "call_id": f"c{number}",
        "name": "read",
        "arguments": arguments,
    }


AGENTS: list[Agent[Any]] = [
    Agent(name="Looker", instructions="Look."),
    Agent(name="Reader", tools=[read]),
]


async def work(address: str, directory: str, turns: int) -> None:
    """Be the worker, until standard input ends."""
    client = await Client.connect(address)
    store = FileBlobStore(directory)
    model: Any = Model(turns)
    async with AgentWorker(
        client, agents=AGENTS, task_queue=QUEUE, model_provider=model, blob_store=store
    ):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


def peak_megabytes(pid: int) -> float:
    """Return the most memory that a process has had. Linux only."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1_000


async def histories(client: Client, run_id: str) -> list[int]:
    """Return the size of each history of a run, oldest first."""
    found: list[int] = []
    run: str | None = (await client.get_workflow_handle(run_id).describe()).raw_info.first_run_id
    while run:
        at = client.get_workflow_handle(run_id, run_id=run)
        found.append((await at.describe()).raw_info.history_size_bytes)
        last = [event async for event in at.fetch_history_events()][-1]
        run = last.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    return found


async def conversation(client: Client, store: FileBlobStore, messages: int) -> RunHandle:
    """Send photos one after the other, and check that each is in every request."""
    common: Any = {"client": client, "task_queue": QUEUE, "blob_store": store}
    handle = await Runner.start(AGENTS[0], asked(0), keep_open=True, id="photos", **common)
    result = None
    for number in range(1, messages):
        result = await (await handle.send(asked(number))).answer()
        assert result.final_output == f"{number + 1} photos", result.final_output
        if number % 20 == 0:
            print(f"  {number} photos", flush=True)
    assert result is not None
    sent = [hashlib.sha256(photo(number).encode()).digest() for number in range(messages)]
    kept = [one for one in result.to_input_list() if one.get("role") == "user"]
    got = [hashlib.sha256(one.encode()).digest() for one in photos_in(kept)]
    assert sent == got, "a photo is lost or changed"
    await handle.cancel("after_turn")
    return handle


def asked(number: int) -> list[dict[str, Any]]:
    """Return a message with a photo."""
    return [{"role": "user", "content": [{"type": "input_image", "image_url": photo(number)}]}]


async def outputs(client: Client, store: FileBlobStore, turns: int) -> RunHandle:
    """Run turns of long tool outputs, and check that each is complete."""
    common: Any = {"client": client, "task_queue": QUEUE, "blob_store": store}
    handle = await Runner.start(AGENTS[1], "Read.", max_turns=turns + 1, id="outputs", **common)
    result = await handle.result()
    assert result.final_output == f"{turns * CALLS} outputs", result.final_output
    found = [item.raw["output"] for item in result.items if item.kind == "tool_output"]
    for number, text in enumerate(found):
        assert text == random.Random(number).randbytes(OUTPUT_BYTES // 2).hex(), "changed"
    return handle


async def measure(messages: int, turns: int) -> int:
    """Measure both, and return how many limits were missed."""
    missed = 0
    with tempfile.TemporaryDirectory() as directory:
        server = EmbeddedServer(
            data_dir=Path(directory) / "server",
            ui_port=None,
            search_attributes=names.SEARCH_ATTRIBUTES,
        )
        async with server:
            client = await Client.connect(server.address)
            store = FileBlobStore(Path(directory) / "blobs")
            cases = (
                (f"{messages} messages of {PHOTO_BYTES:,} bytes", conversation, messages),
                (f"{turns} turns of {CALLS} x {OUTPUT_BYTES:,} bytes", outputs, turns),
            )
            for what, case, size in cases:
                missed += await one(what, client, store, case, size, server.address)
    return missed


async def one(
    what: str, client: Client, store: FileBlobStore, case: Any, size: int, address: str
) -> int:
    """Measure one case with a worker of its own."""
    worker = await asyncio.create_subprocess_exec(
        sys.executable,
        __file__,
        "--worker",
        address,
        str(store.directory),
        "--turns",
        str(size),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert worker.stdout is not None
    await worker.stdout.readline()
    begin = time.monotonic()
    handle = await case(client, store, size)
    seconds = time.monotonic() - begin
    peak = peak_megabytes(worker.pid)
    _, log = await worker.communicate(b"")
    sizes = await histories(client, handle.id)
    deadlocks = log.count(b"TMPRL1101") + log.count(b"deadlock")
    print(
        f"{what}: nothing lost, {seconds:.0f} s, {len(sizes)} histories, largest {max(sizes):,} "
        f"bytes, all together {sum(sizes):,}, deadlocks reported {deadlocks}, worker's peak "
        f"{peak:,.0f} MB",
        flush=True,
    )
    return (max(sizes) > LARGEST_HISTORY) + (deadlocks > 0)


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=200)
    parser.add_argument("--turns", type=int, default=150)
    parser.add_argument("--worker", nargs=2, metavar=("ADDRESS", "DIRECTORY"))
    arguments = parser.parse_args()
    if arguments.worker:
        address, directory = arguments.worker
        asyncio.run(work(address, directory, arguments.turns))
        return
    sys.exit(min(asyncio.run(measure(arguments.messages, arguments.turns)), 1))


if __name__ == "__main__":
    main()
