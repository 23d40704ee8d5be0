"""Which computer serves which run."""

import asyncio
import logging
from typing import Any

import pytest

from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import UserError
from outlast.agents.machine.computers import (
    KEPT_FOR,
    ComputerProvider,
    KeptComputers,
    dispose_resolved_computers,
)
from tests.unit.agents.screens import Screen

LONG = KEPT_FOR.total_seconds() + 1


def context(run_id: str = "run-1") -> ToolContext[Any]:
    return ToolContext[Any](
        context=None,
        tool_name="computer",
        tool_call_id="c1",
        tool_arguments="",
        agent=None,
        run_id=run_id,
    )


async def lent(kept: KeptComputers, run_id: str = "run-1") -> Any:
    async with kept.lent(context(run_id)) as computer:
        return computer


class Makers:
    """Makes computers, and takes them back."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.disposed: list[str] = []
        self.now = 0.0

    def create(self, *, run_context: Any) -> Screen:
        self.made.append(run_context.run_id)
        return Screen()

    async def dispose(self, *, run_context: Any, computer: Any) -> None:
        assert isinstance(computer, Screen)
        self.disposed.append(run_context.run_id)

    def clock(self) -> float:
        return self.now


async def test_a_computer_is_every_runs() -> None:
    screen = Screen()
    kept = KeptComputers(screen)
    assert await lent(kept) is await lent(kept, "run-2") is screen


@pytest.mark.parametrize("provided", [False, True])
async def test_each_run_has_its_own_where_something_makes_them(*, provided: bool) -> None:
    makers = Makers()
    provider = ComputerProvider(makers.create, makers.dispose)
    kept = KeptComputers(provider if provided else makers.create)
    one, again, other = await lent(kept), await lent(kept), await lent(kept, "run-2")
    assert one is again
    assert one is not other
    assert makers.made == ["run-1", "run-2"]


async def test_calls_of_one_computer_wait_for_each_other() -> None:
    kept, order = KeptComputers(Screen()), list[str]()

    async def use(name: str) -> None:
        async with kept.lent(context(name)):
            order.append(f"{name} begins")
            await asyncio.sleep(0)
            order.append(f"{name} ends")

    await asyncio.gather(use("one"), use("two"))
    assert order == ["one begins", "one ends", "two begins", "two ends"]


async def test_what_nobody_uses_is_given_up() -> None:
    makers = Makers()
    kept = KeptComputers(ComputerProvider(makers.create, makers.dispose), clock=makers.clock)
    await lent(kept, "run-1")
    makers.now += LONG / 2
    await lent(kept, "run-2")
    makers.now += LONG / 2
    await lent(kept, "run-2")
    assert makers.disposed == ["run-1"]
    await lent(kept, "run-1")
    assert makers.made == ["run-1", "run-2", "run-1"]


async def test_what_is_in_use_is_kept() -> None:
    makers = Makers()
    kept = KeptComputers(ComputerProvider(makers.create, makers.dispose), clock=makers.clock)
    async with kept.lent(context("run-1")):
        makers.now += LONG
        await lent(kept, "run-2")
    assert makers.disposed == []


async def test_a_failing_disposal_is_told_to_the_operator(
    caplog: pytest.LogCaptureFixture,
) -> None:
    makers = Makers()

    def dispose(**_what: Any) -> None:
        raise OSError("stuck")

    kept = KeptComputers(ComputerProvider(makers.create, dispose), clock=makers.clock)
    await lent(kept)
    makers.now += LONG
    with caplog.at_level(logging.ERROR):
        await lent(kept, "run-2")
    assert "stuck" in caplog.text


async def test_only_computers_are_lent() -> None:
    def create(*, run_context: Any) -> str:
        return run_context.run_id

    with pytest.raises(UserError, match="made 'run-1', not a Computer"):
        await lent(KeptComputers(create))


async def test_one_that_could_not_be_made_is_made_by_the_next_call() -> None:
    failures = [OSError("no screen left")]

    def create(*, run_context: Any) -> Screen:
        del run_context
        if failures:
            raise failures.pop()
        return Screen()

    kept = KeptComputers(create)
    with pytest.raises(OSError, match="no screen left"):
        await lent(kept)
    assert isinstance(await lent(kept), Screen)


async def test_a_runs_computers_can_be_given_up_at_once() -> None:
    makers, others = Makers(), Makers()
    mine = KeptComputers(ComputerProvider(makers.create, makers.dispose))
    other = KeptComputers(ComputerProvider(others.create, others.dispose))
    await lent(mine, "run-1")
    await lent(mine, "run-2")
    await lent(other, "run-1")
    await dispose_resolved_computers(run_context=context("run-1"))
    await dispose_resolved_computers(run_context=context("run-1"))
    assert makers.disposed == others.disposed == ["run-1"]


async def test_a_shared_computer_is_never_given_up() -> None:
    screen = Screen()
    kept = KeptComputers(screen)
    await lent(kept)
    await dispose_resolved_computers(run_context=context())
    assert await lent(kept) is screen
