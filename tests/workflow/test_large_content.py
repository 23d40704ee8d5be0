"""Large content is kept outside of histories and states, and is whole wherever it is read."""

import asyncio
import json
import random
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.worker._workflow_instance import _WorkflowInstanceImpl

from outlast.agents.agent import Agent
from outlast.agents.errors import ConversationFull
from outlast.agents.tools.function_tool import function_tool
from outlast.blobs import FileBlobStore, locations
from outlast.blobs.contents import LargeContent
from outlast.client.handle import RunHandle, SentMessage
from outlast.client.results.run_result import RunResult
from outlast.contract import policies
from outlast.contract.blobs import is_plain, key_of
from outlast.loop.values import reference
from outlast.ports.model import ModelRequest
from outlast.sessions.sqlite import SQLiteSession
from outlast.testing import ScriptedModel, call, say
from tests.servers import TemporalServer
from tests.workflow.desk import Desk
from tests.workflow.laws import check_run
from tests.workflow.replies import outputs

IMAGE_BYTES = 1_800_000
STRETCH_BYTES = 5_000_000


def image(number: int) -> str:
    """A picture that no compression makes smaller."""
    import base64

    size = IMAGE_BYTES * 3 // 4 - 8
    data = b"\xff\xd8\xff\xda\0\2" + random.Random(number).randbytes(size) + b"\xff\xd9"
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


@pytest.fixture
async def client(server: TemporalServer) -> Client:
    """A connection of each test's own: a blob store belongs to the connection it was named for."""
    return await Client.connect(server.address)


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


@function_tool
async def long_page(number: int) -> str:
    return f"{number:04}" * 100_000


@pytest.mark.smoke
async def test_outputs_are_whole_for_models_sessions_and_results(desk: Desk, tmp_path: Path):
    store = FileBlobStore(tmp_path / "blobs")
    session = SQLiteSession("s1", tmp_path / "session.db")

    def reply(request: ModelRequest) -> Any:
        found = outputs(request)
        assert all(len(text) == 400_000 for text in found.values())
        if len(found) == 4:
            return say("Read.")
        return [call("long_page", f"c{len(found)}", number=len(found))]

    agent = Agent[Any](name="Reader", tools=[long_page])
    await desk.open(agent, model=ScriptedModel(always=reply), blob_store=store)
    result = await desk.run(agent, "Go", session=session, blob_store=store)
    assert result.final_output == "Read."
    texts = [f"{number:04}" * 100_000 for number in range(4)]
    assert [one.output for one in result.new_items if one.type == "tool_call_output_item"] == texts
    assert [one["output"] for one in await session.get_items() if "output" in one] == texts
    (size,) = await sizes(desk, RunHandle(desk.client, result.run_id))
    assert size < 40_000


async def test_a_flipped_bit_costs_a_photo_and_not_its_conversation(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The model reads that the photo is lost; sending it again heals it."""
    forgets = partial(LargeContent, cache_bytes=0)  # as a process that has just started
    monkeypatch.setattr(locations, "LargeContent", forgets)
    desk = Desk(client, cached=True)
    store = FileBlobStore(tmp_path)
    agent = Agent[Any](name="Looker")
    texts: list[str] = []

    def reply(request: ModelRequest) -> Any:
        parts = [part for item in request.input for part in _parts(item)]
        texts.extend(part["text"] for part in parts if part["type"] == "input_text")
        return say(f"{len(photos_in(request.input))} photos")

    await desk.open(agent, model=ScriptedModel(always=reply), blob_store=store)
    handle = await desk.start(agent, photo(0), keep_open=True, blob_store=store)
    await desk.until_status(handle, "idle")
    flip_a_bit(tmp_path)
    async with desk.patience(handle):
        result = await (await handle.send("And now?")).answer()
        assert result.final_output == "0 photos"
        assert any("are lost: the stored copy is damaged" in text for text in texts)
        assert "are lost" in str(result.to_input_list())
        result = await (await handle.send(photo(0))).answer()
    assert result.final_output == "2 photos"
    await handle.cancel("after_turn")
    await desk.close_all()


def flip_a_bit(directory: Path) -> None:
    """Change the only file of a store, which keeps its size."""
    (path,) = [path for path in directory.rglob("*") if path.is_file()]
    data = bytearray(path.read_bytes())
    data[1_000] ^= 1
    path.write_bytes(data)


def _parts(item: Any) -> list[Any]:
    content = item.get("content")
    return cast("list[Any]", content) if isinstance(content, list) else []


class Hanging(FileBlobStore):
    """A store that does not answer."""

    async def put(self, data: bytes) -> str:
        await asyncio.Event().wait()
        raise AssertionError


async def test_a_store_that_hangs_does_not_repeat_the_tool(client: Client, tmp_path: Path):
    desk = Desk(client, cached=True)
    calls: list[int] = []

    @function_tool(timeout=timedelta(seconds=6))
    async def scan(number: int) -> str:
        calls.append(number)
        return "x" * 100_000

    def reply(request: ModelRequest) -> Any:
        found = outputs(request)
        return say(f"{found}"[-20:]) if found else [call("scan", "c1", number=1)]

    agent = Agent[Any](name="Scanner", tools=[scan])
    await desk.open(agent, model=ScriptedModel(always=reply), blob_store=Hanging(tmp_path))
    result = await desk.run(agent, "Go")
    assert "xxxx" in result.final_output
    assert calls == [1]
    await desk.close_all()


@pytest.mark.breaks_rules("content-shape", "item-fields", "part-type")
async def test_who_knows_a_digest_reads_nothing_through_a_program_without_a_store(
    client: Client, tmp_path: Path
):
    """The program passes on what a person sent; the worker has the store of all runs."""
    desk = Desk(client, cached=True)
    store = FileBlobStore(tmp_path)
    planted = reference(await store.put(b"what another run has stored"), 27)
    unknown = reference(key_of(b"never stored"), 12)
    seen: list[Any] = []

    def reply(request: ModelRequest) -> Any:
        seen.append(request.input[-1]["content"])
        return say("Read.")

    agent = Agent[Any](name="Reader")
    worker_client = await Client.connect(desk.client.service_client.config.target_host)
    await desk.open(
        agent, model=ScriptedModel(always=reply), blob_store=store, client=worker_client
    )
    handle = await desk.start(agent, [{"role": "user", "content": planted}], keep_open=True)
    async with desk.patience(handle):
        await desk.until_status(handle, "idle")
        await (await handle.send([{"role": "user", "content": unknown}])).answer()
        raw = {"$outlast.json": 5}
        result = await (await handle.send([raw, {"role": "user", "content": [raw]}])).answer()
    assert seen == [planted, unknown, [raw]]
    assert result.to_input_list()[-2]["content"] == [raw]
    await handle.cancel("after_turn")
    await desk.close_all()


async def test_content_that_came_in_inline_is_moved_out(desk: Desk, tmp_path: Path):
    """As from a caller without a store, or in a language of its own."""
    store = FileBlobStore(tmp_path)
    agent = Agent[Any](name="Looker")
    await desk.open(agent, model=ScriptedModel(always=counts_photos), blob_store=store)
    record = {"agent": "Looker", "input": photo(0), "keep_open": True}
    workflow = await desk.start_raw(record)
    handle = RunHandle(desk.client, workflow.id)
    for number in range(1, 4):
        said = {"input": photo(number), "message_id": f"m{number}"}
        await workflow.execute_update(  # pyright: ignore[reportUnknownMemberType]  the SDK's own annotation
            "send", said
        )
        async with desk.patience(handle):
            result = await SentMessage(f"m{number}", handle).answer()
        assert result.final_output == f"{number + 1} photos"
    state = await desk.settled(handle)
    assert all(not is_plain(item.raw) for item in state.items if item.kind == "input")
    found = await sizes(desk, handle)
    assert len(found) > 1, "the run has gone on in a new history"
    assert found[-1] < 2 * IMAGE_BYTES + 500_000, "which begins without the photos before"
    await handle.cancel("after_turn")


# --- What one workflow task sends -------------------------------------------------------------------


@function_tool(fast=True)
async def page(number: int) -> str:
    return f"{number:04}" + "x" * 98_900


@function_tool(fast=True)
async def broken(number: int) -> str:
    raise ValueError("\x01" * 500_000)


async def test_fifty_fast_calls_with_large_outputs_are_answered(desk: Desk):
    calls = 50

    def reply(request: ModelRequest) -> Any:
        found = outputs(request)
        if not found:
            return [call("page", f"c{number}", number=number) for number in range(calls)]
        return say(f"{sum(len(text) for text in found.values())}")

    agent = Agent[Any](name="Reader", tools=[page])
    await desk.open(agent, model=ScriptedModel(always=reply))
    result = await desk.run(agent, "Go")
    assert result.final_output == f"{calls * 98_904}"


async def test_five_hundred_calls_of_one_reply_make_no_long_step_of_the_workflow(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    """A step of the workflow that takes two seconds counts as a deadlock, and begins anew.

    Its own time counts, not what others on the machine take meanwhile.
    """
    calls, seconds = 500, list[float]()
    activate = _WorkflowInstanceImpl.activate

    def timed(self: Any, activation: Any) -> Any:
        began = time.thread_time()
        try:
            return activate(self, activation)
        finally:
            seconds.append(time.thread_time() - began)

    @function_tool(fast=True)
    async def look(number: int) -> str:
        return f"{number}"

    def reply(request: ModelRequest) -> Any:
        found = outputs(request)
        if not found:
            return [call("look", f"c{number}", number=number) for number in range(calls)]
        return say(f"{len(found)}")

    monkeypatch.setattr(_WorkflowInstanceImpl, "activate", timed)
    agent = Agent[Any](name="Reader", tools=[look])
    await desk.open(agent, model=ScriptedModel(always=reply))
    assert (await desk.run(agent, "Go")).final_output == f"{calls}"
    assert max(seconds) < 1


async def test_the_failure_of_a_fast_call_is_bounded_as_json(desk: Desk):
    def reply(request: ModelRequest) -> Any:
        found = outputs(request)
        if not found:
            return [call("broken", f"c{number}", number=number) for number in range(12)]
        return say(f"{max(len(json.dumps(text)) for text in found.values())}")

    agent = Agent[Any](name="Reader", tools=[broken])
    await desk.open(agent, model=ScriptedModel(always=reply))
    result = await desk.run(agent)
    assert int(result.final_output) <= 100_000


async def test_twelve_nested_runs_with_a_large_context_are_started(client: Client):
    desk = Desk(client, cached=True)
    context = {"text": random.Random(1).randbytes(245_000).hex()}

    def reply(request: ModelRequest) -> Any:
        if request.instructions == "Help.":
            return say("Helped.")
        if not outputs(request):
            return [call("help", f"c{number}", input="Help") for number in range(12)]
        return say("Done.")

    helper = Agent[Any](name="Helper", instructions="Help.")
    agent = Agent[Any](name="Boss", tools=[helper.as_tool("help", "Helps.")])
    await desk.open(agent, model=ScriptedModel(always=reply))
    result = await desk.run(agent, "Go", context=context)
    assert result.final_output == "Done."
    await desk.close_all()


# --- Without a store --------------------------------------------------------------------------------


@pytest.fixture
def small_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that a test reaches; of a server they are 8 MB and 44 MB."""
    monkeypatch.setattr(policies, "MAY_BE_CARRIED", 100_000)
    monkeypatch.setattr(policies, "FULL_BYTES", 6_000_000)


@pytest.mark.usefixtures("small_server")
async def test_a_conversation_without_room_refuses_messages_and_stays_open(client: Client):
    desk = Desk(client, cached=True)
    agent = Agent[Any](name="Looker")
    await desk.open(agent, model=ScriptedModel(always=counts_photos))
    handle = await desk.start(agent, photo(0), keep_open=True)
    answered: list[int] = []

    async def send_photos() -> None:
        for number in range(1, 9):
            await (await handle.send(photo(number))).answer()
            answered.append(number)

    with pytest.raises(ConversationFull, match="blob store"):
        await send_photos()
    assert 1 <= len(answered) < 5
    with pytest.raises(ConversationFull):
        await handle.send("And now?")
    await stays_open(desk, handle)
    await desk.close_all()


@function_tool
async def noise(number: int) -> str:
    return random.Random(number).randbytes(240_000).hex()


@pytest.mark.usefixtures("small_server")
async def test_a_question_without_room_fails_and_its_run_stays_open(client: Client):
    desk = Desk(client, cached=True)

    def reply(request: ModelRequest) -> Any:
        done = len(outputs(request))
        return [call("noise", f"c{done + one}", number=done + one) for one in range(3)]

    agent = Agent[Any](name="Looker", tools=[noise])
    await desk.open(agent, model=ScriptedModel(always=reply))
    handle = await desk.start(agent, "Go", keep_open=True, max_turns=50)
    with pytest.raises(ConversationFull, match="blob store"):
        await handle.wait_for_people()
    await stays_open(desk, handle)
    await desk.close_all()


async def stays_open(desk: Desk, handle: RunHandle) -> None:
    """A run that refuses more is read as ever, by its worker and from its history alike."""
    assert (await handle.state()).status == "idle"
    assert (await desk.workflow(handle).query("state"))["status"] == "idle"
    await check_run(desk.client, handle.id)
    await handle.cancel("after_turn")
