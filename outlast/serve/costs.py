"""What model calls cost, for people to read. Prices are looked up once in a process."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, lru_cache

from outlast.client.timeline import MODEL_STEPS, Step
from outlast.loop.state import LoopState
from outlast.loop.values import Usage
from outlast.pricing import ModelPrice, Pricing

_MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class StepsCost:
    """The cost of the steps of a run.

    Attributes:
        usd: US dollars, for the model calls whose price is known.
        is_whole: whether the price of every model call is known.
        unknown: the models without a price, as far as they have names.
    """

    usd: Decimal
    is_whole: bool
    unknown: tuple[str, ...] = ()


@cache
def _pricing() -> Pricing:
    return Pricing.load()


@cache
def _price(model: str) -> ModelPrice | None:
    return _pricing().price(model)


@lru_cache(maxsize=4096)
def _cost(model: str, usage: Usage) -> Decimal | None:
    price = _price(model)
    return None if price is None else price.cost(usage)


def cost_of_step(step: Step) -> Decimal | None:
    """Return the cost of a model call in US dollars; None if its price is not known."""
    if step.kind not in MODEL_STEPS or not step.usage.total_tokens:
        return None
    known = _cost(step.model, step.usage)
    if known is None and step.cost_micros:  # the worker knew it
        return Decimal(step.cost_micros) / _MILLION
    return known


def cost_of_steps(steps: Iterable[Step]) -> StepsCost:
    """Return the cost of a run. Nested runs used models of their own, so their cost is not known."""
    usd, is_whole, unknown = Decimal(0), True, dict[str, None]()
    for step in steps:
        if not step.usage.total_tokens:
            continue
        cost = cost_of_step(step)
        usd, is_whole = usd + (cost or 0), is_whole and cost is not None
        if cost is None and step.kind in MODEL_STEPS and step.model:
            unknown[step.model] = None
    return StepsCost(usd, is_whole, tuple(unknown))


def cost_of_state(state: LoopState) -> StepsCost:
    """Return the cost of a run from its state alone."""
    usd, is_whole, counted = Decimal(0), True, 0
    for response in (*state.responses, *state.compaction.made):
        counted += response.usage.total_tokens
        cost = _cost(response.model, response.usage) if response.usage.total_tokens else Decimal(0)
        usd, is_whole = usd + (cost or 0), is_whole and cost is not None
    return StepsCost(usd, is_whole and counted >= state.usage.total_tokens)
