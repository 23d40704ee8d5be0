"""Tools that the provider runs inside a model call: search, code, images, servers of others.

Owns: their records, and what the Responses API is told of each. Nothing here runs anything: such a
tool has no guardrails, hooks or approvals of ours, because nobody here sees its call before it is
over. Must not know: how requests travel.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Required, TypeAlias, TypedDict, cast, runtime_checkable

from outlast.agents.errors import UserError
from outlast.agents.tools.definition import FunctionTool
from outlast.loop.values import JsonObject


@runtime_checkable
class HostedTool(Protocol):
    """A protocol for tools that a provider runs.

    A tool that is not here yet can be written by hand.
    """

    @property
    def name(self) -> str:
        """What the tool is called in messages, and in `ModelSettings(tool_choice=...)`."""
        ...

    def to_tool_param(self) -> JsonObject:
        """Return the tool's entry in `tools` of a request to the Responses API."""
        ...


Tool: TypeAlias = FunctionTool | HostedTool
"""Any tool that an agent's `tools=` may hold."""


class WebSearchToolImageSettings(TypedDict, total=False):
    """The image settings of a web search.

    Attributes:
        max_results: how many.
        caption: whether each comes with a few words on what it shows, where there are any.
    """

    max_results: int
    caption: bool


@dataclass
class WebSearchTool:
    """A hosted tool that searches the web.

    Attributes:
        user_location: where the user is, roughly: a dict with `type` and `city` and the like.
        filters: which sites count, such as `{"allowed_domains": [...]}`.
        search_context_size: how much the search may bring: `low`, `medium` or `high`.
        external_web_access: whether pages are fetched live; None leaves it to the provider.
        search_content_types: what is searched for, such as `["text", "image"]`. What was found
            comes back beside the answer where it may be pictures.
        image_settings: how pictures are searched for.
    """

    user_location: Any = None
    filters: Any = None
    search_context_size: str = "medium"
    external_web_access: bool | None = None
    search_content_types: list[Literal["text", "image"]] | None = None
    image_settings: WebSearchToolImageSettings | None = None

    def __post_init__(self) -> None:
        """Check that the options can be sent.

        Raises:
            UserError: they cannot.
        """
        self.to_tool_param()

    @property
    def name(self) -> str:
        """The name of every web search."""
        return "web_search"

    @property
    def include(self) -> list[str]:
        """What is to come back beside the answer."""
        return ["web_search_call.results"] if "image" in (self.search_content_types or ()) else []

    def to_tool_param(self) -> JsonObject:
        """Return the tool's entry in a request."""
        return tool_entry(
            self.name,
            filters=self.filters,
            user_location=self.user_location,
            search_context_size=self.search_context_size,
            external_web_access=self.external_web_access,
            search_content_types=self.search_content_types,
            image_settings=self.image_settings,
        )


@dataclass
class FileSearchTool:
    """A hosted tool that searches the provider's vector stores.

    Attributes:
        vector_store_ids: which stores.
        max_num_results: how many results at most.
        include_search_results: whether the results come back beside the answer.
        ranking_options: how results are ranked.
        filters: which files count, by their attributes.
    """

    vector_store_ids: list[str]
    max_num_results: int | None = None
    include_search_results: bool = False
    ranking_options: Any = None
    filters: Any = None

    def __post_init__(self) -> None:
        """Check the stores.

        Raises:
            UserError: they are no list of ids.
        """
        stores = cast("object", self.vector_store_ids)
        if not isinstance(stores, list | tuple):
            raise UserError(
                f"FileSearchTool(vector_store_ids=...) must be a list of ids, not {stores!r}."
            )
        self.to_tool_param()

    @property
    def name(self) -> str:
        """The name of every file search."""
        return "file_search"

    @property
    def include(self) -> list[str]:
        """What a request has to ask for beside the answer."""
        return ["file_search_call.results"] if self.include_search_results else []

    def to_tool_param(self) -> JsonObject:
        """Return the tool's entry in a request."""
        return tool_entry(
            self.name,
            vector_store_ids=list(self.vector_store_ids),
            max_num_results=self.max_num_results,
            ranking_options=self.ranking_options,
            filters=self.filters,
        )


@dataclass
class _Configured:
    """A tool whose entry the program writes itself."""

    tool_config: Any

    def __post_init__(self) -> None:
        """Check the entry.

        Raises:
            UserError: it is not an entry of that kind of tool.
        """
        if self.to_tool_param().get("type") != self._type:
            raise UserError(
                f"{type(self).__name__}(tool_config=...) must be a dict with 'type': "
                f"{self._type!r}, not {self.tool_config!r}."
            )

    _type = ""

    def to_tool_param(self) -> JsonObject:
        """Return the tool's entry in a request."""
        entry = _plain(self.tool_config)
        return cast("JsonObject", entry) if isinstance(entry, dict) else {}


@dataclass
class CodeInterpreterTool(_Configured):
    """A hosted tool that runs code in a container of the provider.

    Attributes:
        tool_config: `{"type": "code_interpreter", "container": {"type": "auto"}}`, for one.
    """

    _type = "code_interpreter"

    @property
    def name(self) -> str:
        """The name of every code interpreter."""
        return self._type


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
    """A hosted tool that makes images.

    Attributes:
        tool_config: `{"type": "image_generation", "quality": "low"}`, for one.
    """

    _type = "image_generation"

    @property
    def name(self) -> str:
        """The name of every image generation."""
        return self._type


@dataclass
class HostedMCPTool(_Configured):
    """A hosted tool by which the provider calls an MCP server.

    Attributes:
        tool_config: `{"type": "mcp", "server_label": ..., "server_url": ...,
            "require_approval": "never"}`, for one.
        on_approval_request: refused: nobody could ask it while the run waits for days.
    """

    on_approval_request: Any = None
    _type = "mcp"

    def __post_init__(self) -> None:
        """Check the entry.

        Raises:
            UserError: it is no entry of an MCP server, or there is an approval callback.
        """
        super().__post_init__()
        if self.on_approval_request is not None:
            raise UserError(
                "HostedMCPTool(on_approval_request=...) is not offered: the provider asks in the "
                "middle of its own call. Set 'require_approval': 'never' in tool_config, or give "
                "the tools that need approval as function tools with needs_approval=True."
            )

    @property
    def name(self) -> str:
        """The name of every hosted MCP server; its label tells servers apart."""
        return f"hosted_mcp_{self.to_tool_param().get('server_label', '')}".rstrip("_")


def function_tools(tools: "list[Tool]") -> list[FunctionTool]:
    """Return those tools that are run here."""
    return [tool for tool in tools if isinstance(tool, FunctionTool) and not tool.is_hosted]


def hosted_tools(tools: "list[Tool]") -> list[HostedTool]:
    """Return those tools that the provider runs."""
    here = {id(tool) for tool in function_tools(tools)}
    return [cast("HostedTool", tool) for tool in tools if id(tool) not in here]


def tool_entry(kind: str, **options: Any) -> JsonObject:
    """Return a tool's entry in a request, without the options that are not set.

    Raises:
        UserError: an option is nothing that can be sent.
    """
    given = {name: _plain(value) for name, value in options.items() if value is not None}
    return {"type": kind, **given}


def _plain(value: Any) -> Any:
    """Return a value as JSON; the provider's own records are pydantic models.

    Raises:
        UserError: it is nothing that can be sent.
    """
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json", exclude_none=True)
    plain = dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else value
    try:
        json.dumps(plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"{value!r} in a tool cannot be sent: {error}.") from None
    return plain
