"""Prompts that the provider stores."""

from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.agents.prompt import GenerateDynamicPromptData, Prompt, check_prompt, prompt_of

CONTEXT = RunContextWrapper(context={"tier": "gold"})
AGENT = Agent[Any](name="A")


def by_tier(data: GenerateDynamicPromptData) -> Prompt:
    return {"id": f"pmpt_{data.context.context['tier']}", "variables": {"agent": data.agent.name}}


async def later(data: GenerateDynamicPromptData) -> Prompt:
    return by_tier(data)


async def test_a_fixed_prompt_is_itself() -> None:
    prompt: Prompt = {"id": "pmpt_1", "version": "2", "variables": {"a": 1}}
    assert await prompt_of(prompt, CONTEXT, AGENT) == prompt
    assert await prompt_of(None, CONTEXT, AGENT) is None


@pytest.mark.parametrize("function", [by_tier, later])
async def test_a_callable_makes_the_prompt(function: Any) -> None:
    assert await prompt_of(function, CONTEXT, AGENT) == {
        "id": "pmpt_gold",
        "variables": {"agent": "A"},
    }


async def test_what_is_none_is_left_out() -> None:
    prompt: Any = {"id": "pmpt_1", "version": None, "variables": None}
    assert await prompt_of(prompt, CONTEXT, AGENT) == {"id": "pmpt_1"}


async def test_a_callable_that_makes_something_else_is_an_error() -> None:
    def confused(data: object) -> Any:
        return "pmpt_1"

    with pytest.raises(
        UserError, match=r"Agent 'A': prompt must be a dict with an id, .* not 'pmpt_1"
    ):
        await prompt_of(confused, CONTEXT, AGENT)


def takes_none() -> Any: ...


@pytest.mark.parametrize(
    ("prompt", "problem"),
    [
        ("pmpt_1", "prompt must be a dict with an id"),
        ({}, "prompt must be a dict with an id"),
        ({"id": 5}, "prompt must be a dict with an id"),
        ({"id": "pmpt_1", "name": "x"}, "has the keys id, version and variables, not name"),
        (takes_none, r"prompt is called with \(data\), but takes_none takes \(\)"),
    ],
)
def test_what_is_no_prompt_is_refused_where_it_is_given(prompt: Any, problem: str) -> None:
    with pytest.raises(UserError, match=f"^Agent 'A': .*{problem}"):
        check_prompt("Agent 'A': prompt", prompt)


@pytest.mark.parametrize("prompt", [None, {"id": "pmpt_1"}, by_tier, later])
def test_what_is_a_prompt_passes(prompt: Any) -> None:
    check_prompt("Agent 'A': prompt", prompt)
