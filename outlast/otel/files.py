"""Spans as lines of OTLP in JSON, which the receiver `otlpjsonfile` of collectors reads."""

import base64
import json
from collections.abc import Sequence
from typing import Any, TextIO

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

_IDS = ("traceId", "spanId", "parentSpanId")


class JsonLinesExporter(SpanExporter):
    """Writes each batch of spans as a line of JSON: an OTLP request for traces."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write a batch."""
        request = MessageToDict(encode_spans(spans), use_integers_for_enums=True)
        for resource in request.get("resourceSpans", ()):
            for scope in resource.get("scopeSpans", ()):
                for span in scope.get("spans", ()):
                    _write_ids(span)
                    for link in span.get("links", ()):
                        _write_ids(link)
        self._file.write(f"{json.dumps(request, ensure_ascii=False)}\n")
        return SpanExportResult.SUCCESS


def _write_ids(found: dict[str, Any]) -> None:
    """Write ids in hexadecimal, as OTLP's JSON does, and not in protobuf's base64."""
    for name in _IDS:
        if name in found:
            found[name] = base64.b64decode(found[name]).hex()
