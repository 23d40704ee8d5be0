"""MCP servers as agents see them: something that lists tools and calls them.

Owns: `MCPServer`, the interface, with what every kind of server has. Must not know: the protocol,
how a connection is held, or how its tools become an agent's (`mcp_tools`).
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from types import TracebackType
from typing import Any, ClassVar, Self, TypeAlias, TypedDict

from outlast.agents.callables import check_callable
from outlast.agents.checks import check_flag
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import AgentsException
from outlast.agents.guardrails.tool_guardrails import ToolInputGuardrail, ToolOutputGuardrail
from outlast.agents.mcp.approval import ApprovalPolicy, RequireApprovalSetting, approval_policy
from outlast.agents.tools.definition import (
    DEFAULT_RETRY,
    DEFAULT_TIMEOUT,
    ToolErrorFunction,
    ToolRetry,
)
from outlast.loop.values import JsonObject


class Unset(Enum):
    """Nothing was said, which is not the same as None."""

    UNSET = "unset"


UNSET = Unset.UNSET


class MCPRefusal(AgentsException):
    """A server answered a request with an error. Asking again would not help."""


class MCPFault(RuntimeError):
    """A server failed inside, as HTTP's 500 and 503 say. Another try may work."""


class MCPProtocolError(RuntimeError):
    """A server answered something that its protocol does not allow."""


class MCPConfig(TypedDict, total=False):
    """How an agent takes the tools of its MCP servers.

    Attributes:
        convert_schemas_to_strict: whether the provider holds the model to the schemas, where a
            schema can be strict; default false.
        failure_error_function: what the model reads of a call that failed; None lets the failure
            end the run. Default `default_tool_error`. A server's own goes before it.
        include_server_in_tool_names: whether tools are named `mcp_<server>__<tool>`, so that two
            servers may have tools of one name; default false.
    """

    convert_schemas_to_strict: bool
    failure_error_function: ToolErrorFunction | None
    include_server_in_tool_names: bool


@dataclass
class MCPToolMetaContext:
    """The call for which metadata is wanted.

    Attributes:
        run_context: the run's context.
        server_name: the server that is called.
        tool_name: the tool, as the server names it.
        arguments: what the model gave.
    """

    run_context: RunContextWrapper[Any]
    server_name: str
    tool_name: str
    arguments: JsonObject | None


MCPToolMetaResolver: TypeAlias = Callable[
    [MCPToolMetaContext], JsonObject | Awaitable[JsonObject | None] | None
]
"""Called before each call of a tool; returns what goes with it as `_meta`; sync or async."""


class MCPServer(ABC):
    """A server of the Model Context Protocol.

    Those that are there (`MCPServerStdio`, `MCPServerSse`, `MCPServerStreamableHttp`) connect by
    themselves when they are first used. A class of your own may do as it likes; if it has to be
    connected first, do so in every process that has a worker.

    Attributes:
        use_structured_content: whether the model reads a result's structured content, where there
            is some, instead of its texts and images.
        tool_meta_resolver: makes the metadata of calls.
        tool_input_guardrails: asked before a tool of this server is called.
        tool_output_guardrails: asked about the result.
        idempotency_meta_key: under which key of a call's metadata its idempotency key is sent;
            None for not at all.
        required: whether a run fails where this server cannot list its tools. Otherwise the run
            continues without them, and its model is told.
        seen_tools: what it listed last for an agent of this process.
    """

    use_structured_content: bool = False
    tool_meta_resolver: MCPToolMetaResolver | None = None
    tool_input_guardrails: list[ToolInputGuardrail[Any]] | None = None
    tool_output_guardrails: list[ToolOutputGuardrail[Any]] | None = None
    idempotency_meta_key: ClassVar[str | None] = None
    required: bool = False
    seen_tools: Sequence[Any] = ()
    _approval: ApprovalPolicy = False
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
    ) -> None:
        """Take what all servers have in common.

        Args:
            use_structured_content: see the attribute.
            require_approval: which tools need a person before each call: `always`, `never`, a
                bool, a dict by tool, `{"always": {"tool_names": [...]}}`, or a callable that
                takes (context, agent, tool).
            failure_error_function: what the model reads of a call that failed; None lets the
                failure end the run. Left out, it is the agent's.
            tool_meta_resolver: see the attribute.
            tool_input_guardrails: see the attribute.
            tool_output_guardrails: see the attribute.
            required: see the attribute.

        Raises:
            UserError: an argument does not fit.
        """
        check_flag("An MCP server's required=", required)
        self.required = required
        self.use_structured_content = use_structured_content
        self._approval = approval_policy(require_approval)
        if callable(failure_error_function):
            check_callable(
                failure_error_function, ("context", "error"), what="failure_error_function"
            )
        self._failure_error_function = failure_error_function
        if tool_meta_resolver is not None:
            check_callable(tool_meta_resolver, ("context",), what="tool_meta_resolver")
        self.tool_meta_resolver = tool_meta_resolver
        self.tool_input_guardrails = tool_input_guardrails
        self.tool_output_guardrails = tool_output_guardrails

    @property
    @abstractmethod
    def name(self) -> str:
        """What the server is called, for people."""

    @abstractmethod
    async def connect(self) -> None:
        """Connect, until `cleanup` is called."""

    @abstractmethod
    async def cleanup(self) -> None:
        """Let the connection go."""

    @abstractmethod
    async def list_tools(
        self, run_context: RunContextWrapper[Any] | None = None, agent: Any = None
    ) -> list[Any]:
        """Return the server's tools, as `mcp.types.Tool`.

        Args:
            run_context: the run's context, for a filter.
            agent: the agent whose model will be offered them.
        """

    @abstractmethod
    async def call_tool(
        self, tool_name: str, arguments: JsonObject | None, meta: JsonObject | None = None
    ) -> Any:
        """Call a tool, and return its `mcp.types.CallToolResult`.

        Args:
            tool_name: the tool, as the server names it.
            arguments: its arguments.
            meta: what goes with the call as `_meta`.
        """

    async def list_prompts(self) -> Any:
        """Return the server's prompts, as `mcp.types.ListPromptsResult`.

        Raises:
            NotImplementedError: a server of one's own has none, unless it says so. Likewise below.
        """
        raise self._has_no("prompts")

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """Return a prompt, as `mcp.types.GetPromptResult`."""
        raise self._has_no("prompts")

    async def list_resources(self, cursor: str | None = None) -> Any:
        """Return a page of the server's resources, as `mcp.types.ListResourcesResult`."""
        raise self._has_no("resources")

    async def list_resource_templates(self, cursor: str | None = None) -> Any:
        """Return a page of them, as `mcp.types.ListResourceTemplatesResult`."""
        raise self._has_no("resources")

    async def read_resource(self, uri: str) -> Any:
        """Return a resource, as `mcp.types.ReadResourceResult`."""
        raise self._has_no("resources")

    def _has_no(self, what: str) -> NotImplementedError:
        return NotImplementedError(f"The MCP server {self.name!r} does not give {what}.")

    @property
    def cached_tools(self) -> list[Any] | None:
        """The tools as they were listed last, where that is kept."""
        return None

    @property
    def tool_timeout(self) -> timedelta:
        """How long one attempt of a call may take, connecting included."""
        return DEFAULT_TIMEOUT

    @property
    def tool_retry(self) -> ToolRetry:
        """How failed calls are tried again. What the server itself refuses is not."""
        return DEFAULT_RETRY

    @property
    def approval(self) -> ApprovalPolicy:
        """Which tools need a person, as `require_approval` said."""
        return self._approval

    def failure_error_function(self, otherwise: ToolErrorFunction | None) -> Any:
        """Return what tells the model of failed calls.

        Args:
            otherwise: the agent's, where the server has none.
        """
        own = self._failure_error_function
        return otherwise if isinstance(own, Unset) else own

    async def release(self) -> None:  # noqa: B027  a server may have nothing to let go
        """Let go what was opened on first use and not by `connect`. A worker calls it at its end."""

    async def __aenter__(self) -> Self:
        """Connect."""
        await self.connect()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let the connection go."""
        await self.cleanup()
