"""Talking to an agent in a terminal."""

from collections.abc import Iterator
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.handoffs.handoff import handoff
from outlast.agents.tools.function_tool import function_tool
from outlast.client.start import repl
from outlast.client.start.repl import run_demo_loop
from outlast.testing import ScriptedModel, call, run_in_memory
from outlast.testing.memory_stream import run_in_memory_streamed


@function_tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pay back."""
    return f"paid {amount}"


class InMemory:
    """Runs without a server, with one model."""

    model: ScriptedModel
    inputs: list[Any]

    @classmethod
    async def run(cls, agent: Any, given: Any, **options: Any) -> Any:
        cls.inputs.append(given)
        return await run_in_memory(agent, given, model=cls.model, **options)

    @classmethod
    def run_streamed(cls, agent: Any, given: Any, **options: Any) -> Any:
        cls.inputs.append(given)
        return run_in_memory_streamed(agent, given, model=cls.model, **options)


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    lines: list[str] = []

    def read(prompt: str) -> str:
        print(prompt, end="")  # noqa: T201  as `input` does
        if not lines:
            raise EOFError
        return lines.pop(0)

    InMemory.inputs = []
    monkeypatch.setattr(repl, "Runner", InMemory)
    monkeypatch.setattr("builtins.input", read)
    yield lines
    assert not lines


async def test_the_conversation_goes_on_with_whoever_answered_last(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    billing = Agent[Any](name="Billing")
    triage = Agent[Any](name="Triage", handoffs=[handoff(billing)])
    InMemory.model = ScriptedModel([call("transfer_to_billing", "c1")], "Billing here.", "Again.")
    typed += ["hello", "", "and now", "QUIT"]
    await run_demo_loop(triage, stream=False)
    assert capsys.readouterr().out == " > Billing here.\n >  > Again.\n > "
    assert [item.get("role") for item in InMemory.inputs[1]][-1] == "user"
    assert len(InMemory.inputs[1]) == 5


async def test_answers_are_printed_while_they_are_written(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    InMemory.model = ScriptedModel("Hello there.")
    typed += ["hi"]
    await run_demo_loop(Agent(name="A"))
    assert capsys.readouterr().out == " > \n[Agent updated: A]\nHello there.\n > \n"


async def test_a_streamed_answer_shows_calls_outputs_and_agents_as_in_the_sdk(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    @function_tool
    def look_up() -> str:
        """Look up."""
        return "found"

    InMemory.model = ScriptedModel([call("look_up", "c1")], "Done.")
    typed += ["hi"]
    await run_demo_loop(Agent(name="A", tools=[look_up]))
    assert capsys.readouterr().out == (
        " > \n[Agent updated: A]\n\n[tool called]\n\n[tool output: found]\nDone.\n > \n"
    )


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("answer", "told"), [("y", "paid 5"), ("", "must not run")])
async def test_a_call_that_needs_approval_is_asked_about(
    typed: list[str], capsys: pytest.CaptureFixture[str], answer: str, told: str, *, stream: bool
) -> None:
    InMemory.model = ScriptedModel([call("pay", "c1", amount=5)], "Done.")
    typed += ["refund me", answer, "exit"]
    await run_demo_loop(Agent(name="A", tools=[pay]), stream=stream)
    printed = capsys.readouterr().out
    assert 'Allow pay({"amount": 5})? [y/N] ' in printed
    assert "Done." in printed
    assert told in InMemory.model.requests[1].input[-1]["output"]
