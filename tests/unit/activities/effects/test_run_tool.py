"""One attempt of a tool call."""

import asyncio
import json
import threading
from dataclasses import dataclass, replace
from dataclasses import fields as fields_of
from datetime import timedelta
from typing import Annotated, Any, Unpack

import pytest
from pydantic import BeforeValidator

from outlast.activities.attempt import FIRST, Attempt
from outlast.activities.effects import run_tool as tool_module
from outlast.activities.effects.run_tool import (
    LARGEST_FAST_OUTPUT_BYTES,
    LARGEST_FAST_RESULT_BYTES,
    LARGEST_OUTPUT_BYTES,
    clean_up,
    run_tool,
)
from outlast.activities.errors import EffectError
from outlast.activities.worker_memory import SHORT_CALLS, ToolTimes
from outlast.agents.agent import Agent
from outlast.agents.approvals.policy_file import ApprovalFile
from outlast.agents.config.run_config import RunConfig
from outlast.agents.context.wrapper import RunContextWrapper, ToolContext
from outlast.agents.errors import ModelBehaviorError, ToolTimeoutError, UserError
from outlast.agents.guardrails.tool_guardrails import (
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolOutputGuardrail,
)
from outlast.agents.hooks import AgentHooks, RunHooks
from outlast.agents.items.tool_output import ToolOutputImage
from outlast.agents.mcp.server import MCPNotSent, MCPRefusal
from outlast.agents.tools.custom import CustomTool
from outlast.agents.tools.definition import (
    FunctionTool,
    ToolRetry,
)
from outlast.agents.tools.function_tool import ToolOptions, function_tool
from outlast.agents.tools.search import tool_namespace
from outlast.agents.usage import plain_usage
from outlast.contract.effects import EffectRequest
from outlast.extensions.machine.shell import ShellTool
from outlast.loop.calls import ExecutionOptions, ToolResult
from outlast.loop.changes import Change
from outlast.loop.effects import CleanUp, RunTool
from outlast.loop.values import Failure, Json, JsonObject, Usage
from outlast.testing import SpanCollector
from outlast.tracing.effect_spans import around_effect, scope_of
from outlast.tracing.provider import custom_span
from tests.mcp_servers import Shelf
from tests.unit.activities.desk import (
    Notes,
    name_of,
    raising,
    settings_of,
    tool_request,
    worker_of,
    worker_with,
)

SHELL = ShellTool(lambda _request: "ran", name="bash")
LS = '{"action":{"commands":["ls"]}}'

LAST = ExecutionOptions(attempts=1)
SHORT = ExecutionOptions(timeout_ms=30, attempts=1)


def failing(error: Exception, **options: Unpack[ToolOptions]) -> FunctionTool:
    """A tool that fails."""

    @function_tool(**options)
    async def fail() -> str:
        """Fail."""
        raise error

    return fail


async def attempt(tool: FunctionTool, number: int = 1, **fields: Any) -> ToolResult:
    """One attempt of a call without arguments."""
    request = tool_request(**{"name": tool.name, **fields})
    return await run_tool(worker_with(tool), request, Attempt(number=number))


# --- A call that works -----------------------------------------------------------------------------


async def test_a_tool_gets_its_arguments_and_its_call() -> None:
    got: list[ToolContext[Any]] = []

    @function_tool
    async def look_up(ctx: ToolContext[Any], order_id: str) -> dict[str, str]:
        """Look an order up."""
        got.append(ctx)
        return {"order": order_id}

    agent = Agent[Any](name="A", tools=[look_up])
    arguments = '{"order_id": "A-17"}'
    usage = Usage(requests=2, total_tokens=30)
    request = tool_request("look_up", arguments, usage=usage, context={"n": 1}, approved=True)
    result = await run_tool(worker_of(agent), request, Attempt(number=2))
    assert result == ToolResult(output='{"order":"A-17"}')
    (ctx,) = got
    assert (ctx.context, plain_usage(ctx.usage), ctx.run_id, ctx.turn) == (
        {"n": 1},
        usage,
        "support-42",
        2,
    )
    assert (ctx.tool_name, ctx.tool_call_id, ctx.tool_arguments) == ("look_up", "c1", arguments)
    assert (ctx.agent, ctx.attempt, ctx.idempotency_key) == (agent, 2, "support-42:c1")
    assert ctx.is_tool_approved("look_up", "c1") is True


async def test_validators_of_users_do_not_run_with_arguments_that_do_not_fit() -> None:
    seen: list[object] = []

    def noted(value: object) -> object:
        seen.append(value)
        return value

    @function_tool
    def pay(amount: Annotated[int, BeforeValidator(noted)], order: str) -> str:
        """Pay."""
        return f"{amount} for {order}"

    refused = await attempt(pay, arguments='{"amount": 5}')
    assert "order is missing" in str(refused.output)
    assert seen == []
    assert (await attempt(pay, arguments='{"amount": 5, "order": "A"}')).output == "5 for A"
    assert seen == [5]


async def test_a_tool_gets_its_name_with_its_namespace() -> None:
    @function_tool
    async def look_up(ctx: ToolContext[Any]) -> str:
        """Look an order up."""
        return f"{ctx.tool_namespace} {ctx.qualified_tool_name}"

    (grouped,) = tool_namespace(name="crm", description="Customers.", tools=[look_up])
    assert (await attempt(look_up)).output == "None look_up"
    assert (await attempt(grouped)).output == "crm crm.look_up"


@pytest.mark.parametrize(
    ("value", "output"),
    [
        ("text", "text"),
        (None, "null"),
        ({"a": [1, 2.5]}, '{"a":[1,2.5]}'),
        ("", ""),
        (ToolOutputImage(image_url="u"), [{"type": "input_image", "image_url": "u"}]),
    ],
)
async def test_what_a_tool_returns_is_written_for_the_model(value: Any, output: Any) -> None:
    @function_tool
    async def answer() -> Any:
        """Answer."""
        return value

    assert (await attempt(answer)).output == output


async def test_what_a_tool_changes_in_the_context_comes_back_as_changes() -> None:
    @function_tool
    async def note(ctx: ToolContext[Notes]) -> str:
        """Note."""
        ctx.context.seen.append("b")
        return "ok"

    result = await attempt(note, context={"seen": ["a"]})
    assert result.changes == (Change("append", ("seen",), ["b"]),)


async def test_another_attempt_after_a_lost_result_brings_the_same_changes() -> None:
    @function_tool
    async def note(ctx: ToolContext[dict[str, Any]]) -> str:
        """Note."""
        ctx.context["noted"] = "a leak"
        return "ok"

    worker, request = worker_with(note), tool_request("note", context={"customer": "Ann"})
    lost, result = [await run_tool(worker, request, Attempt(number=number)) for number in (1, 2)]
    assert result.changes == lost.changes == (Change("set", ("noted",), "a leak"),)


async def test_a_sync_tool_does_not_hold_the_others_up() -> None:
    begun = threading.Event()
    go_on = threading.Event()

    @function_tool
    def block() -> str:
        """Block."""
        begun.set()
        return str(go_on.wait(10))

    running = asyncio.create_task(attempt(block))
    await asyncio.to_thread(begun.wait, 10)
    go_on.set()  # this line is reached while the tool blocks its own thread
    assert (await running).output == "True"


# --- Failures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "options"),
    [
        (ConnectionError("down"), {"retry": 3}),
        (ConnectionError("down"), {"effect": "read"}),
        (MCPNotSent("down"), {}),
    ],
    ids=repr,
)
async def test_a_failure_is_tried_again_where_that_has_no_further_effect(
    error: Exception, options: dict[str, Any]
) -> None:
    tool = failing(error, **options)
    with pytest.raises(EffectError, match=f"fail raised {type(error).__name__}: down") as caught:
        await attempt(tool, 2, policy=ExecutionOptions(attempts=3))
    assert (caught.value.code, caught.value.retryable) == ("tool_failed", True)
    result = await attempt(tool, 3, policy=ExecutionOptions(attempts=3))
    assert result.failed
    assert (
        result.output == "The tool fail failed and returned no result. It may have had an effect."
    )
    assert "down" not in result.output


@pytest.mark.parametrize(
    "options", [{}, {"fast": True}, {"effect": "reversible"}, {"retry": ToolRetry(errors=False)}]
)
async def test_a_failure_is_not_tried_again_by_default(options: dict[str, Any]) -> None:
    assert (
        await attempt(failing(OSError("down"), **options), policy=ExecutionOptions(attempts=3))
    ).failed


async def test_a_failure_that_the_model_reads_about_is_logged_and_in_the_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with SpanCollector() as collected:
        scope = scope_of({}, "support-42", agent="A")
        with around_effect(scope, effect=3), custom_span("call"):
            await attempt(failing(ConnectionError("down")), 3)
        (span,) = collected.spans()
    assert "attempt 3 of support-42:c1 failed: fail raised ConnectionError: down" in caplog.text
    assert span.error == {
        "message": "fail raised ConnectionError: down",
        "data": {"tool_name": "fail", "error": "down", "code": "tool_failed"},
    }


async def test_an_attempt_beyond_the_last_is_the_last() -> None:
    """A worker that died used one up."""
    assert (await attempt(failing(ValueError()), 9, policy=ExecutionOptions(attempts=3))).failed


@pytest.mark.parametrize("error", [TypeError("x"), UserError("x"), NotImplementedError()])
async def test_a_programming_error_is_told_at_once(error: Exception) -> None:
    assert (await attempt(failing(error), 1)).failed


async def test_a_failure_that_the_model_may_not_know_is_raised_for_good() -> None:
    tool = failing(ValueError("secret"), failure_error_function=None)
    with pytest.raises(EffectError, match="fail raised ValueError: secret") as caught:
        await attempt(tool, policy=LAST)
    assert (caught.value.code, caught.value.retryable) == ("tool_failed", False)
    assert caught.value.details == {"exception": "builtins:ValueError", "text": "secret"}


@pytest.mark.parametrize("is_async", [True, False])
async def test_the_tool_itself_says_what_the_model_reads(*, is_async: bool) -> None:
    def explain(ctx: RunContextWrapper[Any], error: Exception) -> str:
        assert isinstance(ctx, ToolContext)
        return f"{ctx.tool_name}: {error}"

    async def explain_later(ctx: RunContextWrapper[Any], error: Exception) -> str:
        return explain(ctx, error)

    function = explain_later if is_async else explain
    result = await attempt(failing(ValueError("out of stock"), failure_error_function=function), 3)
    assert result == ToolResult(output="fail: out of stock", failed=True)


async def test_what_the_model_reads_of_a_failure_is_text_of_bounded_length() -> None:
    result = await attempt(failing(ValueError(), failure_error_function=explain_at_length), 3)
    assert len(result.output.encode()) <= LARGEST_OUTPUT_BYTES
    number: Any = explain_by_number
    assert (await attempt(failing(ValueError(), failure_error_function=number), 3)).output == "5"


def explain_at_length(_ctx: object, _error: object) -> str:
    return "é\ud800" * LARGEST_OUTPUT_BYTES


def explain_by_number(_ctx: object, _error: object) -> int:
    return 5


async def test_a_failure_function_that_fails_is_named() -> None:
    tool = failing(ValueError(), failure_error_function=raising(KeyError("k")))
    with pytest.raises(EffectError, match="failure_error_function of 'fail' raised KeyError"):
        await attempt(tool, 3)


async def test_the_changes_of_a_failed_attempt_are_dropped() -> None:
    @function_tool
    async def half_done(ctx: ToolContext[Notes]) -> str:
        """Fail after a change."""
        ctx.context.seen.append("half")
        raise ValueError

    assert (await attempt(half_done, 3, context={"seen": []})).changes == ()


async def test_a_tool_that_ends_the_process_only_ends_its_call() -> None:
    @function_tool
    def leave() -> str:
        """Leave."""
        raise SystemExit(1)

    assert (await attempt(leave, 3)).failed


# --- Time ----------------------------------------------------------------------------------------------


@function_tool
async def hang() -> str:
    """Hang."""
    await asyncio.Event().wait()
    return ""


@function_tool(failure_error_function=None)
async def hang_fatally() -> str:
    """Hang."""
    await asyncio.Event().wait()
    return ""


async def test_a_tool_that_hangs_is_stopped_and_the_model_is_told() -> None:
    result = await attempt(hang, policy=SHORT)
    assert result.failed
    assert result.output.startswith("The tool hang timed out")


async def test_a_late_attempt_is_repeated_while_there_are_attempts() -> None:
    with pytest.raises(EffectError, match=r"The tool hang timed out after 0\.03 s") as caught:
        await attempt(hang, policy=ExecutionOptions(timeout_ms=30, attempts=2))
    assert (caught.value.code, caught.value.retryable) == ("tool_timeout", True)
    with pytest.raises(EffectError) as fatal:
        await attempt(hang_fatally, policy=SHORT)
    assert (fatal.value.code, fatal.value.retryable) == ("tool_timeout", False)


async def test_a_timeout_of_the_tools_own_is_not_ours() -> None:
    seen: list[Exception] = []

    def explain(_ctx: RunContextWrapper[Any], error: Exception) -> str:
        seen.append(error)
        return "x"

    await attempt(failing(TimeoutError("socket"), failure_error_function=explain), 3)
    await attempt(function_tool(hang_named, failure_error_function=explain), policy=SHORT)
    assert [type(error) for error in seen] == [TimeoutError, ToolTimeoutError]


async def hang_named() -> None:
    """Hang."""
    await asyncio.Event().wait()


async def test_a_cancelled_attempt_is_cancelled_and_not_failed() -> None:
    running = asyncio.create_task(attempt(hang))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


# --- Bad output and bad requests ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", ["x" * 10_000_000, ["é" * 200] * 2_000, "é" * LARGEST_OUTPUT_BYTES]
)
async def test_an_output_that_is_too_long_asks_for_less(value: Any) -> None:
    @function_tool
    async def dump() -> Any:
        """Return everything."""
        return value

    result = await attempt(dump)
    assert not result.failed
    assert "too long to read: at most 500,000 bytes. Ask for less" in result.output
    assert len(result.output) < 300


async def test_an_output_of_a_fast_tool_is_too_long_sooner() -> None:
    @function_tool(fast=True)
    async def dump() -> str:
        """Return a lot."""
        return "x" * LARGEST_FAST_OUTPUT_BYTES

    result = await attempt(dump)
    assert "of 100,002 bytes is too long to read: at most 100,000 bytes" in result.output


BRIEF = ExecutionOptions(fast=True, defers=True)


async def test_a_short_tool_is_found_by_its_latest_calls() -> None:
    pause = [0.0, 0.0, 0.0, 0.15, 0.0, 0.0, 0.0]

    @function_tool(effect="read")
    async def look_up() -> str:
        """Look something up."""
        await asyncio.sleep(pause.pop(0))
        return "found"

    worker, short = worker_with(look_up), list[bool]()
    while pause:
        await run_tool(worker, tool_request("look_up"))
        short.append(worker.memory.tool_times.is_short("look_up"))
    assert short == [False, False, True, False, False, False, True]


@pytest.mark.parametrize("output", ["x" * 20_001, ["a", "list"]])
async def test_a_large_or_structured_output_is_not_that_of_a_short_call(output: Any) -> None:
    times = ToolTimes()
    for _ in range(SHORT_CALLS):
        times.record("look_up", 0.01, ToolResult(output=output))
    assert not times.is_short("look_up")


async def test_a_brief_call_that_is_slow_runs_again_as_an_activity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tool_module, "LONGEST_BRIEF", timedelta(milliseconds=20))
    cancelled: list[bool] = []

    @function_tool(effect="read")
    async def look_up() -> str:
        """Look something up."""
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return "found"

    assert await attempt(look_up, policy=BRIEF) == ToolResult(output=None, deferred=True)
    assert cancelled == [True]


async def test_a_brief_call_that_fails_runs_again_as_an_activity() -> None:
    @function_tool(effect="read")
    async def look_up() -> str:
        """Look something up."""
        raise OSError("the database is away")

    assert await attempt(look_up, policy=BRIEF) == ToolResult(output=None, deferred=True)


async def test_a_brief_call_whose_failure_is_final_fails() -> None:
    @function_tool(effect="read", failure_error_function=None)
    async def look_up() -> str:
        """Look something up."""
        raise UserError("no such table")

    with pytest.raises(EffectError) as caught:
        await attempt(look_up, policy=BRIEF)
    assert not caught.value.retryable


async def test_a_brief_call_with_much_output_runs_again_as_an_activity() -> None:
    @function_tool(effect="read")
    async def look_up() -> str:
        """Look something up."""
        return "x" * 20_001

    assert (await attempt(look_up, policy=BRIEF)).deferred
    assert len((await attempt(look_up)).output) == 20_001


async def test_an_output_just_within_the_bound_is_kept() -> None:
    @function_tool
    async def dump() -> str:
        """Return a lot."""
        return "x" * (LARGEST_OUTPUT_BYTES - 2)

    assert len((await attempt(dump)).output) == LARGEST_OUTPUT_BYTES - 2


async def test_an_output_that_is_no_json_is_told_at_once() -> None:
    @function_tool
    async def answer() -> Any:
        """Answer."""
        return object()

    assert (await attempt(answer, 1)).failed, "another try would not help"


@pytest.mark.parametrize("value", ["\ud800", "y" * 3_000_000], ids=["half", "large"])
async def test_a_context_that_was_left_unwritable_is_the_tools_failure(value: str) -> None:
    @function_tool
    async def spoil(ctx: ToolContext[Any]) -> str:
        """Spoil the context."""
        ctx.context["x"] = value
        return "ok"

    result = await attempt(spoil, context={"a": 1})
    assert result.failed
    assert result.changes == ()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"agent": "Nobody"}, "has no agent 'Nobody'"),
        ({"name": "other"}, "'A' has no tool 'other'"),
        ({"context": {"seen": 5}}, "does not fit Notes"),
    ],
)
async def test_what_this_worker_does_not_know_another_may(
    fields: dict[str, Any], problem: str
) -> None:
    @function_tool
    async def note(ctx: ToolContext[Notes]) -> str:
        """Note."""
        return "ok"

    request = tool_request("note").effect
    with pytest.raises(EffectError, match=problem) as caught:
        await run_tool(
            worker_with(note),
            tool_request(**{"name": request.name, **fields}),
            FIRST,
        )
    assert (caught.value.code, caught.value.retryable) == ("worker_lacks", True)


async def test_arguments_that_do_not_fit_are_the_calls_failure() -> None:
    @function_tool
    async def look_up(order_id: int) -> int:
        """Look an order up."""
        return order_id

    result = await run_tool(
        worker_with(look_up), tool_request("look_up", '{"order_id": "x"}'), Attempt(number=3)
    )
    assert result.failed


# --- Arguments that do not fit -------------------------------------------------------------------------


def misfit(**options: Unpack[ToolOptions]) -> FunctionTool:
    """A tool that is called with a string where it takes a number."""

    @function_tool(**options)
    async def pay(amount: int) -> str:
        """Pay."""
        raise AssertionError(amount)

    return pay


async def called_wrongly(tool: FunctionTool, agent: Agent[Any] | None = None) -> ToolResult:
    worker = worker_of(agent) if agent is not None else worker_with(tool)
    return await run_tool(worker, tool_request("pay", '{"amount": "all"}'), FIRST)


async def test_the_model_reads_what_is_wrong_with_its_arguments() -> None:
    result = await called_wrongly(misfit())
    assert (result.failed, result.failure) == (True, None)
    assert result.output.startswith("Invalid JSON input for tool pay")


async def test_the_tools_own_words_for_failures_are_for_its_arguments_too() -> None:
    def explain(_ctx: object, error: Exception) -> str:
        return f"{type(error).__name__}: call it with a number"

    result = await called_wrongly(misfit(failure_error_function=explain))
    assert result.output == "ModelBehaviorError: call it with a number"


async def test_arguments_end_the_run_where_the_model_may_not_know_of_failures() -> None:
    result = await called_wrongly(misfit(failure_error_function=None))
    assert result.failure is not None
    assert result.failure.code == "model_behavior"


async def test_arguments_end_the_run_where_the_failure_function_returns_nothing() -> None:
    def note(ctx: object, error: Exception) -> Any:
        del ctx, error

    result = await called_wrongly(misfit(failure_error_function=note))
    assert result.failure is not None
    assert result.failure.code == "model_behavior"


async def test_hooks_hear_of_arguments_that_do_not_fit() -> None:
    hooks = Listener()
    tool = misfit()
    await called_wrongly(tool, Agent(name="A", tools=[tool], hooks=hooks))
    assert [step for step, *_ in hooks.heard] == ["start", "end"]


async def test_a_check_that_raises_is_a_failure_of_the_tool() -> None:
    tool = FunctionTool(
        name="pay",
        description="",
        params_json_schema={"type": "object", "properties": {}},
        on_invoke_tool=refuse,
        strict_json_schema=False,
        validate=raising(KeyError("broken")),
    )
    result = await run_tool(worker_with(tool), tool_request("pay"), Attempt(number=3))
    assert result.output == "The tool pay failed and returned no result. It may have had an effect."


async def refuse(_ctx: ToolContext[Any], _arguments: str) -> str:
    raise AssertionError


# --- Guardrails and hooks -----------------------------------------------------------------------------


class Listener(AgentHooks[Any]):
    """Writes down what it hears, and may change the context or fail."""

    def __init__(self, *, notes: bool = False, error: Exception | None = None) -> None:
        self.heard: list[Any] = []
        self.notes = notes
        self.error = error

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        self.heard.append(("start", agent.name, tool.name, context.tool_call_id))
        if self.notes:
            context.context["start"] = True
        if self.error is not None:
            raise self.error

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        self.heard.append(("end", agent.name, tool.name, result))
        if self.notes:
            context.context["end"] = True


class RunListener(RunHooks[Any]):
    def __init__(self) -> None:
        self.heard: list[Any] = []

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        self.heard.append(("start", context.tool_arguments))

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        self.heard.append(("end", result))


def verdict(kind: str, heard: list[Any] | None = None) -> Any:
    """A guardrail that allows, rejects or raises, and notes that in the context."""

    def check(data: Any) -> ToolGuardrailFunctionOutput:
        if heard is not None:
            heard.append(kind)
        if data.context.context is not None:
            data.context.context[kind] = True
        if kind == "reject":
            return ToolGuardrailFunctionOutput.reject_content("Not this one.", kind)
        if kind == "raise":
            return ToolGuardrailFunctionOutput.raise_exception(kind)
        return ToolGuardrailFunctionOutput.allow(kind)

    return check


def guarded(
    before: list[str], after: list[str], *, value: Any = "paid", heard: list[Any] | None = None
) -> FunctionTool:
    @function_tool(
        tool_input_guardrails=[ToolInputGuardrail(verdict(one, heard)) for one in before],
        tool_output_guardrails=[ToolOutputGuardrail(verdict(one, heard)) for one in after],
        failure_error_function=lambda _ctx, error: str(error),
    )
    async def pay() -> Any:
        """Pay."""
        if heard is not None:
            heard.append("function")
        if isinstance(value, Exception):
            raise value
        return value

    return pay


async def run_guarded(tool: FunctionTool, hooks: Any = None, **fields: Any) -> ToolResult:
    worker = worker_of(Agent(name="A", tools=[tool], hooks=hooks))
    return await run_tool(worker, tool_request("pay", policy=LAST, **fields), FIRST)


async def test_guardrails_and_hooks_surround_the_function_in_order() -> None:
    hooks, order = Listener(), list[Any]()
    hooks.heard = order
    result = await run_guarded(guarded(["allow"], ["allow"], heard=order), hooks)
    assert order == [
        "allow",
        ("start", "A", "pay", "c1"),
        "function",
        "allow",
        ("end", "A", "pay", "paid"),
    ]
    assert [check.stage for check in result.checks] == ["tool_input", "tool_output"]


async def test_a_rejected_call_is_not_run_and_no_hook_hears_of_it() -> None:
    hooks, heard = Listener(), list[Any]()
    result = await run_guarded(guarded(["allow", "reject", "raise"], [], heard=heard), hooks)
    assert (result.output, result.failed, result.failure) == ("Not this one.", False, None)
    assert heard == ["allow", "reject"]
    assert hooks.heard == []
    assert [check.info for check in result.checks] == ["allow", "reject"]


async def test_a_rejected_output_is_replaced_for_the_model_and_the_end_hook() -> None:
    hooks = Listener()
    result = await run_guarded(guarded([], ["reject"]), hooks)
    assert result.output == "Not this one."
    assert hooks.heard[-1] == ("end", "A", "pay", "Not this one.")


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        (["raise"], [], "tool_input_guardrail_tripwire"),
        ([], ["raise"], "tool_output_guardrail_tripwire"),
    ],
)
async def test_a_guardrail_may_end_the_run(before: list[str], after: list[str], code: str) -> None:
    hooks = Listener()
    result = await run_guarded(guarded(before, after), hooks)
    assert result.failure is not None
    assert result.failure.code == code
    assert [check.tripped for check in result.checks] == [True]
    assert "end" not in [step for step, *_ in hooks.heard]


async def test_the_checks_of_a_call_that_ends_the_run_are_recorded() -> None:
    @function_tool(
        tool_input_guardrails=[ToolInputGuardrail(verdict("allow"))],
        timeout=0.03,
        timeout_behavior="raise_exception",
    )
    async def pay() -> None:
        """Hang."""
        await asyncio.Event().wait()

    result = await run_tool(worker_with(pay), tool_request("pay", policy=SHORT), FIRST)
    assert result.failure is not None
    assert (result.failure.code, len(result.checks)) == ("tool_timeout", 1)


async def test_a_guardrail_or_hook_that_raises_ends_the_run() -> None:
    @function_tool(tool_input_guardrails=[ToolInputGuardrail(raising(ConnectionError("down")))])
    async def pay() -> str:
        """Pay."""
        raise AssertionError

    broken = await run_guarded(pay)
    assert broken.failure is not None
    assert (broken.failure.code, broken.failure.message) == (
        "user_error",
        "A guardrail or hook of the tool 'pay' raised ConnectionError: down",
    )
    hooked = await run_guarded(guarded([], []), Listener(error=UserError("no")))
    assert hooked.failure == Failure(code="user_error", message="no")


async def test_a_guardrail_of_the_output_that_raises_ends_the_run() -> None:
    @function_tool(
        tool_input_guardrails=[ToolInputGuardrail(verdict("allow"))],
        tool_output_guardrails=[ToolOutputGuardrail(raising(ConnectionError("down")))],
    )
    async def pay() -> str:
        """Pay."""
        return "paid"

    result = await run_guarded(pay)
    assert result.failure is not None
    assert result.failure.code == "user_error"
    assert [check.stage for check in result.checks] == ["tool_input"]


async def test_the_hooks_of_the_run_and_of_the_agent_hear_the_same() -> None:
    hooks, of_run = Listener(), RunListener()
    await run_guarded(guarded([], []), hooks, settings={"hooks": name_of(of_run)})
    assert of_run.heard == [("start", "{}"), ("end", "paid")]
    assert len(hooks.heard) == 2


@pytest.mark.parametrize(
    ("before", "after", "value", "kept"),
    [
        (["allow"], ["allow"], "paid", {"allow", "start", "end"}),
        (["reject"], [], "paid", {"reject"}),
        ([], ["reject"], "paid", {"reject", "start", "end"}),
        (["allow"], ["reject"], ValueError("x"), {"allow", "reject", "start", "end"}),
    ],
)
async def test_what_guardrails_and_hooks_change_in_the_context_is_kept(
    before: list[str], after: list[str], value: Any, kept: set[str]
) -> None:
    tool = guarded(before, after, value=value)
    result = await run_guarded(tool, Listener(notes=True), context={})
    assert {change.path[0] for change in result.changes} == kept


async def test_what_a_failed_function_changed_is_dropped_and_what_hooks_changed_is_not() -> None:
    @function_tool
    async def pay(ctx: ToolContext[Any]) -> str:
        """Change something, and fail."""
        ctx.context["start"] = "spoiled"
        ctx.context["half"] = "\ud800"
        raise ValueError

    result = await run_guarded(pay, Listener(notes=True), context={"n": 1})
    assert result.failed
    assert result.changes == (Change("set", ("start",), True), Change("set", ("end",), True))


async def test_an_unwritable_context_is_the_calls_failure_and_hooks_hear_that() -> None:
    @function_tool
    async def pay(ctx: ToolContext[Any]) -> str:
        """Spoil the context."""
        ctx.context["half"] = "\ud800"
        return "paid"

    hooks = Listener()
    result = await run_guarded(pay, hooks, context={})
    assert result.failed
    assert hooks.heard[-1][-1] == result.output != "paid"


# --- Results as answers -------------------------------------------------------------------------------


@dataclass
class Receipt:
    amount: int


@pytest.mark.parametrize(
    ("agent", "value", "answer"),
    [
        ({}, {"a": 1}, "{'a': 1}"),
        ({}, None, "None"),
        ({"output_type": Receipt}, Receipt(5), {"amount": 5}),
        ({"output_type": Receipt}, "not validated", "not validated"),
        ({"tool_use_behavior": print}, {"a": 1}, {"a": 1}),
        ({"tool_use_behavior": print}, Receipt(5), '{"amount":5}'),
    ],
)
async def test_a_result_that_may_be_the_answer_is_kept_as_one(
    agent: dict[str, Any], value: Any, answer: Any
) -> None:
    """Text for an agent that answers with text; a rule judges what the tool returned."""
    tool = guarded([], [], value=value)
    worker = worker_of(Agent(name="A", tools=[tool], **agent))
    result = await run_tool(worker, tool_request("pay", final=True), FIRST)
    assert result.value == answer
    ordinary = await run_tool(worker, tool_request("pay"), FIRST)
    assert ordinary.value is None


@pytest.mark.parametrize(
    ("before", "after", "value"),
    [(["reject"], [], "paid"), ([], ["reject"], "paid"), ([], [], ValueError("Not this one."))],
)
async def test_what_stands_in_for_a_result_may_be_the_answer_too(
    before: list[str], after: list[str], value: Any
) -> None:
    result = await run_guarded(guarded(before, after, value=value), final=True)
    assert (result.output, result.value) == ("Not this one.", None)  # then it is the output


# --- The run's own words -------------------------------------------------------------------------------


def refused(error: Exception, **options: Unpack[ToolOptions]) -> FunctionTool:
    @function_tool(**options)
    async def pay(amount: int = 1) -> None:
        """Fail."""
        raise error

    return pay


async def told(tool: FunctionTool, formatter: Any, *, arguments: str = "{}") -> Json:
    """Return what the model reads of a call that fails."""
    settings = settings_of(RunConfig(tool_error_formatter=formatter))
    return (await run_guarded(tool, settings=settings, arguments=arguments)).output


async def test_the_runs_formatter_has_words_for_tools_that_have_none() -> None:
    asked: list[Any] = []

    def explain(args: Any) -> str | None:
        asked.append((args.kind, args.tool_name, args.call_id, args.default_message, args.error))
        return "Try later."

    error = ValueError("x")
    assert await told(refused(error), explain) == "Try later."
    words = "The tool pay failed and returned no result. It may have had an effect."
    assert asked == [("tool_exception", "pay", "c1", words, error)]
    assert await told(refused(error), explain, arguments='{"amount": "a"}') == "Try later."
    assert isinstance(asked[1][-1], ModelBehaviorError)


async def test_a_tools_own_words_go_before_those_of_the_run() -> None:
    def explain(args: Any) -> str:
        return f"the run's: {args.kind}"

    def own(_context: Any, error: Exception) -> str:
        return f"its own: {type(error).__name__}"

    tool = refused(ValueError("x"), failure_error_function=own)
    assert await told(tool, explain) == "its own: ValueError"
    assert await told(tool, explain, arguments="[]") == "its own: ModelBehaviorError"
    late = refused(ToolTimeoutError("late"))
    assert "timed out" in str(await told(late, explain))


@pytest.mark.parametrize("said", [None, 5, ValueError("broken")])
async def test_a_formatter_that_says_nothing_leaves_the_default(said: Any) -> None:
    def explain(_args: Any) -> Any:
        if isinstance(said, Exception):
            raise said
        return said

    assert "failed and returned no result" in str(await told(refused(ValueError("x")), explain))


# --- Time-outs, as the tool wants them ------------------------------------------------------------------


def late(**options: Unpack[ToolOptions]) -> FunctionTool:
    @function_tool(**options)
    async def pay() -> None:
        """Hang."""
        await asyncio.Event().wait()

    return pay


async def test_a_time_out_may_end_the_run() -> None:
    result = await attempt(late(timeout_behavior="raise_exception"), policy=SHORT)
    assert result.failure is not None
    assert result.failure.code == "tool_timeout"
    assert "The tool pay timed out after 0.03 seconds." in result.failure.message
    assert result.failure.details == {"tool_name": "pay", "timeout_seconds": 0.03}


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_tool_may_have_words_of_its_own_for_a_time_out(*, is_async: bool) -> None:
    def explain(ctx: Any, error: Any) -> str:
        return f"{ctx.tool_name} {error.tool_name} {error.timeout_seconds}"

    async def explain_later(ctx: Any, error: Any) -> str:
        return explain(ctx, error)

    tool = late(timeout_error_function=explain_later if is_async else explain)
    result = await attempt(tool, policy=SHORT)
    assert (result.output, result.failed) == ("pay pay 0.03", True)
    with pytest.raises(EffectError, match="timed out"):
        await attempt(tool, policy=ExecutionOptions(timeout_ms=30, attempts=2))


async def test_words_for_a_time_out_that_fail_are_named() -> None:
    tool = late(timeout_error_function=raising(KeyError("k")))
    with pytest.raises(EffectError, match="timeout_error_function of 'pay' raised KeyError"):
        await attempt(tool, policy=SHORT)


@pytest.mark.parametrize("raised", [asyncio.CancelledError, SystemExit])
async def test_a_tool_written_by_hand_that_would_end_more_has_failed(
    raised: type[BaseException],
) -> None:
    async def leave(_ctx: ToolContext[Any], _arguments: str) -> str:
        raise raised

    tool = FunctionTool(
        name="pay",
        description="",
        params_json_schema={},
        on_invoke_tool=leave,
        retry=ToolRetry(),
    )
    with pytest.raises(EffectError, match=f"raised {raised.__name__}"):
        await attempt(tool, 1)
    assert (await attempt(tool, 3)).failed


async def test_a_tool_that_cancels_itself_has_failed() -> None:
    @function_tool(retry=3)
    async def pay() -> str:
        """Cancel."""
        raise asyncio.CancelledError

    with pytest.raises(EffectError, match="raised CancelledError"):
        await attempt(pay, 1)
    assert (await attempt(pay, 3)).failed


async def test_a_hook_hears_the_text_of_a_failed_call_as_it_is() -> None:
    @function_tool(failure_error_function=lambda _ctx, _error: "[1]")
    async def count() -> list[int]:
        """Count."""
        raise ValueError

    hooks = Listener()
    agent = Agent(name="A", tools=[count], hooks=hooks)
    await run_tool(worker_of(agent), tool_request("count"), Attempt(number=3))
    assert hooks.heard[-1][-1] == "[1]"


def test_the_bounds_of_outputs_are_the_documented_ones() -> None:
    assert LARGEST_OUTPUT_BYTES == 500_000
    assert LARGEST_FAST_OUTPUT_BYTES == 100_000
    assert LARGEST_FAST_RESULT_BYTES == 300_000


def test_the_bound_of_an_output_is_below_what_a_payload_may_have() -> None:
    assert len(json.dumps("x" * LARGEST_OUTPUT_BYTES)) < 2 * 1024 * 1024
    assert timedelta(milliseconds=SHORT.timeout_ms) < timedelta(seconds=1)


async def test_a_tool_of_an_mcp_server_is_called_where_it_was_not_listed() -> None:
    shelf = Shelf()
    worker = worker_of(Agent[Any](name="A", mcp_servers=[shelf]))
    result = await run_tool(worker, tool_request("find", '{"title": "Dune"}'), FIRST)
    assert result.output == [{"type": "input_text", "text": "find {'title': 'Dune'}"}]
    assert shelf.steps == ["list"]
    await run_tool(worker, tool_request("find"), FIRST)
    assert shelf.steps == ["list"]


async def test_a_tool_that_an_mcp_server_has_lost_is_told_in_the_end() -> None:
    worker = worker_of(Agent[Any](name="A", mcp_servers=[Shelf()]))
    request = tool_request("tear", policy=ExecutionOptions(attempts=2), final=True)
    with pytest.raises(EffectError, match="tear no longer exists") as caught:
        await run_tool(worker, request, FIRST)
    assert caught.value.retryable
    result = await run_tool(worker, request, Attempt(number=2))
    assert result.failed
    assert result.value is None
    assert "The tool tear no longer exists." in str(result.output)


async def test_what_an_mcp_server_refuses_is_not_tried_again() -> None:
    def refuse(_name: str, _arguments: Any) -> Any:
        raise MCPRefusal("I will not")

    shelf = Shelf(answer=refuse)
    worker = worker_of(Agent[Any](name="A", mcp_servers=[shelf]))
    request = tool_request("find", policy=ExecutionOptions(attempts=3))
    assert (await run_tool(worker, request, FIRST)).failed
    assert len(shelf.calls) == 1


# --- Calls of other forms ------------------------------------------------------------------------------


async def test_a_call_knows_the_item_that_it_is() -> None:
    got: list[Any] = []

    def query(context: Any, text: str) -> str:
        call = context.tool_call
        got.append((call.type, call.call_id, call.name, call.input, context.tool_arguments))
        return text

    tool = CustomTool("sql", "", query)
    result = await attempt(tool, arguments="SELECT", form="custom_tool_call")
    assert result == ToolResult(output="SELECT")
    assert got == [("custom_tool_call", "c1", "sql", "SELECT", "SELECT")]


async def test_an_output_that_says_several_things_is_taken_as_it_is() -> None:
    result = await attempt(SHELL, name="shell", arguments=LS, form="shell_call")
    outcome = {"type": "exit", "exit_code": 0}
    assert result.output == {"output": [{"stdout": "ran", "stderr": "", "outcome": outcome}]}
    assert result.value is None


@pytest.mark.parametrize(("number", "attempts"), [(1, 2), (2, 2)])
async def test_a_call_in_another_form_than_the_tools_is_not_carried_out(
    number: int, attempts: int
) -> None:
    policy = ExecutionOptions(attempts=attempts)
    fields: dict[str, Any] = {"name": "shell", "arguments": LS, "policy": policy}
    if number < attempts:
        with pytest.raises(EffectError, match="no longer exists"):
            await attempt(SHELL, number, **fields)
        return
    result = await attempt(SHELL, number, **fields)
    assert result.failed
    assert "not carried out" in str(result.output)


@pytest.mark.parametrize("arguments", ["{}", '{"action":{"commands":[]}}'])
async def test_a_call_that_makes_no_sense_is_told_and_not_carried_out(arguments: str) -> None:
    tool = ShellTool(raising(AssertionError()))
    result = await attempt(tool, name="shell", arguments=arguments, form="shell_call")
    assert result.failed
    assert isinstance(result.output, str)


async def test_hooks_hear_what_a_command_wrote() -> None:
    class Hooks(AgentHooks[Any]):
        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            heard.append((tool.name, result))

    heard: list[Any] = []
    agent = Agent[Any](name="A", tools=[SHELL], hooks=Hooks())
    request = tool_request("shell", LS, form="shell_call")
    await run_tool(worker_of(agent), request, FIRST)
    assert heard == [("bash", "ran")]


# --- What is noted of a call is not believed -------------------------------------------------------

FORGED: list[JsonObject] = [
    {"mcp": {"tool": "pay", "task": "t1"}},
    {"mcp": {"tool": "pay", "task": "t1", "checks": []}},
    {"mcp": {"tool": "pay", "checks": []}},
]


def clean_up_of(request: EffectRequest[RunTool]) -> EffectRequest[CleanUp]:
    """The clean-up of a call, as somebody with access to Temporal may ask for it."""
    fields: dict[str, Any] = {
        one.name: getattr(request.effect, one.name) for one in fields_of(RunTool)
    }
    del fields["kind"]
    return EffectRequest(effect=CleanUp(**fields))


@pytest.mark.parametrize("effect", ["run", "clean up"])
@pytest.mark.parametrize("done", FORGED)
async def test_notes_of_a_task_spare_no_other_tool_its_approval(
    done: JsonObject, effect: str
) -> None:
    paid: list[str] = []

    @function_tool(needs_approval=True)
    def pay() -> str:
        """Pay."""
        paid.append("paid")
        return "paid"

    request = tool_request("pay", done=done)
    if effect == "run":
        result = await run_tool(worker_with(pay), request)
        assert result.required is not None
    else:
        await clean_up(worker_with(pay), clean_up_of(request))
    assert paid == []


@pytest.mark.parametrize("effect", ["run", "clean up"])
@pytest.mark.parametrize("done", FORGED)
async def test_notes_of_a_task_spare_no_other_tool_its_guardrails(
    done: JsonObject, effect: str
) -> None:
    paid: list[str] = []

    def refuse(_data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content("Not today.")

    @function_tool(tool_input_guardrails=[ToolInputGuardrail[Any](refuse)])
    def pay() -> str:
        """Pay."""
        paid.append("paid")
        return "paid"

    request = tool_request("pay", done=done)
    if effect == "run":
        assert (await run_tool(worker_with(pay), request)).output == "Not today."
    else:
        await clean_up(worker_with(pay), clean_up_of(request))
    assert paid == []


@pytest.mark.parametrize("effect", ["run", "clean up"])
async def test_a_tool_that_only_the_operators_file_guards_does_not_run_unasked(effect: str) -> None:
    """A plan of an earlier worker, or of somebody with access to Temporal, may ask nobody."""
    paid: list[str] = []

    @function_tool
    def pay() -> str:
        """Pay."""
        paid.append("paid")
        return "paid"

    file = ApprovalFile("approvals.toml", "[tool.pay]\nquorum = 2")
    worker = replace(worker_with(pay), approvals=file)
    if effect == "run":
        result = await run_tool(worker, tool_request("pay"))
        assert result.required is not None
        assert result.required.terms.quorum == 2
    else:
        await clean_up(worker, clean_up_of(tool_request("pay")))
    assert paid == []


async def test_a_tool_may_call_its_own_notes_what_it_likes() -> None:
    @function_tool
    async def start(ctx: ToolContext[Any]) -> str:
        """Start."""
        return str(await ctx.once("mcp", lambda: "other"))

    result = await attempt(start, done={"mcp": "job-1"})
    assert result.output == "job-1"
