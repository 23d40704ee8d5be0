"""The call that a nested run answers: the tool it is, and the run and agent that called it.

Owns: `OuterCall`, read from a nested run's settings, and the outer run's tool hooks. What belongs
to a call of a tool happens in the nested run: it begins when that run is prepared, and ends when
its answer is concluded. Knows no Temporal.
"""

from dataclasses import dataclass
from typing import Any, cast

from outlast.activities.errors import lacking
from outlast.agents.agent import Agent
from outlast.agents.agent_tools.agent_tool import AgentTool, arguments_of, takes_more_than_text
from outlast.agents.config.settings import write_run_config
from outlast.agents.context.wrapper import RunContextWrapper, ToolContext
from outlast.agents.errors import ModelBehaviorError, UserError
from outlast.agents.hooks import HookCall
from outlast.agents.registry import Registry
from outlast.contract.names import SETTING_AS_TOOL
from outlast.loop.values import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterCall:
    """The call that a nested run answers.

    Attributes:
        agent: the agent that made it.
        tool: the tool.
        call_id: the call's id.
        arguments: its arguments as JSON text.
        hooks: the outer run's hooks.
    """

    agent: Agent[Any]
    tool: AgentTool
    call_id: str
    arguments: str
    hooks: Any = None

    def context(self, wrapper: RunContextWrapper[Any]) -> ToolContext[Any]:
        """Return the context of the call, as callables of the outer run get it."""
        return ToolContext[Any](
            context=wrapper.context,
            usage=wrapper.usage,
            run_id=wrapper.run_id,
            turn=wrapper.turn,
            tool_name=self.tool.name,
            tool_call_id=self.call_id,
            tool_arguments=self.arguments,
            agent=self.agent,
            idempotency_key=wrapper.run_id,
        )

    def hook_calls(
        self, step: str, wrapper: RunContextWrapper[Any], *results: Any
    ) -> list[HookCall]:
        """Return the calls of the outer hooks at the start or the end of the call."""
        arguments = (self.context(wrapper), self.agent, self.tool, *results)
        return [
            HookCall(self.hooks, step, *arguments),
            HookCall(self.agent.hooks, step, *arguments),
        ]

    def tool_input(self) -> Any:
        """Return the arguments as the nested run's callables see them.

        None for plain text, and for arguments that do not fit, which the run's start tells.
        """
        if not takes_more_than_text(self.tool):
            return None
        try:
            return arguments_of(self.tool, self.arguments)
        except ModelBehaviorError:
            return None


def outer_call_of(registry: Registry, settings: JsonObject) -> OuterCall | None:
    """Return the call that a run answers, or None for a run that works for nobody.

    Raises:
        EffectError: this worker does not know the tool.
    """
    given: Any = settings.get(SETTING_AS_TOOL)
    if not isinstance(given, dict):
        return None
    told = cast("dict[str, str]", given)
    try:
        tool = registry.tool(told["agent"], told["tool"])
        agent = registry.agent(told["agent"])
        hooks = registry.reference(told["hooks"]) if "hooks" in told else None
    except (UserError, KeyError) as error:
        message = f"This worker cannot find the call that the run answers: {error}"
        raise lacking(message) from error
    if not isinstance(tool, AgentTool):
        message = f"The tool {tool.name!r} of agent {agent.name!r} is no agent on this worker."
        raise lacking(message)
    if tool.run_config is not None:
        write_run_config(tool.run_config)  # another process may have planned the call
    return OuterCall(
        agent=agent,
        tool=tool,
        call_id=str(told.get("call_id", "")),
        arguments=str(told.get("arguments", "")),
        hooks=hooks,
    )
