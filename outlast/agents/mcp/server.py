"""The interface of MCP servers; the protocol and the connections are in `outlast.mcp`."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self, TypeAlias, TypedDict

from outlast.agents.callables import called_with, check_callable
from outlast.agents.checks import Rule, check_fields, of_kinds, optional
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import AgentsException, UserError
from outlast.agents.guardrails.tool_guardrails import ToolInputGuardrail, ToolOutputGuardrail
from outlast.agents.mcp.approval import RequireApprovalSetting, ServerApproval, server_approval
from outlast.agents.mcp.replies import MCPTask
from outlast.agents.tools.definition import (
    DEFAULT_RETRY,
    DEFAULT_TIMEOUT,
    AnsweredError,
    ToolErrorFunction,
    ToolRetry,
)
from outlast.loop.values import JsonObject


class Unset(Enum):
    """The value of an unset option where None means something else."""

    UNSET = "unset"


UNSET = Unset.UNSET


class MCPRefusal(AgentsException, AnsweredError):
    """A server answered a request with an error. A retry would not help."""


class MCPConnectionError(UserError, ConnectionError):
    """A program's own request, or `connect`, failed: nothing answers there, or it refuses."""


class MCPNotSent(ConnectionError):
    """A call did not reach the server, so that it had no effect. A retry may succeed."""


class MCPFault(RuntimeError, AnsweredError):
    """A server failed, such as with HTTP status 500 or 503. A retry may succeed."""


class MCPProtocolError(RuntimeError):
    """A server's response violates the protocol."""


class MCPReadError(UserError, MCPProtocolError):
    """A program's own request failed: the server's response violates the protocol."""


class MCPConfig(TypedDict, total=False):
    """An agent's options for the tools of its MCP servers.

    Attributes:
        convert_schemas_to_strict: whether schemas are made strict where possible, so that the
            provider enforces them; default false.
        failure_error_function: returns the tool's output for the model when a call fails; None lets
            the failure end the run. Default `default_tool_error`. A server's own function takes
            precedence.
        include_server_in_tool_names: whether tools are named `mcp_<server>__<tool>`, so that two
            servers may have tools with the same name; default false.
    """

    convert_schemas_to_strict: bool
    failure_error_function: ToolErrorFunction | None
    include_server_in_tool_names: bool


@dataclass
class MCPToolMetaContext:
    """The argument of a `tool_meta_resolver`; the tool has the server's name of it."""

    run_context: RunContextWrapper[Any]
    server_name: str
    tool_name: str
    arguments: JsonObject | None


MCPToolMetaResolver: TypeAlias = Callable[
    [MCPToolMetaContext], JsonObject | Awaitable[JsonObject | None] | None
]
"""A function called with (context) that returns a call's metadata (`_meta`)."""


@dataclass(frozen=True, kw_only=True)
class MCPToolCustomDataContext:
    """The argument of a server's `custom_data_extractor`; data of the call are copies.

    Attributes:
        tool_name: the server's name of the tool.
        tool_display_name: the tool's name for the model.
        result_meta: the result's metadata (`_meta`), if it has any.
        is_error: whether the server says that the call failed.
        tool_output: the output for the model.
    """

    run_context: RunContextWrapper[Any]
    server_name: str
    tool_name: str
    tool_display_name: str
    arguments: JsonObject
    result_meta: JsonObject | None
    structured_content: JsonObject | None
    is_error: bool | None
    tool_output: Any


MCPToolCustomDataExtractor: TypeAlias = Callable[
    [MCPToolCustomDataContext], Mapping[str, Any] | Awaitable[Mapping[str, Any] | None] | None
]
"""A function called with (context) that returns an output's `custom_data`."""


class MCPServer(ABC):
    """A server of the Model Context Protocol.

    The built-in classes (`MCPServerStdio`, `MCPServerSse`, `MCPServerStreamableHttp`) connect on
    first use. If a class of your own does not, connect it in every process that has a worker.

    Attributes:
        use_structured_content: whether the model gets a result's structured content, if any,
            instead of its texts and images.
        tool_meta_resolver: returns the metadata of calls.
        custom_data_extractor: makes the `custom_data` of the items of outputs, for the program.
        tool_input_guardrails: check each call of this server's tools.
        tool_output_guardrails: check each result of this server's tools.
        idempotency_meta_key: the metadata key for a call's idempotency key; None sends no
            idempotency key.
        required: whether a run fails if this server cannot list its tools. Otherwise the run
            continues without them, and its model gets a notice.
        seen_tools: the tools that the server listed last for an agent of this process.
        listing_problems: why tools of the newest listing were left out or changed, by their names,
            in the words that follow the name.
        tool_problems: the same, with what agents of this process found.
    """

    use_structured_content: bool = False
    tool_meta_resolver: MCPToolMetaResolver | None = None
    custom_data_extractor: MCPToolCustomDataExtractor | None = None
    tool_input_guardrails: list[ToolInputGuardrail[Any]] | None = None
    tool_output_guardrails: list[ToolOutputGuardrail[Any]] | None = None
    idempotency_meta_key: ClassVar[str | None] = None
    required: bool = False
    seen_tools: Sequence[Any] = ()
    listing_problems: Mapping[str, str] = MappingProxyType({})
    tool_problems: Mapping[str, str] = MappingProxyType({})
    approval: ServerApproval = False
    _failure_error_function: ToolErrorFunction | Unset | None = UNSET

    def __init__(
        self,
        use_structured_content: bool = False,  # noqa: FBT001, FBT002  as the field has it
        require_approval: RequireApprovalSetting = None,
        failure_error_function: ToolErrorFunction | Unset | None = UNSET,
        tool_meta_resolver: MCPToolMetaResolver | None = None,
        *,
        tool_input_guardrails: list[ToolInputGuardrail[Any]] | None = None,
        tool_output_guardrails: list[ToolOutputGuardrail[Any]] | None = None,
        required: bool = False,
        custom_data_extractor: MCPToolCustomDataExtractor | None = None,
    ) -> None:
        """Set the options that all servers have; see also the attributes.

        `require_approval` says which tools need an approval before each call: `always`, `never`, a
        bool, a dict by tool, `{"always": {"tool_names": [...]}}`, or a callable that takes
        (context, agent, tool). `failure_error_function` returns the tool's output for the model
        when a call fails; None lets the failure end the run. Default: the agent's function.
        """
        self.required = required
        self.use_structured_content = use_structured_content
        self.approval = server_approval(require_approval)
        self._failure_error_function = failure_error_function
        self.tool_meta_resolver = tool_meta_resolver
        self.custom_data_extractor = custom_data_extractor
        self.tool_input_guardrails = tool_input_guardrails
        self.tool_output_guardrails = tool_output_guardrails
        check_fields(self, _RULES, type(self).__name__)
        if callable(failure_error_function):
            what = "failure_error_function"
            check_callable(failure_error_function, ("context", "error"), what=what)

    @property
    @abstractmethod
    def name(self) -> str:
        """The server's name for people."""

    @abstractmethod
    async def connect(self) -> None:
        """Connect to the server; `cleanup` closes the connection."""

    @abstractmethod
    async def cleanup(self) -> None:
        """Close the connection."""

    @abstractmethod
    async def list_tools(
        self, run_context: RunContextWrapper[Any] | None = None, agent: Any = None
    ) -> list[Any]:
        """Return the server's tools, as `mcp.types.Tool`.

        Args:
            run_context: the run's context, for a filter.
            agent: the agent whose model will be offered the tools.
        """

    @abstractmethod
    async def call_tool(
        self, tool_name: str, arguments: JsonObject | None, meta: JsonObject | None = None
    ) -> Any:
        """Call a tool, and return its `mcp.types.CallToolResult`.

        Args:
            tool_name: the server's name of the tool.
            arguments: the arguments of the call.
            meta: the call's metadata, sent as `_meta`.
        """

    async def start_call(
        self,
        tool_name: str,
        arguments: JsonObject | None,
        meta: JsonObject | None = None,
        *,
        answers: JsonObject | None = None,
        state: str | None = None,
    ) -> Any:
        """Call a tool for a run, which can wait for a task and ask people.

        Args:
            tool_name: the server's name of the tool.
            arguments: the arguments of the call.
            meta: the call's metadata, sent as `_meta`.
            answers: people's answers to the questions of the last reply, by key.
            state: the `MCPInputRequired.state` of the last reply.

        Returns:
            What `call_tool` returns, an `MCPTask`, or an `MCPInputRequired`.
        """
        del answers, state  # whoever asks overrides this method
        if meta is None:  # a user's own server may not accept metadata
            return await self.call_tool(tool_name, arguments)
        return await self.call_tool(tool_name, arguments, meta=meta)

    async def get_task(self, task_id: str, tool_name: str) -> MCPTask:
        """Return the state of a task that `start_call` has returned."""
        raise self._has_no("get_task")

    async def update_task(self, task_id: str, answers: JsonObject) -> None:
        """Send people's answers to the questions of a task, by key."""
        raise self._has_no("update_task")

    async def cancel_task(self, task_id: str) -> None:
        """Ask the server to end a task."""
        raise self._has_no("cancel_task")

    async def list_prompts(self) -> Any:
        """Return the server's prompts, as `mcp.types.ListPromptsResult`.

        Raises:
            NotImplementedError: the class does not override this method. The same applies to
                the methods below.
        """
        raise self._has_no("list_prompts")

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """Return a prompt, as `mcp.types.GetPromptResult`."""
        raise self._has_no("get_prompt")

    async def list_resources(self, cursor: str | None = None) -> Any:
        """Return a page of the server's resources, as `mcp.types.ListResourcesResult`."""
        raise self._has_no("list_resources")

    async def list_resource_templates(self, cursor: str | None = None) -> Any:
        """Return a page of resource templates, as `mcp.types.ListResourceTemplatesResult`."""
        raise self._has_no("list_resource_templates")

    async def read_resource(self, uri: str) -> Any:
        """Return a resource, as `mcp.types.ReadResourceResult`."""
        raise self._has_no("read_resource")

    def _has_no(self, method: str) -> NotImplementedError:
        return NotImplementedError(f"The MCP server {self.name!r} does not implement {method}().")

    @property
    def cached_tools(self) -> list[Any] | None:
        """The cached tools; None if the server caches none."""
        return None

    @property
    def tool_timeout(self) -> timedelta:
        """The timeout of one attempt of a call, including the connection."""
        return DEFAULT_TIMEOUT

    @property
    def tool_retry(self) -> ToolRetry:
        """The retry policy of calls. Those that the server refuses are not retried."""
        return DEFAULT_RETRY

    @property
    def task_timeout(self) -> timedelta | None:
        """How long a call may take that the server answers with a task; None for any time."""
        return None

    def failure_error_function(self, otherwise: ToolErrorFunction | None) -> Any:
        """Return the function that makes the model's output of failed calls.

        Args:
            otherwise: the agent's function, used if the server's is not set.
        """
        own = self._failure_error_function
        return otherwise if isinstance(own, Unset) else own

    async def release(self) -> None:  # noqa: B027  a server may have nothing to let go
        """Close a connection opened on first use. A worker calls this when it stops."""

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Close the connection."""
        await self.cleanup()


_RULES: Final[dict[str, Rule]] = {
    "required": of_kinds(bool),
    "tool_meta_resolver": optional(called_with("context")),
    "custom_data_extractor": optional(called_with("context")),
}
