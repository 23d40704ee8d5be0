"""The cost of a run by question, read from its history, with nested runs that are still open."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from temporalio.client import Client
from temporalio.service import RPCError

from outlast.agents.errors import AgentsException, RunNotFound
from outlast.client.handle import RunHandle, past_progress
from outlast.client.read.history import Progress
from outlast.client.read.in_turn import read_each
from outlast.loop.calls import AgentResult
from outlast.loop.effects import EffectAnswered, RunAgent
from outlast.loop.state import LoopState
from outlast.loop.values import NO_USAGE, ModelUse
from outlast.pricing import Cost

READ_SECONDS: Final = 10
"""The time limit for reading the history of a nested run."""


@dataclass(frozen=True, slots=True)
class QuestionCost:
    """The cost of a question, or of several that share a line.

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
        self._state = LoopState()
        self._running: dict[int, str] = {}
        self._unreported: dict[str, int] = {}
        self._lost: list[str] = []

    def take(self, progress: Progress) -> None:
        """Take the next event, and the state after it."""
        match progress.event:
            case EffectAnswered(effect=number, result=AgentResult(usage=usage)) if (
                usage != NO_USAGE
            ):
                self._unreported.pop(self._running.get(number, ""), None)
            case _:
                pass
        state = self._state = progress.state
        nested = (one for one in state.pending if isinstance(one, RunAgent))
        self._running = {one.effect: one.nested_id for one in nested}
        open_now = set(self._running.values())
        if progress.lost:  # it has the reports of those that ended there
            self._unreported = {one: at for one, at in self._unreported.items() if one in open_now}
            self._lost.append(progress.lost)
        for nested_id in open_now:
            self._unreported.setdefault(nested_id, len(state.answers))

    async def read(self, client: Client) -> RunCosts:
        """Return the costs so far, and those of nested runs that have reported nothing."""
        uses, lost = await self.uses(client)
        questions = tuple(
            QuestionCost(first=at + 1, last=at + 1, cost=Cost.of_uses(found))
            for at, found in sorted(uses.items())
            if found
        )
        cost = Cost.of_uses(one for found in uses.values() for one in found)
        return RunCosts(cost, questions, lost, tuple(self._lost))

    async def uses(self, client: Client) -> tuple[dict[int, list[ModelUse]], tuple[str, ...]]:
        """Return what each question has used by now, and the nested runs that cannot be read."""
        found, lost = defaultdict[int, list[ModelUse]](list), list[str]()
        for one in (*self._state.responses, *self._state.compaction.made):
            use = ModelUse(agent=one.agent, model=one.model, usage=one.usage)
            found[one.question].append(use)
        for use in self._state.nested_uses:
            found[use.question].append(use)

        async def read(nested_id: str) -> None:
            uses = await _read_uses(client, nested_id)
            if uses is None:
                lost.append(nested_id)
            else:
                found[self._unreported[nested_id]] += uses

        await read_each(tuple(self._unreported), read)
        return found, tuple(sorted(lost))


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
        found, lost = await fold.uses(client)
    except RunNotFound:  # it has not begun
        return ()
    except (AgentsException, RPCError, TimeoutError):
        return None
    return None if lost else [one for uses in found.values() for one in uses]
