"""The end of an event loop: `asyncio.run` cancels every task at once, but a worker must stop in order.

A worker whose tasks are cancelled in the middle leaves the engine's core waiting for what they had
begun, and the process then hangs where it should end. So a worker's tasks are kept out of it: one
task is cancelled in their place, and stops the worker. What users' code leaves behind, such as a task
that a tool began, is cancelled after that.

Owns: telling the tasks apart, and noticing the end. Must not know: workers.
"""

import asyncio
import contextvars
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from weakref import WeakSet

_kept_out = contextvars.ContextVar("outlast_kept_out", default=False)


def kept_out() -> contextvars.Context:
    """Return an empty context, whose tasks `asyncio.run` does not cancel when the loop ends.

    That is so for tasks that are started in this context, and for those that these start. They
    can be cancelled as any other; only nobody finds them with `asyncio.all_tasks()`.
    """
    loop = asyncio.get_running_loop()
    before = loop.get_task_factory()
    if not isinstance(before, _Factory):
        loop.set_task_factory(_Factory(before))
    context = contextvars.Context()
    context.run(_kept_out.set, True)  # noqa: FBT003  it is its value
    return context


def kept_tasks() -> "set[asyncio.Task[Any]]":
    """Return the tasks of the running loop that are kept out and have not ended."""
    factory = asyncio.get_running_loop().get_task_factory()
    if not isinstance(factory, _Factory):
        return set()
    return {task for task in factory.kept if not task.done()}


def keep_out_no_more() -> None:
    """Make ordinary tasks of those that are kept out: the end of the loop cancels them."""
    factory = asyncio.get_running_loop().get_task_factory()
    for task in kept_tasks():
        # Meant for those who make tasks: see "Extending" in the manual of asyncio.
        asyncio._register_task(task)  # noqa: SLF001
        if isinstance(factory, _Factory):
            factory.kept.discard(task)


def at_loop_end(close: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Call something when the running loop ends, or is closed.

    Args:
        close: what is called, while the loop still works. The tasks that it leaves kept out are
            cancelled then, as others are at the end of a loop.

    Returns:
        Call it to forget about it.
    """
    loop = asyncio.get_running_loop()
    forgotten = loop.create_future()

    async def wait() -> None:
        try:
            await forgotten
        except asyncio.CancelledError:  # it is the end, and waits for this task
            try:
                await close()
            finally:
                await _cancel(kept_tasks())

    task = asyncio.create_task(wait(), context=contextvars.Context())
    close_as_before = _before_closing(loop, task, forgotten)
    # A loop that is left without any end needs no complaint.
    quiet: Any = task
    quiet._log_destroy_pending = False  # noqa: SLF001  as asyncio does it for its own

    def forget() -> None:
        if not task.done() and not forgotten.done():
            forgotten.set_result(None)
        close_as_before()

    return forget


async def _cancel(tasks: "set[asyncio.Task[Any]]") -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


def _before_closing(
    loop: asyncio.AbstractEventLoop, task: "asyncio.Task[None]", forgotten: "asyncio.Future[None]"
) -> Callable[[], None]:
    """Let `loop.close()` be an end as well, as after `loop.run_until_complete`.

    Otherwise what is kept out would go on in other threads, and complain to a closed loop.

    Returns:
        Call it to close the loop as before.
    """
    close_before = loop.close

    def close() -> None:
        is_open = not (task.done() or forgotten.done() or loop.is_running() or loop.is_closed())
        if is_open and not sys.is_finalizing():
            task.cancel()
            loop.run_until_complete(asyncio.wait([task]))
        close_before()

    def as_before() -> None:
        if vars(loop).get("close") is close:
            loop.close = close_before

    try:
        loop.close = close
    except AttributeError:  # a loop of another make may not let itself be changed
        return _nothing
    return as_before


def _nothing() -> None:
    pass


class _Factory:
    """Makes tasks as the loop did before, and hides those that are kept out."""

    def __init__(self, before: Any) -> None:
        self._make = before or _make_task
        self.kept: WeakSet[asyncio.Task[Any]] = WeakSet()

    def __call__(self, loop: asyncio.AbstractEventLoop, coro: Any, /, **options: Any) -> Any:
        task = self._make(loop, coro, **options)
        context: contextvars.Context | None = options.get("context")
        if _kept_out.get() if context is None else context.get(_kept_out, False):
            # Meant for those who make tasks: see "Extending" in the manual of asyncio.
            asyncio._unregister_task(task)  # noqa: SLF001
            self.kept.add(task)
        return task


def _make_task(
    loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **options: Any
) -> "asyncio.Task[Any]":
    return asyncio.Task(coro, loop=loop, **options)
