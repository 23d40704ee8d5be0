"""Handoffs: how one agent gives the conversation to another.

Owns: the `Handoff` record and `handoff()`. A handoff looks like a tool to the model. Must not
know: when the active agent changes; that is the loop's.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from outlast.agents.callables import check_callable
from outlast.agents.context import NamedAgent, RunContextWrapper
from outlast.agents.errors import UserError
from outlast.loop.values import JsonObject

OnHandoff: TypeAlias = Callable[[RunContextWrapper[Any]], Awaitable[None] | None]
"""Called with (context) when the handoff happens; sync or async."""

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

NO_INPUT: JsonObject = {
    "type": "object",
    "properties": {},
    "required": [],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Handoff:
    """A way from one agent to another, as the model sees it and as the worker performs it.

    Attributes:
        tool_name: what the model calls it.
        tool_description: what the model is told.
        agent: the agent that takes over.
        on_handoff: runs in an activity, retried, when the handoff happens.
        is_enabled: whether the agent offers it at the moment: yes, no, or a predicate that is
            called with (context, the agent that would hand over).
    """

    tool_name: str
    tool_description: str
    agent: NamedAgent
    on_handoff: OnHandoff | None = None
    is_enabled: bool | Callable[[RunContextWrapper[Any], Any], bool | Awaitable[bool]] = True
    input_json_schema: JsonObject | None = None

    def __post_init__(self) -> None:
        """Check the fields, so that a mistake is found where it is made.

        Raises:
            UserError: a field does not fit. The message names the handoff and the field.
        """
        if not _NAME.fullmatch(self.tool_name):
            raise UserError(
                "A handoff's tool name must be 1 to 64 letters, digits, '_' or '-', not "
                f"{self.tool_name!r}. Choose one with handoff(agent, tool_name_override=...)."
            )
        owner = f"Handoff {self.tool_name!r}"
        if self.on_handoff is not None:
            check_callable(self.on_handoff, ("context",), what=f"{owner}: on_handoff")
        if not isinstance(self.is_enabled, bool):
            check_callable(self.is_enabled, ("context", "agent"), what=f"{owner}: is_enabled")

    @property
    def agent_name(self) -> str:
        """The name of the agent that takes over."""
        return self.agent.name

    @staticmethod
    def default_tool_name(agent_name: str) -> str:
        """Return `transfer_to_` and the agent's name, with what no tool name allows replaced."""
        return "transfer_to_" + re.sub(r"[^a-zA-Z0-9_]", "_", agent_name).lower()

    @staticmethod
    def default_tool_description(agent: NamedAgent) -> str:
        """Return what the model is told about a handoff to this agent."""
        text = f"Hand the conversation over to the agent {agent.name}."
        return f"{text} {agent.handoff_description}" if agent.handoff_description else text


def handoff(
    agent: NamedAgent,
    *,
    tool_name_override: str | None = None,
    tool_description_override: str | None = None,
    on_handoff: OnHandoff | None = None,
    is_enabled: bool | Callable[[RunContextWrapper[Any], Any], bool | Awaitable[bool]] = True,
) -> Handoff:
    """Make a handoff to an agent.

    Args:
        agent: the agent that takes over.
        tool_name_override: what the model calls it; default `transfer_to_<agent>`.
        tool_description_override: what the model is told instead of the default sentence.
        on_handoff: called with (context) when the handoff happens; sync or async. It runs in an
            activity, at least once, and its context changes are kept.
        is_enabled: whether the handoff is offered, asked before every model call.

    Raises:
        UserError: an argument does not fit.
    """
    if not isinstance(getattr(agent, "name", None), str):
        raise UserError(f"handoff() needs an Agent, not {agent!r}.")
    return Handoff(
        tool_name=tool_name_override or Handoff.default_tool_name(agent.name),
        tool_description=tool_description_override or Handoff.default_tool_description(agent),
        agent=agent,
        on_handoff=on_handoff,
        is_enabled=is_enabled,
    )
