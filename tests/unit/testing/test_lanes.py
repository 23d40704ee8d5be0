"""Three lanes: a recorded run, and what the old and the new version make of it."""

from dataclasses import replace
from typing import Any

from outlast import Agent, function_tool
from outlast.client.recordings import Recording
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, record_in_memory, replay_lanes, say


@function_tool
def look_up(order_id: str) -> str:
    """Look an order up."""
    return f"{order_id}: 40 EUR"


@function_tool
def refund(order_id: str) -> str:
    """Refund an order."""
    return "refunded"


def desk(instructions: str, **changes: Any) -> Agent[Any]:
    changed = replace(refund, **changes)
    return Agent(name="Desk", instructions=instructions, tools=[look_up, changed])


async def recorded() -> Recording:
    model = ScriptedModel([call("look_up", "c1", order_id="A")], "It is 40 EUR.")
    return await record_in_memory(desk("Look."), "Where is A?", model=model)


def by_prompt(request: ModelRequest) -> Any:
    """Reply as the instructions say, as a real model would."""
    if any(one.get("type") == "function_call_output" for one in request.input):
        return say("Done.")
    name = "refund" if request.instructions == "Refund." else "look_up"
    return [call(name, "x1", order_id="A")]


async def test_another_prompt_takes_another_tool():
    lanes = await replay_lanes(
        await recorded(),
        baseline=desk("Look."),
        candidate=desk("Refund."),
        model=ScriptedModel(always=by_prompt),
    )
    assert lanes.baseline.is_same
    assert lanes.is_changed
    (row,) = lanes.rows()
    assert (row.observed, row.baseline, row.candidate) == (
        'look_up(order_id="A")',
        'look_up(order_id="A")',
        'refund(order_id="A")',
    )
    assert [str(one) for one in lanes.candidate.unknown] == ['refund(order_id="A")']
    assert lanes.report().splitlines() == [
        "in-memory: changed",
        "  question 1, turn 1, Desk",
        '    observed  look_up(order_id="A")',
        '    baseline  look_up(order_id="A")',
        '    candidate refund(order_id="A")',
    ]


async def test_what_both_versions_do_otherwise_than_observed_is_no_change():
    lanes = await replay_lanes(
        await recorded(),
        baseline=desk("Refund."),
        candidate=desk("Refund."),
        model=ScriptedModel(always=by_prompt),
    )
    assert not lanes.is_changed
    assert len(lanes.rows()) == 1
    assert not lanes.baseline.is_same


async def test_without_a_model_the_replies_are_as_recorded():
    lanes = await replay_lanes(
        await recorded(), baseline=desk("Look."), candidate=Agent(name="Desk", tools=[refund])
    )
    (row,) = lanes.rows()
    assert row.is_changed
    assert "There is no tool 'look_up'" in row.candidate
    assert row.record()["observed"] == 'look_up(order_id="A")'


async def test_an_approval_that_only_the_candidate_needs():
    lanes = await replay_lanes(
        await recorded(),
        baseline=desk("Refund."),
        candidate=desk("Refund.", needs_approval=True),
        model=ScriptedModel(always=by_prompt),
    )
    changed = [one for one in lanes.rows() if one.is_changed]
    assert [one.candidate for one in changed] == ["refund waits for the approval of anybody"]
