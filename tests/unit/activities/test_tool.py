"""One attempt of a tool call or of a handoff's callback."""

import asyncio
import json
import threading
from datetime import timedelta
from typing import Any

import pytest

from outlast.activities.errors import EffectError
from outlast.activities.tool import LARGEST_OUTPUT_BYTES, run_handoff, run_tool
from outlast.agents.agent import Agent
from outlast.agents.context import RunContextWrapper, ToolContext
from outlast.agents.errors import ToolTimeoutError, UserError
from outlast.agents.handoff import handoff
from outlast.agents.tool import FunctionTool, function_tool
from outlast.agents.tool_output import ToolOutputImage
from outlast.loop.calls import HandoffResult, Policy, ToolResult
from outlast.loop.changes import Change
from outlast.loop.commands import RunTool
from outlast.loop.values import Usage
from tests.unit.activities.desk import (
    Notes,
    handoff_request,
    raising,
    tool_request,
    worker_of,
    worker_with,
)

LAST = Policy(attempts=1)
SHORT = Policy(timeout_ms=30, attempts=1)


def failing(error: Exception, **options: Any) -> FunctionTool:
    """A tool that fails."""

    @function_tool(**options)
    async def fail() -> str:
        """Fail."""
        raise error

    return fail


async def attempt(tool: FunctionTool, number: int = 1, **fields: Any) -> ToolResult:
    """One attempt of a call without arguments."""
    return await run_tool(worker_with(tool), tool_request(tool.name, **fields), attempt=number)


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
    request = tool_request("look_up", arguments, usage=usage, context={"n": 1})
    result = await run_tool(worker_of(agent), request, attempt=2)
    assert result == ToolResult(output='{"order":"A-17"}')
    (ctx,) = got
    assert (ctx.context, ctx.usage, ctx.run_id, ctx.turn) == ({"n": 1}, usage, "support-42", 2)
    assert (ctx.tool_name, ctx.tool_call_id, ctx.tool_arguments) == ("look_up", "c1", arguments)
    assert (ctx.agent, ctx.attempt, ctx.idempotency_key) == (agent, 2, "support-42:c1")


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


async def test_a_failure_is_tried_again_while_there_are_attempts() -> None:
    tool = failing(ConnectionError("down"))
    with pytest.raises(EffectError, match="fail raised ConnectionError: down") as caught:
        await attempt(tool, 2, policy=Policy(attempts=3))
    assert (caught.value.code, caught.value.retryable) == ("tool_failed", True)
    result = await attempt(tool, 3, policy=Policy(attempts=3))
    assert result.failed
    assert result.output == "The tool fail failed and gave no result. It may have had an effect."
    assert "down" not in result.output


async def test_an_attempt_beyond_the_last_is_the_last() -> None:
    """A worker that died used one up."""
    assert (await attempt(failing(ValueError()), 9, policy=Policy(attempts=3))).failed


@pytest.mark.parametrize("error", [TypeError("x"), UserError("x"), NotImplementedError()])
async def test_a_programming_error_is_told_at_once(error: Exception) -> None:
    assert (await attempt(failing(error), 1)).failed


async def test_a_failure_that_the_model_may_not_know_is_raised_for_good() -> None:
    tool = failing(ValueError("secret"), failure_error_function=None)
    with pytest.raises(EffectError, match="fail raised ValueError: secret") as caught:
        await attempt(tool, policy=LAST)
    assert (caught.value.code, caught.value.retryable) == ("tool_failed", False)


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
    assert result.output.startswith("The tool hang did not finish in time")


async def test_a_late_attempt_is_repeated_while_there_are_attempts() -> None:
    with pytest.raises(EffectError, match=r"The tool hang took longer than 0\.03 s") as caught:
        await attempt(hang, policy=Policy(timeout_ms=30, attempts=2))
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


async def test_a_context_that_was_left_unwritable_is_the_tools_failure() -> None:
    @function_tool
    async def spoil(ctx: ToolContext[Any]) -> str:
        """Spoil the context."""
        ctx.context["x"] = object()
        return "ok"

    result = await attempt(spoil, context={"a": 1})
    assert result.failed
    assert result.changes == ()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"agent": "Nobody"}, "knows no agent 'Nobody'"),
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

    request: RunTool = tool_request("note")
    with pytest.raises(EffectError, match=problem) as caught:
        await run_tool(
            worker_with(note), tool_request(**{"name": request.name, **fields}), attempt=1
        )
    assert (caught.value.code, caught.value.retryable) == ("user_error", True)


async def test_arguments_that_do_not_fit_are_the_calls_failure() -> None:
    @function_tool
    async def look_up(order_id: int) -> int:
        """Look an order up."""
        return order_id

    result = await run_tool(
        worker_with(look_up), tool_request("look_up", '{"order_id": "x"}'), attempt=3
    )
    assert result.failed


# --- Handoffs ------------------------------------------------------------------------------------------


def handing_over(callback: Any) -> Any:
    """What a worker knows of an agent with one handoff."""
    entry = handoff(Agent[Any](name="B"), on_handoff=callback)
    return worker_of(Agent(name="A", handoffs=[entry]))


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_callback_gets_the_context_and_may_change_it(*, is_async: bool) -> None:
    got: list[RunContextWrapper[Notes]] = []

    def taken_over(ctx: RunContextWrapper[Notes]) -> None:
        got.append(ctx)
        ctx.context.seen.append("b")

    async def taken_over_later(ctx: RunContextWrapper[Notes]) -> None:
        taken_over(ctx)

    worker = handing_over(taken_over_later if is_async else taken_over)
    request = handoff_request(
        "transfer_to_b", context={"seen": ["a"]}, usage=Usage(requests=1), turn=2
    )
    result = await run_handoff(worker, request)
    assert result == HandoffResult(changes=(Change("append", ("seen",), ["b"]),))
    assert [(ctx.run_id, ctx.turn, ctx.usage.requests) for ctx in got] == [("support-42", 2, 1)]


async def test_a_handoff_whose_callback_has_gone_has_nothing_to_do() -> None:
    result = await run_handoff(handing_over(None), handoff_request("transfer_to_b"))
    assert result == HandoffResult()


@pytest.mark.parametrize(
    ("raised", "retryable"), [(ConnectionError("down"), True), (TypeError("x"), False)]
)
async def test_a_callback_that_fails_is_named(raised: Exception, *, retryable: bool) -> None:
    worker = handing_over(raising(raised))
    with pytest.raises(
        EffectError,
        match=f"on_handoff of 'transfer_to_b' of agent 'A' raised {type(raised).__name__}",
    ) as caught:
        await run_handoff(worker, handoff_request("transfer_to_b"))
    assert (caught.value.code, caught.value.retryable) == ("user_error", retryable)


async def test_a_callback_that_hangs_is_stopped_in_words() -> None:
    async def hang_on(_ctx: RunContextWrapper[Any]) -> None:
        await asyncio.Event().wait()

    with pytest.raises(EffectError, match=r"on_handoff of .* took longer than 0\.03 s") as caught:
        await run_handoff(handing_over(hang_on), handoff_request("transfer_to_b", policy=SHORT))
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("fields", "problem"),
    [({"agent": "Nobody"}, "knows no agent"), ({"name": "transfer_to_c"}, "has no handoff")],
)
async def test_a_handoff_that_this_worker_does_not_know_another_may(
    fields: dict[str, Any], problem: str
) -> None:
    with pytest.raises(EffectError, match=problem) as caught:
        await run_handoff(
            handing_over(print), handoff_request(**{"name": "transfer_to_b", **fields})
        )
    assert caught.value.retryable


def test_the_bound_of_an_output_is_below_what_a_payload_may_have() -> None:
    assert len(json.dumps("x" * LARGEST_OUTPUT_BYTES)) < 2 * 1024 * 1024
    assert timedelta(milliseconds=SHORT.timeout_ms) < timedelta(seconds=1)
