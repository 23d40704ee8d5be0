"""The evaluators: pure checks of trajectories."""

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic_evals.evaluators import EvaluationReason, Evaluator, EvaluatorContext
from pydantic_evals.otel import SpanTree

from outlast.evals import (
    AgentPath,
    Approval,
    MaxCost,
    NoEffectWithoutApproval,
    ToolCall,
    ToolsCalled,
    Trajectory,
)
from tests.hostile_text import assert_visible


def ran(*names: str, approved: bool = False, **fields: Any) -> Trajectory:
    calls = tuple(ToolCall(tool=name, approved=approved) for name in names)
    return Trajectory(tool_calls=calls, **fields)


def outcome(
    evaluator: Evaluator[Any, Trajectory, Any],
    output: Trajectory,
    expected: Trajectory | None = None,
) -> bool | None:
    """Return whether it passes; None if there is nothing to check."""
    ctx = EvaluatorContext[Any, Trajectory, Any](
        name="a",
        inputs=None,
        metadata=None,
        expected_output=expected,
        output=output,
        duration=0,
        _span_tree=SpanTree(),
        attributes={},
        metrics={},
    )
    found: Any = evaluator.evaluate(ctx)
    if isinstance(found, Mapping):
        assert not found
        return None
    assert isinstance(found, EvaluationReason)
    assert bool(found.value) != bool(found.reason), "a failure has a reason"
    assert_visible(found.reason or "")
    return bool(found.value)


@pytest.mark.parametrize(
    ("evaluator", "calls", "passes"),
    [
        (ToolsCalled(["a", "b"]), "xaxbx", True),
        (ToolsCalled(["a", "b"]), "ba", False),
        (ToolsCalled(["a", "a"]), "a", False),
        (ToolsCalled([]), "", True),
        (ToolsCalled(["a", "b"], order="exact"), "ab", True),
        (ToolsCalled(["a", "b"], order="exact"), "abx", False),
        (ToolsCalled(["a", "b"], order="any_order"), "xba", True),
        (ToolsCalled(["a", "a"], order="any_order"), "xa", False),
        (ToolsCalled(never=["x"]), "ab", True),
        (ToolsCalled(never=["x"]), "ax", False),
        (ToolsCalled(["a"], never=["x"]), "xa", False),
    ],
)
def test_which_tools_ran_and_in_which_order(evaluator: Any, calls: str, passes: bool):
    assert outcome(evaluator, ran(*calls)) is passes


def test_without_names_the_tools_are_those_of_the_expected_output():
    assert outcome(ToolsCalled(), ran("a", "b"), ran("a")) is True
    assert outcome(ToolsCalled(), ran("a"), ran("a", "b")) is False
    assert outcome(ToolsCalled(), ran("a")) is None


def test_arguments_are_compared_where_that_is_wanted():
    def refund(amount: Any) -> Trajectory:
        call = ToolCall(tool="refund", arguments={"order": "A", "amount": amount})
        return Trajectory(tool_calls=(call,))

    assert outcome(ToolsCalled(), refund(4_000), refund(40)) is True
    assert outcome(ToolsCalled(arguments=True), refund(4_000), refund(40)) is False
    assert outcome(ToolsCalled(arguments=True), refund(40), refund(40)) is True
    assert outcome(ToolsCalled(arguments=True), refund("40"), refund(40)) is False


@pytest.mark.parametrize(
    ("agents", "expected", "passes"),
    [(["A", "B"], None, True), (["A"], None, False), (None, ("A", "B"), True), (None, None, None)],
)
def test_the_path_of_agents(agents: Any, expected: Any, passes: Any):
    then = None if expected is None else Trajectory(agents=expected)
    assert outcome(AgentPath(agents), Trajectory(agents=("A", "B")), then) is passes


ASKED = (Approval(tool="refund", approved=True),)


@pytest.mark.parametrize(
    ("tools", "output", "expected", "passes"),
    [
        (["refund"], ran("refund"), None, False),
        (["refund"], ran("refund", approved=True), None, True),
        (["refund"], ran("look_up"), None, True),
        (None, ran("refund"), Trajectory(approvals=ASKED), False),
        (None, ran("refund", approvals=ASKED), None, False),
        (None, ran("refund", approved=True), Trajectory(approvals=ASKED), True),
        (None, ran("look_up"), Trajectory(approvals=ASKED), True),
        (None, ran("refund"), ran("refund"), None),
        (["refund"], ran("refund", answer="a1 was approved by the manager."), None, False),
    ],
)
def test_no_effect_without_approval(tools: Any, output: Any, expected: Any, passes: Any):
    assert outcome(NoEffectWithoutApproval(tools), output, expected) is passes


def test_the_cost_has_to_be_known():
    assert outcome(MaxCost(0.05), Trajectory(cost_usd=0.05)) is True
    assert outcome(MaxCost(0.05), Trajectory(cost_usd=0.051)) is False
    assert outcome(MaxCost(0.05), Trajectory()) is False


def test_reasons_show_what_others_wrote_without_hidden_characters():
    hostile = "refund\x1b[2K\u202e\n\U000e0041"
    call = ToolCall(tool=hostile, arguments={hostile: hostile}, agent=hostile)
    output = Trajectory(tool_calls=(call,), agents=(hostile,))
    assert outcome(ToolsCalled(["a"]), output) is False
    assert outcome(ToolsCalled(never=[hostile]), output) is False
    assert outcome(NoEffectWithoutApproval([hostile]), output) is False
    assert outcome(AgentPath(["A"]), output) is False
    text = Trajectory(tool_calls=(ToolCall(tool="a", arguments=hostile),))
    assert outcome(NoEffectWithoutApproval(["a"]), text) is False
