"""Agents: instructions, tools and handoffs under a name."""

from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import partial
from typing import Any, Final, Generic, TypeAlias, Unpack, cast

from pydantic_core import core_schema

from outlast.agents.agent_tools.agent_tool import (
    AgentTool,
    AgentToolOptions,
    OutputExtractor,
    make_agent_tool,
)
from outlast.agents.approvals.policy import ANSWER_DECISIONS, NeedsApproval, check_needs_approval
from outlast.agents.callables import call, check_callable, list_of
from outlast.agents.checks import (
    InvalidType,
    Rule,
    check_fields,
    check_name,
    with_checked_fields,
)
from outlast.agents.config.compaction import Compaction, check_compacting
from outlast.agents.config.fallback_model import check_models, choices_of
from outlast.agents.config.model_defaults import UNSET
from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.config.settings_field import SettingsField, settings_field
from outlast.agents.context.wrapper import RunContextWrapper, TContext
from outlast.agents.errors import UserError
from outlast.agents.guardrails.guardrail import (
    InputGuardrail,
    OutputGuardrail,
    adopted_guardrail,
    guardrails,
)
from outlast.agents.handoffs.handoff import Handoff, adopted_handoff
from outlast.agents.hooks import AgentHooksBase, check_agent_hooks
from outlast.agents.installed_sdk import adopted
from outlast.agents.mcp.server import MCPConfig, MCPServer
from outlast.agents.mcp.tools import check_mcp_config, mcp_tools_of
from outlast.agents.prompt import DynamicPromptFunction, Prompt, check_prompt, prompt_of
from outlast.agents.schemas.agent_output import (
    AgentOutputSchemaBase,
    adopted_output_schema,
    check_output_type,
)
from outlast.agents.tools.definition import EnabledPredicate, FunctionTool
from outlast.agents.tools.hosted import HostedTool, Tool
from outlast.agents.tools.use_behavior import ToolUseBehavior, check_tool_use_behavior
from outlast.loop.values import JsonObject

Instructions: TypeAlias = Callable[[RunContextWrapper[Any], "Agent[Any]"], str | Awaitable[str]]
"""A function called with (context, agent) that returns an agent's instructions."""


@dataclass(eq=False)
class Agent(Generic[TContext]):
    """A model with instructions, tools and handoffs to other agents.

    An agent is a definition: it is registered with a worker and referred to by name, so names
    are unique within a worker. Two agents are equal if their fields are; of agents that they hand
    over to, the names count.

    Attributes:
        name: identifies the agent; also in the Temporal UI.
        instructions: the system prompt, or a callable that makes it before every model call.
        prompt: a prompt stored by the provider, or a callable that chooses one before every model
            call.
        handoff_description: describes this agent to the models of other agents.
        tools: the tools of the model.
        mcp_servers: servers whose tools the model may also call.
        mcp_config: the options for these tools, see `MCPConfig`.
        handoffs: agents, or `handoff(...)` records, to hand over to. A record in `tools` is put here. Cycles are fine, and may be
            closed after construction: `triage.handoffs.append(orders)`.
        model: a model's name, or a model: an object with `get_response`; None for the provider's
            default. A `FallbackModel` has several, which are tried in order.
        model_settings: how to call the model, also as a dict; a run's settings override them. Where
            they are not set, a GPT-5 model gets those of `get_default_model_settings`; with
            `ModelSettings()`, it gets none.
        input_guardrails: check the input of runs that start with this agent.
        output_guardrails: check this agent's answers.
        output_type: the type of the answer, or its schema; None for text.
        hooks: called at this agent's steps.
        tool_use_behavior: what happens after the tools of a turn have run.
        reset_tool_choice: whether a forced `tool_choice` is reset once a tool was used, so that the
            model does not call tools for ever.
        output_approval: whether a person decides before an answer leaves: yes, no, a predicate
            called with (context, the answer, ""), or an `ApprovalPolicy`. The answer is the object
            that `output_type` describes, else `{"answer": ...}`.
        compaction: when its model reads a summary of the older part of a long conversation; None
            for never.
    """

    name: str
    _: KW_ONLY
    instructions: str | Instructions | None = None
    prompt: Prompt | DynamicPromptFunction | None = None
    handoff_description: str | None = None
    tools: list[Tool] = field(default_factory=list[Tool])
    mcp_servers: list[MCPServer] = field(default_factory=list[MCPServer])
    mcp_config: MCPConfig = field(default_factory=MCPConfig)
    handoffs: "list[Agent[Any] | Handoff]" = field(default_factory=list["Agent[Any] | Handoff"])
    model: Any = None
    model_settings: SettingsField[ModelSettings, ModelSettings] = settings_field(  # noqa: RUF009  a descriptor
        ModelSettings, UNSET
    )
    input_guardrails: list[InputGuardrail[TContext]] = field(
        default_factory=list[InputGuardrail[TContext]]
    )
    output_guardrails: list[OutputGuardrail[TContext]] = field(
        default_factory=list[OutputGuardrail[TContext]]
    )
    output_type: type[Any] | AgentOutputSchemaBase | Any = None
    hooks: AgentHooksBase[TContext, Any] | None = None
    tool_use_behavior: ToolUseBehavior = "run_llm_again"
    reset_tool_choice: bool = True
    output_approval: NeedsApproval = False
    compaction: Compaction | None = None

    def __post_init__(self) -> None:
        self.adopt()
        check_name("Agent name", self.name)
        owner = f"Agent {self.name!r}"
        check_agent_hooks(self.hooks, owner)
        check_fields(self, _RULES, owner)
        if self.compaction is not None and self.compaction.by == "provider":
            for one in choices_of(self.compaction.model or self.model):
                check_compacting(f"{owner}: compaction", one.model)
        if self.output_approval is not False and self.tool_use_behavior != "run_llm_again":
            raise UserError(
                f"{owner}: output_approval is about answers of the model, but with "
                f"tool_use_behavior={self.tool_use_behavior!r:.60} a tool's output can be the "
                "answer. Leave one of them out, and set needs_approval on the tools."
            )

    def adopt(self) -> None:
        """Take objects of the installed OpenAI Agents SDK as ours, and handoffs out of `tools`.

        Lists that have none stay the same objects. Called again for what was added to them later.

        Raises:
            UserError: an object cannot be taken, such as an agent of the SDK.
        """
        self.tools = adopted(self.tools, lambda entry: adopted_handoff(_adopted_tool(entry)))
        self.handoffs = adopted(self.handoffs, adopted_handoff)
        moved: list[Any] = [one for one in _entries(self.tools) if isinstance(one, Handoff)]
        if moved:
            self.tools = [tool for tool in self.tools if not isinstance(tool, Handoff)]
            self.handoffs = [*self.handoffs, *moved]
        self.input_guardrails = adopted(self.input_guardrails, adopted_guardrail)
        self.output_guardrails = adopted(self.output_guardrails, adopted_guardrail)
        self.output_type = adopted_output_schema(self.output_type)

    def __eq__(self, other: object) -> bool:
        """Whether another agent has equal fields."""
        if type(other) is not type(self):
            return NotImplemented
        return self._parts() == cast("Agent[Any]", other)._parts()

    def _parts(self) -> list[Any]:
        # Handoffs make circles, so they are compared by name.
        names = [one.name if isinstance(one, Agent) else one for one in self.handoffs]
        return [names, *(getattr(self, one.name) for one in fields(self) if one.name != "handoffs")]

    def __hash__(self) -> int:
        """Return the hash of this very object: fields may change, and equal agents are still two."""
        return id(self)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> Any:
        """Let models and functions of pydantic take an agent, as it is."""
        return core_schema.is_instance_schema(cls)

    def clone(self, **changes: Any) -> "Agent[TContext]":
        """Return a copy with some fields changed. Lists that are not replaced are shared."""
        return replace(self, **changes)

    async def get_system_prompt(self, run_context: RunContextWrapper[TContext]) -> str | None:
        """Return the instructions of a model call with this context."""
        if callable(self.instructions):
            return await call(self.instructions, run_context, self)
        return self.instructions

    async def get_prompt(self, run_context: RunContextWrapper[TContext]) -> JsonObject | None:
        """Return the stored prompt of a model call with this context."""
        return await prompt_of(self.prompt, run_context, self)

    async def get_mcp_tools(self, run_context: RunContextWrapper[TContext]) -> list[Tool]:
        """Return the current tools of its MCP servers; connects to the servers."""
        return [*await mcp_tools_of(self, run_context)]

    async def get_all_tools(self, run_context: RunContextWrapper[TContext]) -> list[Tool]:
        """Return the tools of a model call with this context.

        Tools of its MCP servers come first; connects to the servers. A subclass may override it:
        runs offer what it returns. It is asked before each model call, and again by a worker that
        has not been asked when it is to run one of the tools, so names must not change.
        """
        served = await self.get_mcp_tools(run_context)
        own = [tool for tool in self.tools if await _is_enabled(tool, run_context, self)]
        return [*served, *own]

    @property
    def makes_tools(self) -> bool:
        """Whether a subclass has its own `get_all_tools`, to be called for each model call."""
        return type(self).get_all_tools is not Agent.get_all_tools

    def as_tool(
        self,
        tool_name: str | None = None,
        tool_description: str | None = None,
        custom_output_extractor: OutputExtractor | None = None,
        is_enabled: bool | EnabledPredicate = True,  # noqa: FBT001, FBT002  (as the field has it)
        **options: Unpack[AgentToolOptions],
    ) -> AgentTool:
        """Make a tool of this agent, for another agent that keeps the conversation.

        A call of the tool is a nested run of this agent, with its own input and nothing of the
        surrounding conversation. The nested run is durable and visible by itself; its approvals
        appear with those of the parent, its usage counts there, and the context is shared.

        Args:
            tool_name: the tool's name for the parent's model; default: this agent's name, with
                invalid characters replaced.
            tool_description: the description for the parent's model; default: the
                `handoff_description`.
            custom_output_extractor: called with the nested run's result; returns the tool's output.
                Default: the final output, else the last text.
            is_enabled: whether the tool is offered, or a predicate called with (context, the
                parent's agent).
            **options: see `AgentToolOptions`.
        """
        return make_agent_tool(
            self,
            name=tool_name,
            description=tool_description,
            custom_output_extractor=custom_output_extractor,
            is_enabled=is_enabled,
            options=options,
        )


with_checked_fields(Agent)

AgentBase = Agent
"""An alias of `Agent`, which the SDK's programs use to annotate predicates."""


def _adopted_tool(entry: Any) -> Any:
    from outlast.agents.tools.of_sdk import adopted_tool  # only where the SDK is there

    return adopted_tool(entry)


def _entries(value: object) -> list[Any]:
    return list(cast("list[Any]", value)) if isinstance(value, list | tuple) else []


async def _is_enabled(tool: Tool, context: RunContextWrapper[Any], agent: Agent[Any]) -> bool:
    if not isinstance(tool, FunctionTool):
        return True
    rule = tool.is_enabled
    return rule if isinstance(rule, bool) else bool(await call(rule, context, agent))


def _check_instructions(place: str, instructions: object) -> None:
    if callable(instructions):
        check_callable(instructions, ("context", "agent"), what=place)
    elif instructions is not None and not isinstance(instructions, str):
        raise InvalidType(
            f"{place} must be a string, a callable or None, not {type(instructions).__name__}."
        )


def _tool_fix(entry: object) -> str:
    if isinstance(entry, Agent):
        return "use agent.as_tool(...), or put it into handoffs="
    return "decorate it with @function_tool"


check_tools: Final = list_of((FunctionTool, HostedTool), _tool_fix)
"""Called with a place and a value: refuses what is no list of tools."""

_RULES: Final[dict[str, Rule]] = {
    "instructions": _check_instructions,
    "prompt": check_prompt,
    "tools": check_tools,
    "mcp_servers": list_of(MCPServer, "use a server of outlast.mcp, such as MCPServerStdio"),
    "mcp_config": check_mcp_config,
    "handoffs": list_of((Agent, Handoff), "use an Agent or handoff(agent)"),
    "model": check_models,
    "input_guardrails": guardrails(InputGuardrail),
    "output_guardrails": guardrails(OutputGuardrail),
    "output_type": check_output_type,
    "tool_use_behavior": check_tool_use_behavior,
    "output_approval": partial(check_needs_approval, possible=ANSWER_DECISIONS),
}
