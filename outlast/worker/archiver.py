"""A worker's regular look for closed histories that are to be archived."""

import asyncio
import random

from temporalio.client import Client

from outlast.archive import Archive, Sweep, Swept
from outlast.archive.expiry import expire
from outlast.temporal.repeated import RepeatedWork


async def archive_histories(client: Client, archive: Archive, task_queue: str) -> None:
    """Archive the closed histories of a task queue, until cancelled.

    The workers of a queue take turns: whoever looks first does the work. A failure is logged once,
    and tried again at the next look.
    """
    sweep = Sweep(client, archive, task_queue)
    histories = f"Histories of the task queue {task_queue!r}"
    looks = RepeatedWork(
        fails=f"{histories} are not archived",
        works=f"{histories} are archived again.",
        then=f"It is tried again every {int(archive.every.total_seconds())} s; runs are not affected. "
        "`outlast archive status` says what is missing.",
        crashes=f"Histories are not archived in {archive.store!r}",
    )
    while True:
        with looks.attempt():
            swept = await sweep.look()
            if swept is not None:
                looks.problem = _problem_of(swept)
                await expire(client, archive)
        # Workers that began together do not look together.
        await asyncio.sleep(archive.every.total_seconds() * random.uniform(0.8, 1.2))  # noqa: S311


def _problem_of(swept: Swept) -> str:
    if not swept.failed:
        return ""
    first = min(swept.failed, key=lambda one: one.closed_ms)
    return f"{len(swept.failed)} failed, first that of {first.run_id}: {first.why}"
