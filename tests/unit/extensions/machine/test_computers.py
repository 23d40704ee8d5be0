"""Which computer serves which run."""

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import UserError
from outlast.agents.registry import Registry
from outlast.extensions.machine.computer_tool import ComputerTool
from outlast.extensions.machine.computers import (
    ComputerProvider,
    RunComputers,
    dispose_resolved_computers,
)
from tests.unit.extensions.machine.screens import Screen

SHORT = timedelta(milliseconds=20)


def context(run_id: str = "run-1", run_key: str = "") -> ToolContext[Any]:
    return ToolContext[Any](
        context=None,
        tool_name="computer",
        tool_call_id="c1",
        tool_arguments="",
        agent=None,
        run_id=run_id,
        run_key=run_key,
    )


async def lent(kept: RunComputers, run_id: str = "run-1") -> Any:
    async with kept.borrow(context(run_id)) as computer:
        return computer


class Makers:
    """Makes computers, and takes them back."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.disposed: list[str] = []
        self.has_disposed = asyncio.Event()

    def create(self, *, run_context: Any) -> Screen:
        self.made.append(run_context.run_id)
        return Screen()

    async def dispose(self, *, run_context: Any, computer: Any) -> None:
        assert isinstance(computer, Screen)
        self.disposed.append(run_context.run_id)
        self.has_disposed.set()


async def test_a_computer_is_every_runs() -> None:
    screen = Screen()
    kept = RunComputers(screen)
    assert await lent(kept) is await lent(kept, "run-2") is screen


@pytest.mark.parametrize("provided", [False, True])
async def test_each_run_has_its_own_where_something_makes_them(*, provided: bool) -> None:
    makers = Makers()
    provider = ComputerProvider(makers.create, makers.dispose)
    kept = RunComputers(provider if provided else makers.create)
    one, again, other = await lent(kept), await lent(kept), await lent(kept, "run-2")
    assert one is again
    assert one is not other
    assert makers.made == ["run-1", "run-2"]


async def test_a_run_that_uses_an_id_again_has_a_computer_of_its_own() -> None:
    makers = Makers()
    kept = RunComputers(ComputerProvider(makers.create, makers.dispose))
    contexts = [context("run-1", key) for key in ("run-1@first", "run-1@later", "run-1@first")]
    found: list[Any] = []
    for one in contexts:
        async with kept.borrow(one) as computer:
            found.append(computer)
    assert found[0] is found[2] is not found[1]
    await dispose_resolved_computers(run_context=contexts[0])
    assert makers.disposed == ["run-1"]
    async with kept.borrow(contexts[1]) as computer:
        assert computer is found[1]


async def test_calls_of_one_computer_wait_for_each_other() -> None:
    kept, order = RunComputers(Screen()), list[str]()

    async def use(name: str) -> None:
        async with kept.borrow(context(name)):
            order.append(f"{name} begins")
            await asyncio.sleep(0)
            order.append(f"{name} ends")

    await asyncio.gather(use("one"), use("two"))
    assert order == ["one begins", "one ends", "two begins", "two ends"]


async def test_an_unused_computer_is_disposed_of_without_another_call() -> None:
    makers = Makers()
    kept = RunComputers(ComputerProvider(makers.create, makers.dispose), kept_for=SHORT)
    await lent(kept, "run-1")
    assert makers.disposed == []
    await asyncio.wait_for(makers.has_disposed.wait(), timeout=5)
    assert makers.disposed == ["run-1"]
    await lent(kept, "run-1")
    assert makers.made == ["run-1", "run-1"]


async def test_each_call_starts_the_time_again() -> None:
    makers = Makers()
    kept = RunComputers(ComputerProvider(makers.create, makers.dispose), kept_for=SHORT)
    async with kept.borrow(context("run-1")):
        await asyncio.sleep(3 * SHORT.total_seconds())
    assert makers.disposed == []
    async with kept.borrow(context("run-1")):
        await asyncio.sleep(3 * SHORT.total_seconds())
    assert makers.disposed == []
    assert makers.made == ["run-1"]


async def test_a_call_that_waited_for_a_disposal_gets_a_new_computer() -> None:
    makers = Makers()
    kept = RunComputers(ComputerProvider(makers.create, makers.dispose))
    first = await lent(kept)
    disposal = asyncio.create_task(kept.dispose("run-1"))
    assert await lent(kept) is first, "the disposal has not begun"
    await disposal
    assert makers.disposed == ["run-1"]

    async with kept.borrow(context("run-1")) as second:
        disposal = asyncio.create_task(kept.dispose("run-1"))
        await asyncio.sleep(0)
        waiting = asyncio.create_task(lent(kept))
        await asyncio.sleep(0)
    third = await waiting
    await disposal
    assert third is not second
    assert makers.made == ["run-1"] * 3
    assert makers.disposed == ["run-1"] * 2


async def test_all_computers_are_disposed_of_when_the_worker_stops() -> None:
    makers = Makers()
    tool = ComputerTool(ComputerProvider(makers.create, makers.dispose))
    for run_id in ("run-1", "run-2"):
        await lent(tool.computers, run_id)
    await Registry([Agent[Any](name="A", tools=[tool])]).release()
    assert makers.disposed == ["run-1", "run-2"]


async def test_a_failing_disposal_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    makers = Makers()

    def dispose(**_what: Any) -> None:
        raise OSError("stuck")

    kept = RunComputers(ComputerProvider(makers.create, dispose))
    await lent(kept)
    with caplog.at_level(logging.ERROR):
        await kept.dispose_all()
    assert "the computer of the run 'run-1' could not be disposed of" in caplog.text
    assert "stuck" in caplog.text


async def test_only_computers_are_lent() -> None:
    def create(*, run_context: Any) -> str:
        return run_context.run_id

    with pytest.raises(UserError, match="returned 'run-1', not a Computer"):
        await lent(RunComputers(create))


async def test_one_that_could_not_be_made_is_made_by_the_next_call() -> None:
    failures = [OSError("no screen left")]

    def create(*, run_context: Any) -> Screen:
        del run_context
        if failures:
            raise failures.pop()
        return Screen()

    kept = RunComputers(create)
    with pytest.raises(OSError, match="no screen left"):
        await lent(kept)
    assert isinstance(await lent(kept), Screen)


async def test_a_runs_computers_can_be_given_up_at_once() -> None:
    makers, others = Makers(), Makers()
    mine = RunComputers(ComputerProvider(makers.create, makers.dispose))
    other = RunComputers(ComputerProvider(others.create, others.dispose))
    await lent(mine, "run-1")
    await lent(mine, "run-2")
    await lent(other, "run-1")
    await dispose_resolved_computers(run_context=context("run-1"))
    await dispose_resolved_computers(run_context=context("run-1"))
    assert makers.disposed == others.disposed == ["run-1"]


async def test_a_shared_computer_is_never_given_up() -> None:
    screen = Screen()
    kept = RunComputers(screen)
    await lent(kept)
    await dispose_resolved_computers(run_context=context())
    assert await lent(kept) is screen
