"""Tools that the provider runs inside a model call, such as a web search.

Hosted tools have no guardrails or hooks: a worker sees a call only after it has run. Approvals exist
for MCP servers, where the provider requests them.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import (
    Any,
    Literal,
    NotRequired,
    Protocol,
    Required,
    TypeAlias,
    TypedDict,
    cast,
    runtime_checkable,
)

from outlast.agents.approvals.policy import WITHOUT_ARGUMENTS, NeedsApproval, check_needs_approval
from outlast.agents.callables import check_callable
from outlast.agents.checks import check_fields, json_problem
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.agents.json_values import as_object
from outlast.agents.tools.definition import FunctionTool
from outlast.agents.tools.programs import check_callers
from outlast.loop.values import JsonObject


@runtime_checkable
class HostedTool(Protocol):
    """A protocol for tools that a provider runs.

    Implement it for a provider's tool that has no class here.
    """

    @property
    def name(self) -> str:
        """The tool's name in messages and in `ModelSettings(tool_choice=...)`."""
        ...

    def to_tool_param(self) -> JsonObject:
        """Return the tool's entry in `tools` of a request to the Responses API."""
        ...


Tool: TypeAlias = FunctionTool | HostedTool
"""A tool for an agent's `tools=`."""


class WebSearchToolImageSettings(TypedDict, total=False):
    """The image settings of a web search.

    Attributes:
        max_results: the maximum number of images.
        caption: whether images come with their captions, if available.
    """

    max_results: int
    caption: bool


class DescribedTool:
    """A tool whose fields are the options of its entry in a request."""

    name: str

    def __post_init__(self) -> None:
        self.to_tool_param()  # an option that is no JSON is refused here

    def to_tool_param(self) -> JsonObject:
        """Return the tool's entry in a request."""
        return tool_entry(self.name, **vars(self))


@dataclass
class WebSearchTool(DescribedTool):
    """A hosted tool that searches the web.

    Attributes:
        user_location: the user's approximate location: a dict with `type`, `city` and so on.
        filters: limits the sites that are searched, such as `{"allowed_domains": [...]}`.
        search_context_size: the amount of context from the search: `low`, `medium` or `high`.
        external_web_access: whether pages are fetched live; None uses the provider's default.
        search_content_types: the types of content, such as `["text", "image"]`. With images, the
            response includes the search results.
        image_settings: the settings of an image search.
    """

    user_location: Any = None
    filters: Any = None
    search_context_size: str = "medium"
    external_web_access: bool | None = None
    search_content_types: list[Literal["text", "image"]] | None = None
    image_settings: WebSearchToolImageSettings | None = None

    name = "web_search"

    @property
    def include(self) -> list[str]:
        """The tool's entries for `include` in a request."""
        return ["web_search_call.results"] if "image" in (self.search_content_types or ()) else []


@dataclass
class FileSearchTool(DescribedTool):
    """A hosted tool that searches the provider's vector stores.

    Attributes:
        vector_store_ids: the ids of the vector stores.
        max_num_results: the maximum number of results.
        include_search_results: whether the response includes the search results.
        ranking_options: the ranking of results.
        filters: limits the files that are searched, by their attributes.
    """

    vector_store_ids: list[str]
    max_num_results: int | None = None
    include_search_results: bool = False
    ranking_options: Any = None
    filters: Any = None

    name = "file_search"

    def __post_init__(self) -> None:
        check_fields(self)
        super().__post_init__()

    @property
    def include(self) -> list[str]:
        """The tool's entries for `include` in a request."""
        return ["file_search_call.results"] if self.include_search_results else []

    def to_tool_param(self) -> JsonObject:
        """Return the tool's entry in a request."""
        entry = tool_entry(self.name, **vars(self))
        del entry["include_search_results"]  # an option of the request
        return {**entry, "vector_store_ids": list(self.vector_store_ids)}


@dataclass
class _Configured:
    """A tool with a request entry that the program writes itself."""

    tool_config: Any

    _type = ""

    def __post_init__(self) -> None:
        entry = self.to_tool_param()
        if "allowed_callers" in entry:
            check_callers(f"{type(self).__name__}: allowed_callers", entry["allowed_callers"])
        if entry.get("type") != self._type:
            raise UserError(
                f"{type(self).__name__}(tool_config=...) must be a dict with 'type': "
                f"{self._type!r}, not {self.tool_config!r}."
            )

    @property
    def name(self) -> str:
        """The name of all tools of this type."""
        return self._type

    def to_tool_param(self) -> JsonObject:
        """Return the tool's entry in a request."""
        return as_object(_plain(self.tool_config)) or {}


@dataclass
class CodeInterpreterTool(_Configured):
    """A hosted tool that runs code in a container of the provider.

    Attributes:
        tool_config: such as `{"type": "code_interpreter", "container": {"type": "auto"}}`.
    """

    _type = "code_interpreter"


class ImageGenerationToolConfig(TypedDict, total=False):
    """The settings of `ImageGenerationTool`.

    Every field but `type` is optional.
    """

    type: Required[Literal["image_generation"]]
    action: Literal["generate", "edit", "auto"]
    background: Literal["transparent", "opaque", "auto"]
    input_fidelity: Literal["high", "low"] | None
    input_image_mask: dict[str, str]
    model: str
    moderation: Literal["auto", "low"]
    output_compression: int
    output_format: Literal["png", "webp", "jpeg"]
    partial_images: int
    quality: Literal["low", "medium", "high", "xhigh", "max", "auto"]
    size: str


@dataclass
class ImageGenerationTool(_Configured):
    """A hosted tool that generates images.

    Attributes:
        tool_config: such as `{"type": "image_generation", "quality": "low"}`.
    """

    _type = "image_generation"


@dataclass(frozen=True, slots=True)
class MCPToolApprovalRequest:
    """A provider's request to call a tool of a hosted MCP server.

    Attributes:
        ctx_wrapper: the run's context.
        data: the request, with `name`, `arguments` and `server_label`.
    """

    ctx_wrapper: RunContextWrapper[Any]
    data: Any


class MCPToolApprovalFunctionResult(TypedDict):
    """The decision of an `on_approval_request`.

    Attributes:
        approve: whether the provider may call the tool.
        reason: why not; the model reads it.
    """

    approve: bool
    reason: NotRequired[str]


MCPToolApprovalFunction: TypeAlias = Callable[
    [MCPToolApprovalRequest],
    MCPToolApprovalFunctionResult | Awaitable[MCPToolApprovalFunctionResult],
]
"""A function called with (request) that decides about a hosted server's call."""


@dataclass
class HostedMCPTool(_Configured):
    """A hosted tool that lets the provider call an MCP server.

    If the server's `require_approval` says so, the provider requests an approval. Where neither
    `needs_approval` nor `on_approval_request` lets the call run, a person decides.

    Attributes:
        tool_config: such as `{"type": "mcp", "server_label": ..., "server_url": ...,
            "require_approval": "always"}`.
        on_approval_request: decides about requests; called once per request, by the worker. If it
            raises, a person decides.
        needs_approval: whether such a request needs anybody's decision: a flag, a predicate called
            with (context, arguments, request id), or an `ApprovalPolicy`.
    """

    on_approval_request: MCPToolApprovalFunction | None = None
    needs_approval: NeedsApproval = True
    _type = "mcp"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.on_approval_request is not None:
            what = "HostedMCPTool(on_approval_request=...)"
            check_callable(self.on_approval_request, ("request",), what=what)
        place = "HostedMCPTool: needs_approval"
        check_needs_approval(place, self.needs_approval, possible=WITHOUT_ARGUMENTS)

    @property
    def server_label(self) -> str:
        """The label of the server, which approval requests name."""
        return str(self.to_tool_param().get("server_label", ""))

    @property
    def name(self) -> str:
        """The name of the tool, which ends with the server's label."""
        return f"hosted_mcp_{self.server_label}".rstrip("_")


def function_tools(tools: "list[Tool]") -> list[FunctionTool]:
    """Return the tools that workers run."""
    return [tool for tool in tools if isinstance(tool, FunctionTool) and not tool.is_hosted]


def hosted_tools(tools: "list[Tool]") -> list[HostedTool]:
    """Return the tools that the provider runs."""
    here = {id(tool) for tool in function_tools(tools)}
    return [cast("HostedTool", tool) for tool in tools if id(tool) not in here]


def tool_entry(kind: str, **options: Any) -> JsonObject:
    """Return a tool's entry in a request, without unset options."""
    fields = {name: _plain(value) for name, value in options.items() if value is not None}
    return {"type": kind, **fields}


def _plain(value: Any) -> Any:
    """Return a value as JSON; the provider's records are pydantic models."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json", exclude_none=True)
    plain = dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else value
    if (problem := json_problem(plain)) is not None:
        raise UserError(f"{value!r} in a tool cannot be sent: {problem}.")
    return plain
