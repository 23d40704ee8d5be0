"""Agents that differ from a registered one in data are recorded, and made again."""

from dataclasses import replace
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.agent_changes import changes_of, with_changes
from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.config.retry import ModelRetrySettings
from outlast.agents.guardrails.guardrail import GuardrailFunctionOutput, input_guardrail
from outlast.agents.registry import Registry
from outlast.agents.tools.function_tool import function_tool
from outlast.testing import ScriptedModel


@function_tool
def find() -> str:
    """Find."""
    return "found"


@function_tool
def refund() -> str:
    """Refund."""
    return "paid"


@input_guardrail
def polite(_ctx: Any, _agent: Any, _input: Any) -> GuardrailFunctionOutput:
    """Refuse nothing."""
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)


def of_ann(_ctx: Any, _agent: Any) -> str:
    """Return instructions."""
    return "You serve Ann."


BASE = Agent[Any](
    name="Clerk",
    instructions="You serve everybody.",
    tools=[find, refund],
    input_guardrails=[polite],
    model="gpt-5",
)


@pytest.mark.parametrize(
    ("changes", "recorded"),
    [
        ({}, {}),
        ({"instructions": "You serve Ann."}, {"instructions": "You serve Ann."}),
        ({"instructions": None}, {"instructions": None}),
        ({"model": "gpt-5-mini"}, {"model": "gpt-5-mini"}),
        ({"tools": [refund]}, {"tools": [1]}),
        ({"tools": []}, {"tools": []}),
        ({"reset_tool_choice": False}, {"reset_tool_choice": False}),
        ({"handoff_description": "For Ann."}, {"handoff_description": "For Ann."}),
        (
            {"model_settings": ModelSettings(temperature=0.5)},
            {"model_settings": {"temperature": 0.5}},
        ),
        ({"name": "Clerk of Ann"}, {}),
    ],
)
def test_a_clone_that_differs_in_data_is_made_again(
    changes: dict[str, Any], recorded: dict[str, Any]
) -> None:
    clone = BASE.clone(**changes)
    written = changes_of(clone, BASE, "Clerk")
    assert written == {"of": "Clerk", **recorded}
    assert written is not None
    again = with_changes(BASE, written, clone.name)
    assert again is not clone
    for name in ("name", "instructions", "model", "model_settings", "input_guardrails"):
        assert getattr(again, name) == getattr(clone, name)
    assert [id(tool) for tool in again.tools] == [id(tool) for tool in clone.tools]


@pytest.mark.parametrize(
    "changes",
    [
        {"instructions": of_ann},
        {"tools": [find, function_tool(lambda: "mine", name_override="mine")]},
        {"input_guardrails": []},
        {"model": ScriptedModel("Hi.")},
        {"output_type": int},
        {"handoffs": [Agent[Any](name="Other")]},
        {
            "model_settings": ModelSettings(
                extra_headers={"Authorization": "Bearer sk-12345678901234"}
            )
        },
        {"model_settings": ModelSettings(retry=ModelRetrySettings(policy=lambda _: True))},
        {"model_settings": ModelSettings(extra_args={"stop": object()})},
    ],
)
def test_a_clone_that_differs_in_more_than_data_is_not_recorded(changes: dict[str, Any]) -> None:
    base = replace(BASE, model=None) if "model" in changes else BASE
    assert changes_of(base.clone(**changes), base, "Clerk") is None


def test_a_forged_record_adds_no_tool_and_drops_no_guardrail() -> None:
    forged: dict[str, Any] = {
        "of": "Clerk",
        "tools": [7, -1, "refund", True, 0],
        "input_guardrails": [],
        "hooks": "none",
        "name": "Boss",
    }
    made = with_changes(BASE, forged, "Clerk")
    assert all(any(tool is one for one in BASE.tools) for tool in made.tools)
    assert (made.name, made.input_guardrails) == ("Clerk", [polite])


def test_a_registry_names_and_finds_what_a_run_has_recorded() -> None:
    registry = Registry([BASE])
    clone = BASE.clone(instructions="You serve Ann.")
    assert registry.changed(clone, 7) == (
        "Clerk (7)",
        {"of": "Clerk", "instructions": "You serve Ann."},
    )
    assert registry.changed(Agent(name="Nobody"), 7) is None, "none of this name is registered"
    of_run = registry.with_changed({"Clerk (7)": {"of": "Clerk", "instructions": "You serve Ann."}})
    made = of_run.agent("Clerk (7)")
    assert (made.name, made.instructions) == ("Clerk", "You serve Ann.")
    assert of_run.name_of(made) == "Clerk (7)"
    assert of_run.policy_owner(made) == "Clerk", (
        "what operators say of an agent holds for its clones"
    )
    assert of_run.changes_of_chosen("Clerk (7)") is not None
    assert of_run.changes_of_chosen("Clerk") is None
    assert registry.names == ["Clerk"], "no other run has it"
    assert of_run.agent("Clerk") is BASE
