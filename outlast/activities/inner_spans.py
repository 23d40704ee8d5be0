"""Spans for model calls, guardrails and MCP listings within an effect, inside `traced` only."""

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar
from urllib.parse import urlsplit

from outlast.agents.config.model_settings import ModelSettings, write_model_settings
from outlast.agents.items.raw_items import is_cut_short
from outlast.agents.json_values import as_object
from outlast.agents.mcp.server import MCPServer
from outlast.agents.mcp.tools import list_tools
from outlast.agents.usage import plain_usage
from outlast.contract.streams.reply_events import usage_object
from outlast.loop.call_forms import is_call
from outlast.loop.calls import TriedModel
from outlast.loop.values import JsonObject
from outlast.ports.model import ModelRequest, ModelResponse
from outlast.tracing.current import Span
from outlast.tracing.effect_spans import holder
from outlast.tracing.kinds import (
    FunctionSpanData,
    GenerationSpanData,
    GuardrailSpanData,
    MCPListToolsSpanData,
    ResponseSpanData,
    tool_error,
)
from outlast.tracing.provider import get_current_span, open_span

T = TypeVar("T")

OnEvent: TypeAlias = Callable[[JsonObject], None]

_OMITTED_SETTINGS = ("extra_headers", "extra_body", "extra_query", "extra_args", "metadata")
"""Settings that are left out of spans, because they may hold keys."""


SAMPLING_SETTINGS = ("temperature", "top_p", "max_tokens", "frequency_penalty", "presence_penalty")
"""The settings that a model call's span has as facts."""


class ModelSpan:
    """The span of a model call, open in a `with` block: called with the response, it records it."""

    def __init__(
        self,
        label: str,
        request: ModelRequest,
        model: object = None,
        tried: Sequence[TriedModel] = (),
    ) -> None:
        """Make the span.

        Args:
            label: the model as the run names it.
            request: the request.
            model: the model.
            tried: the models that did not answer before this one.
        """
        is_response = getattr(model, "api", None) == "responses"
        data = ResponseSpanData() if is_response else GenerationSpanData(model=label)
        self._holder = holder()
        self._span: Span[ResponseSpanData | GenerationSpanData] = open_span(data)
        self._label, self._model, self._request, self._tried = label, model, request, tried

    def __enter__(self) -> Self:
        self._span.__enter__()
        if self._span.is_recorded:
            self._record_request()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        span, holds = self._span, self._holder
        if error is not None or holds is None or not (span.is_recorded and span.sensitive):
            span.__exit__(kind, error, trace)
            return
        span.leave()
        holds.hold(span, time.time())

    def _record_request(self) -> None:
        data, facts = self._span.span_data, self._span.facts
        request, settings = self._request, self._request.settings
        system = [{"role": "system", "content": request.instructions}]
        data.input = [*(system if request.instructions else []), *request.input]
        facts["settings"] = {
            name: value
            for name in SAMPLING_SETTINGS
            if (value := getattr(settings, name)) is not None
        }
        if isinstance(data, GenerationSpanData):
            data.model_config = _config(settings)
        facts["model"] = own_name(self._model) or self._label
        if request.instructions:
            facts["instructions_digest"] = sha256(
                request.instructions.encode(errors="surrogatepass")
            ).hexdigest()
        facts |= _server_of(self._model)
        if self._tried:
            facts["tried"] = "; ".join(one.line for one in self._tried)
        self._began = time.monotonic()

    def __call__(self, response: ModelResponse) -> ModelResponse:
        """Record the response, and return it."""
        if self._span.is_recorded:
            self._record(response)
        return response

    def _record(self, response: ModelResponse) -> None:
        data = self._span.span_data
        output: object = response.output  # a user's model may return anything
        items = list(response.output) if isinstance(output, list | tuple) else None
        counts = plain_usage(response.usage)
        self._span.facts["usage"] = counts
        usage = {"requests": counts.requests, **usage_object(counts)}
        self._span.facts["finish_reasons"] = (finish_reason_of(items or ()),)
        if isinstance(response.model, str):
            self._span.facts["response_model"] = response.model
        if isinstance(data, GenerationSpanData):
            data.output, data.usage = items, usage
        else:
            ids = {"id": response.response_id, "model": self._label}
            data.response = {**ids, "output": items, "usage": usage}
        if response.response_id is not None:
            self._span.facts["response_id"] = response.response_id

    def timed(self, on_event: OnEvent | None) -> OnEvent | None:
        """Return a reader of the stream that also notes when the first piece of text came."""
        if on_event is None or not self._span.is_recorded:
            return on_event
        facts, began = self._span.facts, self._began

        def forward(event: JsonObject) -> None:
            facts["stream"] = True
            if FIRST_PIECE not in facts and str(event.get("type")).endswith(".delta"):
                facts[FIRST_PIECE] = time.monotonic() - began
            on_event(event)

        return forward


FIRST_PIECE = "first_piece_seconds"
"""The fact of a model call's span: the time until the first piece of text or arguments."""


def own_name(model: object) -> str:
    """Return the name that a model itself says it has; empty if it says none."""
    name = getattr(model, "name", None)
    return name if isinstance(name, str) else ""


def finish_reason_of(items: Sequence[object]) -> str:
    """Return why a reply ends, in the words of OpenTelemetry's conventions."""
    written = [fields for item in items if (fields := as_object(item)) is not None]
    if any(is_cut_short(one) for one in written):
        return "length"
    return "tool_call" if any(is_call(one) for one in written) else "stop"


@lru_cache(maxsize=64)
def _address(url: str) -> JsonObject:
    """Return the host and the port of a URL."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "ws": 80}.get(parts.scheme, 443)
    return {"server_address": parts.hostname, "server_port": port} if parts.hostname else {}


def _server_of(model: object) -> JsonObject:
    url = getattr(model, "server_url", None) or getattr(model, "base_url", None)
    with suppress(Exception):  # a model may be the user's
        made = url() if callable(url) else url
        return _address(made) if isinstance(made, str) else {}
    return {}


async def traced_guardrail(
    name: str, check: Callable[[], Awaitable[T]], *, tripped: Callable[[T], bool]
) -> T:
    """Run a guardrail inside a span."""
    data = GuardrailSpanData(name)
    with open_span(data):
        verdict = await check()
        data.triggered = tripped(verdict)
        return verdict


def record_failure(tool: str, message: str, code: str, error: Exception) -> None:
    """Set the error of a tool's span, the current one; the model may read another message."""
    span = get_current_span()
    if span is not None:
        text = str(error)
        span.set_error(tool_error(tool, message, code, sensitive=span.sensitive, error=text))


async def traced_listing(server: MCPServer, context: Any, agent: Any) -> list[Any]:
    """List the tools of an MCP server inside a span."""
    data = MCPListToolsSpanData(server.name)
    with open_span(data):
        tools = await list_tools(server, context, agent)
        data.result = [str(tool.name) for tool in tools]
        return tools


def record_server(name: str) -> None:
    """Record the MCP server of the tool in the current span."""
    span = get_current_span()
    if span is not None and isinstance(span.span_data, FunctionSpanData):
        span.span_data.mcp_data = {"server": name}


def _config(settings: ModelSettings) -> JsonObject:
    with suppress(Exception):  # settings of a worker need not be JSON
        written = write_model_settings(settings)
        return {name: value for name, value in written.items() if name not in _OMITTED_SETTINGS}
    return {}
