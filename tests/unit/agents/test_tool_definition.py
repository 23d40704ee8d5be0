"""Tools as records."""

import logging
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any

import pytest
from pydantic import Field

from outlast.agents.context.wrapper import RunContextWrapper, ToolContext
from outlast.agents.errors import UserError
from outlast.agents.guardrails.tool_guardrails import (
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    ToolOutputGuardrailData,
    tool_input_guardrail,
    tool_output_guardrail,
)
from outlast.agents.tools.definition import FunctionTool, check_tool_name, title_of_stranger
from outlast.agents.tools.function_tool import function_tool


async def echo(context: ToolContext[Any], arguments: str) -> str:
    return f"{context.tool_name} {arguments}"


@tool_input_guardrail
def no_secrets(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
    return ToolGuardrailFunctionOutput.allow()


@tool_output_guardrail
def no_numbers(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
    return ToolGuardrailFunctionOutput.allow()


def by_hand(**options: Any) -> FunctionTool:
    return FunctionTool(
        name="echo", description="d", params_json_schema={}, on_invoke_tool=echo, **options
    )


def test_a_tool_needs_four_fields_which_may_be_given_by_place() -> None:
    tool = FunctionTool("echo", "d", {}, echo)
    assert (tool.name, tool.description, tool.on_invoke_tool) == ("echo", "d", echo)
    assert tool.params_json_schema["additionalProperties"] is False
    assert (tool.timeout, tool.timeout_behavior) == (timedelta(minutes=2), "error_as_result")
    assert (tool.tool_input_guardrails, tool.tool_output_guardrails) == ([], [])
    assert (tool.timeout_error_function, tool.validate) == (None, None)


def test_guardrails_are_given_or_put_on_later() -> None:
    tool = by_hand(tool_input_guardrails=[no_secrets], tool_output_guardrails=[no_numbers])
    assert (tool.tool_input_guardrails, tool.tool_output_guardrails) == ([no_secrets], [no_numbers])
    later = by_hand(tool_input_guardrails=None)
    later.tool_output_guardrails = [no_numbers]
    later.tool_input_guardrails.append(no_secrets)
    assert by_hand().tool_input_guardrails == [], "tools share no lists"


def test_an_approval_rule_may_be_a_callable() -> None:
    def expensive(ctx: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
        return True

    assert by_hand(needs_approval=expensive).needs_approval is expensive


@pytest.mark.parametrize("name", ["timeout", "timeout_seconds"])
def test_a_timeout_is_a_duration_or_seconds_under_either_name(name: str) -> None:
    assert by_hand(**{name: 1.5}).timeout == timedelta(seconds=1.5)
    tool = by_hand(**{name: 3})
    assert replace(tool, description="x").timeout == timedelta(seconds=3)
    assert replace(tool, timeout=4).timeout == timedelta(seconds=4)
    tool.timeout = timedelta(seconds=5)
    assert tool.timeout == timedelta(seconds=5)


def late(context: object, error: Exception) -> str:
    return "too late"


def test_what_a_late_tool_does_is_chosen() -> None:
    tool = by_hand(timeout_behavior="raise_exception", timeout_error_function=late)
    assert (tool.timeout_behavior, tool.timeout_error_function) == ("raise_exception", late)


def takes_one(a: object) -> str:
    return str(a)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"timeout_seconds": 0}, "timeout must be a positive timedelta or seconds"),
        ({"timeout": "1"}, "timeout must be a positive timedelta or seconds, not '1'"),
        (
            {"timeout_behavior": "wait"},
            "timeout_behavior must be one of 'error_as_result', 'raise_exc",
        ),
        ({"timeout_error_function": takes_one}, r"timeout_error_function is called with \(context"),
        ({"tool_input_guardrails": no_secrets}, "tool_input_guardrails must be a list, not ToolI"),
        (
            {"tool_input_guardrails": [takes_one]},
            "tool_input_guardrails holds takes_one: decorate it with @tool_input_guard",
        ),
        (
            {"tool_output_guardrails": [no_secrets]},
            "tool_output_guardrails holds .*: decorate it with @tool_output_guardrail",
        ),
    ],
)
def test_a_field_that_does_not_fit_is_refused_with_the_tool(
    options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UserError, match=f"^Tool 'echo': .*{problem}"):
        by_hand(**options)


@pytest.mark.parametrize(
    ("schema", "problem"),
    [(None, "it is NoneType"), ("{}", "it is str"), ({"default": late}, "not JSON serializable")],
)
def test_a_schema_that_is_no_json_is_refused_with_the_tool(schema: Any, problem: str) -> None:
    with pytest.raises(UserError, match=f"Tool 'echo': params_json_schema must be .*{problem}"):
        FunctionTool("echo", "d", schema, echo)


@pytest.mark.parametrize(
    "loose",
    [
        pytest.param({}, id="any value"),
        pytest.param({"type": "array"}, id="a list of anything"),
        pytest.param({"type": "array", "prefixItems": [{"type": "string"}]}, id="a tuple"),
    ],
)
def test_a_schema_that_strict_mode_has_no_words_for_is_offered_without_it(
    loose: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    schema = {"type": "object", "properties": {"p": loose}, "required": ["p"]}
    with caplog.at_level(logging.WARNING):
        tool = FunctionTool("echo", "d", schema, echo)

    assert (tool.strict_json_schema, tool.params_json_schema) == (False, schema)
    assert "Tool 'echo': 'p" in caplog.text
    with pytest.raises(UserError, match="'p' accepts any keys"):
        FunctionTool("echo", "d", {"type": "object", "properties": {"p": {"type": "object"}}}, echo)


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param({"any": {}, "free": {"type": "object"}}, id="after a value of any type"),
        pytest.param({"any": {"anyOf": [{}, {"type": "object"}]}}, id="beside one"),
        pytest.param({"any": {}, "ref": {"$ref": "#/$defs/Free"}}, id="in a definition"),
    ],
)
def test_free_keys_are_refused_wherever_they_are(properties: dict[str, Any]) -> None:
    definitions = {"Free": {"type": "object", "additionalProperties": True}}
    schema = {"type": "object", "properties": properties, "$defs": definitions}
    with pytest.raises(UserError, match="accepts any keys"):
        FunctionTool("echo", "d", schema, echo)


def test_a_name_is_what_providers_take() -> None:
    check_tool_name("refund_order-2")
    with pytest.raises(UserError, match="must be 1 to 64 letters"):
        check_tool_name("refund order")


def test_two_tools_are_the_same_only_if_they_are_one() -> None:
    assert by_hand() != by_hand()
    assert len({by_hand(), by_hand()}) == 2


# --- What people read ------------------------------------------------------------------------------


def test_a_tool_and_its_arguments_have_titles_that_the_model_does_not_read() -> None:
    @function_tool(title="Refund")
    def refund(amount: Annotated[float, Field(title="Amount in EUR")], order_id: str) -> str:
        """Refund an order."""
        return f"{amount} {order_id}"

    assert (refund.title, refund.argument_titles) == ("Refund", {"amount": "Amount in EUR"})
    assert "Amount in EUR" not in str(refund.params_json_schema)
    assert "Refund" not in refund.description.replace("Refund an order.", "")
    again = replace(refund, needs_approval=True)
    assert (again.title, again.argument_titles) == ("Refund", {"amount": "Amount in EUR"})


def test_titles_may_be_given_by_hand() -> None:
    tool = by_hand(title="Say it again", argument_titles={"text": "Words"})
    assert (tool.title, tool.argument_titles) == ("Say it again", {"text": "Words"})
    assert by_hand().title is None


@pytest.mark.parametrize(
    "options",
    [
        {"title": ""},
        {"title": 7},
        {"title": "a\nb"},
        {"title": "\u202eab"},
        {"title": "x" * 81},
        {"argument_titles": ["a"]},
        {"argument_titles": {"a": "x\ny"}},
    ],
)
def test_a_title_that_people_cannot_read_is_refused(options: Any) -> None:
    with pytest.raises(UserError, match="title"):
        by_hand(**options)


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        (" A\n b ", "A b"),
        ("\u202ex", "\\u202ex"),
        ("x" * 500, "x" * 80),
        (7, ""),
        (None, ""),
        ("\n", ""),
    ],
)
def test_titles_of_strangers_are_visible_and_short(title: object, shown: str) -> None:
    assert title_of_stranger(title) == shown
    schema = {"type": "object", "properties": {"a": {"title": title}, "b": 7, "c": {}}}
    tool = FunctionTool("echo", "d", schema, echo, strict_json_schema=False)
    assert tool.argument_titles == ({"a": shown} if shown else {})
