"""Deferred tools, namespaces and the search for them."""

from collections.abc import Callable
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.agents.registry import Registry
from outlast.agents.tools.custom import CustomTool
from outlast.agents.tools.function_tool import function_tool
from outlast.agents.tools.hosted import HostedMCPTool, WebSearchTool
from outlast.agents.tools.search import ToolSearchTool, tool_namespace
from outlast.models.openai.chat_request import UnsupportedItemError, chat_body
from outlast.ports.model import ModelRequest
from outlast.ports.model_arguments import function_specs


@function_tool(defer_loading=True)
def refund() -> str:
    """Pay back."""
    return "paid"


@function_tool
def look() -> str:
    """Look."""
    return "seen"


MCP = {"type": "mcp", "server_label": "crm", "server_url": "https://x", "defer_loading": True}


NO_FUNCTIONS: list[Any] = [WebSearchTool()]


def free(context: Any, text: str) -> str:
    return text


def test_a_namespace_holds_copies() -> None:
    crm = tool_namespace(name=" crm ", description="Customers.", tools=[look])
    assert (crm[0].name, crm[0].namespace and crm[0].namespace.name) == ("look", "crm")
    assert look.namespace is None
    Registry([Agent(name="A", tools=[*crm])])
    Registry([Agent(name="A", tools=[*crm, ToolSearchTool()])])
    Registry([Agent(name="A", tools=[HostedMCPTool(MCP), ToolSearchTool(description="Find.")])])


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: tool_namespace(name="", description="x", tools=[look]), "name=...) must be"),
        (lambda: tool_namespace(name="x", description=None, tools=[look]), "description=...)"),
        (lambda: tool_namespace(name="x", description="x", tools=NO_FUNCTIONS), "function"),
        (lambda: ToolSearchTool(execution="client"), "the provider searches"),
        (lambda: ToolSearchTool(parameters={1, 2}), "cannot be sent"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], Any], problem: str) -> None:
    with pytest.raises(UserError) as caught:
        make()
    assert problem in str(caught.value)


def test_a_custom_tool_can_be_deferred() -> None:
    tool = CustomTool("sql", "Query.", free, defer_loading=True)
    assert tool.to_tool_param()["defer_loading"] is True
    assert "defer_loading" not in CustomTool("sql", "Query.", free).to_tool_param()
    Registry([Agent(name="A", tools=[tool, ToolSearchTool()])])


@pytest.mark.parametrize(
    "tool", [refund, tool_namespace(name="crm", description="x", tools=[look])[0]]
)
def test_chat_completions_has_no_search(tool: Any) -> None:
    request = ModelRequest(instructions=None, input=[], tools=function_specs([tool], []))
    with pytest.raises(UnsupportedItemError, match="only supported with OpenAI Responses models"):
        chat_body(request, "m")
