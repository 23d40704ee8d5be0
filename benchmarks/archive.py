"""How long it takes to read runs that the server has deleted, out of an archive.

    python -m benchmarks.archive conversation --messages 2700
    python -m benchmarks.archive runs --runs 1000
    python -m benchmarks.archive person --runs 1000 --people 200

`conversation` holds one conversation, which continues in a new history every 1,200 events, while its
worker archives. The early histories are deleted from the server, as its retention does; the commands
of `outlast` that read the run are timed before and after, and have to print the same.

`runs` carries the support desk of `benchmarks/replay_runs.py` on a server, with approvals, handoffs
and tools that wait, and archives its runs. Then this server is stopped, and `outlast replay` replays
them out of the archive with another, empty server. The exit code is 1 where something differs.

`person` gives each of many people a few runs, half of which only the archive has, and counts the
histories that are read to find those of one person: as they list them, and where every run is read.
"""

import argparse
import asyncio
import hashlib
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import (
    Client,
    FetchWorkflowHistoryEventsInput,
    Interceptor,
    OutboundInterceptor,
    WorkflowHistoryEventAsyncIterator,
)
from temporalio.service import RPCError, RPCStatusCode

from benchmarks.processes import ROOT
from benchmarks.replay_runs import desk, script
from benchmarks.surroundings import surroundings
from outlast import Agent, Person, RunHandle, Runner
from outlast.archive import Archive, ArchivedHistory, archive_status, use_archive
from outlast.client import finish
from outlast.client.deletion import find_person
from outlast.client.handle import progress_of
from outlast.client.read.history import RunReader
from outlast.client.whose import newest_of_all
from outlast.contract import names
from outlast.dev import EmbeddedServer
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, say
from outlast.worker import AgentWorker

QUEUE: Final = "archive"
AT_ONCE: Final = 8
"""How many runs of the support desk are under way at a time."""

SAME_AGENTS: Final = "benchmarks/replay_runs.py:desk"
HELPER: Final = Agent[Any](name="Helper")
"""The agent of the conversation."""


@asynccontextmanager
async def server_with(environment: dict[str, str]) -> AsyncGenerator[Client]:
    """Start an empty server, and name it and the archive to the commands that follow."""
    async with EmbeddedServer(ui_port=None, search_attributes=names.SEARCH_ATTRIBUTES) as server:
        environment["TEMPORAL_ADDRESS"] = server.address
        yield await Client.connect(server.address)


async def timed(environment: dict[str, str], *arguments: str) -> tuple[bytes, float]:
    """Run a command of `outlast`; return what it prints, and its time in seconds."""
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("outlast"),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **environment},
        cwd=ROOT,
    )
    printed, _ = await process.communicate()
    if process.returncode:
        raise SystemExit(f"outlast {' '.join(arguments)} has failed: {printed[-2000:].decode()}")
    return printed, time.perf_counter() - began


async def until_archived(client: Client, archive: Archive, runs: int) -> float:
    """Wait until so many runs are archived and none is missing; return the seconds."""
    began = time.perf_counter()
    while True:
        status = await archive_status(client, archive)
        if status.runs >= runs and not status.missing:
            return time.perf_counter() - began
        await asyncio.sleep(0.5)


async def delete(client: Client, entry: ArchivedHistory) -> None:
    """Delete a closed history from the server, as its retention does."""
    execution = WorkflowExecution(workflow_id=entry.run_id, run_id=entry.execution_id)
    request = DeleteWorkflowExecutionRequest(
        namespace=client.namespace, workflow_execution=execution
    )
    await client.workflow_service.delete_workflow_execution(request)
    handle = client.get_workflow_handle(entry.run_id, run_id=entry.execution_id)
    try:
        while True:
            await handle.describe()
            await asyncio.sleep(0.5)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise


# --- One long conversation ------------------------------------------------------------------------


def echo(request: ModelRequest) -> Any:
    """Answer with about 300 characters."""
    last = request.input[-1]["content"]
    return say(f"You said {last!s:.60}. " + "It is on its way to you. " * 9)


async def conversation(messages: int) -> bool:
    """Hold a conversation, take its early histories away, and compare what readers print."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {"OUTLAST_ARCHIVE": f"{folder}/archive"}
        archive = Archive(f"{folder}/archive", every=timedelta(seconds=2))
        async with server_with(environment) as client:
            began = time.perf_counter()
            worker = AgentWorker(
                client,
                agents=[HELPER],
                task_queue=QUEUE,
                model_provider=ScriptedModel(always=echo),
                archive=archive,
            )
            async with worker:
                handle = await Runner.start(
                    HELPER,
                    "message 0",
                    id="long",
                    client=client,
                    task_queue=QUEUE,
                    keep_open=True,
                )
                for number in range(1, messages):
                    await (await handle.send(f"message {number}: where is my order?")).answer()
                held_s = time.perf_counter() - began
                await until_archived(client, archive, 1)
            entries = await archive.histories_of(client.namespace, handle.id)
            say_sizes(messages, entries, held_s)
            before = await readers(environment)
            began = time.perf_counter()
            await asyncio.gather(*(delete(client, one) for one in entries))
            write(f"{len(entries)} histories deleted in {time.perf_counter() - began:.1f} s")
            after = await readers(environment)
    return compared(before, after)


def say_sizes(messages: int, entries: Sequence[ArchivedHistory], held_s: float) -> None:
    """Say how large the conversation is."""
    size, stored = sum(one.size for one in entries), sum(one.stored for one in entries)
    events = sum(one.events for one in entries)
    write(
        f"{messages:,} messages in {len(entries) + 1} histories, held in {held_s:.0f} s "
        f"({held_s / messages * 1000:.0f} ms a message). Archived: {events:,} events, "
        f"{size / 1e6:.1f} MB, stored as {stored / 1e6:.2f} MB"
    )


async def readers(environment: dict[str, str]) -> dict[str, tuple[bytes, float]]:
    """Return what the commands that read the conversation print, and their times."""
    return {
        "export": await timed(environment, "export", "long"),
        "show": await timed(environment, "show", "long", "--json"),
        "audit": await timed(environment, "audit", "long", "--json"),
        "replay": await timed(
            environment, "replay", "benchmarks/archive.py:helpers", "--run", "long", "--json"
        ),
    }


def helpers() -> list[Agent[Any]]:
    """Return the agents of the conversation, for `outlast replay`."""
    return [HELPER]


def compared(before: dict[str, tuple[bytes, float]], after: dict[str, tuple[bytes, float]]) -> bool:
    """Say how long the readers took, and whether they print the same."""
    write(f"{'outlast':10}{'from the server':>18}{'after retention':>18}{'printed':>14}")
    same = True
    for name, (printed, seconds) in before.items():
        again, late_s = after[name]
        same = same and printed == again
        verdict = "the same" if printed == again else f"DIFFERS: {digest(printed)} {digest(again)}"
        size = f"{len(printed) / 1e6:.2f} MB"
        write(f"{name:10}{seconds:>16.2f} s{late_s:>16.2f} s{size:>14}  {verdict}")
    return same


def digest(printed: bytes) -> str:
    """Return a short digest of what a command prints."""
    return f"{len(printed)} bytes, {hashlib.sha256(printed).hexdigest()[:8]}"


# --- Many runs of a support desk ------------------------------------------------------------------


def scripted(request: ModelRequest) -> Any:
    """Return the reply that the script of the run has after as many calls."""
    [number] = [
        int(one)
        for one in str(request.input[0]["content"]).rstrip("?").split()
        if one.rstrip("?").isdigit()
    ]
    made = sum(one.get("type") == "function_call" for one in request.input)
    for step in script(random.Random(number)):
        if made <= 0 or not isinstance(step, list):
            return step
        made -= len(step)  # pyright: ignore[reportUnknownArgumentType]
    raise AssertionError(f"The script of run {number} has ended.")


async def carry(client: Client, number: int, turn: asyncio.Semaphore) -> None:
    """Carry one run to its end: people decide, and couriers report."""
    async with turn:
        handle = await Runner.start(
            desk()[0],
            f"Where is my order {number} ?",
            id=f"support-{number}",
            client=client,
            task_queue=QUEUE,
        )
        settled = set[str]()
        async for progress in progress_of(handle):
            state = progress.state
            waiting = [one.id for one in state.pending_approvals]
            due = {"courier"} if state.status == "parked" else set(waiting)
            if due - settled:
                settled |= due
                await settle(client, handle, random.Random(number))


async def settle(client: Client, handle: RunHandle, chance: random.Random) -> None:
    """Decide what waits for people, and deliver what a tool waits for."""
    ann = Person(subject="ann", groups=("billing",))
    for request in await handle.approvals():
        if chance.random() < 0.3:
            await handle.reject(request, by=ann, message="Not this one.")
        else:
            await handle.approve(request, by=ann)
    for wait in await handle.pending_waits():
        await finish(wait.token, "at noon", client=client)


async def runs(count: int) -> bool:
    """Archive runs of a support desk, and replay them where the server knows none of them."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {"OUTLAST_ARCHIVE": f"{folder}/archive"}
        archive = Archive(f"{folder}/archive", every=timedelta(seconds=2))
        async with server_with(environment) as client:
            began = time.perf_counter()
            worker = AgentWorker(
                client,
                agents=desk(),
                task_queue=QUEUE,
                model_provider=ScriptedModel(always=scripted),
                archive=archive,
            )
            async with worker:
                turn = asyncio.Semaphore(AT_ONCE)
                await asyncio.gather(*(carry(client, one, turn) for one in range(count)))
                carried_s = time.perf_counter() - began
                late_s = await until_archived(client, archive, count)
        entries = [one async for one in archive.entries()]
        write(
            f"{count:,} runs of a support desk carried in {carried_s:.0f} s, and archived "
            f"{late_s:.1f} s later: {sum(one.events for one in entries):,} events, "
            f"{sum(one.size for one in entries) / 1e6:.1f} MB, stored as "
            f"{sum(one.stored for one in entries) / 1e6:.2f} MB"
        )
        async with server_with(environment):
            return await replayed(environment, count)


async def replayed(environment: dict[str, str], count: int) -> bool:
    """Export and replay what only the archive has, and say how long it takes."""
    limit = ("--archived", "--limit", str(count))
    exported, seconds = await timed(environment, "export", *limit)
    write(f"outlast export: {len(exported) / 1e6:.1f} MB in {seconds:.1f} s")
    printed, seconds = await timed(environment, "replay", SAME_AGENTS, *limit, "--json")
    found = [json.loads(line) for line in printed.splitlines()]
    changed = [one["run_id"] for one in found if one["changed"]]
    write(
        f"outlast replay: {len(found):,} runs in {seconds:.1f} s, "
        f"{seconds / len(found) * 1000:.1f} ms each; {len(changed)} would go another way"
    )
    return len(found) == count and not changed and exported.count(b"\n") == count


# --- The runs of a person -------------------------------------------------------------------------


class Counting(Interceptor):
    """Counts the histories that a client asks for."""

    read = 0

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002  as in the base class
        """Count below everything that reads histories."""
        counting = self

        class Counted(OutboundInterceptor):
            def fetch_workflow_history_events(
                self,
                input: FetchWorkflowHistoryEventsInput,  # noqa: A002  as in the base class
            ) -> WorkflowHistoryEventAsyncIterator:
                counting.read += 1
                return super().fetch_workflow_history_events(input)

        return Counted(next)


async def person(count: int, people: int) -> bool:
    """Start runs for people, take half of them from the server, and look for one person's."""
    with tempfile.TemporaryDirectory() as folder:
        archive = Archive(f"{folder}/archive", every=timedelta(seconds=2))
        async with server_with({}) as client:
            worker = AgentWorker(
                client,
                agents=[HELPER],
                task_queue=QUEUE,
                model_provider=ScriptedModel(always=echo),
                archive=archive,
            )
            turn = asyncio.Semaphore(AT_ONCE)

            async def one_run(number: int) -> None:
                async with turn:
                    whose = f"customer-{number % people}@example.com"
                    options: Any = {"client": client, "task_queue": QUEUE, "customer": whose}
                    await Runner.run(HELPER, "Where is it?", id=f"run-{number}", **options)

            async with worker:
                await asyncio.gather(*map(one_run, range(count)))
                await until_archived(client, archive, count)
            entries = [one async for one in archive.entries()]
            await asyncio.gather(*(delete(client, one) for one in entries[: count // 2]))
            counting, options = Counting(), client.config(active_config=True)
            options["interceptors"], options["plugins"] = [counting], []
            looking = Client(**options)
            use_archive(looking, archive)
            return await looked(looking, archive, counting, count // people)


async def looked(client: Client, archive: Archive, counting: Counting, expected: int) -> bool:
    """Say how many histories three ways of looking read, and whether they find the same runs."""

    async def whole() -> set[str]:
        found = set[str]()
        async for run_id, _, execution_id in newest_of_all(client, archive):
            state = await RunReader(client, run_id).catch_up(execution_id)
            found |= {run_id} if state.start.customer.id == whom else set()
        return found

    async def first_records(*, every_run: bool) -> set[str]:
        runs = await find_person(client, archive, whom, every_run=every_run)
        return {run_id for run_id, _ in runs.runs}

    whom, results = "customer-7@example.com", list[set[str]]()
    for what, look in {
        "every history, whole": whole(),
        "every run's first record": first_records(every_run=True),
        "as runs list their customers": first_records(every_run=False),
    }.items():
        counting.read, began = 0, time.perf_counter()
        results.append(await look)
        seconds = time.perf_counter() - began
        write(f"{what:30}{counting.read:>7,} histories read{seconds:>8.2f} s")
    return all(len(one) == expected and one == results[0] for one in results)


def write(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["conversation", "runs", "person"])
    parser.add_argument("--messages", type=int, default=2_700)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--people", type=int, default=200)
    wanted = parser.parse_args()
    write(json.dumps(surroundings()))
    made = {
        "conversation": lambda: conversation(wanted.messages),
        "runs": lambda: runs(wanted.runs),
        "person": lambda: person(wanted.runs, wanted.people),
    }[wanted.what]()
    sys.exit(0 if asyncio.run(made) else 1)
