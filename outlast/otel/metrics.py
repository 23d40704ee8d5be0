"""The metrics of runs, counted from their ended spans."""

from collections.abc import Callable
from typing import Any, TypeAlias, cast

from opentelemetry.metrics import Meter, Observation
from opentelemetry.util.types import AttributeValue

from outlast.otel import conventions as c
from outlast.otel.attributes import Described
from outlast.tracing.current import Span
from outlast.tracing.kinds import (
    AgentSpanData,
    FunctionSpanData,
    GenerationSpanData,
    ResponseSpanData,
    SpanData,
    WaitSpanData,
)

_OF_CALLS = (c.OPERATION, c.PROVIDER, c.REQUEST_MODEL, c.AGENT_NAME, c.ERROR_TYPE)
_OF_TOOLS = (c.OPERATION, c.TOOL_NAME, c.TOOL_TYPE, c.AGENT_NAME, c.ERROR_TYPE)
_OF_WAITS = (c.WAIT_KIND, c.WAIT_OUTCOME, c.AGENT_NAME)
_OF_AGENTS = (c.OPERATION, c.AGENT_NAME, c.ERROR_TYPE)

_TOTALS = (
    (c.USAGE["input_tokens"], c.INFERENCE_INPUT_TOKENS, "{token}", "Input tokens of model calls."),
    (
        c.USAGE["output_tokens"],
        c.INFERENCE_OUTPUT_TOKENS,
        "{token}",
        "Output tokens of model calls.",
    ),
    (c.COST, c.COST_TOTAL, "{USD}", "Cost of model calls."),
)
"""Attributes of model calls, and the metrics that add them up."""

_Attributes: TypeAlias = dict[str, AttributeValue]
_Record: TypeAlias = Callable[[Span[Any], _Attributes, float], None]


class Metrics:
    """Records what an ended span says about durations, tokens, costs and waits."""

    def __init__(self, meter: Meter) -> None:
        def seconds(
            name: str, description: str, buckets: tuple[float, ...] = c.DURATION_BUCKETS
        ) -> Any:
            return meter.create_histogram(
                name, "s", description, explicit_bucket_boundaries_advisory=buckets
            )

        self._inference = seconds(c.INFERENCE_DURATION, "Duration of model calls.")
        self._first_chunk = seconds(
            c.INFERENCE_FIRST_CHUNK, "Time to the first piece of a streamed reply."
        )
        self._agent = seconds(c.AGENT_DURATION, "Duration of an agent's work on a question.")
        self._tool = seconds(c.TOOL_DURATION, "Duration of tool calls.")
        self._queue = seconds(c.QUEUE_DURATION, "Time that attempts waited for a worker.")
        self._wait = seconds(c.WAIT_DURATION, "Time that people took.", c.WAIT_BUCKETS)
        self._totals = {
            attribute: Total(meter, name, unit, description)
            for attribute, name, unit, description in _TOTALS
        }
        self._record_of: dict[type, _Record] = {
            GenerationSpanData: self._call,
            ResponseSpanData: self._call,
            FunctionSpanData: self._tool_call,
            WaitSpanData: self._waited,
            AgentSpanData: self._agent_worked,
        }

    def record(self, span: Span[Any], described: Described, seconds: float) -> None:
        """Record an ended span that lasted for `seconds`."""
        data: SpanData = span.span_data
        record = self._record_of.get(type(data))
        if record is not None:
            record(span, described.attributes, seconds)

    def _call(self, span: Span[Any], attributes: _Attributes, seconds: float) -> None:
        labels = _labels(attributes, _OF_CALLS)
        self._inference.record(seconds, labels)
        for attribute, total in self._totals.items():
            total.add(cast("float", attributes.get(attribute, 0)), labels)
        if (first := attributes.get(c.TIME_TO_FIRST_CHUNK)) is not None:
            self._first_chunk.record(first, labels)
        self._queued(span, labels)

    def _tool_call(self, span: Span[Any], attributes: _Attributes, seconds: float) -> None:
        if span.facts.get("stage") == "refused_call":
            return  # it did not run
        labels = _labels(attributes, _OF_TOOLS)
        self._tool.record(seconds, labels)
        self._queued(span, labels)

    def _waited(self, _span: Span[Any], attributes: _Attributes, seconds: float) -> None:
        self._wait.record(seconds, _labels(attributes, _OF_WAITS))

    def _agent_worked(self, _span: Span[Any], attributes: _Attributes, seconds: float) -> None:
        self._agent.record(seconds, _labels(attributes, _OF_AGENTS))

    def _queued(self, span: Span[Any], labels: _Attributes) -> None:
        origin = span.trace.origin
        if origin is not None and origin.attempt and origin.queued_seconds is not None:
            operation = {c.OPERATION: labels[c.OPERATION]}
            self._queue.record(origin.queued_seconds, operation)


class Total:
    """A sum by labels, which the SDK asks for when it exports.

    Adding to a counter of the SDK takes ten times as long, and each model call adds to three.
    """

    def __init__(self, meter: Meter, name: str, unit: str, description: str) -> None:
        self._sums: dict[tuple[tuple[str, AttributeValue], ...], float] = {}
        meter.create_observable_counter(name, [self._observe], unit, description)

    def add(self, amount: float, labels: _Attributes) -> None:
        """Add an amount."""
        if amount:
            key = tuple(labels.items())
            self._sums[key] = self._sums.get(key, 0) + amount

    def _observe(self, _options: object) -> list[Observation]:
        return [Observation(amount, dict(labels)) for labels, amount in self._sums.copy().items()]


def _labels(attributes: _Attributes, names: tuple[str, ...]) -> _Attributes:
    return {name: attributes[name] for name in names if name in attributes}
