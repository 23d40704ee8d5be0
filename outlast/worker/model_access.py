"""Checks the names and keys of models before the first call."""

from typing import Any, Final

from outlast.agents.approvals.policy_file import ApprovalFile
from outlast.agents.config.fallback_model import choices_of, followed_by
from outlast.agents.errors import UserError
from outlast.agents.registry import Registry
from outlast.ports.model import CheckableModel, ModelError, ModelProvider

_OFFLINE: Final = (
    "To work without a model, give the agent scripted answers: model=ScriptedModel(...) of "
    "outlast.testing."
)


async def places_of_models(
    registry: Registry, provider: ModelProvider, file: ApprovalFile | None = None
) -> tuple[str, ...]:
    """Check the models of all agents, and return where they are, each place once.

    `file` is the operators' file, which may name further models.
    """
    places: dict[str, None] = {}
    checked: set[int] = set()
    for name in registry.names:
        for one in _models_of(registry, name, file):
            model = provider.get_model(one) if one is None or isinstance(one, str) else one
            if isinstance(model, CheckableModel) and id(model) not in checked:
                checked.add(id(model))
                try:
                    places[await model.check_access()] = None
                except ModelError as error:
                    hint = "" if "ScriptedModel" in error.message else f" {_OFFLINE}"
                    raise UserError(
                        f"Agent {name!r} has no model. {error.message}{hint}"
                    ) from error
    return tuple(places)


def check_following_models(
    registry: Registry, provider: ModelProvider, file: ApprovalFile | None
) -> None:
    """Refuse a name of a model after an agent's first that the provider does not know.

    It would come to light only when the first model does not answer.

    Raises:
        UserError: a name is unknown; the message says what to write.
    """
    for name in registry.names:
        _, *following = _models_of(registry, name, file)
        for model in following:
            if model is None or isinstance(model, str):
                try:
                    provider.get_model(model)
                except UserError as error:
                    raise UserError(
                        f"Agent {name!r}: the fallback model {model!r} is unknown. {error.message}"
                    ) from error


def _models_of(registry: Registry, name: str, file: ApprovalFile | None) -> list[Any]:
    agent = registry.agent(name)
    names = None if file is None else file.models_after(registry.policy_owner(agent))
    return [one.model for one in followed_by(choices_of(agent.model), names)]
