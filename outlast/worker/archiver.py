"""A worker's regular look for closed histories that are to be archived."""

import asyncio
import logging
import random
from typing import Final

from temporalio.client import Client
from temporalio.service import RPCError

from outlast.agents.errors import AgentsException
from outlast.archive import Archive, Sweep, Swept
from outlast.archive.expiry import expire

logger: Final = logging.getLogger("outlast")


async def archive_histories(client: Client, archive: Archive, task_queue: str) -> None:
    """Archive the closed histories of a task queue, until cancelled.

    The workers of a queue take turns: whoever looks first does the work. A failure is logged once,
    and tried again at the next look.
    """
    sweep, said = Sweep(client, archive, task_queue), ""
    while True:
        problem = ""
        try:
            swept = await sweep.look()
            if swept is not None:
                problem = _problem_of(swept)
                await expire(client, archive)
        except (AgentsException, RPCError) as error:
            problem = error.message
        except Exception as error:
            logger.exception("Histories are not archived in %r", archive.store)
            problem = said = str(error)
        if problem and problem != said:
            logger.warning(
                "Histories of the task queue %r are not archived: %s It is tried again every %d s; "
                "runs are not affected. `outlast archive status` says what is missing.",
                task_queue,
                problem,
                archive.every.total_seconds(),
            )
        elif said and not problem:
            logger.warning("Histories of the task queue %r are archived again.", task_queue)
        said = problem
        # Workers that began together do not look together.
        await asyncio.sleep(archive.every.total_seconds() * random.uniform(0.8, 1.2))  # noqa: S311


def _problem_of(swept: Swept) -> str:
    if not swept.failed:
        return ""
    first = min(swept.failed, key=lambda one: one.closed_ms)
    return f"{len(swept.failed)} failed, first that of {first.run_id}: {first.why}"
