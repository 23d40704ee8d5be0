"""Tasks that do not outlive the block which needs them."""

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


@contextmanager
def meanwhile(work: Coroutine[Any, Any, T]) -> Generator[asyncio.Task[T]]:
    """Do work in a task of its own while the block runs; what is left of it is cancelled."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
