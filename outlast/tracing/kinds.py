"""The data of spans: one class for each kind of work."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from outlast.loop.values import JsonObject


class SpanError(TypedDict):
    """The error of a span's work.

    Attributes:
        message: the error message.
        data: further data about the error.
    """

    message: str
    data: dict[str, Any] | None


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
        name: the name of the run's workflow, from its settings.
        usage: the tokens used, including nested runs.
        metadata: further data from the program; not exported.
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
        turn: the number of the turn since the question, starting at 1.
        agent_name: the agent that takes the turn.
        usage: the tokens used, including nested runs.
        metadata: further data from the program; not exported.
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
        """Return the data as an exporter sends it; the output is a string."""
        return {
            "type": self.type,
            "name": self.name,
            "input": self.input,
            "output": None if self.output is None else str(self.output),
            "mcp_data": self.mcp_data,
        }

    def drop_content(self) -> None:
        """Remove the arguments, the result and the MCP data."""
        self.input = self.output = self.mcp_data = None


@dataclass
class GenerationSpanData(SpanData):
    """The data of a span of a model call.

    Attributes:
        input: the items of the request.
        output: the items of the response.
        model: the model's name.
        model_config: the model's settings, without headers and request bodies: they may hold keys.
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
        """Remove the items; keep model and usage."""
        self.input = self.output = None


@dataclass
class ResponseSpanData(SpanData):
    """The data of a span of a model call with a stored response.

    Attributes:
        response: the response, as the provider sent it.
        input: the input of the request.
    """

    response: JsonObject | None = None
    input: str | Sequence[Mapping[str, Any]] | None = None

    @property
    def type(self) -> str:
        """`response`."""
        return "response"

    def export(self) -> dict[str, Any]:
        """Return the data as an exporter sends it: the response's id, model and usage."""
        response = self.response or {}
        model = {"model": response["model"]} if "model" in response else {}
        return {
            "type": self.type,
            "response_id": response.get("id"),
            **model,
            "usage": response.get("usage"),
        }

    def drop_content(self) -> None:
        """Remove the input, and the response except for its id, model and usage."""
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
        server: the name of the server.
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
    """The data of a custom span.

    The program chose to report `data`, so a run that leaves out inputs and outputs keeps it.
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


def _as_custom(kind: str, usage: dict[str, Any] | None, **fields: Any) -> dict[str, Any]:
    """Return the export of a kind that backends only support as a custom span."""
    data = {"sdk_span_type": kind, **fields}
    if usage is not None:
        data["usage"] = usage
    return {"type": "custom", "name": kind, "data": data}


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
