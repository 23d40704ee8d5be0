"""Stops workers in order at the end of an event loop.

`asyncio.run` cancels all tasks at once. If a worker's tasks are cancelled midway, the engine's core
waits for their results forever and the process hangs. So these tasks are hidden from `asyncio.run`.
One visible task is cancelled instead and stops the worker. Tasks that users' code leaves behind are
cancelled after that.
"""

import asyncio
import contextvars
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from weakref import WeakSet

_kept_out = contextvars.ContextVar("outlast_kept_out", default=False)


def kept_out() -> contextvars.Context:
    """Return an empty context for tasks that survive the cancellation at the loop's end.

    Tasks started in this context are hidden, and so are the tasks that these start. They can be
    cancelled as usual, but `asyncio.all_tasks()` does not list them.
    """
    loop = asyncio.get_running_loop()
    before = loop.get_task_factory()
    if not isinstance(before, _Factory):
        loop.set_task_factory(_Factory(before))
    context = contextvars.Context()
    context.run(_kept_out.set, True)  # noqa: FBT003  it is its value
    return context


def kept_tasks() -> "set[asyncio.Task[Any]]":
    """Return the running loop's hidden tasks that are not done."""
    factory = asyncio.get_running_loop().get_task_factory()
    if not isinstance(factory, _Factory):
        return set()
    return {task for task in factory.kept if not task.done()}


def keep_out_no_more() -> None:
    """Make the hidden tasks ordinary ones, which the end of the loop cancels."""
    factory = asyncio.get_running_loop().get_task_factory()
    for task in kept_tasks():
        # Public for task implementers: see "Extending" in asyncio's documentation.
        asyncio._register_task(task)  # noqa: SLF001
        if isinstance(factory, _Factory):
            factory.kept.discard(task)


def at_loop_end(close: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Call a function when the running loop ends or is closed.

    Tasks that are still hidden after the call of `close`, while the loop still works, are cancelled.

    Returns:
        A function that cancels the registration.
    """
    loop = asyncio.get_running_loop()
    forgotten = loop.create_future()

    async def wait() -> None:
        try:
            await forgotten
        except asyncio.CancelledError:  # the loop is ending and waits for this task
            try:
                await close()
            finally:
                await _cancel(kept_tasks())

    task = asyncio.create_task(wait(), context=contextvars.Context())
    close_as_before = _before_closing(loop, task, forgotten)
    # No warning for a loop that is dropped without being closed.
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
    """Make `loop.close()` count as the loop's end, for `run_until_complete`.

    Otherwise hidden work would continue in other threads and report to a closed loop.

    Returns:
        A function that restores the original `loop.close`.
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
    except AttributeError:  # other loop implementations may be read-only
        return _do_nothing
    return as_before


def _do_nothing() -> None:
    pass


class _Factory:
    """Creates tasks as the previous factory did, and hides kept-out tasks."""

    def __init__(self, before: Any) -> None:
        self._make = before or _make_task
        self.kept: WeakSet[asyncio.Task[Any]] = WeakSet()

    def __call__(self, loop: asyncio.AbstractEventLoop, coro: Any, /, **options: Any) -> Any:
        task = self._make(loop, coro, **options)
        context: contextvars.Context | None = options.get("context")
        if _kept_out.get() if context is None else context.get(_kept_out, False):
            # Public for task implementers: see "Extending" in asyncio's documentation.
            asyncio._unregister_task(task)  # noqa: SLF001
            self.kept.add(task)
        return task


def _make_task(
    loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **options: Any
) -> "asyncio.Task[Any]":
    return asyncio.Task(coro, loop=loop, **options)
