"""Servers of the Model Context Protocol that a worker runs or reaches by itself.

Owns: the names that users import. What needs the `mcp` package is loaded when it is first used,
so that agents and clients without such servers need no extra.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from outlast.agents.mcp_approval import (
    LocalMCPApprovalCallable,
    RequireApprovalObject,
    RequireApprovalPolicy,
    RequireApprovalSetting,
    RequireApprovalToolList,
)
from outlast.agents.mcp_filters import (
    ToolFilter,
    ToolFilterCallable,
    ToolFilterContext,
    ToolFilterStatic,
    create_static_tool_filter,
)
from outlast.agents.mcp_server import (
    MCPConfig,
    MCPServer,
    MCPToolMetaContext,
    MCPToolMetaResolver,
)

if TYPE_CHECKING:
    from outlast.mcp.servers import (
        MCPServerSse,
        MCPServerSseParams,
        MCPServerStdio,
        MCPServerStdioParams,
        MCPServerStreamableHttp,
        MCPServerStreamableHttpParams,
    )
    from outlast.mcp.together import MCPServerManager

__all__ = [
    "LocalMCPApprovalCallable",
    "MCPConfig",
    "MCPServer",
    "MCPServerManager",
    "MCPServerSse",
    "MCPServerSseParams",
    "MCPServerStdio",
    "MCPServerStdioParams",
    "MCPServerStreamableHttp",
    "MCPServerStreamableHttpParams",
    "MCPToolMetaContext",
    "MCPToolMetaResolver",
    "RequireApprovalObject",
    "RequireApprovalPolicy",
    "RequireApprovalSetting",
    "RequireApprovalToolList",
    "ToolFilter",
    "ToolFilterCallable",
    "ToolFilterContext",
    "ToolFilterStatic",
    "create_static_tool_filter",
]


def __getattr__(name: str) -> Any:
    """Load a server class when it is first used.

    Raises:
        ModuleNotFoundError: the `mcp` package is not installed.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "together" if name == "MCPServerManager" else "servers"
    try:
        value = getattr(import_module(f"{__name__}.{home}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "mcp":
            raise
        raise ModuleNotFoundError(
            f"{name} needs the mcp package: pip install 'outlast[mcp]'", name=error.name
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the names, loaded or not."""
    return [*globals(), *__all__]
