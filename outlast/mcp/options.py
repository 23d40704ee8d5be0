"""The options of MCP servers that a process connects to.

Owns: `ServerOptions`, and what its numbers mean. Must not know: connections.
"""

from collections.abc import Callable
from datetime import timedelta
from math import isfinite
from typing import Any, TypeAlias, TypedDict, cast

from outlast.agents.errors import UserError
from outlast.agents.guardrails.tool_guardrails import ToolInputGuardrail, ToolOutputGuardrail
from outlast.agents.mcp.approval import RequireApprovalSetting
from outlast.agents.mcp.server import MCPToolMetaResolver, Unset
from outlast.agents.tools.definition import ToolErrorFunction, ToolRetry

MessageHandler: TypeAlias = Callable[[Any], Any]
"""Called with each notification of a server; async."""

MOST_ATTEMPTS = 100
"""Of a call that is to be tried for ever; the effect's own bound ends it sooner."""

SHORTEST_WAIT = timedelta(milliseconds=1)
"""Between two tries of a call that is to be tried again at once."""


class ServerOptions(TypedDict, total=False):
    """The further options of a server; all may be left out.

    Attributes:
        use_structured_content: whether the model reads a result's structured content, where there
            is some, instead of its texts and images; default false.
        max_retry_attempts: how often a failed call is tried again, -1 for as long as it may; what
            the server itself refuses is not. Default twice, as for every tool.
        retry_backoff_seconds_base: the wait before the second try; default 1. Each further one is
            twice as long.
        retry_backoff_seconds_max: no wait is longer; default 30.
        message_handler: gets what the server says without being asked.
        require_approval: which tools need a person, see `MCPServer`.
        failure_error_function: what the model reads of a call that failed, see `MCPServer`.
        tool_meta_resolver: makes the metadata of calls.
        tool_input_guardrails: asked before a tool of this server is called.
        tool_output_guardrails: asked about the result.
        max_list_pages: more pages of tools or prompts are an error; default no limit.
        required: whether a run fails where the tools cannot be listed, see `MCPServer`; default
            false.
    """

    use_structured_content: bool
    max_retry_attempts: int
    retry_backoff_seconds_base: float
    retry_backoff_seconds_max: float | None
    message_handler: MessageHandler | None
    require_approval: RequireApprovalSetting
    failure_error_function: ToolErrorFunction | Unset | None
    tool_meta_resolver: MCPToolMetaResolver | None
    tool_input_guardrails: list[ToolInputGuardrail[Any]] | None
    tool_output_guardrails: list[ToolOutputGuardrail[Any]] | None
    max_list_pages: int | None
    required: bool


def seconds_of(given: object, owner: str) -> float | None:
    """Return a time-out in seconds.

    Raises:
        UserError: it is none.
    """
    if given is None:
        return None
    if not isinstance(given, int | float) or not isfinite(given) or given < 0:
        raise UserError(
            f"{owner}: client_session_timeout_seconds must be seconds, or None, not {given!r}."
        )
    return float(given)


def pages_of(given: object, owner: str) -> int | None:
    """Return a limit of pages.

    Raises:
        UserError: it is none.
    """
    if given is None:
        return None
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise UserError(f"{owner}: max_list_pages must be a number from 1, or None, not {given!r}.")
    return given


def retry_of(options: ServerOptions, owner: str) -> ToolRetry:
    """Return how failed calls are tried again.

    Raises:
        UserError: the numbers make no sense.
    """
    again = cast("object", options.get("max_retry_attempts", ToolRetry().attempts - 1))
    if not isinstance(again, int) or isinstance(again, bool) or again < -1:
        raise UserError(
            f"{owner}: max_retry_attempts must be a number from 0, or -1 for as long as it may, "
            f"not {again!r}."
        )
    longest = options.get("retry_backoff_seconds_max")
    first = timedelta(seconds=options.get("retry_backoff_seconds_base", 1.0))
    first = first or SHORTEST_WAIT
    bound = ToolRetry().maximum_interval if longest is None else timedelta(seconds=longest)
    bound = bound or SHORTEST_WAIT
    try:
        return ToolRetry(
            attempts=MOST_ATTEMPTS if again == -1 else again + 1,
            initial_interval=min(first, bound) if longest is not None else first,
            maximum_interval=max(first, bound) if longest is None else bound,
        )
    except UserError as error:
        raise UserError(f"{owner}: its waits between tries do not fit. {error.message}") from error
