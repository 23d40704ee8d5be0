"""The answer of a nested run meets what the result of any tool meets."""

from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.errors import ToolOutputGuardrailTripwireTriggered, UserError
from outlast.agents.guardrails.guardrail import GuardrailFunctionOutput, OutputGuardrail
from outlast.agents.guardrails.tool_guardrails import (
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolOutputGuardrail,
)
from outlast.agents.hooks import RunHooks
from outlast.client.results.run_result import RunResult
from outlast.sessions.sqlite import SQLiteSession
from outlast.testing import ScriptedModel, call, run_in_memory

ASK = call("ask", "c1", input="What is new?")


class Told(RunHooks[Any]):
    """What the outer run's hooks hear."""

    def __init__(self) -> None:
        self.results: list[object] = []

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        self.results.append("begins")

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: object) -> None:
        self.results.append(result)


class Guarding:
    """A tool's guardrail that remembers what it was asked."""

    def __init__(self, verdict: Any = None) -> None:
        self.verdict = verdict or ToolGuardrailFunctionOutput.allow()
        self.asked: list[Any] = []

    def __call__(self, data: Any) -> ToolGuardrailFunctionOutput:
        self.asked.append(getattr(data, "output", data.context.tool_arguments))
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.verdict


async def run(
    *replies: Any, before: Guarding | None = None, after: Guarding | None = None, **options: Any
) -> tuple[RunResult, list[object]]:
    expert = Agent[Any](name="Expert")
    tool = expert.as_tool("ask", "Ask.", **options)
    tool.tool_input_guardrails = [ToolInputGuardrail(before)] if before else []
    tool.tool_output_guardrails = [ToolOutputGuardrail(after)] if after else []
    desk, hooks = Agent[Any](name="Desk", tools=[tool]), Told()
    result = await run_in_memory(desk, "Hi", model=ScriptedModel(*replies), hooks=hooks)
    return result, hooks.results


def read(result: RunResult) -> Any:
    return [item.output for item in result.new_items if item.type == "tool_call_output_item"]


async def test_guardrails_that_allow_see_the_arguments_and_the_answer() -> None:
    before, after = Guarding(), Guarding()
    result, told = await run([ASK], "The harbour.", "Done.", before=before, after=after)
    assert (before.asked, after.asked) == ([ASK["arguments"]], ["The harbour."])
    assert (read(result), told) == (["The harbour."], ["begins", "The harbour."])
    assert len(result.tool_input_guardrail_results) == 1


async def test_a_call_that_is_refused_is_no_run() -> None:
    refused = Guarding(ToolGuardrailFunctionOutput.reject_content("Not now."))
    result, told = await run([ASK], "Done.", before=refused)
    assert (result.final_output, read(result), told) == ("Done.", ["Not now."], [])


async def test_an_answer_may_be_replaced() -> None:
    hidden = Guarding(ToolGuardrailFunctionOutput.reject_content("Hidden."))
    result, told = await run([ASK], "The harbour.", "Done.", after=hidden)
    assert (read(result), told) == (["Hidden."], ["begins", "Hidden."])


async def test_the_words_for_a_failure_are_checked_too() -> None:
    after = Guarding(ToolGuardrailFunctionOutput.reject_content("Hidden."))
    nested = call("missing", "c2")
    result, _ = await run([ASK], [nested], "Done.", after=after, max_turns=1)
    assert (len(after.asked), read(result)) == (1, ["Hidden."])


async def test_a_tripwire_ends_the_outer_run() -> None:
    tripping = Guarding(ToolGuardrailFunctionOutput.raise_exception())
    with pytest.raises(ToolOutputGuardrailTripwireTriggered):
        await run([ASK], "The harbour.", "Never.", after=tripping)


async def test_a_guardrail_that_raises_ends_the_outer_run() -> None:
    broken = Guarding(UserError("broken"))
    with pytest.raises(UserError, match="broken"):
        await run([ASK], "The harbour.", "Never.", after=broken)
    assert len(broken.asked) == 1


async def test_what_else_fails_in_a_guarded_nested_run_is_told_to_the_model() -> None:
    class Lost(SQLiteSession):
        async def get_items(self, limit: int | None = None) -> list[Any]:
            raise TypeError("no such table")

    result, _ = await run([ASK], "Done.", after=Guarding(), session=Lost("nested"))
    assert result.final_output == "Done."
    assert read(result) == ["The tool ask failed and cannot be used right now."]


async def test_only_the_call_of_the_tool_whose_guardrail_tripped_ends_its_run() -> None:
    """Two runs deep, the outermost model is told of it as of any failure."""
    tripping = ToolOutputGuardrail(Guarding(ToolGuardrailFunctionOutput.raise_exception()))
    inner = Agent[Any](name="Inner").as_tool("inner", "Ask.")
    inner.tool_output_guardrails = [tripping]
    middle = Agent[Any](name="Middle", tools=[inner]).as_tool("middle", "Ask.")
    outer = Agent[Any](name="Outer", tools=[middle])
    model = ScriptedModel(
        [call("middle", "c1", input="?")], [call("inner", "c2", input="?")], "Secret.", "Done."
    )
    result = await run_in_memory(outer, "Hi", model=model)
    assert result.final_output == "Done."
    assert "Secret" not in str(read(result))


async def test_an_answer_that_a_guardrail_has_blocked_is_not_saved_where_the_model_is_told() -> (
    None
):
    blocking = Agent[Any](name="Expert", output_guardrails=[OutputGuardrail(blocked)])
    session = SQLiteSession("nested")
    desk = Agent[Any](name="Desk", tools=[blocking.as_tool("ask", "Ask.", session=session)])
    result = await run_in_memory(desk, "Hi", model=ScriptedModel([ASK], "Secret.", "Done."))
    assert result.final_output == "Done."
    assert [item.get("role") for item in await session.get_items()] == ["user"]


def blocked(context: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)
