"""The items of a run as programs see them: one class per kind of item."""

from copy import deepcopy
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, cast

from outlast.agents.errors import UserError
from outlast.agents.items.raw_items import HeldRaw, as_input, in_written_order
from outlast.agents.items.tool_origin import ToolOrigin
from outlast.loop.call_forms import arguments_of, name_of
from outlast.loop.values import JsonObject


class _RawItem:
    """The descriptor of `raw_item`: stores either form, returns `HeldRaw.shown()`."""

    def __get__(self, item: "RunItemBase | None", owner: type | None = None) -> Any:
        if item is None:
            raise AttributeError("raw_item exists on objects of the class only")
        return item.__dict__["_raw"].shown()

    def __set__(self, item: "RunItemBase", value: Any) -> None:
        item.__dict__["_raw"] = HeldRaw(value)


@dataclass(eq=False, repr=False)
class RunItemBase:  # noqa: PLW1641  unhashable: items can be changed
    """The base class of all items.

    Attributes:
        agent: the agent whose turn produced the item; None for input from outside.
        raw_item: the item in the format of the Responses API: the openai package's typed object
            if a model wrote it, else a dict.
    """

    agent: Any
    raw_item: Any

    def to_input_item(self) -> JsonObject:
        """Return a copy of the item as input for a model, without response-only fields."""
        return deepcopy(in_written_order(as_input(raw_of(self))))

    def get(self, key: str, default: Any = None) -> Any:
        """Return a field of the raw item, as a dict's `get` does: `item.get("type")`.

        Fields have the names and the values of the Responses API; `item.type` is the kind of the
        item here.
        """
        return deepcopy(raw_of(self).get(key, default))

    def release_agent(self) -> None:
        """Do nothing: items keep their agents. The Agents SDK has this method."""

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return _content(self) == _content(cast("RunItemBase", other))

    def __repr__(self) -> str:
        names = (field.name for field in fields(self))
        shown = (f"{name}={_shown(name, getattr(self, name))}" for name in names)
        return f"{type(self).__name__}({', '.join(shown)})"


RunItemBase.raw_item = _RawItem()  # assigned here, because the field has no default


@dataclass(eq=False, repr=False)
class InputItem(RunItemBase):
    """An item of the run's input, usually a user's message."""

    type: Literal["input_item"] = "input_item"


@dataclass(eq=False, repr=False)
class MessageOutputItem(RunItemBase):
    """A message from a model; `ItemHelpers` reads its text."""

    type: Literal["message_output_item"] = "message_output_item"

    @property
    def role(self) -> str:
        """The author of the message: `assistant`."""
        return str(raw_of(self).get("role") or "assistant")

    @property
    def content(self) -> list[Any]:
        """The parts of the message, as in `raw_item`; `ItemHelpers.text_message_output` joins them."""
        shown: Any = self.raw_item
        is_typed = hasattr(shown, "content")
        parts: object = shown.content if is_typed else raw_of(self).get("content")
        return list(cast("list[Any]", parts)) if isinstance(parts, list) else [parts]


@dataclass(eq=False, repr=False)
class ReasoningItem(RunItemBase):
    """A model's reasoning, as far as the provider shows it."""

    type: Literal["reasoning_item"] = "reasoning_item"


@dataclass(eq=False, repr=False)
class ToolCallItem(RunItemBase):
    """A call of a tool, run here or by the provider.

    Attributes:
        description: the tool's description for the model.
        title: the tool's display name.
        tool_origin: the origin of the tool.
    """

    type: Literal["tool_call_item"] = "tool_call_item"
    description: str | None = None
    title: str | None = None
    tool_origin: ToolOrigin | None = None

    @property
    def tool_name(self) -> str | None:
        """The called tool's name: the name in the call, or that of its item type."""
        return name_of(raw_of(self)) or None

    @property
    def call_id(self) -> str | None:
        """The id of the call."""
        return _text(raw_of(self), "call_id", "id")

    @property
    def arguments(self) -> str | None:
        """The arguments as text, as the model wrote them; None for a call that has none."""
        return arguments_of(raw_of(self)) or None


@dataclass(eq=False, repr=False)
class ToolCallOutputItem(RunItemBase):
    """The output of a tool call.

    Attributes:
        output: the tool's result, if available; otherwise the output that the model reads.
        tool_origin: the origin of the tool.
        custom_data: what the tool's `custom_data_extractor` returned; no model reads it.
    """

    output: Any
    type: Literal["tool_call_output_item"] = "tool_call_output_item"
    tool_origin: ToolOrigin | None = None
    custom_data: JsonObject | None = None

    @property
    def call_id(self) -> str | None:
        """The id of the call that this output belongs to."""
        return _text(raw_of(self), "call_id", "id")

    @property
    def success(self) -> bool | None:
        """Whether the call succeeded, as far as the output says; None if it does not say.

        Outputs of shells and editors say it. The output of a function is what the model reads,
        also if the function failed: only its text tells.
        """
        raw = raw_of(self)
        if raw.get("type") == "apply_patch_call_output":
            return raw.get("status") != "failed"
        if raw.get("type") != "shell_call_output":
            return None
        chunks = cast("list[JsonObject]", raw.get("output") or [])
        outcomes = [cast("JsonObject", chunk.get("outcome") or {}) for chunk in chunks]
        return all(outcome.get("exit_code") == 0 for outcome in outcomes)


TARGET = "_target_agent"
"""The attribute of a handoff's call that holds its target."""


@dataclass(eq=False, repr=False)
class HandoffCallItem(RunItemBase):
    """A model's call of a handoff."""

    type: Literal["handoff_call_item"] = "handoff_call_item"

    @property
    def target_agent(self) -> Any:
        """The agent that is called to take over; None if this process does not know it."""
        return self.__dict__.get(TARGET)


@dataclass(eq=False, repr=False)
class HandoffOutputItem(RunItemBase):
    """A completed handoff from one agent to another.

    Attributes:
        source_agent: the agent that handed over.
        target_agent: the agent that took over.
    """

    source_agent: Any
    target_agent: Any
    type: Literal["handoff_output_item"] = "handoff_output_item"


@dataclass(eq=False, repr=False)
class MCPListToolsItem(RunItemBase):
    """The tools of an MCP server, as the provider listed them."""

    type: Literal["mcp_list_tools_item"] = "mcp_list_tools_item"


@dataclass(eq=False, repr=False)
class MCPApprovalRequestItem(RunItemBase):
    """A provider's request to approve an MCP tool call."""

    type: Literal["mcp_approval_request_item"] = "mcp_approval_request_item"


@dataclass(eq=False, repr=False)
class MCPApprovalResponseItem(RunItemBase):
    """The answer to an `MCPApprovalRequestItem`."""

    type: Literal["mcp_approval_response_item"] = "mcp_approval_response_item"


@dataclass(eq=False, repr=False)
class ToolSearchCallItem(RunItemBase):
    """A model's search for tools that were not loaded."""

    type: Literal["tool_search_call_item"] = "tool_search_call_item"


@dataclass(eq=False, repr=False)
class ToolSearchOutputItem(RunItemBase):
    """The tools that a model's search found."""

    type: Literal["tool_search_output_item"] = "tool_search_output_item"


@dataclass(eq=False, repr=False)
class CompactionItem(RunItemBase):
    """A provider's compact form of a longer conversation."""

    type: Literal["compaction_item"] = "compaction_item"


@dataclass(eq=False, repr=False)
class ProviderItem(RunItemBase):
    """A provider's item of a type that has no class here."""

    type: Literal["provider_item"] = "provider_item"


@dataclass(eq=False, repr=False)
class ToolApprovalItem(RunItemBase):
    """A call that waits for a person's decision.

    Two items are equal only if they are the same object.

    Attributes:
        tool_name: the name of the tool; default the name in the call.
        tool_namespace: the namespace of the tool, if it has a namespace.
        approval_id: the id for the decision, as in `handle.approve(approval_id)`.
        tool_origin: the origin of the tool.
    """

    tool_name: str | None = None
    type: Literal["tool_approval_item"] = "tool_approval_item"
    tool_namespace: str | None = None
    approval_id: str | None = None
    tool_origin: ToolOrigin | None = None

    def __post_init__(self) -> None:
        raw = raw_of(self)
        self.tool_name = self.tool_name or name_of(raw) or _text(raw, "tool_name")
        self.tool_namespace = self.tool_namespace or _text(raw, "namespace")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return object.__hash__(self)

    @property
    def name(self) -> str | None:
        """The name of the tool."""
        return self.tool_name

    @property
    def qualified_name(self) -> str | None:
        """The name of the tool, prefixed with its namespace if it has one."""
        if self.tool_name and self.tool_namespace and self.tool_namespace != self.tool_name:
            return f"{self.tool_namespace}.{self.tool_name}"
        return self.tool_name

    @property
    def arguments(self) -> str | None:
        """The arguments as JSON text, as the model wrote them."""
        return _text(raw_of(self), "arguments", "input")

    @property
    def call_id(self) -> str | None:
        """The id of the call."""
        return _text(raw_of(self), "call_id", "id")

    def to_input_item(self) -> JsonObject:
        """Raise a `UserError`: a call that waits for a decision is not input for a model."""
        raise UserError(
            f"The call of {self.tool_name!r} waits for a decision, so it is no input for a model. "
            "Leave ToolApprovalItem out when you build an input."
        )


RunItem: TypeAlias = (
    InputItem
    | MessageOutputItem
    | ReasoningItem
    | ToolCallItem
    | ToolCallOutputItem
    | HandoffCallItem
    | HandoffOutputItem
    | MCPListToolsItem
    | MCPApprovalRequestItem
    | MCPApprovalResponseItem
    | ToolSearchCallItem
    | ToolSearchOutputItem
    | CompactionItem
    | ProviderItem
    | ToolApprovalItem
)
"""Any item of a run; `item.type` names its kind."""


def raw_of(item: RunItemBase) -> JsonObject:
    """Return an item's raw JSON as it is now, without a copy. Treat it as immutable."""
    held: HeldRaw = item.__dict__["_raw"]
    return held.value()


def _content(item: RunItemBase) -> list[object]:
    """Return the values that equality compares; agents are compared by name."""
    rest = (getattr(item, field.name) for field in fields(item) if field.name != "raw_item")
    return [raw_of(item), *(_name(value) or value for value in rest)]


def _shown(field: str, value: object) -> str:
    """Return a field's value for `repr`; an agent by its name, because it may be very long."""
    if field in {"agent", "source_agent", "target_agent"} and value is not None:
        return f"{type(value).__name__}(name={_name(value)!r})"
    return repr(value)


def _name(agent: object) -> str | None:
    name = getattr(agent, "name", None)
    return name if isinstance(name, str) else None


def _text(raw: JsonObject, *keys: str) -> str | None:
    found = (raw.get(key) for key in keys)
    return next((value for value in found if isinstance(value, str) and value), None)
