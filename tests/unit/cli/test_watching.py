import asyncio

import pytest
from temporalio.client import Client

from outlast.agents.errors import (
    AgentsException,
    ModelCallFailed,
    RunCancelled,
    RunNotFound,
)
from outlast.cli.watching import Watch, is_settled
from outlast.client.runner import Runner
from outlast.loop.state import RunState, has_message
from outlast.testing import ScriptedModel, call
from tests.unit.cli.conftest import Open


async def watched(watch: Watch) -> list[str]:
    return [event.type async for event in watch.events(is_settled)]


@pytest.mark.parametrize("phase", ["closed", "idle"])
def test_a_run_is_settled_when_it_has_ended_or_takes_a_message(phase: str) -> None:
    assert is_settled(RunState(phase=phase))  # pyright: ignore[reportArgumentType]
    assert not is_settled(RunState(phase="thinking"))


async def test_a_run_is_watched_from_its_question_to_its_answer(
    client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel([call("look_up", "c1", order_id="A-17")], "It is here."))
    await Runner.start("Helper", "Where?", id=run_id, client=client, task_queue=queue)
    watch = Watch(client, run_id)

    seen = await watched(watch)

    assert seen[-1] == "status"
    assert {"message_input", "tool_called", "tool_output", "message_output_created"} <= {*seen}
    assert (await watch.verdict()).final_output == "It is here."


async def test_a_run_that_has_ended_is_told_again(
    client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel("It is here."))
    await Runner.run("Helper", "Where?", id=run_id, client=client, task_queue=queue)

    first, second = await watched(Watch(client, run_id)), await watched(Watch(client, run_id))

    assert first == second
    assert "message_output_created" in first


async def test_a_wait_that_is_over_does_not_count_as_waiting(
    client: Client, open_desk: Open, run_id: str
) -> None:
    gate = asyncio.Event()

    async def late(_request: object) -> list[dict[str, object]]:
        await gate.wait()
        return [{"type": "message", "role": "assistant", "content": "Done."}]

    queue = await open_desk(ScriptedModel([call("refund", "c1", order_id="A-42")], late))
    handle = await Runner.start("Helper", "Refund", id=run_id, client=client, task_queue=queue)
    await handle.wait(lambda state: state.status == "waiting")
    await handle.approve("a1")
    await handle.wait(lambda state: state.turns == 2)

    watch = Watch(client, run_id)
    watching = asyncio.create_task(watched(watch))
    gate.set()
    await watching

    assert (await watch.verdict()).status == "completed"


async def test_only_what_belongs_to_a_message_can_be_watched(
    client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel("One.", "Two."))
    handle = await Runner.start(
        "Helper", "First", id=run_id, client=client, task_queue=queue, keep_open=True
    )
    await handle.wait(lambda state: state.phase == "idle")
    message = await handle.send("Second")
    watch = Watch(client, run_id)

    events = [
        event.text
        async for event in watch.events(
            lambda state: any(message.id in answer.to for answer in state.answers),
            since=lambda state: has_message(state, message.id),
        )
        if event.text
    ]

    assert events == ["Second", "Two."]
    await handle.cancel()


async def test_a_failed_run_raises_what_it_failed_with(
    client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel())
    await Runner.start("Helper", "Where?", id=run_id, client=client, task_queue=queue)
    watch = Watch(client, run_id)

    assert "failed" in await watched(watch)
    with pytest.raises(ModelCallFailed):
        await watch.verdict()


async def test_a_cancelled_run_says_so(client: Client, open_desk: Open, run_id: str) -> None:
    queue = await open_desk(ScriptedModel([call("refund", "c1", order_id="A-42")]))
    handle = await Runner.start("Helper", "Refund", id=run_id, client=client, task_queue=queue)
    await handle.wait(lambda state: state.status == "waiting")
    await handle.cancel()
    await handle.wait(lambda state: state.phase == "closed")
    watch = Watch(client, run_id)

    await watched(watch)

    with pytest.raises(RunCancelled):
        await watch.verdict()


async def test_a_run_that_the_engine_ended_is_not_waited_for(client: Client, run_id: str) -> None:
    await Runner.start("Helper", "Where?", id=run_id, client=client, task_queue="nobody-is-here")
    await client.get_workflow_handle(run_id).terminate("enough")
    watch = Watch(client, run_id)

    await watched(watch)

    with pytest.raises(AgentsException, match="terminated"):
        await watch.verdict()


async def test_a_run_that_is_not_there_is_not_found(client: Client) -> None:
    with pytest.raises(RunNotFound):
        await watched(Watch(client, "nowhere"))
