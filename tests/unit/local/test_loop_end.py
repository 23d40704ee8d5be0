"""The end of a loop: what is kept out of it goes on until it is stopped in order."""

import asyncio
import gc
from typing import Any

from outlast.local.loop_end import at_loop_end, keep_out_no_more, kept_out, kept_tasks


def test_what_is_kept_out_lives_until_it_is_closed_at_the_end() -> None:
    log: list[str] = []

    async def inner(stop: asyncio.Event) -> None:
        try:
            await stop.wait()
            log.append("stopped in order")
        except asyncio.CancelledError:
            log.append("cancelled")
            raise

    async def begin(stop: asyncio.Event) -> "asyncio.Task[None]":
        return asyncio.create_task(inner(stop))

    async def main() -> None:
        stop = asyncio.Event()
        kept = await asyncio.create_task(begin(stop), context=kept_out())
        other = asyncio.create_task(inner(asyncio.Event()))
        assert other in asyncio.all_tasks()
        assert kept not in asyncio.all_tasks()

        async def close() -> None:
            stop.set()
            await kept

        at_loop_end(close)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert sorted(log) == ["cancelled", "stopped in order"]


def test_what_users_code_left_behind_is_cancelled_after_the_end_in_order() -> None:
    log: list[str] = []

    async def left_behind() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            log.append("cancelled")
            raise

    async def tool() -> "asyncio.Task[None]":
        return asyncio.create_task(left_behind())

    async def main() -> None:
        assert kept_tasks() == set()
        task = await asyncio.create_task(tool(), context=kept_out())
        assert kept_tasks() == {task}

        async def close() -> None:
            await asyncio.sleep(0)
            log.append("closed")

        at_loop_end(close)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert log == ["closed", "cancelled"]


def test_what_is_kept_out_can_be_cancelled_as_any_other() -> None:
    async def main() -> bool:
        task = asyncio.create_task(asyncio.sleep(60), context=kept_out())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(main())


def test_what_is_forgotten_is_not_called() -> None:
    called: list[str] = []

    async def close() -> None:
        called.append("close")

    async def main() -> None:
        forget = at_loop_end(close)
        await asyncio.sleep(0)
        forget()
        forget()
        await asyncio.sleep(0)

    asyncio.run(main())
    assert called == []


def test_closing_a_loop_is_an_end_too() -> None:
    told: list[Any] = []

    async def close() -> None:
        await asyncio.sleep(0)
        told.append("closed")

    async def work() -> None:
        at_loop_end(close)
        at_loop_end(close)()  # is forgotten
        await asyncio.sleep(0)

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _loop, context: told.append(context))
    loop.run_until_complete(work())
    loop.close()
    loop.close()
    assert told == ["closed"]
    assert loop.is_closed()


def test_a_loop_that_is_left_without_its_end_says_nothing() -> None:
    told: list[Any] = []

    async def close() -> None:
        told.append("closed")

    async def work() -> None:
        at_loop_end(close)
        await asyncio.sleep(0)

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _loop, context: told.append(context))
    loop.run_until_complete(work())
    type(loop).close(loop)  # past what would end it in order
    del loop
    gc.collect()
    assert told == []


def test_the_tasks_of_a_loop_are_made_as_before() -> None:
    made: list[Any] = []

    def factory(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        task = asyncio.Task(coro, loop=loop, **options)
        made.append(task)
        return task

    async def main() -> bool:
        asyncio.get_running_loop().set_task_factory(factory)
        context = kept_out()
        kept_out()  # a second time does not wrap it twice
        task = asyncio.create_task(asyncio.sleep(0), name="mine", context=context)
        await task
        return made == [task] and task.get_name() == "mine"

    assert asyncio.run(main())


def test_what_is_kept_out_no_more_is_cancelled_as_any_other_task() -> None:
    log: list[str] = []

    async def left_behind() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            log.append("cancelled")
            raise

    async def main() -> None:
        task = asyncio.create_task(left_behind(), context=kept_out())
        keep_out_no_more()
        assert kept_tasks() == set()
        assert task in asyncio.all_tasks()
        await asyncio.sleep(0)

    asyncio.run(main())
    assert log == ["cancelled"]


def test_a_loop_that_is_used_often_is_closed_as_before() -> None:
    loop = asyncio.new_event_loop()
    before = loop.close

    async def nothing() -> None:
        pass

    async def use() -> None:
        at_loop_end(nothing)()

    for _ in range(3):
        loop.run_until_complete(use())
    assert loop.close == before
    loop.close()
