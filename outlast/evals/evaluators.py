"""Evaluators of trajectories: pure checks of what a run did, which no text of a model can sway."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from pydantic_evals.evaluators import EvaluationReason, Evaluator, EvaluatorContext

from outlast.edges.rendering import call_line, joined, json_text
from outlast.evals.trajectory import ToolCall, Trajectory

Order: TypeAlias = Literal["exact", "in_order", "any_order"]
Ctx: TypeAlias = EvaluatorContext[Any, Trajectory, Any]
Outcome: TypeAlias = EvaluationReason | Mapping[str, bool]

PASSED: Final = EvaluationReason(value=True)
NOTHING: Final[Mapping[str, bool]] = {}
"""The outcome where a case expects nothing, so that nothing is counted as passed."""


@dataclass(repr=False)
class ToolsCalled(Evaluator[Any, Trajectory, Any]):
    """Checks which tools ran, and in which order.

    Attributes:
        tools: the names of the tools; None: those of the expected output.
        order: `in_order`: these tools in this order, others may run between them; `any_order`: all
            of them; `exact`: these and no others, in this order.
        arguments: compare the arguments with those of the expected output, too.
        never: tools that must not run.
    """

    tools: list[str] | None = None
    order: Order = "in_order"
    arguments: bool = False
    never: list[str] = field(default_factory=list[str])

    def evaluate(self, ctx: Ctx) -> Outcome:
        """Compare the tools that ran."""
        ran = ctx.output.tool_calls
        for one in ran:
            if one.tool in self.never:
                return _failed(_line(one), " ran, and must never run")
        wanted = self._wanted(ctx.expected_output)
        if wanted is None:
            return PASSED if self.never else NOTHING
        found = [self._key(one) for one in ran]
        if _fits(wanted, found, self.order):
            return PASSED
        return _failed(f"expected {self.order} ", _listed(wanted), "; ran: ", _listed(found))

    def _wanted(self, expected: Trajectory | None) -> list[str] | None:
        if self.tools is not None:
            return list(self.tools)
        return None if expected is None else [self._key(one) for one in expected.tool_calls]

    def _key(self, one: ToolCall) -> str:
        return _line(one) if self.arguments and self.tools is None else one.tool


@dataclass(repr=False)
class AgentPath(Evaluator[Any, Trajectory, Any]):
    """Checks which agents had the conversation, in order.

    Attributes:
        agents: the names of the agents; None: those of the expected output.
    """

    agents: list[str] | None = None

    def evaluate(self, ctx: Ctx) -> Outcome:
        """Compare the agents."""
        expected = ctx.expected_output
        wanted = self.agents if self.agents is not None else expected and list(expected.agents)
        if wanted is None:
            return NOTHING
        found = list(ctx.output.agents)
        if found == wanted:
            return PASSED
        return _failed("expected ", _listed(wanted), "; found ", _listed(found))


@dataclass(repr=False)
class NoEffectWithoutApproval(Evaluator[Any, Trajectory, Any]):
    """Checks that guarded tools ran only after people had approved the call.

    The run's recording says of each call whether people had approved it. What a model says about an
    approval counts for nothing.

    Attributes:
        tools: the guarded tools; None: those about which people were asked, in the recorded run or
            in this one.
    """

    tools: list[str] | None = None

    def evaluate(self, ctx: Ctx) -> Outcome:
        """Look for a call of a guarded tool that nobody has approved."""
        runs = [one for one in (ctx.expected_output, ctx.output) if one is not None]
        asked = {one.tool for run in runs for one in run.approvals}
        guarded = asked if self.tools is None else set(self.tools)
        if not guarded:
            return NOTHING
        for one in ctx.output.tool_calls:
            if one.tool in guarded and not one.approved:
                return _failed(_line(one), " ran, and nobody had approved it")
        return PASSED


@dataclass(repr=False)
class MaxCost(Evaluator[Any, Trajectory, Any]):
    """Checks what the model calls of a case cost.

    Attributes:
        usd: the most that they may cost, in US dollars.
    """

    usd: float

    def evaluate(self, ctx: Ctx) -> Outcome:
        """Compare the cost."""
        cost = ctx.output.cost_usd
        if cost is None:
            return _failed("a model has no price: add it to outlast-prices.toml")
        if cost <= self.usd:
            return PASSED
        return _failed(f"cost ${cost:.4f}, and may cost ${self.usd:.4f}")


def _fits(wanted: Sequence[str], found: Sequence[str], order: Order) -> bool:
    if order == "exact":
        return list(wanted) == list(found)
    if order == "any_order":
        return not Counter(wanted) - Counter(found)
    rest = iter(found)
    return all(one in rest for one in wanted)


def _line(one: ToolCall) -> str:
    arguments = one.arguments
    text = (
        arguments
        if isinstance(arguments, str)
        else json_text({} if arguments is None else arguments)
    )
    return call_line(one.tool, text)


def _listed(names: Sequence[str]) -> str:
    parts = [part for name in names for part in (", ", name)]
    return joined(*parts[1:]) if parts else "none"


def _failed(*parts: str) -> EvaluationReason:
    return EvaluationReason(value=False, reason=joined(*parts))
