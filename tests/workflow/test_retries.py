"""A failed question is asked again: in an open conversation, and in a run that has closed."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.errors import AgentsException
from outlast.agents.tools.function_tool import function_tool
from outlast.contract import names
from outlast.ports.model import ModelError
from outlast.sessions.sqlite import SQLiteSession
from outlast.testing import ScriptedModel, call
from tests.workflow.desk import Desk
from tests.workflow.laws import snapshot_of, timeless

NO_KEY = ModelError("There is no key.", code="no_api_key", retryable=False)


def helper(ran: list[str]) -> Agent[Any]:
    @function_tool
    async def look_up(order: str) -> str:
        ran.append(order)
        return f"{order} is on its way"

    return Agent[Any](name="Helper", tools=[look_up])


@pytest.mark.smoke
async def test_a_conversation_asks_its_failed_question_again(desk: Desk) -> None:
    ran: list[str] = []
    model = ScriptedModel([call("look_up", "c1", order="A")], NO_KEY, "On its way.", "Bye.")
    agent = helper(ran)
    await desk.open(agent, model=model)
    handle = await desk.start(agent, keep_open=True)
    with pytest.raises(AgentsException, match="There is no key"):
        await handle.wait_for_answer("start")

    result = await (await handle.retry()).answer()

    assert result.final_output == "On its way."
    assert ran == ["A"], "the tool call is not repeated"
    state = await desk.settled(handle)
    assert [answer.to for answer in state.answers] == [(), ("start",)]
    assert [item.kind for item in state.items].count("input") == 1
    assert timeless(await snapshot_of(desk.workflow(handle))) == timeless(state)
    assert (await (await handle.send("Thanks.")).answer()).final_output == "Bye."


async def test_two_people_retry_at_once_and_the_question_is_asked_once(desk: Desk) -> None:
    agent = Agent[Any](name="Helper")
    model = ScriptedModel(NO_KEY, "Hello.")
    await desk.open(agent, model=model)
    handle = await desk.start(agent, keep_open=True)
    await desk.until_status(handle, "idle")

    first, second = await asyncio.gather(handle.retry(), handle.retry())

    assert first.id == second.id
    assert (await first.answer()).final_output == "Hello."
    assert model.calls == 2


async def test_a_closed_run_resumes_from_the_step_that_failed(desk: Desk, tmp_path: Path) -> None:
    ran: list[str] = []
    model = ScriptedModel([call("look_up", "c1", order="A")], NO_KEY, "On its way.")
    agent = helper(ran)
    session = SQLiteSession("s", tmp_path / "sessions.db")
    await desk.open(agent, model=model)
    handle = await desk.start(agent, session=session)
    with pytest.raises(AgentsException, match="There is no key"):
        await handle.result()

    await handle.retry()

    assert (await handle.result()).final_output == "On its way."
    assert ran == ["A"], "the tool call is not repeated"
    kinds = [item.get("type") or item.get("role") for item in await session.get_items()]
    assert kinds == ["user", "function_call", "function_call_output", "message"]


@pytest.mark.parametrize("payload", [None, {"answers": 7}])
async def test_an_update_that_does_not_fit_is_refused(desk: Desk, payload: Any) -> None:
    agent = Agent[Any](name="Helper")
    await desk.open(agent, model=ScriptedModel(NO_KEY))
    handle = await desk.start(agent, keep_open=True)
    await desk.until_status(handle, "idle")

    with pytest.raises(Exception, match="failed"):
        await desk.workflow(handle).execute_update(  # pyright: ignore[reportUnknownMemberType]  the SDK's own annotation
            names.UPDATE_RETRY, payload
        )

    assert (await desk.settled(handle)).status == "idle"
