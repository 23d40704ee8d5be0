"""Which type a callable's context has."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.agent import Agent
from outlast.agents.context.encoding import type_name
from outlast.agents.context.factories import ContextFactories
from outlast.agents.context.live import MARKER
from outlast.agents.errors import UserError
from outlast.agents.registry import OfRun, Registry
from outlast.testing import ScriptedModel


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


def test_a_run_with_definitions_of_its_own_has_the_same_models() -> None:
    known, own = deps(), Registry([Agent[Any](name="A")])
    known.registry.keep_for_run("r1", OfRun(own))
    assert known.of_run("r1") == WorkerDeps(registry=own, models=known.models, run_id="r1")
    assert known.of_run("r2") is known
