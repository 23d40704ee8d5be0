"""Work beside a block ends with it, however the block ends."""

import asyncio

import pytest

from outlast.edges.tasks import meanwhile


async def test_work_is_done_beside_the_block() -> None:
    async def work() -> str:
        return "done"

    with meanwhile(work()) as task:
        assert await task == "done"


@pytest.mark.parametrize("fails", [False, True])
async def test_what_is_left_is_cancelled_with_the_block(fails: bool) -> None:
    began = asyncio.Event()

    async def work() -> None:
        began.set()
        await asyncio.Event().wait()

    async def block() -> asyncio.Task[None]:
        with meanwhile(work()) as task:
            await began.wait()
            if fails:
                raise KeyError(task)
            return task

    try:
        task = await block()
    except KeyError as error:
        task = error.args[0]
    assert (await asyncio.gather(task, return_exceptions=True))[0].__class__ is (
        asyncio.CancelledError
    )
