"""The names of the SDK's modules, so that programs keep all their import lines but for one word.

`from agents.tool_context import ToolContext` becomes `from outlast.tool_context import ToolContext`.
Every public name can be imported from every such module, and so can those that only modules of
the SDK have. Type checkers read of them in `outlast-stubs`. New programs take names from `outlast`
itself.

Owns: which names there are, and finding them when nothing else has. Must not know: what the
public names are.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, cast

PACKAGE = "outlast"

FURTHER = f"{PACKAGE}.further_names"
"""Where the names are that the SDK has in its modules only."""

MODULES = frozenset(
    f"{PACKAGE}.{name}"
    for name in [
        "agent",
        "agent_output",
        "agent_tool_input",
        "computer",
        "editor",
        "exceptions",
        "function_schema",
        "guardrail",
        "handoffs",
        "handoffs.history",
        "items",
        "lifecycle",
        "mcp.manager",
        "mcp.server",
        "mcp.util",
        "memory",
        "memory.session",
        "memory.session_settings",
        "memory.sqlite_session",
        "memory.util",
        "model_settings",
        "models.interface",
        "models.openai_chatcompletions",
        "models.openai_provider",
        "models.openai_responses",
        "prompts",
        "repl",
        "result",
        "retry",
        "run",
        "run_config",
        "run_context",
        "run_error_handlers",
        "run_state",
        "stream_events",
        "tool",
        "tool_context",
        "tool_guardrails",
        "tracing.config",
        "tracing.create",
        "tracing.processor_interface",
        "tracing.span_data",
        "tracing.spans",
        "tracing.traces",
        "tracing.util",
        "usage",
    ]
)


class ModuleNames:
    """Finds the modules of these names. It is asked last, so a real module comes first.

    It is what `importlib.abc` calls a finder and a loader, which take 14 ms to import.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how a module of this name is made; None for any other name."""
        del path, target
        if fullname not in MODULES:
            return None
        holds_others = any(name.startswith(f"{fullname}.") for name in MODULES)
        return ModuleSpec(fullname, cast("Any", self), is_package=holds_others)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leave it to the import system to make the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Give the module the public names, each when it is first used.

        After them come those of the package that it is in, and then those of the SDK's modules.
        """
        package = sys.modules[PACKAGE]

        def find(name: str) -> Any:
            if name in package.__all__:
                return getattr(package, name)
            for place in (module.__name__.rpartition(".")[0], FURTHER):
                if name in import_module(place).__all__:
                    return getattr(import_module(place), name)
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

        module.__doc__ = f"The public names of {PACKAGE}, where the SDK has some of them."
        module.__dict__.update(__all__=list(package.__all__), __getattr__=find)


def install() -> None:
    """Find modules by these names from now on; once is enough."""
    if not any(isinstance(finder, ModuleNames) for finder in sys.meta_path):
        sys.meta_path.append(ModuleNames())
