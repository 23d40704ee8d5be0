"""Runs the steps of workflows on the worker's own event loop.

The SDK runs each step in a thread, to detect one that never ends. Our workflow's steps take about a
millisecond, and two changes of thread cost nearly as much. Replays, which take longer, and
evictions stay in threads, so that the event loop goes on meanwhile.
"""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from temporalio.bridge.proto.workflow_activation import WorkflowActivation


class WorkflowExecutor(ThreadPoolExecutor):
    """Runs a workflow's step as the next callback of the event loop, or in a thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function; called from the event loop, as the SDK does."""
        activation = args[0] if len(args) == 1 else None
        if not isinstance(activation, WorkflowActivation):
            return super().submit(fn, *args, **kwargs)
        if not is_step(activation):
            return super().submit(fn, *args, **kwargs)
        future: Future[Any] = Future()
        loop = asyncio.get_running_loop()
        # Not in the caller's task: newer versions of Python refuse a task within a task.
        loop.call_soon(_run, loop, future, fn, activation, context=contextvars.Context())
        return future


def is_step(activation: WorkflowActivation) -> bool:
    """Whether an activation is a new step: neither a replay nor the end of a cached workflow."""
    return not activation.is_replaying and not any(
        job.HasField("remove_from_cache") for job in activation.jobs
    )


def _run(
    loop: asyncio.AbstractEventLoop,
    future: Future[Any],
    function: Callable[[WorkflowActivation], Any],
    activation: WorkflowActivation,
) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function(activation)
    except BaseException as error:  # noqa: BLE001  the SDK handles it where it waits
        future.set_exception(error)
    else:
        future.set_result(result)
    finally:
        asyncio._set_running_loop(loop)  # noqa: SLF001  the workflow's own loop unset it
