"""Hooks: callbacks of a user's program at the steps of a run or an agent."""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, cast
from weakref import WeakSet

from outlast.agents.argument_names import near_name
from outlast.agents.callables import call, callable_name
from outlast.agents.checks import InvalidType
from outlast.agents.context.wrapper import RunContextWrapper, TContext
from outlast.agents.errors import UserError
from outlast.agents.installed_sdk import sdk_names
from outlast.agents.logs import get_logger
from outlast.loop.values import JsonObject

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    TAgent = TypeVar("TAgent", default=Any)
else:  # the default is for type checkers only, see `outlast.agents.context.wrapper`
    from typing import TypeVar

    TAgent = TypeVar("TAgent")


@dataclass(kw_only=True, eq=False)
class AgentHookContext(RunContextWrapper[TContext]):
    """The context of the hooks at an agent's start and end.

    Attributes:
        turn_input: the input of the current answer: the items before those that the run added.
    """

    turn_input: list[JsonObject] = field(default_factory=list[JsonObject])


class _StepHooks(Generic[TContext, TAgent]):
    async def on_tool_start(
        self, context: RunContextWrapper[TContext], agent: TAgent, tool: Any
    ) -> None:
        """Called before a tool runs; the context is a `ToolContext`."""

    async def on_tool_end(
        self, context: RunContextWrapper[TContext], agent: TAgent, tool: Any, result: Any
    ) -> None:
        """Called after a tool has run, with the output; the context is a `ToolContext`."""

    async def on_tool_error(
        self, context: RunContextWrapper[TContext], agent: TAgent, tool: Any, error: Exception
    ) -> None:
        """Called when a tool has raised or timed out, after its last attempt.

        The model then reads the text of `failure_error_function`, and `on_tool_end` gets it. What
        this hook changes in the context is dropped with the changes of the failed call.
        """

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
        """Called after each model call that returned a response."""

    async def on_compaction_start(
        self, context: RunContextWrapper[TContext], agent: TAgent, items: list[JsonObject]
    ) -> None:
        """Called before `items` of a long conversation are summarized for the agent's model.

        A hook that raises an exception prevents the summary, and the run goes on without.
        """

    async def on_compaction_end(
        self, context: RunContextWrapper[TContext], agent: TAgent, summary: list[JsonObject]
    ) -> None:
        """Called with the items that the agent's model is to read instead.

        A hook that raises an exception refuses the summary, and the run goes on without.
        """


class RunHooksBase(_StepHooks[TContext, TAgent]):
    """Hooks of a run, for all its agents. Override the methods you need.

    Hooks run in activities, at least once per step. Their changes to the context are kept. A hook
    that raises an exception fails the run, except those of compactions. Methods that are not
    overridden cost nothing.
    """

    async def on_run_start(self, context: RunContextWrapper[TContext], agent: TAgent) -> None:
        """Called once when the run begins, with its first agent, before everything else."""

    async def on_run_end(
        self, context: RunContextWrapper[TContext], agent: TAgent, output: Any
    ) -> None:
        """Called with each answer of the run, once output guardrails have passed it.

        A run that stays open has several answers. A run that fails, is cancelled, or has an answer
        that guardrails block has none, so this hook is not called.
        """

    async def on_agent_start(self, context: AgentHookContext[TContext], agent: TAgent) -> None:
        """Called before an agent's first model call: at the start and after each handoff."""

    async def on_agent_end(
        self, context: AgentHookContext[TContext], agent: TAgent, output: Any
    ) -> None:
        """Called when an agent has produced the final output, before output guardrails."""

    async def on_handoff(
        self, context: RunContextWrapper[TContext], from_agent: TAgent, to_agent: TAgent
    ) -> None:
        """Called after a handoff, with keyword arguments."""


class AgentHooksBase(_StepHooks[TContext, TAgent]):
    """Hooks of one agent, for `Agent(hooks=...)`. Override the methods you need.

    Like `RunHooksBase`, but only for the steps of this agent.
    """

    async def on_start(self, context: AgentHookContext[TContext], agent: TAgent) -> None:
        """Called before the first model call, each time the agent takes over."""

    async def on_end(self, context: AgentHookContext[TContext], agent: TAgent, output: Any) -> None:
        """Called when the agent has produced the final output, before output guardrails."""

    async def on_handoff(
        self, context: RunContextWrapper[TContext], agent: TAgent, source: TAgent
    ) -> None:
        """Called after a handoff from this agent, `source`, to `agent`; both by keyword."""


class RunHooks(RunHooksBase[TContext, Any]):
    """Hooks of a run, for `Runner.run(hooks=...)`; see `RunHooksBase`."""


class AgentHooks(AgentHooksBase[TContext, Any]):
    """Hooks of an agent, for `Agent(hooks=...)`; see `AgentHooksBase`."""


logger: Final = get_logger(__name__)

_WARNED = WeakSet[type]()
"""The classes of hooks that a warning was about."""

AnyHooks: TypeAlias = RunHooksBase[Any, Any] | AgentHooksBase[Any, Any]


_RUN_METHODS, _AGENT_METHODS = (
    {name: getattr(base, name) for name in dir(base) if name.startswith("on_")}
    for base in (RunHooksBase, AgentHooksBase)
)
_EMPTY = {
    name: (_RUN_METHODS.get(name), _AGENT_METHODS.get(name))
    for name in _RUN_METHODS | _AGENT_METHODS
}
"""The empty methods of each step."""


def overrides(hooks: AnyHooks | None, name: str) -> bool:
    """Whether a hooks object overrides the empty method of a step; None overrides nothing."""
    if name not in _EMPTY:
        raise ValueError(f"no hook is called {name!r}")
    method = getattr(hooks, name, None)  # run hooks have no on_start
    return method is not None and getattr(method, "__func__", method) not in _EMPTY[name]


class HookCall:
    """One call of one hook, with arguments in the order of its parameters."""

    def __init__(self, hooks: AnyHooks | None, name: str, *arguments: Any) -> None:
        self.hooks = hooks
        self.name = name
        self.arguments = arguments

    @property
    def is_needed(self) -> bool:
        """Whether the object overrides the method."""
        return overrides(self.hooks, self.name)

    async def make(self) -> None:
        """Call the method."""
        method = getattr(self.hooks, self.name)
        by_place, by_name = _parameters(self.name, of_run=isinstance(self.hooks, RunHooksBase))
        named = dict(zip(by_name, self.arguments[len(by_place) :], strict=True))
        await call(method, *self.arguments[: len(by_place)], **named)


async def call_hooks(*calls: HookCall) -> None:
    """Make the calls of overridden methods concurrently, and wait for all of them.

    A hook that fails does not interrupt the others.
    """
    needed = [hook_call.make() for hook_call in calls if hook_call.is_needed]
    if not needed:
        return
    for outcome in await asyncio.gather(*needed, return_exceptions=True):
        if outcome is not None:
            raise outcome


def check_run_hooks(hooks: object) -> None:
    """Refuse invalid hooks of a run.

    Raises:
        TypeError: the value is no `RunHooks`, for example the hooks of an agent.
    """
    if hooks is None:
        return
    name = type(hooks).__name__
    if isinstance(hooks, AgentHooksBase):
        raise TypeError(
            f"Run hooks must be instances of RunHooks, but {name} has the hooks of an agent. "
            "Pass it to Agent(hooks=...), or derive it from RunHooks."
        )
    if not isinstance(hooks, RunHooksBase):
        raise TypeError(f"Run hooks must be instances of RunHooks, not {name}.{_fix(hooks)}")
    _check_methods(cast(AnyHooks, hooks), _RUN_METHODS, "Run hooks")


def check_agent_hooks(hooks: object, owner: str) -> None:
    """Refuse invalid hooks of an agent."""
    if hooks is None:
        return
    if not isinstance(hooks, AgentHooksBase) or isinstance(hooks, RunHooksBase):
        raise InvalidType(
            f"{owner}: Agent hooks must be an AgentHooks instance, "
            f"not {hooks!r}. RunHooks go to Runner.run(hooks=...).{_fix(hooks)}"
        )
    _check_methods(cast(AnyHooks, hooks), _AGENT_METHODS, f"{owner}: hooks")


def _fix(hooks: object) -> str:
    """Return what to do with hooks of the installed OpenAI Agents SDK, after a space."""
    if sdk_names(hooks).isdisjoint(("AgentHooksBase", "RunHooksBase")):
        return ""
    return (
        f" {type(hooks).__name__} has the hooks of the OpenAI Agents SDK: derive it from outlast's."
    )


@cache
def _parameters(name: str, *, of_run: bool) -> tuple[Sequence[str], Sequence[str]]:
    """Return the names of a method's positional and keyword arguments.

    Only `on_handoff` has keyword arguments: the agents, and in run hooks also the context.
    """
    methods = _RUN_METHODS if of_run else _AGENT_METHODS
    names = list(inspect.signature(methods[name]).parameters)[1:]
    by_place = len(names) if name != "on_handoff" else 0 if of_run else 1
    return names[:by_place], names[by_place:]


def _warn_of_others(hooks: AnyHooks, methods: dict[str, Callable[..., Any]]) -> None:
    """Warn of methods that look like hooks and are never called, once for each class."""
    kind = type(hooks)
    if kind in _WARNED:
        return
    _WARNED.add(kind)
    for name in dir(kind):
        if name.startswith("on_") and name not in methods and callable(getattr(kind, name)):
            logger.warning(
                "%s has a method %s, which is no hook and is never called.%s",
                kind.__name__,
                name,
                near_name(name, methods),
            )


def _check_methods(hooks: AnyHooks, methods: dict[str, Callable[..., Any]], what: str) -> None:
    _warn_of_others(hooks, methods)
    for name in methods:
        if not overrides(hooks, name):
            continue
        method = getattr(hooks, name)
        by_place, by_name = _parameters(name, of_run=isinstance(hooks, RunHooksBase))
        try:
            inspect.signature(method).bind(*by_place, **dict.fromkeys(by_name))
        except TypeError:
            raise UserError(
                f"{what}: {name} is called with ({', '.join((*by_place, *by_name))}), but "
                f"{callable_name(method)} does not take that."
            ) from None
