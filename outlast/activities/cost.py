"""The cost of a model call, for runs with a budget in money."""

from functools import cache

from outlast.activities.errors import EffectError
from outlast.contract import failures
from outlast.contract.records import budgets_of
from outlast.loop.calls import ModelReply
from outlast.loop.values import JsonObject
from outlast.pricing import ModelPrice, Pricing


def price_for(settings: JsonObject, model: str) -> ModelPrice | None:
    """Return the price of a model, if a budget of the run counts money; None otherwise.

    Called before the model call, so that nothing is spent that the budget cannot count.

    Raises:
        EffectError: a budget counts money, and the model has no price.
    """
    if all(budget.of != "cost_micros" for budget in budgets_of(settings)):
        return None
    price = _pricing().price(model)
    if price is None:
        raise EffectError(
            failures.USER_ERROR,
            f"The run has a budget in money, and the model {model!r} has no price. Add it to the "
            "file that OUTLAST_PRICES names, and restart the worker.",
            retryable=False,
        )
    return price


def cost_micros(price: ModelPrice | None, reply: ModelReply) -> int:
    """Return the cost of a model call in millionths of a US dollar; 0 without a price."""
    return 0 if price is None else round(price.cost(reply.usage) * 1_000_000)


@cache
def _pricing() -> Pricing:
    return Pricing.load()
