"""Budgets as programs write them."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from outlast import ApprovalPolicy, Budget, RunConfig
from outlast.agents.config.settings import write_run_config
from outlast.agents.errors import UserError
from outlast.agents.references import RunReferences
from outlast.contract.records import budgets_of, takeover_of
from outlast.loop.approvals import Audience


def _always(_context: Any, _arguments: Any, _call_id: str) -> bool:
    return True


@pytest.mark.parametrize(
    ("budget", "record"),
    [
        (Budget(tokens=50_000), ("tokens", 50_000, "run", "")),
        (Budget(usd=0.25, per="question"), ("cost_micros", 250_000, "question", "")),
        (Budget(usd=Decimal("1.5")), ("cost_micros", 1_500_000, "run", "")),
        (Budget(model_calls=20, agent="Billing"), ("model_calls", 20, "run", "Billing")),
        (Budget(tool_calls=5, per="agent"), ("tool_calls", 5, "agent", "")),
        (Budget(time=timedelta(minutes=2)), ("seconds", 120, "run", "")),
    ],
)
def test_a_budget_is_recorded_by_what_it_counts(budget: Budget, record: Any) -> None:
    made = budget.record
    assert (made.of, made.limit, made.per, made.agent) == record
    assert made.terms is not None
    assert made.terms.allow == ("approve", "edit", "reject")


def test_a_budget_that_asks_nobody_has_no_terms() -> None:
    assert Budget(tokens=1, ask=False).record.terms is None


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "none of them"),
        ({"tokens": 1, "usd": 1}, "tokens and usd"),
        ({"tokens": 0}, "whole number from 1"),
        ({"tokens": True}, "whole number from 1"),
        ({"usd": -1}, "positive amount"),
        ({"usd": float("nan")}, "positive amount"),
        ({"usd": "1"}, "positive amount"),
        ({"time": timedelta(0)}, "positive timedelta"),
        ({"tokens": 1, "per": "day"}, "per="),
        ({"time": timedelta(1), "per": "agent"}, "not per agent"),
        ({"tokens": 1, "agent": ""}, "agent="),
        ({"tokens": 1, "ask": None}, "ask="),
        ({"tokens": 1, "ask": ApprovalPolicy(when=_always)}, "no `when`"),
        ({"tokens": 1, "ask": ApprovalPolicy(binds=str)}, "no `binds`"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        Budget(**fields)


def test_a_run_keeps_its_budgets_and_who_may_take_over() -> None:
    config = RunConfig(
        takeover=ApprovalPolicy(audience="support", unverified="allow"),
        budgets=[Budget(tokens=50_000, ask=ApprovalPolicy(audience="leads"))],
    )
    settings = write_run_config(config, RunReferences().name)

    assert takeover_of(settings).audience == Audience(groups=("support",))
    (budget,) = budgets_of(settings)
    assert budget == config.budgets[0].record if config.budgets else None


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"takeover": "support"}, "must be ApprovalPolicy"),
        ({"budgets": [1]}, "holds 1: use Budget"),
        ({"budgets": Budget(tokens=1)}, "budgets"),
    ],
)
def test_settings_of_people_are_checked(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        RunConfig(**fields)
