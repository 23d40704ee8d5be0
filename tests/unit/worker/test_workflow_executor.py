"""Where the steps of workflows run."""

import asyncio
import threading

import pytest
from temporalio.bridge.proto.workflow_activation import WorkflowActivation

from outlast.worker.workflow_executor import WorkflowExecutor

STEP = WorkflowActivation(run_id="r1")
REPLAY = WorkflowActivation(run_id="r1", is_replaying=True)


def eviction() -> WorkflowActivation:
    activation = WorkflowActivation(run_id="r1")
    activation.jobs.add().remove_from_cache.SetInParent()
    return activation


@pytest.mark.parametrize(
    ("activation", "in_thread"),
    [(STEP, False), (REPLAY, True), (eviction(), True)],
    ids=["step", "replay", "eviction"],
)
async def test_only_a_new_step_runs_on_the_event_loop(
    activation: WorkflowActivation, *, in_thread: bool
) -> None:
    def run(_activation: WorkflowActivation) -> int:
        return threading.get_ident()

    with WorkflowExecutor(max_workers=1) as executor:
        ran = await asyncio.get_running_loop().run_in_executor(executor, run, activation)
    assert (ran != threading.get_ident()) is in_thread


async def test_a_step_runs_in_no_task_and_the_loop_goes_on() -> None:
    loop = asyncio.get_running_loop()

    def run(_activation: WorkflowActivation) -> object:
        task = asyncio.current_task(loop)
        asyncio._set_running_loop(None)
        return task

    with WorkflowExecutor(max_workers=1) as executor:
        assert await loop.run_in_executor(executor, run, STEP) is None
    assert asyncio.get_running_loop() is loop
    await asyncio.sleep(0)


async def test_the_error_of_a_step_reaches_the_caller() -> None:
    def run(_activation: WorkflowActivation) -> None:
        raise LookupError("a defect")

    with WorkflowExecutor(max_workers=1) as executor:
        loop = asyncio.get_running_loop()
        with pytest.raises(LookupError, match="a defect"):
            await loop.run_in_executor(executor, run, STEP)
