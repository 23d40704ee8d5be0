"""Agents that outlast the process: an agent framework whose loop is a durable Temporal workflow.

Owns: the public names. They are loaded when first used (PEP 562), so that importing the package
costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outlast.agents.agent import Agent, Instructions
    from outlast.agents.context import RunContextWrapper, ToolContext
    from outlast.agents.errors import (
        AgentsException,
        DecisionRefused,
        MaxTurnsExceeded,
        ModelBehaviorError,
        ModelCallFailed,
        ModelRefusalError,
        RunAlreadyStarted,
        RunCancelled,
        RunClosed,
        RunNotFound,
        ServerUnavailable,
        ToolFailed,
        ToolTimeoutError,
        UserError,
    )
    from outlast.agents.handoff import Handoff, handoff
    from outlast.agents.settings import ModelSettings, RunConfig
    from outlast.agents.tool import FunctionTool, ToolRetry, default_tool_error, function_tool
    from outlast.agents.tool_output import (
        ToolOutputFileContent,
        ToolOutputImage,
        ToolOutputText,
    )
    from outlast.client.handle import RunHandle
    from outlast.client.results import RunResult
    from outlast.client.runner import Runner
    from outlast.loop.values import Usage

__version__ = "0.1.0"

_HOMES = {
    "agents.agent": ("Agent", "Instructions"),
    "agents.context": ("RunContextWrapper", "ToolContext"),
    "agents.errors": (
        "AgentsException",
        "DecisionRefused",
        "MaxTurnsExceeded",
        "ModelBehaviorError",
        "ModelCallFailed",
        "ModelRefusalError",
        "RunAlreadyStarted",
        "RunCancelled",
        "RunClosed",
        "RunNotFound",
        "ServerUnavailable",
        "ToolFailed",
        "ToolTimeoutError",
        "UserError",
    ),
    "agents.handoff": ("Handoff", "handoff"),
    "agents.settings": ("ModelSettings", "RunConfig"),
    "agents.tool": ("FunctionTool", "ToolRetry", "default_tool_error", "function_tool"),
    "agents.tool_output": ("ToolOutputFileContent", "ToolOutputImage", "ToolOutputText"),
    "client.handle": ("RunHandle",),
    "client.results": ("RunResult",),
    "client.runner": ("Runner",),
    "loop.values": ("Usage",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Agent",
    "AgentsException",
    "DecisionRefused",
    "FunctionTool",
    "Handoff",
    "Instructions",
    "MaxTurnsExceeded",
    "ModelBehaviorError",
    "ModelCallFailed",
    "ModelRefusalError",
    "ModelSettings",
    "RunAlreadyStarted",
    "RunCancelled",
    "RunClosed",
    "RunConfig",
    "RunContextWrapper",
    "RunHandle",
    "RunNotFound",
    "RunResult",
    "Runner",
    "ServerUnavailable",
    "ToolContext",
    "ToolFailed",
    "ToolOutputFileContent",
    "ToolOutputImage",
    "ToolOutputText",
    "ToolRetry",
    "ToolTimeoutError",
    "Usage",
    "UserError",
    "default_tool_error",
    "function_tool",
    "handoff",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return [*globals(), *__all__]
