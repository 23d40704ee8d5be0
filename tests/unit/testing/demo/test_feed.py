import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from temporalio.client import Client

from outlast.agents.errors import RunNotFound
from outlast.cli import terminal
from outlast.cli.demo_screen import TerminalNarrator
from outlast.client.start.runner import Runner
from outlast.loop.effects import RunTool
from outlast.loop.state import LoopState
from outlast.testing import ScriptedModel, call
from outlast.testing.demo.feed import Feed
from outlast.testing.demo.processes import DemoFailed
from tests.loop_states import of_loop
from tests.unit.cli.conftest import Open

REFUND = [call("refund", "c1", order_id="A-42")]


def a_feed(client: Client, run_id: str, *, patience: float = 20) -> Feed:
    narrator = TerminalNarrator(terminal.out(), as_json=False)
    return Feed(client, run_id, narrator, patience=timedelta(seconds=patience))


def is_closed(state: LoopState) -> bool:
    return state.phase == "closed"


@pytest.mark.smoke
async def test_what_happens_is_told_and_awaited(
    client: Client, open_desk: Open, run_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = await open_desk(ScriptedModel("It is here."))
    await Runner.start("Helper", "Where?", id=run_id, client=client, task_queue=queue)

    async with a_feed(client, run_id) as feed:
        state = await feed.reach("answer", of_loop(is_closed))

    assert state.final_output == "It is here."
    assert "Mara       Where?" in capsys.readouterr().out


async def test_patience_has_an_end(client: Client, open_desk: Open, run_id: str) -> None:
    queue = await open_desk(ScriptedModel(REFUND))
    handle = await Runner.start("Helper", "Refund", id=run_id, client=client, task_queue=queue)
    await handle.wait(lambda state: state.status == "waiting")

    async with a_feed(client, run_id, patience=0.3) as feed:
        with pytest.raises(DemoFailed, match=r"In 0.3 s there was no answer. .* is waiting"):
            await feed.reach("answer", of_loop(is_closed))
    await handle.cancel()


async def test_a_run_that_ends_too_early_is_told(
    client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel("It is here."))
    await Runner.run("Helper", "Where?", id=run_id, client=client, task_queue=queue)

    async with a_feed(client, run_id) as feed:
        with pytest.raises(DemoFailed, match=r"ended .completed. before there was any approval"):
            await feed.reach("approval", lambda state: state.status == "waiting")


async def test_what_ends_the_reading_is_raised(client: Client) -> None:
    async with a_feed(client, "never-was") as feed:
        with pytest.raises(RunNotFound):
            await feed.reach("answer", of_loop(is_closed))


async def test_a_call_is_caught_between_its_effect_and_its_report(
    client: Client, open_slow: Callable[[asyncio.Event], Awaitable[str]], run_id: str
) -> None:
    gate = asyncio.Event()
    queue = await open_slow(gate)
    await Runner.start("Slow", "Go", id=run_id, client=client, task_queue=queue)

    async with a_feed(client, run_id) as feed:
        effect = await feed.wait_for_half_done_call("effect", lambda call: call.name == "hold")
        assert isinstance(effect, RunTool)
        info = await feed.pending(effect)
        assert info is not None
        assert info.attempt == 1

        gate.set()
        await feed.reach("answer", of_loop(is_closed))
        assert await feed.pending(effect) is None
        assert await feed.lost(effect) == "it was tried again"


async def test_an_answer_without_the_call_is_a_failure(
    client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel("No need."))
    await Runner.start("Helper", "Refund", id=run_id, client=client, task_queue=queue)

    async with a_feed(client, run_id) as feed:
        with pytest.raises(DemoFailed, match="The model answered without a refund"):
            await feed.wait_for_half_done_call("refund", lambda _: True)


async def test_a_model_that_neither_calls_nor_answers_in_time_is_a_failure(
    client: Client, open_slow: Callable[[asyncio.Event], Awaitable[str]], run_id: str
) -> None:
    gate = asyncio.Event()
    queue = await open_slow(gate)
    handle = await Runner.start("Slow", "Go", id=run_id, client=client, task_queue=queue)

    async with a_feed(client, run_id, patience=1) as feed:
        with pytest.raises(DemoFailed, match="In 1 s there was no refund, so"):
            await feed.wait_for_half_done_call("refund", lambda _: False)
    gate.set()
    await handle.result()


async def test_a_call_that_nobody_gives_up_is_a_failure(
    client: Client, open_slow: Callable[[asyncio.Event], Awaitable[str]], run_id: str
) -> None:
    gate = asyncio.Event()
    queue = await open_slow(gate)
    handle = await Runner.start("Slow", "Go", id=run_id, client=client, task_queue=queue)

    async with a_feed(client, run_id, patience=1) as feed:
        effect = await feed.wait_for_half_done_call("effect", lambda _: True)
        with pytest.raises(DemoFailed, match="has not noticed"):
            await feed.lost(effect)
    gate.set()
    await handle.result()
