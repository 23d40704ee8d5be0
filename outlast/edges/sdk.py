"""Internal. The module names of the OpenAI Agents SDK, so that programs keep their import lines.

`from agents.tool_context import ToolContext` becomes `from outlast.tool_context import ToolContext`.
Every such module has all public names of `outlast`, and the SDK's names that only its modules
have. New programs import from `outlast` itself.

In a checkout a finder makes these modules. A wheel has a file for each, which `hatch_build.py`
writes with `source`: type checkers and editors read it.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

from outlast.edges import lazy

_MODULES_OF_ROOMS = {
    "": """
        agent agent_output agent_tool_input computer editor exceptions function_schema guardrail
        handoffs handoffs.history items lifecycle memory memory.openai_conversations_session
        memory.openai_responses_compaction_session memory.session memory.session_settings
        memory.sqlite_session memory.util model_settings prompts repl result retry run run_config
        run_context run_error_handlers run_state stream_events strict_schema tool tool_context
        tool_guardrails usage
    """,
    "sessions": """
        extensions.memory extensions.memory.advanced_sqlite_session
        extensions.memory.async_sqlite_session extensions.memory.encrypt_session
        extensions.memory.mongodb_session extensions.memory.redis_session
        extensions.memory.sqlalchemy_session
    """,
    "models": """
        extensions.models extensions.models.litellm_model extensions.models.litellm_provider
        models.default_models models.fake_id models.interface models.openai_chatcompletions
        models.openai_client_utils models.openai_provider models.openai_responses
    """,
    "mcp": "mcp.manager mcp.server mcp.util",
    "realtime": """
        realtime.agent realtime.audio_formats realtime.config realtime.handoffs realtime.items
        realtime.model realtime.model_events realtime.model_inputs realtime.openai_realtime
    """,
    "tracing": """
        tracing.config tracing.create tracing.processor_interface tracing.setup tracing.span_data
        tracing.spans tracing.traces tracing.util
    """,
}
MODULES = {
    module: room for room, modules in _MODULES_OF_ROOMS.items() for module in modules.split()
}
"""The SDK's modules, and the outlast package whose names each has besides the public ones."""

_NAMES_OF_MODULES = {
    "agents.mcp.approval": "RequireApprovalMapping",
    "agents.config.model_settings": "ToolChoice MCPToolChoice",
    "agents.agent_tools.input": """
        StructuredInputSchemaInfo default_tool_input_builder resolve_agent_tool_input
    """,
    "agents.schemas.strict_schema": "ensure_strict_json_schema",
    "models.openai.connection": "is_official_openai_base_url",
    "models.defaults": "get_default_openai_client get_default_openai_key",
    "models.openai.compaction_session": """
        is_openai_model_name DEFAULT_COMPACTION_THRESHOLD OpenAIResponsesCompactionMode
        default_should_trigger_compaction select_compaction_candidate_items
    """,
    "client.start.runner": "AgentRunner get_default_agent_runner set_default_agent_runner",
    "agents.hooks": "AgentHooksBase RunHooksBase",
    "agents.guardrails.tool_guardrails": """
        AllowBehavior RaiseExceptionBehavior RejectContentBehavior
    """,
    "extensions.machine.patch": "ApplyPatchOperationType",
    "extensions.machine.computer": "ComputerLike",
    "openai.types.responses.tool_param": "CodeInterpreter ImageGeneration Mcp",
    "agents.tools.custom": "CustomToolExecutor",
    "agents.schemas.docstrings": "DocstringStyle",
    "agents.schemas.func_schema": """
        FuncDocumentation FuncSchema function_schema generate_func_documentation
    """,
    "agents.mcp.server": "MCPConfig",
    "agents.tools.definition": "ToolErrorFunction",
    "models.openai.conversations_session": "start_openai_conversations_session",
    "agents.handoffs.handoff": "OnHandoffWithInput OnHandoffWithoutInput THandoffInput",
    "agents.items.run_items": "RunItemBase",
    "client.results.result_members": "RunResultBase ToInputListMode",
    "agents.items.item_helpers": "TResponse TResponseOutputItem TResponseStreamEvent",
}
_RENAMED = {
    "DEFAULT_APPROVAL_REJECTION_MESSAGE": "loop.phrases:REJECTED",
    "FAKE_RESPONSES_ID": "agents.items.raw_items:NO_ID",
    "MultiProviderOpenAIPrefixMode": "models.multi_provider:PrefixMode",
    "MultiProviderUnknownPrefixMode": "models.multi_provider:UnknownPrefixMode",
    "ApplyPatchApprovalFunction": "extensions.machine.patch:ApplyPatchApproval",
    "ApplyPatchOnApprovalFunction": "agents.tools.local:OnApproval",
    "ApplyPatchOnApprovalFunctionResult": "agents.tools.local:OnApprovalResult",
    "ComputerConfig": "extensions.machine.computers:ComputerSource",
    "CustomToolApprovalFunction": "agents.tools.custom:CustomToolApproval",
    "CustomToolOnApprovalFunction": "agents.tools.local:OnApproval",
    "CustomToolOnApprovalFunctionResult": "agents.tools.local:OnApprovalResult",
    "ShellApprovalFunction": "extensions.machine.shell:ShellApproval",
    "ShellOnApprovalFunction": "agents.tools.local:OnApproval",
    "ShellOnApprovalFunctionResult": "agents.tools.local:OnApprovalResult",
    "StructuredToolInputResult": "agents.agent_tools.input:NestedInput",
    "ToolTimeoutBehavior": "agents.tools.definition:TimeoutBehavior",
}
NAMES = _RENAMED | {
    name: f"{module}:{name}"
    for module, names in _NAMES_OF_MODULES.items()
    for name in names.split()
}
"""Names that the SDK has in its modules but not in its package, and their homes, in outlast or in
the `openai` package."""

SOURCE = '''\
"""The public names of outlast, where the OpenAI Agents SDK has some of them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
{imports}
else:
    import sys

    from outlast.edges import sdk

    sdk.fill(sys.modules[__name__])
'''


def fill(module: ModuleType) -> None:
    """Add the names to one of the SDK's modules; each is loaded on first use."""
    room = MODULES[module.__name__.removeprefix("outlast.")]
    names = {name: import_path(home) for name, home in NAMES.items()}
    for place in (f"outlast.{room}", "outlast") if room else ("outlast",):
        names |= {name: f"{place}:{name}" for name in import_module(place).__all__}
    lazy.publish(module, names)


def source(module: str) -> str:
    """Return the source of the file for one of the SDK's modules in a wheel."""
    room = MODULES[module]
    lines = [f"from outlast.{room} import *"] if room else []
    for name, home in NAMES.items():
        place, _, ours = import_path(home).partition(":")
        lines.append(f"from {place} import {ours} as {name}")
    lines.append("from outlast import *")
    return SOURCE.format(imports="\n".join(f"    {line}" for line in lines))


def import_path(home: str) -> str:
    """Return the import path of a name's home."""
    return home if home.startswith("openai.") else f"outlast.{home}"


def path(module: str) -> str:
    """Return the path of a module's file in a wheel."""
    return f"outlast/{module.replace('.', '/')}{'/__init__' if _is_package(module) else ''}.py"


def _is_package(module: str) -> bool:
    return any(other.startswith(f"{module}.") for other in MODULES)


class SDKFinder:
    """A finder and loader of the SDK's modules for `sys.meta_path`; existing files come first.

    It does not inherit from `importlib.abc`, because that import takes 14 ms.
    """

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return the spec of one of the SDK's modules; None for any other name."""
        package, _, name = fullname.partition(".")
        if package != "outlast" or name not in MODULES:
            return None
        return ModuleSpec(fullname, self, is_package=_is_package(name))  # pyright: ignore[reportArgumentType]

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Let the import system make the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Fill the module with names."""
        module.__doc__ = SOURCE.splitlines()[0].strip('"')
        fill(module)


def install() -> None:
    """Install the finder of the SDK's modules; a second call does nothing."""
    if not any(isinstance(finder, SDKFinder) for finder in sys.meta_path):
        sys.meta_path.append(SDKFinder())
