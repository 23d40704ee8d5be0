"""Realtime agents: agents that speak, over a connection that stays open.

A realtime agent is an `Agent` without the fields that a realtime session cannot have. So its tools,
handoffs, approvals and text turns run like those of any other agent.
"""

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, cast

from outlast.agents.agent import Agent
from outlast.agents.callables import shown
from outlast.agents.config.model_defaults import UNSET
from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.context.wrapper import TContext
from outlast.agents.errors import UserError
from outlast.agents.guardrails.guardrail import InputGuardrail
from outlast.agents.handoffs.handoff import Handoff, IsEnabled, OnHandoff, handoff
from outlast.agents.hooks import AgentHooksBase, RunHooksBase
from outlast.agents.tools.definition import FunctionTool
from outlast.agents.tools.local import LocalTool
from outlast.agents.tools.use_behavior import ToolUseBehavior


@dataclass(eq=False)
class RealtimeAgent(Agent[TContext]):
    """An agent for realtime sessions, with instructions, tools and handoffs.

    The model of a session serves all its agents, so `model`, `model_settings`, `output_type`,
    `input_guardrails`, `tool_use_behavior` and `reset_tool_choice` cannot be set. The voice is a
    setting of the session, and cannot change after the first agent has spoken.

    When no line is attached, such as after the caller has hung up, the same agent answers in text,
    with the default model of the worker or of the run's settings.

    Attributes:
        instructions: what the agent does, or a callable that makes the text when a session starts
            and after each handoff.
        prompt: a prompt stored by the provider, or a callable that chooses one.
        handoff_description: describes this agent to the models of other agents.
        mcp_servers: servers whose tools the model may also call.
        handoffs: realtime agents, or `realtime_handoff(...)` records, to hand over to.
        output_guardrails: check the transcript of what this agent says, while it speaks.
    """

    _realtime: KW_ONLY
    model: Any = field(default=None, init=False)
    model_settings: ModelSettings = field(default=UNSET, init=False)  # pyright: ignore[reportIncompatibleVariableOverride]
    input_guardrails: list[InputGuardrail[TContext]] = field(
        default_factory=list[InputGuardrail[TContext]], init=False
    )
    output_type: Any = field(default=None, init=False)
    tool_use_behavior: ToolUseBehavior = field(default="run_llm_again", init=False)
    reset_tool_choice: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        """Check the fields, so that errors are raised here."""
        super().__post_init__()
        check_realtime(self)


RealtimeAgentHooks = AgentHooksBase[TContext, RealtimeAgent[Any]]
"""Hooks of one realtime agent, for `RealtimeAgent(hooks=...)`."""

RealtimeRunHooks = RunHooksBase[TContext, RealtimeAgent[Any]]
"""Hooks of a realtime run, for all its agents."""


def check_realtime(agent: RealtimeAgent[Any]) -> None:
    """Refuse tools and handoffs that do not work in a realtime session.

    Handoffs may be added after construction, so a session checks its agents again.

    Raises:
        UserError: an entry does not fit; the message names the agent and the entry.
    """
    owner = f"RealtimeAgent {agent.name!r}"
    for tool in agent.tools:
        if not isinstance(tool, FunctionTool) or isinstance(tool, LocalTool):
            raise UserError(
                f"{owner}: a realtime model calls functions only, and {shown(tool)} in tools= is "
                "none. Use @function_tool or agent.as_tool(...)."
            )
    for entry in agent.handoffs:
        target = cast("object", entry.agent if isinstance(entry, Handoff) else entry)
        if target is not None and not isinstance(target, RealtimeAgent):
            raise UserError(
                f"{owner}: {shown(target)} in handoffs= is not a RealtimeAgent. A session cannot "
                "hand over to other agents: offer them as tools with agent.as_tool(...)."
            )
        if isinstance(entry, Handoff) and (entry.input_filter or entry.nest_handoff_history):
            raise UserError(
                f"{owner}: the handoff {entry.tool_name!r} changes what the next agent sees, but "
                "the provider keeps the conversation of a session. Use realtime_handoff(...)."
            )


def realtime_handoff(
    agent: RealtimeAgent[Any],
    tool_name_override: str | None = None,
    tool_description_override: str | None = None,
    on_handoff: OnHandoff | None = None,
    input_type: Any = None,
    is_enabled: IsEnabled = True,  # noqa: FBT002  (as in the SDK)
) -> Handoff:
    """Create a handoff to a realtime agent.

    Like `handoff`, without an input filter: the provider keeps the conversation of a session.

    Args:
        agent: the agent that takes over.
        tool_name_override: the name of the tool; default `transfer_to_<agent>`.
        tool_description_override: the description of the tool, instead of the default sentence.
        on_handoff: called with (context), or with `input_type` with (context, input), when the
            handoff happens; sync or async. It runs in an activity, at least once.
        input_type: the type of the arguments.
        is_enabled: whether the handoff is offered, or a predicate called with (context, agent).

    Raises:
        UserError: an argument is invalid.
    """
    if not isinstance(cast("object", agent), RealtimeAgent):
        raise UserError(f"realtime_handoff() needs a RealtimeAgent, not {shown(agent)}.")
    return handoff(
        agent,
        tool_name_override=tool_name_override,
        tool_description_override=tool_description_override,
        on_handoff=on_handoff,
        input_type=input_type,
        is_enabled=is_enabled,
    )
