"""Carries out `RunTool`: runs one attempt of a tool call.

Decides which failures are retried and what the model reads of the last one.
"""

import asyncio
import json
import time
from collections.abc import Hashable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, cast

from outlast.activities.approvals.deliveries import unproven_deliveries
from outlast.activities.approvals.gate import GuardedCall, tool_digest, tool_ruling, with_defaults
from outlast.activities.approvals.notes import refused_notes, signed_notes
from outlast.activities.approvals.rule import Refusal, asks_nobody
from outlast.activities.attempt import FIRST, Attempt
from outlast.activities.errors import (
    EffectError,
    cut,
    failure_of,
    fits_surely,
    fitting,
    is_retryable,
    lacking,
    not_carried_out,
    of_user_code,
    tool_is_gone,
)
from outlast.activities.failure_words import failure_words
from outlast.activities.guardrails.tool_checks import ToolCheck, check_call, check_result
from outlast.activities.inner_spans import record_failure, record_server
from outlast.activities.invocation import Invocation
from outlast.activities.planning.mcp_listing import listed_tool
from outlast.activities.planning.plan_callbacks import formatted_failure, servers_away, tool_context
from outlast.activities.worker_deps import WorkerDeps
from outlast.activities.worker_memory import LONGEST_BRIEF, SHORT_OUTPUT
from outlast.agents.callables import call
from outlast.agents.context.codec import BorrowedContext
from outlast.agents.context.shared import Borrower
from outlast.agents.context.waits import Wait, WaitBegins, Waits, arrived_value
from outlast.agents.context.wrapper import ToolContext, set_waits, team_of, waits_of
from outlast.agents.errors import (
    AgentsException,
    MCPTaskEnded,
    ModelBehaviorError,
    ToolTimeoutError,
    UserError,
    WaitDropped,
    WaitTimeout,
)
from outlast.agents.hooks import call_hooks
from outlast.agents.items.tool_output import decode_output, encode_output
from outlast.agents.logs import get_logger
from outlast.agents.mcp.calls import begun_tool, checks_noted, with_checks
from outlast.agents.mcp.server import MCPNotSent
from outlast.agents.mcp.tools import MCPFunctionTool, tool_of_task
from outlast.agents.registry import only_reads
from outlast.agents.schemas.function_schema import reads_what_it_checks
from outlast.agents.tools.custom_data import CustomDataContext, as_custom_data
from outlast.agents.tools.definition import FunctionTool, default_tool_error
from outlast.agents.tools.local import LocalTool
from outlast.contract import failures
from outlast.contract.effects import EffectRequest
from outlast.contract.records import read, write
from outlast.loop.call_forms import call_item, output_item
from outlast.loop.calls import OutsideWait, ToolResult
from outlast.loop.changes import Change
from outlast.loop.checks import GuardrailRecord
from outlast.loop.effects import CleanUp, RunTool
from outlast.loop.phrases import OFF_IN_FORK, REJECTED
from outlast.loop.values import Failure, Json, JsonObject
from outlast.ports.identity import WorkerIdentity

logger: Final = get_logger(__name__)

LARGEST_OUTPUT_BYTES = 500_000
"""The maximum size of an output: more than any model reads, and below the limit of history."""

LARGEST_FAST_OUTPUT_BYTES = 100_000
"""The maximum output of a fast tool: all fast outputs travel in one message of at most 4 MB."""

LARGEST_FAST_RESULT_BYTES = 300_000
"""The maximum size of a fast call's whole result, including context changes."""

LARGEST_NOTES_BYTES = 100_000
"""The maximum size of what a tool has noted when its call begins to wait."""

DEFERRED = ToolResult(output=None, deferred=True)
"""The result of a short tool's call that was not short: it runs again as an activity."""


@dataclass(kw_only=True)
class _Attempt:
    invocation: Invocation
    tool: FunctionTool
    context: ToolContext[Any]
    request: RunTool
    number: int
    reading: "_Reading"
    checks: tuple[GuardrailRecord, ...] = ()
    borrower: Borrower
    changes: tuple[Change, ...] = ()

    @property
    def is_last(self) -> bool:
        return self.number >= self.request.policy.attempts


class _Reading:
    """Reads a call's arguments at most once: validators are user code."""

    def __init__(self, tool: FunctionTool, arguments: str) -> None:
        self.tool = tool
        self._arguments = arguments
        self._result: Any = None
        self._error: Exception | None = None

    def result(self) -> Any:
        """Return what the tool's `read` returns; None if it has none.

        Raises:
            Exception: `ModelBehaviorError` for invalid arguments, or any error of a user's `read`.
        """
        if self._result is None and self._error is None and self.tool.read is not None:
            try:
                self._result = self.tool.read(self._arguments)
            except Exception as error:  # noqa: BLE001  raised below, each time
                self._error = error
        if self._error is not None:
            raise self._error
        return self._result

    def altered(self) -> str:
        """Return the arguments that validators changed; a call whose arguments are invalid fails."""
        try:
            read = self.result()
        except Exception:  # noqa: BLE001  the call reports it
            return ""
        return "" if read is None else str(read.find_altered())


async def run_tool(
    worker: WorkerDeps, request: EffectRequest[RunTool], attempt: Attempt = FIRST
) -> ToolResult:
    """Run one attempt of a tool call, and limit the size of its result.

    Raises:
        EffectError: as for `_run_attempt`.
    """
    effect, times = request.effect, worker.memory.tool_times
    started, result = time.monotonic(), None
    try:
        if effect.policy.fast and effect.policy.defers:
            result = await _brief_attempt(worker, effect, attempt)
        else:
            result = await _run_attempt(worker, effect, attempt)
    finally:
        times.record(effect.name, time.monotonic() - started, result)
    return DEFERRED if result is None else _within_bounds(effect, result)


async def clean_up(
    worker: WorkerDeps, request: EffectRequest[CleanUp], attempt: Attempt = FIRST
) -> ToolResult:
    """Run the tool of a dropped call once more, so that it can end what it began outside.

    Raises:
        EffectError: as for `_run_attempt`.
    """
    await _run_attempt(worker, request.effect, attempt)
    return ToolResult(output=None)


async def _brief_attempt(
    worker: WorkerDeps, request: RunTool, attempt: Attempt
) -> ToolResult | None:
    """Run an attempt inside a workflow task; return None if it needs a full activity."""
    try:
        async with asyncio.timeout(LONGEST_BRIEF.total_seconds()):
            result = await _run_attempt(worker, request, attempt)
    except TimeoutError:
        return None
    except EffectError as error:
        if error.retryable:
            return None
        raise
    is_short = isinstance(result.output, str) and len(result.output) <= SHORT_OUTPUT
    return result if is_short or result.wait is not None else None


async def _run_attempt(worker: WorkerDeps, request: RunTool, made: Attempt) -> ToolResult:
    attempt = made.number
    tool, away = await _tool_of(worker, request, made)
    if tool is None or tool.form != request.form:
        return _missing_tool_output(request, made, away)
    if (settled := _settled_in_fork(tool, request)) is not None:
        return settled
    is_last = made.waits_in_vain(worker)
    if refusal := await refused_notes(worker, request, made.execution, is_last=is_last):
        return _refused_call(tool, refusal)
    invocation = Invocation.of(worker, request, tool.context_type)
    reading = _Reading(tool, request.arguments)
    # First: guardrails, hooks and validators of the call are user code, which may have effects.
    stopped = await _stopped(reading, invocation, request, made)
    if stopped is not None:
        return stopped
    waits = await _waits(worker, request, made)
    own = invocation.borrowed
    reply = _reply_of(request, own)
    run = None if reply is None else (invocation.run_key, repr(own.context_type))
    with worker.shared_contexts.join(run, reply, own, call=request.effect) as borrower:
        invocation.lend(borrower.borrowed)
        this = _Attempt(
            invocation=invocation,
            tool=tool,
            context=_tool_context(invocation, request, attempt, tool, waits),
            request=request,
            number=attempt,
            reading=reading,
            borrower=borrower,
        )
        result = await _call_tool(this)
        if result.wait is not None:
            wait = await signed_notes(worker, request, made.execution, result.wait)
            result = replace(result, wait=wait)
        if not borrower.order:
            return result
        return replace(result, host=worker.shared_contexts.host, order=borrower.order)


def _reply_of(request: RunTool, borrowed: BorrowedContext) -> Hashable | None:
    """Return what the calls of a reply have in common; None for a call that shares no context.

    A short call may be repeated as an activity, so its changes must not be seen before it ended.
    """
    if borrowed.is_new or request.policy.defers:
        return None
    return request.started_at_ms, request.question, request.turn


async def _call_tool(this: _Attempt) -> ToolResult:
    noted = checks_noted(_task_notes(this.tool, this.request))
    if noted is not None:  # this attempt only looks at a task
        this.checks = tuple(read(GuardrailRecord, one) for one in noted)
    elif (stopped := await _begin(this)) is not None:
        return stopped
    result = await _invoke(this)
    is_over = result.wait is None and not isinstance(this.request, CleanUp)
    return await _finish(this, result) if is_over else result


def _task_notes(tool: FunctionTool, request: RunTool) -> JsonObject | None:
    """Return the notes of a call that can only look at its task; other tools name theirs as they like.

    Whoever writes to Temporal can write them: a call with notes of a task looks, and begins nothing.
    """
    return request.done if isinstance(tool, MCPFunctionTool) else None


async def _begin(this: _Attempt) -> ToolResult | None:
    """Run guardrails and hooks before a call; return its result if they stop it."""
    tool, context, invocation = this.tool, this.context, this.invocation
    try:
        checked = await check_call(tool, context)
        this.checks = checked.records
        if checked.message is not None or checked.failure is not None:
            return _guardrail_result(this, checked)
        if tool.tool_input_guardrails or invocation.hooked("on_tool_start"):
            await call_hooks(
                *invocation.hook_calls("on_tool_start", context, invocation.agent, tool)
            )
            this.changes = this.borrower.changes(context)  # they stay if the call fails
    except Exception as error:  # noqa: BLE001  a guardrail or hook that raises ends the run
        return _run_failure(this, f"A guardrail or hook of the tool {tool.name!r}", error)
    return None


async def _tool_of(
    worker: WorkerDeps, request: RunTool, made: Attempt
) -> tuple[FunctionTool | None, Sequence[str]]:
    """Return the tool of a call, and the MCP servers that could not be asked for it.

    A tool that people have approved is listed anew: it may have changed since. A task of an MCP
    server is looked at without that: the server may be away for a while, and the task goes on.
    """
    name, source = request.name, request.source
    begun = begun_tool(request.done) if source else None
    try:
        tool = worker.registry.tool(request.agent, name, source)
        if request.evidence is None or begun or not isinstance(tool, MCPFunctionTool):
            return tool, ()
    except UserError as error:
        invocation = Invocation.of(worker, request)
        agent = invocation.agent
        if agent.makes_tools:
            from outlast.activities.made_tools import made_tools  # few agents make theirs

            await made_tools(worker.registry, agent, request.agent, invocation.wrapper)
            with suppress(UserError):
                return worker.registry.tool(request.agent, name, source), ()
        if not agent.mcp_servers:
            if made.waits_in_vain(worker):
                return None, ()
            raise lacking(str(error)) from error
        if begun:
            servers = (one for one in agent.mcp_servers if one.name == source)
            return next((tool_of_task(one, begun, name, agent) for one in servers), None), ()
    invocation = Invocation.of(worker, request)
    return await listed_tool(
        invocation, name, source, attempt=made.number, attempts=request.policy.attempts
    )


async def _stopped(
    reading: _Reading, invocation: Invocation, request: RunTool, made: Attempt
) -> ToolResult | None:
    """Return the result of a call that its policy does not let run yet; None if it may run."""
    tool = reading.tool
    if asks_nobody(tool, invocation):
        return None
    if begun_tool(_task_notes(tool, request)):  # people have been asked before the task began
        return None
    written = filled = request.arguments
    if not isinstance(tool, LocalTool):
        filled = with_defaults(tool.params_json_schema, written)
    if request.evidence is not None:  # what was approved is what runs
        written = filled
    call = GuardedCall(
        call_id=request.call_id,
        arguments=filled,
        digest_of_tool=partial(tool_digest, request.agent, tool),
        evidence=request.evidence,
        execution=made.execution,
        altered=None if tool.read is None else reading.altered,
    )
    raw = call_item(request.form, call_id=request.call_id, name=request.name, arguments=written)
    rule = await tool_ruling(tool, invocation, raw, call)
    if isinstance(rule, Refusal):
        return ToolResult(output=rule.reason or REJECTED, failed=True)
    return None if rule is None else ToolResult(output=None, required=rule)


def _refused_call(tool: FunctionTool, why: str) -> ToolResult:
    """Return the result of a call that must not run again, as that of a failed one."""
    if tool.failure_error_function is not None:
        return ToolResult(output=why, failed=True)
    return ToolResult(output=why, failure=Failure(code=failures.TOOL_FAILED, message=why))


def _settled_in_fork(tool: FunctionTool, request: RunTool) -> ToolResult | None:
    """Return the result of a call that a fork must not make; None if the tool runs.

    A tool that says that it only reads runs in every fork.
    """
    forked = request.forked
    if forked is None or forked.allowed or only_reads(tool):
        return None
    if isinstance(request, CleanUp):  # what was begun outside is the source's to end
        return ToolResult(output=None)
    if forked.recorded is not None:
        return forked.recorded
    return ToolResult(output=OFF_IN_FORK, failed=True)


def _missing_tool_output(request: RunTool, made: Attempt, away: Sequence[str]) -> ToolResult:
    text = not_carried_out(servers_away(away)) if away else tool_is_gone(request.name)
    has_waited = made.patient and not away  # it would be sent from worker to worker for ever
    if made.number < request.policy.attempts and not has_waited:
        raise EffectError(failures.USER_ERROR, text, retryable=True)
    return ToolResult(output=text, failed=True)


async def _invoke(this: _Attempt) -> ToolResult:
    tool, request = this.tool, this.request
    if isinstance(tool, MCPFunctionTool):
        record_server(tool.server_name)
    try:
        problem = _read_arguments(this)
    except Exception as error:  # noqa: BLE001  argument checks may be user code
        return await _handle_failure(this, error)
    if problem is not None:
        return await _refuse_arguments(this, problem)
    bound_seconds = request.policy.timeout_seconds
    bound = asyncio.timeout(bound_seconds)
    try:
        async with bound:
            value = await _returned(this)
        # A context that is not JSON fails the call.
        changes = this.borrower.changes(this.context)
        if isinstance(value, Wait):
            wait = _checked_wait(this, value.begun(is_output=True))
            return ToolResult(output=None, wait=wait, changes=changes)
        result, team = _result(this, value, changes), team_of(this.context)
        return replace(result, team=team) if team else result
    except WaitDropped:
        return ToolResult(output=None)
    except TimeoutError as error:
        if not bound.expired():  # raised by the tool itself, such as a socket time-out
            return await _handle_failure(this, error)
        return await _handle_timeout(this, ToolTimeoutError.after(bound_seconds, tool.name))
    except Exception as error:  # noqa: BLE001  user code
        return await _handle_failure(this, error)
    except WaitBegins as begins:  # the tool runs again, so its changes so far do not count
        wait = _checked_wait(this, _with_checks(this, begins.wait))
        unproven = waits_of(this.context).unproven.get(wait.name, "") if wait.signed else ""
        return ToolResult(output=None, wait=wait, unproven=unproven)


def _read_arguments(this: _Attempt) -> str | None:
    """Read a call's arguments, and return what is wrong with them; None if they fit."""
    tool, problem = this.tool, None
    try:
        if tool.validate is not None and not reads_what_it_checks(tool.validate, tool.read):
            problem = tool.validate(this.request.arguments)
        if problem is None:
            this.context.arguments_read = this.reading.result()
    except ModelBehaviorError as error:
        problem = error.message
    return problem


async def _returned(this: _Attempt) -> Any:
    """Return the value of the tool, or of the wait that the tool has returned."""
    ended = waits_of(this.context).arrival(this.request.output_of)
    if ended is not None:
        return arrived_value(ended)
    try:
        value: object = await call(this.tool.on_invoke_tool, this.context, this.request.arguments)
    except BaseExceptionGroup as group:
        raise _of_group(group) from group
    if isinstance(value, Wait):
        wait = cast("Wait[Any]", value)
        return wait if wait.arrival is None else wait.result()
    return value


def _of_group(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return what ended the tasks that a tool ran beside each other: their errors, or a wait."""
    waits, others = group.split(WaitBegins)
    if waits is None or others is not None:
        return others or group
    one: BaseException = waits
    while isinstance(one, BaseExceptionGroup):
        one = one.exceptions[0]
    return one


def _with_checks(this: _Attempt, wait: OutsideWait) -> OutsideWait:
    """Return the wait for a task with what guardrails said, so that looks do not ask them again.

    If a hook has changed the context, the next attempt calls it again, as for any tool that waits.
    """
    is_task = isinstance(this.tool, MCPFunctionTool) and begun_tool(wait.done) is not None
    if wait.done is None or not is_task or this.changes:
        return wait
    checks = [write(one) for one in this.checks]
    return replace(wait, done=with_checks(wait.done, checks))


def _checked_wait(this: _Attempt, wait: OutsideWait) -> OutsideWait:
    """Return a wait whose notes fit into the run's state; its results are carried for days."""
    size = len(json.dumps(wait.done))
    if size <= LARGEST_NOTES_BYTES:
        return wait
    message = (
        f"The results of ctx.once in the tool {this.tool.name!r} take {size:,} bytes as JSON; the "
        f"limit is {LARGEST_NOTES_BYTES:,}. Return an id, and keep the data elsewhere."
    )
    raise EffectError(failures.TOOL_FAILED, message, retryable=False)


async def _finish(this: _Attempt, result: ToolResult) -> ToolResult:
    if result.failure is not None:
        return replace(result, checks=this.checks)
    tool, context, invocation = this.tool, this.context, this.invocation
    has_data = tool.custom_data_extractor is not None or context.custom_data is not None
    is_observed = has_data or tool.tool_output_guardrails or invocation.hooked("on_tool_end")
    lent = None
    if result.failed:
        lent = _before_call(this)
        context.context = lent.context
    elif not is_observed:
        return replace(result, checks=this.checks) if this.checks else result
    try:
        returned = result.output
        if not result.failed:
            is_local = isinstance(tool, LocalTool)
            returned = (
                tool.shown(returned) if is_local else decode_output(returned, tool.result_type)
            )
        checked = await check_result(tool, context, returned)
        this.checks = (*this.checks, *checked.records)
        if checked.failure is not None:
            return _guardrail_result(this, checked)
        if checked.message is not None:
            result = replace(result, output=checked.message, value=None)
            returned = checked.message
        data = await _custom_data(this, result.output, returned)
        await call_hooks(
            *invocation.hook_calls("on_tool_end", context, invocation.agent, tool, returned)
        )
        changes = (
            this.borrower.changes(context)
            if lent is None
            else (*this.changes, *lent.changes(context))
        )
        return replace(result, checks=this.checks, changes=changes, custom_data=data)
    except Exception as error:  # noqa: BLE001  a guardrail or hook that raises ends the run
        return _run_failure(this, f"A guardrail or hook of the tool {tool.name!r}", error)


async def _custom_data(this: _Attempt, output: Json, returned: Any) -> JsonObject | None:
    """Return the program's own data of an output: the call's own, and what the tool makes of it."""
    extractor, context = this.tool.custom_data_extractor, this.context
    data = as_custom_data(context.custom_data)
    if extractor is not None:
        raw = deepcopy(output_item(this.request.call_id, output, this.request.form))
        made = CustomDataContext(
            tool_context=context, tool=this.tool, output=returned, raw_item=raw
        )
        data |= as_custom_data(await call(extractor, made))
    return data or None


def _before_call(this: _Attempt) -> BorrowedContext:
    """Return the context after guardrails and hooks, without the changes of the failed call."""
    return this.invocation.worker.borrow(
        this.borrower.borrowed.value, this.request.context_type, this.tool.context_type
    )


def _tool_context(
    invocation: Invocation, request: RunTool, attempt: int, tool: FunctionTool, waits: Waits
) -> ToolContext[Any]:
    written = request.arguments
    called = {"name": request.name, "call_id": request.call_id, "arguments": written}
    raw = call_item(request.form, **called)
    context = tool_context(invocation, tool, raw, **called)
    context.attempt, context.approved = attempt, request.approved
    set_waits(context, waits)
    return context


async def _waits(worker: WorkerDeps, request: RunTool, made: Attempt) -> Waits:
    """Return the waits of a call, with what is wrong with deliveries that need a proof."""
    identity = worker.identity or WorkerIdentity()
    unproven = await unproven_deliveries(identity, request, made.execution, made.arrived)
    return Waits(
        arrivals=request.arrived,
        done=dict(request.done or {}),
        question=request.question,
        dropped=isinstance(request, CleanUp),
        unproven=unproven,
        checks_proofs=made.execution is None or bool(identity.keys),
        calendar=worker.calendar,
    )


def _result(this: _Attempt, value: Any, changes: tuple[Change, ...]) -> ToolResult:
    if isinstance(this.tool, LocalTool):  # local tools write their output themselves
        return ToolResult(output=_limit(this.tool, value), changes=changes)
    output = _limit(this.tool, encode_output(value, tool_name=this.tool.name))
    return ToolResult(output=output, value=_value(this, value, output), changes=changes)


def _value(this: _Attempt, value: Any, output: Json) -> Json:
    if not this.request.final:
        return None
    if not callable(this.invocation.agent.tool_use_behavior):
        return this.invocation.tool_answer(value)[0]
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return output


async def _refuse_arguments(this: _Attempt, problem: str) -> ToolResult:
    error = ModelBehaviorError(problem)
    if this.tool.failure_error_function is default_tool_error:
        text = await formatted_failure(this.invocation, this.request, problem, error)
        return ToolResult(output=_shorten(text), failed=True)
    failure = Failure(code=failures.MODEL_BEHAVIOR, message=problem)
    if this.tool.failure_error_function is None:
        return ToolResult(output=problem, failure=failure)
    return await _failure_output(this, error, failure)


async def _call_error_hooks(this: _Attempt, error: Exception) -> ToolResult | None:
    """Call `on_tool_error`; return the result of a call whose hook failed."""
    invocation = this.invocation
    try:
        await call_hooks(
            *invocation.hook_calls(
                "on_tool_error", this.context, invocation.agent, this.tool, error
            )
        )
    except Exception as second:  # noqa: BLE001  a hook that raises ends the run
        return _run_failure(this, f"on_tool_error of the tool {this.tool.name!r}", second)
    return None


async def _handle_timeout(this: _Attempt, error: ToolTimeoutError) -> ToolResult:
    words, ends_run = this.tool.timeout_error_function, None
    if this.tool.timeout_behavior == "raise_exception":
        details: JsonObject = {
            "tool_name": error.tool_name,
            "timeout_seconds": error.timeout_seconds,
        }
        ends_run = Failure(code=failures.TOOL_TIMEOUT, message=str(error), details=details)
    if not this.is_last or (words is None and ends_run is None):
        return await _handle_failure(this, error)
    if (failed := await _call_error_hooks(this, error)) is not None:
        return failed
    if words is None or ends_run is not None:
        return ToolResult(output=str(error), failure=ends_run)
    text = await _words_of(this, "timeout_error_function", words, error)
    return ToolResult(output=_shorten(str(text)), failed=True)


async def _handle_failure(this: _Attempt, error: Exception) -> ToolResult:
    tool, is_timeout = this.tool, isinstance(error, ToolTimeoutError)
    code = failures.TOOL_TIMEOUT if is_timeout else failures.TOOL_FAILED
    message = str(error) if is_timeout else f"{tool.name} raised {type(error).__name__}: {error}"
    record_failure(tool.name, message, code, error)
    if not this.is_last and (is_timeout or _may_run_again(tool, error)):
        raise EffectError(code, message, retryable=True) from error
    if (failed := await _call_error_hooks(this, error)) is not None:
        return failed
    raised = failure_of(tool.name, error).details
    if isinstance(error, AgentsException):  # such as of a run that the tool started
        raised = {"code": error.code}
    if tool.failure_error_function is None:
        raise EffectError(code, message, retryable=False, details=raised) from error
    # The worker logs raised errors, but not this one.
    key = this.context.idempotency_key
    logger.warning("attempt %d of %s failed: %s", this.number, key, failure_words(message, error))
    failure = Failure(code=code, message=message, details=raised)
    return await _failure_output(this, error, failure)


def _may_run_again(tool: FunctionTool, error: Exception) -> bool:
    """Whether a call that raised is retried: it had no effect, or the tool may be repeated."""
    if isinstance(error, WaitTimeout | MCPTaskEnded):  # it would be told the same again
        return False
    return isinstance(error, MCPNotSent) or (tool.retries_errors and is_retryable(error))


async def _words_of(this: _Attempt, name: str, function: Any, error: Exception) -> object:
    """Return what a function of the tool says about a failure.

    Raises:
        EffectError: the function failed; a retry would run the tool again.
    """
    try:
        return await call(function, this.context, error)
    except Exception as second:  # user code
        failed = of_user_code(f"{name} of {this.tool.name!r}", second)
        failed.retryable = False
        raise failed from second


async def _failure_output(this: _Attempt, error: Exception, failure: Failure) -> ToolResult:
    """Return the output of a failed call: the tool's own text, or the run's.

    A `failure_error_function` that returns None, or no value, ends the run with the failure, as in
    the Agents SDK. The run's formatter is not called after a time-out, which has its own texts.
    """
    function = this.tool.failure_error_function or default_tool_error
    output_text = await _words_of(this, "failure_error_function", function, error)
    if output_text is None:
        return ToolResult(output=failure.message, failure=failure)
    text = str(output_text)
    if function is default_tool_error and not isinstance(error, ToolTimeoutError):
        text = await formatted_failure(this.invocation, this.request, text, error)
    return ToolResult(output=_shorten(text), failed=True)


def _guardrail_result(this: _Attempt, checked: ToolCheck) -> ToolResult:
    failure, changes = checked.failure, this.borrower.changes(this.context)
    output = checked.message if failure is None else failure.message
    return ToolResult(output=output, checks=this.checks, failure=failure, changes=changes)


def _run_failure(this: _Attempt, what: str, error: Exception) -> ToolResult:
    failure = failure_of(what, error)
    return ToolResult(output=failure.message, checks=this.checks, failure=failure)


def _within_bounds(request: RunTool, result: ToolResult) -> ToolResult:
    fast = request.policy.fast
    limit = LARGEST_FAST_OUTPUT_BYTES if fast else LARGEST_OUTPUT_BYTES
    output, value = result.output, result.value
    if isinstance(output, str):
        output = _shorten(output, limit)
    if isinstance(value, str):
        value = _shorten(value, limit)
    elif value is not None and len(json.dumps(value)) > limit:
        value = _too_long(request.name, len(json.dumps(value)), limit)
    failure = result.failure
    if failure is not None:
        failure = replace(failure, message=cut(failure.message))
    if output is not result.output or value is not result.value or failure is not None:
        result = replace(result, output=output, value=value, failure=failure)
    size = len(json.dumps(write(result))) if fast else 0
    if size > LARGEST_FAST_RESULT_BYTES:
        message = (
            f"The fast tool {request.name} returned {size:,} bytes with its context changes; the "
            f"limit is {LARGEST_FAST_RESULT_BYTES:,}. Remove fast=True."
        )
        raise EffectError(failures.TOOL_FAILED, message, retryable=False)
    return result


def _shorten(text: str, limit: int = LARGEST_OUTPUT_BYTES) -> str:
    if text.isascii() and fits_surely(text, limit):
        return text
    return fitting(text.encode(errors="replace").decode(), limit)


def _too_long(name: str, size: int, limit: int) -> str:
    return (
        f"The tool {name} succeeded, but its output of {size:,} bytes is too long to read: at "
        f"most {limit:,} bytes. Ask for less, such as a smaller range or a summary."
    )


def _limit(tool: FunctionTool, output: Json) -> Json:
    limit = LARGEST_FAST_OUTPUT_BYTES if tool.fast is True else LARGEST_OUTPUT_BYTES
    if isinstance(output, str) and fits_surely(output, limit):
        return output
    size = len(json.dumps(output))  # as it is written into history
    if size <= limit:
        return output
    return _too_long(tool.name, size, limit)
