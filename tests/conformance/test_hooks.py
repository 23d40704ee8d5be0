"""Hooks of runs and of agents: row 50 of the table."""

import asyncio
from typing import Any

import pytest

import outlast
from outlast import Agent, function_tool
from outlast.testing import ScriptedModel, call
from tests.conformance.executors import Executor, also_on_server, raises_own, row


@function_tool
async def look_up() -> str:
    return "found"


def _run_hooks(log: list[str]) -> Any:
    class Watching(outlast.RunHooks):
        async def on_agent_start(self, context: Any, agent: Any) -> None:
            log.append(f"start {agent.name}")

        async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
            log.append(f"end {agent.name}: {output}")

        async def on_llm_start(
            self, context: Any, agent: Any, system_prompt: Any, input_items: Any
        ) -> None:
            log.append(f"ask {agent.name}: {system_prompt}, {len(input_items)} items")

        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            log.append(f"asked {agent.name}: {len(response.output)} items")

        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            log.append(f"run {tool.name} ({context.tool_call_id})")

        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            log.append(f"ran {tool.name} ({context.tool_call_id}): {result}")

        async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
            log.append(f"hand over {from_agent.name} to {to_agent.name}")

    return Watching()


def _agent_hooks(log: list[str]) -> Any:
    class Watching(outlast.AgentHooks):
        async def on_start(self, context: Any, agent: Any) -> None:
            log.append(f"start {agent.name}")

        async def on_end(self, context: Any, agent: Any, output: Any) -> None:
            log.append(f"end {agent.name}: {output}")

        async def on_llm_start(
            self, context: Any, agent: Any, system_prompt: Any, input_items: Any
        ) -> None:
            log.append(f"ask {agent.name}")

        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            log.append(f"asked {agent.name}")

        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            log.append(f"run {tool.name}")

        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            log.append(f"ran {tool.name}: {result}")

        async def on_handoff(self, context: Any, agent: Any, source: Any) -> None:
            log.append(f"hand over {source.name} to {agent.name}")

    return Watching()


SCRIPT = ([call("look_up", "c1")], [call("look_up", "c2"), call("transfer_to_billing", "h1")])


@pytest.mark.smoke
@row(50)
async def test_the_hooks_of_a_run_see_every_step_once_and_in_order(executor: Executor) -> None:
    log: list[str] = []
    billing = Agent(name="Billing", instructions="Bill.")
    triage = Agent(name="Triage", instructions="Sort.", tools=[look_up], handoffs=[billing])
    model = ScriptedModel(*SCRIPT, "Paid.")
    await executor.execute(triage, model=model, hooks=_run_hooks(log))
    assert log == [
        "start Triage",
        "ask Triage: Sort., 1 items",
        "asked Triage: 1 items",
        "run look_up (c1)",
        "ran look_up (c1): found",
        "ask Triage: Sort., 3 items",
        "asked Triage: 2 items",
        "run look_up (c2)",
        "ran look_up (c2): found",
        "hand over Triage to Billing",
        "start Billing",
        "ask Billing: Bill., 7 items",
        "asked Billing: 1 items",
        "end Billing: Paid.",
    ]


@row(50)
async def test_the_hooks_of_an_agent_see_its_own_steps(executor: Executor) -> None:
    of_triage: list[str] = []
    of_billing: list[str] = []
    billing = Agent(name="Billing", hooks=_agent_hooks(of_billing))
    triage = Agent(
        name="Triage", tools=[look_up], handoffs=[billing], hooks=_agent_hooks(of_triage)
    )
    await executor.execute(triage, model=ScriptedModel(*SCRIPT, "Paid."))
    assert of_triage == [
        "start Triage",
        "ask Triage",
        "asked Triage",
        "run look_up",
        "ran look_up: found",
        "ask Triage",
        "asked Triage",
        "run look_up",
        "ran look_up: found",
        "hand over Triage to Billing",
    ]
    assert of_billing == ["start Billing", "ask Billing", "asked Billing", "end Billing: Paid."]


@also_on_server
@row(50)
async def test_an_agent_starts_again_after_people_decided(executor: Executor) -> None:
    log: list[str] = []

    @function_tool(needs_approval=True)
    async def pay() -> str:
        return "paid"

    agent = Agent(name="A", tools=[pay], hooks=_agent_hooks(log))
    model = ScriptedModel([call("pay", "c1")], "Paid.")
    result = await executor.execute(agent, model=model)
    state = result.to_state()
    state.approve(result.interruptions[0])
    await executor.resume(agent, state)
    assert log == [
        "start A",
        "ask A",
        "asked A",
        "run pay",
        "ran pay: paid",
        "start A",
        "ask A",
        "asked A",
        "end A: Paid.",
    ]


@row(50)
async def test_what_a_hook_changes_in_the_context_is_kept(executor: Executor) -> None:
    class Counting(outlast.RunHooks):
        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            context.context["asked"] += 1

        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            context.context["ran"] += 1

    model = ScriptedModel([call("look_up", "c1")], "done")
    result = await executor.execute(
        Agent(name="A", tools=[look_up]),
        model=model,
        context={"asked": 0, "ran": 0},
        hooks=Counting(),
    )
    assert result.context_wrapper.context == {"asked": 2, "ran": 1}


@row(50)
async def test_who_takes_over_hears_what_the_question_was(executor: Executor) -> None:
    heard: list[Any] = []

    class Listening(outlast.RunHooks):
        async def on_agent_start(self, context: Any, agent: Any) -> None:
            heard.append((agent.name, context.turn_input))

    billing = Agent(name="Billing")
    triage = Agent(name="Triage", handoffs=[billing])
    model = ScriptedModel([call("transfer_to_billing", "h1")], "Done.")
    await executor.execute(triage, "Hello", model=model, hooks=Listening())
    question = [{"role": "user", "content": "Hello"}]
    assert heard == [("Triage", question), ("Billing", question)]


class Ends(outlast.RunHooks[Any]):
    """Hooks at both ends of a run, and at failures of tools."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def on_run_start(self, context: Any, agent: Any) -> None:
        context.context["started"] = agent.name
        self.seen.append("start")

    async def on_run_end(self, context: Any, agent: Any, output: Any) -> None:
        context.context["ended"] = output
        self.seen.append(("end", agent.name))

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        self.seen.append(("agent", agent.name))

    async def on_tool_error(self, context: Any, agent: Any, tool: Any, error: Exception) -> None:
        self.seen.append((tool.name, context.tool_call_id, str(error)))


@function_tool
def break_it() -> str:
    raise OSError("broken")


@also_on_server
@row(50)
async def test_the_hooks_at_the_ends_of_a_run_and_at_errors_of_tools(executor: Executor) -> None:
    hooks = Ends()
    agent = Agent(name="A", tools=[break_it], handoffs=[Agent(name="B")])
    model = ScriptedModel([call("break_it", "c1")], [call("transfer_to_b", "c2")], "Done.")
    result = await executor.execute(agent, model=model, hooks=hooks, context={"n": 1})
    assert hooks.seen == [
        "start",
        ("agent", "A"),
        ("break_it", "c1", "broken"),
        ("agent", "B"),
        ("end", "B"),
    ]
    assert result.context == {"n": 1, "started": "A", "ended": "Done."}


@row(50)
async def test_a_blocked_answer_does_not_end_a_run_for_its_hooks(executor: Executor) -> None:
    @outlast.output_guardrail
    def never(_context: Any, _agent: Any, _output: Any) -> outlast.GuardrailFunctionOutput:
        return outlast.GuardrailFunctionOutput(None, tripwire_triggered=True)

    hooks = Ends()
    agent = Agent(name="A", output_guardrails=[never])
    with pytest.raises(outlast.OutputGuardrailTripwireTriggered):
        await executor.execute(agent, model=ScriptedModel("Hi."), hooks=hooks, context={})
    assert hooks.seen == ["start", ("agent", "A")]


@row(50)
async def test_a_hook_of_one_agent_sees_the_errors_of_its_tools(executor: Executor) -> None:
    seen: list[str] = []

    class Own(outlast.AgentHooks[Any]):
        async def on_tool_error(self, context: Any, agent: Any, tool: Any, error: Any) -> None:
            seen.append(type(error).__name__)

    @function_tool(timeout=0.01, retry=1)
    async def wait() -> str:
        await asyncio.sleep(60)
        return ""

    agent = Agent(name="A", tools=[break_it, wait], hooks=Own())
    model = ScriptedModel([call("break_it", "c1")], [call("wait", "c2")], "Done.")
    await executor.execute(agent, model=model)
    assert seen == ["OSError", "ToolTimeoutError"]


@row(50)
@pytest.mark.parametrize("step", ["on_run_start", "on_run_end", "on_tool_error"])
async def test_a_hook_that_raises_fails_the_run(executor: Executor, step: str) -> None:
    async def fail(*_arguments: Any, **_named: Any) -> None:
        raise TypeError("no")

    hooks = type("Failing", (outlast.RunHooks,), {step: fail})()
    agent = Agent(name="A", tools=[break_it])
    model = ScriptedModel([call("break_it", "c1")], "Done.")
    with raises_own(TypeError, "no"):
        await executor.execute(agent, model=model, hooks=hooks)
