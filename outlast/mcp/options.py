"""The options of MCP servers that a process connects to, and their validation."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeAlias, TypedDict

from outlast.agents.checks import InvalidType, Rule, check_count, check_seconds, of_kinds, optional
from outlast.agents.errors import UserError
from outlast.agents.guardrails.tool_guardrails import ToolInputGuardrail, ToolOutputGuardrail
from outlast.agents.mcp.approval import RequireApprovalSetting
from outlast.agents.mcp.server import MCPToolCustomDataExtractor, MCPToolMetaResolver, Unset
from outlast.agents.tools.definition import DEFAULT_RETRY, ToolErrorFunction, ToolRetry

MessageHandler: TypeAlias = Callable[[Any], Any]
"""Called with each notification of a server; async."""

MOST_ATTEMPTS = 100
"""The number of attempts for unlimited retries; the effect's time-out ends them sooner."""

SHORTEST_WAIT = timedelta(milliseconds=1)
"""The wait between two attempts of a call that needs no delay."""


class CommonOptions(TypedDict, total=False):
    """The options of every MCP server, also of one without a connection."""

    use_structured_content: bool
    require_approval: RequireApprovalSetting
    failure_error_function: ToolErrorFunction | Unset | None
    tool_meta_resolver: MCPToolMetaResolver | None
    custom_data_extractor: MCPToolCustomDataExtractor | None
    tool_input_guardrails: list[ToolInputGuardrail[Any]] | None
    tool_output_guardrails: list[ToolOutputGuardrail[Any]] | None
    required: bool


class ServerOptions(CommonOptions, total=False):
    """Further options of a server, all optional.

    Attributes:
        use_structured_content: whether the model reads a result's structured content, if any,
            instead of its texts and images; default false.
        max_retry_attempts: how often a failed call is retried, -1 for unlimited; the server's own
            refusals are not retried. Default: a call that the server may have carried out is not
            retried, unless the server says that it may be; any other has three attempts.
        retry_backoff_seconds_base: the wait before the second attempt, in seconds; default 1. Each
            further wait is twice as long.
        retry_backoff_seconds_max: the longest wait, in seconds; default 30.
        message_handler: called with the server's notifications.
        require_approval: the tools that need approval, see `MCPServer`.
        failure_error_function: makes the output of a failed call, see `MCPServer`.
        tool_meta_resolver: makes the metadata of calls.
        custom_data_extractor: makes the `custom_data` of outputs, see `MCPServer`.
        tool_input_guardrails: run before a tool of this server is called.
        tool_output_guardrails: run on the result.
        max_list_pages: more pages of tools or prompts are an error; default: no limit.
        required: whether a run fails if the tools cannot be listed, see `MCPServer`; default false.
        tasks: whether the server may answer a call with a task, or with questions for people.
            Default true, but false for `MCPServerStdio`: each worker has a process of its own, and
            another worker would look for the task.
        task_timeout: how long a call may take that the server answers with a task; then the task is
            cancelled, and the model is told. Default None: as long as the server takes.
    """

    max_retry_attempts: int | None
    retry_backoff_seconds_base: float
    retry_backoff_seconds_max: float | None
    message_handler: MessageHandler | None
    max_list_pages: int | None
    tasks: bool
    task_timeout: timedelta | None


def _check_task_timeout(place: str, value: object) -> None:
    if not isinstance(value, timedelta):
        raise InvalidType(f"{place} must be a timedelta or None, not {value!r:.80}.")
    if value <= timedelta():
        raise UserError(f"{place} must be longer than zero; None means no limit.")


_ATTEMPTS = partial(check_count, least=-1, expected="a whole number from 0, or -1 for the most")

RULES: Final[dict[str, Rule]] = {
    "client_session_timeout_seconds": check_seconds,
    "max_retry_attempts": optional(_ATTEMPTS),
    "retry_backoff_seconds_base": check_seconds,
    "retry_backoff_seconds_max": check_seconds,
    "max_list_pages": optional(partial(check_count, expected="a whole number from 1, or None")),
    "tasks": of_kinds(bool),
    "task_timeout": optional(_check_task_timeout),
}
"""What the options of a server with a connection may be."""


def retry_of(retries: int | None, shortest: float, longest: float | None) -> ToolRetry:
    """Return how calls are retried: how often, and after which waits in seconds."""
    first = timedelta(seconds=shortest) or SHORTEST_WAIT
    bound = ToolRetry().maximum_interval if longest is None else timedelta(seconds=longest)
    bound = bound or SHORTEST_WAIT
    attempts = DEFAULT_RETRY.attempts if retries is None else retries + 1
    return ToolRetry(
        attempts=attempts or MOST_ATTEMPTS,
        errors=retries is not None,
        initial_interval=min(first, bound) if longest is not None else first,
        maximum_interval=max(first, bound) if longest is None else bound,
    )
