"""What every MCP server has."""

from typing import Any

import pytest

from outlast.agents.errors import UserError
from outlast.agents.mcp.server import MCPServer
from outlast.agents.tools.definition import DEFAULT_RETRY, DEFAULT_TIMEOUT, default_tool_error
from tests.mcp_servers import Shelf


async def test_a_server_is_a_context_that_connects() -> None:
    shelf = Shelf()
    async with shelf as entered:
        assert entered is shelf
        assert shelf.steps == ["connect"]
    assert shelf.steps == ["connect", "cleanup"]


def test_the_defaults() -> None:
    shelf = Shelf()
    assert shelf.approval is False
    assert not shelf.use_structured_content
    assert shelf.cached_tools is None
    assert (shelf.tool_timeout, shelf.tool_retry) == (DEFAULT_TIMEOUT, DEFAULT_RETRY)


def test_what_tells_of_failures_is_the_servers_before_the_agents() -> None:
    def own(_context: Any, _error: Exception) -> str:
        return "no"

    assert Shelf().failure_error_function(default_tool_error) is default_tool_error
    assert Shelf().failure_error_function(None) is None
    assert Shelf(failure_error_function=own).failure_error_function(None) is own
    assert Shelf(failure_error_function=None).failure_error_function(own) is None


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"require_approval": "perhaps"}, "require_approval is 'perhaps'"),
        ({"failure_error_function": lambda: ""}, "failure_error_function is called with"),
        ({"tool_meta_resolver": {}}, "tool_meta_resolver must be callable"),
        ({"custom_data_extractor": {}}, "custom_data_extractor must be callable"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: Any, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        Shelf(**options)


async def test_a_class_of_ones_own_need_not_call_the_constructor() -> None:
    class Bare(Shelf):
        def __init__(self) -> None:
            self.steps = []

    bare: MCPServer = Bare()
    assert bare.approval is False
    assert bare.failure_error_function(None) is None
    await MCPServer.release(bare)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("list_prompts", ()),
        ("get_prompt", ("greeting", {"name": "Ann"})),
        ("list_resources", ()),
        ("list_resource_templates", ()),
        ("read_resource", ("file:///a",)),
    ],
)
async def test_what_a_server_of_ones_own_does_not_give_is_said(
    method: str, arguments: tuple[Any, ...]
) -> None:
    server: MCPServer = Shelf()
    with pytest.raises(
        NotImplementedError, match=rf"'{server.name}' does not implement {method}\("
    ):
        await getattr(server, method)(*arguments)
