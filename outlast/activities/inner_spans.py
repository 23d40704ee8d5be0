"""What effects tell of their steps: model calls, guardrails, servers, failures that are not raised.

Owns: opening these spans; without `traced` around the effect nobody is told. Must not know: runs.
"""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from outlast.agents.config.model_settings import ModelSettings, write_model_settings
from outlast.agents.mcp.server import MCPServer
from outlast.agents.mcp.tools import list_tools
from outlast.agents.usage import plain_usage
from outlast.loop.values import JsonObject, Usage
from outlast.ports.model import ModelRequest, ModelResponse
from outlast.tracing.kinds import (
    FunctionSpanData,
    GenerationSpanData,
    GuardrailSpanData,
    MCPListToolsSpanData,
    SpanError,
)
from outlast.tracing.provider import get_current_span, open_span

T = TypeVar("T")

_UNTOLD_SETTINGS = ("extra_headers", "extra_body", "extra_query", "extra_args", "metadata")
"""They may hold keys."""


@contextmanager
def asking(label: str, request: ModelRequest) -> Generator[Callable[[ModelResponse], None]]:
    """Tell of a model call, as a block that hands over what the model answered.

    Args:
        label: the model's name.
        request: what it is asked.
    """
    data = GenerationSpanData(model=label)
    with open_span(data) as span:
        if span.is_recorded and span.sensitive:
            said = [{"role": "system", "content": request.instructions}]
            data.input = [*(said if request.instructions else []), *request.input]
        if span.is_recorded:
            data.model_config = _config(request.settings)

        def answered(response: ModelResponse) -> None:
            given: object = response.output  # a model may answer anything
            data.output = list(response.output) if isinstance(given, list | tuple) else None
            data.usage = _usage(plain_usage(response.usage))

        yield answered


async def guarded(
    name: str, check: Callable[[], Awaitable[T]], *, tripped: Callable[[T], bool]
) -> T:
    """Ask a guardrail, and tell of it.

    Args:
        name: the guardrail's.
        check: asks it.
        tripped: whether its answer ends the run.
    """
    data = GuardrailSpanData(name)
    with open_span(data):
        verdict = await check()
        data.triggered = tripped(verdict)
        return verdict


def tell_failure(message: str, code: str) -> None:
    """Tell why the current span's work failed, where the model reads it in other words."""
    span = get_current_span()
    if span is not None:
        message = message if span.sensitive else code
        span.set_error(SpanError(message=message, data={"code": code}))


async def listing(server: MCPServer, context: Any, agent: Any) -> list[Any]:
    """Ask an MCP server for its tools, and tell of it."""
    data = MCPListToolsSpanData(server.name)
    with open_span(data):
        tools = await list_tools(server, context, agent)
        data.result = [str(tool.name) for tool in tools]
        return tools


def tell_server(name: str) -> None:
    """Tell which MCP server the current span's tool belongs to."""
    span = get_current_span()
    if span is not None and isinstance(span.span_data, FunctionSpanData):
        span.span_data.mcp_data = {"server": name}


def _config(settings: ModelSettings) -> JsonObject:
    with suppress(Exception):  # settings of a worker need not be JSON
        written = write_model_settings(settings)
        return {name: one for name, one in written.items() if name not in _UNTOLD_SETTINGS}
    return {}


def _usage(usage: Usage) -> JsonObject:
    return {
        "requests": usage.requests,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
