"""Hooks: which methods an object overrides, and how those of a run and an agent are called."""

import asyncio
from typing import Any

import agents as sdk
import pytest

from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.agents.hooks import (
    AgentHookContext,
    AgentHooks,
    AgentHooksBase,
    HookCall,
    RunHooks,
    RunHooksBase,
    call_hooks,
    check_agent_hooks,
    check_run_hooks,
    overrides,
)

CONTEXT = RunContextWrapper[Any](context=None)


class Diary(RunHooks[Any]):
    def __init__(self) -> None:
        self.entries: list[tuple[Any, ...]] = []

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        self.entries.append(("tool", agent, tool))

    async def on_handoff(self, context: Any, to_agent: Any, from_agent: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]  # another order
        self.entries.append(("handoff", from_agent, to_agent))


class LongerDiary(Diary):
    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        self.entries.append(("llm", response))


class AgentDiary(AgentHooks[Any]):
    def __init__(self) -> None:
        self.entries: list[tuple[Any, ...]] = []

    def on_end(self, context: Any, agent: Any, output: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]  # a sync one works too
        self.entries.append(("end", agent, output))

    async def on_handoff(self, ctx: Any, source: Any, agent: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]  # the context has any name
        self.entries.append(("handoff", agent, source))


def methods_of(hooks: Any, base: type) -> set[str]:
    names = {name for name in dir(base) if name.startswith("on_")}
    return {name for name in names if overrides(hooks, name)}


def test_what_a_class_or_its_parent_defines_is_overridden_and_nothing_else() -> None:
    assert methods_of(Diary(), RunHooksBase) == {"on_tool_start", "on_handoff"}
    assert methods_of(LongerDiary(), RunHooksBase) == {"on_tool_start", "on_handoff", "on_llm_end"}
    assert methods_of(AgentDiary(), AgentHooksBase) == {"on_end", "on_handoff"}
    assert methods_of(RunHooks(), RunHooksBase) == set()
    assert methods_of(AgentHooks(), AgentHooksBase) == set()
    assert methods_of(None, RunHooksBase) == set()


def test_a_method_set_on_the_object_is_overridden() -> None:
    async def note(context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None: ...

    hooks = RunHooks[Any]()
    hooks.on_llm_start = note
    assert methods_of(hooks, RunHooksBase) == {"on_llm_start"}


def test_a_method_that_the_object_has_not_is_not_overridden() -> None:
    assert not overrides(Diary(), "on_end")
    with pytest.raises(ValueError, match="no hook is called 'on_run_begin'"):
        overrides(Diary(), "on_run_begin")


async def test_arguments_come_in_order_and_those_of_a_handoff_by_name() -> None:
    run, agent = Diary(), AgentDiary()
    await call_hooks(HookCall(run, "on_tool_start", CONTEXT, "A", "refund"))
    await call_hooks(
        HookCall(run, "on_handoff", CONTEXT, "A", "B"),
        HookCall(agent, "on_handoff", CONTEXT, "B", "A"),
    )
    await call_hooks(HookCall(agent, "on_end", CONTEXT, "B", "done"))
    assert run.entries == [("tool", "A", "refund"), ("handoff", "A", "B")]
    assert agent.entries == [("handoff", "B", "A"), ("end", "B", "done")]


async def test_empty_methods_and_missing_hooks_are_not_called() -> None:
    calls = [HookCall(Diary(), "on_llm_end", CONTEXT, "A", None), HookCall(None, "on_end")]
    assert [hook_call.is_needed for hook_call in calls] == [False, False]
    await call_hooks(*calls)
    await call_hooks()


async def test_run_and_agent_hooks_run_at_the_same_time() -> None:
    first, second = asyncio.Event(), asyncio.Event()

    class Run(RunHooks[Any]):
        async def on_agent_start(self, context: Any, agent: Any) -> None:
            first.set()
            await second.wait()

    class Own(AgentHooks[Any]):
        async def on_start(self, context: Any, agent: Any) -> None:
            second.set()
            await first.wait()

    context = AgentHookContext[Any](context=None, turn_input=[{"role": "user"}])
    calls = (
        HookCall(Run(), "on_agent_start", context, "A"),
        HookCall(Own(), "on_start", context, "A"),
    )
    await asyncio.wait_for(call_hooks(*calls), timeout=5)
    assert first.is_set()
    assert second.is_set()


async def test_a_hook_that_fails_lets_the_other_finish_and_its_error_is_raised() -> None:
    finished = False

    class Run(RunHooks[Any]):
        async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
            raise LookupError("no diary")

    class Own(AgentHooks[Any]):
        async def on_end(self, context: Any, agent: Any, output: Any) -> None:
            nonlocal finished
            await asyncio.sleep(0)
            finished = True

    with pytest.raises(LookupError, match="no diary"):
        await call_hooks(
            HookCall(Own(), "on_end", CONTEXT, "A", ""),
            HookCall(Run(), "on_agent_end", CONTEXT, "A", ""),
        )
    assert finished


def test_a_hook_context_is_a_run_context_with_the_turns_input() -> None:
    context = AgentHookContext[Any](context=1, run_id="support-42")
    assert isinstance(context, RunContextWrapper)
    assert (context.context, context.run_id, context.turn_input) == (1, "support-42", [])


class Both(RunHooks[Any], AgentHooks[Any]):  # pyright: ignore[reportIncompatibleMethodOverride]  # the mistake
    pass


@pytest.mark.parametrize(
    ("hooks", "message"),
    [
        (AgentDiary(), r"AgentDiary has the hooks of an agent\. Pass it to Agent\(hooks=\.\.\.\)"),
        (Both(), r"Both has the hooks of an agent"),
        (Diary, r"instances of RunHooks, not type"),
        ("hooks", r"instances of RunHooks, not str"),
        (sdk.RunHooks(), r"not RunHooks.*\. .* OpenAI Agents SDK: derive it from outlast's"),
    ],
)
def test_what_is_no_run_hooks_is_a_type_error(hooks: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        check_run_hooks(hooks)


@pytest.mark.parametrize("hooks", [Diary(), Both(), AgentDiary, 7, sdk.AgentHooks()])
def test_what_is_no_agent_hooks_is_refused_naming_the_agent(hooks: object) -> None:
    with pytest.raises(UserError, match=r"^Agent 'A': Agent hooks must be an AgentHooks instance"):
        check_agent_hooks(hooks, "Agent 'A'")


def test_a_method_with_other_parameters_is_refused() -> None:
    class TooFew(RunHooks[Any]):
        async def on_agent_end(self, context: Any, agent: Any) -> None: ...  # pyright: ignore[reportIncompatibleMethodOverride]  # the mistake

    class Renamed(AgentHooks[Any]):
        async def on_handoff(self, context: Any, agent: Any, origin: Any) -> None: ...  # pyright: ignore[reportIncompatibleMethodOverride]  # the mistake

    ended = r"^Run hooks: on_agent_end is called with \(context, agent, output\), but .*TooFew"
    with pytest.raises(UserError, match=ended):
        check_run_hooks(TooFew())
    handed = r"^Agent 'A': hooks: on_handoff is called with \(context, agent, source\)"
    with pytest.raises(UserError, match=handed):
        check_agent_hooks(Renamed(), "Agent 'A'")


def test_hooks_that_fit_and_none_are_let_through() -> None:
    for hooks in (None, RunHooks(), LongerDiary(), RunHooksBase[Any, Any]()):
        check_run_hooks(hooks)
    for hooks in (None, AgentHooks(), AgentDiary(), AgentHooksBase[Any, Any]()):
        check_agent_hooks(hooks, "Agent 'A'")
