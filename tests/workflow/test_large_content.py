"""Large content is kept outside of histories and states, and is whole wherever it is read."""

import random
from pathlib import Path
from typing import Any

from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.blobs import FileBlobStore
from outlast.client.handle import RunHandle
from outlast.client.results import RunResult
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, say
from tests.workflow.desk import Desk

IMAGE_BYTES = 1_800_000
STRETCH_BYTES = 5_000_000


def image(number: int) -> str:
    """A picture that no compression makes smaller."""
    import base64

    data = random.Random(number).randbytes(IMAGE_BYTES * 3 // 4)
    return "data:image/jpeg;base64," + base64.b64encode(data).decode()


def photo(number: int) -> list[dict[str, Any]]:
    parts = [
        {"type": "input_text", "text": f"photo {number}"},
        {"type": "input_image", "image_url": image(number), "detail": "auto"},
    ]
    return [{"role": "user", "content": parts}]


def photos_in(items: Any) -> list[str]:
    return [
        part["image_url"]
        for item in items
        if isinstance(item.get("content"), list)
        for part in item["content"]
        if part.get("type") == "input_image"
    ]


def counts_photos(request: ModelRequest) -> Any:
    seen = photos_in(request.input)
    assert all(len(one) > IMAGE_BYTES * 0.99 for one in seen)
    return say(f"{len(seen)} photos")


async def sizes(desk: Desk, handle: RunHandle) -> list[int]:
    """The size of each history of a run."""
    found: list[int] = []
    run: str | None = (await desk.workflow(handle).describe()).raw_info.first_run_id
    while run:
        at = desk.client.get_workflow_handle(handle.id, run_id=run)
        found.append((await at.describe()).raw_info.history_size_bytes)
        history = await at.fetch_history()
        last = history.events[-1]
        run = last.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    return found


async def test_a_conversation_of_photos_goes_on(client: Client, tmp_path: Path):
    desk = Desk(client, cached=True)
    store = FileBlobStore(tmp_path)
    agent = Agent[Any](name="Looker")
    await desk.open(agent, model=ScriptedModel(always=counts_photos), blob_store=store)
    handle = await desk.start(agent, photo(0), keep_open=True, blob_store=store)
    results: list[RunResult] = []
    for number in range(1, 12):
        sent = await handle.send(photo(number))
        results.append(await sent.answer())
        assert results[-1].final_output == f"{number + 1} photos"
    assert all(size < STRETCH_BYTES for size in await sizes(desk, handle))
    result = results[-1]
    assert photos_in(result.to_input_list()) == [image(number) for number in range(12)]
    assert len(result.new_items) == 1
    await handle.cancel("after_turn")
    await desk.close_all()
