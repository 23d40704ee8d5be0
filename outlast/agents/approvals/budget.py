"""Budgets: limits of a run's spending that ask a person before it continues."""

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.checks import (
    Rule,
    check_count,
    check_fields,
    check_name,
    of_kinds,
    optional,
)
from outlast.agents.durations import DurationField, duration_field
from outlast.agents.errors import UserError
from outlast.loop import start as records
from outlast.loop.start import Scope, Spending

_COUNTED: Final[dict[str, Spending]] = {
    "tokens": "tokens",
    "usd": "cost_micros",
    "model_calls": "model_calls",
    "tool_calls": "tool_calls",
    "time": "seconds",
}

_DECISIONS: Final = ("approve", "edit", "reject")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A limit of a run's spending; above it, a person decides whether to continue.

    Set exactly one of `tokens`, `usd`, `model_calls`, `tool_calls` and `time`. It is checked before
    each model call, so a reply may go beyond it. Agents that are used as tools, and those below
    them, spend of the same budget: each of their runs may go beyond it by one reply. An approved
    request adds the same amount again; a person may edit how much.

    Attributes:
        tokens: input and output tokens, as the provider counts them: with repeated input.
        usd: US dollars, by the prices of `outlast.pricing` at the worker; models without a price
            are refused.
        model_calls: calls of models.
        tool_calls: calls of tools.
        time: time in which the run works, and waits neither for people nor for messages; a number
            is in seconds. It goes on while nested runs work, but does not stop them.
        per: what it is counted for: the `run`, each `question`, or each `agent` of the run, and
            each agent that it uses as a tool.
        agent: the only agent for which it counts; None: all.
        ask: the policy of the request to go on; True: anybody may decide. False: nobody is asked,
            and the question fails with the code `budget_exceeded`.
    """

    tokens: int | None = None
    usd: Decimal | float | None = None
    model_calls: int | None = None
    tool_calls: int | None = None
    time: DurationField[timedelta | None] = duration_field(None)  # noqa: RUF009  a descriptor
    per: Scope = "run"
    agent: str | None = None
    ask: ApprovalPolicy | bool = True

    def __post_init__(self) -> None:
        given = [name for name in _COUNTED if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none of them"
            raise UserError(f"Budget(...) needs one of {', '.join(_COUNTED)}, but has {found}.")
        check_fields(self, _RULES)
        if self.per == "agent" and self.time is not None:
            raise UserError("Budget(time=...) is counted per run or question, not per agent.")

    @property
    def record(self) -> records.Budget:
        """The budget as a run keeps it."""
        name = next(name for name in _COUNTED if getattr(self, name) is not None)
        policy = ApprovalPolicy() if self.ask is True else self.ask
        return records.Budget(
            of=_COUNTED[name],
            limit=self._limit(),
            per=self.per,
            agent=self.agent or "",
            terms=policy.terms(None, possible=_DECISIONS) if policy is not False else None,
        )

    def _limit(self) -> int:
        if self.usd is not None:
            return max(round(self.usd * 1_000_000), 1)
        if self.time is not None:
            return max(round(self.time.total_seconds()), 1)
        counts = (self.tokens, self.model_calls, self.tool_calls)
        return next(count for count in counts if count is not None)


def _check_usd(place: str, usd: Any) -> None:
    is_money = isinstance(usd, int | float | Decimal) and not isinstance(usd, bool)
    if not is_money or not 0 < usd < 1e9:
        raise UserError(f"{place} must be a positive amount, not {usd!r}.")


def _check_ask(place: str, ask: object) -> None:
    of_kinds(ApprovalPolicy, bool)(place, ask)
    if not isinstance(ask, ApprovalPolicy):
        return
    if ask.when is not None:
        raise UserError(f"{place}: a policy for budgets has no `when`.")
    if ask.binds is not None:
        raise UserError(f"{place}: a policy for budgets has no `binds`.")


_RULES: Final[dict[str, Rule]] = {
    "tokens": optional(check_count),
    "usd": optional(_check_usd),
    "model_calls": optional(check_count),
    "tool_calls": optional(check_count),
    "agent": optional(check_name),
    "ask": _check_ask,
}
