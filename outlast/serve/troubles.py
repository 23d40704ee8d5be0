"""What servers say about runs, asked once for all readers: the cost grows with runs."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from temporalio.service import RPCError

from outlast import clock
from outlast.loop.state import LoopState
from outlast.serve.access import Caller, may, redaction_for
from outlast.views.trouble import QUIET, ServerFacts, Trouble, troubles, words_for_customer

FRESH_SECONDS: Final = 4.0
"""How long what a server said about a run counts as present."""

MOST_RUNS: Final = 5_000
"""How many runs are remembered."""

ReadFacts: TypeAlias = Callable[[str, bool], Awaitable[ServerFacts]]
"""Asks the server about a run, which works or is at rest: see `outlast.client.trouble`."""


async def _nothing(_run_id: str, _works: bool) -> ServerFacts:  # noqa: FBT001
    return QUIET


@dataclass(frozen=True, slots=True)
class _Known:
    facts: ServerFacts
    at: float


class RunTroubles:
    """What keeps runs from going on, for the readers in this process.

    Args:
        read: asks the server about a run.
    """

    def __init__(self, read: ReadFacts = _nothing) -> None:
        self._read = read
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._asking: dict[str, asyncio.Task[ServerFacts]] = {}

    async def facts(self, run_id: str, state: LoopState) -> ServerFacts:
        """Return what the server says about a run; it is asked if nobody did lately.

        Args:
            run_id: the run.
            state: its state.
        """
        if state.outcome is not None:
            return QUIET
        known = self._known.get(run_id)
        if known is not None and time.monotonic() - known.at < FRESH_SECONDS:
            return known.facts
        return await self._asked(run_id, works=state.status == "running")

    async def _asked(self, run_id: str, *, works: bool) -> ServerFacts:
        task = self._asking.get(run_id)
        if task is None:
            task = self._asking[run_id] = asyncio.create_task(self._ask(run_id, works=works))
            task.add_done_callback(lambda _: self._asking.pop(run_id, None))
        return await asyncio.shield(task)  # others wait for the same answer

    async def of(self, run_id: str, state: LoopState, caller: Caller) -> tuple[Trouble, ...]:
        """Return what keeps a run from going on, as a caller of the team sees it."""
        return seen_troubles(state, await self.facts(run_id, state), caller)

    async def _ask(self, run_id: str, *, works: bool) -> ServerFacts:
        try:
            facts = await self._read(run_id, works)
        except RPCError:
            facts = QUIET  # who reads the run learns it by that
        self._known[run_id] = _Known(facts, time.monotonic())
        self._known.move_to_end(run_id)
        while len(self._known) > MOST_RUNS:
            self._known.popitem(last=False)
        return facts


def seen_troubles(state: LoopState, facts: ServerFacts, caller: Caller) -> tuple[Trouble, ...]:
    """Return what keeps a run from going on, as a caller of the team sees it."""
    found = troubles(state, facts, clock.now_ms(), redaction_for(caller, state))
    if may(caller, "view_payloads") is None:
        return found
    return tuple(replace(one, why="") for one in found)


def customer_trouble(state: LoopState, facts: ServerFacts) -> str:
    """Return what keeps a run from going on, in words for its customer; or nothing."""
    return words_for_customer(troubles(state, facts, clock.now_ms()))
