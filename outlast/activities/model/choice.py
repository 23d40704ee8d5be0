"""Which model an agent's call uses, and what it costs."""

from functools import cache
from typing import Any, cast

from outlast.activities.errors import EffectError, mistake, of_model, of_user_code
from outlast.activities.invocation import Invocation
from outlast.agents.config.compaction import Compaction, check_compacting
from outlast.agents.config.settings import MODEL_REF
from outlast.agents.errors import UserError
from outlast.contract import failures
from outlast.contract.records import budgets_of
from outlast.loop.values import JsonObject, Usage
from outlast.ports.model import CompactingModel, Model, ModelError, ModelProvider
from outlast.pricing import ModelPrice, Pricing


def model_label(model: object) -> str:
    """Return a model's name for people: its name, or the class of an object."""
    if model is None:
        return ""
    return model if isinstance(model, str) else type(model).__name__


def chosen_model(invocation: Invocation) -> Any:
    """Return the model of a call, or its name: the run's model outranks the agent's."""
    return (
        invocation.reference(MODEL_REF)
        or invocation.settings.get("model")
        or invocation.agent.model
    )


def model_of(invocation: Invocation, chosen: Any = None) -> tuple[Model, str]:
    """Return a model and its name for people.

    Args:
        invocation: the invocation.
        chosen: a model or its name; None for that of the run, or else of the agent.

    Raises:
        EffectError: there is no such model.
    """
    model = chosen_model(invocation) if chosen is None else chosen
    if model is not None and not isinstance(model, str):
        return model, model_label(model)
    provider: ModelProvider = invocation.reference("model_provider") or invocation.worker.models
    try:
        found = cast("object", provider.get_model(model))
    except ModelError as error:
        raise of_model(error) from error
    except Exception as error:  # a provider may be the user's
        raise of_user_code(f"The model provider, asked for {model!r},", error) from error
    if not callable(getattr(found, "get_response", None)):
        raise mistake(
            f"The model provider {type(provider).__name__}, asked for {model!r} of agent "
            f"{invocation.agent.name!r}, returned {type(found).__name__}: get_model must return a "
            "model, which is an object with get_response."
        )
    return cast("Model", found), model_label(model)


def compacting_model(invocation: Invocation, compaction: Compaction) -> tuple[CompactingModel, str]:
    """Return the model whose provider makes an agent's conversations shorter, and its name.

    Raises:
        EffectError: there is no such model, or its provider does not.
    """
    model, label = model_of(invocation, compaction.model)
    try:
        check_compacting(f"Agent {invocation.agent.name!r}: compaction", model)
    except UserError as error:
        raise mistake(str(error)) from error
    return cast("CompactingModel", model), label


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


def cost_micros(price: ModelPrice | None, usage: Usage) -> int:
    """Return the cost of a model call in millionths of a US dollar; 0 without a price."""
    return 0 if price is None else round(price.cost(usage) * 1_000_000)


_pricing = cache(Pricing.load)
