"""Agents that outlast the process: an agent framework whose loop is a durable Temporal workflow.

Owns: the public names. They are loaded when first used (PEP 562), so that importing the package
costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from outlast.module_names import install

if TYPE_CHECKING:
    # Packed, like the tables below: one name a line would be too long to look at.
    # fmt: off
    # isort: off
    from outlast.agents.agent import Agent, AgentBase, Instructions
    from outlast.agents.agent_output import AgentOutputSchema, AgentOutputSchemaBase
    from outlast.agents.agent_tool import AgentTool
    from outlast.agents.agent_tool_input import (
        StructuredToolInputBuilder, StructuredToolInputBuilderOptions,
    )
    from outlast.agents.computer import AsyncComputer, Button, Computer, Environment
    from outlast.agents.computer_tool import (
        ComputerTool, ComputerToolSafetyCheckData, resolve_computer,
    )
    from outlast.agents.computers import ComputerProvider, dispose_resolved_computers
    from outlast.agents.context import RunContextWrapper, TContext, ToolContext
    from outlast.agents.custom_tool import CustomTool
    from outlast.agents.diffs import apply_diff
    from outlast.agents.errors import (
        AgentsException, DecisionRefused, InputGuardrailTripwireTriggered, MaxTurnsExceeded,
        ModelBehaviorError, ModelCallFailed, ModelRefusalError, ModelTimeoutError,
        OutputGuardrailTripwireTriggered, RunAlreadyStarted, RunBusy, RunCancelled, RunClosed,
        RunNotFound, RunTerminated,
        ServerUnavailable, SessionFailed, ToolFailed, ToolInputGuardrailTripwireTriggered,
        ToolOutputGuardrailTripwireTriggered, ToolTimeoutError, UserError,
    )
    from outlast.agents.guardrail import (
        GuardrailFunctionOutput, InputGuardrail, InputGuardrailResult, OutputGuardrail,
        OutputGuardrailResult, input_guardrail, output_guardrail,
    )
    from outlast.agents.handoff import Handoff, handoff
    from outlast.agents.handoff_data import (
        HandoffHistoryMapper, HandoffInputData, HandoffInputFilter,
    )
    from outlast.agents.handoff_history import (
        default_handoff_history_mapper, get_conversation_history_wrappers, nest_handoff_history,
        reset_conversation_history_wrappers, set_conversation_history_wrappers,
    )
    from outlast.agents.hosted_tools import (
        CodeInterpreterTool, FileSearchTool, HostedMCPTool, HostedTool, ImageGenerationTool,
        ImageGenerationToolConfig, Tool, WebSearchTool, WebSearchToolImageSettings,
    )
    from outlast.agents.item_helpers import ItemHelpers, TResponseInputItem
    from outlast.agents.lifecycle import AgentHookContext, AgentHooks, RunHooks
    from outlast.agents.logs import enable_verbose_stdout_logging
    from outlast.agents.model_settings import ModelRetrySettings, ModelSettings
    from outlast.agents.patch_tool import (
        ApplyPatchEditor, ApplyPatchOperation, ApplyPatchResult, ApplyPatchTool,
    )
    from outlast.agents.prompt import DynamicPromptFunction, GenerateDynamicPromptData, Prompt
    from outlast.agents.run_config import (
        CallModelData, CallModelInputFilter, ModelInputData, OutputGuardrailBlockedMessageArgs,
        OutputGuardrailBlockedMessageFormatter, RunConfig, ToolErrorFormatter,
        ToolErrorFormatterArgs, ToolNameCollisionPolicy, ToolNotFoundBehavior, TracingConfig,
    )
    from outlast.agents.run_error import (
        RunErrorData, RunErrorDetails, RunErrorHandler, RunErrorHandlerInput,
        RunErrorHandlerResult, RunErrorHandlers,
    )
    from outlast.agents.run_items import (
        CompactionItem, HandoffCallItem, HandoffOutputItem, InputItem, MCPApprovalRequestItem,
        MCPApprovalResponseItem, MCPListToolsItem, MessageOutputItem, ProviderItem, ReasoningItem,
        RunItem, ToolApprovalItem, ToolCallItem, ToolCallOutputItem, ToolSearchCallItem,
        ToolSearchOutputItem,
    )
    from outlast.agents.session_memory import (
        ReasoningItemIdPolicy, SessionInputCallback, SessionSettings,
    )
    from outlast.agents.shell_environments import (
        ShellToolContainerAutoEnvironment, ShellToolContainerNetworkPolicy,
        ShellToolContainerNetworkPolicyAllowlist, ShellToolContainerNetworkPolicyDisabled,
        ShellToolContainerNetworkPolicyDomainSecret, ShellToolContainerReferenceEnvironment,
        ShellToolContainerSkill, ShellToolEnvironment, ShellToolHostedEnvironment,
        ShellToolInlineSkill, ShellToolInlineSkillSource, ShellToolLocalEnvironment,
        ShellToolLocalSkill, ShellToolSkillReference,
    )
    from outlast.agents.shell_tools import (
        LocalShellCommandRequest, LocalShellExecutor, LocalShellTool, ShellActionRequest,
        ShellCallData, ShellCallOutcome, ShellCommandOutput, ShellCommandRequest, ShellExecutor,
        ShellResult, ShellTool,
    )
    from outlast.agents.stream_events import (
        AgentToolStreamEvent, AgentUpdatedStreamEvent, RawResponsesStreamEvent, RunItemStreamEvent,
    )
    from outlast.agents.tool import function_tool
    from outlast.agents.tool_definition import (
        FunctionTool, ToolRetry, default_tool_error, default_tool_error_function,
    )
    from outlast.agents.tool_guardrails import (
        ToolGuardrailFunctionOutput, ToolInputGuardrail, ToolInputGuardrailData,
        ToolInputGuardrailResult, ToolOutputGuardrail, ToolOutputGuardrailData,
        ToolOutputGuardrailResult, tool_input_guardrail, tool_output_guardrail,
    )
    from outlast.agents.tool_origin import ToolOrigin, ToolOriginType
    from outlast.agents.tool_output import (
        ToolOutputFileContent, ToolOutputFileContentDict, ToolOutputImage, ToolOutputImageDict,
        ToolOutputText, ToolOutputTextDict,
    )
    from outlast.agents.tool_use import (
        FunctionToolResult, StopAtTools, ToolExecutionConfig, ToolsToFinalOutputFunction,
        ToolsToFinalOutputResult,
    )
    from outlast.agents.usage import RequestUsage, Usage
    from outlast.client.handle import RunHandle
    from outlast.client.known_agents import RemoteAgent
    from outlast.client.repl import run_demo_loop
    from outlast.client.results import RunResult
    from outlast.client.run_state import RunState
    from outlast.client.runner import Runner
    from outlast.client.start import RunOptions
    from outlast.client.stream import ApprovalStreamEvent, StatusStreamEvent, StreamEvent
    from outlast.client.streaming import RunResultStreaming
    from outlast.loop.values import DEFAULT_MAX_TURNS
    from outlast.models.defaults import (
        set_default_openai_api, set_default_openai_client, set_default_openai_key,
    )
    from outlast.models.multi_provider import MultiProvider
    from outlast.models.openai_client import AsyncOpenAI
    from outlast.models.openai_models import OpenAIChatCompletionsModel, OpenAIResponsesModel
    from outlast.models.provider import OpenAIProvider
    from outlast.ports.model import Model, ModelProvider, ModelResponse
    from outlast.ports.model_arguments import ModelTracing
    from outlast.ports.session import Session, SessionABC
    from outlast.ports.spans import (
        AgentSpanData, CustomSpanData, FunctionSpanData, GenerationSpanData, GuardrailSpanData,
        HandoffSpanData, MCPListToolsSpanData, ResponseSpanData, SpanData, SpanError, TaskSpanData,
        TurnSpanData,
    )
    from outlast.ports.traces import Span, Trace, gen_group_id, gen_span_id, gen_trace_id
    from outlast.ports.tracing import (
        TracingProcessor, add_trace_processor, custom_span, flush_traces, get_current_span,
        get_current_trace, set_trace_processors, set_tracing_disabled, trace,
    )
    from outlast.ports.user_spans import (
        agent_span, function_span, generation_span, guardrail_span, handoff_span, mcp_tools_span,
        response_span,
        task_span, turn_span,
    )
    from outlast.sessions.sqlite import SQLiteSession
    # isort: on
    # fmt: on

__version__ = "0.1.0"

_NAMES = {
    "agents.agent": "Agent AgentBase Instructions",
    "agents.agent_output": "AgentOutputSchema AgentOutputSchemaBase",
    "agents.agent_tool": "AgentTool",
    "agents.agent_tool_input": "StructuredToolInputBuilder StructuredToolInputBuilderOptions",
    "agents.context": "RunContextWrapper TContext ToolContext",
    "agents.errors": (
        "AgentsException DecisionRefused InputGuardrailTripwireTriggered "
        "MaxTurnsExceeded ModelBehaviorError ModelCallFailed ModelRefusalError "
        "ModelTimeoutError OutputGuardrailTripwireTriggered RunAlreadyStarted "
        "RunBusy RunCancelled RunClosed RunNotFound RunTerminated ServerUnavailable SessionFailed ToolFailed "
        "ToolInputGuardrailTripwireTriggered ToolOutputGuardrailTripwireTriggered "
        "ToolTimeoutError UserError"
    ),
    "agents.guardrail": (
        "GuardrailFunctionOutput InputGuardrail InputGuardrailResult OutputGuardrail "
        "OutputGuardrailResult input_guardrail output_guardrail"
    ),
    "agents.handoff": "Handoff handoff",
    "agents.handoff_data": "HandoffHistoryMapper HandoffInputData HandoffInputFilter",
    "agents.handoff_history": (
        "default_handoff_history_mapper get_conversation_history_wrappers "
        "nest_handoff_history reset_conversation_history_wrappers "
        "set_conversation_history_wrappers"
    ),
    "agents.computer": "AsyncComputer Button Computer Environment",
    "agents.computer_tool": "ComputerTool ComputerToolSafetyCheckData resolve_computer",
    "agents.computers": "ComputerProvider dispose_resolved_computers",
    "agents.custom_tool": "CustomTool",
    "agents.diffs": "apply_diff",
    "agents.patch_tool": ("ApplyPatchEditor ApplyPatchOperation ApplyPatchResult ApplyPatchTool"),
    "agents.shell_environments": (
        "ShellToolContainerAutoEnvironment ShellToolContainerNetworkPolicy "
        "ShellToolContainerNetworkPolicyAllowlist ShellToolContainerNetworkPolicyDisabled "
        "ShellToolContainerNetworkPolicyDomainSecret ShellToolContainerReferenceEnvironment "
        "ShellToolContainerSkill ShellToolEnvironment ShellToolHostedEnvironment "
        "ShellToolInlineSkill ShellToolInlineSkillSource ShellToolLocalEnvironment "
        "ShellToolLocalSkill ShellToolSkillReference"
    ),
    "agents.shell_tools": (
        "LocalShellCommandRequest LocalShellExecutor LocalShellTool ShellActionRequest "
        "ShellCallData ShellCallOutcome ShellCommandOutput ShellCommandRequest ShellExecutor "
        "ShellResult ShellTool"
    ),
    "agents.hosted_tools": (
        "CodeInterpreterTool FileSearchTool HostedMCPTool HostedTool ImageGenerationTool "
        "ImageGenerationToolConfig Tool WebSearchTool WebSearchToolImageSettings"
    ),
    "agents.item_helpers": "ItemHelpers TResponseInputItem",
    "agents.lifecycle": "AgentHookContext AgentHooks RunHooks",
    "agents.logs": "enable_verbose_stdout_logging",
    "agents.model_settings": "ModelRetrySettings ModelSettings",
    "agents.prompt": "DynamicPromptFunction GenerateDynamicPromptData Prompt",
    "agents.run_config": (
        "CallModelData CallModelInputFilter ModelInputData OutputGuardrailBlockedMessageArgs "
        "OutputGuardrailBlockedMessageFormatter RunConfig ToolErrorFormatter "
        "ToolErrorFormatterArgs ToolNameCollisionPolicy ToolNotFoundBehavior TracingConfig"
    ),
    "agents.run_error": (
        "RunErrorData RunErrorDetails RunErrorHandler RunErrorHandlerInput "
        "RunErrorHandlerResult RunErrorHandlers"
    ),
    "agents.run_items": (
        "CompactionItem HandoffCallItem HandoffOutputItem InputItem "
        "MCPApprovalRequestItem MCPApprovalResponseItem MCPListToolsItem "
        "MessageOutputItem ProviderItem ReasoningItem RunItem ToolApprovalItem "
        "ToolCallItem ToolCallOutputItem ToolSearchCallItem ToolSearchOutputItem"
    ),
    "agents.session_memory": "ReasoningItemIdPolicy SessionInputCallback SessionSettings",
    "agents.stream_events": (
        "AgentToolStreamEvent AgentUpdatedStreamEvent RawResponsesStreamEvent RunItemStreamEvent"
    ),
    "agents.tool": "function_tool",
    "agents.tool_definition": (
        "FunctionTool ToolRetry default_tool_error default_tool_error_function"
    ),
    "agents.tool_guardrails": (
        "ToolGuardrailFunctionOutput ToolInputGuardrail ToolInputGuardrailData "
        "ToolInputGuardrailResult ToolOutputGuardrail ToolOutputGuardrailData "
        "ToolOutputGuardrailResult tool_input_guardrail tool_output_guardrail"
    ),
    "agents.tool_origin": "ToolOrigin ToolOriginType",
    "agents.tool_output": (
        "ToolOutputFileContent ToolOutputFileContentDict ToolOutputImage ToolOutputImageDict "
        "ToolOutputText ToolOutputTextDict"
    ),
    "agents.tool_use": (
        "FunctionToolResult StopAtTools ToolExecutionConfig ToolsToFinalOutputFunction "
        "ToolsToFinalOutputResult"
    ),
    "agents.usage": "RequestUsage Usage",
    "client.handle": "RunHandle",
    "client.known_agents": "RemoteAgent",
    "client.repl": "run_demo_loop",
    "client.results": "RunResult",
    "client.run_state": "RunState",
    "client.runner": "Runner",
    "client.start": "RunOptions",
    "client.stream": "ApprovalStreamEvent StatusStreamEvent StreamEvent",
    "client.streaming": "RunResultStreaming",
    "loop.values": "DEFAULT_MAX_TURNS",
    "models.defaults": "set_default_openai_api set_default_openai_client set_default_openai_key",
    "models.multi_provider": "MultiProvider",
    "models.openai_client": "AsyncOpenAI",
    "models.openai_models": "OpenAIChatCompletionsModel OpenAIResponsesModel",
    "models.provider": "OpenAIProvider",
    "ports.model": "Model ModelProvider ModelResponse",
    "ports.model_arguments": "ModelTracing",
    "ports.session": "Session SessionABC",
    "ports.spans": (
        "AgentSpanData CustomSpanData FunctionSpanData GenerationSpanData "
        "GuardrailSpanData HandoffSpanData MCPListToolsSpanData ResponseSpanData SpanData "
        "SpanError "
        "TaskSpanData TurnSpanData"
    ),
    "ports.traces": "Span Trace gen_group_id gen_span_id gen_trace_id",
    "ports.tracing": (
        "TracingProcessor add_trace_processor custom_span flush_traces "
        "get_current_span get_current_trace set_trace_processors set_tracing_disabled "
        "trace"
    ),
    "ports.user_spans": (
        "agent_span function_span generation_span guardrail_span handoff_span mcp_tools_span "
        "response_span "
        "task_span turn_span"
    ),
    "sessions.sqlite": "SQLiteSession",
}
_HOMES = {home: tuple(names.split()) for home, names in _NAMES.items()}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "DEFAULT_MAX_TURNS",
    "Agent",
    "AgentBase",
    "AgentHookContext",
    "AgentHooks",
    "AgentOutputSchema",
    "AgentOutputSchemaBase",
    "AgentSpanData",
    "AgentTool",
    "AgentToolStreamEvent",
    "AgentUpdatedStreamEvent",
    "AgentsException",
    "ApplyPatchEditor",
    "ApplyPatchOperation",
    "ApplyPatchResult",
    "ApplyPatchTool",
    "ApprovalStreamEvent",
    "AsyncComputer",
    "AsyncOpenAI",
    "Button",
    "CallModelData",
    "CallModelInputFilter",
    "CodeInterpreterTool",
    "CompactionItem",
    "Computer",
    "ComputerProvider",
    "ComputerTool",
    "ComputerToolSafetyCheckData",
    "CustomSpanData",
    "CustomTool",
    "DecisionRefused",
    "DynamicPromptFunction",
    "Environment",
    "FileSearchTool",
    "FunctionSpanData",
    "FunctionTool",
    "FunctionToolResult",
    "GenerateDynamicPromptData",
    "GenerationSpanData",
    "GuardrailFunctionOutput",
    "GuardrailSpanData",
    "Handoff",
    "HandoffCallItem",
    "HandoffHistoryMapper",
    "HandoffInputData",
    "HandoffInputFilter",
    "HandoffOutputItem",
    "HandoffSpanData",
    "HostedMCPTool",
    "HostedTool",
    "ImageGenerationTool",
    "ImageGenerationToolConfig",
    "InputGuardrail",
    "InputGuardrailResult",
    "InputGuardrailTripwireTriggered",
    "InputItem",
    "Instructions",
    "ItemHelpers",
    "LocalShellCommandRequest",
    "LocalShellExecutor",
    "LocalShellTool",
    "MCPApprovalRequestItem",
    "MCPApprovalResponseItem",
    "MCPListToolsItem",
    "MCPListToolsSpanData",
    "MaxTurnsExceeded",
    "MessageOutputItem",
    "Model",
    "ModelBehaviorError",
    "ModelCallFailed",
    "ModelInputData",
    "ModelProvider",
    "ModelRefusalError",
    "ModelResponse",
    "ModelRetrySettings",
    "ModelSettings",
    "ModelTimeoutError",
    "ModelTracing",
    "MultiProvider",
    "OpenAIChatCompletionsModel",
    "OpenAIProvider",
    "OpenAIResponsesModel",
    "OutputGuardrail",
    "OutputGuardrailBlockedMessageArgs",
    "OutputGuardrailBlockedMessageFormatter",
    "OutputGuardrailResult",
    "OutputGuardrailTripwireTriggered",
    "Prompt",
    "ProviderItem",
    "RawResponsesStreamEvent",
    "ReasoningItem",
    "ReasoningItemIdPolicy",
    "RemoteAgent",
    "RequestUsage",
    "ResponseSpanData",
    "RunAlreadyStarted",
    "RunBusy",
    "RunCancelled",
    "RunClosed",
    "RunConfig",
    "RunContextWrapper",
    "RunErrorData",
    "RunErrorDetails",
    "RunErrorHandler",
    "RunErrorHandlerInput",
    "RunErrorHandlerResult",
    "RunErrorHandlers",
    "RunHandle",
    "RunHooks",
    "RunItem",
    "RunItemStreamEvent",
    "RunNotFound",
    "RunOptions",
    "RunResult",
    "RunResultStreaming",
    "RunState",
    "RunTerminated",
    "Runner",
    "SQLiteSession",
    "ServerUnavailable",
    "Session",
    "SessionABC",
    "SessionFailed",
    "SessionInputCallback",
    "SessionSettings",
    "ShellActionRequest",
    "ShellCallData",
    "ShellCallOutcome",
    "ShellCommandOutput",
    "ShellCommandRequest",
    "ShellExecutor",
    "ShellResult",
    "ShellTool",
    "ShellToolContainerAutoEnvironment",
    "ShellToolContainerNetworkPolicy",
    "ShellToolContainerNetworkPolicyAllowlist",
    "ShellToolContainerNetworkPolicyDisabled",
    "ShellToolContainerNetworkPolicyDomainSecret",
    "ShellToolContainerReferenceEnvironment",
    "ShellToolContainerSkill",
    "ShellToolEnvironment",
    "ShellToolHostedEnvironment",
    "ShellToolInlineSkill",
    "ShellToolInlineSkillSource",
    "ShellToolLocalEnvironment",
    "ShellToolLocalSkill",
    "ShellToolSkillReference",
    "Span",
    "SpanData",
    "SpanError",
    "StatusStreamEvent",
    "StopAtTools",
    "StreamEvent",
    "StructuredToolInputBuilder",
    "StructuredToolInputBuilderOptions",
    "TContext",
    "TResponseInputItem",
    "TaskSpanData",
    "Tool",
    "ToolApprovalItem",
    "ToolCallItem",
    "ToolCallOutputItem",
    "ToolContext",
    "ToolErrorFormatter",
    "ToolErrorFormatterArgs",
    "ToolExecutionConfig",
    "ToolFailed",
    "ToolGuardrailFunctionOutput",
    "ToolInputGuardrail",
    "ToolInputGuardrailData",
    "ToolInputGuardrailResult",
    "ToolInputGuardrailTripwireTriggered",
    "ToolNameCollisionPolicy",
    "ToolNotFoundBehavior",
    "ToolOrigin",
    "ToolOriginType",
    "ToolOutputFileContent",
    "ToolOutputFileContentDict",
    "ToolOutputGuardrail",
    "ToolOutputGuardrailData",
    "ToolOutputGuardrailResult",
    "ToolOutputGuardrailTripwireTriggered",
    "ToolOutputImage",
    "ToolOutputImageDict",
    "ToolOutputText",
    "ToolOutputTextDict",
    "ToolRetry",
    "ToolSearchCallItem",
    "ToolSearchOutputItem",
    "ToolTimeoutError",
    "ToolsToFinalOutputFunction",
    "ToolsToFinalOutputResult",
    "Trace",
    "TracingConfig",
    "TracingProcessor",
    "TurnSpanData",
    "Usage",
    "UserError",
    "WebSearchTool",
    "WebSearchToolImageSettings",
    "add_trace_processor",
    "agent_span",
    "apply_diff",
    "custom_span",
    "default_handoff_history_mapper",
    "default_tool_error",
    "default_tool_error_function",
    "dispose_resolved_computers",
    "enable_verbose_stdout_logging",
    "flush_traces",
    "function_span",
    "function_tool",
    "gen_group_id",
    "gen_span_id",
    "gen_trace_id",
    "generation_span",
    "get_conversation_history_wrappers",
    "get_current_span",
    "get_current_trace",
    "guardrail_span",
    "handoff",
    "handoff_span",
    "input_guardrail",
    "mcp_tools_span",
    "nest_handoff_history",
    "output_guardrail",
    "reset_conversation_history_wrappers",
    "resolve_computer",
    "response_span",
    "run_demo_loop",
    "set_conversation_history_wrappers",
    "set_default_openai_api",
    "set_default_openai_client",
    "set_default_openai_key",
    "set_trace_processors",
    "set_tracing_disabled",
    "task_span",
    "tool_input_guardrail",
    "tool_output_guardrail",
    "trace",
    "turn_span",
]  # fmt: skip

install()


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
