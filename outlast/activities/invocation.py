"""The agent, context and hooks that an effect needs to call user code."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from outlast.activities.errors import mistake, user_code, worker_lookup
from outlast.activities.parent_call import ParentCall, parent_call_of
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.agent import Agent
from outlast.agents.agent_tools.agent_tool import AgentTool
from outlast.agents.approvals.policy import ApprovalPolicy, NeedsApproval, policy_of
from outlast.agents.approvals.policy_file import ApprovalPoint, PointKind
from outlast.agents.config.settings import AS_ITEMS, ERROR_HANDLERS, HOOKS, own_references_in
from outlast.agents.context.codec import BorrowedContext, context_type_of
from outlast.agents.context.wrapper import NamedAgent, RunContextWrapper
from outlast.agents.errors import UserError
from outlast.agents.guardrails.guardrail import InputGuardrail, OutputGuardrail
from outlast.agents.hooks import AgentHookContext, HookCall, RunHooks, call_hooks, overrides
from outlast.agents.items.raw_items import copies
from outlast.agents.json_values import as_object
from outlast.agents.registry import handoffs_of
from outlast.agents.schemas.agent_output import output_schema_of, write_output
from outlast.agents.tools.hosted import function_tools
from outlast.agents.usage import Usage
from outlast.contract import names
from outlast.loop.changes import Change
from outlast.loop.checks import RequiredStep
from outlast.loop.effects import AgentEffect
from outlast.loop.items import Item, only_text
from outlast.loop.values import NO_USAGE, Json, JsonObject

_UNREAD: Final = object()
"""Hooks that nobody has asked for."""


@dataclass(kw_only=True)
class Invocation:
    """The agent, context and callables of a run, for one attempt of an effect.

    Attributes:
        borrowed: the run's context, lent to user code.
        wrapper: the context as user code gets it.
        parent_call: the parent's call that this run answers, for a nested run.
        run_key: the run's id and its first execution; two runs with one id have two keys.
        server_managed: the provider's server keeps the conversation.
        is_live: a realtime session has the conversation, and waits for the outputs of its calls.
        decided: the agent's tools with a remembered decision.
        model_at: which of the agent's models is called, if it has several.
    """

    worker: WorkerDeps
    agent: Agent[Any]
    settings: JsonObject
    borrowed: BorrowedContext
    wrapper: RunContextWrapper[Any] = field(init=False)
    parent_call: ParentCall | None = field(init=False)
    run_key: str = field(init=False)
    usage: Usage
    turn: int
    run_id: str
    server_managed: bool = False
    is_live: bool = False
    decided: tuple[str, ...] = ()
    model_at: int = 0
    _run_hooks: Any = field(default=_UNREAD, init=False)

    def __post_init__(self) -> None:
        key = self.worker.key
        self.run_key = names.run_key(self.run_id, "" if key is None else key.chain_id)
        self.parent_call = parent_call_of(self.worker.registry, self.settings)
        self.wrapper = RunContextWrapper(
            context=self.borrowed.context,
            usage=self.usage,
            run_id=self.run_id,
            run_key=self.run_key,
            turn=self.turn,
            tool_input=self.parent_call.tool_input() if self.parent_call is not None else None,
        )

    def lend(self, borrowed: BorrowedContext) -> None:
        """Use another object as the context: that of the calls beside this one."""
        self.borrowed = borrowed
        self.wrapper.context = borrowed.context

    @property
    def agent_name(self) -> str:
        """The name by which the run refers to the agent."""
        return self.worker.registry.name_of(self.agent)

    @classmethod
    def of(cls, worker: WorkerDeps, request: AgentEffect, annotated: Any = None) -> "Invocation":
        """Return the invocation for a request.

        Raises:
            EffectError: this worker lacks the agent or an object of the run, or the context does not
                fit; another may fit.
        """
        with worker_lookup():
            invocation = cls(
                worker=worker,
                agent=worker.registry.agent(request.agent),
                settings=request.settings or {},
                borrowed=worker.borrow(request.context, request.context_type, annotated),
                usage=Usage.of(getattr(request, "usage", NO_USAGE)),  # a preparation has none
                turn=getattr(request, "turn", 0),
                run_id=request.run_id,
                model_at=getattr(request, "model_at", 0),
            )
            # Before any code of users runs: what they did would be done again.
            for name in own_references_in(invocation.settings):
                worker.registry.reference(name)
        return invocation

    def reference(self, key: str) -> Any:
        """Return the object that a setting names, or None if the run has no such setting.

        Raises:
            EffectError: this worker does not have the name.
        """
        name = self.settings.get(key)
        return self.named(name) if isinstance(name, str) else None

    def error_handler(self, kind: str) -> str | None:
        """Return the name of the run's error handler of a kind, if there is one."""
        return (as_object(self.settings.get(ERROR_HANDLERS)) or {}).get(kind)

    def named(self, name: str) -> Any:
        """Return the object with a name.

        Raises:
            EffectError: this worker does not have the name.
        """
        with worker_lookup():
            return self.worker.registry.reference(name)

    @property
    def tool(self) -> AgentTool | None:
        """The tool of that call, for a nested run."""
        return self.parent_call.tool if self.parent_call is not None else None

    def approval_policy(
        self,
        kind: PointKind,
        name: str,
        setting: NeedsApproval,
        agent: NamedAgent | None = None,
        *,
        effect: str | None = None,
    ) -> ApprovalPolicy | None:
        """Return the approval policy of a call or answer; None if none is needed.

        The operators' file may change the `setting` of the definition.
        """
        file = self.worker.approvals
        if file is not None:
            owner = self.worker.registry.policy_owner(agent or self.agent)
            point = ApprovalPoint(kind=kind, agent=owner, name=name, setting=setting, effect=effect)
            setting = file.needs_approval(point)
        return policy_of(setting)

    @property
    def shows_items(self) -> bool:
        """Whether user code gets even one plain text as items: passed so, or after a session."""
        passed_items = self.settings.get(AS_ITEMS) is True and self.parent_call is None
        return passed_items or names.SETTING_SESSION in self.settings

    def as_input(self, items: Sequence[Item]) -> str | list[JsonObject]:
        """Return the input as user code gets it: one plain text, or copies of the items."""
        raws = copies(item.raw for item in items)
        text = None if self.shows_items else only_text(raws)
        return raws if text is None else text

    def tool_answer(self, value: Any) -> tuple[Json, Any]:
        """Return a tool's result as JSON and for user code; text if the agent answers with text."""
        if output_schema_of(self.agent.output_type) is None:
            return str(value), str(value)
        return write_output(None, value), value

    @property
    def is_streamed(self) -> bool:
        """Whether this run's tool has an `on_stream`."""
        return self.tool is not None and self.tool.on_stream is not None

    @property
    def run_hooks(self) -> RunHooks[Any] | None:
        """The hooks of the run."""
        if self._run_hooks is _UNREAD:
            tool = self.tool
            self._run_hooks = tool.hooks if tool is not None else self.reference(HOOKS)
        return self._run_hooks

    def hook_calls(self, step: str, *arguments: Any, agent_step: str = "") -> list[HookCall]:
        """Return the calls of the run's and the agent's hooks, which may name the step otherwise."""
        return [
            HookCall(self.run_hooks, step, *arguments),
            HookCall(self.agent.hooks, agent_step or step, *arguments),
        ]

    async def call_agent_hooks(
        self,
        run_method: str,
        agent_method: str,
        *arguments: Any,
        turn_input: Callable[[], list[JsonObject]],
    ) -> None:
        """Call the hooks at an agent's start or end, which may change the context.

        Raises:
            EffectError: a hook failed.
        """
        if not self.hooked(run_method, agent_method):
            return
        context = AgentHookContext(
            context=self.wrapper.context,
            usage=self.usage,
            run_id=self.run_id,
            run_key=self.run_key,
            turn=self.turn,
            turn_input=turn_input(),
            tool_input=self.wrapper.tool_input,
        )
        with user_code(f"{run_method} of agent {self.agent.name!r}"):
            calls = self.hook_calls(
                run_method, context, self.agent, *arguments, agent_step=agent_method
            )
            await call_hooks(*calls)
        self.wrapper.context = context.context

    async def call_run_hook(self, step: str, *arguments: Any) -> None:
        """Call a hook that only runs have, such as `on_run_start`.

        Raises:
            EffectError: the hook failed.
        """
        with user_code(f"{step} of the run"):
            await call_hooks(HookCall(self.run_hooks, step, self.wrapper, self.agent, *arguments))

    def hooked(self, step: str, agent_step: str = "") -> bool:
        """Whether the run or the agent has a hook for a step."""
        of_run, own = self.run_hooks, self.agent.hooks
        if of_run is None and own is None:  # as in most runs, and asked for each call
            return False
        return overrides(of_run, step) or overrides(own, agent_step or step)

    def input_guardrails(self, agent: Agent[Any] | None = None) -> list[InputGuardrail[Any]]:
        """Return the input guardrails of an agent and of the run, in this order."""
        return [*(agent or self.agent).input_guardrails, *self._named_list("input_guardrails")]

    def output_guardrails(self, agent: Agent[Any] | None = None) -> list[OutputGuardrail[Any]]:
        """Return the output guardrails of an agent and of the run, in this order."""
        return [*(agent or self.agent).output_guardrails, *self._named_list("output_guardrails")]

    def required_steps(self, agent: Agent[Any] | None = None) -> tuple[RequiredStep, ...]:
        """Return the steps that an agent requires besides model calls."""
        agent = agent or self.agent
        checks, judges = self.input_guardrails(agent), self.output_guardrails(agent)
        is_plain = self.run_hooks is None and agent.hooks is None and self.parent_call is None
        if is_plain and not checks and not judges:  # as in most runs, and asked for each call
            return ()
        ends = overrides(self.run_hooks, "on_agent_end") or overrides(agent.hooks, "on_end")
        ends = ends or overrides(self.run_hooks, "on_run_end")
        parent_call = self.parent_call
        answers_call = parent_call is not None and (
            parent_call.tool.custom_output_extractor is not None
            or bool(parent_call.tool.tool_output_guardrails)
            or any(
                hook.is_needed for hook in parent_call.hook_calls("on_tool_end", self.wrapper, None)
            )
        )
        # No model call follows that would stream the outputs of these tools.
        tells_end = self.is_streamed and agent.tool_use_behavior != "run_llm_again"
        found: dict[RequiredStep, bool] = {
            "check_first": any(not check.run_in_parallel for check in checks),
            "check": any(check.run_in_parallel for check in checks),
            "finalize_answer": ends or answers_call or tells_end or bool(judges),
            "check_output": bool(judges),
            "check_said": any(judge.judges_people for judge in judges),
        }
        return tuple(step for step, is_due in found.items() if is_due)

    def changes(self) -> tuple[Change, ...]:
        """Return the changes that user code made in the context.

        Raises:
            EffectError: the changed context cannot be written as JSON.
        """
        try:
            return self.borrowed.changes(self.wrapper)
        except UserError as error:
            raise mistake(str(error)) from error

    def _named_list(self, key: str) -> Iterable[Any]:
        names: Any = self.settings.get(key)
        if not isinstance(names, list):
            return []
        return [self.named(str(name)) for name in cast("list[Any]", names)]


def annotated_type(agent: Agent[Any]) -> Any:
    """Return the context type that the agent's callables are annotated with, if any."""
    offered = [*function_tools(agent.tools), *handoffs_of(agent)]
    entries: list[object] = [agent.instructions, *(entry.is_enabled for entry in offered)]
    types = (context_type_of(entry) for entry in entries if callable(entry))
    return next((context_type for context_type in types if context_type is not None), None)
