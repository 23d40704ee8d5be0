"""What follows when the tools of a turn have answered."""

from collections.abc import Sequence
from typing import Any, get_args

import pytest

from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.agents.tools.function_tool import function_tool
from outlast.agents.tools.use_behavior import (
    JUDGED,
    FunctionToolResult,
    StopAtTools,
    ToolExecutionConfig,
    ToolsToFinalOutputFunction,
    ToolsToFinalOutputResult,
    ToolUseBehavior,
    check_tool_use_behavior,
    final_call,
    judge,
)


@function_tool
def look_up() -> str:
    """Look it up."""
    return "found"


def last_one(
    context: RunContextWrapper[Any], results: list[FunctionToolResult]
) -> ToolsToFinalOutputResult:
    return ToolsToFinalOutputResult(is_final_output=True, final_output=results[-1].output)


async def never(
    context: RunContextWrapper[Any], results: list[FunctionToolResult]
) -> ToolsToFinalOutputResult:
    return ToolsToFinalOutputResult(is_final_output=False)


@pytest.mark.parametrize(
    ("behavior", "called", "call"),
    [
        ("run_llm_again", ["a", "b"], None),
        ("stop_on_first_tool", ["a", "b"], 0),
        ("stop_on_first_tool", [], None),
        (StopAtTools(stop_at_tool_names=["b", "c"]), ["a", "c", "b"], 1),
        (StopAtTools(stop_at_tool_names=["b"]), ["a"], None),
        (StopAtTools(stop_at_tool_names=[]), ["a"], None),
        (last_one, ["a"], JUDGED),
        (last_one, [], None),
    ],
)
def test_the_call_that_ends_the_run_is_the_first_in_the_order_of_the_calls(
    behavior: ToolUseBehavior, called: Sequence[str], call: object
) -> None:
    assert final_call(behavior, called) == call


@pytest.mark.parametrize(
    ("behavior", "verdict"),
    [
        (last_one, ToolsToFinalOutputResult(is_final_output=True, final_output="found")),
        (never, ToolsToFinalOutputResult(is_final_output=False, final_output=None)),
    ],
)
async def test_a_callable_judges_the_results(
    behavior: Any, verdict: ToolsToFinalOutputResult
) -> None:
    results = [FunctionToolResult(tool=look_up, output="found")]
    context = RunContextWrapper(context=None)
    assert await judge(behavior, context, results, owner="Agent 'A'") == verdict


async def test_a_verdict_that_is_none_is_an_error_that_names_the_agent() -> None:
    def confused(context: object, results: object) -> Any:
        return True

    with pytest.raises(UserError, match="Agent 'A': tool_use_behavior returned bool: return Tools"):
        await judge(confused, RunContextWrapper(context=None), [], owner="Agent 'A'")


@pytest.mark.parametrize(
    "behavior",
    ["run_llm_again", "stop_on_first_tool", {"stop_at_tool_names": ["a"]}, last_one, never],
)
def test_the_four_forms_are_taken(behavior: Any) -> None:
    check_tool_use_behavior("Agent 'A': tool_use_behavior", behavior)


def test_an_unknown_key_has_no_effect_and_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    behavior: Any = {"stop_at_tools_names": ["a"]}
    check_tool_use_behavior("Agent 'A': tool_use_behavior", behavior)
    assert "Agent 'A': tool_use_behavior has the unknown key 'stop_at_tools_names'" in caplog.text
    assert final_call(behavior, ["a"]) is None


def takes_one(context: object) -> None: ...


@pytest.mark.parametrize(
    ("behavior", "problem"),
    [
        ("stop", "must be 'run_llm_again', 'stop_on_first_tool', .* not 'stop'"),
        (None, "not None"),
        (ToolsToFinalOutputResult, "not <class"),
        (
            {"stop_at_tool_names": "a"},
            r"as a dict is StopAtTools\(stop_at_tool_names=\['name'\]\), with a list of tools' names",
        ),
        ({"stop_at_tool_names": [look_up]}, "with a list of tools' names"),
        (takes_one, r"is called with \(context, results\), but takes_one takes"),
    ],
)
def test_another_form_is_refused_by_name(behavior: Any, problem: str) -> None:
    with pytest.raises(UserError, match=f"^Agent 'A':.* tool_use_behavior.*{problem}"):
        check_tool_use_behavior("Agent 'A': tool_use_behavior", behavior)


def test_tools_run_all_at_once_unless_told_otherwise() -> None:
    config = ToolExecutionConfig()
    assert config.max_function_tool_concurrency is None
    assert config.pre_approval_tool_input_guardrails is False
    assert ToolExecutionConfig(max_function_tool_concurrency=1).max_function_tool_concurrency == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"max_function_tool_concurrency": 0},
        {"max_function_tool_concurrency": True},
        {"max_function_tool_concurrency": "2"},
        {"pre_approval_tool_input_guardrails": 1},
    ],
)
def test_an_execution_that_makes_no_sense_is_refused_by_name(fields: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=next(iter(fields))):
        ToolExecutionConfig(**fields)


def test_the_type_of_a_behaviour_says_of_which_context_it_is() -> None:
    def take(behavior: ToolsToFinalOutputFunction[int]) -> None: ...

    parameters, _ = get_args(take.__annotations__["behavior"])
    assert parameters[0] == RunContextWrapper[int]
