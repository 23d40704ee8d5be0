"""Hooks: what a program does when a run or an agent reaches a step.

Owns: the classes that users derive their hooks from, which methods of an object are overridden,
and calling those of a run and of an agent together. Must not know: when a step is reached.
"""

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, cast

from outlast.agents.callables import call, callable_name
from outlast.agents.context.wrapper import RunContextWrapper, TContext
from outlast.agents.errors import UserError
from outlast.loop.values import JsonObject

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    TAgent = TypeVar("TAgent", default=Any)
else:  # the default is for type checkers only, see `outlast.agents.context.wrapper`
    from typing import TypeVar

    TAgent = TypeVar("TAgent")


@dataclass(kw_only=True)
class AgentHookContext(RunContextWrapper[TContext]):
    """The context of the hooks at an agent's start and end.

    Attributes:
        turn_input: what the run is asked, as items.
    """

    turn_input: list[JsonObject] = field(default_factory=list[JsonObject])


class RunHooksBase(Generic[TContext, TAgent]):
    """Hooks of a run, whichever agents it goes through. Override the methods you need.

    They run in activities, at least once per step; what they change in the context is kept. One
    that raises fails the run. Methods that are not overridden cost nothing.
    """

    async def on_agent_start(self, context: AgentHookContext[TContext], agent: TAgent) -> None:
        """Called before an agent's first model call: at the start and after each handoff."""

    async def on_agent_end(
        self, context: AgentHookContext[TContext], agent: TAgent, output: Any
    ) -> None:
        """Called when an agent has given the final output, before output guardrails."""

    async def on_handoff(
        self, context: RunContextWrapper[TContext], from_agent: TAgent, to_agent: TAgent
    ) -> None:
        """Called when an agent has handed over to another; with its arguments by name."""

    async def on_tool_start(
        self, context: RunContextWrapper[TContext], agent: TAgent, tool: Any
    ) -> None:
        """Called before a tool runs; the context is a `ToolContext`."""

    async def on_tool_end(
        self, context: RunContextWrapper[TContext], agent: TAgent, tool: Any, result: Any
    ) -> None:
        """Called after a tool has run, with what the model will read; as `on_tool_start`."""

    async def on_llm_start(
        self,
        context: RunContextWrapper[TContext],
        agent: TAgent,
        system_prompt: str | None,
        input_items: list[JsonObject],
    ) -> None:
        """Called before each model call."""

    async def on_llm_end(
        self, context: RunContextWrapper[TContext], agent: TAgent, response: Any
    ) -> None:
        """Called after each model call that gave a response."""


class AgentHooksBase(Generic[TContext, TAgent]):
    """Hooks of one agent, for `Agent(hooks=...)`. Override the methods you need.

    As `RunHooksBase`, for the steps of this agent alone.
    """

    async def on_start(self, context: AgentHookContext[TContext], agent: TAgent) -> None:
        """Called before the agent's first model call, each time it takes the conversation."""

    async def on_end(self, context: AgentHookContext[TContext], agent: TAgent, output: Any) -> None:
        """Called when the agent has given the final output, before output guardrails."""

    async def on_handoff(
        self, context: RunContextWrapper[TContext], agent: TAgent, source: TAgent
    ) -> None:
        """Called when this agent, `source`, has handed over to `agent`; both by name."""

    async def on_tool_start(
        self, context: RunContextWrapper[TContext], agent: TAgent, tool: Any
    ) -> None:
        """Called before a tool runs; the context is a `ToolContext`."""

    async def on_tool_end(
        self, context: RunContextWrapper[TContext], agent: TAgent, tool: Any, result: Any
    ) -> None:
        """Called after a tool has run, with what the model will read; as `on_tool_start`."""

    async def on_llm_start(
        self,
        context: RunContextWrapper[TContext],
        agent: TAgent,
        system_prompt: str | None,
        input_items: list[JsonObject],
    ) -> None:
        """Called before each model call of the agent."""

    async def on_llm_end(
        self, context: RunContextWrapper[TContext], agent: TAgent, response: Any
    ) -> None:
        """Called after each model call of the agent that gave a response."""


class RunHooks(RunHooksBase[TContext, Any]):
    """Hooks of a run, for `Runner.run(hooks=...)`; see `RunHooksBase`."""


class AgentHooks(AgentHooksBase[TContext, Any]):
    """Hooks of an agent, for `Agent(hooks=...)`; see `AgentHooksBase`."""


AnyHooks: TypeAlias = RunHooksBase[Any, Any] | AgentHooksBase[Any, Any]


def _methods(base: type) -> dict[str, Callable[..., Any]]:
    return {name: value for name, value in vars(base).items() if name.startswith("on_")}


_RUN_METHODS = _methods(RunHooksBase)
_AGENT_METHODS = _methods(AgentHooksBase)


def overrides(hooks: AnyHooks | None, name: str) -> bool:
    """Say whether an object does anything at a step: its method is not the empty one.

    Args:
        hooks: the object; None overrides nothing.
        name: the method's name.

    Raises:
        ValueError: no such hook exists.
    """
    empty = [methods[name] for methods in (_RUN_METHODS, _AGENT_METHODS) if name in methods]
    if not empty:
        raise ValueError(f"no hook is called {name!r}")
    method = getattr(hooks, name, None)  # run hooks have no on_start
    return method is not None and getattr(method, "__func__", method) not in empty


class HookCall:
    """One call of one hook, to be made with `call_hooks`.

    Attributes:
        hooks: the object, or None where there is none.
        name: the method's name.
        arguments: what the method is called with, in the order of its parameters.
    """

    def __init__(self, hooks: AnyHooks | None, name: str, *arguments: Any) -> None:
        self.hooks = hooks
        self.name = name
        self.arguments = arguments

    @property
    def is_needed(self) -> bool:
        """Whether the object overrides the method."""
        return overrides(self.hooks, self.name)

    async def make(self) -> None:
        """Call the method.

        Raises:
            Exception: whatever it raised.
        """
        method = getattr(self.hooks, self.name)
        by_place, by_name = _parameters(self.hooks, self.name)
        named = dict(zip(by_name, self.arguments[len(by_place) :], strict=True))
        await call(method, *self.arguments[: len(by_place)], **named)


async def call_hooks(*calls: HookCall) -> None:
    """Make the calls whose methods are overridden, all at once, and wait for all of them.

    A hook that fails does not stop the others in the middle of what they do.

    Raises:
        Exception: what the first of the failed ones raised, in the order of the arguments.
    """
    needed = [hook_call.make() for hook_call in calls if hook_call.is_needed]
    if not needed:
        return
    for outcome in await asyncio.gather(*needed, return_exceptions=True):
        if outcome is not None:
            raise outcome


def check_run_hooks(hooks: object) -> None:
    """Refuse what cannot be the hooks of a run.

    Raises:
        TypeError: it is no `RunHooks`, for example the hooks of an agent.
        UserError: a method takes other parameters than it is called with.
    """
    if hooks is None:
        return
    name = type(hooks).__name__
    if isinstance(hooks, AgentHooksBase):
        raise TypeError(
            f"hooks= of a run must be RunHooks, but {name} has the hooks of an agent. "
            "Give it to Agent(hooks=...), or derive it from RunHooks."
        )
    if not isinstance(hooks, RunHooksBase):
        raise TypeError(
            f"hooks= of a run must be an instance of a class derived from RunHooks, not {name}."
        )
    _check_methods(cast(AnyHooks, hooks), _RUN_METHODS, "Run hooks")


def check_agent_hooks(hooks: object, owner: str) -> None:
    """Refuse what cannot be the hooks of an agent.

    Args:
        hooks: what the user gave; None is no hooks.
        owner: names the agent, as in "Agent 'Billing'".

    Raises:
        UserError: it is no `AgentHooks`, or a method takes other parameters.
    """
    if hooks is None:
        return
    if not isinstance(hooks, AgentHooksBase) or isinstance(hooks, RunHooksBase):
        raise UserError(
            f"{owner}: hooks must be an instance of a class derived from AgentHooks, "
            f"not {hooks!r}. RunHooks go to Runner.run(hooks=...)."
        )
    _check_methods(cast(AnyHooks, hooks), _AGENT_METHODS, f"{owner}: hooks")


def _parameters(hooks: object, name: str) -> tuple[list[str], list[str]]:
    """Return what a method is given by place, and what by name.

    Only a handoff's agents have to be told apart by name; the run's hooks get the context so, too.
    """
    of_run = isinstance(hooks, RunHooksBase)
    methods = _RUN_METHODS if of_run else _AGENT_METHODS
    names = list(inspect.signature(methods[name]).parameters)[1:]
    by_place = len(names) if name != "on_handoff" else 0 if of_run else 1
    return names[:by_place], names[by_place:]


def _check_methods(hooks: AnyHooks, methods: dict[str, Callable[..., Any]], what: str) -> None:
    for name in methods:
        if not overrides(hooks, name):
            continue
        method = getattr(hooks, name)
        by_place, by_name = _parameters(hooks, name)
        try:
            inspect.signature(method).bind(*by_place, **dict.fromkeys(by_name))
        except TypeError:
            raise UserError(
                f"{what}: {name} is called with ({', '.join((*by_place, *by_name))}), but "
                f"{callable_name(method)} does not take that."
            ) from None
