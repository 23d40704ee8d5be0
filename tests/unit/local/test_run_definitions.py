"""Agents of one name: each run has the one that it was started with."""

from types import SimpleNamespace
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.agents.registry import Registry
from outlast.agents.tools.function_tool import function_tool
from outlast.local import run_definitions
from outlast.local.run_definitions import RunDefinitions


def clerk(user: str) -> Agent[Any]:
    return Agent(name="Clerk", instructions=user, handoffs=[Agent(name="Orders")])


ANN, BOB = clerk("ann"), clerk("bob")


@pytest.fixture
def registry() -> Registry:
    return Registry([ANN])


@pytest.fixture
def definitions(registry: Registry) -> RunDefinitions:
    return RunDefinitions(registry)


def test_runs_at_once_have_the_agents_they_were_given(
    registry: Registry, definitions: RunDefinitions
) -> None:
    definitions.attend("r1", ANN)
    definitions.attend("r2", BOB)
    assert registry.of_run("r1").registry.agent("Clerk") is ANN
    assert registry.of_run("r1").registry.agent("Orders") is ANN.handoffs[0]
    assert registry.of_run("r2/look_up-3").registry.agent("Orders") is BOB.handoffs[0], (
        "nested runs, too"
    )
    assert registry.agent("Clerk") is BOB, "others have what came last"


def test_a_run_that_nobody_waits_for_keeps_its_agent(
    registry: Registry, definitions: RunDefinitions
) -> None:
    definitions.attend("r1", ANN)
    definitions.leave("r1")
    definitions.attend("r2", BOB)
    assert registry.of_run("r1").registry.agent("Clerk") is ANN
    definitions.attend("r1", BOB)
    assert registry.of_run("r1").registry.agent("Clerk") is BOB, (
        "until it is gone on with by another one"
    )


def test_a_run_that_has_ended_keeps_nothing(
    registry: Registry, definitions: RunDefinitions
) -> None:
    definitions.attend("r1", ANN)
    definitions.attend("r1", ANN)
    definitions.leave("r1", ended=True)
    assert registry.of_run("r1").registry is not registry, "somebody else still reads it"
    definitions.leave("r1", ended=True)
    assert registry.of_run("r1").registry is registry


def test_of_many_runs_that_nobody_waits_for_the_latest_keep_theirs(
    registry: Registry, definitions: RunDefinitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_definitions, "KEPT_UNATTENDED", 2)
    for run_id in ("r1", "r2", "r3"):
        definitions.attend(run_id, ANN)
    for run_id in ("r1", "r2"):
        definitions.leave(run_id)
    definitions.attend("r1", ANN)
    definitions.leave("r1")
    definitions.leave("r3")
    kept = [one for one in ("r1", "r2", "r3") if registry.of_run(one).registry is not registry]
    assert kept == ["r1", "r3"]


def test_an_agent_that_was_changed_is_looked_at_again(
    registry: Registry, definitions: RunDefinitions
) -> None:
    agent = clerk("cy")
    definitions.attend("r1", agent)
    definitions.attend("r2", agent)
    assert registry.of_run("r1").registry is registry.of_run("r2").registry
    agent.handoffs = [orders := Agent[Any](name="Orders")]
    definitions.attend("r3", agent)
    assert registry.of_run("r3").registry.agent("Orders") is orders


def test_a_type_of_context_is_known_to_the_run(
    registry: Registry, definitions: RunDefinitions
) -> None:
    definitions.attend("r1", ANN, SimpleNamespace)
    for one in (registry, registry.of_run("r1").registry):
        assert one.context_type("types:SimpleNamespace")[0] is SimpleNamespace


def test_an_agent_that_does_not_fit_changes_nothing(
    registry: Registry, definitions: RunDefinitions
) -> None:
    twice = Agent[Any](name="Clerk", tools=[function_tool(lambda: 1, name_override="x")] * 2)
    with pytest.raises(UserError, match="name `x` is used by multiple tools"):
        definitions.attend("r1", twice)
    assert registry.agent("Clerk") is ANN
    assert registry.of_run("r1").registry is registry


def test_what_a_run_has_again_is_kept_no_longer_than_that_of_others(
    definitions: RunDefinitions, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_definitions, "KEPT_UNATTENDED", 1)
    ann = clerk("ann")
    definitions.attend("r-1", ann)
    had = definitions.of_run("r-1")
    assert had is not None
    definitions.leave("r-1", ended=True)
    definitions.keep("r-1", had)
    assert registry.of_run("r-1") is had
    definitions.attend("r-2", clerk("bob"))
    definitions.leave("r-2")
    assert registry.of_run("r-1").registry is registry
