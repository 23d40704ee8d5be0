"""Reads many runs, a few at a time."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

ListedT = TypeVar("ListedT")
FoundT = TypeVar("FoundT")

AT_ONCE: Final = 8


async def read_each(
    listed: Iterable[ListedT], read: Callable[[ListedT], Awaitable[FoundT]]
) -> list[FoundT]:
    """Read the run of each thing that is listed; the results are in its order."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def read_in_turn(one: ListedT) -> FoundT:
        async with turn:
            return await read(one)

    return await asyncio.gather(*map(read_in_turn, listed))
