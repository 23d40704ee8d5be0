import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import timedelta
from typing import Any, cast

import pytest
from temporalio.client import Client

from outlast.agents.errors import (
    AgentsException,
    RunNotFound,
)
from outlast.client import follower as module
from outlast.client.follower import Delta, Entry, Follower, Retry, is_settled
from outlast.client.handle import RunHandle
from outlast.client.read.history import Progress
from outlast.client.start.runner import Runner
from outlast.contract.streams.window import is_delta
from outlast.loop.calls import ModelReply
from outlast.loop.effects import EffectAnswered
from outlast.loop.state import LoopState, has_message
from outlast.loop.values import JsonObject
from outlast.ports.model import ModelError
from outlast.testing import ScriptedModel
from outlast.views.run import loop_state
from tests.eventually import eventually
from tests.unit.cli.conftest import Open
from tests.unit.client.recorded import FakeClient, Kind, Recording


async def watched(follower: Follower) -> list[str]:
    return [event.type async for event in follower.events(is_settled)]


@pytest.mark.parametrize("phase", ["closed", "idle"])
def test_a_run_is_settled_when_it_has_ended_or_takes_a_message(phase: str) -> None:
    assert is_settled(LoopState(phase=phase))  # pyright: ignore[reportArgumentType]
    assert not is_settled(LoopState(phase="thinking"))


async def test_a_run_is_watched_from_its_question_to_its_answer_and_then_told_again(
    recorded: Client,
) -> None:
    """A wait for a person that is over does not count as waiting."""
    follower = Follower(recorded, RUN)

    seen = await watched(follower)

    assert seen[-1] == "status"
    assert {"message_input", "tool_called", "tool_output", "message_output_created"} <= {*seen}
    result = await follower.result()
    assert (result.final_output, result.status) == ("Hello there", "completed")
    assert await watched(Follower(recorded, RUN)) == seen


async def test_only_what_belongs_to_a_message_can_be_watched(
    client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel("One.", "Two."))
    handle = await Runner.start(
        "Helper", "First", id=run_id, client=client, task_queue=queue, keep_open=True
    )
    await handle.wait(lambda state: loop_state(state).phase == "idle")
    message = await handle.send("Second")
    follower = Follower(client, run_id)

    events = [
        event.text
        async for event in follower.events(
            lambda state: any(message.id in answer.to for answer in state.answers),
            since=lambda state: has_message(loop_state(state), message.id),
        )
        if event.text
    ]

    assert events == ["Second", "Two."]
    await handle.cancel()


@pytest.mark.smoke
async def test_a_run_that_the_engine_ended_is_not_waited_for(client: Client, run_id: str) -> None:
    await Runner.start("Helper", "Where?", id=run_id, client=client, task_queue="nobody-is-here")
    await client.get_workflow_handle(run_id).terminate("enough")
    follower = Follower(client, run_id)

    await watched(follower)

    with pytest.raises(AgentsException, match="terminated"):
        await follower.result()


async def test_a_run_that_is_not_there_is_not_found() -> None:
    with pytest.raises(RunNotFound):
        await watched(Follower(cast("Client", FakeClient()), RUN))


RUN = "support-42"
LATE: JsonObject = {"type": "response.output_text.delta", "delta": "H"}


@pytest.fixture
def recorded() -> Client:
    """A server on which a run has asked a person, was told yes, and has answered."""
    one = Recording()
    one.asked()
    one.prepared()
    raw = {"type": "function_call", "call_id": "c1", "name": "refund", "arguments": "{}"}
    plan: dict[str, Any] = {"item": 0, "kind": "tool", "approval": {}}
    one.activity(2, {"items": [raw], "calls": [plan]})
    one.task()
    one.signal("decide", {"request_id": "a1", "type": "approve", "by": "ann"})
    one.task()
    one.activity(3, {"output": "paid"})
    one.task()
    one.answered("Hello there", effect=4)
    one.close(Kind.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED)
    return cast("Client", FakeClient(one.events))


async def test_entries_have_the_numbers_of_the_stream_of_the_run(recorded: Client) -> None:
    entries = [one async for one in Follower(recorded, RUN).tail() if isinstance(one, Entry)]
    stream = [event async for event in RunHandle(recorded, RUN).stream_events()]
    numbered = [event for event in stream if event.id is not None]
    assert sorted(one.number for one in entries if one.number is not None) == [
        event.id for event in numbered
    ]
    decided = next(one for one in entries if one.event.data.get("status") == "approved")
    assert numbered[cast("int", decided.number)].type == "approval_stream_event"


async def test_what_the_models_said_comes_before_the_entry_that_has_it(recorded: Client) -> None:
    events = [one async for one in Follower(recorded, RUN).tail()]
    said = [at for at, one in enumerate(events) if isinstance(one, Delta)]
    answer = next(
        at
        for at, one in enumerate(events)
        if isinstance(one, Entry) and one.event.text == "Hello there"
    )
    last = cast("Delta", events[answer - 1])
    assert last.raw["type"] == "response.completed"
    assert last.agent == "Triage"
    text = [cast("Delta", events[at]).raw for at in said]
    assert [raw["delta"] for raw in text if is_delta(raw)] == ["", "Hello there"]


async def test_one_can_begin_with_any_entry(recorded: Client) -> None:
    everything = [one async for one in Follower(recorded, RUN).tail()]
    numbers = [one.number for one in everything if isinstance(one, Entry)]
    for start in range(len(numbers) + 1):
        rest = [one async for one in Follower(recorded, RUN).tail(from_event=start)]
        entries = [one for one in rest if isinstance(one, Entry)]
        assert {one.number for one in entries} == {
            number for number in numbers if number is not None and number >= start
        }
    beyond = [one async for one in Follower(recorded, RUN).tail(from_event=len(numbers))]
    assert beyond == []
    said = [one for one in everything if isinstance(one, Delta)]
    late = [one async for one in Follower(recorded, RUN).tail(from_event=5)]
    assert 0 < len([one for one in late if isinstance(one, Delta)]) < len(said)


async def test_what_is_said_now_is_told_now(
    recorded: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def live(
        progress: AsyncIterator[Progress], _client: Client, _run_id: str
    ) -> AsyncGenerator[Progress | JsonObject]:
        async for step in progress:
            if isinstance(step.event, EffectAnswered) and isinstance(step.event.result, ModelReply):
                yield LATE
            yield step

    monkeypatch.setattr(module, "with_deltas", live)
    events = [one async for one in Follower(recorded, RUN).tail()]
    assert [one for one in events if isinstance(one, Delta)] == [Delta("Triage", LATE)] * 2


def test_both_have_a_record_for_programs() -> None:
    assert Delta("Triage", LATE).record() == {
        "type": "raw_response_event",
        "who": "Triage",
        "data": LATE,
    }


async def test_entries_have_a_record_with_their_number(recorded: Client) -> None:
    records: list[dict[str, Any]] = [
        one.record() async for one in Follower(recorded, RUN).tail() if isinstance(one, Entry)
    ]
    asked = next(record for record in records if record["type"] == "message_input")
    assert asked["id"] < 3
    assert asked["text"] == "Hello"
    assert asked["at"].startswith("1970-01-01T00:16:4")


async def test_the_tail_of_a_run_that_is_not_there_is_not_found() -> None:
    with pytest.raises(RunNotFound):
        await anext(Follower(cast("Client", FakeClient()), RUN).tail())


BUSY = ModelError("The service is busy.", code="model_call_failed", retryable=True)


async def test_each_failed_attempt_is_told_once_with_its_reason(
    client: Client, open_desk: Open, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_CHECK_INTERVAL", timedelta(milliseconds=20))
    told: list[Retry] = []
    queue = await open_desk(ScriptedModel(BUSY, BUSY, "Here I am."))
    handle = await Runner.start("Helper", "Hi", id=run_id, client=client, task_queue=queue)

    async with Follower(client, run_id).report_retries(told.append):
        assert (await handle.result()).final_output == "Here I am."

    assert [(retry.activity, retry.attempt) for retry in told] == [
        ("call_model", 1),
        ("call_model", 2),
    ]
    assert all("The service is busy." in retry.reason for retry in told)
    assert str(told[0]).startswith("call_model, attempt 1 failed: ")


async def test_the_reason_is_told_also_where_it_was_too_long_for_the_server(
    client: Client, open_desk: Open, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_CHECK_INTERVAL", timedelta(milliseconds=20))
    told: list[Retry] = []
    endless = ModelError("Überlastet. " * 1_000, code="model_call_failed", retryable=True)
    queue = await open_desk(ScriptedModel(endless, "Here I am."))
    handle = await Runner.start("Helper", "Hi", id=run_id, client=client, task_queue=queue)

    async with Follower(client, run_id).report_retries(told.append):
        await handle.result()

    assert [retry.reason[:12] for retry in told] == ["Überlastet. "]


async def test_what_cannot_be_asked_is_no_error(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_CHECK_INTERVAL", timedelta(0))
    asked = 0
    describe = Follower._retries

    async def count(*arguments: object) -> list[tuple[str, Retry]]:
        nonlocal asked
        asked += 1
        return await describe(*arguments)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(Follower, "_retries", count)

    async with Follower(client, "never-was").report_retries(print), asyncio.timeout(20):
        await eventually(lambda: asked > 2)


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        ("weather service is down", "failed: weather service is down. It will be retried."),
        ("It is down.", "failed: It is down. It will be retried."),
        ("Down!\n", "failed: Down! It will be retried."),
    ],
)
def test_a_retry_is_told_in_whole_sentences(reason: str, sentence: str) -> None:
    text = str(Retry(activity="tool:weather", attempt=1, reason=reason))
    assert text == f"tool:weather, attempt 1 {sentence}"
