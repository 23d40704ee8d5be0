"""Payloads that nobody can read: they are noted or refused, and no run and no task fails by them."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.common import RawValue
from temporalio.worker import Worker

from outlast.activities.boundary import EffectActivities
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.agent import Agent
from outlast.agents.errors import AgentsException, UserError
from outlast.agents.registry import Registry
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.testing import ScriptedModel, call, say
from outlast.worker import OutlastPlugin
from tests.workflow.codecs import Sealed, Unsteady, with_codec
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.laws import check_run, failed_tasks, terminate_if_open


@function_tool(needs_approval=True)
async def refund(order: int) -> str:
    return f"refunded {order}"


CLERK = Agent[Any](name="Clerk", tools=[refund])
OURS, THEIRS = b"our key", b"their key"

ENCODINGS = [
    b"",
    b"binary/plain",
    b"binary/null",
    b"json/plain",
    b"json/protobuf",
    b"binary/protobuf",
    b"binary/encrypted",
    b"binary/undecodable",
    b"json/external-storage-reference",
    b"\xff\xfe\x1b[2J",
]
BODIES = [
    b"",
    b"\xff\xfe",
    b"{",
    b"{}",
    b"null",
    b"[" * 240 + b"]" * 240,
    b"[" * 980 + b"]" * 980,
    b"[" * 100_000 + b"]" * 100_000,
    b'"\\ud83d"',
    b"NaN",
    b"1" * 5_000,
    b'{"mode": NaN}',
    b'{"request_id": "a1", "type": "perhaps"}',
    b'{"driver_name": "s3", "driver_claim": {"claim_data": {}}}',
]
MARKS: list[dict[str, bytes]] = [
    {},
    {"messageType": b"temporal.api.common.v1.Payload"},
    {"messageType": b"temporal.api.sdk.v1.ExternalStorageReference"},
    {"__temporal_external_storage_reference": b"true"},
    {"original-encoding": b"\x00"},
]


def junk(seed: int, count: int) -> list[RawValue]:
    """Return payloads of which none is a decision, a message, a cancel or the start of a run."""
    chance = random.Random(seed)
    return [
        RawValue(
            Payload(
                metadata={"encoding": chance.choice(ENCODINGS), **chance.choice(MARKS)},
                data=chance.choice([*BODIES, chance.randbytes(40)]),
            )
        )
        for _ in range(count)
    ]


@pytest.fixture
async def sealed(desk: Desk, client: Client) -> AsyncIterator[Desk]:
    """A desk whose client and workers encrypt everything."""
    own = Desk(with_codec(client, Sealed(OURS)), cached=desk.cached)
    yield own
    try:
        for run_id in own.ids:
            await check_run(own.client, run_id)
    finally:
        for run_id in own.ids:
            await terminate_if_open(client, run_id)
        await own.close_all()


async def waiting_clerk(desk: Desk, **options: Any) -> RunHandle:
    model = ScriptedModel([call("refund", "c1", order=17)], say("Done."))
    await desk.open(CLERK, model=model)
    handle = await desk.start(CLERK, **options)
    await desk.until_status(handle, "waiting")
    return handle


async def check_survives_junk(desk: Desk, sender: Client) -> None:
    """Send a waiting run payloads of all kinds in all ways, and let it finish."""
    handle = await waiting_clerk(desk)
    workflow = sender.get_workflow_handle(handle.id)
    for seed, name in enumerate(["decide", "nested", "hello", "cancel"]):
        for payload in junk(seed, count=20):
            if name != "cancel" or not cancels(payload):
                await workflow.signal(name, payload)
    for payload in junk(seed=9, count=10):
        await workflow.signal("decide", args=[payload, payload])
    await workflow.signal("over")
    state = await desk.until(
        handle, lambda state: bool(state.ignored) and state.ignored[-1].what == "signal over"
    )
    assert state.status == "waiting"
    for name in ("decide", "send"):
        for payload in junk(seed=11, count=15):
            with pytest.raises(WorkflowUpdateFailedError):
                await workflow.execute_update(name, payload)  # pyright: ignore[reportUnknownMemberType]  the SDK's own annotation
    await handle.approve("a1")
    assert (await desk.result(handle)).final_output == "Done."
    assert not failed_tasks(list((await workflow.fetch_history()).events))


def cancels(payload: RawValue) -> bool:
    """Whether this may be a readable wish to cancel."""
    return payload.payload.metadata["encoding"] in {b"json/plain", b"binary/null"}


async def test_no_payload_fails_a_run_or_a_task(desk: Desk):
    await check_survives_junk(desk, desk.client)


async def test_no_payload_fails_a_run_that_is_encrypted(sealed: Desk, client: Client):
    await check_survives_junk(sealed, client)


async def test_a_signal_under_another_key_is_noted_and_an_update_refused(
    sealed: Desk, client: Client
):
    handle = await waiting_clerk(sealed)
    stranger = RunHandle(with_codec(client, Sealed(THEIRS)), handle.id)
    workflow = stranger.client.get_workflow_handle(handle.id)
    await workflow.signal("decide", {"request_id": "a1", "type": "approve"})
    state = await sealed.until(handle, lambda state: len(state.ignored) == 1)
    assert state.ignored[0].what == "signal decide"
    assert "another key or codec" in state.ignored[0].why
    with pytest.raises(UserError, match="another key or codec"):
        await RunHandle(with_codec(client, Sealed(THEIRS, OURS)), handle.id).send("Hello")
    await handle.approve("a1")
    assert (await sealed.result(handle)).final_output == "Done."


@pytest.mark.smoke
@pytest.mark.parametrize("seed", range(2))
async def test_a_start_that_nobody_can_read_is_a_typed_failure(desk: Desk, seed: int):
    await desk.open(CLERK)
    workflow = await desk.start_raw(*junk(seed, count=1))
    with pytest.raises(UserError):
        await desk.result(RunHandle(desk.client, workflow.id))
    assert not failed_tasks(list((await workflow.fetch_history()).events))


async def test_a_start_with_arguments_that_nobody_can_read_is_one_too(desk: Desk):
    await desk.open(CLERK)
    workflow = await desk.start_raw(*junk(seed=5, count=2))
    handle = RunHandle(desk.client, workflow.id)
    with pytest.raises(UserError, match="input is unreadable"):
        await desk.result(handle)
    failure = (await handle.state()).failure
    assert failure is not None
    assert failure.code == "user_error"
    assert not failed_tasks(list((await workflow.fetch_history()).events))
    desk.ids.clear()  # the workflow was never made, so it has no state to compare


async def test_a_start_under_another_key_is_a_typed_failure(sealed: Desk, client: Client):
    await sealed.open(CLERK)
    stranger = Desk(with_codec(client, Sealed(THEIRS)), cached=sealed.cached)
    workflow = await stranger.client.start_workflow(
        "AgentRun", {"agent": "Clerk", "input": "Hi"}, id=sealed.new_id(), task_queue=sealed.queue
    )
    with pytest.raises(UserError, match="another key or codec"):
        await sealed.result(RunHandle(sealed.client, workflow.id))


@pytest.mark.smoke
async def test_a_result_under_another_key_is_the_failure_of_its_effect(
    sealed: Desk, client: Client
):
    @function_tool(failure_error_function=None)
    async def look_up() -> str:
        return "found"

    agent = Agent[Any](name="Clerk", tools=[look_up])
    model = ScriptedModel([call("look_up", "c1")], say("Done."))
    both = with_codec(client, Sealed(THEIRS, OURS))
    deps = WorkerDeps(registry=Registry([agent]), models=model)
    workflows = Worker(
        sealed.client,
        task_queue=sealed.queue,
        plugins=[OutlastPlugin([agent], model_provider=model)],
        no_remote_activities=True,
    )
    effects = Worker(both, task_queue=sealed.queue, activities=EffectActivities(deps).all)
    async with workflows, effects:
        handle = await sealed.start(agent)
        with pytest.raises(AgentsException, match="another key or codec"):
            await sealed.result(handle)
    await sealed.open(agent)


async def test_a_key_service_that_is_away_loses_nothing(desk: Desk, client: Client):
    codec = Unsteady(OURS)
    own = Desk(with_codec(client, codec), cached=desk.cached)
    try:
        handle = await waiting_clerk(own)
        codec.has_recovered.clear()
        codec.failures = [ConnectionError("away"), TimeoutError("late"), OSError("no route")]
        await own.workflow(handle).signal("decide", {"request_id": "a1", "type": "approve"})
        async with asyncio.timeout(PATIENCE_SECONDS):
            await codec.has_recovered.wait()
        state = (await own.result(handle)).snapshot
        assert not state.ignored
        assert state.final_output == "Done."
    finally:
        await own.close_all()
