"""Open conversations stream, and readers learn why a run stands still."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.tools.function_tool import function_tool
from outlast.client.follower import Entry, Follower
from outlast.client.handle import RunHandle
from outlast.client.read import delta_poller as reader
from outlast.client.start.runner import Runner
from outlast.contract.streams.call_windows import CallWindows
from outlast.contract.streams.delta_reader import RESTARTED
from outlast.loop.items import text_of
from outlast.loop.values import JsonObject
from outlast.ports.model import ModelRequest, ModelResponse
from outlast.sessions import described
from outlast.sessions.sqlite import SQLiteSession
from outlast.testing import ScriptedModel, call, fail_after, paced, say
from tests.workflow.desk import PATIENCE_SECONDS, QUICK, Desk
from tests.workflow.people import ANN
from tests.workflow.replies import model_error
from tests.workflow.test_people_takeover import ANYBODY
from tests.workflow.test_streams import WORDS, deltas, heard, numbered, read

A = Agent[Any](name="A")


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The readers are in another process than the worker."""
    monkeypatch.setattr(reader, "call_windows", CallWindows())


async def took(events: AsyncGenerator[Any]) -> list[Any]:
    """Read a stream to its end."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        return [event async for event in events]


def statuses(events: list[Any]) -> list[str]:
    return [one.status for one in events if one.type == "status_stream_event"]


@pytest.mark.smoke
@pytest.mark.usefixtures("elsewhere")
async def test_only_the_answer_to_a_message_that_asks_for_it_streams(desk: Desk):
    model = ScriptedModel("Hello.", paced(0.02, WORDS), paced(0.02, WORDS))
    await desk.open(A, model=model)
    handle = await desk.start(A, keep_open=True)
    whole = asyncio.create_task(read(handle))
    await desk.until_status(handle, "idle")
    first = await handle.send("And now?", stream=True)
    one, other = await asyncio.gather(took(first.stream_events()), took(first.stream_events()))
    assert heard(one) == heard(other) == [WORDS]
    assert deltas(one) > 3
    assert deltas(other) > 3
    assert (await first.answer()).final_output == WORDS

    second = await handle.send("And then?")
    quiet = await took(second.stream_events())
    assert heard(quiet) == [WORDS]
    assert deltas(quiet) == 1
    assert heard(await took(first.stream_events())) == [WORDS], "a reader that comes late"
    await handle.cancel("after_turn")
    assert heard(await whole) == ["Hello.", WORDS, WORDS]


@pytest.mark.usefixtures("elsewhere")
async def test_run_streamed_keeps_a_conversation_open_whose_answers_all_stream(desk: Desk):
    await desk.open(A, model=ScriptedModel(paced(0.02, WORDS), paced(0.02, WORDS)))
    stream = desk.stream(A, id=(run_id := desk.new_id()), keep_open=True)
    assert deltas(await read(stream)) > 3
    assert (stream.final_output, stream.status) == (WORDS, "idle")
    handle = RunHandle(desk.client, run_id)
    sent = await handle.send("And now?")
    assert deltas(await took(sent.stream_events())) > 3
    await handle.cancel("after_turn")


async def test_a_conversation_streams_where_its_reader_is_attached(desk: Desk):
    """A reader in the worker's process needs no setting, and adds nothing to the history."""
    model = ScriptedModel("Hello.", *[paced(0.02, WORDS)] * 2)
    await desk.open(A, model=model)
    quiet = await desk.start(A)
    await desk.result(quiet)
    handle = await desk.start(A, keep_open=True)
    reading = asyncio.create_task(read(handle))
    await desk.until_status(handle, "idle")
    sent = await handle.send("And now?")
    events = await took(sent.stream_events())
    assert deltas(events) > 3
    assert model.requests[-1].settings.include_usage, "its usage counts as without a reader"
    await handle.cancel("after_turn")
    assert deltas(await reading) > deltas(events)
    watched = await desk.event_types(handle)
    assert watched.count("EVENT_TYPE_ACTIVITY_TASK_SCHEDULED") == 2 * sum(
        kind == "EVENT_TYPE_ACTIVITY_TASK_SCHEDULED" for kind in await desk.event_types(quiet)
    )


class Unstreamed(ScriptedModel):
    """A model whose provider refuses to stream."""

    async def stream_response(self, *_: Any, **__: Any) -> AsyncGenerator[JsonObject]:
        raise NotImplementedError("this model does not stream")
        yield {}

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        return await super().get_response(request)


async def test_a_reader_makes_no_call_fail_whose_model_does_not_stream(desk: Desk):
    await desk.open(A, model=Unstreamed("Hello.", "Here."))
    handle = await desk.start(A, keep_open=True)
    reading = asyncio.create_task(read(handle))
    await desk.until_status(handle, "idle")
    assert (await (await handle.send("And now?")).answer()).final_output == "Here."
    await handle.cancel("after_turn")
    assert heard(await reading) == ["Hello.", "Here."]


@pytest.mark.usefixtures("elsewhere")
async def test_answers_stream_across_histories(desk: Desk):
    await desk.open(A, model=ScriptedModel(*[paced(0.02, WORDS)] * 6))
    handle = await desk.start_short(A, keep_open=True, events=15)
    whole = asyncio.create_task(read(handle))
    await desk.until_status(handle, "idle")
    sent = [await handle.send("And now?", stream=True)]
    while len(sent) < 5:
        events = await took(sent[-1].stream_events())
        assert heard(events) == [WORDS]
        assert deltas(events) > 1
        sent.append(await handle.send("And then?", stream=True))
    assert len(await desk.all_events(handle)) >= 2
    for one in sent:
        assert heard(await took(one.stream_events())) == [WORDS], "a reader that comes late"
    await handle.cancel("after_turn")
    live = await whole
    assert heard(live) == [WORDS] * 6
    assert numbered(await read(handle)) == numbered(live)


@pytest.mark.usefixtures("elsewhere")
async def test_a_worker_that_leaves_in_a_streamed_message_starts_its_text_again(desk: Desk):
    worker = await desk.open(A, model=ScriptedModel("Hello.", paced(0.3, WORDS)))
    handle = await desk.start(A, keep_open=True, run_config=QUICK)
    await desk.until_status(handle, "idle")
    sent = await handle.send("And now?", stream=True)
    events: list[Any] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for event in sent.stream_events():
            events.append(event)
            if deltas(events) == 2 and worker is not None:
                await desk.close(worker)
                worker = None
                await desk.open(A, model=ScriptedModel(paced(0.02, WORDS)))
    kinds = [one.raw["type"] for one in events if one.type == "raw_response_event"]
    assert kinds.count(RESTARTED) >= 1
    assert heard(events) == [WORDS]
    await handle.cancel("after_turn")


@pytest.mark.usefixtures("elsewhere")
async def test_the_stream_of_a_message_ends_with_the_error_of_its_question(desk: Desk):
    broken = fail_after(6, model_error(retryable=False), say(WORDS))
    await desk.open(A, model=ScriptedModel("Hello.", broken))
    handle = await desk.start(A, keep_open=True)
    await desk.until_status(handle, "idle")
    sent = await handle.send("And now?", stream=True)
    with pytest.raises(Exception, match="server_error"):
        await took(sent.stream_events())
    await handle.cancel("after_turn")


# --- Why a run stands still ----------------------------------------------------------------------


@pytest.mark.smoke
async def test_readers_learn_what_blocks_a_run_and_when_it_goes_on(desk: Desk):
    worker = await desk.open(A, model=ScriptedModel("Hello."))
    handle = await desk.start(A, keep_open=True)
    await desk.until_status(handle, "idle")
    await desk.close(worker)
    worker = await desk.open(Agent[Any](name="Another"), model=ScriptedModel())
    lines = asyncio.create_task(_lines(desk, handle.id))
    whole = asyncio.create_task(read(handle))
    sent = await handle.send("And now?", stream=True)
    seen: list[Any] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for event in sent.stream_events():
            seen.append(event)
            if event.type == "status_stream_event" and event.status == "blocked":
                assert event.blocked[0].step == "The model call of A"
                assert "no agent 'A'" in event.blocked[0].lacks
                assert "Start a worker that has this" in event.reason
                await desk.close(worker)
                await desk.open(A, model=ScriptedModel("Here."))
    assert statuses(seen)[0] == "blocked"
    assert not [one for one in seen if one.type == "status_stream_event"][1].blocked
    assert heard(seen) == ["Here."]
    await handle.cancel("after_turn")
    assert statuses(await whole)[:3] == ["idle", "running", "blocked"]
    told = [one.event for one in await lines if one.event.type in {"blocked", "unblocked"}]
    assert [one.type for one in told] == ["blocked", "unblocked"]
    assert "Start a worker" in told[0].text


async def test_a_session_file_that_workers_may_not_open_is_said_at_once(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    await desk.open(A, model=ScriptedModel("Hello."))
    session = SQLiteSession("s1", str(tmp_path / "conversations.db"))
    monkeypatch.setattr(described, "_CREATED", set[str]())  # as in another process
    stream = desk.stream(A, session=session)
    seen: list[Any] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for event in stream.stream_events():
            seen.append(event)
            if statuses(seen) == ["blocked"]:
                assert "conversations.db" in seen[-1].reason
                assert "AgentWorker(sessions=[...])" in seen[-1].reason
                described.allow_place(tmp_path)
    assert statuses(seen) == ["blocked", "running"]
    assert stream.final_output == "Hello."


async def test_a_stream_goes_on_when_a_person_gives_up_what_no_worker_can_carry_out(desk: Desk):
    @function_tool(needs_approval=True)
    async def new_tool() -> str:
        raise NotImplementedError

    planning = ScriptedModel([call("new_tool", "c1")])
    worker = await desk.open(Agent[Any](name="A", tools=[new_tool]), model=planning)
    waiting = desk.stream("A", id=(run_id := desk.new_id()))
    await read(waiting)
    assert [one.name for one in waiting.interruptions] == ["new_tool"]
    await desk.close(worker)
    await desk.open(A, model=ScriptedModel("Done by hand."))
    state = waiting.to_state()
    state.approve(waiting.interruptions[0])
    stream = Runner.run_streamed("A", state, client=desk.client)
    handle = RunHandle(desk.client, run_id)
    seen: list[Any] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for event in stream.stream_events():
            seen.append(event)
            if event.type == "status_stream_event" and event.status == "blocked":
                assert "has no tool 'new_tool'" in event.reason
                assert not stream.is_complete
                assert stream.interruptions == [], "nobody can approve it"
                (request,) = await handle.approvals()
                await handle.reject(request, message="The tool is gone.", by="bob")
    assert statuses(seen) == ["blocked", "running"]
    assert (stream.final_output, stream.status) == ("Done by hand.", "completed")


async def _lines(desk: Desk, run_id: str) -> list[Entry]:
    """Return what `outlast tail` shows."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        return [one async for one in Follower(desk.client, run_id).tail() if isinstance(one, Entry)]


async def test_the_words_of_a_person_are_the_answer_of_a_streamed_run(desk: Desk):
    await desk.open(A, model=ScriptedModel(paced(0.05, WORDS)))
    run_id = desk.new_id()
    stream = desk.stream(A, id=run_id, run_config=ANYBODY)
    handle = RunHandle(desk.client, run_id)
    seen: list[Any] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for event in stream.stream_events():
            seen.append(event)
            if deltas(seen) == 1 and "held" not in statuses(seen):
                await handle.hold(by=ANN, mode="immediate")
            if statuses(seen) == ["held"] and event.type == "status_stream_event":
                await handle.say("I am Ann.", by=ANN)
                await handle.release(by=ANN)
    (spoken,) = (one for one in seen if getattr(one, "name", "") == "message_output_created")
    assert text_of(spoken.entry.raw) == "I am Ann."
    assert stream.final_output == "I am Ann."
