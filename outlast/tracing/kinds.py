"""The data of spans: one class for each kind of work."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypedDict, cast

from outlast.agents.items.raw_items import HeldRaw
from outlast.loop.values import JsonObject


class SpanError(TypedDict):
    """The error of a span's work."""

    message: str
    data: dict[str, Any] | None


def tool_error(
    tool: str, message: str, code: str, *, sensitive: bool, error: str | None = None
) -> SpanError:
    """Return the error of a tool call's span: the SDK's data, and the code of the failure.

    Args:
        tool: the name of the tool.
        message: what failed.
        code: the code of the failure.
        sensitive: whether texts of the run may be in spans.
        error: the text of the exception; default: the message.
    """
    shown, text = message, message if error is None else error
    if not sensitive:
        shown = text = code
    return SpanError(message=shown, data={"tool_name": tool, "error": text, "code": code})


class SpanData(ABC):
    """Base class for the data of one kind of span.

    Filled in while the work is in progress.
    """

    @property
    @abstractmethod
    def type(self) -> str:
        """The kind of work, such as `function`."""

    @abstractmethod
    def export(self) -> dict[str, Any]:
        """Return the data as an exporter sends it."""

    def drop_content(self) -> None:  # noqa: B027  most kinds hold no content
        """Remove inputs and outputs; keep names and counts."""

    def conceal(self, hides: Any) -> None:  # noqa: B027  most kinds hold no content
        """Remove what the run hides from people; `hides` is a `tracing.current.Hides`."""


def _concealed(value: Any, hides: Any) -> Any:
    """Return a value without what a run hides; calls of tools as the desk shows them."""
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value)
        shown = {key: _concealed(one, hides) for key, one in fields.items()}
        arguments, name = fields.get("arguments"), fields.get("name")
        if isinstance(arguments, str) and isinstance(name, str):
            shown["arguments"] = hides.of_tool(name, arguments)
        return shown
    if isinstance(value, list | tuple):
        return [_concealed(one, hides) for one in cast("Sequence[Any]", value)]
    return hides.json(value) if isinstance(value, str | int | float) else value


class _FieldsData(SpanData):
    """The data of a kind whose fields are exported as they are."""

    kind: ClassVar[str]
    content: ClassVar[tuple[str, ...]] = ()
    """The fields with inputs and outputs."""

    @property
    def type(self) -> str:
        return self.kind

    def export(self) -> dict[str, Any]:
        return {"type": self.kind, **self._fields()}

    def drop_content(self) -> None:
        for name in self.content:
            setattr(self, name, None)

    def conceal(self, hides: Any) -> None:
        for name in self.content:
            setattr(self, name, _concealed(getattr(self, name), hides))

    def _fields(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}  # pyright: ignore[reportArgumentType]  dataclasses


@dataclass
class AgentSpanData(_FieldsData):
    """The data of a span of an agent's work, up to its answer or handoff."""

    kind = "agent"
    name: str
    handoffs: list[str] | None = None
    tools: list[str] | None = None
    output_type: str | None = None


class _StageData(_FieldsData):
    """The data of a kind that backends only support as a custom span."""

    def export(self) -> dict[str, Any]:
        data = {"sdk_span_type": self.kind, **self._fields()}
        del data["metadata"]
        for name in ("usage", *self.content):
            if data[name] is None:
                del data[name]
        return {"type": "custom", "name": self.kind, "data": data}


@dataclass
class TaskSpanData(_StageData):
    """The data of a span from a question to its answer, with both, and all usage."""

    kind = "task"
    content: ClassVar[tuple[str, ...]] = ("input", "output")
    name: str
    usage: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    input: Sequence[Mapping[str, Any]] | None = None
    output: Any = None


@dataclass
class TurnSpanData(_StageData):
    """The data of a span of one turn: a model call and its tool calls."""

    kind = "turn"
    turn: int
    agent_name: str
    usage: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


@dataclass
class FunctionSpanData(_FieldsData):
    """The data of a span of a tool call; the output is exported as a string."""

    kind = "function"
    content: ClassVar[tuple[str, ...]] = ("input", "output", "mcp_data")
    name: str
    input: str | None = None
    output: Any = None
    mcp_data: JsonObject | None = None

    def export(self) -> dict[str, Any]:
        """Return the data as an exporter sends it."""
        output = None if self.output is None else str(self.output)
        return {**super().export(), "output": output}

    def conceal(self, hides: Any) -> None:
        """Remove what the run hides from people."""
        arguments = self.input
        super().conceal(hides)
        if arguments is not None:
            self.input = hides.of_tool(self.name, arguments)


@dataclass
class GenerationSpanData(_FieldsData):
    """The data of a span of a model call.

    `model_config` has no headers and request bodies, which may hold keys.
    """

    kind = "generation"
    content: ClassVar[tuple[str, ...]] = ("input", "output")
    input: Sequence[Mapping[str, Any]] | None = None
    output: Sequence[Mapping[str, Any]] | None = None
    model: str | None = None
    model_config: Mapping[str, Any] | None = None
    usage: dict[str, Any] | None = None


class _Response:
    """The descriptor of `response`: stores either form, returns the typed object."""

    def __get__(self, data: "ResponseSpanData | None", owner: type | None = None) -> Any:
        if data is None:
            return None  # the default
        held: HeldRaw | None = data.__dict__["_response"]
        return None if held is None else held.shown()

    def __set__(self, data: "ResponseSpanData", value: Any) -> None:
        if isinstance(value, Mapping):
            value = {"object": "response", **cast("JsonObject", value)}
        vars(data)["_response"] = None if value is None else HeldRaw(value)


@dataclass
class ResponseSpanData(_FieldsData):
    """The data of a span of a model call with a stored response.

    `response` is a `Response` of the openai package, with what is kept of it: its id, model, output
    and usage. It may be set as JSON, too.
    """

    kind = "response"
    content: ClassVar[tuple[str, ...]] = ("input",)
    response: Any = None
    input: str | Sequence[Mapping[str, Any]] | None = None

    @property
    def raw_response(self) -> JsonObject:
        """The response as JSON; empty if there is none."""
        held: HeldRaw | None = self.__dict__["_response"]
        return {} if held is None else held.value()

    def export(self) -> dict[str, Any]:
        """Return the data as an exporter sends it."""
        response = self.raw_response
        model = {"model": response["model"]} if "model" in response else {}
        return {
            "type": self.kind,
            "response_id": response.get("id"),
            **model,
            "usage": response.get("usage"),
        }

    def drop_content(self) -> None:
        """Remove the input, and the response except for its id, model and usage."""
        super().drop_content()
        if raw := self.raw_response:
            self.response = {key: raw[key] for key in ("id", "model", "usage") if key in raw}

    def conceal(self, hides: Any) -> None:
        """Remove what the run hides from people."""
        super().conceal(hides)
        if raw := self.raw_response:
            self.response = {**raw, "output": _concealed(raw.get("output"), hides)}


ResponseSpanData.response = _Response()


@dataclass
class GuardrailSpanData(_FieldsData):
    """The data of a span of a guardrail's check."""

    kind = "guardrail"
    name: str
    triggered: bool = False


@dataclass
class HandoffSpanData(_FieldsData):
    """The data of a span of a handoff."""

    kind = "handoff"
    from_agent: str | None = None
    to_agent: str | None = None


@dataclass
class MCPListToolsSpanData(_FieldsData):
    """The data of a span of listing an MCP server's tools, by name."""

    kind = "mcp_tools"
    server: str | None = None
    result: list[str] | None = None


@dataclass
class CustomSpanData(_FieldsData):
    """The data of a custom span.

    The program chose to report `data`, so a run that leaves out inputs and outputs keeps it.
    """

    kind = "custom"
    name: str
    data: dict[str, Any] = field(default_factory=dict[str, Any])

    def conceal(self, hides: Any) -> None:
        """Remove what the run hides from people."""
        self.data = _concealed(self.data, hides)


@dataclass
class WaitSpanData(_FieldsData):
    """The data of a span of a wait for people; backends get it as a custom span.

    `asked_for` is what people were asked for, such as `tool` or `budget`, or `takeover`; `outcome`
    is how the wait ended, such as `approved` or `expired`, and `decided_by` who decided, in order.
    """

    kind = "wait"
    name: str
    asked_for: str
    agent_name: str
    outcome: str | None = None
    decided_by: tuple[str, ...] = ()

    def export(self) -> dict[str, Any]:
        """Return the data as an exporter sends it."""
        return {"type": "custom", "name": self.kind, "data": self._fields()}


@dataclass
class RatingSpanData(_FieldsData):
    """The data of a span of a customer's rating; backends get it as a custom span.

    `score` is from 1, the worst, to 5; `text` is why, in the customer's words.
    """

    kind = "rating"
    content = ("text",)
    score: int
    text: str | None = None

    def export(self) -> dict[str, Any]:
        """Return the data as an exporter sends it."""
        return {"type": "custom", "name": self.kind, "data": self._fields()}


class DiscardedData(SpanData):
    """The data of an unreported span: accepts every attribute and stores none."""

    @property
    def type(self) -> str:
        """`discarded`."""
        return "discarded"

    def export(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def __setattr__(self, name: str, value: object) -> None:
        """Discard the value: all unreported spans share one object."""

    def __getattr__(self, name: str) -> Any:
        # Return no None for dunder names, or Python would call None as a protocol's method.
        if name.startswith("__"):
            raise AttributeError(name)
        return {} if name == "data" else None
