"""What an effect gets: the type of the context, live values, and the objects of its run."""

import asyncio
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any

import pytest

from outlast.activities import worker_deps
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.agent import Agent
from outlast.agents.context.encoding import type_name
from outlast.agents.context.factories import ContextFactories
from outlast.agents.context.live import MARKER
from outlast.agents.errors import UserError
from outlast.agents.registry import Registry
from outlast.agents.run_objects import RunKey, RunObjects, RunObjectTable
from outlast.contract.worker_state import Lineage, WorkerState
from outlast.loop.effects import OffloadItems
from outlast.loop.values import JsonObject
from outlast.ports.identity import Execution, WorkerIdentity
from outlast.testing import ScriptedModel
from tests.unit.activities.desk import model_request, save_request


@dataclass
class Customer:
    name: str = ""


@dataclass
class Order:
    name: str = ""


def deps(*types: type) -> WorkerDeps:
    registry = Registry([Agent[Any](name="A")])
    for one in types:
        registry.add_context_type(one)
    return WorkerDeps(registry=registry, models=ScriptedModel())


@pytest.mark.parametrize(
    ("known", "started_with", "annotated", "kind"),
    [
        ((Customer, Order), type_name(Customer), Order, Customer),
        ((Customer, Order), None, Order, Order),
        ((Customer,), "moved.elsewhere:Customer", Order, Order),
        ((Customer, Order), type_name(Customer), None, Customer),
        ((Customer,), None, None, Customer),
        ((Customer,), "moved.elsewhere:Customer", None, Customer),
        ((Customer, Order), None, None, dict),
        ((), type_name(Customer), None, Customer),
        ((), "moved.elsewhere:Customer", None, dict),
    ],
)
def test_the_runs_own_type_counts_then_the_annotation_then_the_only_one(
    known: tuple[type, ...], started_with: str | None, annotated: type | None, kind: type
) -> None:
    borrowed = deps(*known).borrow({"name": "Ann"}, started_with, annotated)
    assert type(borrowed.context) is kind


def test_a_context_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(UserError, match="does not fit Customer"):
        deps(Customer).borrow({"name": 5}, None)


async def test_only_live_values_that_are_not_here_are_made_or_missed() -> None:
    context = {"pool": {MARKER: "Pool"}, "lock": {MARKER: "Lock"}}
    here = replace(deps(), live={("pool",): "the pool"})
    with pytest.raises(UserError, match=r"The context's lock \(Lock\) is not data"):
        await here.with_live_values(context)
    makes = replace(here, contexts=ContextFactories({"lock": lambda: "a lock"}))
    whole = await makes.with_live_values(context)
    assert whole.live == {("pool",): "the pool", ("lock",): "a lock"}
    assert await whole.with_live_values(context) is whole
    useless = replace(
        deps(), live={("pool",): 1}, contexts=ContextFactories({"pool": lambda: "another"})
    )
    with pytest.raises(UserError, match="lock"):
        await useless.with_live_values(context)


async def test_each_run_has_the_live_values_that_a_factory_made_for_it() -> None:
    made = replace(deps(), contexts=ContextFactories(lambda _data: {"lock": object()}))
    context = {"lock": {MARKER: "Lock"}}
    first, again, other = [
        await replace(made, key=RunKey("default", chain_id)).with_live_values(context)
        for chain_id in ("first", "first", "another of its id")
    ]
    assert first.live == again.live
    assert first.live != other.live


# --- The objects of a run ---------------------------------------------------------------------------------

FIRST = RunKey("default", "first-execution")


def hosted(agent: Agent[Any]) -> Registry:
    return Registry([agent], tell_apart=True)


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> RunObjectTable:
    monkeypatch.setattr(worker_deps, "RUN_OBJECTS", table := RunObjectTable())
    return table


def execution(execution_id: str = "first-execution", workflow_id: str = "support-42") -> Execution:
    return Execution(namespace="default", workflow_id=workflow_id, execution_id=execution_id)


def knowing(worker: WorkerDeps, *chains: tuple[str, ...]) -> WorkerDeps:
    """Return a worker that has had the workflows of these chains of executions."""
    worker = replace(worker, state=WorkerState())
    for first, *others in chains:
        for one in (first, *others):
            worker.state.lineages.note(one, first, None)
    return worker


async def test_a_worker_without_workflows_and_server_serves_one_run(table: RunObjectTable) -> None:
    table.bring(FIRST, RunObjects(definitions=hosted(Agent(name="B"))))
    worker = deps()
    assert await worker.of_execution(execution(), model_request().effect) is worker


async def test_every_execution_of_a_run_has_what_its_start_brought(table: RunObjectTable) -> None:
    worker = knowing(deps(), ("first-execution", "its next history"), ("another of its id",))
    worker.state.lineages.note("nested", "nested", ("support-42", "its next history"))
    own, caller = Agent[Any](name="A"), copy_context()
    objects = table.bring(
        FIRST, RunObjects(definitions=hosted(own), live={("pool",): 1}, caller=caller)
    )
    for name in ("first-execution", "its next history", "nested"):
        found = await worker.of_execution(execution(name), model_request().effect)
        assert found.registry.agent("A") is own
        assert (found.live, found.started_here) == (objects.live, True)
        assert (found.caller, found.key, found.models) == (caller, FIRST, worker.models)
    elsewhere = execution("another of its id")
    other = await worker.of_execution(elsewhere, model_request().effect)
    key = RunKey("default", "another of its id")
    assert other == replace(worker, key=key, execution=elsewhere)
    elsewhere = replace(execution(), namespace="elsewhere")
    found = await worker.of_execution(elsewhere, model_request().effect)
    assert found.registry is worker.registry


async def test_a_worker_elsewhere_has_its_own_agents_and_the_objects_of_a_start_here(
    table: RunObjectTable,
) -> None:
    worker, objects = knowing(deps(), ("first-execution",)), RunObjects()
    name = objects.references.name(Customer("Ann"))
    table.bring(FIRST, objects)
    found = await worker.of_execution(execution(), model_request().effect)
    assert found.registry.agent("A") is worker.registry.agent("A")
    assert found.registry.reference(name) == Customer("Ann")
    with pytest.raises(UserError, match="this process does not have it"):
        worker.registry.reference(name)


class Server:
    """A server that knows which run an execution belongs to."""

    def __init__(self, *answers: Lineage | Exception) -> None:
        self.answers = list(answers)

    async def __call__(self, workflow_id: str, execution_id: str) -> Lineage:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_the_server_says_which_run_an_execution_belongs_to_if_the_worker_had_no_workflow(
    table: RunObjectTable,
) -> None:
    server = Server(ConnectionError("It is away."), Lineage(chain_id="first-execution"))
    worker = replace(deps(), identity=WorkerIdentity(lineage=server))
    own = Agent[Any](name="A")
    table.bring(FIRST, RunObjects(definitions=hosted(own)))
    effect = model_request().effect
    with pytest.raises(ConnectionError, match="away"):
        await worker.of_execution(execution("nested"), effect)
    found = await worker.of_execution(execution("nested"), effect)
    assert (found.registry.agent("A"), found.key) == (own, FIRST)


@pytest.mark.parametrize("has_references", [False, True])
@pytest.mark.parametrize("effect", [model_request().effect, save_request().effect], ids=type)
async def test_a_run_whose_program_has_left_waits_until_somebody_brings_its_agents(
    table: RunObjectTable, effect: Any, *, has_references: bool
) -> None:
    worker = knowing(replace(deps(), hosts_runs=True), ("first-execution",))
    if has_references:  # somebody passed hooks, and the agent by its name
        table.bring(FIRST, RunObjects())
    with pytest.raises(UserError, match=r"Start the run again, .*Runner\.attach\(id, agent="):
        await worker.of_execution(execution(), effect)
    table.bring(FIRST, RunObjects(definitions=hosted(own := Agent[Any](name="A"))))
    assert (await worker.of_execution(execution(), effect)).registry.agent("A") is own


async def test_effects_that_call_no_agents_go_on_without_the_program(table: RunObjectTable) -> None:
    worker = knowing(replace(deps(), hosts_runs=True), ("first-execution",))
    effect = OffloadItems(effect=1, start=0, stop=1, run_id="support-42")
    assert await worker.of_execution(execution(), effect) == replace(
        worker, key=FIRST, execution=execution()
    )
    assert table.is_empty


async def test_an_effect_waits_for_the_start_that_has_begun_its_run(table: RunObjectTable) -> None:
    worker = knowing(replace(deps(), hosts_runs=True), ("first-execution",))
    own, effect = Agent[Any](name="A"), model_request().effect
    with table.starting("default", "support-42"):
        waiting = asyncio.create_task(worker.of_execution(execution(), effect))
        await asyncio.sleep(0)
        table.bring(FIRST, RunObjects(definitions=hosted(own)))
    assert (await waiting).registry.agent("A") is own


def test_a_registered_agent_that_a_handoff_chose_is_known(table: RunObjectTable) -> None:
    worker = replace(deps(), key=FIRST)
    assert worker.with_chosen(worker.registry.agent("A"), "support-42", 3) is worker
    assert table.is_empty


@pytest.mark.parametrize("is_hosted", [False, True])
async def test_an_agent_that_a_handoff_made_is_there_for_the_later_effects_of_its_run(
    table: RunObjectTable, *, is_hosted: bool
) -> None:
    worker = knowing(replace(deps(), hosts_runs=is_hosted), ("first-execution",))
    if is_hosted:
        table.bring(FIRST, RunObjects(definitions=hosted(Agent(name="A"))))
    made, effect = Agent[Any](name="Made"), model_request().effect
    now = await worker.of_execution(execution(), effect)
    name = now.with_chosen(made, "support-42", 3).registry.name_of(made)
    assert name == ("Made" if is_hosted else "Made (3)")
    later = await worker.of_execution(execution(), effect)
    assert later.registry.agent(name) is made
    assert later.with_chosen(made, "support-42", 5) is later
    nested = await worker.of_execution(execution(workflow_id="support-42/ask-3"), effect)
    assert nested.registry.names == ["A"]
    assert worker.registry.names == ["A"]


RECORDED: JsonObject = {"agents": {"A (3)": {"of": "A", "instructions": "You serve Ann."}}}


def test_agents_that_a_run_has_recorded_are_made_again() -> None:
    worker = deps()
    assert worker.with_recorded_agents(None) is worker
    assert worker.with_recorded_agents({"agents": "typed by hand"}) is worker
    own = worker.with_recorded_agents(RECORDED)
    assert own.registry.agent("A (3)").instructions == "You serve Ann."
    assert worker.registry.names == ["A"]
    with pytest.raises(UserError, match="no agent 'B'"):
        worker.with_recorded_agents({"agents": {"B (3)": {"of": "B"}}})


@pytest.mark.parametrize("has_objects", [False, True])
async def test_a_run_with_recorded_agents_keeps_one_that_a_later_handoff_made(
    table: RunObjectTable, *, has_objects: bool
) -> None:
    worker = knowing(deps(), ("first-execution",))
    if has_objects:
        table.bring(FIRST, RunObjects())
    made, effect = Agent[Any](name="Made"), model_request().effect
    now = (await worker.of_execution(execution(), effect)).with_recorded_agents(RECORDED)
    name = now.with_chosen(made, "support-42", 5).registry.name_of(made)
    later = (await worker.of_execution(execution(), effect)).with_recorded_agents(RECORDED)
    assert later.registry.agent(name) is made


# --- What those who only look at a run have ---------------------------------------------------------------


def test_who_looks_at_a_run_has_its_definitions(table: RunObjectTable) -> None:
    worker = knowing(deps(), ("first-execution",), ("another",))
    own = table.bring(FIRST, RunObjects(definitions=hosted(Agent(name="B"))))
    table.bring(RunKey("default", "another"), RunObjects())
    assert own.definitions is not None
    found = worker.definitions_of("default", "first-execution", "support-42")
    assert found is own.view_of(own.definitions, "support-42")
    for unknown in ("another", "gone"):
        assert worker.definitions_of("default", unknown, "support-42").names == ["A"]


def test_who_looks_at_a_run_of_a_program_that_has_left_has_none(table: RunObjectTable) -> None:
    worker = knowing(replace(deps(), hosts_runs=True), ("first-execution",))
    assert worker.definitions_of("default", "first-execution", "support-42").names == []
    table.bring(FIRST, RunObjects())
    assert worker.definitions_of("default", "first-execution", "support-42").names == []
    assert worker.definitions_of("default", "gone", "support-42").names == []
    table.bring(FIRST, RunObjects(definitions=hosted(Agent(name="B"))))
    assert worker.definitions_of("default", "first-execution", "support-42").names == ["B"]
