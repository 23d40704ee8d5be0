"""Carries out `KeepLineOpen`: the activity stays open until the process with the line ends it."""

from temporalio import activity

from outlast.activities.attempt import Attempt
from outlast.activities.worker_deps import WorkerDeps
from outlast.contract.effects import EffectRequest
from outlast.loop.effects import KeepLineOpen


async def keep_line_open(
    worker: WorkerDeps, request: EffectRequest[KeepLineOpen], attempt: Attempt
) -> None:
    """Leave the activity open: the line heartbeats and completes it from its own process.

    If the line's heartbeats stop, Temporal times the activity out, and a worker makes the model
    calls of the run again.
    """
    del worker, request, attempt
    activity.raise_complete_async()
