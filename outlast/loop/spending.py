"""Spending of budgets, derived from a run's state."""

from outlast.loop.budgets import Budget
from outlast.loop.state import LoopState, Pauses, revised, waits_for_people


def used_up(state: LoopState, at_ms: int) -> int | None:
    """Return the index of the first budget that is used up, or None.

    Args:
        state: the state before a model call.
        at_ms: the time, in milliseconds since the epoch.
    """
    for index, budget in enumerate(state.start.budgets):
        counts = budget.agent in {"", state.agent}
        if counts and spent(state, budget, at_ms) >= limit_of(state, index):
            return index
    return None


def limit_of(state: LoopState, index: int) -> int:
    """Return how much of a budget may be spent, with its extensions."""
    extended = sum(amount for at, amount in state.extended if at == index)
    return state.start.budgets[index].limit + extended


def spent(state: LoopState, budget: Budget, at_ms: int) -> int:
    """Return how much of a budget is spent, as the provider bills it: with repeated input.

    Nested runs count in the tokens of their run and question once they have ended.
    """
    of_question = budget.per == "question"
    of_agent = state.agent if budget.per == "agent" else budget.agent
    question = state.question
    responses = [
        one
        for one in state.responses[question.responses_from if of_question else 0 :]
        if of_agent in {"", one.agent}
    ]
    match budget.of:
        case "tokens" if not of_agent:
            before = question.tokens_before if of_question else 0
            return state.usage.total_tokens - before
        case "tokens":
            return sum(one.usage.total_tokens for one in responses)
        case "cost_micros":
            return sum(one.cost_micros for one in responses)
        case "model_calls":
            return len(responses)
        case "tool_calls":
            items = state.items[question.question_from if of_question else 0 :]
            return sum(one.kind == "tool_call" and of_agent in {"", one.agent} for one in items)
        case _:  # seconds
            began = question.began_ms if of_question else state.start.started_at_ms
            before = question.pauses_ms if of_question else 0
            return (at_ms - began - state.pauses.until(at_ms) + before) // 1000


def with_pauses(state: LoopState, at_ms: int) -> LoopState:
    """Return the state after an event with the present pause begun or ended.

    Only runs with a budget of time count their pauses.
    """
    if all(budget.of != "seconds" for budget in state.start.budgets):
        return state
    pauses = state.pauses
    is_paused = state.hold is not None or state.phase == "idle" or waits_for_people(state)
    if is_paused == (pauses.since_ms is not None):
        return state
    newer = Pauses(total_ms=pauses.until(at_ms), since_ms=at_ms if is_paused else None)
    return revised(state, pauses=newer)


def described(state: LoopState, index: int) -> str:
    """Return a budget for people to read, such as `1,000 tokens per question`."""
    budget = state.start.budgets[index]
    limit, unit = limit_of(state, index), budget.of.replace("_", " ")
    amount = f"${limit / 1_000_000:,.2f}" if budget.of == "cost_micros" else f"{limit:,} {unit}"
    whose = f" of {budget.agent}" if budget.agent else ""
    return f"{amount} per {budget.per}{whose}"
