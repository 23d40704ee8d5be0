"""Cases that begin, go on and end while processes are stopped, killed and replaced, and their ledger."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from temporalio.client import Client

from benchmarks.desk_agents import Ledger
from benchmarks.desk_processes import Deployment, Desks
from benchmarks.postgres_cluster import PostgresCluster
from tests.cluster.case import POINTS, Case, Pause, Point, check_case

CHECKED_AT_ONCE = 8
PACE_SECONDS = 0.04
"""Between two pieces of an answer: a long one takes some seconds."""


@asynccontextmanager
async def cluster(home: Path) -> "AsyncGenerator[tuple[Deployment, PostgresCluster]]":
    """Start the server, two desks, and three workers on two versions, of which 1 is current."""
    async with PostgresCluster() as server:
        client = await Client.connect(server.address)
        async with Deployment(client, server.address, home, pace=PACE_SECONDS) as deployment:
            for name, build in (("a", "1"), ("b", "1"), ("c", "2")):
                await deployment.start_worker(name, build)
            for _ in range(2):
                await deployment.start_desk()
            await deployment.choose("1")
            yield deployment, server


@dataclass
class Opened:
    """Cases that all have something open, until a door opens.

    Attributes:
        cases: the cases; each stops at one point, and the points take turns.
        door: set when they go on.
    """

    cases: list[Case]
    door: asyncio.Event = field(default_factory=asyncio.Event)
    arrived: Counter[Point] = field(default_factory=Counter[Point])
    _at: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    def of(cls, desks: Desks, name: str, count: int, random: Random) -> "Opened":
        """Make cases."""
        opened = cls([])
        for number in range(count):
            pause = opened._pause_at(POINTS[number % len(POINTS)])
            one = Case(
                desks=desks, number=f"{name}{number}", random=Random(random.random()), pause=pause
            )
            opened.cases.append(one)
        return opened

    def _pause_at(self, chosen: Point) -> Pause:
        async def pause(point: Point) -> None:
            # A stream goes on by itself: it is open when the others have something open, too.
            if point == chosen:
                self.arrived[point] += 1
                self._at.set()
                if point != "stream":
                    await self.door.wait()

        return pause

    async def until_open(self) -> None:
        """Wait until each case has come to its point."""
        while self.arrived.total() < len(self.cases):
            self._at.clear()
            await self._at.wait()


async def no_pause(_point: Point) -> None:
    """Go on at once."""


@dataclass
class Load:
    """Cases that follow each other in some lanes, until the load is to end."""

    desks: Desks
    random: Random
    lanes: int
    cases: list[Case] = field(default_factory=list[Case])
    is_over: bool = False

    async def carry(self) -> None:
        """Carry cases until the load is over."""
        await asyncio.gather(*(self._lane(number) for number in range(self.lanes)))

    async def _lane(self, lane: int) -> None:
        number = 0
        while not self.is_over:
            case = Case(
                desks=self.desks,
                number=f"l{lane}n{number}",
                random=Random(self.random.random()),
                pause=no_pause,
            )
            await case.carry()
            self.cases.append(case)
            number += 1


@dataclass(frozen=True, slots=True)
class Verdict:
    """What all cases have left.

    Attributes:
        cases: how many there were.
        effects: how many effects there were, each once.
        repeated: how many attempts of an effect came after its first.
        decisions: how many decisions there were, each once.
        kept: how many decisions the server kept for a worker.
        connections: how often streams were opened.
        cut: how many requests to a desk were cut, and sent again.
        busy: how many requests a desk put off.
    """

    cases: int
    effects: int
    repeated: int
    decisions: int
    kept: int
    connections: int
    cut: int
    busy: int


async def verdict(deployment: Deployment, desks: Desks, cases: Sequence[Case]) -> Verdict:
    """Check the ledger of all cases.

    Raises:
        ExceptionGroup: what is wrong with which case.
    """
    found = Ledger(deployment.home / "ledger.db").effects()
    unknown = found.keys() - {case.run_id for case in cases}
    assert not unknown, f"effects of no case: {unknown}"
    checks = [_check(deployment.client, case, found.get(case.run_id, [])) for case in cases]
    repeated = sum(await _some_at_once(checks))
    return Verdict(
        cases=len(cases),
        effects=sum(map(len, found.values())),
        repeated=repeated,
        decisions=sum(
            n for case in cases for (kind, _), n in case.acts.items() if kind == "decided"
        ),
        kept=sum(case.kept for case in cases),
        connections=sum(case.connections for case in cases),
        cut=desks.cut,
        busy=desks.busy,
    )


def _check(
    client: Client, case: Case, effects: list[tuple[str, int]]
) -> Callable[[], Awaitable[int]]:
    return lambda: check_case(client, case, effects)


async def _some_at_once(checks: Sequence[Callable[[], Awaitable[int]]]) -> list[int]:
    free = asyncio.Semaphore(CHECKED_AT_ONCE)

    async def one(check: Callable[[], Awaitable[int]]) -> int:
        async with free:
            return await check()

    results = await asyncio.gather(*map(one, checks), return_exceptions=True)
    wrong = [result for result in results if isinstance(result, Exception)]
    if wrong:
        raise ExceptionGroup(f"{len(wrong)} of {len(checks)} cases are wrong", wrong)
    return [result for result in results if isinstance(result, int)]
