"""Watching a run: its events as they happen, until something is reached.

Owns: what has happened and what happens, in one sequence, and the verdict at its end. Must not
know: how it is shown. Everything is read from the history, so it needs no worker.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from temporalio.client import Client

from outlast.agents.errors import RunCancelled
from outlast.cli.run_events import RunEvent, run_events
from outlast.client.handle import RunHandle
from outlast.client.results import RunResult, error_of, result_of
from outlast.loop.state import RunState


def is_settled(state: RunState) -> bool:
    """Whether nothing more happens unless somebody says or decides something."""
    return state.phase == "closed" or state.status in {"waiting", "idle"}


@dataclass
class Watch:
    """Reads one run.

    A condition is never asked about the past: a run that once waited, and was approved long ago,
    does not count as waiting.

    Attributes:
        state: the run as read so far.
    """

    client: Client
    run_id: str
    state: RunState = field(default_factory=RunState)

    async def events(
        self,
        until: Callable[[RunState], bool],
        *,
        since: Callable[[RunState], bool] | None = None,
    ) -> AsyncIterator[RunEvent]:
        """Yield what has happened and what happens, until a condition holds or the run closes.

        Args:
            until: asked about the present and every state after it.
            since: leave out what happened while this did not hold; by default, nothing.

        Raises:
            RunNotFound: there is no such run.
        """
        handle = RunHandle(self.client, self.run_id)
        present = _age(await handle.state())
        before = self.state
        async for progress in handle.follow(from_start=since is None):
            self.state = progress.state
            if progress.event is not None and (since is None or since(progress.state)):
                for event in run_events(progress.event.at_ms, before, progress.state):
                    yield event
            before = progress.state
            if _is_reached(progress.state, present) and until(progress.state):
                return

    async def verdict(self) -> RunResult:
        """Return what came of the run, as far as it was read.

        Raises:
            AgentsException: the newest question was not answered; the subclass says why.
        """
        state = self.state
        if state.outcome == "cancelled":
            raise RunCancelled(f"The run {self.run_id} was cancelled.", run_data=result_of(state))
        if state.phase in {"closed", "idle"} and state.failure is not None:
            raise error_of(state.failure, state)
        if not is_settled(state):
            # Ended by the engine's means: terminated, timed out. The history does not say more.
            return await RunHandle(self.client, self.run_id).result()
        return result_of(state)


def _age(state: RunState) -> tuple[int, ...]:
    """Return counts of which each event that means anything raises at least one, and lowers none.

    An event's place in the history would not do: it begins anew when a run continues as new.
    """
    return (
        state.next_effect,
        state.next_effect - len(state.pending),
        len(state.items),
        len(state.answers),
        len(state.inbox) + len(state.answering) + sum(len(answer.to) for answer in state.answers),
        sum(request.status != "pending" for request in state.approvals),
        state.cancel is not None,
        state.outcome is not None,
        len(state.ignored),
    )


def _is_reached(state: RunState, age: tuple[int, ...]) -> bool:
    return all(mine >= theirs for mine, theirs in zip(_age(state), age, strict=True))
