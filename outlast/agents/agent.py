"""Agents: instructions, tools and handoffs under a name.

Owns: the `Agent` record. Must not know: how a run proceeds.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeAlias, cast

from outlast.agents.callables import check_callable
from outlast.agents.context import RunContextWrapper, TContext
from outlast.agents.errors import UserError
from outlast.agents.handoff import Handoff
from outlast.agents.settings import ModelSettings
from outlast.agents.tool import FunctionTool

Instructions: TypeAlias = Callable[[RunContextWrapper[Any], "Agent[Any]"], str | Awaitable[str]]
"""Called with (context, agent) before every model call, in an activity; sync or async."""


@dataclass(kw_only=True)
class Agent(Generic[TContext]):
    """A model with instructions, tools, and other agents it may hand the conversation to.

    An agent is a definition: it is registered with a worker and referred to by name, so names
    are unique within a worker.

    Attributes:
        name: identifies the agent; also in the Temporal UI.
        instructions: the system prompt, or a callable that makes it before every model call.
        handoff_description: tells the other agents' models what this agent is for.
        tools: what its model may call.
        handoffs: agents, or `handoff(...)` records, it may hand over to. Cycles are fine, and
            may be closed after construction: `triage.handoffs.append(orders)`.
        model: a model's name; None for the provider's default.
        model_settings: how to call the model; a run's settings are laid over them.
    """

    name: str
    instructions: str | Instructions | None = None
    handoff_description: str | None = None
    tools: list[FunctionTool] = field(default_factory=list[FunctionTool])
    handoffs: "list[Agent[Any] | Handoff]" = field(default_factory=list["Agent[Any] | Handoff"])
    model: str | None = None
    model_settings: ModelSettings = field(default_factory=ModelSettings)

    def __post_init__(self) -> None:
        """Check the fields, so that a mistake is found where it is made."""
        name = cast("object", self.name)
        if not isinstance(name, str) or not name.strip():
            raise UserError(f"Agent(name=...) must be a non-empty string, not {name!r}.")
        instructions = cast("object", self.instructions)
        if not (instructions is None or isinstance(instructions, str) or callable(instructions)):
            raise UserError(
                f"Agent {self.name!r}: instructions must be a string, a callable or None, "
                f"not {type(instructions).__name__}."
            )
        if callable(instructions):
            what = f"Agent {self.name!r}: instructions"
            check_callable(instructions, ("context", "agent"), what=what)
        settings = cast("object", self.model_settings)
        if not isinstance(settings, ModelSettings):
            raise UserError(
                f"Agent {self.name!r}: model_settings is {settings!r}: use ModelSettings(...)."
            )
        _check_entries(
            self.name, "tools", self.tools, FunctionTool, "decorate it with @function_tool"
        )
        _check_entries(
            self.name, "handoffs", self.handoffs, (Agent, Handoff), "use an Agent or handoff(agent)"
        )

    def clone(self, **changes: Any) -> "Agent[TContext]":
        """Return a copy with some fields changed; lists are shared unless given anew."""
        return replace(self, **changes)


def _check_entries(
    agent: str,
    name: str,
    entries: Sequence[object],
    kinds: type | tuple[type, ...],
    fix: str,
) -> None:
    given = cast("object", entries)
    if not isinstance(given, list | tuple):
        raise UserError(f"Agent {agent!r}: {name}= must be a list, not {type(given).__name__}.")
    for entry in entries:
        if not isinstance(entry, kinds):
            shown = getattr(entry, "__name__", repr(entry))
            raise UserError(f"Agent {agent!r}: {shown} in {name}= does not fit: {fix}.")
