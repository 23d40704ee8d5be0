"""Tool search, and the deferred tools and namespaces that it finds."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

from outlast.agents.checks import check_list, check_name
from outlast.agents.errors import UserError
from outlast.agents.tools.definition import FunctionTool, ToolNamespace
from outlast.agents.tools.hosted import DescribedTool, HostedMCPTool

T = TypeVar("T", bound=FunctionTool)


@dataclass
class ToolSearchTool(DescribedTool):
    """A hosted tool that searches the agent's deferred tools.

    The model then reads only the tools that it found. For the Responses API.

    Attributes:
        description: the description of the search for the model.
        execution: `server`, or None for the provider's default; a search by the client is refused.
        parameters: further parameters of the search, as in the request.
    """

    description: str | None = None
    execution: Literal["server", "client"] | None = None
    parameters: Any = None

    name = "tool_search"

    def __post_init__(self) -> None:
        if self.execution not in (None, "server"):
            raise UserError(
                f"ToolSearchTool(execution={self.execution!r}) is not offered: the provider searches. "
                "Leave it out, or offer tools with is_enabled=."
            )
        super().__post_init__()


def tool_namespace(*, name: str, description: str | None, tools: Sequence[T]) -> list[T]:
    """Return copies of tools in a namespace, which a tool search finds together.

    Args:
        name: the name of the namespace.
        description: what the tools have in common, for the search.
        tools: function tools; their own names must stay unique within the agent.

    Raises:
        UserError: the name or the description is empty, or a tool is no function tool.
    """
    check_name("tool_namespace(name=...)", name)
    check_name("tool_namespace(description=...)", description)
    namespace = ToolNamespace(name=name.strip(), description=str(description).strip())
    copies: list[T] = []
    for tool in check_list("tool_namespace(tools=...)", list(tools)):
        if not isinstance(tool, FunctionTool):
            raise UserError(f"tool_namespace(tools=...) holds {tool!r}: use function tools only.")
        copied = copy.copy(cast("T", tool))
        copied.namespace = namespace
        copies.append(copied)
    return copies


def check_tool_search(owner: str, tools: Sequence[object]) -> None:
    """Refuse deferred tools that no search finds, and a search that finds nothing."""
    searches = [tool for tool in tools if isinstance(tool, ToolSearchTool)]
    found = [tool for tool in tools if isinstance(tool, FunctionTool) and tool.namespace]
    if len(searches) > 1:
        raise UserError(f"{owner}: Only one ToolSearchTool() is allowed.")
    check_deferred(owner, tools)
    if searches and not found and not any(_is_deferred(tool) for tool in tools):
        raise UserError(
            f"{owner}: ToolSearchTool() requires at least one searchable Responses surface: make "
            "tools with defer_loading=True, or put them into a tool_namespace(...)."
        )


def check_deferred(owner: str, tools: Sequence[object]) -> None:
    """Refuse deferred tools that no search finds."""
    deferred = [str(getattr(tool, "name", tool)) for tool in tools if _is_deferred(tool)]
    if deferred and not any(isinstance(tool, ToolSearchTool) for tool in tools):
        raise UserError(
            f"{owner}: no model can find the deferred tool {deferred[0]!r}. Add ToolSearchTool() to "
            "tools=, or leave defer_loading out."
        )


def _is_deferred(tool: object) -> bool:
    if isinstance(tool, HostedMCPTool):
        return bool(tool.to_tool_param().get("defer_loading"))
    return isinstance(tool, FunctionTool) and tool.defer_loading
