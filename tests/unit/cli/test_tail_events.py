from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, cast

import pytest
from temporalio.client import Client

from outlast.agents.errors import RunNotFound
from outlast.cli import tail_events as module
from outlast.cli.tail_events import Happened, Said, tail_events
from outlast.client.handle import RunHandle
from outlast.client.history import Progress
from outlast.contract.deltas import is_delta
from outlast.loop.events import ModelReplied
from outlast.loop.values import JsonObject
from tests.unit.client.recorded import FakeClient, Kind, Recording

RUN = "support-42"
LATE: JsonObject = {"type": "response.output_text.delta", "delta": "H"}


@pytest.fixture
def client() -> Client:
    """A server on which a run has asked a person, was told yes, and has answered."""
    one = Recording()
    one.asked()
    one.prepared()
    raw = {"type": "function_call", "call_id": "c1", "name": "refund", "arguments": "{}"}
    plan = {"item": 0, "kind": "tool", "needs_approval": True}
    one.activity(2, {"items": [raw], "calls": [plan]})
    one.task()
    one.signal("decide", {"request_id": "a1", "type": "approve", "by": "ann"})
    one.task()
    one.activity(3, {"output": "paid"})
    one.task()
    one.answered("Hello there", effect=4)
    one.close(Kind.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED)
    return cast("Client", FakeClient(one.events))


async def test_entries_have_the_numbers_of_the_stream_of_the_run(client: Client) -> None:
    entries = [one async for one in tail_events(client, RUN) if isinstance(one, Happened)]
    stream = [event async for event in RunHandle(client, RUN).stream_events()]
    numbered = [event for event in stream if event.id is not None]
    assert sorted(one.number for one in entries if one.number is not None) == [
        event.id for event in numbered
    ]
    decided = next(one for one in entries if one.event.data.get("status") == "approved")
    assert numbered[cast("int", decided.number)].type == "approval_stream_event"


async def test_what_the_models_said_comes_before_the_entry_that_has_it(client: Client) -> None:
    events = [one async for one in tail_events(client, RUN)]
    said = [at for at, one in enumerate(events) if isinstance(one, Said)]
    answer = next(
        at
        for at, one in enumerate(events)
        if isinstance(one, Happened) and one.event.text == "Hello there"
    )
    last = cast("Said", events[answer - 1])
    assert last.raw["type"] == "response.completed"
    assert last.agent == "Triage"
    text = [cast("Said", events[at]).raw for at in said]
    assert [raw["delta"] for raw in text if is_delta(raw)] == ["{}", "Hello there"]


async def test_one_can_begin_with_any_entry(client: Client) -> None:
    everything = [one async for one in tail_events(client, RUN)]
    numbers = [one.number for one in everything if isinstance(one, Happened)]
    for start in range(len(numbers) + 1):
        rest = [one async for one in tail_events(client, RUN, from_event=start)]
        entries = [one for one in rest if isinstance(one, Happened)]
        assert {one.number for one in entries} == {
            number for number in numbers if number is not None and number >= start
        }
    beyond = [one async for one in tail_events(client, RUN, from_event=len(numbers))]
    assert beyond == []
    said = [one for one in everything if isinstance(one, Said)]
    late = [one async for one in tail_events(client, RUN, from_event=5)]
    assert 0 < len([one for one in late if isinstance(one, Said)]) < len(said)


async def test_what_is_said_now_is_told_now(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def live(
        progress: AsyncIterator[Progress], _client: Client, _run_id: str
    ) -> AsyncGenerator[Progress | JsonObject]:
        async for step in progress:
            if isinstance(step.event, ModelReplied):
                yield LATE
            yield step

    monkeypatch.setattr(module, "with_deltas", live)
    events = [one async for one in tail_events(client, RUN)]
    assert [one for one in events if isinstance(one, Said)] == [Said("Triage", LATE)] * 2


def test_both_have_a_record_for_programs() -> None:
    assert Said("Triage", LATE).record() == {
        "type": "raw_response_event",
        "who": "Triage",
        "data": LATE,
    }


async def test_entries_have_a_record_with_their_number(client: Client) -> None:
    records: list[dict[str, Any]] = [
        one.record() async for one in tail_events(client, RUN) if isinstance(one, Happened)
    ]
    asked = next(record for record in records if record["type"] == "message_input")
    assert asked["id"] < 3
    assert asked["text"] == "Hello"
    assert asked["at"].startswith("1970-01-01T00:16:4")


async def test_a_run_that_is_not_there_is_not_found() -> None:
    with pytest.raises(RunNotFound):
        await anext(tail_events(cast("Client", FakeClient()), RUN))
