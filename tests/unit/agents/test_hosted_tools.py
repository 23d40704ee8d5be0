"""Tools that the provider runs: what the Responses API is told of them."""

import json
from typing import Any

import pytest
from openai.types.responses import ToolParam
from openai.types.responses.web_search_tool import Filters
from pydantic import TypeAdapter

from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.agents.registry import Registry
from outlast.agents.tools.function_tool import function_tool
from outlast.agents.tools.hosted import (
    CodeInterpreterTool,
    FileSearchTool,
    HostedMCPTool,
    HostedTool,
    ImageGenerationTool,
    WebSearchTool,
    function_tools,
    hosted_tools,
)

DECLARED: TypeAdapter[Any] = TypeAdapter(ToolParam)

MCP = {"type": "mcp", "server_label": "git", "server_url": "https://a.example", "headers": None}


@function_tool
def look_up() -> str:
    """Look something up."""
    return "found"


ALL = [
    WebSearchTool(user_location={"type": "approximate", "city": "Oslo"}),
    FileSearchTool(vector_store_ids=["vs_1"], max_num_results=3),
    CodeInterpreterTool({"type": "code_interpreter", "container": {"type": "auto"}}),
    ImageGenerationTool({"type": "image_generation", "quality": "low"}),
    HostedMCPTool(MCP),
]


@pytest.mark.parametrize("tool", ALL, ids=lambda tool: tool.name)
def test_its_entry_is_one_that_the_api_declares(tool: HostedTool) -> None:
    entry = tool.to_tool_param()
    assert DECLARED.validate_python(entry)
    assert json.loads(json.dumps(entry)) == entry


def test_options_that_are_not_set_are_not_sent() -> None:
    assert WebSearchTool().to_tool_param() == {
        "type": "web_search",
        "search_context_size": "medium",
    }


def test_a_web_search_for_pictures_says_so_and_wants_to_see_what_it_found() -> None:
    tool = WebSearchTool(search_content_types=["text", "image"], image_settings={"max_results": 3})
    entry = tool.to_tool_param()
    assert entry["search_content_types"] == ["text", "image"]
    assert entry["image_settings"] == {"max_results": 3}
    assert tool.include == ["web_search_call.results"]
    assert WebSearchTool(search_content_types=["text"]).include == []


def test_the_packages_own_records_will_do_as_options() -> None:
    tool = WebSearchTool(filters=Filters(allowed_domains=["a.example"]))
    assert tool.to_tool_param()["filters"] == {"allowed_domains": ["a.example"]}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WebSearchTool(filters=object()), "cannot be sent"),
        (lambda: FileSearchTool(vector_store_ids="vs_1"), "must be a list, not .vs_1"),  # pyright: ignore[reportArgumentType]
        (lambda: CodeInterpreterTool({"type": "mcp"}), "'type': 'code_interpreter'"),
        (lambda: HostedMCPTool(None), "'type': 'mcp'"),
        (
            lambda: HostedMCPTool(MCP, on_approval_request=lambda: None),  # pyright: ignore[reportArgumentType]
            r"is called with \(request\)",
        ),
    ],
)
def test_a_mistake_is_found_where_it_is_made(make: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()


def test_an_agent_has_them_beside_its_own() -> None:
    agent = Agent[Any](name="A", tools=[look_up, *ALL])
    assert function_tools(agent.tools) == [look_up]
    assert hosted_tools(agent.tools) == ALL


def test_two_of_a_kind_are_no_two_tools_of_a_name() -> None:
    stores = [FileSearchTool(vector_store_ids=[one]) for one in ("a", "b")]
    registry = Registry([Agent[Any](name="A", tools=[look_up, *stores])])
    assert registry.tool("A", "look_up") is look_up
    with pytest.raises(UserError, match="has no tool 'file_search'"):
        registry.tool("A", "file_search")


def test_one_that_is_written_by_hand_fits_too() -> None:
    class NewTool:
        name = "brand_new"

        def to_tool_param(self) -> dict[str, Any]:
            return {"type": "brand_new"}

    assert Agent[Any](name="A", tools=[NewTool()]).tools[0].name == "brand_new"
