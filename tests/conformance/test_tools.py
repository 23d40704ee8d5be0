"""Tools: rows 2 to 8 and 41 of the table."""

import asyncio
from datetime import timedelta
from typing import Any, Literal, cast

import agents as sdk
import pytest

import outlast
from outlast import (
    Agent,
    FunctionToolCustomDataContext,
    ModelBehaviorError,
    RunConfig,
    RunContextWrapper,
    Tool,
    ToolCallOutputItem,
    ToolContext,
    ToolFailed,
    ToolRetry,
    UserError,
    function_tool,
)
from outlast.agents.tools.function_tool import ToolOptions
from outlast.loop.values import JsonObject
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call
from tests.conformance.executors import Executor, also_on_server, row, soon
from tests.conformance.views import (
    MESSAGE,
    TOOL_CALL,
    TOOL_OUTPUT,
    kinds,
    offered,
    outputs,
    shapes,
    tool_outputs,
)

HARD_FAILURES = (UserError, ToolFailed)
"""What ends a run when a tool with `failure_error_function=None` raises."""

SOON_AGAIN = ToolRetry(initial_interval=timedelta(milliseconds=1))


@function_tool
async def weather(city: str) -> str:
    """Say how the weather is."""
    return f"sunny in {city}"


@row(2)
async def test_the_model_reads_what_its_tool_returned(executor: Executor) -> None:
    model = ScriptedModel([call("weather", "c1", city="Oslo")], "It is sunny.")
    result = await executor.execute(Agent(name="A", tools=[weather]), model=model)
    assert result.final_output == "It is sunny."
    assert kinds(result) == [TOOL_CALL, TOOL_OUTPUT, MESSAGE]
    assert tool_outputs(result) == ["sunny in Oslo"]
    assert [item.agent.name for item in result.new_items] == ["A", "A", "A"]
    assert model.calls == 2
    assert offered(model.requests[0]) == ["weather"]
    assert shapes(model.requests[1].input) == ["Hello", "function_call", "function_call_output"]
    assert outputs(model.requests[1]) == {"c1": "sunny in Oslo"}


@row(2)
async def test_a_tools_custom_data_is_for_the_program_alone(executor: Executor) -> None:
    def extract(about: FunctionToolCustomDataContext) -> JsonObject:
        about.raw_item["renderer"] = "chart"
        return {"call": about.tool_context.tool_call_id, "output": about.output, "own": 2}

    @function_tool(custom_data_extractor=extract)
    async def measure(ctx: ToolContext) -> dict[str, int]:
        ctx.custom_data = {"own": 1, "more": {"$outlast.json": 5}}
        return {"points": 3}

    model = ScriptedModel([call("measure", "c1")], [call("weather", "c2", city="Oslo")], "Done.")
    result = await executor.execute(Agent(name="A", tools=[measure, weather]), model=model)
    one, other = (item for item in result.new_items if isinstance(item, ToolCallOutputItem))
    assert one.custom_data == {
        "own": 2,
        "more": {"$outlast.json": 5},
        "call": "c1",
        "output": {"points": 3},
    }
    assert other.custom_data is None
    assert one.to_input_item().keys() == other.to_input_item().keys()
    for request in model.requests:
        assert "custom_data" not in str(request.input)
        assert "renderer" not in str(request.input)


class Curated(Agent[Any]):
    """Picks its tools by what the run knows, as some programs do."""

    async def get_all_tools(self, run_context: RunContextWrapper[Any]) -> list[Tool]:
        tools = await super().get_all_tools(run_context)
        clerk: Agent[Any] = Agent("Clerk", model=ScriptedModel("By the clerk."))
        own = (
            [] if run_context.context == "guest" else [forecast, clerk.as_tool("ask_clerk", "Ask.")]
        )
        return [*tools, *own]


@function_tool
async def forecast(city: str) -> str:
    """Say how the weather will be."""
    return f"rain in {city}"


@row(2)
@also_on_server
async def test_a_subclass_says_itself_which_tools_there_are(executor: Executor) -> None:
    calls = [call("forecast", "c1", city="Oslo"), call("ask_clerk", "c2", input="Where?")]
    model = ScriptedModel(calls, "Rain.")
    agent = Curated("A", tools=[weather], model=model)
    result = await executor.execute(agent, model=model, context="member")
    assert offered(model.requests[0]) == ["weather", "forecast", "ask_clerk"]
    assert outputs(model.requests[1]) == {"c1": "rain in Oslo", "c2": "By the clerk."}
    assert result.final_output == "Rain."
    guests = ScriptedModel("Nothing.")
    await executor.execute(Curated("B", tools=[weather]), model=guests, context="guest")
    assert offered(guests.requests[0]) == ["weather"]


@sdk.function_tool
async def measure(ctx: sdk.RunContextWrapper[Any], city: str) -> str:
    """Measure the rain."""
    assert isinstance(ctx, sdk.RunContextWrapper)
    return f"{ctx.context['unit']} in {city}"


@sdk.input_guardrail
async def polite(_ctx: Any, _agent: Any, asked: Any) -> sdk.GuardrailFunctionOutput:
    return sdk.GuardrailFunctionOutput(output_info=asked, tripwire_triggered=False)


@row(2)
@also_on_server
async def test_objects_of_the_installed_sdk_run_where_ours_do(executor: Executor) -> None:
    billing = Agent[Any](name="Billing")
    given: dict[str, Any] = {
        "tools": [measure],
        "handoffs": [sdk.handoff(cast("Any", billing))],
        "input_guardrails": [polite],
        "model_settings": sdk.ModelSettings(temperature=0.5),
    }
    model = ScriptedModel(
        [call("measure", "c1", city="Oslo")], [call("transfer_to_billing", "h1")], "Paid."
    )
    session = sdk.SQLiteSession("case-1", session_settings=sdk.SessionSettings(limit=5))
    result = await executor.execute(
        Agent[Any](name="A", **given), model=model, context={"unit": "mm"}, session=session
    )
    assert (result.final_output, result.last_agent) == ("Paid.", billing)
    assert outputs(model.requests[1]) == {"c1": "mm in Oslo"}
    assert model.requests[0].settings.temperature == 0.5
    assert [one.guardrail.get_name() for one in result.input_guardrail_results] == ["polite"]
    assert len(await session.get_items(limit=20)) == 6


@row(2)
async def test_a_get_all_tools_that_returns_something_else_is_named(executor: Executor) -> None:
    class Wrong(Agent[Any]):
        async def get_all_tools(self, run_context: RunContextWrapper[Any]) -> list[Any]:
            return [run_context]

    with pytest.raises(UserError, match=r"get_all_tools of agent 'A' holds .*@function_tool"):
        await executor.execute(Wrong("A"), model=ScriptedModel("Never."))


NO_CUSTOM_DATA: dict[str, tuple[Any, str]] = {
    "an object": ({"bad": object()}, "must return JSON-compatible data"),
    "no number": ({"bad": float("nan")}, "must return JSON-compatible data"),
    "a list": ([1], "must return a mapping or None"),
    "a number as key": ({1: 2}, "a mapping with string keys"),
    "too much": ({"text": "x" * 100_001}, "of at most 100,000"),
}


@row(2)
@pytest.mark.parametrize(("made", "problem"), NO_CUSTOM_DATA.values(), ids=NO_CUSTOM_DATA)
async def test_custom_data_that_is_not_json_ends_the_run(
    executor: Executor, made: Any, problem: str
) -> None:
    tool = function_tool(weather.__wrapped__, custom_data_extractor=lambda _: made)
    model = ScriptedModel([call("weather", "c1", city="Oslo")], "Never.")
    with pytest.raises(UserError, match=problem):
        await executor.execute(Agent(name="A", tools=[tool]), model=model)


class _Outage(Exception):
    """What a mail server raises after it has sent the mail."""


RAISED = {"an error": _Outage("lost the line"), "a cancelled task": asyncio.CancelledError()}


@also_on_server
@row(2)
@pytest.mark.parametrize("raised", RAISED.values(), ids=RAISED)
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_a_tool_that_raised_has_failed_and_does_not_run_again(
    executor: Executor, raised: BaseException, is_async: bool
) -> None:
    sent: list[str] = []

    def post(to: str) -> str:
        sent.append(to)
        raise raised

    async def post_async(to: str) -> str:
        return post(to)

    mail = function_tool(post_async if is_async else post, name_override="mail")
    model = ScriptedModel([call("mail", "c1", to="Ann")], "It may have failed.")
    result = await executor.execute(Agent(name="A", tools=[mail]), model=model)
    assert (sent, result.final_output) == (["Ann"], "It may have failed.")
    assert outputs(model.requests[1])["c1"] == (
        "The tool mail failed and returned no result. It may have had an effect."
    )


@row(6)
async def test_a_failure_function_that_raises_does_not_repeat_its_tool(executor: Executor) -> None:
    sent: list[str] = []

    def explain(_ctx: object, _error: Exception) -> str:
        raise _Outage("no words")

    @function_tool(failure_error_function=explain)
    def mail(to: str) -> str:
        sent.append(to)
        raise _Outage("lost the line")

    model = ScriptedModel([call("mail", "c1", to="Ann")], "It may have failed.")
    await executor.execute(Agent(name="A", tools=[mail]), model=model)
    assert sent == ["Ann"]
    assert outputs(model.requests[1])["c1"].startswith("The tool mail failed")


@also_on_server
@row(2)
@pytest.mark.parametrize("options", [{"retry": SOON_AGAIN}, {"effect": "read"}], ids=str)
async def test_a_tool_that_declares_that_it_may_run_again_runs_again(
    executor: Executor, options: ToolOptions
) -> None:
    attempts: list[int] = []

    @function_tool(**options)
    async def look(ctx: ToolContext[Any]) -> str:
        attempts.append(ctx.attempt)
        if len(attempts) < 3:
            raise _Outage("not yet")
        return "found"

    model = ScriptedModel([call("look", "c1")], "Found.")
    await executor.execute(Agent(name="A", tools=[look]), model=model)
    assert attempts == [1, 2, 3]
    assert outputs(model.requests[1]) == {"c1": "found"}


@also_on_server
@row(2)
async def test_a_tool_that_takes_too_long_runs_again_with_the_same_key(executor: Executor) -> None:
    keys: list[str] = []

    @function_tool(timeout=0.2)
    async def slow(ctx: ToolContext[Any]) -> str:
        keys.append(ctx.idempotency_key)
        if len(keys) < 2:
            await asyncio.Event().wait()
        return "at last"

    model = ScriptedModel([call("slow", "c1")], "Done.")
    await executor.execute(Agent(name="A", tools=[slow]), model=model)
    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert outputs(model.requests[1]) == {"c1": "at last"}


@pytest.mark.smoke
@row(3)
async def test_tools_of_one_reply_run_together_and_answer_in_the_order_of_their_calls(
    executor: Executor,
) -> None:
    second_ran = asyncio.Event()

    @function_tool
    async def first() -> str:
        await soon(second_ran)
        return "one"

    @function_tool
    async def second() -> str:
        second_ran.set()
        return "two"

    model = ScriptedModel([call("first", "c1"), call("second", "c2")], "done")
    result = await executor.execute(Agent(name="A", tools=[first, second]), model=model)
    assert tool_outputs(result) == ["one", "two"]
    assert list(outputs(model.requests[1]).items()) == [("c1", "one"), ("c2", "two")]


@row(4)
async def test_a_tool_that_was_cancelled_is_told_to_the_model_beside_its_sibling(
    executor: Executor,
) -> None:
    @function_tool(retry=1)
    async def unlucky() -> str:
        raise asyncio.CancelledError

    model = ScriptedModel([call("weather", "c1", city="Oslo"), call("unlucky", "c2")], "done")
    result = await executor.execute(Agent(name="A", tools=[weather, unlucky]), model=model)
    assert result.final_output == "done"
    told = outputs(model.requests[1])
    assert list(told) == ["c1", "c2"]
    assert told["c1"] == "sunny in Oslo"
    assert told["c2"]


@row(5)
async def test_no_more_tools_run_at_once_than_the_run_allows(executor: Executor) -> None:
    running: set[str] = set()
    peaks: list[int] = []
    third_started = asyncio.Event()

    @function_tool
    async def work(job: str) -> str:
        running.add(job)
        peaks.append(len(running))
        if job == "slow":
            await soon(third_started)
        if job == "third":
            third_started.set()
        running.remove(job)
        return job

    jobs = ["slow", "second", "third"]
    model = ScriptedModel([call("work", f"c_{job}", job=job) for job in jobs], "done")
    config = RunConfig(tool_execution=outlast.ToolExecutionConfig(max_function_tool_concurrency=2))
    result = await executor.execute(Agent(name="A", tools=[work]), model=model, run_config=config)
    assert max(peaks) == 2
    assert tool_outputs(result) == jobs


@also_on_server
@row(6)
async def test_a_hard_failure_keeps_what_has_not_started_from_starting(executor: Executor) -> None:
    started: list[str] = []

    @function_tool(failure_error_function=None, retry=1)
    async def fatal() -> str:
        started.append("fatal")
        raise TypeError("broken")

    @function_tool
    async def after() -> str:
        started.append("after")
        return "fine"

    model = ScriptedModel([call("fatal", "c1"), call("after", "c2")])
    config = RunConfig(tool_execution=outlast.ToolExecutionConfig(max_function_tool_concurrency=1))
    with pytest.raises(HARD_FAILURES, match="fatal"):
        await executor.execute(
            Agent(name="A", tools=[fatal, after]), model=model, run_config=config
        )
    assert started == ["fatal"]
    assert model.calls == 1


@row(6)
async def test_a_failure_function_that_returns_nothing_leaves_the_failure_to_the_run(
    executor: Executor,
) -> None:
    heard: list[str] = []

    def note(ctx: object, error: Exception) -> Any:
        heard.append(str(error))

    @function_tool(failure_error_function=note, retry=1)
    def fatal() -> str:
        raise TypeError("broken")

    model = ScriptedModel([call("fatal", "c1")], "never")
    with pytest.raises(HARD_FAILURES, match="fatal") as caught:
        await executor.execute(Agent(name="A", tools=[fatal]), model=model)
    assert isinstance(caught.value.__cause__, TypeError)
    assert (heard, model.calls) == (["broken"], 1)


@row(6)
async def test_what_was_done_beside_a_hard_failure_is_known_to_the_next_run(
    executor: Executor,
) -> None:
    booked = asyncio.Event()

    @function_tool
    async def book() -> str:
        booked.set()
        return "booked"

    @function_tool(failure_error_function=None, retry=1)
    async def fatal() -> str:
        await soon(booked)
        raise TypeError("broken")

    session = outlast.SQLiteSession("kept")
    config = RunConfig(tool_execution=outlast.ToolExecutionConfig(max_function_tool_concurrency=1))
    model = ScriptedModel([call("book", "c1"), call("fatal", "c2")])
    with pytest.raises(HARD_FAILURES, match="fatal"):
        await executor.execute(
            Agent(name="A", tools=[book, fatal]), model=model, session=session, run_config=config
        )
    _, *kept = await session.get_items()
    assert [(item["type"], item["call_id"]) for item in kept] == [
        ("function_call", "c1"),
        ("function_call_output", "c1"),
    ]


@row(7)
@pytest.mark.parametrize("behavior", ["raise_error", "return_error_to_model"])
async def test_a_tool_that_was_disabled_meanwhile_ends_the_run(
    executor: Executor, behavior: Literal["raise_error", "return_error_to_model"]
) -> None:
    """The calls beside it do not run either, also where unknown tools are told to the model."""
    enabled = [True]
    ran: list[str] = []

    def is_enabled(_context: object, _agent: object) -> bool:
        return enabled[0]

    @function_tool(is_enabled=is_enabled)
    async def fading() -> str:
        ran.append("fading")
        return "never"

    @function_tool
    async def sibling() -> str:
        ran.append("sibling")
        return "here"

    def disable_and_call(_request: ModelRequest) -> list[JsonObject]:
        enabled[0] = False
        return [call("sibling", "c1"), call("fading", "c2")]

    agent = Agent(name="A", tools=[fading, sibling])
    model = ScriptedModel(disable_and_call, "done")
    config = RunConfig(tool_not_found_behavior=behavior)
    with pytest.raises(ModelBehaviorError, match="fading"):
        await executor.execute(agent, model=model, run_config=config)
    assert ran == []


@row(8)
async def test_of_two_hard_failures_the_one_of_the_earlier_call_is_raised(
    executor: Executor,
) -> None:
    second_started = asyncio.Event()

    @function_tool(failure_error_function=None, retry=1)
    async def first() -> str:
        await soon(second_started)
        raise TypeError("the first broke")

    @function_tool(failure_error_function=None, retry=1)
    async def second() -> str:
        second_started.set()
        try:
            return await asyncio.Future[str]()
        except asyncio.CancelledError:
            raise TypeError("the second broke") from None

    model = ScriptedModel([call("first", "c1"), call("second", "c2")])
    with pytest.raises(HARD_FAILURES, match="first") as caught:
        await executor.execute(Agent(name="A", tools=[first, second]), model=model)
    assert "the second broke" not in str(caught.value)


@row(41)
async def test_a_call_id_used_again_for_another_call_is_renamed(executor: Executor) -> None:
    """Several models use the same few ids again; the SDK fails with `ModelBehaviorError`."""
    paid: list[tuple[str, int]] = []

    @function_tool
    async def pay(ctx: ToolContext[Any], amount: int) -> str:
        paid.append((ctx.tool_call_id, amount))
        return f"paid {amount}"

    agent = Agent(name="A", tools=[pay])
    at_once = ScriptedModel([call("pay", "c1", amount=1), call("pay", "c1", amount=2)], "done")
    await executor.execute(agent, model=at_once)
    assert sorted(paid) == [("c0", 2), ("c1", 1)]
    paid.clear()
    steps = [[call("pay", "c1", amount=amount)] for amount in (1, 2, 2)]
    later = ScriptedModel(*steps, "done")
    await executor.execute(agent, model=later)
    assert paid == [("c1", 1), ("c100", 2), ("c200", 2)]
    outputs = [one["output"] for one in later.requests[-1].input if "output" in one]
    assert outputs == ["paid 1", "paid 2", "paid 2"]


@row(41)
async def test_a_call_repeated_word_for_word_runs_once(executor: Executor) -> None:
    paid: list[int] = []

    @function_tool
    async def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    again = [call("pay", "c1", amount=1), call("pay", "c1", amount=1)]
    model = ScriptedModel(again, "done")
    result = await executor.execute(Agent(name="A", tools=[pay]), model=model)
    assert paid == [1]
    assert kinds(result) == [TOOL_CALL, TOOL_OUTPUT, MESSAGE]
