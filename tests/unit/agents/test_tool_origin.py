"""Where a tool comes from, there and back."""

import pytest

from outlast.agents.items.tool_origin import ToolOrigin, ToolOriginType


@pytest.mark.parametrize(
    ("origin", "data"),
    [
        (ToolOrigin(ToolOriginType.FUNCTION), {"type": "function"}),
        (
            ToolOrigin(ToolOriginType.MCP, mcp_server_name="files"),
            {"type": "mcp", "mcp_server_name": "files"},
        ),
        (
            ToolOrigin(ToolOriginType.AGENT_AS_TOOL, agent_name="A", agent_tool_name="ask_a"),
            {"type": "agent_as_tool", "agent_name": "A", "agent_tool_name": "ask_a"},
        ),
    ],
)
def test_an_origin_survives_json(origin: ToolOrigin, data: dict[str, str]) -> None:
    assert origin.to_json_dict() == data
    assert ToolOrigin.from_json_dict(data) == origin
