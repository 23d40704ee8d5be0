"""Several models of one agent, of which the next is called where one does not answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from outlast.agents.callables import check_model
from outlast.agents.config.model_settings import (
    ModelSettings,
    read_model_settings,
    write_model_settings,
)
from outlast.agents.config.settings_field import as_settings
from outlast.agents.errors import UserError
from outlast.loop.values import Json, JsonObject

LEAST: Final = 2
_PAIR: Final = 2


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """One of an agent's models.

    Attributes:
        model: a model's name, or a model; None for the provider's default.
        settings: the settings of its calls in place of the agent's; None for the agent's.
    """

    model: Any
    settings: ModelSettings | None = None


class FallbackModel:
    """Models that are called in order, each where the one before does not answer.

        Agent("Support", model=FallbackModel("gpt-5.6", "litellm/anthropic/claude-sonnet-4-5"))

    The next model follows when the retries of one are used up, or when it refuses for a reason of
    its own: it is overloaded, its quota is used up, its key does not work, or it is gone. A request
    that it finds invalid, and content that it declines, are no such reasons. A question stays with
    the model that answers, and the next question begins with the first model again.

    Once text of a streamed reply has left, no other model follows. Where a provider keeps the
    conversation, only models of that provider do.

    Attributes:
        choices: the models, each with its settings.
    """

    def __init__(self, *models: Any) -> None:
        """Name the models.

        Args:
            *models: names or models, in order, and None for the provider's default. A pair of a
                model and `ModelSettings` has settings of its own, which replace those of the agent;
                the run's settings override both.

        Raises:
            UserError: there are fewer than two, or one is no model.
        """
        if len(models) < LEAST:
            raise UserError(
                "FallbackModel(...) takes two models at least, the first and the one that follows it."
                " Pass a single model as model= itself."
            )
        self.choices: tuple[ModelChoice, ...] = tuple(
            _choice(f"FallbackModel(...): model {number}", model)
            for number, model in enumerate(models, 1)
        )

    def __repr__(self) -> str:
        models = ", ".join(repr(one.model) for one in self.choices)
        return f"FallbackModel({models})"


def _choice(place: str, model: object) -> ModelChoice:
    settings: object = None
    if isinstance(model, tuple):
        pair = cast("tuple[object, ...]", model)
        if len(pair) != _PAIR:
            raise UserError(f"{place} must be a model, or a pair (model, ModelSettings(...)).")
        model, settings = pair
        if isinstance(settings, Mapping):
            settings = as_settings(ModelSettings, cast("Mapping[str, Any]", settings))
        if not isinstance(settings, ModelSettings):
            raise UserError(
                f"{place} must be a model, or a pair (model, ModelSettings(...)): the second of the "
                f"pair is {settings!r:.80}."
            )
    if isinstance(model, FallbackModel):
        raise UserError(f"{place} is a FallbackModel: name its models here, in one list.")
    check_model(place, model)
    return ModelChoice(model, settings)


def check_models(place: str, value: object) -> None:
    """Refuse a value that is no model's name, no model, no `FallbackModel`, and not None.

    Raises:
        UserError: it is none of them.
    """
    if not isinstance(value, FallbackModel):
        check_model(place, value)


def choices_of(value: Any) -> tuple[ModelChoice, ...]:
    """Return the models of a setting: of one model, a `FallbackModel`, or the record of one."""
    if isinstance(value, FallbackModel):
        return value.choices
    if not isinstance(value, list):
        return (ModelChoice(value),)
    # A run's settings may have been typed by hand.
    named = [_read(one) for one in cast("list[object]", value)]
    return tuple(one for one in named if one is not None) or (ModelChoice(None),)


def followed_by(
    choices: Sequence[ModelChoice], names: Sequence[str] | None
) -> tuple[ModelChoice, ...]:
    """Return models with what the operators name after the first of them; None changes nothing.

    A model that the code names, too, keeps its settings.
    """
    if names is None:
        return tuple(choices)
    known = {one.model: one for one in choices[1:] if isinstance(one.model, str)}
    return (choices[0], *(known.get(name) or ModelChoice(name) for name in names))


def first_model(value: Any) -> Any:
    """Return the first model of a setting, or its name."""
    return choices_of(value)[0].model


def write_choices(value: FallbackModel) -> list[JsonObject] | None:
    """Return models as data of a run, which any worker can read; None if they are no data."""
    written: list[JsonObject] = []
    for one in value.choices:
        if not (one.model is None or isinstance(one.model, str)):
            return None
        record: JsonObject = {"model": one.model}
        if one.settings is not None:
            retry = one.settings.retry
            if retry is not None and callable(retry.policy):
                return None
            try:
                record["settings"] = write_model_settings(one.settings)
            except UserError:  # they are no data
                return None
        written.append(record)
    return written


def read_models(value: Json) -> Any:
    """Return the setting that a record of models was written from."""
    choices = choices_of(value)
    if not isinstance(value, list):
        return value
    if len(choices) < LEAST:
        return choices[0].model
    return FallbackModel(
        *(one.model if one.settings is None else (one.model, one.settings) for one in choices)
    )


def _read(value: object) -> ModelChoice | None:
    record = cast("JsonObject", value) if isinstance(value, dict) else {"model": value}
    model: object = record.get("model")
    if not (model is None or isinstance(model, str)):
        return None
    settings: object = record.get("settings")
    if not isinstance(settings, dict):
        return ModelChoice(model)
    return ModelChoice(model, read_model_settings(cast("JsonObject", settings)) or ModelSettings())
