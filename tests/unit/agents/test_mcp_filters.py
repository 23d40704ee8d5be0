"""The forms of `tool_filter`."""

from typing import Any

import pytest

from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.agents.mcp.filters import (
    ToolFilter,
    ToolFilterContext,
    check_tool_filter,
    create_static_tool_filter,
    filtered,
)
from tests.mcp_servers import tool

TOOLS = [tool("find"), tool("tear"), tool("read")]
CONTEXT = ToolFilterContext(RunContextWrapper(context={"role": "guest"}), "the agent", "shelf")


async def passing(tool_filter: ToolFilter) -> list[str]:
    return [one.name for one in await filtered(TOOLS, tool_filter, CONTEXT)]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ["find", "tear", "read"]),
        ({"allowed_tool_names": ["read", "find"]}, ["find", "read"]),
        ({"allowed_tool_names": []}, []),
        ({"blocked_tool_names": ["tear"]}, ["find", "read"]),
        ({"allowed_tool_names": ["tear", "find"], "blocked_tool_names": ["tear"]}, ["find"]),
    ],
)
async def test_a_filter_by_name(options: Any, names: list[str]) -> None:
    assert await passing(create_static_tool_filter(**options)) == names


def test_no_names_are_no_filter() -> None:
    assert create_static_tool_filter() is None


async def test_a_callable_decides_for_each_tool_and_knows_for_whom() -> None:
    seen: list[ToolFilterContext] = []

    def first(context: ToolFilterContext, one: Any) -> bool:
        seen.append(context)
        return one.name != "tear"

    async def second(context: ToolFilterContext, one: Any) -> bool:
        return first(context, one)

    assert await passing(first) == ["find", "read"]
    assert await passing(second) == ["find", "read"]
    assert seen == [CONTEXT] * 6


async def test_a_tool_for_which_the_filter_fails_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(_context: ToolFilterContext, one: Any) -> bool:
        return {"find": True}[one.name]

    assert await passing(broken) == ["find"]
    assert "'shelf' failed for 'tear'" in caplog.text


async def test_a_filter_cannot_change_the_tools() -> None:
    def renaming(_context: ToolFilterContext, one: Any) -> bool:
        one.name = "mine"
        return True

    assert await passing(renaming) == ["find", "tear", "read"]


async def test_a_callable_needs_to_know_for_whom() -> None:
    with pytest.raises(UserError, match="run_context and agent are required"):
        await filtered(TOOLS, lambda _context, _tool: True, None)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"allowed": []}, "create_static_tool_filter"),
        ({"allowed_tool_names": "find"}, "create_static_tool_filter"),
        (["find"], "must be callable with"),
        (lambda: True, r"S: tool_filter is called with \(context, tool\)"),
    ],
)
def test_a_filter_that_is_none_is_refused(wrong: Any, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        check_tool_filter(wrong, "S")


def passes(_context: Any, _tool: Any) -> bool:
    return True


@pytest.mark.parametrize("fits", [None, {}, {"blocked_tool_names": ["a"]}, passes])
def test_a_filter_that_is_one_is_taken(fits: Any) -> None:
    check_tool_filter(fits, "S")
