"""Sends spans to a collector at once, or writes them as lines of OTLP in JSON."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TextIO, cast

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import SpanContext

from outlast.otel.converter import SpanConverter
from outlast.tracing.current import Span

_IS_LOCAL: Final = 0x100
"""The flags of a span whose parent is not remote."""

_IS_REMOTE: Final = 0x300


class SpanSender:
    """Sends spans to a collector over HTTP, or writes them to a file.

    Args:
        endpoint: the collector; default: that of OpenTelemetry's environment variables.
        file: where spans are written instead.
        include_content: whether spans contain arguments and results of tools, and replies.
    """

    def __init__(
        self,
        *,
        endpoint: str | None = None,
        file: TextIO | None = None,
        include_content: bool | None = None,
    ) -> None:
        url = None if endpoint is None else f"{endpoint.rstrip('/')}/v1/traces"
        self._exporter: SpanExporter = (
            OTLPSpanExporter(endpoint=url) if file is None else JsonLinesExporter(file)
        )
        self._converter = SpanConverter(include_content=include_content)

    def send(self, spans: Sequence[Span[Any]]) -> bool:
        """Send ended spans; whether the collector took them."""
        readable = [self._converter.convert(span) for span in spans]
        return self._exporter.export(readable) is SpanExportResult.SUCCESS


class JsonLinesExporter(SpanExporter):
    """Writes each batch of spans as a line of JSON: an OTLP request for traces.

    The receiver `otlpjsonfile` of collectors reads such files.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write a batch, whose spans have the same resource and scope."""
        if spans:
            self._file.write(f"{json.dumps(otlp_json(spans))}\n")
        return SpanExportResult.SUCCESS


def otlp_json(spans: Sequence[ReadableSpan]) -> dict[str, Any]:
    """Return an OTLP request for traces as JSON; the spans have the same resource and scope."""
    scope = spans[0].instrumentation_scope
    named = {} if scope is None else {"name": scope.name, "version": scope.version}
    resource = {"attributes": _attributes(spans[0].resource.attributes)}
    scopes = [{"scope": named, "spans": [_span(one) for one in spans]}]
    return {"resourceSpans": [{"resource": resource, "scopeSpans": scopes}]}


def _span(one: ReadableSpan) -> dict[str, Any]:
    assert one.context is not None  # noqa: S101  the converter sets it
    found: dict[str, Any] = {
        **_ids(one.context),
        "flags": _IS_LOCAL,
        "name": one.name,
        "kind": one.kind.value + 1,  # OTLP's 0 means that it is unknown
        "startTimeUnixNano": str(one.start_time),
        "endTimeUnixNano": str(one.end_time),
        "attributes": _attributes(one.attributes or {}),
        "status": {},
    }
    if one.parent is not None:
        found["parentSpanId"] = f"{one.parent.span_id:016x}"
    if one.links:
        found["links"] = [{**_ids(link.context), "flags": _IS_REMOTE} for link in one.links]
    if code := one.status.status_code.value:
        text = {"message": one.status.description} if one.status.description else {}
        found["status"] = {"code": code, **text}
    return found


def _ids(context: SpanContext) -> dict[str, Any]:
    return {"traceId": f"{context.trace_id:032x}", "spanId": f"{context.span_id:016x}"}


def _attributes(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(value)} for name, value in attributes.items()]


def _value(value: object) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case list() | tuple():
            values = cast("Sequence[object]", value)
            return {"arrayValue": {"values": [_value(one) for one in values]}}
        case _:
            return {"stringValue": str(value)}
