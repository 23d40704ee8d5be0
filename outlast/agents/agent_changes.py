"""Agents that differ from a registered one in data only, so that a run can record them.

A handoff's callback may return a clone of a registered agent, such as one with other instructions.
The run records the changes, and any worker with the registered agent can make the clone again.
"""

from dataclasses import fields
from typing import Any, Final, cast

from outlast.agents.agent import Agent
from outlast.agents.checks import json_problem
from outlast.agents.config.fallback_model import FallbackModel, read_models, write_choices
from outlast.agents.config.model_settings import read_model_settings, write_model_settings
from outlast.agents.config.secret_settings import secret_in
from outlast.agents.errors import UserError
from outlast.agents.json_values import is_list
from outlast.loop.values import Json, JsonObject

OF: Final = "of"
"""The key of the registered agent's name in the record of the changes."""

_DATA: Final = ("instructions", "handoff_description", "model", "reset_tool_choice")
"""Fields that are recorded where they are data; a prompt or a model may be a callable."""


def changes_of(agent: Agent[Any], base: Agent[Any], name: str) -> JsonObject | None:
    """Return how an agent differs from the registered one with a name; None if that is no data."""
    changes: JsonObject = {OF: name}
    for field in fields(base):
        before: object = getattr(base, field.name)
        after: object = getattr(agent, field.name)
        if field.name == "name" or _is_same(before, after):
            continue
        if field.name == "tools":
            kept = _places(cast("list[object]", after), cast("list[object]", before))
        elif field.name == "model_settings":
            kept = _settings(agent)
        elif isinstance(after, FallbackModel):
            kept = write_choices(after)
            kept = None if kept is not None and secret_in({"model": kept}) else kept
        else:
            kept = after if field.name in _DATA and json_problem(after) is None else None
        if kept is None and after is not None:
            return None
        changes[field.name] = kept
    return changes


def with_changes(base: Agent[Any], changes: JsonObject, name: str) -> Agent[Any]:
    """Return the agent that recorded changes make of a registered one.

    Whoever can start a run can write the record: it changes data, and never adds a tool.
    """
    made: dict[str, Any] = {key: changes[key] for key in _DATA if key in changes}
    if "model" in made:
        made["model"] = read_models(made["model"])
    places: object = changes.get("tools")
    if is_list(places):
        tools = [
            base.tools[at] for at in places if isinstance(at, int) and 0 <= at < len(base.tools)
        ]
        made["tools"] = tools
    if "model_settings" in changes:
        made["model_settings"] = read_model_settings(changes["model_settings"])
    return base.clone(name=name, **made)


def _is_same(before: object, after: object) -> bool:
    if is_list(before) and is_list(after):
        return [id(one) for one in before] == [id(one) for one in after]
    if before is after:
        return True
    return json_problem(cast("Json", before)) is None and before == after


def _places(some: list[object], every: list[object]) -> list[Json] | None:
    """Return where these tools are among those of the registered agent; None if one is not."""
    places = {id(tool): place for place, tool in enumerate(every)}
    found = [places.get(id(tool)) for tool in some]
    return None if None in found else cast("list[Json]", found)


def _settings(agent: Agent[Any]) -> JsonObject | None:
    retry = agent.model_settings.retry
    try:
        written = write_model_settings(agent.model_settings)
    except UserError:  # they are no data
        return None
    has_code = retry is not None and callable(retry.policy)
    return None if has_code or secret_in(written) is not None else written
