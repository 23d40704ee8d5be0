"""Spending of budgets, derived from a run's state.

A nested run gets a share of what is left of each budget, and counts for itself. Where its share is
used up, it waits and reports; its parent lends more while something is left, and asks people, or
its own parent, when nothing is. So no share is spent twice, and a nested run sends nothing while
its share lasts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from outlast.loop.effects import RunAgent
from outlast.loop.events import NestedReported
from outlast.loop.revision import revised
from outlast.loop.start import Budget
from outlast.loop.state import Lent, LoopState, Pauses, stands_still
from outlast.loop.values import NO_USAGE, ModelUse, Usage


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


def spent(state: LoopState, budget: Budget, at_ms: int, agent: str = "") -> int:
    """Return how much of a budget is spent, as the provider bills it: with repeated input.

    Nested runs count, with what they have reported or left at their end.

    Args:
        state: the state of the run.
        budget: the budget.
        at_ms: the time, in milliseconds since the epoch.
        agent: the agent of whose budget it is; the active one if empty.
    """
    of_question = budget.per == "question"
    of_agent = (agent or state.agent) if budget.per == "agent" else budget.agent
    question = state.question
    responses = [
        one
        for one in state.responses[question.responses_from if of_question else 0 :]
        if of_agent in {"", one.agent}
    ]
    summaries = [
        one
        for one in state.compaction.made
        if of_agent in {"", one.agent} and (not of_question or one.question == len(state.answers))
    ]
    nested = _reported(state, budget, of_agent)
    match budget.of:
        case "tokens" if not of_agent:
            before = question.tokens_before if of_question else 0
            return state.usage.total_tokens - before + nested
        case "tokens":
            return sum(one.usage.total_tokens for one in (*responses, *summaries)) + nested
        case "cost_micros":
            return sum(one.usage.cost_micros for one in (*responses, *summaries)) + nested
        case "model_calls":
            return len(responses) + nested
        case "tool_calls":
            items = state.items[question.question_from if of_question else 0 :]
            own = sum(one.kind == "tool_call" and of_agent in {"", one.agent} for one in items)
            return own + nested
        case _:  # seconds
            began = question.began_ms if of_question else state.start.started_at_ms
            before = question.pauses_ms if of_question else 0
            return (at_ms - began - state.pauses.until(at_ms) + before) // 1000


def model_uses(state: LoopState) -> tuple[ModelUse, ...]:
    """Return what each agent used of each model, with the agents of nested runs that have ended."""
    return merged((*calls_of(state), *state.nested_uses))


def calls_of(state: LoopState) -> list[ModelUse]:
    """Return what each model call of the run itself used, with those for summaries."""
    return [
        ModelUse(agent=one.agent, model=one.model, usage=one.usage)
        for one in (*state.responses, *state.compaction.made)
    ]


def with_nested(state: LoopState, uses: Iterable[ModelUse]) -> tuple[ModelUse, ...]:
    """Return what nested runs have used for each question, with further uses for the present one."""
    question = len(state.answers)
    earlier = (one for one in state.nested_uses if one.question != question)
    present = (one for one in state.nested_uses if one.question == question)
    return (*earlier, *merged((*present, *uses), question))


def merged(uses: Iterable[ModelUse], question: int = 0) -> tuple[ModelUse, ...]:
    """Return uses with one for each agent and model, and another for calls without a known cost."""
    found = dict[tuple[str, str, bool], Usage]()
    for one in uses:
        if one.usage.requests or one.usage.total_tokens:  # a model was called
            key = (one.agent, one.model, one.usage.priced > 0)
            found[key] = found.get(key, NO_USAGE).plus(one.usage)
    return tuple(
        ModelUse(agent=agent, model=model, usage=usage, question=question)
        for (agent, model, _), usage in found.items()
    )


# --- Shares of nested runs ------------------------------------------------------------------------


def _reported(state: LoopState, budget: Budget, of_agent: str) -> int:
    """Return what nested runs have reported for a budget."""
    return sum(
        amount
        for one in state.lent
        if (budget.per != "question" or one.question == state.question.responses_from)
        and (budget.per != "agent" or one.target == of_agent)
        for at, amount in one.spent
        if state.start.budgets[at] == budget
    )


def spent_by_nested(state: LoopState, budget: Budget, at_ms: int, agent: str = "") -> int:
    """Return which part of a budget nested runs have spent; the arguments are those of `spent`."""
    of_agent = (agent or state.agent) if budget.per == "agent" else budget.agent
    if budget.of != "tokens" or of_agent:
        return _reported(state, budget, of_agent)
    of_question = budget.per == "question"
    own = state.responses[state.question.responses_from if of_question else 0 :]
    summaries = (
        one
        for one in state.compaction.made
        if not of_question or one.question == len(state.answers)
    )
    by_run = sum(one.usage.total_tokens for one in (*own, *summaries))
    return spent(state, budget, at_ms) - by_run


def shares(state: LoopState, target: str, runs: int) -> tuple[Budget, ...]:
    """Return the budgets of a nested run: an equal share of what is left, and of all that start.

    Time is not shared: the run's own clock goes on while nested runs work.

    Args:
        state: the state of the run.
        target: the agent of the nested run.
        runs: how many nested runs start, this one included.
    """
    found: list[Budget] = []
    for index, budget in enumerate(state.start.budgets):
        of_target = budget.per == "agent"
        if budget.of != "seconds" and not (of_target and budget.agent not in {"", target}):
            share = -(-max(left(state, index, target), 0) // runs)
            agent = target if of_target else budget.agent
            found.append(Budget(of=budget.of, limit=share, agent=agent, lent=index))
    return tuple(found)


def left(state: LoopState, index: int, target: str) -> int:
    """Return how much of a budget is neither spent nor lent to a nested run that is open."""
    budget = state.start.budgets[index]
    lent = sum(max(share - amount, 0) for _, share, amount in _open_shares(state, index, target))
    return limit_of(state, index) - spent(state, budget, state.at_ms, target) - lent


def _open_shares(state: LoopState, index: int, target: str) -> list[tuple[Lent, int, int]]:
    """Return the shares of open nested runs in a budget, with how much of each is spent."""
    of_target = state.start.budgets[index].per == "agent"
    running = {one.nested_id for one in state.pending if isinstance(one, RunAgent)}
    return [
        (one, share, dict(one.spent).get(index, 0))
        for one in state.lent
        if one.nested_id in running and (not of_target or one.target == target)
        for at, share in one.shares
        if at == index
    ]


def wanting(state: LoopState) -> tuple[Lent, int] | None:
    """Return a nested run that waits for more of a budget, if there is something to do about it.

    Either something is left to lend, or everything is spent that no nested run is working with.
    """
    asking = {one.nested_id for one in state.nested if one.requests or one.deliveries}
    for one in state.lent:
        for index in one.wants:
            if left(state, index, one.target) > 0:
                return one, index
            works = any(
                share > amount and not other.wants and other.nested_id not in asking
                for other, share, amount in _open_shares(state, index, one.target)
            )
            if not works and state.gate is None and index not in state.wants:
                return one, index
    return None


def with_more(state: LoopState, lent: Lent, index: int) -> LoopState:
    """Lend a nested run its part of what is left of a budget."""
    among = sum(index in one.wants for one, _, _ in _open_shares(state, index, lent.target))
    before, amount = dict(lent.shares)[index], dict(lent.spent).get(index, 0)
    share = max(before, amount) - (-left(state, index, lent.target) // among)
    newer = replace(
        lent,
        shares=tuple((at, share if at == index else one) for at, one in lent.shares),
        wants=tuple(one for one in lent.wants if one != index),
    )
    return _with_lent(state, newer)


def with_report(state: LoopState, event: NestedReported) -> LoopState:
    """Count what a nested run has spent, and see of which budgets it wants more.

    A share that the nested run does not know yet may be enough for it.
    """
    lent = next((one for one in state.lent if one.nested_id == event.nested_id), None)
    if lent is None:
        return state
    known = dict(lent.shares)
    newer = replace(
        lent,
        spent=_most(lent, event.spent),
        wants=tuple(index for index, share in event.wants if known.get(index) == share),
    )
    return _with_lent(state, newer)


def settled(state: LoopState, nested_id: str, amounts: Sequence[tuple[int, int]]) -> LoopState:
    """Count what a nested run has spent in the end; its usage holds tokens of no certain agent."""
    lent = next((one for one in state.lent if one.nested_id == nested_id), None)
    if lent is None:
        return state
    kept = tuple(
        (at, amount)
        for at, amount in _most(lent, amounts)
        if (budget := state.start.budgets[at]).of != "tokens"
        or budget.agent
        or budget.per == "agent"
    )
    return _with_lent(state, replace(lent, spent=kept, wants=()))


def without_wants(state: LoopState, nested_id: str) -> LoopState:
    """Forget what a nested run wanted that has ended without a result."""
    return revised(
        state,
        lent=tuple(
            replace(one, wants=()) if one.nested_id == nested_id else one for one in state.lent
        ),
    )


def _most(lent: Lent, amounts: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return the highest amounts that a nested run has reported for its budgets."""
    most = dict(lent.spent)
    budgets = {at for at, _ in lent.shares}
    for at, amount in amounts:
        if at in budgets:
            most[at] = max(most.get(at, 0), amount)
    return tuple(most.items())


def _with_lent(state: LoopState, newer: Lent) -> LoopState:
    return revised(
        state,
        lent=tuple(newer if one.nested_id == newer.nested_id else one for one in state.lent),
    )


def spent_of_parent(state: LoopState) -> tuple[tuple[int, int], ...]:
    """Return what the run has spent of each budget of its parent, by the budget's index."""
    return tuple(
        (budget.lent, spent(state, budget, state.at_ms))
        for budget in state.start.budgets
        if budget.lent is not None
    )


def with_pauses(state: LoopState, at_ms: int) -> LoopState:
    """Return the state after an event with the present pause begun or ended.

    Only runs with a budget of time count their pauses.
    """
    if all(budget.of != "seconds" for budget in state.start.budgets):
        return state
    pauses = state.pauses
    is_paused = state.hold is not None or state.phase == "idle" or stands_still(state)
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
