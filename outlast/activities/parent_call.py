"""The parent's tool call that a nested run answers, read from the nested run's settings."""

from dataclasses import dataclass
from typing import Any, cast

from outlast.activities.errors import lacking
from outlast.agents.agent import Agent
from outlast.agents.agent_tools.agent_tool import AgentTool, arguments_of
from outlast.agents.context.wrapper import RunContextWrapper, ToolContext
from outlast.agents.errors import ModelBehaviorError, UserError
from outlast.agents.hooks import HookCall
from outlast.agents.registry import Registry
from outlast.contract.names import SETTING_AS_TOOL
from outlast.contract.records import UnreadableRecordError, read
from outlast.loop.approvals import Evidence
from outlast.loop.values import Json, JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentCall:
    """The parent's tool call that a nested run answers.

    Attributes:
        hooks: the parent's run hooks.
        evidence: what people decided about the call, as the run's input says.
    """

    agent: Agent[Any]
    tool: AgentTool
    call_id: str
    arguments: str
    hooks: Any = None
    evidence: Evidence | None = None

    def context(self, wrapper: RunContextWrapper[Any]) -> ToolContext[Any]:
        """Return the context of the call, for user code of the parent."""
        return ToolContext(
            context=wrapper.context,
            usage=wrapper.usage,
            run_id=wrapper.run_id,
            run_key=wrapper.run_key,
            turn=wrapper.turn,
            tool_name=self.tool.name,
            tool_call_id=self.call_id,
            tool_arguments=self.arguments,
            agent=self.agent,
            idempotency_key=wrapper.run_key,
        )

    def hook_calls(
        self, step: str, wrapper: RunContextWrapper[Any], *results: Any
    ) -> list[HookCall]:
        """Return the calls of the parent's hooks at the start or the end of the call."""
        arguments = (self.context(wrapper), self.agent, self.tool, *results)
        return [
            HookCall(self.hooks, step, *arguments),
            HookCall(self.agent.hooks, step, *arguments),
        ]

    def tool_input(self) -> Any:
        """Return the arguments as user code of the nested run sees them.

        None for plain text, and for arguments that do not fit, which fail the preparation.
        """
        if self.tool.parameters is None:
            return None
        try:
            return arguments_of(self.tool, self.arguments)
        except ModelBehaviorError:
            return None


def parent_call_of(registry: Registry, settings: JsonObject) -> ParentCall | None:
    """Return the parent's call that a run answers, or None if the run is not nested.

    Raises:
        EffectError: this worker does not have the tool.
    """
    setting: Any = settings.get(SETTING_AS_TOOL)
    if not isinstance(setting, dict):
        return None
    call = cast("dict[str, str]", setting)
    try:
        tool = registry.tool(call["agent"], call["tool"])
        agent = registry.agent(call["agent"])
        hooks = registry.reference(call["hooks"]) if "hooks" in call else None
    except (UserError, KeyError) as error:
        raise lacking(
            f"This worker cannot find the tool call that the run answers: {error}"
        ) from error
    if not isinstance(tool, AgentTool):
        raise lacking(
            f"The tool {tool.name!r} of agent {agent.name!r} is not an agent on this worker."
        )
    registry.nested_settings(call["agent"], tool)  # keeps the objects that the settings name
    return ParentCall(
        agent=agent,
        tool=tool,
        call_id=str(call.get("call_id", "")),
        arguments=str(call.get("arguments", "")),
        hooks=hooks,
        evidence=_evidence(cast("JsonObject", setting).get("evidence")),
    )


def _evidence(written: Json) -> Evidence | None:
    try:  # anybody may have written the run's input
        return None if written is None else read(Evidence, written)
    except UnreadableRecordError:
        return None
