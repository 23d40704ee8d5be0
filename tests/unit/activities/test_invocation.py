"""What every effect finds before it calls users' code."""

from dataclasses import replace
from typing import Any

import pytest

from outlast.activities.errors import EffectError
from outlast.activities.invocation import Invocation
from outlast.agents.agent import Agent
from outlast.agents.config.run_config import RunConfig
from outlast.agents.config.settings import AS_ITEMS
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.guardrails.guardrail import (
    GuardrailFunctionOutput,
    InputGuardrail,
    input_guardrail,
    output_guardrail,
)
from outlast.agents.hooks import AgentHooks, RunHooks
from outlast.agents.run_objects import RunKey
from outlast.agents.tools.function_tool import function_tool
from outlast.loop.changes import Change
from outlast.loop.values import Usage
from tests.unit.activities.desk import (
    Notes,
    answering,
    invocation_of,
    model_request,
    name_of,
    settings_of,
    worker_of,
)

PASSES = GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)


@input_guardrail
def beside(_ctx: RunContextWrapper[Any], _agent: Any, _input: Any) -> GuardrailFunctionOutput:
    return PASSES


@input_guardrail(run_in_parallel=False)
def before(_ctx: RunContextWrapper[Any], _agent: Any, _input: Any) -> GuardrailFunctionOutput:
    return PASSES


@output_guardrail
def polite(_ctx: RunContextWrapper[Any], _agent: Any, _output: Any) -> GuardrailFunctionOutput:
    return PASSES


class EndHooks(AgentHooks[Any]):
    async def on_end(self, context: Any, agent: Any, output: Any) -> None: ...


class RunEnds(RunHooks[Any]):
    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None: ...


class Answered(RunHooks[Any]):
    async def on_run_end(self, context: Any, agent: Any, output: Any) -> None: ...


class Begins(RunHooks[Any]):
    """Hooks at steps that are there anyway."""

    async def on_run_start(self, context: Any, agent: Any) -> None: ...

    async def on_tool_error(self, context: Any, agent: Any, tool: Any, error: Any) -> None: ...


class Idle(RunHooks[Any]):
    """Overrides nothing."""


async def test_callables_get_the_context_and_where_the_run_is() -> None:
    request = model_request(context={"n": 1}, usage=Usage(requests=3), turn=4).effect
    invocation = Invocation.of(worker_of(Agent(name="A")), request)
    wrapper = invocation.wrapper
    assert (wrapper.context, wrapper.usage.requests) == ({"n": 1}, 3)
    assert (wrapper.run_id, wrapper.turn, wrapper.tool_input) == ("support-42", 4, None)


def test_two_runs_that_use_one_id_have_two_keys() -> None:
    request = model_request().effect
    keys: list[str] = []
    for chain_id in (
        "0197f4c5-1111-7abc-8def-first0000001",
        "0197f4c5-1111-7abc-8def-later0000002",
    ):
        worker = replace(worker_of(Agent(name="A")), key=RunKey("default", chain_id))
        invocation = Invocation.of(worker, request)
        assert invocation.wrapper.run_id == "support-42"
        assert invocation.wrapper.run_key == invocation.run_key
        keys.append(invocation.run_key)
    assert keys == ["support-42@first0000001", "support-42@later0000002"]
    in_memory = Invocation.of(worker_of(Agent(name="A")), request)
    assert in_memory.run_key == in_memory.wrapper.run_key == "support-42"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"agent": "Nobody"}, "has no agent 'Nobody'"),
        ({"context": {"seen": 5}}, "does not fit Notes"),
    ],
)
def test_what_this_worker_lacks_another_may_have(fields: dict[str, Any], problem: str) -> None:
    worker = worker_of(Agent(name="A"))
    worker.registry.add_context_type(Notes)
    with pytest.raises(EffectError, match=problem) as caught:
        Invocation.of(worker, model_request(**fields).effect)
    assert (caught.value.code, caught.value.retryable) == ("worker_lacks", True)


def test_a_name_in_the_settings_stands_for_a_thing() -> None:
    hooks = RunEnds()
    invocation = invocation_of(settings={"hooks": name_of(hooks)})
    assert invocation.reference("hooks") is hooks
    assert invocation.run_hooks is hooks
    assert invocation.reference("call_model_input_filter") is None


def test_a_name_that_nobody_knows_is_named() -> None:
    invocation = invocation_of(settings={"hooks": "gone:Hooks", "input_guardrails": ["gone:check"]})
    with pytest.raises(EffectError, match="has no object named 'gone:Hooks'") as caught:
        _ = invocation.run_hooks
    assert caught.value.retryable
    with pytest.raises(EffectError, match="has no object named 'gone:check'"):
        invocation.input_guardrails()


def test_the_runs_guardrails_come_after_the_agents() -> None:
    agent = Agent[Any](name="A", input_guardrails=[beside], output_guardrails=[polite])
    other = InputGuardrail[Any](before.guardrail_function, name="other")
    settings = settings_of(RunConfig(input_guardrails=[other], output_guardrails=[polite]))
    invocation = invocation_of(agent, settings=settings)
    assert invocation.input_guardrails() == [beside, other]
    assert invocation.output_guardrails() == [polite, polite]
    assert invocation_of(
        agent, settings={"input_guardrails": "typed by hand"}
    ).input_guardrails() == [beside]


@pytest.mark.parametrize(
    ("fields", "required_steps"),
    [
        ({}, ()),
        ({"input_guardrails": [beside]}, ("check",)),
        ({"input_guardrails": [before]}, ("check_first",)),
        ({"input_guardrails": [beside, before]}, ("check_first", "check")),
        ({"output_guardrails": [polite]}, ("finalize_answer", "check_output")),
        ({"hooks": EndHooks()}, ("finalize_answer",)),
        ({"hooks": AgentHooks[Any]()}, ()),
    ],
)
def test_what_is_due_for_an_agent(fields: dict[str, Any], required_steps: tuple[str, ...]) -> None:
    assert invocation_of(Agent(name="A", **fields)).required_steps() == required_steps


@pytest.mark.parametrize(
    ("hooks", "required_steps"),
    [
        (RunEnds(), ("finalize_answer",)),
        (Answered(), ("finalize_answer",)),
        (Begins(), ()),
        (Idle(), ()),
    ],
)
def test_hooks_that_do_nothing_cost_nothing(hooks: Any, required_steps: tuple[str, ...]) -> None:
    assert invocation_of(settings={"hooks": name_of(hooks)}).required_steps() == required_steps


def test_what_is_due_for_the_agent_that_takes_over_can_be_asked() -> None:
    invocation = invocation_of(Agent(name="A"), Agent(name="B", output_guardrails=[polite]))
    assert invocation.required_steps() == ()
    assert invocation.required_steps(invocation.worker.registry.agent("B")) == (
        "finalize_answer",
        "check_output",
    )


def test_what_callables_changed_is_found_also_in_a_new_context() -> None:
    invocation = invocation_of(context={"n": 1})
    invocation.wrapper.context["n"] = 2
    assert invocation.changes() == (Change("set", ("n",), 2, 1),)
    invocation.wrapper.context = {"other": True}
    assert invocation.changes() == (Change("remove", ("n",)), Change("set", ("other",), True))


def test_a_context_that_cannot_be_written_is_an_error_in_words() -> None:
    invocation = invocation_of(context={})
    invocation.wrapper.context["x"] = "\ud800"
    with pytest.raises(EffectError, match="cannot be written as JSON") as caught:
        invocation.changes()
    assert not caught.value.retryable


def test_a_step_is_hooked_where_the_run_or_the_agent_overrides_it() -> None:
    agent = Agent[Any](name="A", hooks=EndHooks())
    assert invocation_of(agent).hooked("on_agent_end", "on_end")
    assert not invocation_of(agent).hooked("on_agent_start", "on_start")
    assert invocation_of(settings={"hooks": name_of(RunEnds())}).hooked("on_agent_end", "on_end")


@function_tool
async def look_up() -> str:
    """Look up."""
    return ""


def test_a_nested_run_is_not_asked_as_the_outer_one_was() -> None:
    tool = Agent(name="B").as_tool(tool_name="ask_b", tool_description="Asks B.")
    agent = Agent(name="A", tools=[tool])
    nested = {"as_tool": {"agent": "A", "tool": "ask_b"}}
    assert invocation_of(agent, settings={AS_ITEMS: True}).shows_items
    assert not invocation_of(agent, settings={AS_ITEMS: True, **nested}).shows_items
    assert invocation_of(agent, settings={"session": {"ref": "s"}, **nested}).shows_items


def test_a_run_that_works_for_nobody_is_no_tool() -> None:
    invocation = invocation_of(Agent(name="A", tools=[look_up]))
    assert (invocation.parent_call, invocation.tool) == (None, None)


@pytest.mark.parametrize(
    ("on_stream", "behavior", "streamed", "required_steps"),
    [
        (None, "stop_on_first_tool", False, ()),
        (print, "run_llm_again", True, ()),
        (print, "stop_on_first_tool", True, ("finalize_answer",)),
        (print, {"stop_at_tool_names": ["look_up"]}, True, ("finalize_answer",)),
    ],
)
def test_outputs_that_may_be_the_answer_have_to_be_told_in_the_end(
    on_stream: Any, behavior: Any, *, streamed: bool, required_steps: tuple[str, ...]
) -> None:
    inner = Agent[Any](name="B", tools=[look_up], tool_use_behavior=behavior)
    outer = Agent[Any](name="A", tools=[inner.as_tool("ask", on_stream=on_stream)])
    invocation = invocation_of(outer, settings=answering("ask"))
    assert (invocation.is_streamed, invocation.required_steps(inner)) == (streamed, required_steps)
