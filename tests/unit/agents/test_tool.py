"""`function_tool` makes a tool of a function, and refuses what could not work."""

import asyncio
import functools
import inspect
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import RunContextWrapper, ToolContext
from outlast.agents.errors import ModelBehaviorError, ToolTimeoutError, UserError
from outlast.agents.guardrails.tool_guardrails import (
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    ToolOutputGuardrailData,
    tool_input_guardrail,
    tool_output_guardrail,
)
from outlast.agents.tools.definition import (
    FunctionTool,
    ToolRetry,
    default_tool_error,
)
from outlast.agents.tools.function_tool import function_tool


@dataclass
class Shop:
    name: str = "corner shop"


def context_for(tool: FunctionTool) -> ToolContext[Any]:
    return ToolContext[Any](
        context=Shop(),
        tool_name=tool.name,
        tool_call_id="call-1",
        tool_arguments="{}",
        agent=Agent(name="a", tools=[tool]),
    )


async def invoke(tool: FunctionTool, arguments: str) -> Any:
    return await tool.on_invoke_tool(context_for(tool), arguments)


@function_tool
def bare(ctx: ToolContext[Shop], order_id: str, limit: int = 3) -> str:
    """Look up an order.

    Args:
        order_id: Which one.
    """
    return f"{ctx.context.name}: {order_id} {limit}"


def test_the_function_of_a_tool_can_be_reached() -> None:
    def double(number: int) -> int:
        return 2 * number

    tool = function_tool(double)
    by_hand = FunctionTool("by_hand", "d", {}, tool.on_invoke_tool.__call__)

    assert tool.__wrapped__ is replace(tool, name="twice").__wrapped__ is double
    assert not hasattr(by_hand, "__wrapped__")
    assert inspect.signature(FunctionTool).parameters["name"]
    with pytest.raises(AttributeError, match="cannot be set"):
        tool.__wrapped__ = double


async def test_a_parameter_without_a_type_takes_any_value() -> None:
    def show(thing: Any, *, pair: tuple[int, str] = (1, "a")) -> Any:
        return thing, pair

    del show.__annotations__["thing"]
    tool = function_tool(show)

    assert tool.strict_json_schema is False
    assert tool.params_json_schema["properties"]["thing"] == {}
    assert await invoke(tool, '{"thing": {"a": [1]}, "pair": [2, "b"]}') == ({"a": [1]}, (2, "b"))
    assert tool.validate is not None
    assert tool.validate('{"pair": [2, "b"]}') is not None
    assert tool.validate('{"thing": 1, "more": 2}') is not None


def test_a_bare_decorator_makes_a_tool_with_safe_defaults() -> None:
    assert isinstance(bare, FunctionTool)
    assert bare.name == "bare"
    assert bare.description == "Look up an order."
    assert bare.context_type is Shop
    assert bare.params_json_schema == {
        "type": "object",
        "properties": {
            "order_id": {"type": "string", "description": "Which one."},
            "limit": {"type": "integer", "description": "(default: 3)"},
        },
        "required": ["order_id", "limit"],
        "additionalProperties": False,
    }
    assert bare.strict_json_schema is True
    assert bare.needs_approval is False
    assert bare.timeout == timedelta(minutes=2)
    assert bare.retry == ToolRetry(attempts=3, errors=False)
    assert not bare.retries_errors
    assert bare.fast is None
    assert bare.is_enabled is True
    assert bare.failure_error_function is default_tool_error


async def gate(ctx: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
    return bool(ctx and arguments and call_id)


def offered(ctx: RunContextWrapper[Any], agent: Agent[Any]) -> bool:
    return bool(ctx and agent)


def explain(ctx: RunContextWrapper[Any], error: Exception) -> str:
    return f"{ctx.run_id}: {error}"


def test_every_option_lands_in_the_record() -> None:
    @function_tool(
        name_override="find",
        description_override="Find it.",
        docstring_style="google",
        use_docstring_info=False,
        strict_mode=False,
        needs_approval=gate,
        timeout=timedelta(seconds=5),
        retry=ToolRetry(attempts=7),
        is_enabled=offered,
        failure_error_function=explain,
    )
    def function(words: dict[str, int]) -> None:
        """Not this.

        Args:
            words: Not this either.
        """

    assert (function.name, function.description) == ("find", "Find it.")
    assert "description" not in function.params_json_schema["properties"]["words"]
    assert function.strict_json_schema is False
    assert function.needs_approval is gate
    assert function.timeout == timedelta(seconds=5)
    assert function.retry.attempts == 7
    assert function.is_enabled is offered
    assert function.failure_error_function is explain


def explain_lateness(ctx: RunContextWrapper[Any], error: Exception) -> str:
    return "late"


@tool_input_guardrail
def no_secrets(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
    return ToolGuardrailFunctionOutput.allow()


@tool_output_guardrail
def no_numbers(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
    return ToolGuardrailFunctionOutput.allow()


def test_guardrails_and_what_a_late_tool_does_land_in_the_record() -> None:
    tool = function_tool(
        empty,
        timeout_behavior="raise_exception",
        timeout_error_function=explain_lateness,
        tool_input_guardrails=[no_secrets],
        tool_output_guardrails=[no_numbers],
    )
    assert (tool.timeout_behavior, tool.timeout_error_function) == (
        "raise_exception",
        explain_lateness,
    )
    assert (tool.tool_input_guardrails, tool.tool_output_guardrails) == ([no_secrets], [no_numbers])
    bare = function_tool(empty, tool_input_guardrails=None)
    assert (bare.tool_input_guardrails, bare.tool_output_guardrails) == ([], [])
    assert (bare.timeout_behavior, bare.timeout_error_function) == ("error_as_result", None)


def test_the_function_may_be_passed_by_name() -> None:
    def find(order: str) -> str:
        """Find an order."""
        return order

    tool = function_tool(func=find, name_override="look_up")
    assert (tool.name, tool.description) == ("look_up", "Find an order.")
    misspelt: Any = {"function": find}
    with pytest.raises(UserError, match=r"function_tool has no option function\."):
        function_tool(**misspelt)


def test_options_may_be_given_with_the_function() -> None:
    def function(a: int) -> int:
        return a

    tool = function_tool(function, name_override="other", fast=True, failure_error_function=None)

    assert tool.name == "other"
    assert tool.fast is True
    assert tool.failure_error_function is None


def empty() -> None:
    """Say nothing."""


@pytest.mark.parametrize(
    ("timeout", "expected"),
    [
        (None, timedelta(minutes=2)),
        (30, timedelta(seconds=30)),
        (0.5, timedelta(milliseconds=500)),
        (timedelta(hours=1), timedelta(hours=1)),
    ],
)
def test_a_number_as_timeout_is_seconds(
    timeout: timedelta | float | None, expected: timedelta
) -> None:
    assert function_tool(empty, timeout=timeout).timeout == expected


def test_a_number_as_retry_is_the_number_of_attempts() -> None:
    assert function_tool(empty, retry=1).retry == ToolRetry(attempts=1)


def test_an_empty_description_override_is_taken_as_it_is() -> None:
    assert function_tool(empty, description_override="").description == ""


class Desk:
    """Something with methods."""

    def add(self, a: int, b: int = 2) -> int:
        return a + b

    async def add_slowly(self, a: int, b: int = 2) -> int:
        await asyncio.sleep(0)
        return a + b

    @staticmethod
    def static(a: int, b: int = 2) -> int:
        return a + b

    def __call__(self, a: int, b: int = 2) -> int:
        return a + b


def add(a: int, b: int = 2) -> int:
    return a + b


async def add_slowly(a: int, b: int = 2) -> int:
    await asyncio.sleep(0)
    return a + b


def returns_awaitable(a: int, b: int = 2) -> Awaitable[int]:
    return add_slowly(a, b)


@functools.wraps(add)
def wrapped(*args: Any, **kwargs: Any) -> Any:
    return add(*args, **kwargs)


def of_three(factor: int, a: int, b: int = 2) -> int:
    return factor * (a + b)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (add, "add"),
        (add_slowly, "add_slowly"),
        (returns_awaitable, "returns_awaitable"),
        pytest.param(Desk().add, "add", id="bound method"),
        pytest.param(Desk().add_slowly, "add_slowly", id="bound async method"),
        (Desk.static, "static"),
        (Desk(), "Desk"),
        (functools.partial(of_three, 1), "of_three"),
        (functools.partial(of_three, factor=1), "of_three"),
        (functools.partial(Desk()), "Desk"),
        pytest.param(wrapped, "add", id="wrapped"),
    ],
)
async def test_every_kind_of_callable_becomes_a_tool_that_runs(
    function: Callable[..., Any], name: str
) -> None:
    tool = function_tool(function)

    assert tool.name == name
    assert list(tool.params_json_schema["properties"]) == ["a", "b"]
    assert await invoke(tool, '{"a": 1}') == 3
    assert await invoke(tool, '{"a": 1, "b": 4}') == 5


async def test_the_context_is_handed_over() -> None:
    assert await invoke(bare, '{"order_id": "A-17"}') == "corner shop: A-17 3"


async def test_a_sync_function_runs_beside_the_event_loop_and_an_async_one_on_it() -> None:
    @function_tool
    def beside() -> int:
        return threading.get_ident()

    @function_tool
    async def on() -> int:
        return threading.get_ident()

    assert await invoke(beside, "{}") != threading.get_ident()
    assert await invoke(on, "{}") == threading.get_ident()


async def test_arguments_that_do_not_fit_never_reach_the_function() -> None:
    calls: list[int] = []

    @function_tool
    def count(a: int) -> None:
        calls.append(a)

    with pytest.raises(ModelBehaviorError, match="Invalid JSON input for tool count") as caught:
        await invoke(count, '{"a": "x"}')

    assert calls == []
    assert count.validate is not None
    assert count.validate('{"a": "x"}') == caught.value.message
    assert count.validate('{"a": 1}') is None


async def test_what_the_function_raises_comes_through() -> None:
    @function_tool
    def fail() -> None:
        raise LookupError("no such order")

    with pytest.raises(LookupError, match="no such order"):
        await invoke(fail, "")


def test_the_model_is_told_that_a_tool_failed_and_nothing_of_why() -> None:
    error = RuntimeError("password=hunter2 at /srv/app.py")
    context = context_for(bare)

    assert default_tool_error(context, error) == (
        "The tool bare failed and returned no result. It may have had an effect."
    )
    assert default_tool_error(context, ToolTimeoutError("hunter2")) == (
        "The tool bare timed out and returned no result. It may have had an effect."
    )
    assert default_tool_error(RunContextWrapper(context=None), error).startswith("The tool failed")


async def test_a_lambda_with_a_name_is_a_tool() -> None:
    tool = function_tool(lambda: "pong", name_override="ping")

    assert await invoke(tool, "") == "pong"


def test_annotations_may_name_classes_local_to_the_function_that_makes_the_tool() -> None:
    @dataclass
    class Local:
        x: int

    def function(a: "Local") -> None: ...

    @function_tool(name_override="other")
    def decorated(a: "Local") -> None: ...

    for tool in (function_tool(function), decorated):
        assert "Local" in tool.params_json_schema["$defs"]


async def run_by_hand(context: ToolContext[Any], arguments: str) -> str:
    return f"{context.tool_name} {arguments}"


async def test_a_tool_made_by_hand_has_its_schema_made_strict() -> None:
    tool = FunctionTool(
        name="by_hand",
        description="d",
        params_json_schema={"type": "object", "properties": {"a": {"type": "string"}}},
        on_invoke_tool=run_by_hand,
    )

    assert tool.params_json_schema["required"] == ["a"]
    assert tool.params_json_schema["additionalProperties"] is False
    assert replace(tool, fast=True).params_json_schema == tool.params_json_schema
    assert await invoke(tool, "{}") == "by_hand {}"


def test_a_tool_made_by_hand_keeps_a_schema_that_is_not_strict() -> None:
    loose = {"type": "object", "additionalProperties": True}

    tool = FunctionTool(
        name="by_hand",
        description="d",
        params_json_schema=loose,
        on_invoke_tool=run_by_hand,
        strict_json_schema=False,
    )

    assert tool.params_json_schema is loose


def test_importing_the_module_loads_no_asyncio() -> None:
    program = (
        "import sys, outlast.agents.tools.function_tool, outlast.agents.items.tool_output\n"
        "print(*sorted({'asyncio', 'docstring_parser'} & sys.modules.keys()))"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )

    assert done.stdout.strip() == ""
