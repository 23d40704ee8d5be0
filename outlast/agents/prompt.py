"""Prompts that the provider stores: fixed, or chosen before every model call."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NotRequired, TypeAlias, TypedDict, cast

from outlast.agents.callables import call, check_callable
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.loop.values import JsonObject


class Prompt(TypedDict):
    """A prompt that the provider stores.

    Attributes:
        id: the provider's id of the prompt.
        version: the version of the prompt; default: the newest.
        variables: the values of the prompt's placeholders.
    """

    id: str
    version: NotRequired[str]
    variables: NotRequired[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class GenerateDynamicPromptData:
    """The argument of a `DynamicPromptFunction`; `agent` is about to call its model."""

    context: RunContextWrapper[Any]
    agent: Any


DynamicPromptFunction: TypeAlias = Callable[[GenerateDynamicPromptData], Prompt | Awaitable[Prompt]]
"""A function called with (data) that returns a prompt for each model call."""


def check_prompt(place: str, prompt: object) -> None:
    """Refuse an invalid prompt; None is valid."""
    if callable(prompt):
        check_callable(prompt, ("data",), what=place)
    elif prompt is not None:
        _check(prompt, place)


async def prompt_of(
    prompt: Prompt | DynamicPromptFunction | None, context: RunContextWrapper[Any], agent: Any
) -> JsonObject | None:
    """Return the prompt for the request of one model call, or None."""
    found: object = prompt
    if callable(found):
        found = await call(found, GenerateDynamicPromptData(context=context, agent=agent))
    if found is None:
        return None
    return _check(found, f"Agent {agent.name!r}: prompt")


def _check(prompt: object, place: str) -> JsonObject:
    entry = cast("Mapping[str, Any]", prompt) if isinstance(prompt, Mapping) else None
    if entry is None or not isinstance(entry.get("id"), str):
        raise UserError(
            f"{place} must be a dict with an id, as in {{'id': 'pmpt_1'}}, or a callable "
            f"that makes one, not {prompt!r}."
        )
    if unknown := sorted(entry.keys() - Prompt.__annotations__.keys()):
        raise UserError(
            f"{place} has the keys id, version and variables, not {', '.join(unknown)}."
        )
    return {key: value for key, value in entry.items() if value is not None}
