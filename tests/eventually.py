"""Waiting in tests for what nothing announces, such as the end of another process."""

import asyncio
from collections.abc import Callable


async def eventually(condition: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  nothing announces it
            await asyncio.sleep(0.01)
