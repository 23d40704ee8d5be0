"""The metrics of runs, counted from their ended spans."""

from typing import Any

from opentelemetry.metrics import Meter
from opentelemetry.util.types import AttributeValue

from outlast.otel import conventions as c
from outlast.otel.attributes import Described
from outlast.tracing.current import Span
from outlast.tracing.kinds import (
    AgentSpanData,
    FunctionSpanData,
    GenerationSpanData,
    ResponseSpanData,
    WaitSpanData,
)

_OF_CALLS = (c.OPERATION, c.PROVIDER, c.REQUEST_MODEL, c.AGENT_NAME, c.ERROR_TYPE)
_OF_TOOLS = (c.OPERATION, c.TOOL_NAME, c.TOOL_TYPE, c.AGENT_NAME, c.ERROR_TYPE)
_OF_WAITS = (c.WAIT_KIND, c.WAIT_OUTCOME, c.AGENT_NAME)
_OF_AGENTS = (c.OPERATION, c.AGENT_NAME, c.ERROR_TYPE)


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
        self._input = meter.create_counter(
            c.INFERENCE_INPUT_TOKENS, "{token}", "Input tokens of model calls."
        )
        self._output = meter.create_counter(
            c.INFERENCE_OUTPUT_TOKENS, "{token}", "Output tokens of model calls."
        )
        self._cost = meter.create_counter(c.COST_TOTAL, "{USD}", "Cost of model calls.")

    def record(self, span: Span[Any], described: Described, seconds: float) -> None:
        """Record an ended span that lasted for `seconds`."""
        data, attributes = span.span_data, described.attributes
        if isinstance(data, GenerationSpanData | ResponseSpanData):
            labels = _labels(attributes, _OF_CALLS)
            self._inference.record(seconds, labels)
            for name, counter in (
                (c.USAGE["input_tokens"], self._input),
                (c.USAGE["output_tokens"], self._output),
                (c.COST, self._cost),
            ):
                amount = attributes.get(name)
                if isinstance(amount, int | float):
                    counter.add(amount, labels)
            if (first := attributes.get(c.TIME_TO_FIRST_CHUNK)) is not None:
                self._first_chunk.record(first, labels)
            self._queued(span, labels)
        elif isinstance(data, FunctionSpanData):
            labels = _labels(attributes, _OF_TOOLS)
            self._tool.record(seconds, labels)
            self._queued(span, labels)
        elif isinstance(data, WaitSpanData):
            self._wait.record(seconds, _labels(attributes, _OF_WAITS))
        elif isinstance(data, AgentSpanData):
            self._agent.record(seconds, _labels(attributes, _OF_AGENTS))

    def _queued(self, span: Span[Any], labels: dict[str, AttributeValue]) -> None:
        origin = span.trace.origin
        if origin is not None and origin.attempt and origin.queued_seconds is not None:
            operation = {c.OPERATION: labels[c.OPERATION]}
            self._queue.record(origin.queued_seconds, operation)


def _labels(
    attributes: dict[str, AttributeValue], names: tuple[str, ...]
) -> dict[str, AttributeValue]:
    return {name: attributes[name] for name in names if name in attributes}
