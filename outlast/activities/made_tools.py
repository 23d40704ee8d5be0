"""The tools of agents whose class has its own `get_all_tools`."""

from typing import Any, cast

from outlast.activities.errors import user_code
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.agent import Agent, check_tools
from outlast.agents.agent_tools.agent_tool import AgentTool
from outlast.agents.callables import call
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.agents.registry import Registry, target_of
from outlast.agents.tools.hosted import Tool, function_tools
from outlast.contract.names import SETTING_AS_TOOL
from outlast.loop.effects import AgentEffect


async def made_tools(
    registry: Registry, agent: Agent[Any], name: str, context: RunContextWrapper[Any]
) -> list[Tool]:
    """Return what an agent's `get_all_tools` returns, and keep it for later calls.

    Args:
        registry: keeps the tools, and the agents that are tools.
        agent: the agent, of a class with its own method.
        name: the agent's name in the registry.
        context: the context of the run.

    Raises:
        EffectError: it failed, or returned something else than tools.
    """
    what = f"get_all_tools of agent {agent.name!r}"
    with user_code(what):
        tools: object = await call(agent.get_all_tools, context)
        check_tools(what, tools)
    made = cast("list[Tool]", tools)
    for tool in made:
        if isinstance(tool, AgentTool) and not registry.has(target_of(tool)):
            registry.replace(target_of(tool))  # each call may make a new one
    registry.keep_listed(name, function_tools(made))
    return made


async def find_made_parent(worker: WorkerDeps, effect: AgentEffect) -> None:
    """Let a worker know the tool that a nested run answers, if the parent's agent makes its tools.

    Another worker, or another run's definitions, may have been asked for it.

    Raises:
        EffectError: the agent's `get_all_tools` failed.
    """
    setting: Any = (effect.settings or {}).get(SETTING_AS_TOOL)
    if not isinstance(setting, dict):
        return
    call_ = cast("dict[str, Any]", setting)
    registry, name = worker.registry, str(call_.get("agent"))
    try:
        agent = registry.agent(name)
    except UserError:
        return
    if not agent.makes_tools:
        return
    try:
        registry.tool(name, str(call_.get("tool")))
    except UserError:
        borrowed = worker.borrow(effect.context, effect.context_type)
        wrapper = RunContextWrapper(borrowed.context, run_id=effect.run_id)
        await made_tools(registry, agent, name, wrapper)
