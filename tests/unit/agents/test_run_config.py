"""The settings of one run, as a program gives them."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from openai import AsyncOpenAI

from outlast.agents.approvals.budget import Budget
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.config.reply_times import ReplyTimes
from outlast.agents.config.run_config import (
    CallModelData,
    ModelInputData,
    RunConfig,
    ToolErrorFormatterArgs,
    as_run_config,
)
from outlast.agents.config.session_input import SessionSettings
from outlast.agents.config.settings import write_run_config
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.agents.guardrails.guardrail import (
    GuardrailFunctionOutput,
    input_guardrail,
    output_guardrail,
)
from outlast.agents.references import RunReferences
from outlast.agents.tools.use_behavior import ToolExecutionConfig
from outlast.models.multi_provider import MultiProvider
from outlast.tracing import set_tracing_disabled


class InPieces:
    async def get_response(self, instructions: object, items: object) -> None: ...


class EchoModel:
    async def get_response(self, request: object) -> object:
        return request


class EchoProvider:
    def get_model(self, name: str | None) -> EchoModel:
        return EchoModel()


@input_guardrail
def polite(ctx: RunContextWrapper[Any], agent: Any, text: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)


@output_guardrail
def safe(ctx: RunContextWrapper[Any], agent: Any, output: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)


def takes_one(a: Any) -> Any:
    return a


def takes_two(a: Any, b: Any) -> Any:
    return [*a, *b]


class Never:
    async def __call__(self, args: Any) -> str: ...


async def never(args: Any) -> str:
    return str(args)


def takes_three(a: Any, b: Any, c: Any) -> Any:
    return a, b, c


EVERYTHING: dict[str, Any] = {
    "model": EchoModel(),
    "model_provider": EchoProvider(),
    "model_settings": ModelSettings(temperature=0),
    "session_settings": SessionSettings(limit=10),
    "session_input_callback": takes_two,
    "input_guardrails": [polite],
    "output_guardrails": [safe],
    "handoff_input_filter": takes_one,
    "nest_handoff_history": True,
    "handoff_history_mapper": takes_one,
    "conversation_history_wrappers": ("<before>", "</before>"),
    "call_model_input_filter": takes_one,
    "call_model_output_filter": takes_one,
    "reasoning_item_id_policy": "omit",
    "tracing_disabled": True,
    "tracing": {"include_task_and_turn_spans": True},
    "trace_include_sensitive_data": False,
    "workflow_name": "Support",
    "trace_id": "trace_1",
    "group_id": "chat-7",
    "trace_metadata": {"tier": "gold"},
    "tool_error_formatter": takes_one,
    "tool_not_found_behavior": "raise",
    "tool_name_collision_policy": "error",
    "tool_execution": ToolExecutionConfig(max_function_tool_concurrency=2),
    "output_guardrail_blocked_message": "withheld",
    "heartbeat_timeout": timedelta(seconds=5),
    "stream_interval": timedelta(seconds=1),
    "takeover": ApprovalPolicy(audience="support"),
    "budgets": [Budget(tokens=50_000)],
    "resolved_stays_open": timedelta(days=1),
    "reply_times": ReplyTimes(first=timedelta(hours=1)),
}


@pytest.mark.parametrize("given", [RunConfig(**EVERYTHING), EVERYTHING])
def test_every_field_is_taken_also_from_a_dict(given: Any) -> None:
    config = as_run_config(given)
    assert {name: getattr(config, name) for name in EVERYTHING} == EVERYTHING
    assert config.__dict__.keys() == EVERYTHING.keys(), "the table above has every field"


def test_settings_that_are_left_out_have_the_defaults() -> None:
    config = as_run_config(None)
    assert config == RunConfig()
    assert (config.nest_handoff_history, config.tracing_disabled) == (False, False)
    assert config.trace_include_sensitive_data is True
    assert config.tool_not_found_behavior == "return_error_to_model"


def test_a_program_may_pass_what_turning_traces_off_returned() -> None:
    given: Any = set_tracing_disabled(False)
    assert RunConfig(tracing_disabled=given) == RunConfig()
    assert as_run_config({"tracing_disabled": given}).tracing_disabled is False


@pytest.mark.parametrize("name", ["OUTLAST", "OPENAI_AGENTS"])
@pytest.mark.parametrize(("value", "included"), [("0", False), ("False", False), ("1", True)])
def test_whether_traces_hold_data_is_said_by_the_environment(
    monkeypatch: pytest.MonkeyPatch, *, name: str, value: str, included: bool
) -> None:
    monkeypatch.setenv(f"{name}_TRACE_INCLUDE_SENSITIVE_DATA", value)
    assert RunConfig().trace_include_sensitive_data is included
    assert RunConfig(trace_include_sensitive_data=not included).trace_include_sensitive_data is (
        not included
    )


def by_keyword(given: dict[str, Any]) -> RunConfig:
    return RunConfig(**given)


@pytest.mark.parametrize("make", [by_keyword, as_run_config])
@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"max_turns": 3},
            r"Unknown run_config settings: max_turns. Pass it to Runner.run itself: .*max_turns=\.\.\.",
        ),
        (
            {"hooks": None, "model": "x"},
            r"Unknown run_config settings: hooks. Pass it to Runner.run itself",
        ),
        (
            {"colour": 1},
            "run_config settings: colour. The fields of RunConfig are budgets, call_model_input_filter",
        ),
        (
            {"disable_tracing": True},
            "run_config settings: disable_tracing. Use tracing_disabled=. The fields of RunConfig are",
        ),
        (
            {"conversation_id": "c"},
            r"Unknown run_config settings: conversation_id. .*Runner.run\(agent, input, conversation_id=",
        ),
    ],
)
def test_what_is_no_field_is_refused_by_name(
    make: Callable[[dict[str, Any]], RunConfig], fields: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UserError, match=f"{problem}"):
        make(fields)


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("model", object(), "must be a model's name, a model \\(an object with get_response\\)"),
        ("model", EchoModel, "must be a model's name"),
        ("model", InPieces(), r"get_response of InPieces is called with \(request\)"),
        ("model_provider", EchoModel(), "must be an object with get_model"),
        ("model_settings", ["temperature"], r"must be ModelSettings, not \['temperature'\]"),
        ("session_settings", 10, "must be SessionSettings, not 10"),
        ("session_input_callback", takes_one, r"is called with \(history, new_items\)"),
        ("handoff_input_filter", takes_two, r"is called with \(data\), but takes_two takes"),
        ("handoff_history_mapper", takes_two, r"is called with \(items\)"),
        ("call_model_input_filter", takes_three, r"is called with \(data\)"),
        ("call_model_input_filter", 5, r"must be callable with \(data\), not int"),
        ("tool_error_formatter", takes_two, r"is called with \(args\)"),
        ("input_guardrails", polite, "must be a list, not InputGuardrail"),
        ("input_guardrails", [safe], "holds OutputGuardrail.*decorate it with @input_guardrail"),
        ("output_guardrails", [takes_three], "holds takes_three: decorate it with @output_guard"),
        ("nest_handoff_history", "yes", "must be True or False, not 'yes'"),
        ("conversation_history_wrappers", "ab", "must be two strings"),
        ("conversation_history_wrappers", ("a",), "must be two strings"),
        ("conversation_history_wrappers", ("a", 1), "must be two strings"),
        ("reasoning_item_id_policy", "drop", "must be one of 'preserve', 'omit', not 'drop'"),
        ("tool_not_found_behavior", "ignore", "must be one of 'return_error_to_model'"),
        ("tool_name_collision_policy", None, "must be one of 'warn', 'error', not None"),
        ("tool_execution", 5, "must be ToolExecutionConfig, not 5"),
        ("tracing", True, "must be a dict, not True"),
        ("workflow_name", None, "must be a string, not None"),
        ("trace_id", 5, "must be a string, not 5"),
        ("trace_metadata", ["a"], "must be a dict"),
        ("output_guardrail_blocked_message", takes_two, r"is called with \(args\)"),
        (
            "output_guardrail_blocked_message",
            never,
            "a string or a sync callable, not an async one",
        ),
        ("output_guardrail_blocked_message", Never(), "a sync callable, not an async one"),
        ("heartbeat_timeout", 5, "must be a timedelta, not 5"),
        ("stream_interval", 0.2, "must be a timedelta, not 0.2"),
        ("stream_interval", timedelta(), "from 20 milliseconds to a minute, not 0 s"),
        ("stream_interval", timedelta(milliseconds=19), "not 0.019 s. Leave it out"),
        ("stream_interval", timedelta(seconds=61), "not 61 s"),
    ],
)
def test_a_field_that_does_not_fit_is_refused_where_it_is_given(
    field: str, value: Any, problem: str
) -> None:
    with pytest.raises(UserError, match=rf"^RunConfig\({field}=\.\.\.\).*{problem}"):
        RunConfig(**{field: value})


def test_settings_that_were_changed_are_checked_before_they_are_used() -> None:
    config = RunConfig()
    config.workflow_name = "Support"
    assert as_run_config(config) is config
    config.model = 5
    with pytest.raises(UserError, match=r"RunConfig\(model=\.\.\.\)"):
        as_run_config(config)


@pytest.mark.parametrize("given", ["gpt-5", 5, ["model"]])
def test_what_is_no_settings_at_all_is_refused(given: Any) -> None:
    with pytest.raises(UserError, match="run_config= must be a RunConfig or a dict"):
        as_run_config(given)


def test_a_name_stands_for_what_only_the_worker_has() -> None:
    config = RunConfig(call_model_input_filter="trimmer", model_provider="house")
    assert (config.call_model_input_filter, config.model_provider) == ("trimmer", "house")


def test_a_provider_that_a_model_makes_needless_is_ignored_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = RunConfig(model=EchoModel(), model_provider=AsyncOpenAI(api_key="k"))
    (line,) = caplog.messages
    assert line.startswith(
        "RunConfig(model_provider=...) is of type AsyncOpenAI, which has no get_model"
    )
    assert "model_provider" not in write_run_config(config, RunReferences().name)
    with pytest.raises(UserError, match="must be an object with get_model"):
        RunConfig(model="gpt-5", model_provider=AsyncOpenAI(api_key="k"))


def test_a_copy_is_checked_too() -> None:
    config = replace(RunConfig(workflow_name="A"), group_id="g")
    assert (config.workflow_name, config.group_id) == ("A", "g")
    with pytest.raises(UserError, match="group_id"):
        replace(config, group_id=5)


def test_a_filter_is_given_what_the_model_would_be_shown() -> None:
    data = CallModelData(
        model_data=ModelInputData(input=[{"role": "user", "content": "hi"}], instructions="Be."),
        agent=None,
        context={"n": 1},
    )
    data.model_data.input = data.model_data.input[-1:]
    assert ModelInputData(input=[]).instructions is None
    assert data.model_data.input == [{"role": "user", "content": "hi"}]


def test_an_error_formatter_is_given_what_happened() -> None:
    args = ToolErrorFormatterArgs[Any](
        kind="tool_not_found",
        tool_type="function",
        tool_name="refund",
        call_id="c1",
        default_message="There is no tool 'refund'.",
        run_context=RunContextWrapper(context=None),
    )
    assert (args.tool_name, args.error) == ("refund", None)


def test_the_settings_of_a_run_have_no_provider_until_one_is_set() -> None:
    """A provider in the settings is one that the worker must have; the default is the worker's."""
    config = RunConfig(model="gpt-5")
    assert config.model_provider is None
    assert "model_provider" not in write_run_config(replace(config, group_id="g"), str)
    assert callable(MultiProvider().get_model)
