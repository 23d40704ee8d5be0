"""Answering `RunTool` and `RunHandoff`: call a user's function, bounded, and keep what it changed.

Owns: one attempt of a call; which failures are retried; what the model reads of the last one.
Knows no Temporal.
"""

import asyncio
import json
import logging
from typing import Any

from outlast.activities.errors import EffectError, is_retryable, of_user_code
from outlast.activities.worker_knowledge import WorkerKnowledge
from outlast.agents.callables import call
from outlast.agents.context import RunContextWrapper, ToolContext
from outlast.agents.context_codec import BorrowedContext, context_type_of
from outlast.agents.errors import ToolTimeoutError, UserError
from outlast.agents.tool import FunctionTool
from outlast.agents.tool_output import encode_output
from outlast.contract import failures
from outlast.loop.calls import HandoffResult, ToolResult
from outlast.loop.commands import RunHandoff, RunTool
from outlast.loop.values import Json

logger = logging.getLogger(__name__)

LARGEST_OUTPUT_BYTES = 500_000
"""More than any model reads, and well below what history can hold."""


async def run_tool(worker: WorkerKnowledge, request: RunTool, *, attempt: int) -> ToolResult:
    """Run one attempt of a tool call.

    Args:
        worker: the definitions.
        request: the call.
        attempt: 1 for the first try.

    Raises:
        EffectError: the attempt failed and is to be repeated; or it was the last and the tool
            does not let the model know.
    """
    try:
        tool = worker.registry.tool(request.agent, request.name)
        borrowed = worker.borrow(request.context, request.context_type, tool.context_type)
    except UserError as error:
        # Another worker may know the tool: during a deploy, old and new ones share a queue.
        raise EffectError(failures.USER_ERROR, str(error), retryable=True) from error
    context = _tool_context(worker, request, borrowed, attempt)
    bound_seconds = request.policy.timeout_ms / 1000
    bound = asyncio.timeout(bound_seconds)
    try:
        async with bound:
            value = await tool.on_invoke_tool(context, request.arguments)
        output = _bounded(tool.name, encode_output(value, tool_name=tool.name))
        return ToolResult(output=output, changes=borrowed.changes(context))
    except TimeoutError as error:
        if not bound.expired():  # the tool's own business, such as a socket that timed out
            return await _failed(tool, context, request, attempt, error)
        late = ToolTimeoutError(f"The tool {tool.name} took longer than {bound_seconds:g} s.")
        return await _failed(tool, context, request, attempt, late)
    except Exception as error:  # noqa: BLE001  whatever a user's function raises
        return await _failed(tool, context, request, attempt, error)


async def run_handoff(worker: WorkerKnowledge, request: RunHandoff) -> HandoffResult:
    """Run a handoff's callback.

    Raises:
        EffectError: the callback failed.
    """
    what = f"on_handoff of {request.name!r} of agent {request.agent!r}"
    try:
        entry = worker.registry.handoff(request.agent, request.name)
        if entry.on_handoff is None:
            return HandoffResult()
        annotated = context_type_of(entry.on_handoff)
        borrowed = worker.borrow(request.context, request.context_type, annotated)
    except UserError as error:
        raise EffectError(failures.USER_ERROR, str(error), retryable=True) from error
    wrapper = RunContextWrapper[Any](
        context=borrowed.context, usage=request.usage, run_id=request.run_id, turn=request.turn
    )
    bound_seconds = request.policy.timeout_ms / 1000
    bound = asyncio.timeout(bound_seconds)
    try:
        async with bound:
            await call(entry.on_handoff, wrapper)
        return HandoffResult(changes=borrowed.changes(wrapper))
    except Exception as error:
        if bound.expired():
            message = f"{what} took longer than {bound_seconds:g} s."
            raise EffectError(failures.USER_ERROR, message, retryable=True) from error
        raise of_user_code(what, error) from error


def _tool_context(
    worker: WorkerKnowledge, request: RunTool, borrowed: BorrowedContext, attempt: int
) -> ToolContext[Any]:
    return ToolContext[Any](
        context=borrowed.context,
        usage=request.usage,
        run_id=request.run_id,
        turn=request.turn,
        tool_name=request.name,
        tool_call_id=request.call_id,
        tool_arguments=request.arguments,
        agent=worker.registry.agent(request.agent),
        attempt=attempt,
        idempotency_key=f"{request.run_id}:{request.call_id}",
    )


async def _failed(
    tool: FunctionTool,
    context: ToolContext[Any],
    request: RunTool,
    attempt: int,
    error: Exception,
) -> ToolResult:
    """Repeat the attempt, or tell the model, or end the run: what the tool's definition says."""
    late = isinstance(error, ToolTimeoutError)
    code = failures.TOOL_TIMEOUT if late else failures.TOOL_FAILED
    message = str(error) if late else f"{tool.name} raised {type(error).__name__}: {error}"
    logger.warning("attempt %d of %s failed: %s", attempt, context.idempotency_key, message)
    if attempt < request.policy.attempts and (late or is_retryable(error)):
        raise EffectError(code, message, retryable=True) from error
    if tool.failure_error_function is None:
        raise EffectError(code, message, retryable=False) from error
    try:
        text: object = await call(tool.failure_error_function, context, error)
    except Exception as second:
        raise of_user_code(f"failure_error_function of {tool.name!r}", second) from second
    return ToolResult(output=_shortened(str(text)), failed=True)


def _shortened(text: str) -> str:
    data = text.encode(errors="replace")
    return data[:LARGEST_OUTPUT_BYTES].decode(errors="ignore")


def _bounded(name: str, output: Json) -> Json:
    size = len(json.dumps(output))  # as it is written into history
    if size <= LARGEST_OUTPUT_BYTES:
        return output
    return (
        f"The tool {name} worked, but its output of {size:,} bytes is too long to read: at most "
        f"{LARGEST_OUTPUT_BYTES:,} bytes. Ask for less, such as a smaller range or a summary."
    )
