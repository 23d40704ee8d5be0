"""Counts the times of all open requests anew, because a calendar has changed."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

from temporalio.client import Client

from outlast.agents.errors import UserError
from outlast.client.handle import RunHandle
from outlast.client.people.actions import By
from outlast.client.read.in_turn import read_each
from outlast.client.runs import RunFilter, find_runs, state_of
from outlast.edges.rendering import counted
from outlast.temporal.visibility.scopes import EVERYTHING, RunScope

MOST_RUNS: Final = 1_000
"""How many runs are looked at, where nothing else is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recount:
    """What became of the open requests whose times count hours of a calendar.

    Attributes:
        runs: the runs whose requests are counted anew, each with the ids of the requests.
        refused: the runs that refused it, each with why.
        unread: how many runs could not be read.
        is_cut: whether there are more runs than were looked at.
    """

    runs: tuple[tuple[str, tuple[str, ...]], ...]
    refused: tuple[tuple[str, str], ...]
    unread: int
    is_cut: bool

    @property
    def words(self) -> str:
        """How many requests of how many runs are counted anew, in a sentence."""
        return (
            f"{counted(self.requests, 'request')} of {counted(len(self.runs), 'run')} counted anew."
        )

    @property
    def requests(self) -> int:
        """How many requests are counted anew."""
        return sum(len(requests) for _, requests in self.runs)


async def recount_open(
    client: Client,
    *,
    by: By,
    within: str | None = None,
    scopes: Sequence[RunScope] = EVERYTHING,
    limit: int = MOST_RUNS,
    around: Callable[[RunHandle], AbstractAsyncContextManager[Any]] = lambda _: nullcontext(),
) -> Recount:
    """Count the times of open requests anew; requests whose policy has no `within` stay as they are.

    Args:
        client: connected to the runs' server.
        by: who says it.
        within: only requests whose times count the hours of this calendar; None for any.
        scopes: only runs of one of these scopes; empty for any.
        limit: how many runs are looked at.
        around: a context for the wait for each run.

    Raises:
        AgentsException: the server or a worker does not answer.
    """
    criteria = RunFilter(waiting=True, nested=True, scopes=tuple(scopes))
    listed = await find_runs(client, criteria, limit=limit)
    states = await read_each(listed, lambda one: state_of(client, one.run_id, one.execution_id))
    runs: list[tuple[str, tuple[str, ...]]] = []
    refused: list[tuple[str, str]] = []
    for one, state in zip(listed, states, strict=True):
        asked = [(a.id, a.terms.hours) for a in state.own_requests] if state else []
        requests = [name for name, hours in asked if hours and within in {None, hours.within}]
        if not requests or not criteria.accepts(one):
            continue
        handle = RunHandle(client, one.run_id)
        try:
            async with around(handle):
                await handle.recount(by=by)
            runs.append((one.run_id, tuple(requests)))
        except UserError as error:  # it ends meanwhile, or has other people
            refused.append((one.run_id, error.message))
    return Recount(
        runs=tuple(runs),
        refused=tuple(refused),
        unread=states.count(None),
        is_cut=len(listed) == limit,
    )
