"""A tool that could not work is refused where it is made, with a sentence that says what to do."""

import functools
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest

from outlast.agents.context.wrapper import RunContextWrapper, ToolContext
from outlast.agents.errors import UserError
from outlast.agents.tools.definition import (
    FunctionTool,
    ToolRetry,
)
from outlast.agents.tools.function_tool import function_tool


class Desk:
    """Something with methods."""

    def add(self, a: int) -> int:
        return a


def empty() -> None:
    """Say nothing."""


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: None, r"A lambda has no name .*name_override"),
        (functools.partial(lambda: None), r"A lambda has no name"),
        (generator, r"generator is a generator\. A tool returns one result: return a list"),
        (async_generator, r"async_generator is a generator"),
        (Desk, r"function_tool makes tools of functions, not of <class"),
        (7, r"function_tool makes tools of functions, not of 7"),
        (Desk.add, r"Tool 'add': Desk\.add is a method without its object"),
    ],
)
def test_what_cannot_be_a_tool_is_refused(function: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        function_tool(function)


async def gate(ctx: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
    return bool(ctx and arguments and call_id)


def takes_two(a: object, b: object) -> bool:
    return a is b


def takes_one(a: object) -> bool:
    return bool(a)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": 0}, "timeout must be a positive timedelta"),
        ({"timeout": timedelta(seconds=-1)}, "timeout must be a positive timedelta"),
        ({"timeout": float("nan")}, "timeout must be a positive timedelta or seconds, not nan"),
        ({"timeout": float("inf")}, "timeout must be a positive timedelta or seconds, not inf"),
        ({"timeout": "5s"}, "timeout must be a positive timedelta or seconds, not '5s'"),
        ({"timeout": True}, "timeout must be a positive timedelta or seconds, not True"),
        ({"retry": 0}, r"retry=0: ToolRetry\(attempts=...\) must be a whole number from 1"),
        ({"retry": 1.5}, "retry=1.5: "),
        ({"retry": True}, "retry=True: "),
        ({"effect": "write"}, "effect"),
        ({"fast": True, "needs_approval": True}, "fast=True does not go with needs_approval"),
        ({"fast": True, "needs_approval": gate}, "fast=True does not go with needs_approval"),
        (
            {"needs_approval": takes_two},
            r"needs_approval is called with \(context, arguments, call_id\), but takes_two takes",
        ),
        ({"needs_approval": "yes"}, "needs_approval must be callable with .*, not str"),
        ({"is_enabled": takes_one}, r"is_enabled is called with \(context, agent\), but takes_one"),
        ({"is_enabled": None}, "is_enabled must be callable"),
        (
            {"failure_error_function": takes_one},
            r"failure_error_function is called with \(context, error\), but takes_one",
        ),
        ({"docstring_style": "epytext"}, "docstring_style must be one of 'auto', 'google'"),
        (
            {"max_retries": 3, "approve": True},
            "no option approve, max_retries. Its options are is_enabled",
        ),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_by_name(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=f"^Tool 'empty': .*{message}"):
        function_tool(empty, **options)


@pytest.mark.parametrize("name", ["", "two words", "x" * 65, "a.b", "a\n", 7])
def test_a_name_that_no_provider_takes_is_refused(name: Any) -> None:
    with pytest.raises(UserError, match="A tool's name must be 1 to 64 letters"):
        function_tool(empty, name_override=name)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"initial_interval": timedelta(0)}, "initial_interval"),
        ({"initial_interval": 5}, "initial_interval"),
        ({"maximum_interval": timedelta(milliseconds=1)}, "maximum_interval"),
        ({"backoff": 0.5}, "backoff"),
        ({"backoff": float("nan")}, "backoff"),
    ],
)
def test_a_retry_policy_that_makes_no_sense_is_refused(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=rf"ToolRetry\({message}="):
        ToolRetry(**fields)


def test_what_strict_mode_cannot_express_is_refused_with_the_tool() -> None:
    def search(filters: dict[str, str]) -> None: ...

    with pytest.raises(UserError, match=r"^Tool 'search': 'filters' accepts any keys"):
        function_tool(search)
    assert function_tool(search, strict_mode=False).strict_json_schema is False


async def run_by_hand(context: ToolContext[Any], arguments: str) -> str:
    return f"{context.tool_name} {arguments}"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("on_invoke_tool", takes_one, r"on_invoke_tool is called with \(context, arguments\)"),
        ("timeout", -30, "timeout must be a positive timedelta or seconds, not datetime"),
        ("params_json_schema", {"type": "array"}, "the schema is not an object"),
    ],
)
def test_a_mistake_in_a_tool_made_by_hand_is_found_at_once(
    field: str, value: Any, message: str
) -> None:
    fields: dict[str, Any] = {
        "name": "by_hand",
        "description": "d",
        "params_json_schema": {},
        "on_invoke_tool": run_by_hand,
    }
    with pytest.raises(UserError, match=f"^Tool 'by_hand': {message}"):
        FunctionTool(**(fields | {field: value}))
