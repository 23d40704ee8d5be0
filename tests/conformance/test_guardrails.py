"""Guardrails on input and output: rows 23 to 29 of the table."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

import outlast
from outlast import Agent, RunConfig, function_tool
from outlast.loop.values import JsonObject
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, say
from outlast.views.run import loop_state
from tests.conformance.executors import Executor, raises_own, row, soon
from tests.conformance.views import asked, kinds, outputs_among, saved, shapes

Where = Literal["agent", "run"]


def _verdict(tripped: bool, info: Any = None) -> Any:
    return outlast.GuardrailFunctionOutput(output_info=info, tripwire_triggered=tripped)


def _session(folder: Path) -> Any:
    return outlast.SQLiteSession("s", folder / "sessions.db")


@row(23)
async def test_a_blocking_guardrail_trips_before_anything_else_happens(executor: Executor) -> None:
    seen: list[Any] = []
    hooked: list[str] = []

    @outlast.input_guardrail(run_in_parallel=False)
    async def no_greetings(_context: Any, agent: Any, given: Any) -> Any:
        seen.append((agent.name, asked_of(given)))
        return _verdict(True, {"why": "a greeting", "by": "rule"})

    class Watching(outlast.RunHooks):
        async def on_agent_start(self, context: Any, agent: Any) -> None:
            hooked.append("agent_start")

        async def on_llm_start(
            self, context: Any, agent: Any, system_prompt: Any, input_items: Any
        ) -> None:
            hooked.append("llm_start")

    model = ScriptedModel("never")
    agent = Agent(name="A", input_guardrails=[no_greetings])
    with pytest.raises(outlast.InputGuardrailTripwireTriggered) as caught:
        await executor.execute(agent, model=model, hooks=Watching())
    assert (model.calls, hooked) == (0, [])
    assert seen == [("A", ["Hello"])]
    result = caught.value.guardrail_result
    assert result.guardrail.get_name() == "no_greetings"
    assert (result.output.tripwire_triggered, result.output.output_info) == (
        True,
        {"why": "a greeting", "by": "rule"},
    )
    assert list(result.output.output_info) == ["why", "by"], "as the guardrail wrote them"
    assert asked(caught.value.run_data) == ["Hello"]
    assert len(caught.value.run_data.input_guardrail_results) == 1


@dataclass
class Finding:
    words: list[str]


class Verdict(BaseModel):
    reason: str


@row(23)
async def test_what_a_guardrail_tells_is_an_object_where_its_tripwire_is_caught(
    executor: Executor,
) -> None:
    @outlast.input_guardrail
    def look(_context: Any, _agent: Any, given: Any) -> Any:
        return _verdict(given == "rude", Finding(words=["rude"]))

    @outlast.output_guardrail
    async def judge(_context: Any, _agent: Any, _output: Any) -> Any:
        return _verdict(True, Verdict(reason="too short"))

    @outlast.tool_input_guardrail
    def small(_data: Any) -> Any:
        return outlast.ToolGuardrailFunctionOutput.raise_exception(Verdict(reason="too much"))

    @function_tool(tool_input_guardrails=[small])
    def pay() -> str:
        raise AssertionError

    agent = Agent(name="A", tools=[pay], input_guardrails=[look], output_guardrails=[judge])
    with pytest.raises(outlast.InputGuardrailTripwireTriggered) as rude:
        await executor.execute(agent, "rude", model=ScriptedModel("never"))
    assert rude.value.guardrail_result.output.output_info == Finding(words=["rude"])
    with pytest.raises(outlast.OutputGuardrailTripwireTriggered) as short:
        await executor.execute(agent, "Hello", model=ScriptedModel("Hi."))
    assert short.value.guardrail_result.output.output_info == Verdict(reason="too short")
    (passed,) = short.value.run_data.input_guardrail_results
    assert passed.output.output_info == Finding(words=["rude"])
    with pytest.raises(outlast.ToolInputGuardrailTripwireTriggered) as much:
        await executor.execute(agent, "Pay", model=ScriptedModel([call("pay", "c1")]))
    assert much.value.output.output_info == Verdict(reason="too much")


def asked_of(given: str | list[JsonObject]) -> list[str]:
    """Return what an input guardrail was given: a text, or items."""
    return [given] if isinstance(given, str) else shapes(given)


@row(24)
async def test_a_slow_parallel_guardrail_undoes_no_tool_but_nothing_is_saved(
    executor: Executor, tmp_path: Path
) -> None:
    tool_ran = asyncio.Event()

    @function_tool
    async def act() -> str:
        tool_ran.set()
        return "acted"

    @outlast.input_guardrail
    async def late(_context: Any, _agent: Any, _input: Any) -> Any:
        await soon(tool_ran)
        return _verdict(True)

    session = _session(tmp_path)
    agent = Agent(name="A", tools=[act], input_guardrails=[late])
    model = ScriptedModel([call("act", "c1")], always="done")
    with pytest.raises(outlast.InputGuardrailTripwireTriggered):
        await executor.execute(agent, model=model, session=session)
    assert tool_ran.is_set()
    assert await saved(session) == []


@row(25)
async def test_a_fast_parallel_guardrail_stops_the_model_call(executor: Executor) -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    async def never_ends(_request: ModelRequest) -> list[JsonObject]:
        started.set()
        try:
            return await asyncio.Future[list[JsonObject]]()
        finally:
            stopped.set()

    @outlast.input_guardrail
    async def early(_context: Any, _agent: Any, _input: Any) -> Any:
        await soon(started)
        return _verdict(True)

    agent = Agent(name="A", input_guardrails=[early])
    model = ScriptedModel(never_ends)
    config = RunConfig(heartbeat_timeout=timedelta(seconds=2))
    with pytest.raises(outlast.InputGuardrailTripwireTriggered):
        await executor.execute(agent, model=model, run_config=config)
    await soon(stopped)
    assert model.calls == 1


@row(26)
@pytest.mark.parametrize("parallel", [True, False])
async def test_a_guardrail_that_raises_ends_the_run_with_what_it_raised(
    executor: Executor, parallel: bool
) -> None:
    sibling_started, sibling_stopped = asyncio.Event(), asyncio.Event()

    @outlast.input_guardrail(run_in_parallel=parallel)
    async def broken(_context: Any, _agent: Any, _input: Any) -> Any:
        await soon(sibling_started)
        raise TypeError("the guardrail is broken")

    @outlast.input_guardrail(run_in_parallel=parallel)
    async def sibling(_context: Any, _agent: Any, _input: Any) -> Any:
        sibling_started.set()
        try:
            await asyncio.Future[None]()
        finally:
            sibling_stopped.set()

    agent = Agent(name="A", input_guardrails=[broken, sibling])
    with raises_own(TypeError, "the guardrail is broken") as caught:
        await executor.execute(agent, model=ScriptedModel(always="Good day."))
    assert not isinstance(caught.value, outlast.InputGuardrailTripwireTriggered)
    await soon(sibling_stopped)


@row(27)
@pytest.mark.parametrize("where", ["agent", "run"])
@pytest.mark.parametrize("tripped", [True, False])
async def test_guardrails_on_input_mean_the_same_on_the_agent_and_on_the_run(
    executor: Executor, where: Where, tripped: bool
) -> None:
    @outlast.input_guardrail
    async def judge(_context: Any, agent: Any, _input: Any) -> Any:
        return _verdict(tripped, {"of": agent.name})

    def options(place: Where) -> dict[str, Any]:
        return {"input_guardrails": [judge]} if where == place else {}

    agent, config = Agent(name="A", **options("agent")), RunConfig(**options("run"))
    model = ScriptedModel(always="Good day.")
    if tripped:
        with pytest.raises(outlast.InputGuardrailTripwireTriggered) as caught:
            await executor.execute(agent, model=model, run_config=config)
        results = caught.value.run_data.input_guardrail_results
    else:
        result = await executor.execute(agent, model=model, run_config=config)
        assert result.final_output == "Good day."
        results = result.input_guardrail_results
    assert [(one.guardrail.get_name(), one.output.output_info) for one in results] == [
        ("judge", {"of": "A"})
    ]


@row(27)
@pytest.mark.parametrize("where", ["agent", "run"])
@pytest.mark.parametrize("tripped", [True, False])
async def test_guardrails_on_output_mean_the_same_on_the_agent_and_on_the_run(
    executor: Executor, where: Where, tripped: bool
) -> None:
    @outlast.output_guardrail
    async def judge(_context: Any, agent: Any, output: Any) -> Any:
        return _verdict(tripped, {"of": agent.name, "said": output})

    def options(place: Where) -> dict[str, Any]:
        return {"output_guardrails": [judge]} if where == place else {}

    agent, config = Agent(name="A", **options("agent")), RunConfig(**options("run"))
    model = ScriptedModel("Good day.")
    if tripped:
        with pytest.raises(outlast.OutputGuardrailTripwireTriggered) as caught:
            await executor.execute(agent, model=model, run_config=config)
        results = caught.value.run_data.output_guardrail_results
    else:
        results = (
            await executor.execute(agent, model=model, run_config=config)
        ).output_guardrail_results
    assert [(one.guardrail.get_name(), one.output.output_info) for one in results] == [
        ("judge", {"of": "A", "said": "Good day."})
    ]


@row(27)
async def test_guardrails_on_input_are_those_of_the_starting_agent(executor: Executor) -> None:
    ran: list[str] = []

    @outlast.input_guardrail
    async def judge(_context: Any, agent: Any, _input: Any) -> Any:
        ran.append(agent.name)
        return _verdict(False)

    billing = Agent(name="Billing", input_guardrails=[judge])
    triage = Agent(name="Triage", handoffs=[billing], input_guardrails=[judge])
    model = ScriptedModel([call("transfer_to_billing", "h1")], "Paid.")
    result = await executor.execute(triage, model=model)
    assert (result.final_output, ran) == ("Paid.", ["Triage"])


def _blocking_output_guardrail() -> Any:
    @outlast.output_guardrail
    async def no_secrets(_context: Any, _agent: Any, _output: Any) -> Any:
        return _verdict(True)

    return no_secrets


@pytest.mark.smoke
@row(28)
async def test_a_blocked_answer_is_not_saved(executor: Executor, tmp_path: Path) -> None:
    session = _session(tmp_path)
    agent = Agent(name="A", output_guardrails=[_blocking_output_guardrail()])
    model = ScriptedModel("The secret is 42.")
    with pytest.raises(outlast.OutputGuardrailTripwireTriggered) as caught:
        await executor.execute(agent, model=model, session=session)
    assert caught.value.guardrail_result.agent_output == "The secret is 42."
    assert await saved(session) == ["Hello"]


@row(24)
async def test_people_see_the_reply_to_a_question_that_was_blocked_after_it(
    executor: Executor,
) -> None:
    tool_ran = asyncio.Event()

    @function_tool
    async def act() -> str:
        tool_ran.set()  # so the reply with the call is recorded
        return "acted"

    @outlast.input_guardrail
    async def late(_context: Any, _agent: Any, _input: Any) -> Any:
        await soon(tool_ran)
        return _verdict(True)

    agent = Agent("A", tools=[act], input_guardrails=[late])
    model = ScriptedModel([*say("The code is 1234."), call("act", "c1")], always="done")
    with pytest.raises(outlast.InputGuardrailTripwireTriggered) as caught:
        await executor.execute(agent, model=model)

    run = caught.value.run_data
    assert "1234" in str(run.new_items[0].raw_item)
    assert "1234" in str(run.raw_responses[0].output)


@row(28)
async def test_only_the_state_of_a_run_has_an_answer_that_was_blocked(executor: Executor) -> None:
    @outlast.output_guardrail
    async def judge(_context: Any, _agent: Any, _output: Any) -> Any:
        return _verdict(True)

    agent = Agent("A", output_guardrails=[judge])
    with pytest.raises(outlast.OutputGuardrailTripwireTriggered) as caught:
        await executor.execute(agent, model=ScriptedModel("The code is 1234."))

    run = caught.value.run_data
    assert "1234" not in str([item.raw_item for item in run.new_items])
    assert "1234" not in str([reply.output for reply in run.raw_responses])
    assert "1234" not in str(run.result.items)
    assert "1234" in repr(loop_state(run.result.snapshot))


@row(29)
@pytest.mark.parametrize("message", [None, "withheld"])
async def test_a_blocked_tool_output_is_saved_as_a_placeholder(
    executor: Executor, tmp_path: Path, message: str | None
) -> None:
    @function_tool
    async def tell() -> str:
        return "The secret is 42."

    session = _session(tmp_path)
    agent = Agent(
        name="A",
        tools=[tell],
        tool_use_behavior="stop_on_first_tool",
        output_guardrails=[_blocking_output_guardrail()],
    )
    with pytest.raises(outlast.OutputGuardrailTripwireTriggered):
        await executor.execute(
            agent,
            model=ScriptedModel([call("tell", "c1")]),
            session=session,
            run_config=RunConfig(output_guardrail_blocked_message=message),
        )
    assert await saved(session) == ["Hello", "function_call", "function_call_output"]
    output = outputs_among(await session.get_items())["c1"]
    assert isinstance(output, str)
    assert output
    assert "42" not in output
    if message is not None:
        assert output == message


@row(29)
async def test_an_allowed_tool_output_is_the_answer(executor: Executor, tmp_path: Path) -> None:
    @function_tool
    async def tell() -> str:
        return "It is 42."

    session = _session(tmp_path)
    agent = Agent(name="A", tools=[tell], tool_use_behavior="stop_on_first_tool")
    model = ScriptedModel([*say("Let me see."), call("tell", "c1")])
    result = await executor.execute(agent, model=model, session=session)
    assert result.final_output == "It is 42."
    assert kinds(result)[-1] == "tool_call_output_item"
    assert outputs_among(await session.get_items()) == {"c1": "It is 42."}
