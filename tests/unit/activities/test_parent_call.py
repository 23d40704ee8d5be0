"""The call that a nested run answers."""

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from outlast.activities.errors import EffectError
from outlast.activities.parent_call import ParentCall, parent_call_of
from outlast.agents.agent import Agent
from outlast.agents.agent_tools.agent_tool import AgentTool
from outlast.agents.config.run_config import CallModelData, ModelInputData, RunConfig
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.hooks import AgentHooks, RunHooks, call_hooks
from outlast.agents.references import base_name
from outlast.agents.registry import Registry
from outlast.agents.tools.function_tool import function_tool
from outlast.loop.values import JsonObject
from tests.unit.activities.desk import answering, name_of, worker_of


@dataclass
class Order:
    number: int
    urgent: bool = False


class Item(BaseModel):
    number: int


@function_tool
async def look_up() -> str:
    """Look up."""
    return ""


def asking(*tools: Any, hooks: Any = None) -> Registry:
    return worker_of(Agent[Any](name="A", tools=list(tools), hooks=hooks)).registry


def expert(**options: Any) -> AgentTool:
    return Agent[Any](name="Expert").as_tool("ask", "Ask.", **options)


def answered(registry: Registry, settings: JsonObject) -> ParentCall:
    outer = parent_call_of(registry, settings)
    assert outer is not None
    return outer


def test_a_run_of_its_own_answers_no_call() -> None:
    assert parent_call_of(asking(), {}) is None
    assert parent_call_of(asking(), {"as_tool": "typed by hand"}) is None


def test_the_tool_and_the_agent_that_called_it_are_found() -> None:
    tool = expert()
    outer = answered(asking(tool), answering("ask"))
    assert (outer.tool, outer.agent.name, outer.call_id) == (tool, "A", "c1")
    assert (outer.arguments, outer.hooks) == ('{"input": "Hi"}', None)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (answering("gone"), "'A' has no tool 'gone'"),
        ({"as_tool": {"agent": "Nobody", "tool": "ask"}}, "has no agent 'Nobody'"),
        ({"as_tool": {}}, "cannot find the tool call that the run answers"),
        (answering("ask", hooks="gone:Hooks"), "has no object named 'gone:Hooks'"),
        (answering("look_up"), "The tool 'look_up' of agent 'A' is not an agent on this worker"),
    ],
)
def test_a_call_that_this_worker_does_not_know_another_may(
    settings: JsonObject, problem: str
) -> None:
    """During a deploy, old and new workers share a queue."""
    with pytest.raises(EffectError, match=problem) as caught:
        parent_call_of(asking(expert(), look_up), settings)
    assert (caught.value.code, caught.value.retryable) == ("worker_lacks", True)


@pytest.mark.parametrize(
    ("parameters", "arguments", "tool_input"),
    [
        (None, '{"input": "Hi"}', None),
        (Order, '{"number": 5}', {"number": 5, "urgent": False}),
        (Item, '{"number": 5}', {"number": 5}),
        (Order, '{"number": "all"}', None),
        (Order, "{", None),
    ],
)
def test_arguments_with_fields_are_the_nested_runs_tool_input(
    parameters: Any, arguments: str, tool_input: Any
) -> None:
    registry = asking(expert(parameters=parameters))
    assert answered(registry, answering("ask", arguments)).tool_input() == tool_input


class OfRun(RunHooks[Any]):
    def __init__(self, heard: list[Any]) -> None:
        self.heard = heard

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        self.heard.append(("run", agent.name, tool.name, result))


class OfAgent(AgentHooks[Any]):
    def __init__(self, heard: list[Any]) -> None:
        self.heard = heard

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        call = (context.tool_name, context.tool_call_id, context.tool_arguments)
        self.heard.append(("agent", agent.name, call, result))
        context.context["end"] = True


async def test_the_outer_hooks_hear_of_the_call() -> None:
    heard: list[Any] = []
    registry = asking(expert(), hooks=OfAgent(heard))
    outer = answered(registry, answering("ask", hooks=name_of(OfRun(heard))))
    wrapper = RunContextWrapper[Any](context={}, run_id="support-42/ask-3")
    await call_hooks(*outer.hook_calls("on_tool_end", wrapper, "done"))
    assert heard == [
        ("run", "A", "ask", "done"),
        ("agent", "A", ("ask", "c1", '{"input": "Hi"}'), "done"),
    ]
    assert wrapper.context == {"end": True}


def test_what_the_tools_settings_name_is_known_also_where_the_call_was_not_planned() -> None:
    def shorten(data: CallModelData[Any]) -> ModelInputData:
        return data.model_data

    registry = asking(expert(run_config=RunConfig(call_model_input_filter=shorten)))
    name = f"run:A/ask/{base_name(shorten)}"
    assert registry.unknown_references([name]) == [name]
    parent_call_of(registry, answering("ask"))
    assert registry.reference(name) is shorten
