"""The line or the worker of a phone call is killed after any frame, and the caller is answered."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from temporalio.client import Client

from tests.crash.phone_call import Kills, PhoneCall, Victim, check
from tests.servers import TemporalServer

LANES = 2
"""How many calls are held at the same time, with three processes each."""


async def hold_all(
    client: Client,
    server: TemporalServer,
    folder: Path,
    plans: Sequence[Kills],
) -> None:
    """Hold a call for each plan, and check them all.

    Raises:
        ExceptionGroup: what was wrong with which of them.
    """
    lanes = asyncio.Semaphore(LANES)

    async def hold(kills: Kills) -> Exception | None:
        call = PhoneCall(client=client, address=server.address, folder=folder, kills=kills)
        async with lanes:
            try:
                check(call, await call.hold())
            except Exception as error:  # noqa: BLE001  reported below, with its plan
                error.add_note(f"{call.id} with {kills}, log {folder / call.id}.log")
                return error
        return None

    results = await asyncio.gather(*(hold(kills) for kills in plans))
    failed = [error for error in results if error is not None]
    if failed:
        raise ExceptionGroup(f"{len(failed)} of {len(plans)} calls", failed)


async def count_frames(client: Client, server: TemporalServer, folder: Path) -> int:
    """Return how many frames a call has in which nobody is killed."""
    call = PhoneCall(client=client, address=server.address, folder=folder)
    check(call, await call.hold())
    return len(call.server.frames)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("victim", ["line", "worker"])
async def test_the_caller_is_answered_whoever_is_killed_and_when(
    client: Client, server: TemporalServer, tmp_path: Path, victim: Victim, *, every_event: bool
) -> None:
    frames = await count_frames(client, server, tmp_path)
    step = 1 if every_event else max(1, frames // 8)
    plans: list[Kills] = [[(victim, number)] for number in range(1 + step // 2, frames - 1, step)]
    await hold_all(client, server, tmp_path, plans)


async def test_the_line_and_the_worker_are_killed_again_and_again(
    client: Client, server: TemporalServer, tmp_path: Path
) -> None:
    plans: list[Kills] = [
        [("line", 8), ("line", 30), ("line", 60)],
        [("worker", 12), ("line", 24), ("worker", 48)],
    ]
    await hold_all(client, server, tmp_path, plans)
