"""Tools of the installed OpenAI Agents SDK, as ours."""

from typing import Any, Final

from outlast.agents.checks import InvalidType
from outlast.agents.guardrails.guardrail import adopted_guardrail
from outlast.agents.installed_sdk import (
    adopted,
    agent_words,
    as_ours,
    function_tool_parts,
    is_sdk_agent,
    sdk_names,
    tool_namespace,
)
from outlast.agents.tools.definition import FunctionTool, ToolNamespace
from outlast.agents.tools.hosted import (
    CodeInterpreterTool,
    FileSearchTool,
    HostedMCPTool,
    ImageGenerationTool,
    WebSearchTool,
)
from outlast.agents.tools.programs import ProgrammaticToolCallingTool
from outlast.agents.tools.search import ToolSearchTool

_HOSTED: Final[tuple[type[Any], ...]] = (
    CodeInterpreterTool, FileSearchTool, HostedMCPTool, ImageGenerationTool, ToolSearchTool,
    WebSearchTool,
)  # fmt: skip


def adopted_tool(tool: Any) -> Any:
    """Return a tool of the SDK as ours; any other object unchanged.

    Raises:
        UserError: it is an agent, or runs on this machine: shells, editors and computers are told
            apart by their classes here.
    """
    names = sdk_names(tool)
    if is_sdk_agent(tool):
        raise InvalidType(f"tools= holds an agent: {agent_words(tool)}.")
    if "FunctionTool" in names:
        return _function_tool(tool)
    if "ProgrammaticToolCallingTool" in names:
        return ProgrammaticToolCallingTool()
    for kind in _HOSTED:
        if kind.__name__ in names:
            return as_ours(tool, kind)
    if not names.isdisjoint(_OF_OURS):
        name = next(iter(names & _OF_OURS))
        raise InvalidType(
            f"A {name} of the OpenAI Agents SDK (`agents`) cannot be taken: make it with outlast, "
            f"`from outlast import {name}`, of the same executor."
        )
    return tool


_OF_OURS: Final = frozenset(
    {"ApplyPatchTool", "ComputerTool", "CustomTool", "LocalShellTool", "ShellTool"}
)
"""Tools with executors, which get requests of our classes."""


def _function_tool(tool: Any) -> FunctionTool:
    namespace = tool_namespace(tool)
    return FunctionTool(
        **function_tool_parts(tool),
        tool_input_guardrails=adopted(tool.tool_input_guardrails or [], adopted_guardrail),
        tool_output_guardrails=adopted(tool.tool_output_guardrails or [], adopted_guardrail),
        namespace=namespace and ToolNamespace(name=namespace[0], description=namespace[1]),
    )
