"""Worker Versioning: two versions of a deployment beside each other, and who carries which run."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from temporalio.api.enums.v1 import RoutingConfigUpdateState
from temporalio.api.workflowservice.v1 import (
    DescribeWorkerDeploymentRequest,
    SetWorkerDeploymentCurrentVersionRequest,
)
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.service import RPCError
from temporalio.worker import WorkerDeploymentConfig

from outlast.agents.agent import Agent
from outlast.agents.errors import RunCancelled
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.contract import names
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, say
from outlast.worker import AgentWorker
from tests.workflow.desk import PATIENCE_SECONDS, Desk, waits_for
from tests.workflow.laws import check_run, terminate_if_open
from tests.workflow.replies import last_user_text, outputs

PINNED, AUTO_UPGRADE = VersioningBehavior.PINNED, VersioningBehavior.AUTO_UPGRADE
BEHAVIORS = pytest.mark.parametrize("behavior", [PINNED, AUTO_UPGRADE], ids=["pinned", "upgraded"])
RUNS = 12
PROPAGATION_SECONDS = 10
BY_A_TOOL = {"found by 1", "found by 2", "tracked by 2"}


@function_tool
async def find(order: str) -> str:
    return f"found {order}"


@function_tool(needs_approval=True)
async def refund(order: str) -> str:
    return f"refunded {order}"


@function_tool
async def track(order: str) -> str:
    await asyncio.sleep(0.01)
    return f"tracked {order}"


OLD = Agent[Any](name="Helper", tools=[find, refund])
NEW = Agent[Any](name="Helper", tools=[track])
NEXT = {PINNED: NEW, AUTO_UPGRADE: Agent[Any](name="Helper", tools=[find, track])}
"""A pinned version may drop a tool. One that takes over open runs has to keep those of their calls."""


def model_of(version: str) -> ScriptedModel:
    """Call the version's own tool, and answer with its output and the version."""

    def reply(request: ModelRequest) -> Any:
        said = last_user_text(request)
        known = {"1": "find", "2": "track"}[version]
        call_id = f"c-{said.replace(' ', '-')}"
        done = outputs(request)
        if call_id in done:
            return say(f"{done[call_id]} by {version}")
        return [call("refund" if said.startswith("refund") else known, call_id, order=said)]

    return ScriptedModel(always=reply)


class Deployment:
    """A worker deployment on the desk's task queue."""

    def __init__(self, desk: Desk, behavior: VersioningBehavior) -> None:
        self.name = f"deployment-{desk.queue}"
        self._desk = desk
        self._behavior = behavior
        self._service = desk.client.workflow_service

    async def open(
        self, version: str, agent: Agent[Any] | None = None, model: ScriptedModel | None = None
    ) -> AgentWorker:
        """Start a worker of a version, as from a process of its own."""
        config = WorkerDeploymentConfig(
            version=WorkerDeploymentVersion(self.name, version),
            use_worker_versioning=True,
            default_versioning_behavior=self._behavior,
        )
        return await self._desk.open(
            agent or {"1": OLD, "2": NEW}[version],
            model=model or model_of(version),
            client=await Client.connect(self._desk.client.service_client.config.target_host),
            deployment_config=config,
        )

    async def choose(self, version: str) -> None:
        """Make a version the current one; task queues hear of it a little later."""
        request = SetWorkerDeploymentCurrentVersionRequest(
            namespace="default", deployment_name=self.name, build_id=version
        )
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await self._accepted(request):  # noqa: ASYNC110  it has to see it first
                await asyncio.sleep(0.05)

    async def promote(self, version: str) -> None:
        """Make a version the current one, and wait until every task queue has heard of it.

        The server sometimes reports for ever that it is still telling them, although it has
        (temporalio/temporal#11842), so the wait is limited.
        """
        await self.choose(version)
        look = DescribeWorkerDeploymentRequest(namespace="default", deployment_name=self.name)
        state = RoutingConfigUpdateState.ROUTING_CONFIG_UPDATE_STATE_IN_PROGRESS
        with suppress(TimeoutError):
            async with asyncio.timeout(PROPAGATION_SECONDS):
                while state != RoutingConfigUpdateState.ROUTING_CONFIG_UPDATE_STATE_COMPLETED:
                    await asyncio.sleep(0.05)
                    found = await self._service.describe_worker_deployment(look)
                    state = found.worker_deployment_info.routing_config_update_state

    async def _accepted(self, request: SetWorkerDeploymentCurrentVersionRequest) -> bool:
        try:
            await self._service.set_worker_deployment_current_version(request)
        except RPCError:
            return False
        return True

    async def version_of(self, handle: RunHandle) -> str:
        """Return the version that a run is at."""
        described = await self._desk.workflow(handle).describe()
        info = described.raw_description.workflow_execution_info.versioning_info
        return info.deployment_version.build_id


async def answer_to(desk: Desk, handle: RunHandle, said: str) -> str:
    """Say something, and return the answer."""
    async with desk.patience(handle):
        sent = await handle.send(said)
        return str((await sent.answer()).final_output)


@pytest.fixture
async def busy(client: Client) -> AsyncIterator[Desk]:
    """A desk for many runs at once, whose workers have a cache.

    Without one, the SDK drops a run's first task for another run's, and the server takes ten
    seconds to offer it again.
    """
    desk = Desk(client, cached=True)
    yield desk
    try:
        for run_id in desk.ids:
            await check_run(client, run_id)
    finally:
        for run_id in desk.ids:
            await terminate_if_open(client, run_id)
        await desk.close_all()


@BEHAVIORS
async def test_no_call_comes_to_a_version_that_lacks_its_tool(
    busy: Desk, behavior: VersioningBehavior
):
    deployment = Deployment(busy, behavior)
    await deployment.open("1")
    await deployment.promote("1")
    talks = await asyncio.gather(
        *(busy.start("Helper", f"a {n}", keep_open=True) for n in range(RUNS))
    )
    for handle in talks:
        await busy.until_status(handle, "idle")
    await deployment.open("2", NEXT[behavior])
    await deployment.choose("2")
    rounds = 0
    said = {"new"}
    while said != {"tracked by 2"}:  # under load all the while, until all has changed
        rounds += 1
        answers = await asyncio.gather(
            *(busy.run("Helper", f"b {n} {rounds}") for n in range(RUNS)),
            *(answer_to(busy, one, f"c {n} {rounds}") for n, one in enumerate(talks)),
        )
        texts = [one if isinstance(one, str) else str(one.final_output) for one in answers]
        said = {" ".join([text.split()[0], *text.split()[-2:]]) for text in texts}
        assert said <= BY_A_TOOL
    assert {await deployment.version_of(one) for one in talks} == {"2"}


async def test_without_versions_a_call_waits_for_a_worker_that_has_its_tool(busy: Desk):
    address = busy.client.service_client.config.target_host
    for agent, version in ((OLD, "1"), (NEXT[AUTO_UPGRADE], "2")):
        await busy.open(
            agent,
            model=model_of(version),
            client=await Client.connect(address),
            disable_eager_activity_execution=True,  # a call may come to either
        )
    # A call that comes to the wrong one again and again is tried every 15 seconds.
    async with asyncio.timeout(4 * PATIENCE_SECONDS):
        handles = [await busy.start("Helper", f"e {n}") for n in range(RUNS)]
        results = await asyncio.gather(*(handle.result() for handle in handles))
    done = {str(one.final_output).split(" e ")[0] for one in results}
    assert done <= {"found", "tracked"}, "whichever version planned, executed and answered"


@BEHAVIORS
async def test_a_conversation_at_rest_takes_the_new_version_with_its_next_message(
    desk: Desk, behavior: VersioningBehavior
):
    deployment = Deployment(desk, behavior)
    await deployment.open("1")
    await deployment.promote("1")
    handle = await desk.start("Helper", "a", keep_open=True)
    await desk.until_status(handle, "idle")
    await deployment.open("2")
    await deployment.promote("2")
    assert await deployment.version_of(handle) == "1", "nothing happens while it rests"
    assert await answer_to(desk, handle, "b") == "tracked b by 2"
    assert await answer_to(desk, handle, "c") == "tracked c by 2"
    histories = await desk.all_events(handle)
    assert len(histories) == (2 if behavior == PINNED else 1), "one continue-as-new for the change"


async def test_a_pinned_run_ends_its_question_where_it_began_and_then_changes(desk: Desk):
    deployment = Deployment(desk, PINNED)
    await deployment.open("1")
    await deployment.promote("1")
    handle = await desk.start("Helper", "refund a", keep_open=True)
    state = await desk.until(handle, waits_for(1))
    await deployment.open("2")
    await deployment.promote("2")
    await handle.approve(state.pending_approvals[0].id, by="ann")
    state = await desk.until(handle, lambda state: len(state.answers) == 1)
    assert state.final_output == "refunded refund a by 1"
    assert await answer_to(desk, handle, "c") == "tracked c by 2"
    assert await deployment.version_of(handle) == "2"


async def test_a_history_that_grew_too_long_goes_on_in_the_new_version(desk: Desk):
    deployment = Deployment(desk, PINNED)
    door = asyncio.Event()

    @function_tool
    async def wait(order: str) -> str:
        await door.wait()
        return f"waited for {order}"

    old = ScriptedModel(
        [call("wait", "c1", order="a")], *([call("find", f"c{n}", order="a")] for n in range(2, 40))
    )
    helper = Agent[Any](name="Helper", tools=[find, wait])
    await deployment.open("1", helper, old)
    await deployment.promote("1")
    handle = await desk.start_short("Helper", "a", max_turns=40)
    await desk.until(handle, lambda state: state.phase == "acting")
    await deployment.open("2")
    await deployment.promote("2")
    door.set()
    result = await desk.result(handle)
    assert result.final_output == "tracked a by 2"
    assert 1 < old.calls < 10, "it was carried by the old version up to the end of its history"


async def test_a_cancel_that_comes_with_the_message_that_changes_the_version_counts(desk: Desk):
    deployment = Deployment(desk, PINNED)
    old = await deployment.open("1")
    await deployment.promote("1")
    handle = await desk.start("Helper", "a", keep_open=True)
    await desk.until_status(handle, "idle")
    await deployment.open("2")
    await deployment.promote("2")
    await desk.close(old)
    workflow = desk.workflow(handle)
    await workflow.signal(names.SIGNAL_CANCEL, {"mode": "nonsense"})
    await workflow.cancel()
    await deployment.open("1")
    with pytest.raises(RunCancelled):
        await desk.result(handle)


@pytest.mark.smoke
async def test_runs_are_pinned_where_nothing_says_how_they_are_versioned(desk: Desk):
    deployment = Deployment(desk, VersioningBehavior.UNSPECIFIED)
    await deployment.open("1")
    await deployment.promote("1")
    handle = await desk.start("Helper", "a")
    assert (await desk.result(handle)).final_output == "found a by 1"
    described = await desk.workflow(handle).describe()
    info = described.raw_description.workflow_execution_info.versioning_info
    assert VersioningBehavior(info.behavior) == PINNED
