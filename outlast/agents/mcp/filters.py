"""The forms of `tool_filter`: which tools of an MCP server an agent may use."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypedDict

from outlast.agents.callables import call, check_callable
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.agents.json_values import is_mapping
from outlast.agents.logs import get_logger

logger: Final = get_logger(__name__)


@dataclass
class ToolFilterContext:
    """The run, agent and server for which tools are listed."""

    run_context: RunContextWrapper[Any]
    agent: Any
    server_name: str


class ToolFilterStatic(TypedDict, total=False):
    """A filter by name.

    A tool in both lists is left out.

    Attributes:
        allowed_tool_names: the only tools to offer.
        blocked_tool_names: the tools to leave out.
    """

    allowed_tool_names: list[str]
    blocked_tool_names: list[str]


ToolFilterCallable: TypeAlias = Callable[[ToolFilterContext, Any], bool | Awaitable[bool]]
"""A function called with (context, tool): whether the server's tool is offered."""

ToolFilter: TypeAlias = ToolFilterCallable | ToolFilterStatic | None


def create_static_tool_filter(
    allowed_tool_names: list[str] | None = None, blocked_tool_names: list[str] | None = None
) -> ToolFilterStatic | None:
    """Make a filter by name, or return None without any names.

    Args:
        allowed_tool_names: the only tools to offer; None for all.
        blocked_tool_names: the tools to leave out.
    """
    made: ToolFilterStatic = {}
    if allowed_tool_names is not None:
        made["allowed_tool_names"] = allowed_tool_names
    if blocked_tool_names is not None:
        made["blocked_tool_names"] = blocked_tool_names
    return made or None


def check_tool_filter(tool_filter: object, owner: str) -> None:
    """Refuse an invalid filter; None is valid."""
    if tool_filter is None:
        return
    if not is_mapping(tool_filter):
        check_callable(tool_filter, ("context", "tool"), what=f"{owner}: tool_filter")
        return
    if set(tool_filter) - set(ToolFilterStatic.__annotations__) or not all(
        isinstance(names, list | tuple | set) for names in tool_filter.values()
    ):
        raise UserError(
            f"{owner}: tool_filter as a dict is create_static_tool_filter(allowed_tool_names=[...],"
            f" blocked_tool_names=[...]), not {dict(tool_filter)!r}."
        )


async def filtered(
    tools: Sequence[Any], tool_filter: ToolFilter, context: ToolFilterContext | None
) -> list[Any]:
    """Return the tools that pass a filter; a tool is left out if the callable fails."""
    if tool_filter is None:
        return list(tools)
    if not callable(tool_filter):
        allowed = tool_filter.get("allowed_tool_names")
        blocked = tool_filter.get("blocked_tool_names", [])
        return [
            tool
            for tool in tools
            if (allowed is None or tool.name in allowed) and tool.name not in blocked
        ]
    if context is None:
        raise UserError(
            "With a callable tool_filter, run_context and agent are required: "
            "server.list_tools(run_context, agent)."
        )
    return [tool for tool in tools if await _passes(tool, tool_filter, context)]


async def _passes(tool: Any, tool_filter: ToolFilterCallable, context: ToolFilterContext) -> bool:
    try:
        # The callable gets a copy, because the server may cache the list for the next agent.
        return bool(await call(tool_filter, context, tool.model_copy(deep=True)))
    except Exception:  # user code; a tool that it may forbid is not offered
        logger.exception(
            "tool_filter of the MCP server %r failed for %r: the tool is left out",
            context.server_name,
            tool.name,
        )
        return False
