"""The table of faults: what is done, for how long, and within how many seconds all is well again.

In every row, nothing may be lost, doubled or stuck, and no caller may get an error.
"""

import asyncio
import os
import resource
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from tests.faults.stage import FAKETIME, WORKERS, Stage, run

Fault: TypeAlias = Callable[[Stage], AbstractAsyncContextManager[None]]
"""Does it when entered, and ends it when left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A fault.

    Attributes:
        name: what happens to whom.
        fault: does it.
        seconds: how long it lasts.
        within: how long after its end the last delayed step may end.
        clocks: the places whose clocks have to be movable.
        needs: what it needs beside namespaces: `database`, `groups`, `faketime`.
        is_sample: whether `make nightly` runs it.
    """

    name: str
    fault: Fault
    seconds: float
    within: float = 20.0
    clocks: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    is_sample: bool = False


# --- Networks -------------------------------------------------------------------------------------


@contextmanager
def _cut(stage: Stage, pairs: Sequence[tuple[str, str]]) -> Generator[None]:
    with ExitStack() as stack:
        for source, target in pairs:
            stack.callback(stage.mend, stage.cut(source, target))
        yield


def _ways(ones: Sequence[str], other: str, way: str) -> list[tuple[str, str]]:
    """Return what `ones <-> other`, `ones -> other` or `ones <- other` cuts."""
    there = [(one, other) for one in ones] if way != "<-" else []
    return there + ([(other, one) for one in ones] if way != "->" else [])


def cut(ones: str | Sequence[str], way: str, other: str) -> Fault:
    """Drop what goes from one place to another without a word."""
    names = [ones] if isinstance(ones, str) else ones

    @asynccontextmanager
    async def fault(stage: Stage) -> AsyncGenerator[None]:
        with _cut(stage, _ways(names, other, way)):
            yield

    return fault


def flapping(ones: Sequence[str], other: str) -> Fault:
    """Cut both ways for a second, and mend it for a second, again and again."""

    @asynccontextmanager
    async def fault(stage: Stage) -> AsyncGenerator[None]:
        async def flap() -> None:
            while True:
                with _cut(stage, _ways(ones, other, "<->")):
                    await asyncio.sleep(1)
                await asyncio.sleep(1)

        flaps = asyncio.create_task(flap())
        try:
            yield
        finally:
            flaps.cancel()
            await asyncio.gather(flaps, return_exceptions=True)

    return fault


def unplugged(place: str) -> Fault:
    """Take the link of a place down: whoever asks for it is told that it cannot be reached."""

    @asynccontextmanager
    async def fault(_stage: Stage) -> AsyncGenerator[None]:
        run("ip", "link", "set", place, "down")
        try:
            yield
        finally:
            run("ip", "link", "set", place, "up")

    return fault


# --- Disks ----------------------------------------------------------------------------------------


def full(disk: str) -> Fault:
    """Fill a disk to its last byte."""

    @asynccontextmanager
    async def fault(stage: Stage) -> AsyncGenerator[None]:
        filler = stage.disks[disk] / "filler"
        with filler.open("wb") as file:
            for size in (1 << 20, 1 << 12):
                while True:
                    free = os.statvfs(filler)
                    if free.f_bavail * free.f_frsize < size:
                        break
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), size)
        try:
            yield
        finally:
            filler.unlink()

    return fault


def slow(disk: str, parts: Sequence[str], per_second: int) -> Fault:
    """Let each of the parts write only so many times a second to a disk."""

    @asynccontextmanager
    async def fault(stage: Stage) -> AsyncGenerator[None]:
        device = run("findmnt", "-no", "MAJ:MIN", str(stage.disks[disk])).strip()
        for name in parts:
            stage.limits[name].writes(device, per_second)
        try:
            yield
        finally:
            for name in parts:
                stage.limits[name].writes(device, None)

    return fault


# --- Clocks ---------------------------------------------------------------------------------------


def jump(places: Sequence[str], by_seconds: int) -> Fault:
    """Move the clocks of places, and move them back at the end."""

    @asynccontextmanager
    async def fault(stage: Stage) -> AsyncGenerator[None]:
        for place in places:
            stage.clocks[place].write_text(f"{by_seconds:+d}\n")
        try:
            yield
        finally:
            for place in places:
                stage.clocks[place].write_text("+0\n")

    return fault


# --- Memory ---------------------------------------------------------------------------------------

_HOG: Final = """
import sys, time
open("/proc/self/oom_score_adj", "w").write("-1000")
open(sys.argv[1] + "/cgroup.procs", "w").write("0")
held = []
while True:
    held.append(bytearray(b"x" * (1 << 20)))
    time.sleep(0.005)
"""


def out_of_memory(place: str) -> Fault:
    """Limit a part's memory to little more than it has, beside a process that takes the rest.

    The kernel kills the part, since it may not kill the other one.
    """

    @asynccontextmanager
    async def fault(stage: Stage) -> AsyncGenerator[None]:
        part, limits = stage.parts[place], stage.limits[place]
        ends = part.ends.copy()
        limits.memory(limits.used_memory() + (16 << 20))
        hog = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _HOG, str(limits.folders[0])
        )
        try:
            for _ in range(1500):
                if part.ends != ends:
                    break
                await asyncio.sleep(0.02)
        finally:
            hog.kill()
            await hog.wait()
            limits.memory(None)
        if part.ends != [*ends, -signal.SIGKILL]:
            raise RuntimeError(f"the kernel did not kill {place}: {part.ends}")
        yield

    return fault


def no_more_memory(places: Sequence[str]) -> Fault:
    """Refuse more address space (`ulimit -v`) to parts that run, and start them again at the end.

    Without that, whoever awaits an answer of the server for which there was no memory waits for
    ever: the SDK prints the error, and loses the answer.
    """

    @asynccontextmanager
    async def fault(stage: Stage) -> AsyncGenerator[None]:
        for place in places:
            pid = stage.parts[place].pid
            size = _addresses(pid)
            resource.prlimit(pid, resource.RLIMIT_AS, (size, size))
        try:
            yield
        finally:
            for place in places:
                stage.parts[place].kill()

    return fault


def _addresses(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    return pages * os.sysconf("SC_PAGE_SIZE")


# --- Ends -----------------------------------------------------------------------------------------


def down(place: str, number: signal.Signals) -> Fault:
    """End a part with a signal, and start it again at the end of the fault."""

    @asynccontextmanager
    async def fault(stage: Stage) -> AsyncGenerator[None]:
        part = stage.parts[place]
        part.wanted = False
        part.kill(number)
        try:
            yield
        finally:
            part.wanted = True

    return fault


@asynccontextmanager
async def nothing(_stage: Stage) -> AsyncGenerator[None]:
    """Do nothing: what the load takes by itself."""
    yield


DB: Final = ("database",)
TIME: Final = ("faketime",)
GROUP: Final = ("groups",)
HOUR: Final = 3600

ROWS: Final = (
    Row(name="nothing", fault=nothing, seconds=5, is_sample=True),
    # Networks. After a cut, TCP waits for as long again at most: the kernel doubles its waits.
    Row(name="one worker <-> server", fault=cut("worker-1", "<->", "server"), seconds=20),
    Row(name="workers <-> server", fault=cut(WORKERS, "<->", "server"), seconds=10, is_sample=True),
    Row(name="workers <-> server, long", fault=cut(WORKERS, "<->", "server"), seconds=120),
    Row(name="workers -> server", fault=cut(WORKERS, "->", "server"), seconds=20),
    Row(name="workers <- server", fault=cut(WORKERS, "<-", "server"), seconds=20),
    Row(name="workers <-> server, flapping", fault=flapping(WORKERS, "server"), seconds=12),
    Row(name="workers <-> model", fault=cut(WORKERS, "<->", "model"), seconds=15),
    Row(name="client <-> server, short", fault=cut("client", "<->", "server"), seconds=1),
    Row(name="client <-> server", fault=cut("client", "<->", "server"), seconds=30),
    Row(name="client <- server", fault=cut("client", "<-", "server"), seconds=15, is_sample=True),
    Row(name="client <-> desk", fault=cut("client", "<->", "desk"), seconds=20),
    Row(name="desk <-> server", fault=cut("desk", "<->", "server"), seconds=20),
    Row(name="desk <- server", fault=cut("desk", "<-", "server"), seconds=15),
    Row(name="server unplugged", fault=unplugged("server"), seconds=15),
    Row(name="server <-> database", fault=cut("server", "<->", "database"), seconds=5, needs=DB),
    Row(name="server <-> database, long", fault=cut("server", "<->", "database"), seconds=20, within=40, needs=DB),
    Row(name="server <- database", fault=cut("server", "<-", "database"), seconds=15, needs=DB),
    # Disks
    Row(name="database's disk full", fault=full("database"), seconds=10),
    Row(name="database's disk slow", fault=slow("database", ["database"], 20), seconds=10, needs=(*DB, *GROUP)),
    Row(name="database's disk stalls", fault=slow("database", ["database"], 1), seconds=10, needs=(*DB, *GROUP)),
    Row(name="blob store's disk full", fault=full("work"), seconds=10),
    Row(name="blob store's disk stalls", fault=slow("work", [*WORKERS], 1), seconds=10, needs=GROUP),
    # Clocks
    Row(name="workers an hour ahead", fault=jump(WORKERS, HOUR), seconds=10, clocks=WORKERS, needs=TIME),
    Row(name="one worker an hour behind", fault=jump(["worker-1"], -HOUR), seconds=10, clocks=WORKERS, needs=TIME),
    Row(name="desk a day ahead", fault=jump(["desk"], 24 * HOUR), seconds=10, clocks=("desk",), needs=TIME),
    Row(name="client an hour behind", fault=jump(["client"], -HOUR), seconds=10, clocks=("client",), needs=TIME),
    Row(name="database a day ahead", fault=jump(["database"], 24 * HOUR), seconds=10, clocks=("database",), needs=(*DB, *TIME)),
    # Memory
    Row(name="worker out of memory", fault=out_of_memory("worker-1"), seconds=5, needs=GROUP),
    Row(name="desk out of memory", fault=out_of_memory("desk"), seconds=5, needs=GROUP),
    Row(name="server out of memory", fault=out_of_memory("server"), seconds=5, needs=GROUP),
    Row(name="workers get no more memory", fault=no_more_memory(WORKERS), seconds=10),
    Row(name="desk gets no more memory", fault=no_more_memory(["desk"]), seconds=10),
    # Ends
    Row(name="database restarted", fault=down("database", signal.SIGINT), seconds=1, needs=DB),
    Row(name="database killed, 15 s down", fault=down("database", signal.SIGKILL), seconds=15, needs=DB),
)  # fmt: skip


def missing(row: Row, *, with_database: bool, has_groups: bool) -> str:
    """Return what a row lacks here, in words; empty if it can run."""
    if "database" in row.needs and not with_database:
        return "a server with a database: PostgreSQL, and Go to build the server once"
    if "groups" in row.needs and not has_groups:
        return "control groups that root may make, with memory and disks"
    if "faketime" in row.needs and FAKETIME is None:
        return "libfaketime: apt-get install faketime"
    return ""
