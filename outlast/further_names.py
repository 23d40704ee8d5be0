"""The names that the SDK has in its modules and not in its package: types of callables and the like.

`outlast.module_names` finds them here for every such module. New programs rarely need them.

Owns: which names there are. Each is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from outlast.extensions.late_names import late_names

if TYPE_CHECKING:
    from outlast.agents.agent_tool_input import (
        NestedInput as StructuredToolInputResult,
    )
    from outlast.agents.computer import (
        ComputerLike,
    )
    from outlast.agents.computers import (
        ComputerSource as ComputerConfig,
    )
    from outlast.agents.custom_tool import (
        CustomToolApproval as CustomToolApprovalFunction,
    )
    from outlast.agents.custom_tool import (
        CustomToolExecutor,
    )
    from outlast.agents.docstrings import (
        DocstringStyle,
    )
    from outlast.agents.handoff import (
        OnHandoffWithInput,
        OnHandoffWithoutInput,
    )
    from outlast.agents.item_helpers import (
        TResponse,
        TResponseOutputItem,
        TResponseStreamEvent,
    )
    from outlast.agents.lifecycle import (
        AgentHooksBase,
        RunHooksBase,
    )
    from outlast.agents.local_tool import (
        OnApproval as ApplyPatchOnApprovalFunction,
    )
    from outlast.agents.local_tool import (
        OnApproval as CustomToolOnApprovalFunction,
    )
    from outlast.agents.local_tool import (
        OnApproval as ShellOnApprovalFunction,
    )
    from outlast.agents.local_tool import (
        OnApprovalResult as ApplyPatchOnApprovalFunctionResult,
    )
    from outlast.agents.local_tool import (
        OnApprovalResult as CustomToolOnApprovalFunctionResult,
    )
    from outlast.agents.local_tool import (
        OnApprovalResult as ShellOnApprovalFunctionResult,
    )
    from outlast.agents.mcp_server import (
        MCPConfig,
    )
    from outlast.agents.model_settings import (
        MCPToolChoice,
    )
    from outlast.agents.patch_tool import (
        ApplyPatchApproval as ApplyPatchApprovalFunction,
    )
    from outlast.agents.patch_tool import (
        ApplyPatchOperationType,
    )
    from outlast.agents.run_items import (
        RunItemBase,
    )
    from outlast.agents.shell_tools import (
        ShellApproval as ShellApprovalFunction,
    )
    from outlast.agents.tool_definition import (
        TimeoutBehavior as ToolTimeoutBehavior,
    )
    from outlast.agents.tool_definition import (
        ToolErrorFunction,
    )
    from outlast.agents.tool_guardrails import (
        AllowBehavior,
        RaiseExceptionBehavior,
        RejectContentBehavior,
    )
    from outlast.client.result_members import (
        RunResultBase,
        ToInputListMode,
    )

__all__ = [
    "AgentHooksBase",
    "AllowBehavior",
    "ApplyPatchApprovalFunction",
    "ApplyPatchOnApprovalFunction",
    "ApplyPatchOnApprovalFunctionResult",
    "ApplyPatchOperationType",
    "ComputerConfig",
    "ComputerLike",
    "CustomToolApprovalFunction",
    "CustomToolExecutor",
    "CustomToolOnApprovalFunction",
    "CustomToolOnApprovalFunctionResult",
    "DocstringStyle",
    "MCPConfig",
    "MCPToolChoice",
    "OnHandoffWithInput",
    "OnHandoffWithoutInput",
    "RaiseExceptionBehavior",
    "RejectContentBehavior",
    "RunHooksBase",
    "RunItemBase",
    "RunResultBase",
    "ShellApprovalFunction",
    "ShellOnApprovalFunction",
    "ShellOnApprovalFunctionResult",
    "StructuredToolInputResult",
    "TResponse",
    "TResponseOutputItem",
    "TResponseStreamEvent",
    "ToInputListMode",
    "ToolErrorFunction",
    "ToolTimeoutBehavior",
]

__getattr__, __dir__ = late_names(
    __name__,
    {
        "AgentHooksBase": "outlast.agents.lifecycle:AgentHooksBase",
        "AllowBehavior": "outlast.agents.tool_guardrails:AllowBehavior",
        "ApplyPatchApprovalFunction": "outlast.agents.patch_tool:ApplyPatchApproval",
        "ApplyPatchOnApprovalFunction": "outlast.agents.local_tool:OnApproval",
        "ApplyPatchOnApprovalFunctionResult": "outlast.agents.local_tool:OnApprovalResult",
        "ApplyPatchOperationType": "outlast.agents.patch_tool:ApplyPatchOperationType",
        "ComputerConfig": "outlast.agents.computers:ComputerSource",
        "ComputerLike": "outlast.agents.computer:ComputerLike",
        "CustomToolApprovalFunction": "outlast.agents.custom_tool:CustomToolApproval",
        "CustomToolExecutor": "outlast.agents.custom_tool:CustomToolExecutor",
        "CustomToolOnApprovalFunction": "outlast.agents.local_tool:OnApproval",
        "CustomToolOnApprovalFunctionResult": "outlast.agents.local_tool:OnApprovalResult",
        "DocstringStyle": "outlast.agents.docstrings:DocstringStyle",
        "MCPConfig": "outlast.agents.mcp_server:MCPConfig",
        "MCPToolChoice": "outlast.agents.model_settings:MCPToolChoice",
        "OnHandoffWithInput": "outlast.agents.handoff:OnHandoffWithInput",
        "OnHandoffWithoutInput": "outlast.agents.handoff:OnHandoffWithoutInput",
        "RaiseExceptionBehavior": "outlast.agents.tool_guardrails:RaiseExceptionBehavior",
        "RejectContentBehavior": "outlast.agents.tool_guardrails:RejectContentBehavior",
        "RunHooksBase": "outlast.agents.lifecycle:RunHooksBase",
        "RunItemBase": "outlast.agents.run_items:RunItemBase",
        "RunResultBase": "outlast.client.result_members:RunResultBase",
        "ShellApprovalFunction": "outlast.agents.shell_tools:ShellApproval",
        "ShellOnApprovalFunction": "outlast.agents.local_tool:OnApproval",
        "ShellOnApprovalFunctionResult": "outlast.agents.local_tool:OnApprovalResult",
        "StructuredToolInputResult": "outlast.agents.agent_tool_input:NestedInput",
        "TResponse": "outlast.agents.item_helpers:TResponse",
        "TResponseOutputItem": "outlast.agents.item_helpers:TResponseOutputItem",
        "TResponseStreamEvent": "outlast.agents.item_helpers:TResponseStreamEvent",
        "ToInputListMode": "outlast.client.result_members:ToInputListMode",
        "ToolErrorFunction": "outlast.agents.tool_definition:ToolErrorFunction",
        "ToolTimeoutBehavior": "outlast.agents.tool_definition:TimeoutBehavior",
    },
)
