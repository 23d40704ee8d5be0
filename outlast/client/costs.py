"""The cost of a run by question, read from its history, with nested runs that are still open."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final

from temporalio.client import Client
from temporalio.service import RPCError

from outlast.agents.errors import AgentsException, RunNotFound
from outlast.client.handle import RunHandle, past_progress
from outlast.client.read.history import Progress
from outlast.client.read.in_turn import read_each
from outlast.loop.calls import AgentResult
from outlast.loop.effects import EffectAnswered, RunAgent
from outlast.loop.spending import merged
from outlast.loop.state import Compacted, LoopState, Response
from outlast.loop.values import NO_USAGE, ModelUse
from outlast.pricing import NESTED_RUNS, Cost

READ_SECONDS: Final = 10
"""The time limit for reading the history of a nested run."""


@dataclass(frozen=True, slots=True)
class QuestionCost:
    """The cost of a question, or of several whose histories are lost.

    Attributes:
        first: the number of the first question; numbers begin with 1.
        last: the number of the last one.
        cost: the cost.
    """

    first: int
    last: int
    cost: Cost


@dataclass(frozen=True, slots=True)
class RunCosts:
    """The cost of a run.

    Attributes:
        cost: of the run and all runs nested in it.
        questions: of each question; they add up to the cost.
        lost: nested runs that cannot be read, and whose cost is missing.
        lost_histories: histories of the run that are lost, each the last of a gap. What nested runs
            used there is known only if they came to a result.
    """

    cost: Cost
    questions: tuple[QuestionCost, ...]
    lost: tuple[str, ...] = ()
    lost_histories: tuple[str, ...] = ()


NO_COSTS: Final = RunCosts(Cost(), ())


class CostFold:
    """Collects what each question used, from the events of a history and the states after them.

    A nested run reports what it used when it ends. One that is open, or that was terminated, has to
    be read by itself: see `read`.
    """

    def __init__(self) -> None:
        self._running: dict[int, str] = {}
        self._unreported: dict[str, int] = {}
        self._uses: dict[int, list[ModelUse]] = {}
        self._reported: list[ModelUse] = []
        self._first: dict[int, int] = {}
        self._lost: list[str] = []
        self._question = 1
        self._responses = 0
        self._summaries = 0

    def take(self, progress: Progress) -> None:
        """Take the next event, and the state after it."""
        state = progress.state
        if progress.event is None:  # histories before this state may be lost
            self._take_unseen(state)
        if progress.lost:
            running = {one.nested_id for one in state.pending if isinstance(one, RunAgent)}
            self._unreported = {one: at for one, at in self._unreported.items() if one in running}
            self._lost.append(progress.lost)
        self._add(map(_use, state.responses[self._responses :]))
        self._add(map(_use, state.compaction.made[self._summaries :]))
        self._take_result(progress)
        self._question = len(state.answers) + 1
        self._responses, self._summaries = len(state.responses), len(state.compaction.made)
        nested = (one for one in state.pending if isinstance(one, RunAgent))
        self._running = {one.effect: one.nested_id for one in nested}
        for nested_id in self._running.values():
            self._unreported.setdefault(nested_id, self._question)

    def _take_unseen(self, state: LoopState) -> None:
        """Take what the run has used since the last event, in histories that cannot be read."""
        before, answered = self._question, len(state.answers)
        working = bool(state.question.answering)
        settled = max(answered, before)
        if settled > before:
            self._first[settled] = before
        current = max(answered + working, before)
        begins = state.question.responses_from if working else len(state.responses)
        begins = max(begins, self._responses)
        self._add(map(_use, state.responses[self._responses : begins]), settled)
        self._add(map(_use, state.responses[begins:]), current)
        for one in state.compaction.made[self._summaries :]:
            at = current if one.question >= answered else settled
            self._add([_use(one)], at)
        nested = _beyond(state.nested_uses, self._reported)
        self._add(nested, settled)
        self._reported += nested
        self._responses, self._summaries = len(state.responses), len(state.compaction.made)

    async def read(self, client: Client) -> RunCosts:
        """Return the costs so far, and those of nested runs that have reported nothing."""
        lost: list[str] = []

        async def read(nested_id: str) -> None:
            uses = await _read_uses(client, nested_id)
            if uses is None:
                lost.append(nested_id)
            else:
                self._add(uses, self._unreported[nested_id])

        await read_each(tuple(self._unreported), read)
        self._unreported.clear()
        questions = tuple(
            QuestionCost(first=self._first.get(at, at), last=at, cost=Cost.of_uses(uses))
            for at, uses in sorted(self._uses.items())
            if uses
        )
        return RunCosts(Cost.of_uses(self.uses), questions, tuple(sorted(lost)), tuple(self._lost))

    @property
    def uses(self) -> Sequence[ModelUse]:
        """What has been used by now, in all questions."""
        return [one for uses in self._uses.values() for one in uses]

    def _take_result(self, progress: Progress) -> None:
        match progress.event:
            case EffectAnswered(effect=number, result=AgentResult(usage=usage, uses=uses)):
                nested_id = self._running.get(number)
            case _:
                return
        if nested_id is not None and usage != NO_USAGE:
            self._unreported.pop(nested_id, None)
            self._reported += uses
            self._add(uses or [ModelUse(agent=NESTED_RUNS, usage=usage)])

    def _add(self, uses: Iterable[ModelUse], question: int = 0) -> None:
        self._uses.setdefault(question or self._question, []).extend(uses)


def _use(one: Response | Compacted) -> ModelUse:
    return ModelUse(agent=one.agent, model=one.model, usage=one.usage)


def _beyond(uses: Iterable[ModelUse], counted: Iterable[ModelUse]) -> list[ModelUse]:
    """Return what was used beside what has been counted."""
    known = {(one.agent, one.model, one.usage.priced > 0): one for one in merged(counted)}
    found: list[ModelUse] = []
    for one in merged(uses):
        before = known.get((one.agent, one.model, one.usage.priced > 0))
        usage = one.usage if before is None else one.usage.minus(before.usage)
        if usage.requests > 0 or usage.total_tokens > 0:
            found.append(replace(one, usage=usage))
    return found


async def _read_uses(client: Client, run_id: str) -> Sequence[ModelUse] | None:
    """Return what a run used, with those nested in it; None if it cannot be read."""
    fold = CostFold()
    try:
        async with (
            asyncio.timeout(READ_SECONDS),
            aclosing(past_progress(RunHandle(client, run_id))) as progress_so_far,
        ):
            async for progress in progress_so_far:
                fold.take(progress)
        costs = await fold.read(client)
    except RunNotFound:  # it has not begun
        return ()
    except (AgentsException, RPCError, TimeoutError):
        return None
    return None if costs.lost else fold.uses
