"""Which model an agent's call uses, which one follows if it does not answer, and what it costs."""

from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, Final, cast

from outlast.activities.errors import EffectError, mistake, model_code
from outlast.activities.inner_spans import own_name
from outlast.activities.invocation import Invocation
from outlast.activities.model.retry import OF_THE_MODEL
from outlast.agents.config.compaction import Compaction, check_compacting
from outlast.agents.config.fallback_model import (
    ModelChoice,
    choices_of,
    first_model,
    followed_by,
)
from outlast.agents.config.settings import MODEL_REF
from outlast.agents.errors import ModelTimeoutError, UserError
from outlast.agents.logs import get_logger
from outlast.agents.usage import AnyUsage, plain_usage
from outlast.contract import failures
from outlast.contract.effects import EffectRequest
from outlast.contract.records import budgets_of
from outlast.contract.streams.window import ShownText
from outlast.loop.effects import CallModel
from outlast.loop.fallback import NEXT_MODEL
from outlast.loop.values import JsonObject, Usage
from outlast.ports.model import CompactingModel, Model, ModelProvider
from outlast.pricing import ModelPrice, Pricing, micros

logger: Final = get_logger(__name__)

REASONS: Final = frozenset({
    "bad_response", "not_found", "overloaded", "quota_exceeded", "rate_limited", "server_error",
    "timeout", "unauthorized", "unreachable",
})  # fmt: skip
"""Why a model does not answer, where another one may. Not a request that is invalid, which another
model would get as well, nor a missing key, which is a mistake of the set-up."""


def model_label(model: object) -> str:
    """Return a model's name for people: its name, or the class of an object; of several, the first's."""
    model = first_model(model)
    if model is None:
        return ""
    return model if isinstance(model, str) else type(model).__name__


def chosen_models(invocation: Invocation) -> tuple[ModelChoice, ...]:
    """Return the models that a call may use, in order: the run's outrank the agent's.

    The operators' file names what follows the first of them.
    """
    found = choices_of(
        invocation.reference(MODEL_REF)
        or invocation.settings.get("model")
        or invocation.agent.model
    )
    file = invocation.worker.approvals
    if file is None or not file.fallbacks:
        return found
    owner = invocation.worker.registry.policy_owner(invocation.agent)
    return followed_by(found, file.models_after(owner))


def chosen_model(invocation: Invocation) -> ModelChoice:
    """Return the model of a call, which may be one after the agent's first.

    After a deploy with fewer models, it is the last.
    """
    models = chosen_models(invocation)
    return models[min(invocation.model_at, len(models) - 1)]


def model_of(invocation: Invocation, chosen: Any = None) -> tuple[Model, str]:
    """Return a model and its name for people.

    Args:
        invocation: the invocation.
        chosen: a model or its name; None for that of the run, or else of the agent.

    Raises:
        EffectError: there is no such model.
    """
    return found_model(invocation, chosen_model(invocation).model if chosen is None else chosen)


def found_model(invocation: Invocation, model: Any) -> tuple[Model, str]:
    """Return a model and its name for people; None is the provider's default.

    Raises:
        EffectError: there is no such model.
    """
    if model is not None and not isinstance(model, str):
        return model, model_label(model)
    provider: ModelProvider = invocation.reference("model_provider") or invocation.worker.models
    with model_code(f"The model provider, asked for {model!r},"):
        found = cast("object", provider.get_model(model))
    if not callable(getattr(found, "get_response", None)):
        raise mistake(
            f"The model provider {type(provider).__name__}, asked for {model!r} of agent "
            f"{invocation.agent.name!r}, returned {type(found).__name__}: get_model must return a "
            "model, which is an object with get_response."
        )
    return cast("Model", found), model_label(model)


def has_next(invocation: Invocation) -> bool:
    """Whether the agent has a model after the one that is called."""
    return invocation.model_at < len(chosen_models(invocation)) - 1


def offer_next(
    invocation: Invocation,
    request: EffectRequest[CallModel],
    error: EffectError,
    shown: ShownText | None,
) -> None:
    """Say with the failure of a model which one may follow, if the failure is the last.

    Where the provider holds something that only its models can use, only those follow. A response
    that the provider makes in the background is waited for as long as it may come.
    """
    may_come = request.effect.begun is not None and error.retryable
    if may_come or (shown is not None and shown.has_left) or not _is_its_own(error):
        return
    models = chosen_models(invocation)
    for at in range(invocation.model_at + 1, len(models)):
        if _may_follow(invocation, request, models[at].model):
            error.details = {
                **(error.details or {}),
                NEXT_MODEL: {
                    "at": at,
                    "model": model_label(models[at].model),
                    "tried": model_label(models[invocation.model_at].model),
                },
            }
            return


def _is_its_own(error: EffectError) -> bool:
    """Whether a model failed for a reason of its own."""
    if error.code == ModelTimeoutError.code:
        return True
    return error.code in OF_THE_MODEL and (error.details or {}).get("reason") in REASONS


def _may_follow(
    invocation: Invocation, request: EffectRequest[CallModel], following: object
) -> bool:
    is_bound = invocation.server_managed or any(
        item.raw.get("type") == "compaction" for item in request.items
    )
    if not is_bound:
        return True
    try:
        model, _ = found_model(invocation, chosen_model(invocation).model)
        other, _ = found_model(invocation, following)
    except EffectError:
        return False
    return _keeper(model) == _keeper(other)


def _keeper(model: object) -> object:
    """Return who keeps conversations for a model: a server, or else models of its class."""
    place = getattr(model, "conversations_at", None)
    return place() if callable(place) else type(model)


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


def check_models(invocation: Invocation) -> None:
    """Refuse models that do not exist, or that a budget in money cannot count.

    Called when an agent starts, before the first model is paid for.

    Raises:
        EffectError: a model is unknown, or has no price.
    """
    models = chosen_models(invocation)
    for one in models[1:]:
        model, label = found_model(invocation, one.model)
        check_price(invocation.settings, model, label)


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
    if not counts.requests:
        counts = replace(counts, requests=1)
    try:
        price = _price(label, own_name(model))
        cost_micros = None if price is None else micros(price, counts)
    except (UserError, LookupError, ValueError, ArithmeticError) as error:
        logger.warning("The cost of a call of the model %r is unknown: %s", label, error)
        return counts
    if cost_micros is None:
        return counts
    return counts.plus(Usage(cost_micros=cost_micros, priced=counts.requests))


@lru_cache(maxsize=1024)
def _price(label: str, own: str) -> ModelPrice | None:
    """Return the price of a model; finding that of `genai-prices` takes a millisecond or more.

    A run may not know the name of a model: of its worker's default, or of an object.

    Raises:
        UserError: the file with prices cannot be read.
    """
    return _pricing().price(label) or _pricing().price(own)


_pricing = cache(Pricing.load)
