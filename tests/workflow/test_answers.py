"""A run from a question to its answer, and a conversation over several."""

import asyncio
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.tools.function_tool import function_tool
from outlast.client.start.runner import Runner
from outlast.testing import ScriptedModel, call, say
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.replies import last_user_text

pytestmark = pytest.mark.oldest


@pytest.mark.smoke
async def test_a_question_is_answered(desk: Desk):
    agent = Agent(name="Helper", instructions="Be brief.", model="gpt-test")
    model = ScriptedModel("Hello to you.")
    await desk.open(agent, model=model)
    result = await desk.run(agent, "Hello")
    assert result.final_output == "Hello to you."
    assert (result.status, result.last_agent.name, result.turns) == ("completed", "Helper", 1)
    assert result.usage.total_tokens == 15
    assert [item.raw for item in result.items] == [
        {"role": "user", "content": "Hello"},
        *say("Hello to you."),
    ]
    assert model.names == ["gpt-test"]
    [request] = model.requests
    assert request.instructions == "Be brief."
    assert request.input == [{"role": "user", "content": "Hello"}]


@pytest.mark.smoke
async def test_a_conversation_answers_one_message_after_the_other(desk: Desk):
    agent = Agent(name="Helper")
    model = ScriptedModel(always=lambda request: say(f"You said {last_user_text(request)}."))
    await desk.open(agent, model=model)
    handle = await desk.start(agent, "one", keep_open=True)
    await desk.until_status(handle, "idle")
    for text in ("two", "three"):
        sent = await handle.send(text)
        async with asyncio.timeout(PATIENCE_SECONDS):
            result = await sent.answer()
        assert result.final_output == f"You said {text}."
    state = await handle.state()
    assert [len(answer.to) for answer in state.answers] == [1, 1, 1]
    assert len(model.requests[2].input) == 5
    await handle.cancel("after_turn")
    final = await desk.result(handle)
    assert (final.status, final.final_output) == ("completed", "You said three.")


@pytest.mark.smoke
async def test_a_program_that_sends_and_waits_for_idle_gets_the_new_answer(desk: Desk):
    agent = Agent(name="Helper")
    model = ScriptedModel(always=lambda request: say(f"You said {last_user_text(request)}."))
    await desk.open(agent, model=model)
    first = await desk.start(agent, "one", keep_open=True)
    elsewhere = await Runner.attach(first.id, client=desk.client)
    for number, handle in enumerate([first, first, elsewhere, first, elsewhere, elsewhere]):
        if number:
            await handle.send(f"message {number}")
        async with asyncio.timeout(PATIENCE_SECONDS):
            answers = [
                (await one.wait(lambda state: state.status == "idle")).final_output
                for one in (first, elsewhere)
            ]
        wanted = f"You said message {number}." if number else "You said one."
        assert answers == [wanted] * 2


async def test_a_decision_that_the_server_has_ends_a_wait_although_no_worker_has_taken_it(
    desk: Desk,
):
    @function_tool(needs_approval=True)
    async def refund() -> str:
        return "refunded"

    agent = Agent(name="Helper", tools=[refund])
    model = ScriptedModel([call("refund", "c1")], [call("refund", "c2")])
    worker = await desk.open(agent, model=model)
    handle = await desk.start(agent)
    await desk.until_status(handle, "waiting")
    await desk.close(worker)
    await desk.workflow(handle).signal("decide", {"request_id": "a1", "type": "reject"})
    waiting = asyncio.create_task(handle.wait(lambda state: state.status == "waiting"))
    await desk.open(agent, model=model)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert [request.id for request in (await waiting).interruptions] == ["a2"]


async def test_messages_to_a_busy_run_wait_and_are_answered_together(desk: Desk):
    release = asyncio.Event()

    async def slowly(request: Any) -> Any:
        await release.wait()
        return say(f"You said {last_user_text(request)}.")

    agent = Agent(name="Helper")
    model = ScriptedModel(slowly, always=slowly)
    await desk.open(agent, model=model)
    handle = await desk.start(agent, "one", keep_open=True)
    await desk.until(handle, lambda state: state.phase == "thinking")
    two = await handle.send("two")
    three = await handle.send("three", message_id="third")
    again = await handle.send("something else", message_id="third")
    state = await handle.state()
    assert [message.id for message in state.unread] == [two.id, "third"]
    release.set()
    async with asyncio.timeout(PATIENCE_SECONDS):
        answers = [(await sent.answer()).final_output for sent in (two, three, again)]
    assert answers == ["You said three."] * 3
    assert model.calls == 2
    assert "something else" not in str(model.requests[1].input)


@pytest.mark.smoke
async def test_a_run_answers_what_it_was_sent_while_busy_before_it_closes(desk: Desk):
    release = asyncio.Event()

    async def slowly(request: Any) -> Any:
        await release.wait()
        return say(f"You said {last_user_text(request)}.")

    agent = Agent(name="Helper")
    await desk.open(agent, model=ScriptedModel(always=slowly))
    handle = await desk.start(agent, "one")
    await desk.until(handle, lambda state: state.phase == "thinking")
    await handle.send("two")
    release.set()
    assert (await desk.result(handle)).final_output == "You said two."
    assert len((await handle.state()).answers) == 2
