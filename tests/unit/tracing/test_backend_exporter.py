"""The exporter of traces to a server: what it sends, repeats and gives up."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from outlast import custom_span, generation_span, set_trace_processors, trace
from outlast.loop.values import JsonObject
from outlast.tracing import (
    BackendSpanExporter,
    BatchTraceProcessor,
    default_exporter,
    default_processor,
    processors,
)
from outlast.tracing.receivers import REGISTRATION


class Backend:
    """A server for traces.

    Attributes:
        statuses: the statuses of its answers, then 204.
        requests: the headers and the body of each request.
    """

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.requests: list[tuple[dict[str, str], JsonObject]] = []
        backend = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                backend.requests.append((headers, json.loads(body)))
                self.send_response(backend.statuses.pop(0) if backend.statuses else 204)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  its name
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/traces"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def exporter(self, **options: Any) -> BackendSpanExporter:
        defaults: dict[str, Any] = {"api_key": "sk-1", "endpoint": self.url, "base_delay": 0.001}
        return BackendSpanExporter(**{**defaults, **options})


@pytest.fixture
def backend() -> Iterator[Backend]:
    made = Backend()
    yield made
    made.server.shutdown()
    made.server.server_close()
    REGISTRATION.add([], replace=True)


def send(exporter: BackendSpanExporter) -> None:
    processor = BatchTraceProcessor(exporter)
    set_trace_processors([processor])
    with trace("Desk"), custom_span("work"):
        pass
    REGISTRATION.flush()
    processor.shutdown()
    exporter.close()


def test_a_batch_is_one_request_with_the_key(backend: Backend) -> None:
    send(backend.exporter(organization="org-1", project="proj-1"))
    ((headers, body),) = backend.requests
    assert headers["authorization"] == "Bearer sk-1"
    assert headers["openai-beta"] == "traces=v1"
    assert (headers["openai-organization"], headers["openai-project"]) == ("org-1", "proj-1")
    assert [one["object"] for one in body["data"]] == ["trace", "trace.span"]
    assert body["data"][0]["workflow_name"] == "Desk"


@pytest.mark.parametrize(
    ("statuses", "requests"),
    [([503, 500], 3), ([400], 1), ([500] * 9, 3), ([302, 204], 2)],
    ids=str,
)
def test_what_may_pass_is_sent_again(
    backend: Backend, statuses: list[int], requests: int, caplog: pytest.LogCaptureFixture
) -> None:
    backend.statuses = list(statuses)
    send(backend.exporter())
    assert len(backend.requests) == requests
    is_lost = statuses[0] == 400 or len(statuses) > 3
    assert ("traces and spans are lost" in caplog.text) is is_lost
    assert "sk-1" not in caplog.text


def test_a_server_that_is_gone_loses_a_batch_and_no_run(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    exporter = backend.exporter(endpoint="http://127.0.0.1:1/traces", max_retries=2)
    send(exporter)
    assert caplog.text.count("traces could not be sent: ConnectError") == 2
    assert "lost: no attempt to send them succeeded" in caplog.text


def test_without_a_key_nothing_is_sent(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    send(backend.exporter(api_key=None))
    assert (backend.requests, "OPENAI_API_KEY is not set" in caplog.text) == ([], True)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-2")
    exporter = backend.exporter(api_key=None)
    assert exporter.api_key == "sk-2"
    exporter.set_api_key("sk-3")
    send(exporter)
    assert backend.requests[0][0]["authorization"] == "Bearer sk-3"


def test_openai_gets_small_fields_and_the_usage_of_models(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    exporter = backend.exporter()
    processor = BatchTraceProcessor(exporter)
    set_trace_processors([processor])
    with trace("Desk"):
        for _ in range(2):
            with generation_span(
                input=[{"content": "x" * 200_000}], output=[{"content": "y"}], usage=usage
            ):
                pass
            REGISTRATION.flush()
            processor.force_flush()
            monkeypatch.setattr(processors, "OPENAI_ENDPOINT", backend.url)
    processor.shutdown()
    own, openai = (
        one["span_data"]
        for _, body in backend.requests
        for one in body["data"]
        if one["object"] == "trace.span"
    )
    assert own["usage"] == usage
    assert len(own["input"][0]["content"]) == 200_000
    details = {"total_tokens": 3}
    assert openai["usage"] == {"input_tokens": 1, "output_tokens": 2, "details": details}
    assert openai["output"] == [{"content": "y"}]
    assert openai["input"]["truncated"] is True
    assert len(json.dumps(openai["input"])) < processors.LARGEST_FIELD_BYTES


def test_the_default_exporter_is_one_and_has_no_processor_by_itself() -> None:
    assert default_exporter() is default_exporter()
    assert default_processor() is default_processor()
    assert default_exporter().endpoint == processors.OPENAI_ENDPOINT
    assert REGISTRATION.active == ()
