"""What a span of a trace tells: one class for each kind of work.

Owns: the span data classes and their exported form. Must not know: how a span is opened, whom it
is told to, Temporal.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from outlast.loop.values import JsonObject


class SpanError(TypedDict):
    """The error of a span's work.

    Attributes:
        message: the failure in words.
        data: whatever else is known about it.
    """

    message: str
    data: dict[str, Any] | None


class SpanData(ABC):
    """The data of one kind of span.

    Filled in while the work goes on.
    """

    @property
    @abstractmethod
    def type(self) -> str:
        """The kind of work, such as `function`."""

    @abstractmethod
    def export(self) -> dict[str, Any]:
        """Return the data as an exporter sends it."""

    def drop_content(self) -> None:  # noqa: B027  most kinds hold no content
        """Forget what people and models said: inputs and outputs. Names and counts stay."""


@dataclass
class AgentSpanData(SpanData):
    """The data of a span of an agent's work, up to its answer or handoff."""

    name: str
    handoffs: list[str] | None = None
    tools: list[str] | None = None
    output_type: str | None = None

    @property
    def type(self) -> str:
        """`agent`."""
        return "agent"

    def export(self) -> dict[str, Any]:
        """Return the data as an exporter sends it."""
        return {
            "type": self.type,
            "name": self.name,
            "handoffs": self.handoffs,
            "tools": self.tools,
            "output_type": self.output_type,
        }


@dataclass
class TaskSpanData(SpanData):
    """The data of a span from a question to its answer.

    Attributes:
        name: what the run calls its work; the workflow's name.
        usage: the tokens spent on it, nested runs included.
        metadata: whatever else a program tells; it is not exported.
    """

    name: str
    usage: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None

    @property
    def type(self) -> str:
        """`task`."""
        return "task"

    def export(self) -> dict[str, Any]:
        """Return the data as an exporter sends it: as a custom span's."""
        return _as_custom(self.type, self.usage, name=self.name)


@dataclass
class TurnSpanData(SpanData):
    """The data of a span of one turn: a model call and its tool calls.

    Attributes:
        turn: its number in the question; the first is 1.
        agent_name: whose turn it is.
        usage: the tokens spent in it, nested runs included.
        metadata: whatever else a program tells; it is not exported.
    """

    turn: int
    agent_name: str
    usage: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None

    @property
    def type(self) -> str:
        """`turn`."""
        return "turn"

    def export(self) -> dict[str, Any]:
        """Return the data as an exporter sends it: as a custom span's."""
        return _as_custom(self.type, self.usage, turn=self.turn, agent_name=self.agent_name)


@dataclass
class FunctionSpanData(SpanData):
    """The data of a span of a tool call."""

    name: str
    input: str | None = None
    output: Any = None
    mcp_data: JsonObject | None = None

    @property
    def type(self) -> str:
        """`function`."""
        return "function"

    def export(self) -> dict[str, Any]:
        """Return the data as an exporter sends it; the output is a text."""
        return {
            "type": self.type,
            "name": self.name,
            "input": self.input,
            "output": None if self.output is None else str(self.output),
            "mcp_data": self.mcp_data,
        }

    def drop_content(self) -> None:
        """Forget the arguments, the result, and what a server said of them."""
        self.input = self.output = self.mcp_data = None


@dataclass
class GenerationSpanData(SpanData):
    """The data of a span of a model call.

    Attributes:
        input: the items the model was asked with.
        output: the items it answered.
        model: its name.
        model_config: how it was called. Put no headers and no request bodies in: they hold keys.
        usage: the tokens of this call.
    """

    input: Sequence[Mapping[str, Any]] | None = None
    output: Sequence[Mapping[str, Any]] | None = None
    model: str | None = None
    model_config: Mapping[str, Any] | None = None
    usage: dict[str, Any] | None = None

    @property
    def type(self) -> str:
        """`generation`."""
        return "generation"

    def export(self) -> dict[str, Any]:
        """Return the data as an exporter sends it."""
        return {
            "type": self.type,
            "input": self.input,
            "output": self.output,
            "model": self.model,
            "model_config": self.model_config,
            "usage": self.usage,
        }

    def drop_content(self) -> None:
        """Forget the items; model and usage stay."""
        self.input = self.output = None


@dataclass
class ResponseSpanData(SpanData):
    """The data of a span of a model call whose provider stores the response.

    Attributes:
        response: the response, as the provider sent it.
        input: what the model was asked with.
    """

    response: JsonObject | None = None
    input: str | Sequence[Mapping[str, Any]] | None = None

    @property
    def type(self) -> str:
        """`response`."""
        return "response"

    def export(self) -> dict[str, Any]:
        """Return the data as an exporter sends it: the response by its id, with its usage."""
        response = self.response or {}
        return {
            "type": self.type,
            "response_id": response.get("id"),
            "usage": response.get("usage"),
        }

    def drop_content(self) -> None:
        """Forget the input and all of the response but its id, model and usage."""
        self.input = None
        if self.response is not None:
            kept = ("id", "model", "usage")
            self.response = {key: self.response[key] for key in kept if key in self.response}


@dataclass
class GuardrailSpanData(SpanData):
    """The data of a span of a guardrail's check."""

    name: str
    triggered: bool = False

    @property
    def type(self) -> str:
        """`guardrail`."""
        return "guardrail"

    def export(self) -> dict[str, Any]:
        """Return the data as an exporter sends it."""
        return {"type": self.type, "name": self.name, "triggered": self.triggered}


@dataclass
class HandoffSpanData(SpanData):
    """The data of a span of a handoff."""

    from_agent: str | None = None
    to_agent: str | None = None

    @property
    def type(self) -> str:
        """`handoff`."""
        return "handoff"

    def export(self) -> dict[str, Any]:
        """Return the data as an exporter sends it."""
        return {"type": self.type, "from_agent": self.from_agent, "to_agent": self.to_agent}


@dataclass
class MCPListToolsSpanData(SpanData):
    """The data of a span of listing an MCP server's tools.

    Attributes:
        server: what the server is called.
        result: the names of its tools.
    """

    server: str | None = None
    result: list[str] | None = None

    @property
    def type(self) -> str:
        """`mcp_tools`."""
        return "mcp_tools"

    def export(self) -> dict[str, Any]:
        """Return the data as an exporter sends it."""
        return {"type": self.type, "server": self.server, "result": self.result}


@dataclass
class CustomSpanData(SpanData):
    """The data of a span of the program's own.

    `data` is whatever the program puts in; it is content that somebody chose to tell, so it stays
    in runs that leave inputs and outputs out.
    """

    name: str
    data: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def type(self) -> str:
        """`custom`."""
        return "custom"

    def export(self) -> dict[str, Any]:
        """Return the data as an exporter sends it."""
        return {"type": self.type, "name": self.name, "data": self.data}


def _as_custom(kind: str, usage: dict[str, Any] | None, **told: Any) -> dict[str, Any]:
    """Return the export of a kind that backends know as a custom span only."""
    data = {"sdk_span_type": kind, **told}
    if usage is not None:
        data["usage"] = usage
    return {"type": "custom", "name": kind, "data": data}


class DiscardedData(SpanData):
    """The data of a span that nobody is told of: takes everything and keeps nothing."""

    @property
    def type(self) -> str:
        """`discarded`."""
        return "discarded"

    def export(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def __setattr__(self, name: str, value: object) -> None:
        """Forget the value at once: one object serves all."""

    def __getattr__(self, name: str) -> Any:
        # A protocol's name must not look like a method that is None.
        if name.startswith("__"):
            raise AttributeError(name)
        return {} if name == "data" else None
