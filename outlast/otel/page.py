"""A page of metrics that Prometheus scrapes.

Only this machine reads it, or whoever has the token: metrics say how a business goes.
"""

import os
import threading
from collections.abc import Callable, Iterable
from hmac import compare_digest
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler, make_server

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from prometheus_client import (
    CollectorRegistry,
    make_wsgi_app,  # pyright: ignore[reportUnknownVariableType]  the package's own annotation
)
from prometheus_client.exposition import ThreadingWSGIServer

from outlast.agents.errors import UserError
from outlast.agents.hosts import LARGEST_PORT, is_this_machine

HOST_VARIABLE: Final = "OTEL_EXPORTER_PROMETHEUS_HOST"
PORT_VARIABLE: Final = "OTEL_EXPORTER_PROMETHEUS_PORT"
"""OpenTelemetry's own variables for the page."""

TOKEN_VARIABLE: Final = "OUTLAST_METRICS_TOKEN_FILE"  # noqa: S105  the name of a variable
DEFAULT_PORT: Final = 9464
PATH: Final = "/metrics"
SHORTEST_TOKEN: Final = 24

_SLOWEST_SECONDS: Final = 10
_WSGI: TypeAlias = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class PageReader(PrometheusMetricReader):
    """Serves what it reads at `http://HOST:PORT/metrics`, in a thread of its own.

    Args:
        host: the address to listen at; one that others reach needs a token.
        port: the port; 0 for a free one.
        token_file: the file with the token that readers send as `Authorization: Bearer TOKEN`. It
            is read for each request, so that a token can be replaced.

    Raises:
        UserError: an argument does not fit, or the port cannot be used.
    """

    def __init__(self, host: str, port: int, token_file: Path | None = None) -> None:
        if token_file is None and not is_this_machine(host):
            raise UserError(
                f"Metrics at {host} need a token: write one of {SHORTEST_TOKEN} letters and more "
                f"into a file, and name it in {TOKEN_VARIABLE}. Without one, only this machine "
                "may read them."
            )
        if token_file is not None:
            _token_in(token_file)
        registry = CollectorRegistry()
        application = _guarded(make_wsgi_app(registry), token_file)
        try:
            self._server = make_server(host, port, application, _Server, _Handler)
        except OSError as error:
            raise UserError(
                f"{host} port {port} cannot be used for metrics: {error.strerror}."
            ) from None
        super().__init__(scope_info_enabled=False, registry=registry)
        self.port: int = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        super().shutdown(timeout_millis, **kwargs)  # pyright: ignore[reportUnknownMemberType]  the same


def page_from_environment(process: int = 0) -> PageReader:
    """Return the page that the environment asks for.

    Args:
        process: which of several processes of one machine; each has a port of its own.

    Raises:
        UserError: a variable does not fit.
    """
    text = os.environ.get(PORT_VARIABLE) or str(DEFAULT_PORT)
    if not text.isdecimal() or int(text) > LARGEST_PORT:
        raise UserError(f"{PORT_VARIABLE}={text!r:.40} must be a port.")
    port = int(text) + process if int(text) else 0
    host, place = os.environ.get(HOST_VARIABLE) or "localhost", os.environ.get(TOKEN_VARIABLE)
    return PageReader(host, port, Path(place) if place else None)


def _token_in(file: Path) -> bytes:
    try:
        token = file.read_bytes().strip()
    except OSError as error:
        raise UserError(f"The token of the metrics cannot be read: {error}.") from None
    if len(token) < SHORTEST_TOKEN:
        raise UserError(
            f"The token in {file} must have at least {SHORTEST_TOKEN} letters and digits. Make one "
            "with `openssl rand -hex 32`."
        )
    return token


def _guarded(application: Any, token_file: Path | None) -> _WSGI:
    """Return the application for those who may read it."""

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        problem = _problem(environ, token_file)
        if problem is None:
            return application(environ, start_response)
        headers = [("Content-Type", "text/plain")]
        if problem.startswith("401"):
            headers.append(("WWW-Authenticate", "Bearer"))
        start_response(problem, headers)
        return [problem.encode()]

    return answer


def _problem(environ: dict[str, Any], token_file: Path | None) -> str | None:
    """Return the status of a refusal, or None."""
    if environ.get("PATH_INFO") != PATH:
        return "404 Not Found"
    if environ.get("REQUEST_METHOD") not in {"GET", "HEAD"}:
        return "405 Method Not Allowed"
    if token_file is None:
        # The page of another site may reach this port under that site's name.
        host = urlsplit(f"//{environ.get('HTTP_HOST', '')}").hostname or ""
        return None if is_this_machine(host) else "421 Misdirected Request"
    sent = str(environ.get("HTTP_AUTHORIZATION", "")).encode("latin-1", "replace")
    try:
        wanted = b"Bearer " + _token_in(token_file)
    except UserError:
        return "503 Service Unavailable"
    return None if compare_digest(sent, wanted) else "401 Unauthorized"


class _Server(ThreadingWSGIServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of readers that go away."""


class _Handler(WSGIRequestHandler):
    timeout = _SLOWEST_SECONDS

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  as in the base class
        """Log no requests."""
