"""The name, the kind and the attributes of a span, by its data."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from opentelemetry.trace import SpanKind
from opentelemetry.util.types import AttributeValue

from outlast.agents.handoffs.handoff import Handoff
from outlast.loop.values import Usage
from outlast.otel import conventions as c
from outlast.otel.messages import as_messages, short, without_system
from outlast.otel.providers import provider_of
from outlast.pricing import ModelPrice, Pricing
from outlast.tracing.current import Span
from outlast.tracing.kinds import (
    AgentSpanData,
    CustomSpanData,
    FunctionSpanData,
    GenerationSpanData,
    GuardrailSpanData,
    HandoffSpanData,
    MCPListToolsSpanData,
    ResponseSpanData,
    SpanData,
    TaskSpanData,
    TurnSpanData,
    WaitSpanData,
)


@dataclass(slots=True)
class Described:
    """What is exported of a span, besides its ids and times."""

    name: str
    kind: SpanKind = SpanKind.INTERNAL
    attributes: dict[str, AttributeValue] = field(default_factory=dict[str, AttributeValue])

    def add(self, name: str, value: object) -> None:
        """Add an attribute, unless the value is None or empty."""
        if isinstance(value, str | bool | int | float) and value != "":
            self.attributes[name] = value


class Describer:
    """Describes spans by the conventions.

    Args:
        include_content: whether to add messages, arguments and results, and texts of errors.
        pricing: the prices of models; None for spans without costs.
    """

    def __init__(self, *, include_content: bool, pricing: Pricing | None) -> None:
        self.include_content = include_content
        self._pricing = pricing
        self._prices: dict[tuple[str, str], ModelPrice | None] = {}

    def describe(self, span: Span[Any]) -> Described:
        """Return the description of an ended span."""
        described = self._by_data(span)
        origin = span.trace.origin
        described.add(c.CONVERSATION_ID, span.trace.group_id)
        if origin is not None:
            if span.trace.group_id is None:
                described.add(c.CONVERSATION_ID, origin.root_id)
            if c.AGENT_NAME not in described.attributes:
                described.add(c.AGENT_NAME, origin.agent)
            described.add(c.RUN_ID, origin.run_id)
            described.add(c.QUESTION, origin.question + 1)
            described.add(c.ATTEMPT, origin.attempt or None)
            described.add(c.TENANT, origin.tenant)
        described.add(c.ERROR_TYPE, error_type(span))
        return described

    def _by_data(self, span: Span[Any]) -> Described:
        match span.span_data:
            case TaskSpanData() as data:
                return self._question(data, span)
            case AgentSpanData() as data:
                return _agent(data)
            case TurnSpanData() as data:
                return _turn(data)
            case ResponseSpanData() | GenerationSpanData() as data:
                return self._chat(data, span)
            case FunctionSpanData() as data:
                return self._tool(data, span)
            case HandoffSpanData() as data:
                return _handoff(data)
            case GuardrailSpanData() as data:
                return _guardrail(data)
            case data:
                return _other(data)

    def _question(self, data: TaskSpanData, span: Span[Any]) -> Described:
        described = Described(f"{c.INVOKE_WORKFLOW} {data.name}")
        described.attributes |= {c.OPERATION: c.INVOKE_WORKFLOW, c.AGENT_NAME: data.name}
        described.add(c.SPAN_KIND, "CHAIN")
        _add_total(described, data.usage)
        if span.trace.metadata:
            described.add(c.METADATA, short(span.trace.metadata))
        return described

    def _chat(self, data: ResponseSpanData | GenerationSpanData, span: Span[Any]) -> Described:
        facts = span.facts
        is_response = isinstance(data, ResponseSpanData)
        response: Mapping[str, Any] = (data.response or {}) if is_response else {}
        model = str(facts.get("model") or (response.get("model") if is_response else data.model))
        label = str(response.get("model") if is_response else data.model)
        described = Described(f"{c.CHAT} {model}".rstrip(), SpanKind.CLIENT)
        described.attributes |= {c.OPERATION: c.CHAT, c.PROVIDER: provider_of(f"{label}/{model}")}
        described.add(c.REQUEST_MODEL, model)
        described.add(c.REQUEST_STREAM, facts.get("stream"))
        described.add(c.RESPONSE_ID, facts.get("response_id"))
        described.add(c.TIME_TO_FIRST_CHUNK, facts.get("first_piece_seconds"))
        settings = cast("dict[str, Any]", facts.get("settings") or {})
        for name, attribute in c.REQUEST_SETTINGS.items():
            described.add(attribute, settings.get(name))
        usage = cast("dict[str, Any]", response.get("usage") if is_response else data.usage) or {}
        for name, attribute in c.USAGE.items():
            is_detail = name not in {"input_tokens", "output_tokens"}
            described.add(attribute, (usage.get(name) or None) if is_detail else usage.get(name))
        described.add(c.COST, self._cost(label, model, usage))
        if self.include_content:
            output = response.get("output") if is_response else data.output
            system, messages = without_system(cast("Any", data.input))
            described.add(c.SYSTEM_INSTRUCTIONS, system)
            described.add(c.INPUT_MESSAGES, as_messages(messages))
            described.add(c.OUTPUT_MESSAGES, as_messages(cast("Any", output)))
        return described

    def _cost(self, label: str, model: str, usage: Mapping[str, Any]) -> float | None:
        if self._pricing is None or not usage:
            return None
        names = (label, model)
        if names not in self._prices:  # finding a list price takes longer than the span itself
            self._prices[names] = self._pricing.price(label) or self._pricing.price(model)
        price = self._prices[names]
        if price is None:
            return None
        counts = {name: int(usage.get(name) or 0) for name in (*c.USAGE, "total_tokens")}
        return float(price.cost(Usage(**counts)))

    def _tool(self, data: FunctionSpanData, span: Span[Any]) -> Described:
        described = Described(f"{c.EXECUTE_TOOL} {data.name}")
        described.attributes |= {c.OPERATION: c.EXECUTE_TOOL, c.TOOL_NAME: data.name}
        described.add(c.TOOL_TYPE, "function")
        described.add(c.TOOL_CALL_ID, span.facts.get("call_id"))
        if self.include_content:
            described.add(c.TOOL_ARGUMENTS, data.input and short(data.input))
            described.add(c.TOOL_RESULT, None if data.output is None else short(data.output))
        return described


def error_type(span: Span[Any]) -> str:
    """Return the kind of a span's error: a code, or the name of an exception; empty without one."""
    if span.error is None:
        return str(span.facts.get("failure") or "")
    data = span.error["data"] or {}
    return str(data.get("code") or data.get("type") or "_OTHER")


def _agent(data: AgentSpanData) -> Described:
    described = Described(f"{c.INVOKE_AGENT} {data.name}")
    described.attributes |= {c.OPERATION: c.INVOKE_AGENT, c.AGENT_NAME: data.name}
    return described


def _turn(data: TurnSpanData) -> Described:
    described = Described(f"turn {data.turn}", attributes={c.TURN: data.turn, c.SPAN_KIND: "CHAIN"})
    described.add(c.AGENT_NAME, data.agent_name)
    _add_total(described, data.usage)
    return described


def _handoff(data: HandoffSpanData) -> Described:
    target = data.to_agent or ""
    tool = Handoff.default_tool_name(target)
    described = Described(f"{c.EXECUTE_TOOL} {tool}")
    described.attributes |= {c.OPERATION: c.EXECUTE_TOOL, c.TOOL_NAME: tool}
    described.add(c.HANDOFF_SOURCE, data.from_agent)
    described.add(c.HANDOFF_TARGET, target)
    return described


def _guardrail(data: GuardrailSpanData) -> Described:
    described = Described(f"{c.APPLY_GUARDRAIL} {data.name}")
    described.attributes |= {
        c.OPERATION: c.APPLY_GUARDRAIL,
        c.SPAN_KIND: "GUARDRAIL",
        c.GUARDRAIL_NAME: data.name,
        c.GUARDRAIL_RESULT_TYPE: "tripwire_triggered",
        c.GUARDRAIL_RESULT: json.dumps(data.triggered),
    }
    return described


def _other(data: SpanData) -> Described:
    """Describe a span without a generative operation."""
    if isinstance(data, MCPListToolsSpanData):
        return Described("tools/list", SpanKind.CLIENT, {c.MCP_METHOD: "tools/list"})
    if isinstance(data, WaitSpanData):
        described = Described(f"wait {data.name}")
        described.add(c.AGENT_NAME, data.agent_name)
        described.add(c.WAIT_KIND, data.asked_for)
        described.add(c.WAIT_OUTCOME, data.outcome)
        return described
    if isinstance(data, CustomSpanData):
        described = Described(data.name)
        described.add(c.DATA, short(data.data) if data.data else None)
        return described
    return Described(str(data.type))


def _add_total(described: Described, usage: Mapping[str, Any] | None) -> None:
    for name, attribute in c.TOTAL_USAGE.items():
        described.add(attribute, (usage or {}).get(name))
