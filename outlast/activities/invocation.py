"""What every effect needs before it can call users' code: the agent, the context, the run's hooks.

Owns: `Invocation`. One is made for each attempt of an effect, from its request and the worker's
knowledge. Must not know: Temporal, or what the effect does.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, cast

from outlast.activities.errors import EffectError, lacking
from outlast.activities.outer_call import OuterCall, outer_call_of
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.agent import Agent
from outlast.agents.agent_tools.agent_tool import AgentTool
from outlast.agents.config.settings import AS_ITEMS, HOOKS
from outlast.agents.context.codec import BorrowedContext
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.agents.guardrails.guardrail import InputGuardrail, OutputGuardrail
from outlast.agents.hooks import HookCall, RunHooks, overrides
from outlast.agents.usage import Usage
from outlast.contract import failures, names
from outlast.loop import values
from outlast.loop.changes import Change
from outlast.loop.checks import RequiredStep
from outlast.loop.values import Json, JsonObject


class EffectRequest(Protocol):
    """What the requests of all effects with an agent have in common."""

    @property
    def agent(self) -> str:
        """The agent's name."""
        ...

    @property
    def context(self) -> Json:
        """The run's context as JSON."""
        ...

    @property
    def context_type(self) -> str | None:
        """The name of its type."""
        ...

    @property
    def settings(self) -> JsonObject | None:
        """The run's settings."""
        ...

    @property
    def usage(self) -> values.Usage:
        """What the run has spent so far."""
        ...

    @property
    def turn(self) -> int:
        """Model calls made for the current answer."""
        ...

    @property
    def run_id(self) -> str:
        """The workflow id."""
        ...


@dataclass(kw_only=True)
class Invocation:
    """The agent, the context and the run's own callables, for one attempt of an effect.

    Attributes:
        worker: the definitions.
        agent: the agent the effect is for.
        settings: the run's settings.
        borrowed: the run's context, lent out.
        wrapper: the context as callables get it.
        server_managed: the provider's server keeps the conversation.
        decided: the agent's tools about which people have decided for all calls.
        traced: somebody is told of the run's steps.
    """

    worker: WorkerDeps
    agent: Agent[Any]
    settings: JsonObject
    borrowed: BorrowedContext
    wrapper: RunContextWrapper[Any] = field(init=False)
    usage: Usage
    turn: int
    run_id: str
    traced: bool = False
    server_managed: bool = False
    decided: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Make the wrapper."""
        self.wrapper = RunContextWrapper[Any](
            context=self.borrowed.context,
            usage=self.usage,
            run_id=self.run_id,
            turn=self.turn,
            tool_input=self.outer.tool_input() if self.outer is not None else None,
        )

    @classmethod
    def of(cls, worker: WorkerDeps, request: EffectRequest, annotated: Any = None) -> "Invocation":
        """Make the invocation of a request.

        Args:
            worker: the definitions.
            request: the effect's.
            annotated: the type of context that the callables want, where it is known.

        Raises:
            EffectError: the worker does not know the agent, or the context does not fit. Another
                worker may: during a deploy, old and new ones share a queue.
        """
        try:
            return cls(
                worker=worker,
                agent=worker.registry.agent(request.agent),
                settings=request.settings or {},
                borrowed=worker.borrow(request.context, request.context_type, annotated),
                usage=Usage.of(request.usage),
                turn=request.turn,
                run_id=request.run_id,
                traced=getattr(request, "trace", None) is not None,
            )
        except UserError as error:
            raise lacking(str(error)) from error

    def reference(self, key: str) -> Any:
        """Return what a setting names, or None where the run has no such setting.

        Raises:
            EffectError: this worker does not know the name.
        """
        name = self.settings.get(key)
        return self.named(name) if isinstance(name, str) else None

    def named(self, name: str) -> Any:
        """Return what a name in the settings stands for.

        Raises:
            EffectError: this worker does not know it.
        """
        try:
            return self.worker.registry.reference(name)
        except UserError as error:
            raise lacking(str(error)) from error

    @cached_property
    def outer(self) -> OuterCall | None:
        """The call that this run answers, for a nested run."""
        return outer_call_of(self.worker.registry, self.settings)

    @property
    def tool(self) -> AgentTool | None:
        """The tool that this run is, for a nested run."""
        return self.outer.tool if self.outer is not None else None

    @property
    def shows_items(self) -> bool:
        """Whether callables get the input as items also where it is one plain text.

        They do where the program gave it so, and where a session comes before it.
        """
        given_so = self.settings.get(AS_ITEMS) is True and self.outer is None
        return given_so or names.SETTING_SESSION in self.settings

    @property
    def is_streamed(self) -> bool:
        """Whether the tool that this run is has an `on_stream`."""
        return self.tool is not None and self.tool.on_stream is not None

    @cached_property
    def run_hooks(self) -> RunHooks[Any] | None:
        """The hooks of the run."""
        return self.tool.hooks if self.tool is not None else self.reference(HOOKS)

    def hook_calls(self, run_method: str, agent_method: str, *arguments: Any) -> list[HookCall]:
        """Return the calls of the run's and the agent's hooks at one step."""
        return [
            HookCall(self.run_hooks, run_method, *arguments),
            HookCall(self.agent.hooks, agent_method, *arguments),
        ]

    def hooked(self, run_method: str, agent_method: str) -> bool:
        """Whether anybody wants to be called at a step."""
        return overrides(self.run_hooks, run_method) or overrides(self.agent.hooks, agent_method)

    def input_guardrails(self, agent: Agent[Any] | None = None) -> list[InputGuardrail[Any]]:
        """Return the input guardrails of an agent and of the run, in this order."""
        return [*(agent or self.agent).input_guardrails, *self._named_list("input_guardrails")]

    def output_guardrails(self, agent: Agent[Any] | None = None) -> list[OutputGuardrail[Any]]:
        """Return the output guardrails of an agent and of the run, in this order."""
        return [*(agent or self.agent).output_guardrails, *self._named_list("output_guardrails")]

    def required_steps(self, agent: Agent[Any] | None = None) -> tuple[RequiredStep, ...]:
        """Return what has to be done for an agent besides asking its model."""
        agent = agent or self.agent
        checks = self.input_guardrails(agent)
        ends = overrides(self.run_hooks, "on_agent_end") or overrides(agent.hooks, "on_end")
        outer = self.outer
        answers_call = outer is not None and (
            outer.tool.custom_output_extractor is not None
            or bool(outer.tool.tool_output_guardrails)
            or any(one.is_needed for one in outer.hook_calls("on_tool_end", self.wrapper, ""))
        )
        # No model call follows that would tell what these tools came to.
        tells_end = self.is_streamed and agent.tool_use_behavior != "run_llm_again"
        judges = bool(self.output_guardrails(agent))
        found: dict[RequiredStep, bool] = {
            "check_first": any(not one.run_in_parallel for one in checks),
            "check": any(one.run_in_parallel for one in checks),
            "finalize_answer": ends or answers_call or tells_end or judges,
            "check_output": judges,
        }
        return tuple(duty for duty, is_due in found.items() if is_due)

    def changes(self) -> tuple[Change, ...]:
        """Return what the callables have changed in the context.

        Raises:
            EffectError: what they left cannot be written as JSON.
        """
        try:
            return self.borrowed.changes(self.wrapper)
        except UserError as error:
            raise EffectError(failures.USER_ERROR, str(error), retryable=False) from error

    def _named_list(self, key: str) -> Iterable[Any]:
        names: Any = self.settings.get(key)
        if not isinstance(names, list):
            return []
        return [self.named(str(name)) for name in cast("list[Any]", names)]
