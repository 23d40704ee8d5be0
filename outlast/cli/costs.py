"""The cost of a run at a terminal: the sum, and its parts by question, agent and model."""

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from outlast.cli import terminal
from outlast.client.costs import QuestionCost, RunCosts
from outlast.edges.rendering import named
from outlast.pricing import Cost, dollars
from outlast.views.records import JsonObject

QUESTIONS: Final = 20
"""The newest questions that have a line of their own; earlier ones share one."""

_COLUMNS: Final[tuple[terminal.Column[terminal.Row], ...]] = (
    terminal.Column("COST OF", folds=True),
    terminal.Column("CALLS", numbers=True, left_out=3),
    terminal.Column("TOKENS", numbers=True, left_out=4),
    terminal.Column("CACHED", numbers=True, left_out=2),
    terminal.Column("REASONING", numbers=True, left_out=1),
    terminal.Column("COST", numbers=True),
)


def record(costs: RunCosts) -> JsonObject:
    """Return the cost for programs."""
    return {
        **costs.cost.record(),
        "problem": costs.cost.problem or None,
        "by_question": [
            {"question": one.first, "to_question": one.last, **one.cost.record()}
            for one in costs.questions
        ],
        "by_agent": _records("agent", costs.cost.by_agent),
        "by_model": _records("model", costs.cost.by_model),
        "unread_runs": list(costs.lost),
        "lost_histories": list(costs.lost_histories),
    }


def facts(costs: RunCosts) -> list[tuple[str, str]]:
    """Return the sum, and what it leaves out, as lines."""
    found: list[tuple[str, str]] = []
    if costs.cost.calls:
        found.append(("cost", amount(costs.cost)))
    if costs.cost.problem:
        found.append(("uncounted", costs.cost.problem))
    found += [("uncounted", f"the nested run {named(one)} cannot be read") for one in costs.lost]
    if costs.lost_histories:
        found.append(("uncounted", "nested runs that came to no result in a lost history"))
    return found


class _Tokens(Protocol):
    @property
    def cached_tokens(self) -> int: ...

    @property
    def reasoning_tokens(self) -> int: ...


def token_details(used: _Tokens) -> str:
    """Return how many tokens were cached, and how many reasoned with, in brackets; empty for none."""
    parts = (("cached", used.cached_tokens), ("for reasoning", used.reasoning_tokens))
    details = ", ".join(f"{number:,} {what}" for what, number in parts if number)
    return f" ({details})" if details else ""


def amount(cost: Cost) -> str:
    """Return an amount: at least what is known, and `unknown` where nothing is."""
    if cost.is_whole:
        return dollars(cost.usd)
    known = any(one.usd is not None for one in cost.parts)
    return f"≥ {dollars(cost.usd)}" if known else "unknown"


def show_parts(console: terminal.Screen, costs: RunCosts) -> None:
    """Print a table of the parts, where there are several questions, agents or models."""
    rows = list(_rows(costs))
    if rows:
        terminal.say(console, "")
        terminal.say_table(console, _COLUMNS, rows)


def _rows(costs: RunCosts) -> Iterator[tuple[str, ...]]:
    if len(costs.questions) > 1:
        for one in _newest(costs.questions):
            several = one.first < one.last
            yield _row(
                f"questions {one.first} to {one.last}" if several else f"question {one.first}",
                one.cost,
            )
    for what, groups in (("agent", costs.cost.by_agent), ("model", costs.cost.by_model)):
        if len(groups) > 1:
            for name, cost in groups.items():
                yield _row(f"{what} {named(name)}" if name else f"the default {what}", cost)


def numbers(cost: Cost) -> tuple[str, str, str, str, str]:
    """Return the cells of a cost: calls, tokens, those that were cached, for reasoning, dollars."""
    counts = (cost.calls, cost.tokens, cost.cached_tokens, cost.reasoning_tokens)
    calls, tokens, cached, reasoning = [f"{one:,}" for one in counts]
    return calls, tokens, cached, reasoning, amount(cost)


def _row(name: str, cost: Cost) -> tuple[str, ...]:
    return name, *numbers(cost)


def _newest(questions: tuple[QuestionCost, ...]) -> list[QuestionCost]:
    earlier, newest = questions[:-QUESTIONS], questions[-QUESTIONS:]
    if not earlier:
        return list(newest)
    cost = Cost(tuple(part for one in earlier for part in one.cost.parts))
    return [QuestionCost(earlier[0].first, earlier[-1].last, cost), *newest]


def _records(what: str, groups: Mapping[str, Cost]) -> list[JsonObject]:
    return [{what: name, **cost.record()} for name, cost in groups.items()]
