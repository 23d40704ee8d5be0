"""Tools that take plain text."""

from dataclasses import dataclass
from typing import Any

import pytest

from outlast.agents.context.wrapper import RunContextWrapper, ToolContext
from outlast.agents.errors import UserError
from outlast.agents.items.tool_output import ToolOutputImage
from outlast.agents.tools.custom import CustomTool

GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": 'start: "a"'}
IMAGE = {"type": "input_image", "image_url": "https://x.org/a.png"}


@dataclass
class Shop:
    """A context."""


async def query(context: ToolContext[Shop], text: str) -> str:
    return f"{context.tool_name}: {text}"


def context() -> ToolContext[Any]:
    return ToolContext[Any](
        context=None, tool_name="sql", tool_call_id="c1", tool_arguments="", agent=None
    )


def test_the_provider_is_told_of_the_format_where_there_is_one() -> None:
    entry = {"type": "custom", "name": "sql", "description": "Runs SQL."}
    assert CustomTool("sql", "Runs SQL.", query).to_tool_param() == entry
    tool = CustomTool("sql", "Runs SQL.", query, GRAMMAR)
    assert tool.to_tool_param() == {**entry, "format": GRAMMAR}
    assert tool.format is GRAMMAR


@pytest.mark.parametrize(
    ("returned", "read"),
    [
        ("text", "text"),
        ({"a": 1}, '{"a":1}'),
        (None, "null"),
        (ToolOutputImage(image_url="https://x.org/a.png"), [IMAGE]),
    ],
)
async def test_a_result_is_read_as_that_of_a_function(returned: Any, read: Any) -> None:
    def answer(_context: Any, _text: str) -> Any:
        return returned

    assert await CustomTool("sql", "", answer).on_invoke_tool(context(), "SELECT 1") == read


async def test_the_function_may_be_async_and_knows_its_context() -> None:
    tool = CustomTool("sql", "", query)
    assert await tool.on_invoke_tool(context(), "SELECT 1") == "sql: SELECT 1"
    assert tool.context_type is Shop


def test_any_text_fits_and_is_what_a_rule_is_asked_about() -> None:
    tool = CustomTool("sql", "", query)
    assert tool.validate is not None
    assert tool.validate("{not json") is None
    assert tool.approval_subject(RunContextWrapper(None), "{not json") == "{not json"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": object()}, "cannot be sent"),
        ({"on_invoke_tool": lambda: None}, "on_invoke_tool is called with"),
        ({"name": "a b"}, "A tool's name must be"),
    ],
)
def test_a_mistake_is_found_where_it_is_made(options: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"name": "sql", "description": "", "on_invoke_tool": query}
    with pytest.raises(UserError, match=message):
        CustomTool(**given | options)
