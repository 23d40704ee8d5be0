"""The settings of a realtime session as its first agent wants them, to accept a call with."""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from outlast.agents.callables import call
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.registry import handoffs_of
from outlast.realtime.agents import RealtimeAgent
from outlast.realtime.port.config import RealtimeRunConfig, RealtimeSessionModelSettings
from outlast.realtime.port.model import RealtimeModelConfig

if TYPE_CHECKING:
    from outlast.agents.prompt import Prompt

T = TypeVar("T")


async def initial_settings(
    agent: RealtimeAgent[Any],
    context: object,
    *,
    model_config: RealtimeModelConfig | None = None,
    run_config: RealtimeRunConfig | None = None,
    overrides: RealtimeSessionModelSettings | None = None,
) -> RealtimeSessionModelSettings:
    """Return the settings of a session that starts with an agent.

    Each source precedes those before it: the run's settings, the agent's instructions, tools and
    handoffs, the model's initial settings, the overrides.
    """
    wrapper = RunContextWrapper[Any](context)
    run_settings = (run_config or {}).get("model_settings") or {}
    initial = (model_config or {}).get("initial_model_settings") or {}
    instructions, prompt, tools = await asyncio.gather(
        agent.get_system_prompt(wrapper),
        agent.get_prompt(wrapper),
        agent.get_all_tools(wrapper),
    )
    own: RealtimeSessionModelSettings = {
        "instructions": instructions or "",
        "tools": tools,
        "handoffs": handoffs_of(agent),
    }
    if prompt is not None:
        stored: Prompt = prompt  # pyright: ignore[reportAssignmentType]  the same keys
        own["prompt"] = stored
    settings: RealtimeSessionModelSettings = {**run_settings, **own, **initial, **(overrides or {})}
    settings["tools"] = await _enabled(settings.get("tools") or (), wrapper, agent)
    settings["handoffs"] = await _enabled(settings.get("handoffs") or (), wrapper, agent)
    if (run_config or {}).get("tracing_disabled"):
        settings["tracing"] = None
    return settings


async def _enabled(
    entries: Iterable[T], wrapper: RunContextWrapper[Any], agent: RealtimeAgent[Any]
) -> list[T]:
    return [entry for entry in entries if await _is_enabled(entry, wrapper, agent)]


async def _is_enabled(
    entry: object, wrapper: RunContextWrapper[Any], agent: RealtimeAgent[Any]
) -> bool:
    enabled: Any = getattr(entry, "is_enabled", True)
    return bool(await call(enabled, wrapper, agent)) if callable(enabled) else enabled is not False
