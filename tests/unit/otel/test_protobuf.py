"""The protobuf messages of spans, compared with those of OpenTelemetry's own encoder."""

from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common import trace_encoder
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from outlast.otel import protobuf
from outlast.otel.protobuf import OtlpExporter, encode_spans
from tests.otlp import OtlpReceiver

RESOURCE = Resource({"service.name": "support", "args": ["a", "b"]}, "https://example.com/schema")
SCOPE = InstrumentationScope("outlast", "1.0")


def context(number: int, *, is_remote: bool = False) -> SpanContext:
    return SpanContext(2**127 + number, number, is_remote, TraceFlags(TraceFlags.SAMPLED))


def span(number: int = 1, **parts: Any) -> ReadableSpan:
    fields: dict[str, Any] = {
        "name": f"span {number}",
        "context": context(number),
        "resource": RESOURCE,
        "instrumentation_scope": SCOPE,
        "start_time": 1_700_000_000_000_000_000,
        "end_time": 1_700_000_000_000_000_000 + number,
    }
    return ReadableSpan(**(fields | parts))


def encoded(*parts: dict[str, Any]) -> None:
    """Check that spans are encoded as by the SDK, also once attributes are known."""
    spans = [span(), *(span(number, **one) for number, one in enumerate(parts, 2))]
    for _ in range(2):
        assert encode_spans(spans) == trace_encoder.encode_spans(spans)


def test_no_spans_are_an_empty_request() -> None:
    assert encode_spans([]) == trace_encoder.encode_spans([])


@pytest.mark.parametrize("kind", SpanKind)
def test_ids_times_kinds_and_parents_are_encoded_as_by_the_sdk(kind: SpanKind) -> None:
    encoded({"kind": kind}, {"kind": kind, "parent": context(2**64 - 1)})


@pytest.mark.parametrize(
    "status", [Status(), Status(StatusCode.ERROR, "denied"), Status(StatusCode.ERROR)]
)
def test_statuses_are_encoded_as_by_the_sdk(status: Status) -> None:
    encoded({"status": status})


def test_links_are_encoded_as_by_the_sdk() -> None:
    encoded({"links": [Link(context(7, is_remote=True)), Link(context(8, is_remote=True))]})


def test_equal_values_of_different_types_keep_their_types() -> None:
    encoded(*({"attributes": {"count": value}} for value in (1, True, 1.0, "1", 0, False, 0.0)))


@pytest.mark.parametrize("value", ["", "ä" * 99, "long " * 10_000, -1, 2**63 - 1, 1e-9])
def test_attributes_are_encoded_as_by_the_sdk(value: Any) -> None:
    encoded({"attributes": {"first": value, "second": "text"}})


@pytest.mark.parametrize("value", [["a", "b"], (1, 2), b"bytes", "\udc00", 2**64, object()])
def test_attributes_without_a_quick_encoding_are_left_to_the_sdk(value: Any) -> None:
    encoded({"attributes": {"odd": value, "even": 2}})


def test_long_texts_are_not_kept() -> None:
    before = protobuf._cached.cache_info().currsize
    encoded({"attributes": {"messages": "x" * 10_000}})
    assert protobuf._cached.cache_info().currsize == before


def test_the_exporter_sends_what_this_encoder_makes() -> None:
    before = protobuf._cached.cache_info().misses
    with OtlpReceiver() as receiver:
        exporter = OtlpExporter(endpoint=f"{receiver.endpoint}/v1/traces")
        spans = [span(number, attributes={"sent as": number}) for number in (1, 2, 3)]
        assert exporter.export(spans) is SpanExportResult.SUCCESS
        exporter.shutdown()
        assert exporter.export(spans) is SpanExportResult.FAILURE
    assert [one.attributes["sent as"] for one in receiver.spans] == [1, 2, 3]
    assert protobuf._cached.cache_info().misses == before + 2  # the SDK encodes the first span
