"""Tool search, and the deferred tools and namespaces that it finds."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

from outlast.agents.checks import check_list, check_name
from outlast.agents.errors import UserError
from outlast.agents.tools.definition import FunctionTool, ToolNamespace
from outlast.agents.tools.hosted import DescribedTool

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
