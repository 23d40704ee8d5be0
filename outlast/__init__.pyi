from outlast.agents.agent import Agent as Agent
from outlast.agents.agent import AgentBase as AgentBase
from outlast.agents.agent import Instructions as Instructions
from outlast.agents.agent_tools.agent_tool import AgentTool as AgentTool
from outlast.agents.agent_tools.input import (
    StructuredToolInputBuilder as StructuredToolInputBuilder,
)
from outlast.agents.agent_tools.input import (
    StructuredToolInputBuilderOptions as StructuredToolInputBuilderOptions,
)
from outlast.agents.agent_tools.nested_result import AgentToolInvocation as AgentToolInvocation
from outlast.agents.approvals.budget import Budget as Budget
from outlast.agents.approvals.policy import ApprovalPolicy as ApprovalPolicy
from outlast.agents.approvals.policy import Audience as Audience
from outlast.agents.approvals.policy import Escalation as Escalation
from outlast.agents.calendars import Calendar as Calendar
from outlast.agents.config.compaction import Compaction as Compaction
from outlast.agents.config.fallback_model import FallbackModel as FallbackModel
from outlast.agents.config.model_settings import ModelSettings as ModelSettings
from outlast.agents.config.reply_times import ReplyTimes as ReplyTimes
from outlast.agents.config.retry import ModelRetryAdvice as ModelRetryAdvice
from outlast.agents.config.retry import ModelRetryAdviceRequest as ModelRetryAdviceRequest
from outlast.agents.config.retry import ModelRetryBackoffSettings as ModelRetryBackoffSettings
from outlast.agents.config.retry import ModelRetryNormalizedError as ModelRetryNormalizedError
from outlast.agents.config.retry import ModelRetrySettings as ModelRetrySettings
from outlast.agents.config.retry import RetryDecision as RetryDecision
from outlast.agents.config.retry import RetryPolicy as RetryPolicy
from outlast.agents.config.retry import RetryPolicyContext as RetryPolicyContext
from outlast.agents.config.retry import retry_policies as retry_policies
from outlast.agents.config.run_config import CallModelData as CallModelData
from outlast.agents.config.run_config import CallModelInputFilter as CallModelInputFilter
from outlast.agents.config.run_config import CallModelOutputData as CallModelOutputData
from outlast.agents.config.run_config import CallModelOutputFilter as CallModelOutputFilter
from outlast.agents.config.run_config import ModelInputData as ModelInputData
from outlast.agents.config.run_config import ModelOutputData as ModelOutputData
from outlast.agents.config.run_config import (
    OutputGuardrailBlockedMessageArgs as OutputGuardrailBlockedMessageArgs,
)
from outlast.agents.config.run_config import (
    OutputGuardrailBlockedMessageFormatter as OutputGuardrailBlockedMessageFormatter,
)
from outlast.agents.config.run_config import RunConfig as RunConfig
from outlast.agents.config.run_config import ToolErrorFormatter as ToolErrorFormatter
from outlast.agents.config.run_config import ToolErrorFormatterArgs as ToolErrorFormatterArgs
from outlast.agents.config.run_config import ToolNameCollisionPolicy as ToolNameCollisionPolicy
from outlast.agents.config.run_config import ToolNotFoundBehavior as ToolNotFoundBehavior
from outlast.agents.config.run_config import TracingConfig as TracingConfig
from outlast.agents.config.run_error import RunErrorData as RunErrorData
from outlast.agents.config.run_error import RunErrorDetails as RunErrorDetails
from outlast.agents.config.run_error import RunErrorHandler as RunErrorHandler
from outlast.agents.config.run_error import RunErrorHandlerInput as RunErrorHandlerInput
from outlast.agents.config.run_error import RunErrorHandlerResult as RunErrorHandlerResult
from outlast.agents.config.run_error import RunErrorHandlers as RunErrorHandlers
from outlast.agents.config.session_input import ReasoningItemIdPolicy as ReasoningItemIdPolicy
from outlast.agents.config.session_input import SessionInputCallback as SessionInputCallback
from outlast.agents.config.session_input import SessionSettings as SessionSettings
from outlast.agents.context.encoding import register_context_type as register_context_type
from outlast.agents.context.waits import Wait as Wait
from outlast.agents.context.wrapper import RunContextWrapper as RunContextWrapper
from outlast.agents.context.wrapper import TContext as TContext
from outlast.agents.context.wrapper import ToolContext as ToolContext
from outlast.agents.errors import AgentsException as AgentsException
from outlast.agents.errors import ApprovalExpired as ApprovalExpired
from outlast.agents.errors import BudgetExceeded as BudgetExceeded
from outlast.agents.errors import ContentUnavailable as ContentUnavailable
from outlast.agents.errors import ConversationFull as ConversationFull
from outlast.agents.errors import DecisionRefused as DecisionRefused
from outlast.agents.errors import DeliveryRefused as DeliveryRefused
from outlast.agents.errors import IdentityRefused as IdentityRefused
from outlast.agents.errors import InputGuardrailTripwireTriggered as InputGuardrailTripwireTriggered
from outlast.agents.errors import MaxTurnsExceeded as MaxTurnsExceeded
from outlast.agents.errors import MCPTaskEnded as MCPTaskEnded
from outlast.agents.errors import ModelBehaviorError as ModelBehaviorError
from outlast.agents.errors import ModelCallFailed as ModelCallFailed
from outlast.agents.errors import ModelRefusalError as ModelRefusalError
from outlast.agents.errors import ModelTimeoutError as ModelTimeoutError
from outlast.agents.errors import (
    OutputGuardrailTripwireTriggered as OutputGuardrailTripwireTriggered,
)
from outlast.agents.errors import RunAlreadyStarted as RunAlreadyStarted
from outlast.agents.errors import RunBusy as RunBusy
from outlast.agents.errors import RunCancelled as RunCancelled
from outlast.agents.errors import RunClosed as RunClosed
from outlast.agents.errors import RunNotFound as RunNotFound
from outlast.agents.errors import RunTerminated as RunTerminated
from outlast.agents.errors import ScheduleAlreadyExists as ScheduleAlreadyExists
from outlast.agents.errors import ScheduleNotFound as ScheduleNotFound
from outlast.agents.errors import ServerUnavailable as ServerUnavailable
from outlast.agents.errors import SessionFailed as SessionFailed
from outlast.agents.errors import ToolFailed as ToolFailed
from outlast.agents.errors import (
    ToolInputGuardrailTripwireTriggered as ToolInputGuardrailTripwireTriggered,
)
from outlast.agents.errors import (
    ToolOutputGuardrailTripwireTriggered as ToolOutputGuardrailTripwireTriggered,
)
from outlast.agents.errors import ToolTimeoutError as ToolTimeoutError
from outlast.agents.errors import UserError as UserError
from outlast.agents.errors import WaitDropped as WaitDropped
from outlast.agents.errors import WaitTimeout as WaitTimeout
from outlast.agents.guardrails.guardrail import GuardrailFunctionOutput as GuardrailFunctionOutput
from outlast.agents.guardrails.guardrail import InputGuardrail as InputGuardrail
from outlast.agents.guardrails.guardrail import InputGuardrailResult as InputGuardrailResult
from outlast.agents.guardrails.guardrail import OutputGuardrail as OutputGuardrail
from outlast.agents.guardrails.guardrail import OutputGuardrailResult as OutputGuardrailResult
from outlast.agents.guardrails.guardrail import input_guardrail as input_guardrail
from outlast.agents.guardrails.guardrail import output_guardrail as output_guardrail
from outlast.agents.guardrails.tool_guardrails import (
    ToolGuardrailFunctionOutput as ToolGuardrailFunctionOutput,
)
from outlast.agents.guardrails.tool_guardrails import ToolInputGuardrail as ToolInputGuardrail
from outlast.agents.guardrails.tool_guardrails import (
    ToolInputGuardrailData as ToolInputGuardrailData,
)
from outlast.agents.guardrails.tool_guardrails import (
    ToolInputGuardrailResult as ToolInputGuardrailResult,
)
from outlast.agents.guardrails.tool_guardrails import ToolOutputGuardrail as ToolOutputGuardrail
from outlast.agents.guardrails.tool_guardrails import (
    ToolOutputGuardrailData as ToolOutputGuardrailData,
)
from outlast.agents.guardrails.tool_guardrails import (
    ToolOutputGuardrailResult as ToolOutputGuardrailResult,
)
from outlast.agents.guardrails.tool_guardrails import tool_input_guardrail as tool_input_guardrail
from outlast.agents.guardrails.tool_guardrails import tool_output_guardrail as tool_output_guardrail
from outlast.agents.handoffs.handoff import Handoff as Handoff
from outlast.agents.handoffs.handoff import handoff as handoff
from outlast.agents.handoffs.history import (
    default_handoff_history_mapper as default_handoff_history_mapper,
)
from outlast.agents.handoffs.history import (
    get_conversation_history_wrappers as get_conversation_history_wrappers,
)
from outlast.agents.handoffs.history import nest_handoff_history as nest_handoff_history
from outlast.agents.handoffs.history import (
    reset_conversation_history_wrappers as reset_conversation_history_wrappers,
)
from outlast.agents.handoffs.history import (
    set_conversation_history_wrappers as set_conversation_history_wrappers,
)
from outlast.agents.handoffs.input_data import HandoffHistoryMapper as HandoffHistoryMapper
from outlast.agents.handoffs.input_data import HandoffInputData as HandoffInputData
from outlast.agents.handoffs.input_data import HandoffInputFilter as HandoffInputFilter
from outlast.agents.hooks import AgentHookContext as AgentHookContext
from outlast.agents.hooks import AgentHooks as AgentHooks
from outlast.agents.hooks import RunHooks as RunHooks
from outlast.agents.items.item_helpers import ItemHelpers as ItemHelpers
from outlast.agents.items.item_helpers import TResponseInputItem as TResponseInputItem
from outlast.agents.items.run_items import CompactionItem as CompactionItem
from outlast.agents.items.run_items import HandoffCallItem as HandoffCallItem
from outlast.agents.items.run_items import HandoffOutputItem as HandoffOutputItem
from outlast.agents.items.run_items import InputItem as InputItem
from outlast.agents.items.run_items import MCPApprovalRequestItem as MCPApprovalRequestItem
from outlast.agents.items.run_items import MCPApprovalResponseItem as MCPApprovalResponseItem
from outlast.agents.items.run_items import MCPListToolsItem as MCPListToolsItem
from outlast.agents.items.run_items import MessageOutputItem as MessageOutputItem
from outlast.agents.items.run_items import ProviderItem as ProviderItem
from outlast.agents.items.run_items import ReasoningItem as ReasoningItem
from outlast.agents.items.run_items import RunItem as RunItem
from outlast.agents.items.run_items import ToolApprovalItem as ToolApprovalItem
from outlast.agents.items.run_items import ToolCallItem as ToolCallItem
from outlast.agents.items.run_items import ToolCallOutputItem as ToolCallOutputItem
from outlast.agents.items.run_items import ToolSearchCallItem as ToolSearchCallItem
from outlast.agents.items.run_items import ToolSearchOutputItem as ToolSearchOutputItem
from outlast.agents.items.stream_events import AgentToolStreamEvent as AgentToolStreamEvent
from outlast.agents.items.stream_events import AgentUpdatedStreamEvent as AgentUpdatedStreamEvent
from outlast.agents.items.stream_events import RawResponsesStreamEvent as RawResponsesStreamEvent
from outlast.agents.items.stream_events import RunItemStreamEvent as RunItemStreamEvent
from outlast.agents.items.tool_origin import ToolOrigin as ToolOrigin
from outlast.agents.items.tool_origin import ToolOriginType as ToolOriginType
from outlast.agents.items.tool_output import ToolOutputFileContent as ToolOutputFileContent
from outlast.agents.items.tool_output import ToolOutputFileContentDict as ToolOutputFileContentDict
from outlast.agents.items.tool_output import ToolOutputImage as ToolOutputImage
from outlast.agents.items.tool_output import ToolOutputImageDict as ToolOutputImageDict
from outlast.agents.items.tool_output import ToolOutputText as ToolOutputText
from outlast.agents.items.tool_output import ToolOutputTextDict as ToolOutputTextDict
from outlast.agents.logs import enable_verbose_stdout_logging as enable_verbose_stdout_logging
from outlast.agents.prompt import DynamicPromptFunction as DynamicPromptFunction
from outlast.agents.prompt import GenerateDynamicPromptData as GenerateDynamicPromptData
from outlast.agents.prompt import Prompt as Prompt
from outlast.agents.schemas.agent_output import AgentOutputSchema as AgentOutputSchema
from outlast.agents.schemas.agent_output import AgentOutputSchemaBase as AgentOutputSchemaBase
from outlast.agents.tools.custom import CustomTool as CustomTool
from outlast.agents.tools.custom_data import (
    ApplyPatchToolCustomDataContext as ApplyPatchToolCustomDataContext,
)
from outlast.agents.tools.custom_data import (
    ApplyPatchToolCustomDataExtractor as ApplyPatchToolCustomDataExtractor,
)
from outlast.agents.tools.custom_data import (
    ComputerToolCustomDataContext as ComputerToolCustomDataContext,
)
from outlast.agents.tools.custom_data import (
    ComputerToolCustomDataExtractor as ComputerToolCustomDataExtractor,
)
from outlast.agents.tools.custom_data import (
    CustomToolCustomDataContext as CustomToolCustomDataContext,
)
from outlast.agents.tools.custom_data import (
    CustomToolCustomDataExtractor as CustomToolCustomDataExtractor,
)
from outlast.agents.tools.custom_data import (
    FunctionToolCustomDataContext as FunctionToolCustomDataContext,
)
from outlast.agents.tools.custom_data import (
    FunctionToolCustomDataExtractor as FunctionToolCustomDataExtractor,
)
from outlast.agents.tools.definition import FunctionTool as FunctionTool
from outlast.agents.tools.definition import ToolRetry as ToolRetry
from outlast.agents.tools.definition import default_tool_error as default_tool_error
from outlast.agents.tools.definition import (
    default_tool_error_function as default_tool_error_function,
)
from outlast.agents.tools.function_tool import ToolOptions as ToolOptions
from outlast.agents.tools.function_tool import function_tool as function_tool
from outlast.agents.tools.hosted import CodeInterpreterTool as CodeInterpreterTool
from outlast.agents.tools.hosted import FileSearchTool as FileSearchTool
from outlast.agents.tools.hosted import HostedMCPTool as HostedMCPTool
from outlast.agents.tools.hosted import HostedTool as HostedTool
from outlast.agents.tools.hosted import ImageGenerationTool as ImageGenerationTool
from outlast.agents.tools.hosted import ImageGenerationToolConfig as ImageGenerationToolConfig
from outlast.agents.tools.hosted import MCPToolApprovalFunction as MCPToolApprovalFunction
from outlast.agents.tools.hosted import (
    MCPToolApprovalFunctionResult as MCPToolApprovalFunctionResult,
)
from outlast.agents.tools.hosted import MCPToolApprovalRequest as MCPToolApprovalRequest
from outlast.agents.tools.hosted import Tool as Tool
from outlast.agents.tools.hosted import WebSearchTool as WebSearchTool
from outlast.agents.tools.hosted import WebSearchToolImageSettings as WebSearchToolImageSettings
from outlast.agents.tools.programs import (
    ProgrammaticToolCallingTool as ProgrammaticToolCallingTool,
)
from outlast.agents.tools.programs import ToolCaller as ToolCaller
from outlast.agents.tools.search import ToolSearchTool as ToolSearchTool
from outlast.agents.tools.search import tool_namespace as tool_namespace
from outlast.agents.tools.sleep import sleep_tool as sleep_tool
from outlast.agents.tools.use_behavior import FunctionToolResult as FunctionToolResult
from outlast.agents.tools.use_behavior import StopAtTools as StopAtTools
from outlast.agents.tools.use_behavior import ToolExecutionConfig as ToolExecutionConfig
from outlast.agents.tools.use_behavior import (
    ToolsToFinalOutputFunction as ToolsToFinalOutputFunction,
)
from outlast.agents.tools.use_behavior import ToolsToFinalOutputResult as ToolsToFinalOutputResult
from outlast.agents.usage import RequestUsage as RequestUsage
from outlast.agents.usage import Usage as Usage
from outlast.client.handle import RunHandle as RunHandle
from outlast.client.handle import SentMessage as SentMessage
from outlast.client.inbox import BulkOutcome as BulkOutcome
from outlast.client.inbox import Inbox as Inbox
from outlast.client.inbox import InboxChange as InboxChange
from outlast.client.inbox import InboxEntry as InboxEntry
from outlast.client.inbox import InboxPage as InboxPage
from outlast.client.people.actions import AsideReceipt as AsideReceipt
from outlast.client.people.actions import ClaimReceipt as ClaimReceipt
from outlast.client.people.actions import DecisionReceipt as DecisionReceipt
from outlast.client.people.actions import MessageReceipt as MessageReceipt
from outlast.client.people.actions import TakeoverReceipt as TakeoverReceipt
from outlast.client.people.cases import CaseReceipt as CaseReceipt
from outlast.client.read.events import ApprovalStreamEvent as ApprovalStreamEvent
from outlast.client.read.events import BlockedStep as BlockedStep
from outlast.client.read.events import StatusStreamEvent as StatusStreamEvent
from outlast.client.read.events import StreamEvent as StreamEvent
from outlast.client.read.streaming import RunResultStreaming as RunResultStreaming
from outlast.client.results.local_definitions import RemoteAgent as RemoteAgent
from outlast.client.results.run_result import RunResult as RunResult
from outlast.client.results.run_state import RunState as RunState
from outlast.client.schedules.tool import schedule_tool as schedule_tool
from outlast.client.start.options import RunOptions as RunOptions
from outlast.client.start.repl import run_demo_loop as run_demo_loop
from outlast.client.start.responses_websocket_session import (
    ResponsesWebSocketSession as ResponsesWebSocketSession,
)
from outlast.client.start.responses_websocket_session import (
    responses_websocket_session as responses_websocket_session,
)
from outlast.client.start.runner import Runner as Runner
from outlast.client.start.tenant import Tenant as Tenant
from outlast.extensions.machine.computer import AsyncComputer as AsyncComputer
from outlast.extensions.machine.computer import Button as Button
from outlast.extensions.machine.computer import Computer as Computer
from outlast.extensions.machine.computer import Environment as Environment
from outlast.extensions.machine.computer_tool import ComputerTool as ComputerTool
from outlast.extensions.machine.computer_tool import (
    ComputerToolSafetyCheckData as ComputerToolSafetyCheckData,
)
from outlast.extensions.machine.computer_tool import resolve_computer as resolve_computer
from outlast.extensions.machine.computers import ComputerProvider as ComputerProvider
from outlast.extensions.machine.computers import (
    dispose_resolved_computers as dispose_resolved_computers,
)
from outlast.extensions.machine.diffs import apply_diff as apply_diff
from outlast.extensions.machine.patch import ApplyPatchEditor as ApplyPatchEditor
from outlast.extensions.machine.patch import ApplyPatchOperation as ApplyPatchOperation
from outlast.extensions.machine.patch import ApplyPatchResult as ApplyPatchResult
from outlast.extensions.machine.patch import ApplyPatchTool as ApplyPatchTool
from outlast.extensions.machine.shell import LocalShellCommandRequest as LocalShellCommandRequest
from outlast.extensions.machine.shell import LocalShellExecutor as LocalShellExecutor
from outlast.extensions.machine.shell import LocalShellTool as LocalShellTool
from outlast.extensions.machine.shell import ShellActionRequest as ShellActionRequest
from outlast.extensions.machine.shell import ShellCallData as ShellCallData
from outlast.extensions.machine.shell import ShellCallOutcome as ShellCallOutcome
from outlast.extensions.machine.shell import ShellCommandOutput as ShellCommandOutput
from outlast.extensions.machine.shell import ShellCommandRequest as ShellCommandRequest
from outlast.extensions.machine.shell import ShellExecutor as ShellExecutor
from outlast.extensions.machine.shell import ShellResult as ShellResult
from outlast.extensions.machine.shell import ShellTool as ShellTool
from outlast.extensions.machine.shell_environments import (
    ShellToolContainerAutoEnvironment as ShellToolContainerAutoEnvironment,
)
from outlast.extensions.machine.shell_environments import (
    ShellToolContainerNetworkPolicy as ShellToolContainerNetworkPolicy,
)
from outlast.extensions.machine.shell_environments import (
    ShellToolContainerNetworkPolicyAllowlist as ShellToolContainerNetworkPolicyAllowlist,
)
from outlast.extensions.machine.shell_environments import (
    ShellToolContainerNetworkPolicyDisabled as ShellToolContainerNetworkPolicyDisabled,
)
from outlast.extensions.machine.shell_environments import (
    ShellToolContainerNetworkPolicyDomainSecret as ShellToolContainerNetworkPolicyDomainSecret,
)
from outlast.extensions.machine.shell_environments import (
    ShellToolContainerReferenceEnvironment as ShellToolContainerReferenceEnvironment,
)
from outlast.extensions.machine.shell_environments import (
    ShellToolContainerSkill as ShellToolContainerSkill,
)
from outlast.extensions.machine.shell_environments import (
    ShellToolEnvironment as ShellToolEnvironment,
)
from outlast.extensions.machine.shell_environments import (
    ShellToolHostedEnvironment as ShellToolHostedEnvironment,
)
from outlast.extensions.machine.shell_environments import (
    ShellToolInlineSkill as ShellToolInlineSkill,
)
from outlast.extensions.machine.shell_environments import (
    ShellToolInlineSkillSource as ShellToolInlineSkillSource,
)
from outlast.extensions.machine.shell_environments import (
    ShellToolLocalEnvironment as ShellToolLocalEnvironment,
)
from outlast.extensions.machine.shell_environments import ShellToolLocalSkill as ShellToolLocalSkill
from outlast.extensions.machine.shell_environments import (
    ShellToolSkillReference as ShellToolSkillReference,
)
from outlast.extensions.temporal_tools import OperationToolOptions as OperationToolOptions
from outlast.extensions.temporal_tools import nexus_tool as nexus_tool
from outlast.extensions.temporal_tools import workflow_tool as workflow_tool
from outlast.loop.approvals import ApprovalRequest as ApprovalRequest
from outlast.loop.approvals import Decision as Decision
from outlast.loop.approvals import Person as Person
from outlast.loop.start import Customer as Customer
from outlast.loop.values import DEFAULT_MAX_TURNS as DEFAULT_MAX_TURNS
from outlast.models.defaults import set_default_openai_api as set_default_openai_api
from outlast.models.defaults import set_default_openai_client as set_default_openai_client
from outlast.models.defaults import set_default_openai_key as set_default_openai_key
from outlast.models.defaults import (
    set_default_openai_responses_transport as set_default_openai_responses_transport,
)
from outlast.models.multi_provider import MultiProvider as MultiProvider
from outlast.models.openai.chat_completions import (
    OpenAIChatCompletionsModel as OpenAIChatCompletionsModel,
)
from outlast.models.openai.client import AsyncOpenAI as AsyncOpenAI
from outlast.models.openai.compaction_session import (
    OpenAIResponsesCompactionSession as OpenAIResponsesCompactionSession,
)
from outlast.models.openai.conversations_session import (
    OpenAIConversationsSession as OpenAIConversationsSession,
)
from outlast.models.openai.provider import OpenAIProvider as OpenAIProvider
from outlast.models.openai.responses import OpenAIResponsesModel as OpenAIResponsesModel
from outlast.models.openai.responses_websocket import (
    OpenAIResponsesWebSocketOptions as OpenAIResponsesWebSocketOptions,
)
from outlast.models.openai.responses_websocket import (
    OpenAIResponsesWSModel as OpenAIResponsesWSModel,
)
from outlast.ports.model import Model as Model
from outlast.ports.model import ModelError as ModelError
from outlast.ports.model import ModelProvider as ModelProvider
from outlast.ports.model import ModelRequest as ModelRequest
from outlast.ports.model import ModelResponse as ModelResponse
from outlast.ports.model_arguments import ModelTracing as ModelTracing
from outlast.ports.session import OpenAIResponsesCompactionArgs as OpenAIResponsesCompactionArgs
from outlast.ports.session import (
    OpenAIResponsesCompactionAwareSession as OpenAIResponsesCompactionAwareSession,
)
from outlast.ports.session import Session as Session
from outlast.ports.session import SessionABC as SessionABC
from outlast.ports.session import (
    is_openai_responses_compaction_aware_session as is_openai_responses_compaction_aware_session,
)
from outlast.sessions.sqlite import SQLiteSession as SQLiteSession
from outlast.tracing.current import Span as Span
from outlast.tracing.current import Trace as Trace
from outlast.tracing.current import gen_group_id as gen_group_id
from outlast.tracing.current import gen_span_id as gen_span_id
from outlast.tracing.current import gen_trace_id as gen_trace_id
from outlast.tracing.kinds import AgentSpanData as AgentSpanData
from outlast.tracing.kinds import CustomSpanData as CustomSpanData
from outlast.tracing.kinds import FunctionSpanData as FunctionSpanData
from outlast.tracing.kinds import GenerationSpanData as GenerationSpanData
from outlast.tracing.kinds import GuardrailSpanData as GuardrailSpanData
from outlast.tracing.kinds import HandoffSpanData as HandoffSpanData
from outlast.tracing.kinds import MCPListToolsSpanData as MCPListToolsSpanData
from outlast.tracing.kinds import ResponseSpanData as ResponseSpanData
from outlast.tracing.kinds import SpanData as SpanData
from outlast.tracing.kinds import SpanError as SpanError
from outlast.tracing.kinds import TaskSpanData as TaskSpanData
from outlast.tracing.kinds import TurnSpanData as TurnSpanData
from outlast.tracing.processors import set_tracing_export_api_key as set_tracing_export_api_key
from outlast.tracing.provider import TracingProcessor as TracingProcessor
from outlast.tracing.provider import add_trace_processor as add_trace_processor
from outlast.tracing.provider import custom_span as custom_span
from outlast.tracing.provider import flush_traces as flush_traces
from outlast.tracing.provider import get_current_span as get_current_span
from outlast.tracing.provider import get_current_trace as get_current_trace
from outlast.tracing.provider import set_trace_processors as set_trace_processors
from outlast.tracing.provider import set_tracing_disabled as set_tracing_disabled
from outlast.tracing.provider import trace as trace
from outlast.tracing.user_spans import agent_span as agent_span
from outlast.tracing.user_spans import function_span as function_span
from outlast.tracing.user_spans import generation_span as generation_span
from outlast.tracing.user_spans import guardrail_span as guardrail_span
from outlast.tracing.user_spans import handoff_span as handoff_span
from outlast.tracing.user_spans import mcp_tools_span as mcp_tools_span
from outlast.tracing.user_spans import response_span as response_span
from outlast.tracing.user_spans import task_span as task_span
from outlast.tracing.user_spans import turn_span as turn_span
from outlast.views.run import RunSnapshot as RunSnapshot

__version__: str
