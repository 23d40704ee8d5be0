"""Checks the keys of models before the first call."""

from typing import Final

from outlast.agents.errors import UserError
from outlast.agents.registry import Registry
from outlast.ports.model import CheckableModel, ModelError, ModelProvider

_OFFLINE: Final = (
    "To work without a model, give the agent scripted answers: model=ScriptedModel(...) of "
    "outlast.testing."
)


async def places_of_models(registry: Registry, provider: ModelProvider) -> tuple[str, ...]:
    """Check the models of all agents, and return where they are, each place once."""
    places: dict[str, None] = {}
    checked: set[int] = set()
    for name in registry.names:
        model = registry.agent(name).model
        if model is None or isinstance(model, str):
            model = provider.get_model(model)
        if isinstance(model, CheckableModel) and id(model) not in checked:
            checked.add(id(model))
            try:
                places[await model.check_access()] = None
            except ModelError as error:
                hint = "" if "ScriptedModel" in error.message else f" {_OFFLINE}"
                raise UserError(f"Agent {name!r} has no model. {error.message}{hint}") from error
    return tuple(places)
