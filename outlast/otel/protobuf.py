"""OpenTelemetry's exporter over HTTP, with an encoder that takes a fifth of the CPU.

The SDK makes two protobuf messages of each attribute, which takes longer than all else that is done
for a span. Spans of a run share most of their attributes: here, each of them is encoded once.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import FunctionType
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.common import trace_encoder
from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span, Status
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

IS_LOCAL: Final = 0x100
"""The flags of a span whose parent is not remote."""

IS_REMOTE: Final = 0x300

_LONGEST_CACHED: Final = 100
"""The longest text of an attribute that is kept for other spans; messages are longer."""

_FIELDS: Final[dict[type, str]] = {
    bool: "bool_value",
    int: "int_value",
    float: "double_value",
    str: "string_value",
}


def encode_spans(spans: Sequence[ReadableSpan]) -> ExportTraceServiceRequest:
    """Return an OTLP request for traces; the spans are those of one `SpanConverter`."""
    if not spans:
        return ExportTraceServiceRequest()
    request = trace_encoder.encode_spans(spans[:1])  # with the resource and the scope of all
    try:
        for span in spans[1:]:
            _add(request.resource_spans[0].scope_spans[0], span)
    except (LookupError, TypeError, ValueError):
        # An attribute of another type, or no valid text: the SDK logs it, and sends the others.
        return trace_encoder.encode_spans(spans)
    return request


class OtlpExporter(OTLPSpanExporter):
    """Sends spans of one `SpanConverter` to a collector over HTTP."""

    # This is the SDK's method with the encoder of this module. To override the method would mean
    # to copy its limits, time-outs and retries.
    export: Any = FunctionType(
        OTLPSpanExporter.export.__code__,
        {**vars(trace_exporter), "encode_spans": encode_spans},
        closure=OTLPSpanExporter.export.__closure__,
    )


def _add(scope: ScopeSpans, span: ReadableSpan) -> None:
    assert span.context is not None  # noqa: S101  the converter sets it
    added = scope.spans.add(
        trace_id=span.context.trace_id.to_bytes(16),
        span_id=span.context.span_id.to_bytes(8),
        name=span.name,
        start_time_unix_nano=span.start_time,
        end_time_unix_nano=span.end_time,
    )
    if span.parent is not None:
        added.parent_span_id = span.parent.span_id.to_bytes(8)
    for link in span.links:
        added.links.append(_link(link.context))
    attributes: Mapping[str, Any] = span.attributes or {}
    # Protobuf merges messages that are concatenated.
    parts = [_with_kind(span.kind, span.status.status_code, span.status.description)]
    parts += [
        (_encoded if isinstance(value, str) and len(value) > _LONGEST_CACHED else _cached)(
            name, value
        )
        for name, value in attributes.items()
    ]
    added.MergeFromString(b"".join(parts))


def _link(context: SpanContext) -> Span.Link:
    trace_id, span_id = context.trace_id.to_bytes(16), context.span_id.to_bytes(8)
    return Span.Link(trace_id=trace_id, span_id=span_id, flags=IS_REMOTE)


@lru_cache(maxsize=256)
def _with_kind(kind: SpanKind, code: StatusCode, description: str | None) -> bytes:
    """Return an encoded span with nothing but a kind and a status."""
    status: Any = {"code": code.value, "message": description}
    number: Any = kind.value + 1  # OTLP's 0 means that it is unknown
    return Span(kind=number, status=Status(**status), flags=IS_LOCAL).SerializeToString()


def _encoded(name: str, value: Any) -> bytes:
    """Return an encoded span with nothing but an attribute."""
    encoded = AnyValue(**{_FIELDS[type(value)]: value})
    return Span(attributes=[KeyValue(key=name, value=encoded)]).SerializeToString()


_cached = lru_cache(maxsize=4096, typed=True)(_encoded)  # 1, 1.0 and True are equal
