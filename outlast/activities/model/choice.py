"""Which model an agent's call uses, and what it costs."""

from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, Final, cast

from outlast.activities.errors import EffectError, mistake, of_model, of_user_code
from outlast.activities.inner_spans import own_name
from outlast.activities.invocation import Invocation
from outlast.agents.config.compaction import Compaction, check_compacting
from outlast.agents.config.settings import MODEL_REF
from outlast.agents.errors import UserError
from outlast.agents.logs import get_logger
from outlast.agents.usage import AnyUsage, plain_usage
from outlast.contract import failures
from outlast.contract.records import budgets_of
from outlast.loop.values import JsonObject, Usage
from outlast.ports.model import CompactingModel, Model, ModelError, ModelProvider
from outlast.pricing import ModelPrice, Pricing, micros

logger: Final = get_logger(__name__)


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


def check_price(settings: JsonObject, model: object, label: str) -> None:
    """Refuse a model without a price, if a budget of the run counts money.

    Called before the model call, so that nothing is spent that the budget cannot count.

    Args:
        settings: the settings of the run.
        model: the model.
        label: its name for people.

    Raises:
        EffectError: the model has no price.
    """
    if all(budget.of != "cost_micros" for budget in budgets_of(settings)):
        return
    try:
        price = _price(label, own_name(model))
    except UserError as error:
        raise mistake(str(error)) from error
    if price is None:
        raise EffectError(
            failures.USER_ERROR,
            f"The run has a budget in money, and the model {label!r} has no price. Add it to the "
            "file that OUTLAST_PRICES names, and restart the worker.",
            retryable=False,
        )


def priced(usage: AnyUsage, model: object, label: str) -> Usage:
    """Return the usage of a model call with its cost, if that is known.

    Every model call has input and output, so the cost of a call without their counts is unknown.
    Raises nothing, because the call is paid.

    Args:
        usage: what the model reports.
        model: the model.
        label: its name for people.
    """
    counts = plain_usage(usage)
    if not (counts.input_tokens and counts.output_tokens):
        return counts
    counts = replace(counts, requests=max(counts.requests, 1))
    try:
        price = _price(label, own_name(model))
        cost_micros = None if price is None else micros(price, counts)
    except (UserError, LookupError, ValueError, ArithmeticError) as error:
        logger.warning("The cost of a call of the model %r is unknown: %s", label, error)
        return counts
    if cost_micros is None:
        return counts
    return replace(counts, cost_micros=cost_micros, priced=counts.requests)


@lru_cache(maxsize=1024)
def _price(label: str, own: str) -> ModelPrice | None:
    """Return the price of a model; finding that of `genai-prices` takes a millisecond or more.

    A run may not know the name of a model: of its worker's default, or of an object.

    Raises:
        UserError: the file with prices cannot be read.
    """
    return _pricing().price(label) or _pricing().price(own)


_pricing = cache(Pricing.load)
