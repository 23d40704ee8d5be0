"""Guardrails: what may be asked and answered, in front of the model and beside it."""

import asyncio
from typing import Any

import pytest

import outlast
from outlast.agents.agent import Agent
from outlast.agents.errors import InputGuardrailTripwireTriggered, OutputGuardrailTripwireTriggered
from outlast.agents.tools.function_tool import function_tool
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, say
from tests.workflow.desk import PATIENCE_SECONDS, QUICK, Desk
from tests.workflow.replies import last_user_text


def verdict(*, tripped: bool) -> Any:
    return outlast.GuardrailFunctionOutput(output_info={"n": 1}, tripwire_triggered=tripped)


def texts(request: ModelRequest) -> str:
    return str(request.input)


async def test_a_blocking_guardrail_that_trips_costs_no_model_call(desk: Desk):
    @outlast.input_guardrail(run_in_parallel=False)
    async def refuse(_ctx: Any, _agent: Any, _input: Any) -> Any:
        return verdict(tripped=True)

    agent = Agent(name="A", input_guardrails=[refuse])
    model = ScriptedModel("never")
    await desk.open(agent, model=model)
    with pytest.raises(InputGuardrailTripwireTriggered) as caught:
        await desk.run(agent)
    assert caught.value.guardrail_result.output.output_info == {"n": 1}
    assert model.calls == 0


@pytest.mark.smoke
async def test_a_trip_in_the_middle_of_tools_stops_those_that_run_and_those_to_come(desk: Desk):
    ran: list[str] = []
    running, stopped = asyncio.Event(), asyncio.Event()

    @function_tool
    async def slow() -> str:
        running.set()
        try:
            return await asyncio.Future[str]()
        finally:
            stopped.set()

    @function_tool
    async def quick() -> str:
        ran.append("quick")
        return "quick"

    @outlast.input_guardrail
    async def late(_ctx: Any, _agent: Any, _input: Any) -> Any:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await running.wait()
        return verdict(tripped=True)

    agent = Agent(name="A", tools=[slow, quick], input_guardrails=[late])
    model = ScriptedModel([call("slow", "c1"), call("quick", "c2")], "never")
    await desk.open(agent, model=model)
    handle = await desk.start(agent, run_config=QUICK)
    with pytest.raises(InputGuardrailTripwireTriggered) as caught:
        await desk.result(handle)
    await asyncio.wait_for(stopped.wait(), PATIENCE_SECONDS)
    assert model.calls == 1
    assert len(ran) <= 1
    calls = {one.raw["call_id"] for one in (await handle.state()).items if "output" in one.raw}
    assert calls == {"c1", "c2"}, "every call has an output, also where it was stopped"
    assert caught.value.run_data is not None


@pytest.mark.smoke
async def test_a_guardrail_whose_worker_is_lost_is_asked_again(desk: Desk):
    asked: list[int] = []
    begun = asyncio.Event()

    @outlast.input_guardrail(run_in_parallel=False)
    async def judge(_ctx: Any, _agent: Any, _input: Any) -> Any:
        asked.append(1)
        if len(asked) == 1:
            begun.set()
            await asyncio.Future[None]()
        return verdict(tripped=False)

    agent = Agent(name="A", input_guardrails=[judge])
    worker = await desk.open(agent, model=ScriptedModel("never"))
    handle = await desk.start(agent, run_config=QUICK)
    await asyncio.wait_for(begun.wait(), PATIENCE_SECONDS)
    await desk.close(worker)
    await desk.open(agent, model=ScriptedModel("Good day."))
    assert (await desk.result(handle)).final_output == "Good day."
    assert len(asked) == 2


# --- Answers -------------------------------------------------------------------------------------


@outlast.output_guardrail
async def no_secrets(_ctx: Any, _agent: Any, output: Any) -> Any:
    return verdict(tripped="secret" in str(output))


async def test_in_a_conversation_the_next_question_does_not_see_a_blocked_reply(
    desk: Desk,
):
    agent = Agent(name="A", output_guardrails=[no_secrets])
    answers = {"Hello": "The secret is 42.", "And now?": "Good day.", "And then?": "Good night."}
    model = ScriptedModel(always=lambda request: say(answers[last_user_text(request)]))
    await desk.open(agent, model=model)
    handle = await desk.start_short(agent, keep_open=True)
    state = await desk.until_status(handle, "idle")
    assert state.failure is not None
    assert state.failure.code == "output_guardrail_tripwire"
    assert (await (await handle.send("And now?")).answer()).final_output == "Good day."
    assert (await (await handle.send("And then?")).answer()).final_output == "Good night."
    assert all("secret" not in texts(request) for request in model.requests)
    assert "Good day." in texts(model.requests[2])
    assert [one["content"] for one in model.requests[2].input if one.get("role") == "user"] == [
        "Hello",
        "And now?",
        "And then?",
    ]
    await handle.cancel("after_turn")
    assert (await desk.result(handle)).final_output == "Good night."


@pytest.mark.smoke
async def test_a_blocked_answer_fails_the_run_and_says_what_was_blocked(desk: Desk):
    agent = Agent(name="A", output_guardrails=[no_secrets])
    await desk.open(agent, model=ScriptedModel("The secret is 42."))
    handle = await desk.start(agent)
    with pytest.raises(OutputGuardrailTripwireTriggered) as caught:
        await desk.result(handle)
    assert caught.value.guardrail_result.agent_output == "The secret is 42."
    assert (await handle.state()).status == "failed"


@outlast.input_guardrail
async def no_poison(_ctx: Any, _agent: Any, asked: Any) -> Any:
    return verdict(tripped="poison" in str(asked))


async def test_a_guardrail_that_a_deploy_adds_checks_the_next_question(desk: Desk):
    model = ScriptedModel("Hello.", "never", "Fine.")
    before = await desk.open(Agent(name="A"), model=model)
    handle = await desk.start(Agent(name="A"), keep_open=True)
    await handle.wait_for_people()
    await desk.close(before)
    await desk.open(Agent(name="A", input_guardrails=[no_poison]), model=model)
    with pytest.raises(InputGuardrailTripwireTriggered):
        await (await handle.send("poison")).answer()
    result = await (await handle.send("Still there?")).answer()
    assert result.final_output in {"never", "Fine."}
    assert "poison" not in texts(model.requests[-1])
    await handle.cancel("after_turn")
    await desk.result(handle)
