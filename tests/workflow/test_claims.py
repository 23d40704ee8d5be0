"""Requests too large for history travel by claim, and every miss of a claim can be answered."""

import asyncio
import random
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities import boundary
from outlast.agents.agent import Agent
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.contract import names
from outlast.contract.records import PAGE_BYTES
from outlast.contract.worker_state import OfferedRequests
from outlast.loop.values import JsonObject
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, say
from tests.workflow.desk import Desk
from tests.workflow.replies import outputs

"""Without a cache, another task may ask for a request than the one that made it."""

LONG = "A long question. " * 300


@function_tool
async def look_up(text: str) -> str:
    return f"{len(text)} characters"


@function_tool
async def page(number: int) -> str:
    """One page of a thousand bytes, each different."""
    return random.Random(number).randbytes(500).hex()


AGENT = Agent[Any](name="Reader", instructions="Read.", tools=[look_up, page])


async def inputs(desk: Desk, handle: RunHandle) -> dict[str, JsonObject]:
    """Return what history holds of the request of each activity, the newest of each type."""
    history = await desk.workflow(handle).fetch_history()
    found: dict[str, JsonObject] = {}
    for event in history.events:
        scheduled = event.activity_task_scheduled_event_attributes
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            values = await desk.client.data_converter.decode(scheduled.input.payloads)
            found[scheduled.activity_type.name] = values[0]
    return found


@pytest.mark.smoke
async def test_small_requests_are_readable_in_history(desk: Desk):
    await desk.open(AGENT, model=ScriptedModel([call("look_up", "c1", text="Hi")], "Two."))
    handle = await desk.start(AGENT, "How long is Hi?")
    await desk.result(handle)
    requests = await inputs(desk, handle)
    assert requests["call_model"]["items"][0]["raw"]["content"] == "How long is Hi?"
    assert requests["tool:look_up"]["arguments"] == '{"text": "Hi"}'


@pytest.mark.replayed
@pytest.mark.smoke
async def test_large_requests_are_named_in_history_by_their_number_only(desk: Desk):
    model = ScriptedModel([call("look_up", "c1", text=LONG)], "Long.")
    await desk.open(AGENT, model=model)
    handle = await desk.start(AGENT, LONG)
    await desk.result(handle)
    assert await inputs(desk, handle) == {"call_model": {"claim": 4}, "tool:look_up": {"claim": 3}}
    assert model.requests[0].input == [{"role": "user", "content": LONG}]
    assert outputs(model.requests[1]) == {"c1": f"{len(LONG)} characters"}


def in_another_process(_offered: OfferedRequests, run_id: str, effect: int) -> None:
    """Find what a worker finds that shares no process with the workflow: nothing."""


class Asked:
    """Counts the pages of requests that activities asked workflows for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pages: list[int] = []
        query: Any = vars(WorkflowHandle)["query"]

        async def counted(handle: Any, name: Any, *arguments: Any, **options: Any) -> Any:
            if name == names.QUERY_REQUEST:
                self.pages.append(options["args"][1])
            return await query(handle, name, *arguments, **options)

        monkeypatch.setattr(WorkflowHandle, "query", counted)


async def test_with_one_worker_the_process_has_every_request(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    asked = Asked(monkeypatch)
    await desk.open(AGENT, model=ScriptedModel([call("look_up", "c1", text=LONG)], "Long."))
    await desk.run(AGENT, LONG)
    assert asked.pages == []


@pytest.mark.replayed
async def test_a_request_that_has_left_the_process_is_asked_of_the_workflow(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    asked = Asked(monkeypatch)
    take = OfferedRequests.take

    def too_late(offered: OfferedRequests, run_id: str, effect: int) -> Any:
        vars(offered)["_requests"].clear()
        return take(offered, run_id, effect)

    monkeypatch.setattr(OfferedRequests, "take", too_late)
    model = ScriptedModel([call("look_up", "c1", text=LONG)], "Long.")
    await desk.open(AGENT, model=model)
    assert (await desk.run(AGENT, LONG)).final_output == "Long."
    assert asked.pages == [0, 0, 0]
    assert model.requests[1].input[0] == {"role": "user", "content": LONG}
    assert outputs(model.requests[1]) == {"c1": f"{len(LONG)} characters"}


async def test_a_worker_without_workflows_asks_for_requests_in_pages(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    """Its claims never meet the workflow's: each model call of this run takes several pages."""
    asked = Asked(monkeypatch)
    monkeypatch.setattr(OfferedRequests, "take", in_another_process)
    pages = 4

    def reply(request: ModelRequest) -> Any:
        said = len(outputs(request))
        return say(f"{said} pages") if said == pages else [call("large", f"c{said}", number=said)]

    @function_tool
    async def large(number: int) -> str:
        return str(number) * 450_000

    agent = Agent[Any](name="Librarian", tools=[large])
    model = ScriptedModel(always=reply)
    await desk.open_effects(agent, model=model)
    await desk.open_workflows(agent)
    assert (await desk.run(agent, LONG)).final_output == "4 pages"
    read = outputs(model.requests[-1])
    assert read == {f"c{number}": str(number) * 450_000 for number in range(pages)}
    assert pages * 450_000 > PAGE_BYTES
    assert max(asked.pages) == 1


async def test_a_claim_waits_until_a_workflow_worker_can_answer_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(OfferedRequests, "take", in_another_process)
    monkeypatch.setattr(boundary, "CLAIM_WAIT_SECONDS", 0.01)
    failed = asyncio.Event()
    query: Any = vars(WorkflowHandle)["query"]
    attempts: list[str] = []

    async def refused_at_first(handle: Any, name: Any, *arguments: Any, **options: Any) -> Any:
        if name == names.QUERY_REQUEST:
            attempts.append(name)
            if len(attempts) < 4:
                failed.set()
                message = "no poller has asked for work lately"
                raise RPCError(message, RPCStatusCode.FAILED_PRECONDITION, b"")
        return await query(handle, name, *arguments, **options)

    monkeypatch.setattr(WorkflowHandle, "query", refused_at_first)
    await desk.open(AGENT, model=ScriptedModel("Long."))
    assert (await desk.run(AGENT, LONG)).final_output == "Long."
    assert failed.is_set()
    assert len(attempts) == 4


def read_pages(request: ModelRequest) -> Any:
    """Read as many pages as the question says, one each turn."""
    wanted, read = int(request.input[0]["content"]), len(outputs(request))
    return say("Read.") if read == wanted else [call("page", f"c{read}", number=read)]


async def history_bytes(desk: Desk, turns: int) -> int:
    """Return the size of a history of so many turns with one tool result of 1 KB each."""
    handle = await desk.start(AGENT, str(turns), max_turns=None)
    assert (await desk.result(handle)).turns == turns + 1
    description = await desk.workflow(handle).describe()
    return description.raw_description.workflow_execution_info.history_size_bytes


async def test_history_grows_with_the_number_of_turns_and_not_with_its_square(desk: Desk):
    await desk.open(AGENT, model=ScriptedModel(always=read_pages))
    turns = 20
    short, long = await history_bytes(desk, turns), await history_bytes(desk, 2 * turns)
    assert long < 2.2 * short
    assert long < 2 * turns * 4_000
