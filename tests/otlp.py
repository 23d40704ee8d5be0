"""A receiver of OpenTelemetry's protocol over HTTP, which keeps what it receives.

It reads the real messages of the protocol, so a test sees what a collector sees.
"""

import gzip
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass(frozen=True)
class Received:
    """A span, as it was received."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, Any]
    is_error: bool
    start_ns: int
    end_ns: int
    links: tuple[tuple[str, str], ...]


class OtlpReceiver:
    """Receives spans and metrics at `endpoint` while its block runs."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        self.metrics: set[str] = set()
        self._changed = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver._take(self.path, body)
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def _take(self, path: str, body: bytes) -> None:
        with self._changed:
            if path == "/v1/traces":
                self.spans += _spans(ExportTraceServiceRequest.FromString(body))
            else:
                self.metrics |= _names(ExportMetricsServiceRequest.FromString(body))
            self._changed.notify_all()

    def until(self, fits: Callable[[list[Received]], bool], seconds: float = 30) -> list[Received]:
        """Return the spans as soon as they fit."""
        with self._changed:
            found = self._changed.wait_for(lambda: fits(self.spans), seconds)
            assert found, f"received only {sorted(one.name for one in self.spans)}"
            return list(self.spans)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def tree(spans: list[Received]) -> str:
    """Return spans as an indented text; children are in the order of their beginnings."""
    ids = {one.span_id for one in spans}
    lines: list[str] = []

    def write(one: Received, depth: int) -> None:
        attempt = one.attributes.get("outlast.attempt", 1)
        again = f" (attempt {attempt})" if attempt > 1 and "custom" not in one.name else ""
        lines.append("  " * depth + one.name + again)
        for child in sorted(spans, key=lambda child: (child.start_ns, child.name)):
            if child.parent_id == one.span_id:
                write(child, depth + 1)

    for one in spans:
        if one.parent_id not in ids:
            write(one, 0)
    return "\n".join(lines)


def _spans(request: ExportTraceServiceRequest) -> list[Received]:
    return [
        Received(
            name=span.name,
            trace_id=span.trace_id.hex(),
            span_id=span.span_id.hex(),
            parent_id=span.parent_span_id.hex(),
            attributes={one.key: _value(one.value) for one in span.attributes},
            is_error=span.status.code == 2,
            start_ns=span.start_time_unix_nano,
            end_ns=span.end_time_unix_nano,
            links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        )
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in _list(scope.spans)
    ]


def _list(spans: Any) -> list[Span]:
    return list(spans)


def _names(request: ExportMetricsServiceRequest) -> set[str]:
    return {
        metric.name
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    return None if kind is None else getattr(value, kind)
