"""Tracing: what a run tells of its steps, whoever carries it."""

import asyncio
from collections import Counter
from collections.abc import Generator
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import Client

from outlast import (
    Agent,
    AgentHooks,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    ModelCallFailed,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    ToolRetry,
    function_tool,
    handoff,
    input_guardrail,
    output_guardrail,
    tool_input_guardrail,
)
from outlast.agents.guardrails.tool_guardrails import ToolGuardrailFunctionOutput
from outlast.ports.model import ModelError
from outlast.testing import ScriptedModel, SpanCollector, call
from outlast.tracing import Span, Trace, custom_span, get_current_span, set_tracing_disabled, trace
from tests.conformance.executors import (
    PATIENCE_SECONDS,
    Executor,
    InMemory,
    OnServer,
    raises_own,
    row,
    soon,
)

SECRET = "4111-1111"


class Counting(SpanCollector):
    """Also counts how often each thing is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: Counter[tuple[str, str]] = Counter()

    def on_trace_start(self, trace: Trace) -> None:
        self.told["trace start", trace.trace_id] += 1
        super().on_trace_start(trace)

    def on_trace_end(self, trace: Trace) -> None:
        self.told["trace end", trace.trace_id] += 1
        super().on_trace_end(trace)

    def on_span_start(self, span: Span[Any]) -> None:
        self.told["start", span.span_id] += 1
        super().on_span_start(span)

    def on_span_end(self, span: Span[Any]) -> None:
        self.told["end", span.span_id] += 1
        super().on_span_end(span)


@pytest.fixture(params=["in_memory", "server"])
def new_executor(request: pytest.FixtureRequest) -> Executor:
    """Make an executor; on the server, one that replays the workflow for every task.

    Nothing is told twice then, nor by a worker that keeps its workflows and does less of the same.
    """
    if request.param == "in_memory":
        return InMemory()
    return OnServer(request.getfixturevalue("client"), replays=True)


@pytest.fixture
def collected() -> Generator[Counting]:
    with Counting() as collector:
        yield collector


@function_tool
def look_up(query: str) -> str:
    with custom_span("database"):
        return f"found {query}"


def passing(name: str, *, first: bool = False) -> Any:
    @input_guardrail(name=name, run_in_parallel=not first)
    def check(_context: Any, _agent: Any, _input: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)

    return check


def answers(name: str, *, trips: bool = False) -> Any:
    @output_guardrail(name=name)
    def check(_context: Any, _agent: Any, _output: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=trips)

    return check


def a_bit_of_everything() -> tuple[Agent[Any], ScriptedModel]:
    expert = Agent(name="Expert", tools=[look_up])
    ask = expert.as_tool(tool_name="ask_expert", tool_description="Asks.")
    billing = Agent(name="Billing", tools=[ask], output_guardrails=[answers("polite")])
    triage = Agent(
        name="Triage",
        tools=[look_up],
        handoffs=[billing, Agent(name="Orders")],
        input_guardrails=[passing("on topic", first=True)],
    )
    model = ScriptedModel(
        [call("look_up", "c1", query="it")],
        [call("transfer_to_billing", "h1"), call("transfer_to_orders", "h2")],
        [call("ask_expert", "c2", input="Why?")],
        [call("look_up", "c3", query="this")],
        "It is so.",
        "Paid.",
    )
    return triage, model


TREE = """\
task Agent workflow
  agent Triage
    turn 1 Triage
      guardrail on topic
      generation
      function look_up
        custom database
    turn 2 Triage
      generation
      handoff Triage -> Billing (error: The model requested several handoffs; only the first takes place.)
  agent Billing
    turn 3 Billing
      generation
      function ask_expert
        task Agent workflow
          agent Expert
            turn 1 Expert
              generation
              function look_up
                custom database
            turn 2 Expert
              generation
    turn 4 Billing
      generation
    guardrail polite"""

WITHOUT_TURNS = """\
agent Triage
  guardrail on topic
  generation
  function look_up
    custom database
  generation
  handoff Triage -> Billing (error: The model requested several handoffs; only the first takes place.)
agent Billing
  generation
  function ask_expert
    agent Expert
      generation
      function look_up
        custom database
      generation
  generation
  guardrail polite"""


def told_once(collected: Counting) -> None:
    assert set(collected.told.values()) == {1}
    assert collected.open_spans == []
    begun, ended = (
        [one.trace_id for one in some] for some in (collected.traces, collected.ended_traces)
    )
    assert begun == ended
    assert {span.trace_id for span in collected.spans()} <= set(begun)


@pytest.mark.smoke
async def test_a_run_is_a_tree_of_spans(executor: Executor, collected: Counting) -> None:
    agent, model = a_bit_of_everything()
    result = await executor.execute(agent, model=model)
    assert result.final_output == "Paid."
    assert collected.tree() == TREE
    assert [one.name for one in collected.traces] == ["Agent workflow"]
    told_once(collected)
    triage = collected.spans("agent")[0].span_data
    assert (triage.tools, triage.handoffs) == (["look_up"], ["Billing", "Orders"])
    assert triage.output_type == "str"
    for span in collected.spans():
        assert span.started_at is not None
        assert span.ended_at is not None
        assert span.started_at <= span.ended_at


@pytest.mark.full
async def test_a_worker_that_keeps_its_runs_tells_the_same(
    client: Client, collected: Counting
) -> None:
    executor = OnServer(client)
    agent, model = a_bit_of_everything()
    await executor.execute(agent, model=model)
    await executor.close()
    assert collected.tree() == TREE
    told_once(collected)


async def test_a_run_may_be_told_without_its_tasks_and_turns(
    executor: Executor, collected: Counting
) -> None:
    agent, model = a_bit_of_everything()
    config = RunConfig(tracing={"include_task_and_turn_spans": False})
    await executor.execute(agent, model=model, run_config=config)
    assert collected.tree() == WITHOUT_TURNS
    told_once(collected)


async def test_tasks_and_turns_tell_what_they_spent(
    executor: Executor, collected: Counting
) -> None:
    agent, model = a_bit_of_everything()
    await executor.execute(agent, model=model)
    outer, nested = collected.spans("task")
    calls = collected.spans("generation")
    assert (outer.span_data.usage["requests"], nested.span_data.usage["requests"]) == (6, 2)
    for kind in ("input_tokens", "output_tokens", "total_tokens"):
        spent = [span.span_data.usage[kind] for span in calls]
        assert outer.span_data.usage[kind] == sum(spent) > 0
    turns = {span.span_data.agent_name: span.span_data.usage for span in collected.spans("turn")}
    assert turns["Expert"]["output_tokens"] == calls[4].span_data.usage["output_tokens"]
    asking = next(span for span in collected.spans("turn") if span.span_data.turn == 3)
    three = [calls[at].span_data.usage["input_tokens"] for at in (2, 3, 4)]
    assert asking.span_data.usage["input_tokens"] == sum(three)
    assert asking.export() == {
        "object": "trace.span",
        "id": asking.span_id,
        "trace_id": outer.trace_id,
        "parent_id": asking.parent_id,
        "started_at": asking.started_at,
        "ended_at": asking.ended_at,
        "span_data": {
            "type": "custom",
            "name": "turn",
            "data": {
                "sdk_span_type": "turn",
                "turn": 3,
                "agent_name": "Billing",
                "usage": asking.span_data.usage,
            },
        },
        "error": None,
    }


async def test_a_turn_lasts_until_the_next_one_begins(
    executor: Executor, collected: Counting
) -> None:
    model = ScriptedModel([call("look_up", "c1", query="a"), call("look_up", "c2", query="b")], "!")
    await executor.execute(Agent(name="A", tools=[look_up]), model=model)
    first, second = collected.spans("turn")
    assert first.ended_at == second.started_at
    for tool in collected.spans("function"):
        assert tool.parent_id == first.span_id
    (task,), (agent,) = collected.spans("task"), collected.spans("agent")
    assert task.started_at == agent.started_at == first.started_at
    ends = [second.ended_at or "", agent.ended_at or "", task.ended_at or ""]
    assert ends == sorted(ends)


@row(53)
async def test_a_streamed_run_tells_the_same(executor: Executor, collected: Counting) -> None:
    agent, model = a_bit_of_everything()
    result = await executor.stream(agent, model=model)
    _ = [event async for event in result.stream_events()]
    assert result.final_output == "Paid."
    await _until_all_is_told(collected)
    assert collected.tree() == TREE
    told_once(collected)


async def test_a_model_call_tells_what_was_asked_and_answered(
    executor: Executor, collected: Counting
) -> None:
    agent = Agent(name="A", instructions="Be brief.", model="gpt-x", tools=[look_up])
    model = ScriptedModel([call("look_up", "c1", query="it")], "Done.")
    await executor.execute(agent, "Why?", model=model)
    first, second = (span.span_data for span in collected.spans("generation"))
    assert first.model == "gpt-x"
    assert first.input == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Why?"},
    ]
    assert first.output[0]["name"] == "look_up"
    assert first.usage["total_tokens"] == first.usage["input_tokens"] + first.usage["output_tokens"]
    assert second.output[0]["content"][0]["text"] == "Done."
    (tool,) = collected.spans("function")
    assert (tool.span_data.input, tool.span_data.output) == ('{"query": "it"}', "found it")


async def test_a_run_without_sensitive_data_tells_names_and_counts_only(
    executor: Executor, collected: Counting
) -> None:
    @function_tool
    def refuse(card: str) -> str:
        raise ValueError(f"no card {card}")

    agent = Agent(name="A", instructions=f"The card is {SECRET}.", tools=[look_up, refuse])
    model = ScriptedModel(
        [call("look_up", "c1", query=SECRET), call("refuse", "c2", card=SECRET)], f"It is {SECRET}."
    )
    config = RunConfig(trace_include_sensitive_data=False)
    await executor.execute(agent, SECRET, model=model, run_config=config)
    assert len(collected.spans("generation")) == 2
    assert {span.span_data.name for span in collected.spans("function")} == {"look_up", "refuse"}
    assert collected.spans("generation")[0].span_data.usage["requests"] == 1
    exported = [span.export() for span in collected.spans()]
    assert SECRET not in str(exported)


async def test_an_attempt_that_is_repeated_is_a_span_of_its_own(
    executor: Executor, collected: Counting
) -> None:
    tries: list[int] = []

    @function_tool(retry=ToolRetry(attempts=2, initial_interval=timedelta(milliseconds=10)))
    def flaky() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("no disk")
        return "done"

    model = ScriptedModel([call("flaky", "c1")], "Done.")
    await executor.execute(Agent(name="A", tools=[flaky]), model=model)
    failed, worked = collected.spans("function")
    assert failed.error is not None
    assert "no disk" in failed.error["message"]
    assert failed.error["data"] == {
        "tool_name": "flaky",
        "error": "no disk",
        "code": "tool_failed",
    }
    assert (worked.error, worked.span_data.output) == (None, "done")
    assert failed.parent_id == worked.parent_id
    told_once(collected)


async def test_a_failure_that_the_model_reads_is_an_error_of_its_span(
    executor: Executor, collected: Counting
) -> None:
    @function_tool(retry=ToolRetry(attempts=1))
    def broken() -> str:
        raise ValueError("no number")

    model = ScriptedModel([call("broken", "c1")], "Sorry.")
    result = await executor.execute(Agent(name="A", tools=[broken]), model=model)
    assert result.final_output == "Sorry."
    (span,) = collected.spans("function")
    assert span.error is not None
    assert "no number" in span.error["message"]
    assert span.error["data"] == {
        "tool_name": "broken",
        "error": "no number",
        "code": "tool_failed",
    }
    assert collected.spans("agent")[0].error is None


async def test_a_tools_guardrail_is_told_of_inside_the_tool(
    executor: Executor, collected: Counting
) -> None:
    @tool_input_guardrail(name="careful")
    def careful(_data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content("Not this.")

    @function_tool(tool_input_guardrails=[careful])
    def delete() -> str:
        return "gone"

    model = ScriptedModel([call("delete", "c1")], "Kept.")
    await executor.execute(Agent(name="A", tools=[delete]), model=model)
    assert (
        collected.tree()
        == """\
task Agent workflow
  agent A
    turn 1 A
      generation
      function delete
        guardrail careful
    turn 2 A
      generation"""
    )


async def test_users_callables_find_themselves_in_the_turns_span(
    executor: Executor, collected: Counting
) -> None:
    def instructions(_context: Any, _agent: Any) -> str:
        with custom_span("look up the tone"):
            return "Be kind."

    class Hooks(AgentHooks[Any]):
        async def on_end(self, context: Any, agent: Any, output: Any) -> None:
            with custom_span("count"):
                pass

    agent = Agent(name="A", instructions=instructions, hooks=Hooks())
    await executor.execute(agent, model=ScriptedModel("Hi."))
    assert (
        collected.tree()
        == """\
task Agent workflow
  agent A
    turn 1 A
      custom look up the tone
      generation
      custom count"""
    )
    told_once(collected)


@pytest.mark.parametrize("how", ["run", "process", "trace"])
async def test_a_run_that_is_not_traced_tells_nothing(
    executor: Executor, collected: Counting, how: str
) -> None:
    seen: list[bool] = []

    @function_tool
    def tool() -> str:
        with custom_span("inside"):
            current = get_current_span()
            seen.append(current is not None and current.is_recorded)
        return "done"

    agent, model = Agent(name="A", tools=[tool]), ScriptedModel([call("tool", "c1")], "Done.")
    config = RunConfig(tracing_disabled=how == "run")
    set_tracing_disabled(how == "process")
    try:
        with trace("Quiet", disabled=how == "trace"):
            collected.clear()
            result = await executor.execute(agent, model=model, run_config=config)
    finally:
        set_tracing_disabled(False)
    assert result.final_output == "Done."
    assert seen == [False]
    assert collected.spans() == collected.open_spans == []


async def test_a_nested_run_is_as_quiet_as_the_run_that_asks(
    executor: Executor, collected: Counting
) -> None:
    expert = Agent(name="Expert")
    ask = expert.as_tool(tool_name="ask", tool_description="Asks.", run_config=RunConfig())
    model = ScriptedModel([call("ask", "c1", input="?")], "So.", "Done.")
    config = RunConfig(tracing_disabled=True)
    await executor.execute(Agent(name="A", tools=[ask]), model=model, run_config=config)
    assert (collected.spans(), collected.traces) == ([], [])


@pytest.mark.smoke
async def test_a_nested_run_with_settings_of_its_own_is_in_the_same_trace(
    executor: Executor, collected: Counting
) -> None:
    own = RunConfig(workflow_name="Own", trace_id="trace_own")
    ask = Agent(name="Expert").as_tool(tool_name="ask", tool_description="", run_config=own)
    model = ScriptedModel([call("ask", "c1", input="?")], "So.", "Done.")
    config = RunConfig(trace_id="trace_1", workflow_name="Support")
    await executor.execute(Agent(name="A", tools=[ask]), model=model, run_config=config)
    assert [(one.trace_id, one.name) for one in collected.traces] == [("trace_1", "Support")]
    assert {span.trace_id for span in collected.spans()} == {"trace_1"}
    assert [span.span_data.name for span in collected.spans("task")] == ["Support", "Own"]
    told_once(collected)


async def test_the_run_says_what_its_trace_is_called(
    executor: Executor, collected: Counting
) -> None:
    config = RunConfig(
        workflow_name="Support",
        trace_id="trace_1",
        group_id="chat",
        trace_metadata={"tier": 1},
    )
    await executor.execute(Agent(name="A"), model=ScriptedModel("Hi."), run_config=config)
    expected = {
        "object": "trace",
        "id": "trace_1",
        "workflow_name": "Support",
        "group_id": "chat",
        "metadata": {"tier": 1},
    }
    assert [one.export() for one in collected.ended_traces] == [expected]
    assert collected.spans("generation")[0].trace.export() == expected


async def test_runs_in_a_trace_belong_to_it(executor: Executor, collected: Counting) -> None:
    agent, model = Agent(name="A"), ScriptedModel("One.", "Two.")
    with trace("Both", group_id="chat") as around:
        with custom_span("first") as first:
            config = RunConfig(workflow_name="Mine")
            await executor.execute(agent, model=model, run_config=config)
        await executor.execute(agent, model=model)
    one, two = collected.spans("task")
    assert [span.span_data.name for span in (one, two)] == ["Mine", "Agent workflow"]
    assert (one.trace_id, two.trace_id) == (around.trace_id, around.trace_id)
    assert (one.parent_id, two.parent_id) == (first.span_id, None)
    assert one.trace.group_id == "chat"
    assert [told.name for told in collected.traces] == ["Both"]
    told_once(collected)


async def test_runs_apart_have_traces_apart(executor: Executor, collected: Counting) -> None:
    agent, model = Agent(name="A"), ScriptedModel("One.", "Two.")
    await executor.execute(agent, model=model)
    await executor.execute(agent, model=model)
    assert len(collected.traces) == 2
    told_once(collected)


async def test_a_run_that_uses_up_its_turns_ends_its_spans(
    executor: Executor, collected: Counting
) -> None:
    model = ScriptedModel([call("look_up", "c1", query="it")])
    with pytest.raises(MaxTurnsExceeded):
        await executor.execute(Agent(name="A", tools=[look_up]), model=model, max_turns=1)
    error = collected.spans("agent")[0].error
    assert error is not None
    assert error["data"] == {"code": "max_turns_exceeded"}
    (turn,) = collected.spans("turn")
    assert turn.error is None
    told_once(collected)


async def test_a_run_without_a_turn_tells_none(executor: Executor, collected: Counting) -> None:
    with pytest.raises(MaxTurnsExceeded):
        await executor.execute(Agent(name="A"), model=ScriptedModel(), max_turns=0)
    assert [span.span_data.type for span in collected.spans()] == ["task", "agent"]
    assert collected.spans("task")[0].span_data.usage is None
    told_once(collected)


async def test_a_run_whose_model_fails_ends_its_spans(
    executor: Executor, collected: Counting
) -> None:
    model = ScriptedModel(ModelError("No such model.", code="not_found", retryable=False))
    with pytest.raises(ModelCallFailed):
        await executor.execute(Agent(name="A"), model=model)
    assert (
        collected.tree()
        == """\
task Agent workflow
  agent A (error: No such model.)
    turn 1 A (error: No such model.)
      generation (error: No such model.)"""
    )
    told_once(collected)


async def test_a_handoff_that_fails_is_an_error_of_its_span(
    executor: Executor, collected: Counting
) -> None:
    def fail(_context: Any) -> None:
        raise TypeError("not today")

    triage = Agent(name="Triage", handoffs=[handoff(Agent(name="Billing"), on_handoff=fail)])
    model = ScriptedModel([call("transfer_to_billing", "h1")])
    with raises_own(TypeError, "not today"):
        await executor.execute(triage, model=model)
    (span,) = collected.spans("handoff")
    assert span.error is not None
    assert "not today" in span.error["message"]
    assert "not today" in str(collected.spans("agent")[0].error)
    assert "not today" in str(collected.spans("turn")[0].error)
    told_once(collected)


@pytest.mark.parametrize("first", [True, False])
async def test_a_question_that_is_refused_ends_its_spans(
    executor: Executor, collected: Counting, first: bool
) -> None:
    @input_guardrail(name="strict", run_in_parallel=not first)
    def strict(_context: Any, _agent: Any, _input: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    agent = Agent(name="A", input_guardrails=[strict])
    with pytest.raises(InputGuardrailTripwireTriggered):
        await executor.execute(agent, model=ScriptedModel("Hi."))
    (check,) = collected.spans("guardrail")
    assert check.span_data.export() == {"type": "guardrail", "name": "strict", "triggered": True}
    assert "strict" in str(collected.spans("agent")[0].error)
    (turn,) = collected.spans("turn")
    assert "strict" in str(turn.error)
    assert check.parent_id == turn.span_id
    assert len(collected.ended_traces) == 1


async def test_an_answer_that_is_blocked_ends_its_spans(
    executor: Executor, collected: Counting
) -> None:
    agent = Agent(name="A", output_guardrails=[answers("strict", trips=True)])
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await executor.execute(agent, model=ScriptedModel("Hi."))
    (check,), (agent,) = collected.spans("guardrail"), collected.spans("agent")
    assert check.span_data.triggered is True
    assert check.parent_id == agent.span_id
    assert "strict" in str(agent.error)
    assert collected.spans("turn")[0].error is None
    told_once(collected)


async def test_the_answer_of_a_handler_is_no_error(executor: Executor, collected: Counting) -> None:
    def later(_given: Any) -> str:
        return "Later."

    model = ScriptedModel([call("look_up", "c1", query="it")])
    result = await executor.execute(
        Agent(name="A", tools=[look_up]),
        model=model,
        max_turns=1,
        error_handlers={"max_turns": later},
    )
    assert result.final_output == "Later."
    assert collected.spans("agent")[0].error is None
    told_once(collected)


async def test_a_nested_run_that_fails_is_an_error_of_its_call(
    executor: Executor, collected: Counting
) -> None:
    expert = Agent(name="Expert", tools=[look_up])
    ask = expert.as_tool(tool_name="ask", tool_description="Asks.", max_turns=1)
    model = ScriptedModel(
        [call("ask", "c1", input="?")], [call("look_up", "c2", query="it")], "Never mind."
    )
    result = await executor.execute(Agent(name="A", tools=[ask]), model=model)
    assert result.final_output == "Never mind."
    asked = next(span for span in collected.spans("function") if span.span_data.name == "ask")
    assert asked.span_data.output is not None
    (task,) = collected.children(asked)
    (nested,) = collected.children(task)
    (turn,) = collected.children(nested)
    assert (nested.span_data.name, len(collected.children(turn))) == ("Expert", 2)
    told_once(collected)


async def test_a_run_that_waits_for_people_goes_on_in_the_same_span(
    executor: Executor, collected: Counting
) -> None:
    @function_tool(needs_approval=True)
    def refund() -> str:
        return "refunded"

    agent = Agent(name="A", tools=[refund])
    model = ScriptedModel([call("refund", "c1")], "Done.")
    waiting = await executor.execute(agent, model=model)
    assert [span.span_data.type for span in collected.open_spans] == ["task", "agent", "turn"]
    state = waiting.to_state()
    state.approve(waiting.interruptions[0])
    result = await executor.resume(agent, state)
    assert result.final_output == "Done."
    assert (
        collected.tree()
        == """\
task Agent workflow
  agent A
    turn 1 A
      generation
      wait refund
      function refund
    turn 2 A
      generation"""
    )
    told_once(collected)


STOPPED = """\
task Agent workflow
  agent A (error: The run was cancelled.)
    turn 1 A (error: The run was cancelled.)
      generation
      function endless"""


@pytest.mark.parametrize("mode", ["immediate", "after_turn"])
async def test_a_run_that_is_cancelled_tells_of_its_end(
    executor: Executor, collected: Counting, mode: Any
) -> None:
    started, release = asyncio.Event(), asyncio.Event()

    @function_tool
    async def endless() -> str:
        started.set()
        await soon(release)
        return "ended"

    stream = await executor.stream(
        Agent(name="A", tools=[endless]),
        model=ScriptedModel([call("endless", "c1")], "never"),
        run_config=RunConfig(heartbeat_timeout=timedelta(seconds=2)),
    )
    reading = asyncio.create_task(_read(stream))
    await soon(started)
    stream.cancel(mode=mode)
    await executor.until_cancel_is_known()
    if mode == "after_turn":
        release.set()
    await reading
    await _until_all_is_told(collected)
    is_cut_off = mode == "immediate"
    assert collected.tree() == (STOPPED + " (error: It was cancelled.)" if is_cut_off else STOPPED)
    told_once(collected)


async def test_a_run_that_is_cancelled_tells_of_the_end_of_nested_runs(
    executor: Executor, collected: Counting
) -> None:
    started = asyncio.Event()

    @function_tool
    async def endless() -> str:
        started.set()
        return await asyncio.Future[str]()

    expert = Agent(name="Expert", tools=[endless])
    ask = expert.as_tool(tool_name="ask", tool_description="Asks.")
    stream = await executor.stream(
        Agent(name="A", tools=[ask]),
        model=ScriptedModel([call("ask", "c1", input="?")], [call("endless", "c2")]),
        run_config=RunConfig(heartbeat_timeout=timedelta(seconds=2)),
    )
    reading = asyncio.create_task(_read(stream))
    await soon(started)
    stream.cancel()
    await reading
    await _until_all_is_told(collected)
    errors = {span.error["message"] for span in collected.spans("agent") if span.error}
    assert errors == {"The run was cancelled."}
    told_once(collected)


async def _until_all_is_told(collected: Counting) -> None:
    """Wait for the end of the trace: whoever reads the run does not."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while collected.open_spans or not collected.ended_traces:  # noqa: ASYNC110  a worker's
            await asyncio.sleep(0.01)


async def _read(stream: Any) -> None:
    _ = [event async for event in stream.stream_events()]


async def test_nothing_of_a_trace_is_kept_where_nobody_listens(executor: Executor) -> None:
    agent, model = a_bit_of_everything()
    result = await executor.execute(agent, model=model)
    assert result.final_output == "Paid."
    assert not result.snapshot.is_open
