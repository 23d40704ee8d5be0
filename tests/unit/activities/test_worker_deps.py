"""Which type a callable's context has."""

from dataclasses import dataclass
from typing import Any

import pytest

from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.agents.registry import Registry, type_name
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
        ((Customer, Order), type_name(Customer), Order, Order),
        ((Customer, Order), type_name(Customer), None, Customer),
        ((Customer,), None, None, Customer),
        ((Customer,), "moved.elsewhere:Customer", None, Customer),
        ((Customer, Order), None, None, dict),
        ((), type_name(Customer), None, Customer),
        ((), "moved.elsewhere:Customer", None, dict),
    ],
)
def test_the_annotation_counts_then_the_runs_own_type_then_the_only_one(
    known: tuple[type, ...], started_with: str | None, annotated: type | None, kind: type
) -> None:
    borrowed = deps(*known).borrow({"name": "Ann"}, started_with, annotated)
    assert type(borrowed.context) is kind


def test_a_context_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(UserError, match="does not fit Customer"):
        deps(Customer).borrow({"name": 5}, None)


def test_a_run_with_definitions_of_its_own_has_the_same_models() -> None:
    known, own = deps(), Registry([Agent[Any](name="A")])
    known.registry.keep_for_run("r1", own)
    assert known.of_run("r1") == WorkerDeps(registry=own, models=known.models, run_id="r1")
    assert known.of_run("r2") is known
