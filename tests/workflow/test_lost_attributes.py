"""Search attributes that an operator removes while runs are open, and names that are hard to find."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.operatorservice.v1 import RemoveSearchAttributesRequest
from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.client.runs import RunFilter, find_runs, with_tenants
from outlast.contract import names
from outlast.ports.model import ModelRequest
from outlast.temporal.visibility.search_attributes import (
    ensure_search_attributes,
    lacks_search_attributes,
)
from outlast.testing import ScriptedModel, call, say
from outlast.views.run import loop_state
from outlast.worker import attribute_watch
from tests.servers import TemporalServer, server_for_tests
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.laws import replay, snapshot_of, timeless
from tests.workflow.replies import outputs


@pytest.fixture(scope="module")
async def server_of_ours() -> AsyncIterator[TemporalServer]:
    async with server_for_tests(shared=False) as server:
        yield server


@pytest.fixture
async def own_desk(
    server_of_ours: TemporalServer, monkeypatch: pytest.MonkeyPatch, *, cached: bool
) -> AsyncIterator[Desk]:
    """A desk at a server whose attributes no other test needs."""
    monkeypatch.setattr(attribute_watch, "LOOKS_EVERY", timedelta(milliseconds=200))
    client = await server_of_ours.connect()
    await ensure_search_attributes(client, names.SEARCH_ATTRIBUTES)
    await seen(client, lacks=False)
    desk = Desk(client, cached=cached)
    yield desk
    for run_id in desk.ids:
        await replays(desk, RunHandle(client, run_id))
    await desk.close_all()


async def seen(client: Client, *, lacks: bool) -> None:
    """Wait until the server, which reads its own list now and then, knows what there is."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if await lacks_search_attributes(client, names.SEARCH_ATTRIBUTES) == lacks:
                return
            await asyncio.sleep(0.1)


async def replays(desk: Desk, handle: RunHandle) -> None:
    """Replay every history of a run, as a worker does that knows nothing of what is missing."""
    for events in await desk.all_events(handle):
        if len(events) > 1:  # else it has only just been continued, and there is nothing yet
            await replay(desk.client, [(handle.id, events)])
    snapshot = await snapshot_of(desk.workflow(handle))
    assert timeless(loop_state(await handle.state())) == timeless(snapshot)


async def remove(client: Client) -> None:
    await client.operator_service.remove_search_attributes(
        RemoveSearchAttributesRequest(
            namespace=client.namespace, search_attributes=list(names.SEARCH_ATTRIBUTES)
        )
    )
    await seen(client, lacks=True)


@function_tool
async def look_up(order: str) -> str:
    return f"{order} is there"


async def answered(desk: Desk, handle: RunHandle, number: int) -> None:
    async with desk.patience(handle):
        await (await handle.send(f"{number}?", message_id=f"m{number}")).answer()


async def markers(desk: Desk, handle: RunHandle) -> list[int]:
    """Return how many patches each history of a run has recorded."""
    return [
        sum(
            one.event_type == EventType.EVENT_TYPE_MARKER_RECORDED
            and one.marker_recorded_event_attributes.marker_name == "core_patch"
            for one in events
        )
        for events in await desk.all_events(handle)
    ]


@pytest.mark.full
@pytest.mark.replayed
async def test_runs_continue_without_their_attributes_and_write_them_when_they_are_back(
    own_desk: Desk,
):
    desk = own_desk
    agent = Agent[Any](name="Helper")
    await desk.open(agent, model=ScriptedModel(*["Yes."] * 30))
    handle = await desk.start_short(agent, keep_open=True, events=14)
    await desk.until_status(handle, "idle")
    await remove(desk.client)
    for number in range(4):
        await answered(desk, handle, number)
    lost = await markers(desk, handle)
    assert len(lost) > 1, "it continued as new without them"
    assert set(lost) <= {0, 1}
    assert 1 in lost
    await ensure_search_attributes(desk.client, names.SEARCH_ATTRIBUTES)
    await seen(desk.client, lacks=False)
    await asyncio.sleep(1)  # for the worker's own look
    for number in range(4, 9):
        await answered(desk, handle, number)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if await find_runs(desk.client, RunFilter(agent="Helper", status="idle"), limit=5):
                break
            await asyncio.sleep(0.2)
    assert (await markers(desk, handle))[-1] == 0
    state = await handle.state()
    assert len(state.answers) == 10


async def test_nested_runs_start_without_attributes_that_were_removed(own_desk: Desk):
    desk = own_desk
    nested = Agent[Any](name="Clerk")
    outer = Agent[Any](name="Desk", tools=[nested.as_tool("ask_clerk", "Ask."), look_up])

    def reply(request: ModelRequest) -> Any:
        if not request.tools:
            return say("From the clerk.")
        done = outputs(request)
        if "c1" not in done:
            return [call("ask_clerk", "c1", input="A?")]
        return say(str(done["c1"]))

    worker = await desk.open(outer, nested, model=ScriptedModel(*[reply] * 9))
    await remove(desk.client)
    worker._plugin._deps.state.lacks = frozenset()
    handle = await desk.start_record(agent="Desk", input="Hello")
    assert (await desk.result(handle)).final_output == "From the clerk."


async def test_runs_of_tenants_are_listed_in_the_namespace_of_an_older_version(
    own_desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """Only the attribute of tenants is missing, and nobody here may add it."""

    async def refused(_client: Client) -> bool:
        return False

    monkeypatch.setattr("outlast.client.transport.connection.add_search_attributes", refused)
    desk = own_desk
    nested = Agent[Any](name="Clerk")
    outer = Agent[Any](name="Old desk", tools=[nested.as_tool("ask_clerk", "Ask.")])
    await desk.client.operator_service.remove_search_attributes(
        RemoveSearchAttributesRequest(
            namespace=desk.client.namespace, search_attributes=[names.ATTRIBUTE_TENANT]
        )
    )
    await seen(desk.client, lacks=True)
    replies = [call("ask_clerk", "c1", input="A?")], "From the clerk.", "Done."
    worker = await desk.open(outer, model=ScriptedModel(*replies))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not worker._plugin._deps.state.lacks:  # noqa: ASYNC110  nothing announces it
            await asyncio.sleep(0.02)
    assert "of OutlastTenant, OutlastCustomer. New runs cannot" in caplog.text

    await desk.run(outer, tenant="acme")

    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            rows = await find_runs(desk.client, RunFilter(agent="Old desk"), limit=5)
            if [row.run_id for row in rows] == desk.ids:
                break
            await asyncio.sleep(0.02)
    assert [row.tenant for row in await with_tenants(desk.client, rows)] == ["acme"]
    assert set(await markers(desk, RunHandle(desk.client, desk.ids[0]))) == {0}
    with pytest.raises(UserError, match=r"OutlastTenant.*`outlast doctor --fix` adds them"):
        await find_runs(desk.client, RunFilter(tenant="acme"), limit=5)


async def test_a_shared_conversation_is_listed_in_the_namespace_of_an_older_version(
    own_desk: Desk, caplog: pytest.LogCaptureFixture
):
    """Only the attributes of cases are missing: the conversation keeps all others."""
    desk = own_desk
    agent = Agent[Any](name="Older")
    await desk.client.operator_service.remove_search_attributes(
        RemoveSearchAttributesRequest(
            namespace=desk.client.namespace, search_attributes=list(names.ATTRIBUTES_OF_CASE)
        )
    )
    await seen(desk.client, lacks=True)
    worker = await desk.open(agent, model=ScriptedModel("Yes."))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not worker._plugin._deps.state.lacks:  # noqa: ASYNC110  nothing announces it
            await asyncio.sleep(0.02)
    assert "cannot be found by team, assignee, tag and rating" in caplog.text
    handle = await desk.start(agent, keep_open=True)
    await desk.until_status(handle, "idle")

    await handle.assign("bob", by="ann", team="billing")
    await handle.tag("parcel", by="ann")
    await handle.snooze(timedelta(hours=1), by="ann")

    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await find_runs(desk.client, RunFilter(agent="Older", status="snoozed"), limit=5):  # noqa: ASYNC110  nothing announces it
            await asyncio.sleep(0.1)
    assert await markers(desk, handle) == [1]
    await handle.cancel(mode="immediate")


async def test_names_of_any_kind_and_length_are_found(desk: Desk):
    kinds = ['say "x"', "back\\slash", "O'Neill", "ü😀", "x" * 3_000, "two \\ of", "two"]
    kinds += ["clients'", "100%_!", "100x-y", "😀" * 300, "new\nline", "who? me", "nul\0"]
    agents = [Agent[Any](name=f"{desk.queue} {kind}") for kind in kinds]
    agents += [Agent[Any](name=f"'{desk.queue}'"), Agent[Any](name=f"{desk.queue}")]
    await desk.open(*agents, model=ScriptedModel(*["Yes."] * 30))
    for agent in agents:
        await desk.run(agent)
    for agent, run_id in zip(agents, desk.ids, strict=True):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                rows = await find_runs(desk.client, RunFilter(agent=agent.name), limit=5)
                if [row.run_id for row in rows] == [run_id]:
                    break
                await asyncio.sleep(0.2)
