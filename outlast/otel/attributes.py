"""The name, the kind and the attributes of a span, by its data."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from opentelemetry.trace import SpanKind
from opentelemetry.util.types import AttributeValue

from outlast.agents.handoffs.handoff import Handoff
from outlast.contract.ratings import rated_as
from outlast.loop.items import text_of
from outlast.loop.values import Usage
from outlast.otel import conventions as c
from outlast.otel.messages import as_messages, short, without_system
from outlast.otel.providers import provider_of
from outlast.pricing import ModelPrice, Pricing, micros
from outlast.tracing.current import Span
from outlast.tracing.kinds import (
    AgentSpanData,
    CustomSpanData,
    FunctionSpanData,
    GenerationSpanData,
    GuardrailSpanData,
    HandoffSpanData,
    MCPListToolsSpanData,
    RatingSpanData,
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
    attributes: dict[str, AttributeValue]
    kind: SpanKind = SpanKind.INTERNAL

    def add(self, name: str, value: object) -> None:
        """Add an attribute, unless the value is None or empty."""
        if isinstance(value, str | bool | int | float) and value != "":
            self.attributes[name] = value


_Describe: TypeAlias = Callable[[Any, Span[Any]], Described]

_EMPTY: Final[Mapping[str, Any]] = {}


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
        self._by_kind: dict[type, _Describe] = {
            TaskSpanData: self._question,
            AgentSpanData: _agent,
            TurnSpanData: _turn,
            ResponseSpanData: self._chat,
            GenerationSpanData: self._chat,
            FunctionSpanData: self._tool,
            HandoffSpanData: _handoff,
            GuardrailSpanData: _guardrail,
            MCPListToolsSpanData: _listing,
            WaitSpanData: _wait,
            RatingSpanData: self._rating,
            CustomSpanData: _custom,
        }

    def describe(self, span: Span[Any]) -> Described:
        """Return the description of an ended span."""
        data: SpanData = span.span_data
        describe = self._by_kind.get(type(data)) or self._of_subclass(data)
        described = describe(data, span)
        attributes, trace = described.attributes, span.trace
        if (origin := trace.origin) is not None:
            conversation = trace.group_id or origin.root_id
            attributes[c.CONVERSATION_ID] = attributes[c.SESSION_ID] = conversation
            attributes.setdefault(c.AGENT_NAME, origin.agent)
            attributes[c.RUN_ID] = origin.run_id
            attributes[c.QUESTION] = origin.question + 1
            if origin.attempt:
                attributes[c.ATTEMPT] = origin.attempt
            if origin.tenant:
                attributes[c.TENANT] = origin.tenant
            if origin.customer:
                attributes[c.USER_ID] = origin.customer
        elif trace.group_id:
            attributes[c.CONVERSATION_ID] = attributes[c.SESSION_ID] = trace.group_id
        if kind := error_type(span):
            attributes[c.ERROR_TYPE] = kind
        return described

    def _of_subclass(self, data: SpanData) -> "_Describe":
        known = self._by_kind
        found = next((known[one] for one in type(data).__mro__ if one in known), _other)
        known[type(data)] = found
        return found

    def _question(self, data: TaskSpanData, span: Span[Any]) -> Described:
        described = Described(
            f"{c.INVOKE_WORKFLOW} {data.name}",
            {c.OPERATION: c.INVOKE_WORKFLOW, c.AGENT_NAME: data.name, c.SPAN_KIND: "CHAIN"},
        )
        _add_total(described, data.usage, span)
        if span.trace.metadata:
            described.add(c.METADATA, short(span.trace.metadata))
        if self.include_content:
            _add_question(described, data)
        return described

    def _chat(self, data: ResponseSpanData | GenerationSpanData, span: Span[Any]) -> Described:
        facts = span.facts
        is_response = isinstance(data, ResponseSpanData)
        response: Mapping[str, Any] = data.raw_response if is_response else {}
        label = str(response.get("model") if is_response else data.model)
        model = str(facts.get("model") or label)
        attributes: dict[str, AttributeValue] = {
            c.OPERATION: c.CHAT,
            c.PROVIDER: provider_of(f"{label}/{model}"),
        }
        described = Described(f"{c.CHAT} {model}".rstrip(), attributes, SpanKind.CLIENT)
        described.add(c.REQUEST_MODEL, model)
        for fact, attribute in c.CALL_FACTS.items():
            if (value := facts.get(fact)) is not None:
                described.add(attribute, value)
        if finish_reasons := facts.get("finish_reasons"):
            attributes[c.FINISH_REASONS] = tuple(finish_reasons)
        for name, value in facts.get("settings", _EMPTY).items():
            described.add(c.REQUEST_SETTINGS[name], value)
        usage = facts.get("usage") or _usage(response.get("usage") if is_response else data.usage)
        if usage is not None:
            attributes[c.USAGE["input_tokens"]] = usage.input_tokens
            attributes[c.USAGE["output_tokens"]] = usage.output_tokens
            for name, attribute in c.USAGE_DETAILS.items():
                if count := getattr(usage, name):
                    attributes[attribute] = count
            if (cost := self._cost(label, model, usage)) is not None:
                attributes[c.COST] = cost
        if self.include_content:
            output = response.get("output") if is_response else data.output
            system, messages = without_system(cast("Any", data.input))
            described.add(c.SYSTEM_INSTRUCTIONS, system)
            described.add(c.INPUT_MESSAGES, as_messages(messages))
            described.add(c.OUTPUT_MESSAGES, as_messages(cast("Any", output)))
        return described

    def _cost(self, label: str, model: str, usage: Usage) -> float | None:
        if self._pricing is None:
            return None
        names = (label, model)
        if names not in self._prices:  # finding a list price takes longer than the span itself
            self._prices[names] = self._pricing.price(label) or self._pricing.price(model)
        price = self._prices[names]
        try:
            return None if price is None else micros(price, usage) / 1_000_000
        except (ArithmeticError, LookupError, ValueError):  # a program's own span may say anything
            return None

    def _tool(self, data: FunctionSpanData, span: Span[Any]) -> Described:
        described = Described(
            f"{c.EXECUTE_TOOL} {data.name}",
            {c.OPERATION: c.EXECUTE_TOOL, c.TOOL_NAME: data.name, c.TOOL_TYPE: "function"},
        )
        described.add(c.TOOL_CALL_ID, span.facts.get("call_id"))
        if self.include_content:
            described.add(c.TOOL_ARGUMENTS, data.input and short(data.input))
            described.add(c.TOOL_RESULT, None if data.output is None else short(data.output))
        return described

    def _rating(self, data: RatingSpanData, _span: Span[Any]) -> Described:
        described = Described(c.EVALUATION, {c.EVALUATION_NAME: "customer rating"})
        described.add(c.EVALUATION_SCORE, data.score)
        described.add(c.EVALUATION_LABEL, rated_as(data.score))
        if self.include_content:
            described.add(c.EVALUATION_WHY, data.text)
        return described


def error_type(span: Span[Any]) -> str:
    """Return the kind of a span's error: a code, or the name of an exception; empty without one."""
    if span.error is None:
        return str(span.facts.get("failure") or "")
    data = span.error["data"] or {}
    return str(data.get("code") or data.get("type") or "_OTHER")


def _add_question(described: Described, data: TaskSpanData) -> None:
    """Add a question and its answer, as messages and as the texts that lists of traces show."""
    if data.input:
        described.add(c.INPUT_MESSAGES, as_messages(data.input))
        texts = [text_of(cast("Any", one)) for one in data.input]
        described.add(c.INPUT_VALUE, short("\n".join(filter(None, texts))))
        described.add(c.INPUT_TYPE, "text/plain")
    if data.output is not None:
        is_text = isinstance(data.output, str)
        text = short(data.output)
        described.add(c.OUTPUT_MESSAGES, as_messages([{"role": "assistant", "content": text}]))
        described.add(c.OUTPUT_VALUE, text)
        described.add(c.OUTPUT_TYPE, "text/plain" if is_text else "application/json")


def _agent(data: AgentSpanData, span: Span[Any]) -> Described:
    described = Described(
        f"{c.INVOKE_AGENT} {data.name}", {c.OPERATION: c.INVOKE_AGENT, c.AGENT_NAME: data.name}
    )
    _add_cost(described, span)
    return described


def _turn(data: TurnSpanData, span: Span[Any]) -> Described:
    described = Described(
        f"turn {data.turn}",
        {c.TURN: data.turn, c.SPAN_KIND: "CHAIN", c.AGENT_NAME: data.agent_name},
    )
    _add_total(described, data.usage, span)
    return described


def _handoff(data: HandoffSpanData, _span: Span[Any]) -> Described:
    target = data.to_agent or ""
    tool = Handoff.default_tool_name(target)
    described = Described(
        f"{c.EXECUTE_TOOL} {tool}", {c.OPERATION: c.EXECUTE_TOOL, c.TOOL_NAME: tool}
    )
    described.add(c.HANDOFF_SOURCE, data.from_agent)
    described.add(c.HANDOFF_TARGET, target)
    return described


def _guardrail(data: GuardrailSpanData, _span: Span[Any]) -> Described:
    return Described(
        f"{c.APPLY_GUARDRAIL} {data.name}",
        {
            c.OPERATION: c.APPLY_GUARDRAIL,
            c.SPAN_KIND: "GUARDRAIL",
            c.GUARDRAIL_NAME: data.name,
            c.GUARDRAIL_RESULT_TYPE: "tripwire_triggered",
            c.GUARDRAIL_RESULT: json.dumps(data.triggered),
        },
    )


def _listing(_data: MCPListToolsSpanData, _span: Span[Any]) -> Described:
    return Described("tools/list", {c.MCP_METHOD: "tools/list"}, SpanKind.CLIENT)


def _wait(data: WaitSpanData, _span: Span[Any]) -> Described:
    described = Described(f"wait {data.name}", {c.AGENT_NAME: data.agent_name})
    described.add(c.WAIT_KIND, data.asked_for)
    described.add(c.WAIT_OUTCOME, data.outcome)
    if data.decided_by:
        described.attributes[c.WAIT_DECIDED_BY] = data.decided_by
    return described


def _custom(data: CustomSpanData, _span: Span[Any]) -> Described:
    described = Described(data.name, {})
    described.add(c.DATA, short(data.data) if data.data else None)
    return described


def _other(data: SpanData, _span: Span[Any]) -> Described:
    """Describe a span of a kind that a program has made up."""
    return Described(str(data.type), {})


def _usage(usage: object) -> Usage | None:
    """Return the usage of a span that a program opened itself."""
    if not isinstance(usage, Mapping):
        return None
    counts = dict(cast("Mapping[str, Any]", usage))
    for details in ("input_tokens_details", "output_tokens_details"):
        counts |= counts.get(details) or {}
    names = ("input_tokens", "output_tokens", *c.USAGE_DETAILS)
    known = {name: count for name in names if isinstance(count := counts.get(name), int)}
    return Usage(**known) if known else None


def _add_total(described: Described, usage: Mapping[str, Any] | None, span: Span[Any]) -> None:
    for name, attribute in c.TOTAL_USAGE.items():
        described.add(attribute, (usage or {}).get(name))
    _add_cost(described, span)


def _add_cost(described: Described, span: Span[Any]) -> None:
    spent: Usage | None = span.facts.get("spent")
    if spent is None:
        return
    if spent.priced:
        described.attributes[c.TOTAL_COST] = spent.cost_micros / 1_000_000
    if (unpriced := spent.requests - spent.priced) > 0:
        described.attributes[c.UNPRICED_CALLS] = unpriced
