"""The origin of a called tool, as recorded in run items."""

from dataclasses import asdict, dataclass
from enum import StrEnum

from outlast.loop.values import JsonObject


class ToolOriginType(StrEnum):
    """The kind of a tool's origin."""

    FUNCTION = "function"
    MCP = "mcp"
    AGENT_AS_TOOL = "agent_as_tool"


@dataclass(frozen=True, slots=True)
class ToolOrigin:
    """The origin of a called tool.

    Attributes:
        type: the kind of origin.
        mcp_server_name: the MCP server that offers the tool.
        agent_name: the agent that runs as the tool.
        agent_tool_name: the name of the tool that the agent runs as.
    """

    type: ToolOriginType
    mcp_server_name: str | None = None
    agent_name: str | None = None
    agent_tool_name: str | None = None

    def to_json_dict(self) -> JsonObject:
        """Return the origin as JSON, without unset fields."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json_dict(cls, data: JsonObject) -> "ToolOrigin":
        """Read an origin from JSON."""
        return cls(**{**data, "type": ToolOriginType(data["type"])})
