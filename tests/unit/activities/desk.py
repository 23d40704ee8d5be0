"""Requests and workers for the tests of effects."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from outlast.activities.worker_knowledge import WorkerKnowledge
from outlast.agents.agent import Agent
from outlast.agents.registry import Registry
from outlast.agents.tool import FunctionTool
from outlast.contract.records import ModelRequestRecord
from outlast.loop.commands import CallModel, RunHandoff, RunTool
from outlast.loop.items import Item
from outlast.loop.values import Json, JsonObject
from outlast.testing import ScriptedModel


@dataclass
class Notes:
    """A context."""

    seen: list[str] = field(default_factory=list[str])


def worker_of(*agents: Agent[Any], model: ScriptedModel | None = None) -> WorkerKnowledge:
    """Return what a worker with these agents knows."""
    return WorkerKnowledge(registry=Registry(agents), models=model or ScriptedModel())


def worker_with(tool: FunctionTool) -> WorkerKnowledge:
    """Return what a worker with one tool of the agent `A` knows."""
    return worker_of(Agent(name="A", tools=[tool]))


def tool_request(name: str, arguments: str = "{}", **fields: Any) -> RunTool:
    """Return the request of a tool call of the agent `A`."""
    request = RunTool(
        effect=3,
        agent="A",
        name=name,
        call_id="c1",
        arguments=arguments,
        turn=2,
        run_id="support-42",
    )
    return replace(request, **fields)


def handoff_request(name: str, agent: str = "A", **fields: Any) -> RunHandoff:
    """Return the request of a handoff's callback."""
    request = RunHandoff(
        effect=3,
        agent=agent,
        name=name,
        target="B",
        call_id="h1",
        arguments="{}",
        turn=2,
        run_id="support-42",
    )
    return replace(request, **fields)


def model_request(
    agent: str = "A",
    *items: Item,
    context: Json = None,
    settings: JsonObject | None = None,
    **fields: Any,
) -> ModelRequestRecord:
    """Return the request of a model call."""
    said = items or (Item("input", {"role": "user", "content": "Hello"}),)
    call = CallModel(
        effect=2,
        agent=agent,
        turn=1,
        input_length=len(said),
        context=context,
        settings=settings,
        run_id="support-42",
    )
    return ModelRequestRecord(call=replace(call, **fields), items=said)


def raising(error: Exception) -> Callable[..., Any]:
    """Return a callable of any arguments that fails."""

    def fail(*_arguments: Any) -> Any:
        raise error

    return fail
