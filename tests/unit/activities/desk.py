"""Requests and workers for the tests of effects."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from outlast.activities.invocation import Invocation
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.agent import Agent
from outlast.agents.config.run_config import RunConfig
from outlast.agents.config.settings import write_run_config
from outlast.agents.references import RunReferences
from outlast.agents.registry import Registry
from outlast.agents.tools.definition import (
    FunctionTool,
)
from outlast.blobs.contents import LargeContent
from outlast.contract.effects import EffectRequest
from outlast.loop.checks import Candidate
from outlast.loop.effects import (
    CallModel,
    CheckInput,
    FinalizeAnswer,
    PrepareRun,
    RunHandoff,
    RunTool,
    SaveSession,
)
from outlast.loop.items import Item
from outlast.loop.values import Json, JsonObject
from outlast.testing import ScriptedModel

REFERENCES = RunReferences()
"""The objects that the settings of the runs in these tests name."""


@dataclass
class Notes:
    """A context."""

    seen: list[str] = field(default_factory=list[str])


def name_of(entry: object) -> str:
    """Return the name of an object that `worker_of` knows."""
    return REFERENCES.name(entry)


def settings_of(config: RunConfig) -> JsonObject:
    """Return a run's settings, whose objects `worker_of` knows."""
    return write_run_config(config, name_of)


def worker_of(*agents: Agent[Any], model: ScriptedModel | None = None) -> WorkerDeps:
    """Return what a worker with these agents knows of a run."""
    registry = Registry(agents).for_run(REFERENCES)
    return WorkerDeps(registry=registry, models=model or ScriptedModel())


def with_content(content: LargeContent) -> WorkerDeps:
    """Return what a worker with a blob store knows."""
    return WorkerDeps(registry=Registry(()), models=ScriptedModel(), content=content)


def worker_with(tool: FunctionTool) -> WorkerDeps:
    """Return what a worker with one tool of the agent `A` knows."""
    return worker_of(Agent(name="A", tools=[tool]))


def tool_request(name: str, arguments: str = "{}", **fields: Any) -> EffectRequest[RunTool]:
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
    return EffectRequest(effect=replace(request, **fields))


def handoff_request(name: str, agent: str = "A", **fields: Any) -> EffectRequest[RunHandoff]:
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
    return EffectRequest(effect=replace(request, **fields))


def model_request(
    agent: str = "A",
    *items: Item,
    context: Json = None,
    settings: JsonObject | None = None,
    **fields: Any,
) -> EffectRequest[CallModel]:
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
    return EffectRequest(effect=replace(call, **fields), items=said)


def answering(tool: str, arguments: str = '{"input": "Hi"}', **more: Any) -> JsonObject:
    """Return the settings of a run that answers a call of the agent `A`."""
    call = {"agent": "A", "tool": tool, "call_id": "c1", "arguments": arguments}
    return {"as_tool": {**call, **more}}


HELLO = Item("input", {"role": "user", "content": "Hello"})


def prepare_request(agent: str = "A", **fields: Any) -> EffectRequest[PrepareRun]:
    """Return the request that begins a run."""
    return EffectRequest(effect=PrepareRun(effect=1, agent=agent, **fields))


def check_request(*items: Item, **fields: Any) -> EffectRequest[CheckInput]:
    """Return the request of the input guardrails of the agent `A` that hold the model up."""
    request = CheckInput(
        effect=2, agent="A", stage="blocking", items=items or (HELLO,), turn=0, run_id="support-42"
    )
    return EffectRequest(effect=replace(request, **fields))


def conclusion_request(
    candidate: Candidate, *items: Item, **fields: Any
) -> EffectRequest[FinalizeAnswer]:
    """Return the request to conclude an answer of the agent `A`."""
    said = items or (HELLO,)
    call = FinalizeAnswer(
        effect=4,
        agent="A",
        candidate=candidate,
        input_length=len(said),
        history=1,
        turn=1,
        run_id="support-42",
    )
    return EffectRequest(effect=replace(call, **fields), items=said)


def filter_request(name: str, *items: Item, fresh: int, **fields: Any) -> EffectRequest[RunHandoff]:
    """Return the request of a handoff that changes what the next agent sees."""
    request = handoff_request(name, input_length=len(items), history=1, fresh=fresh, **fields)
    return replace(request, items=items)


def save_request(*items: Item, **fields: Any) -> EffectRequest[SaveSession]:
    """Return the request to save items into the session of a run."""
    call = SaveSession(effect=5, start=0, stop=len(items), run_id="support-42")
    return EffectRequest(effect=replace(call, **fields), items=items)


def invocation_of(
    *agents: Agent[Any], context: Json = None, settings: JsonObject | None = None
) -> Invocation:
    """Return the invocation of a model call of the agent `A`."""
    request = model_request(context=context, settings=settings).effect
    return Invocation.of(worker_of(*(agents or (Agent(name="A"),))), request)


def raising(error: Exception) -> Callable[..., Any]:
    """Return a callable of any arguments that fails."""

    def fail(*_arguments: Any) -> Any:
        raise error

    return fail
