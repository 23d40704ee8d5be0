"""Runs without tools or with one agent: rows 1 and 10 of the table."""

from typing import Any

import pytest
from pydantic import BaseModel

from outlast import Agent, function_tool
from outlast.testing import ScriptedModel, call, say
from tests.conformance.executors import Executor, row
from tests.conformance.views import MESSAGE, kinds, shapes


class Answer(BaseModel):
    city: str
    degrees: int


@function_tool
async def thermometer(city: str) -> int:
    return len(city)


@pytest.mark.smoke
@row(1)
async def test_an_answer_is_one_response_and_two_items(executor: Executor) -> None:
    agent = Agent(name="A", instructions="Be kind.")
    model = ScriptedModel("Good day.")
    result = await executor.execute(agent, "Hello", model=model)
    assert result.final_output == "Good day."
    assert len(result.raw_responses) == 1
    assert result.last_response_id == "resp_1"
    assert kinds(result) == [MESSAGE]
    assert shapes(result.to_input_list()) == ["Hello", "Good day."]
    assert result.input == "Hello"
    assert result.last_agent.name == "A"
    assert result.interruptions == []
    assert (model.calls, model.requests[0].instructions) == (1, "Be kind.")
    assert model.requests[0].run_id == result.run_id
    assert shapes(model.requests[0].input) == ["Hello"]


@row(1)
async def test_a_list_of_items_is_asked_as_it_is(executor: Executor) -> None:
    history = [{"role": "user", "content": "Hello"}, *say("Good day."), *say("What is it?")]
    asked = [*history, {"role": "user", "content": "The weather"}]
    model = ScriptedModel("Fine.")
    result = await executor.execute(Agent(name="A"), asked, model=model)
    assert shapes(model.requests[0].input) == ["Hello", "Good day.", "What is it?", "The weather"]
    assert shapes(result.to_input_list()) == [*shapes(asked), "Fine."]


@row(1)
async def test_usage_counts_every_response(executor: Executor) -> None:
    agent = Agent(name="A", tools=[thermometer])
    model = ScriptedModel([call("thermometer", "c1", city="Oslo")], "4")
    result = await executor.execute(agent, model=model)
    usage = result.context_wrapper.usage
    assert (usage.requests, usage.input_tokens, usage.total_tokens) == (2, 20, 30)


@row(10)
async def test_the_agent_that_takes_over_answers_in_its_own_type(executor: Executor) -> None:
    weather: Agent[Any] = Agent(name="Weather", tools=[thermometer], output_type=Answer)
    triage = Agent(name="Triage", tools=[thermometer], handoffs=[weather])
    model = ScriptedModel(
        [call("thermometer", "c1", city="Rome")],
        [*say("One moment."), call("transfer_to_weather", "h1")],
        [call("thermometer", "c2", city="Oslo")],
        '{"city": "Oslo", "degrees": 4}',
    )
    result = await executor.execute(triage, model=model)
    assert result.final_output == Answer(city="Oslo", degrees=4)
    assert result.final_output_as(Answer, raise_if_incorrect_type=True).degrees == 4
    with pytest.raises(TypeError):
        result.final_output_as(str, raise_if_incorrect_type=True)
    assert len(result.raw_responses) == 4
    assert result.last_agent.name == "Weather"
    assert [request.output is not None for request in model.requests] == [False, False, True, True]


@row(1)
async def test_a_list_that_was_asked_stays_a_list(executor: Executor) -> None:
    asked = [{"role": "user", "content": "Hello"}]
    result = await executor.execute(Agent(name="Desk"), asked, model=ScriptedModel("Hi."))
    assert result.input == asked
    result = await executor.execute(Agent(name="Desk"), "Hello", model=ScriptedModel("Hi."))
    assert result.input == "Hello"
