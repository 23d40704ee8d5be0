"""Budgets: limits of a run's spending that ask a person before it continues."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from outlast.loop.approvals import ApprovalTerms

Spending: TypeAlias = Literal["tokens", "cost_micros", "model_calls", "tool_calls", "seconds"]
Scope: TypeAlias = Literal["run", "question", "agent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A limit of a run's spending.

    Attributes:
        of: what is counted; `cost_micros` are millionths of a US dollar, by the worker's prices,
            and `seconds` pass while the run works: not while it waits for people or messages.
        limit: how much may be spent.
        per: what it is counted for: the whole run, each question, or each agent of the run.
        agent: the only agent for which it counts; empty for all.
        terms: who decides whether the run goes on, once it is used up; None: the question fails.
        lent: it is the share of a nested run, of the budget with this index of its parent, which
            lends more where something is left.
    """

    of: Spending
    limit: int
    per: Scope = "run"
    agent: str = ""
    terms: ApprovalTerms | None = None
    lent: int | None = None
