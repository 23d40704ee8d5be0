"""The start of a run: whether the worker can carry it, and what it begins with."""

from pathlib import Path
from typing import Any

import pytest

from outlast.activities.effects.prepare_run import prepare_run
from outlast.activities.errors import EffectError
from outlast.agents.agent import Agent
from outlast.agents.config.run_config import CallModelData, ModelInputData, RunConfig
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.guardrails.guardrail import GuardrailFunctionOutput, InputGuardrail
from outlast.agents.hooks import AgentHooks
from outlast.agents.tools.function_tool import function_tool
from outlast.loop.calls import PreparedRun
from outlast.loop.changes import Change
from outlast.loop.values import JsonObject
from outlast.sessions.described import allow_place
from outlast.sessions.sqlite import SQLiteSession
from outlast.testing import ScriptedModel
from tests.unit.activities.desk import (
    Notes,
    answering,
    name_of,
    prepare_request,
    raising,
    settings_of,
    worker_of,
)

HI: JsonObject = {"role": "user", "content": "Hi"}


@function_tool(strict_mode=False)
async def note(ctx: RunContextWrapper[Notes], text: str) -> str:
    """Note something."""
    ctx.context.seen.append(text)
    return "ok"


def allow(*_arguments: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)


OBJECT = ScriptedModel()


@pytest.mark.parametrize(
    ("own", "of_run", "label"),
    [
        ("gpt-5", None, "gpt-5"),
        ("gpt-5", "o9", "o9"),
        (None, None, ""),
        (None, "o9", "o9"),
        (OBJECT, None, "ScriptedModel"),
        ("gpt-5", OBJECT, "ScriptedModel"),
    ],
)
async def test_a_known_agent_is_introduced_by_its_model(own: Any, of_run: Any, label: str) -> None:
    settings = settings_of(RunConfig(model=of_run)) or None
    worker = worker_of(Agent(name="A", model=own))
    assert await prepare_run(worker, prepare_request(settings=settings)) == PreparedRun(model=label)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"agent": "Nobody"}, "This worker has no agent 'Nobody'. It has: 'A'"),
        ({"context": {"seen": 5}}, "does not fit Notes"),
    ],
)
async def test_a_run_that_cannot_work_ends_before_anything_is_paid(
    fields: dict[str, Any], problem: str
) -> None:
    with pytest.raises(EffectError, match=problem) as caught:
        await prepare_run(worker_of(Agent(name="A", tools=[note])), prepare_request(**fields))
    assert (caught.value.code, caught.value.retryable) == ("user_error", False)


@pytest.mark.parametrize(
    "settings",
    [
        {"hooks": "gone:thing"},
        {"model_ref": "gone:thing"},
        {"call_model_input_filter": "gone:thing"},
        {"output_guardrails": ["gone:thing"]},
        {"error_handlers": {"max_turns": "gone:thing"}},
    ],
    ids=lambda settings: next(iter(settings)),
)
async def test_a_name_that_this_worker_does_not_know_refuses_the_run(settings: JsonObject) -> None:
    with pytest.raises(EffectError, match="has no object named 'gone:thing'") as caught:
        await prepare_run(worker_of(Agent(name="A")), prepare_request(settings=settings))
    assert (caught.value.code, caught.value.retryable) == ("user_error", False)


@pytest.mark.parametrize("key", ["hooks", "model_ref", "call_model_input_filter"])
async def test_a_run_waits_for_the_process_that_has_the_objects_of_its_program(key: str) -> None:
    settings = {key: "run:shop:Thing"}
    with pytest.raises(
        EffectError, match="an object that its program passed, 'shop:Thing'"
    ) as caught:
        await prepare_run(worker_of(Agent(name="A")), prepare_request(settings=settings))
    assert (caught.value.code, caught.value.retryable) == ("worker_lacks", True)


async def test_a_name_of_the_workers_own_is_known() -> None:
    worker = worker_of(Agent(name="A"))
    worker.registry.add_references({"the rule": allow})
    settings = {"call_model_input_filter": "the rule"}
    assert await prepare_run(worker, prepare_request(settings=settings)) == PreparedRun()


async def test_a_run_without_a_context_gets_an_empty_one_of_the_type() -> None:
    worker = worker_of(Agent(name="A", tools=[note]))
    assert (await prepare_run(worker, prepare_request())).context == {"seen": []}
    given = await prepare_run(worker, prepare_request(context={"seen": ["a"]}))
    assert given.context is None, "it is in the run already"


async def test_what_is_due_for_the_agent_is_said() -> None:
    agent = Agent[Any](name="A", input_guardrails=[InputGuardrail(allow)])
    assert (await prepare_run(worker_of(agent), prepare_request())).required_steps == ("check",)


# --- Sessions --------------------------------------------------------------------------------------------


async def test_a_run_with_a_session_begins_with_what_it_remembers(tmp_path: Path) -> None:
    session = SQLiteSession("s", tmp_path / "s.db")
    allow_place(tmp_path)
    old: list[JsonObject] = [HI, {"role": "assistant", "content": "Hello"}]
    await session.add_items(old)
    request = prepare_request(settings={"session": session.describe()}, input=(HI,))
    briefing = await prepare_run(worker_of(Agent(name="A")), request)
    assert briefing.input == (*old, HI)
    assert briefing.old == (0, 1)
    session.close()


async def test_a_session_that_fails_ends_the_run() -> None:
    class Broken:
        session_id = "s"
        get_items = staticmethod(raising(ConnectionError("down")))
        add_items = pop_item = clear_session = get_items

    request = prepare_request(settings={"session": {"ref": name_of(Broken())}}, input=(HI,))
    with pytest.raises(EffectError, match="The session 's' raised ConnectionError") as caught:
        await prepare_run(worker_of(Agent(name="A")), request)
    assert caught.value.retryable


# --- Runs that answer a call -----------------------------------------------------------------------------


EXPERT = Agent[Any](name="Expert")


def asking(hooks: Any = None, **options: Any) -> Any:
    tool = EXPERT.as_tool("ask", "Ask.", **options)
    return worker_of(Agent(name="A", tools=[tool], hooks=hooks))


async def nested(worker: Any, arguments: str = '{"input": "Hi"}', **fields: Any) -> PreparedRun:
    settings = {**answering("ask", arguments), **fields.pop("settings", {})}
    return await prepare_run(worker, prepare_request("Expert", settings=settings, **fields))


async def test_the_arguments_of_a_call_are_what_its_run_is_asked() -> None:
    assert (await nested(asking())).input == (HI,)


async def test_a_tool_may_build_the_input_itself() -> None:
    def build(options: Any) -> list[JsonObject]:
        return [{"role": "developer", "content": options["params"]["input"].upper()}]

    briefing = await nested(asking(input_builder=build))
    assert briefing.input == ({"role": "developer", "content": "HI"},)


async def test_an_input_that_cannot_be_built_is_the_calls_failure() -> None:
    with pytest.raises(EffectError, match="The input of the tool 'ask' raised KeyError"):
        await nested(asking(input_builder=raising(KeyError("k"))))
    with pytest.raises(EffectError, match="Invalid JSON input for tool ask") as caught:
        await nested(asking(), '{"input": 5}')
    assert (caught.value.code, caught.value.retryable) == ("model_behavior", False)


async def test_the_outer_agents_hooks_hear_of_the_call_and_may_change_the_context() -> None:
    class Hooks(AgentHooks[Any]):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            context.context["asked"] = [agent.name, tool.name, context.tool_call_id]

    briefing = await nested(asking(hooks=Hooks()), context={})
    assert briefing.changes == (Change("set", ("asked",), ["A", "ask", "c1"]),)


async def test_a_tool_that_is_gone_is_named() -> None:
    with pytest.raises(EffectError, match="'A' has no tool 'ask'"):
        await nested(worker_of(Agent(name="A"), EXPERT))


async def test_the_session_of_a_tool_is_read_for_its_runs(tmp_path: Path) -> None:
    session = SQLiteSession("expert", tmp_path / "s.db")
    await session.add_items([HI])
    briefing = await nested(asking(session=session), settings={"session": {}})
    assert (briefing.input, briefing.old) == ((HI, HI), (0,))
    session.close()


async def test_settings_of_a_tool_are_known_where_its_call_was_not_planned() -> None:
    """Another worker may have planned it, and the tool has the objects that they name."""

    def shorten(data: CallModelData[Any]) -> ModelInputData:
        return data.model_data

    config = RunConfig(call_model_input_filter=shorten)
    line = shorten.__code__.co_firstlineno
    name = f"run:A/ask/{shorten.__module__}:{shorten.__qualname__}:{line}"
    briefing = await nested(asking(run_config=config), settings={"call_model_input_filter": name})
    assert briefing.input == (HI,)
