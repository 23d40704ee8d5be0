"""Names of arguments that nobody has here, answered with those that are meant."""

import dataclasses
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest

import outlast
from outlast import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrail,
    ModelSettings,
    OutputGuardrail,
    RunConfig,
    Runner,
    ToolInputGuardrail,
    ToolOutputGuardrail,
    UserError,
    function_tool,
    handoff,
    input_guardrail,
)
from outlast.agents.argument_names import FOREIGN_NAMES, advice_on
from outlast.agents.checks import check_argument_names, with_checked_arguments
from outlast.client.start.options import RunOptions

AGENT = Agent[Any](name="A")


def _tool(**options: Any) -> Any:
    decorate: Any = function_tool

    @decorate(**options)
    def look() -> str:
        return ""

    return look


async def _run(**options: Any) -> Any:
    return await Runner.run(**options)


async def _start(**options: Any) -> Any:
    return await Runner.start(**options)


CALLS: list[tuple[Callable[..., Any], str, str]] = [
    (Agent, "output_schema", "Use output_type=."),
    (Agent, "response_format", "Use output_type=."),
    (Agent, "temperature", "Use model_settings=ModelSettings(temperature=...)."),
    (Agent, "instruction", "Did you mean 'instructions'?"),
    (RunConfig, "disable_tracing", "Use tracing_disabled=."),
    (RunConfig, "tracing_disable", "Did you mean 'tracing_disabled'?"),
    (RunConfig, "session", "Pass it to Runner.run itself"),
    (GuardrailFunctionOutput, "message", "Use output_info=."),
    (_tool, "tool_description", "Use description_override=."),
    (_tool, "name_overide", "Did you mean 'name_override'?"),
    (AGENT.as_tool, "name", "Use tool_name=."),
    (AGENT.as_tool, "max_turn", "Did you mean 'max_turns'?"),
    (handoff, "tool_description", "Use tool_description_override=."),
    (_run, "agent", "Use starting_agent=."),
    (_run, "disable_tracing", "Use run_config=RunConfig(tracing_disabled=True)."),
    (_run, "max_turn", "Did you mean 'max_turns'?"),
    (_start, "starting_agent", "Use agent=."),
    (Runner.run_streamed, "agent", "Use starting_agent=."),
    (Runner.run_sync, "agent", "Use starting_agent=."),
]


@pytest.mark.parametrize(("made", "name", "advice"), CALLS)
async def test_an_unknown_argument_is_answered_with_the_name_that_is_meant(
    made: Callable[..., Any], name: str, advice: str
) -> None:
    with pytest.raises(UserError) as caught:
        await made(**{name: "x"})
    assert isinstance(caught.value, TypeError)
    assert name in str(caught.value)
    assert advice in str(caught.value)


@pytest.mark.parametrize("name", ["run", "run_sync", "run_streamed", "start", "attach", "using"])
@pytest.mark.parametrize("runner", [Runner, Runner.using()], ids=["plain", "placed"])
def test_each_method_of_the_runner_says_its_own_name(name: str, runner: Any) -> None:
    call = getattr(runner, name)
    with pytest.raises(TypeError) as caught:
        call(AGENT, "Hi", qwertz=1).send(None)
    expected = f"Runner.{name}() got an unexpected keyword argument 'qwertz'."
    assert str(caught.value) == expected


def test_an_unknown_setting_of_models_is_still_ignored_and_the_warning_says_what_to_use(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert ModelSettings(**cast("Any", {"stop": ["x"]})) == ModelSettings()
    assert "Use extra_args={'stop': [...]}" in caplog.text


@pytest.mark.parametrize("settings", [{"response_format": 1}, {"temperatur": 1}])
def test_a_dict_of_settings_gets_the_same_advice(settings: dict[str, Any]) -> None:
    expected = "Use Agent" if "response_format" in settings else "Did you mean 'temperature'"
    with pytest.raises(UserError, match=expected):
        Agent(name="A", model_settings=settings)


@pytest.mark.parametrize(
    ("kind", "decorator"),
    [
        (InputGuardrail, "input_guardrail"),
        (OutputGuardrail, "output_guardrail"),
        (ToolInputGuardrail, "tool_input_guardrail"),
        (ToolOutputGuardrail, "tool_output_guardrail"),
    ],
)
def test_a_guardrail_without_a_function_says_where_the_function_goes(
    kind: Any, decorator: str
) -> None:
    class Mine(kind):
        async def check(self) -> None: ...

    class Silent(kind):
        def __init__(self) -> None: ...

    options: dict[str, Any] = {f"{decorator}s": [Silent()]}
    make: Any = _tool if decorator.startswith("tool") else partial(Agent[Any], name="A")
    says = rf"A guardrail is a function with @{decorator}, or {kind.__name__}\(guardrail_function"
    with pytest.raises(TypeError, match=rf"Mine\(\) has no function\. {says}"):
        Mine()
    with pytest.raises(UserError, match=f"without a function. {says}"):
        make(**options)


def test_a_guardrail_that_is_a_subclass_with_a_function_works() -> None:
    @input_guardrail
    def fine(_context: Any, _agent: Any, _input: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(None, tripwire_triggered=False)

    class Mine(InputGuardrail[Any]): ...

    assert Agent(name="A", input_guardrails=[Mine(fine.guardrail_function)]).input_guardrails


def test_names_that_are_ours_are_in_no_table() -> None:
    kinds: list[type[Any]] = [Agent, RunConfig, ModelSettings, GuardrailFunctionOutput]
    for kind in kinds:
        ours = {field.name for field in dataclasses.fields(kind)}
        assert not ours & FOREIGN_NAMES[kind.__name__].keys()
    assert not FOREIGN_NAMES["Runner"].keys() & RunOptions.__annotations__.keys()


def test_what_is_checked_keeps_its_signature() -> None:
    assert "instructions" in inspect.signature(Agent).parameters
    assert list(inspect.signature(GuardrailFunctionOutput).parameters) == [
        "output_info",
        "tripwire_triggered",
    ]
    assert list(inspect.signature(Runner.run).parameters) == ["starting_agent", "input", "options"]
    assert inspect.iscoroutinefunction(Runner.run)
    assert not inspect.iscoroutinefunction(Runner.run_streamed)
    assert outlast.handoff(AGENT).tool_name == "transfer_to_a"


def test_a_name_that_resembles_nothing_gets_no_advice() -> None:
    assert advice_on("Agent", "qwertz", ["name"]) == ""
    check_argument_names("f", ["name"], ["name"])

    @with_checked_arguments
    def greet(name: str) -> str:
        return name

    assert greet(name="Ann") == "Ann"
    with pytest.raises(TypeError, match=r"^greet\(\) got .* 'nam'\. Did you mean 'name'\?$"):
        cast("Any", greet)(nam="Ann")
