"""An hour of work that a restored server has never heard of, and what comes of it.

Owns: the runs, the systems that their tools change, what happens before and after the snapshot, and
what people do afterwards. Must not know: on which server, and what has to hold.
"""

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

from temporalio.client import Client
from temporalio.service import RPCError

from outlast import Agent, RunHandle, Runner, ToolContext, function_tool
from outlast.agents.errors import AgentsException
from outlast.archive import Archive, Tombstone, archive_status, use_archive
from outlast.client import finish
from outlast.client.deletion import Deletion
from outlast.client.restore import ArchiveComparison, compare_archive, set_aside
from outlast.client.runs import executions
from outlast.loop.approvals import Person
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, say
from outlast.worker import AgentWorker
from tests.workflow.replies import last_user_text
from tests.workflow.test_archive import until

QUEUE = "restore"
KEPT = "restore-kept"
ANN = Person(subject="ann", method="test")
FORGOTTEN = "fay@example.com"
AT_ONCE = 4
PATIENCE = timedelta(minutes=3)


class Place(Protocol):
    """A server whose database can be copied while it works, and put back."""

    async def connect(self) -> Client:
        """Return a client of the server as it is now."""
        ...

    async def snapshot(self) -> Path:
        """Copy the database."""
        ...

    async def restore(self, snapshot: Path) -> None:
        """Lose the database, and go on with the copy."""
        ...


@dataclass
class Ledger:
    """The systems that tools change. No restore of the server reaches them.

    Attributes:
        effects: what was done, by idempotency key: a key that is there does nothing again.
        repeated: how often a key came again.
    """

    effects: dict[str, str] = field(default_factory=dict[str, str])
    repeated: int = 0

    def do(self, key: str, what: str) -> str:
        """Do something once for each key."""
        if key in self.effects:
            self.repeated += 1
        self.effects.setdefault(key, what)
        return f"done: {what}"

    def done_twice(self) -> dict[str, list[str]]:
        """Return what was done under several keys, with these, oldest first."""
        by_effect: defaultdict[str, list[str]] = defaultdict(list)
        for key, what in self.effects.items():
            by_effect[what].append(key)
        return {what: keys for what, keys in by_effect.items() if len(keys) > 1}


LEDGER = Ledger()


@function_tool
async def pay(ctx: ToolContext[Any], order: str) -> str:
    """Pay an order."""
    return LEDGER.do(ctx.idempotency_key, f"pay {order}")


@function_tool(needs_approval=True)
async def refund(ctx: ToolContext[Any], order: str) -> str:
    """Refund an order, which a person has to approve."""
    return LEDGER.do(ctx.idempotency_key, f"refund {order}")


@function_tool
async def ship(ctx: ToolContext[Any], order: str) -> str:
    """Ship an order, and wait for the courier."""
    picked_up = await ctx.wait_for("courier", timeout=timedelta(days=2), schema=str)
    return LEDGER.do(ctx.idempotency_key, f"ship {order}, {picked_up}")


DESK = Agent[Any](name="Desk", tools=[pay, refund, ship])


def model(request: ModelRequest) -> Any:
    """Call the tool that the message names, once, with an id of the order or a new one."""
    tool, order, *how = last_user_text(request).split()
    last = request.input[-1]
    if last.get("type") == "function_call_output":
        return say(f"{tool} {order}: {last['output']}")
    call_id = f"call-{order}" if not how else f"call-{secrets.token_hex(8)}"
    return [call(tool, call_id, order=order)]


@dataclass
class Story:
    """Work before and after a snapshot, and what is done once it has been restored.

    Attributes:
        place: the server.
        archive: the archive, which is not restored.
        scale: how many runs there are of each kind.
        comparison: what the archive knew when the server was restored.
    """

    place: Place
    archive: Archive
    scale: int
    client: Client = field(init=False)
    worker: AgentWorker | None = None
    comparison: ArchiveComparison = field(init=False)
    deleted_again: list[Tombstone] = field(default_factory=list[Tombstone])
    starts: dict[str, tuple[str, dict[str, Any]]] = field(
        default_factory=dict[str, tuple[str, dict[str, Any]]]
    )
    sent: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])

    async def open(self) -> None:
        """Connect, and start a worker."""
        self.client = await self.place.connect()
        use_archive(self.client, self.archive)
        self.worker = self.worker_of(QUEUE)
        await self.worker.__aenter__()

    def worker_of(self, queue: str) -> AgentWorker:
        """Return a worker of a task queue."""
        return AgentWorker(
            self.client,
            agents=[DESK],
            task_queue=queue,
            model_provider=ScriptedModel(always=model),
            archive=self.archive,
            graceful_shutdown_timeout=timedelta(seconds=1),
        )

    async def close(self) -> None:
        """Stop the worker."""
        if self.worker is not None:
            await self.worker.__aexit__(None, None, None)
            self.worker = None

    async def without_worker(self, *run_ids: str) -> None:
        """Start runs of a queue whose worker then stops: the server keeps what comes for them."""
        async with self.worker_of(KEPT):
            for run_id in run_ids:
                options: Any = {"client": self.client, "task_queue": KEPT}
                handle = await Runner.start(DESK, f"ship {run_id}", id=run_id, **options)
                await handle.wait(lambda state: state.status == "parked")

    async def keep(self, run_id: str) -> None:
        """Deliver what the server keeps, because no worker answers."""
        [wait] = await RunHandle(self.client, run_id).pending_waits()
        receipt = await finish(
            wait.token, "at noon", client=self.client, delivery_id=f"hook-{run_id}"
        )
        assert receipt.at is None, "it was kept"

    # --- What callers do --------------------------------------------------------------------------

    async def start(self, run_id: str, text: str, **options: Any) -> RunHandle:
        """Start a run, and remember the call, which its caller may repeat."""
        self.starts[run_id] = text, options
        return await Runner.start(
            DESK, text, id=run_id, client=self.client, task_queue=QUEUE, **options
        )

    async def complete(self, run_id: str, text: str, **options: Any) -> None:
        """Start a run, and wait for its end."""
        await (await self.start(run_id, text, **options)).result()

    async def send(self, run_id: str, text: str, message_id: str) -> None:
        """Send a message to a conversation, and wait for the answer."""
        self.sent.append((run_id, text, message_id))
        handle = RunHandle(self.client, run_id)
        sent = await handle.send(text, message_id=message_id)
        await handle.wait_for_answer(sent.id)

    async def decide(self, run_id: str) -> None:
        """Approve what waits in a run, once it waits."""
        handle = RunHandle(self.client, run_id)
        await handle.wait(lambda state: state.status != "running")
        for request in await handle.approvals():
            await handle.approve(request, by=ANN)

    async def deliver(self, run_id: str) -> None:
        """Deliver what the courier says, as a webhook that may come again."""
        handle = RunHandle(self.client, run_id)
        await handle.wait(lambda state: state.status != "running")
        for wait in await handle.pending_waits():
            await finish(wait.token, "at noon", client=self.client, delivery_id=f"hook-{run_id}")

    async def each(self, *calls: Coroutine[Any, Any, Any]) -> None:
        """Do many things, a few at a time."""
        turn = asyncio.Semaphore(AT_ONCE)

        async def in_turn(one: Coroutine[Any, Any, Any]) -> None:
            async with turn, asyncio.timeout(PATIENCE.total_seconds()):
                await one

        await asyncio.gather(*map(in_turn, calls))

    def ids(self, kind: str, *, half: int | None = None) -> list[str]:
        """Return the ids of a kind of runs, or of their first or second half."""
        found = [f"{kind}-{number}" for number in range(self.scale)]
        return found if half is None else found[half::2]

    # --- The story --------------------------------------------------------------------------------

    async def before(self) -> Path:
        """Work, and make a snapshot in the middle of it."""
        begin = [self.complete(one, f"pay {one}") for one in self.ids("old")]
        begin += [self.decidable(one) for one in self.ids("refund")]
        begin += [self.decidable(one, "ship") for one in self.ids("ship")]
        begin += [self.talk(one) for one in self.ids("talk")]
        begin += [self.talk(one, " anew") for one in self.ids("anew")]
        begin += [self.complete("fay-closed", "pay fay-closed", customer=FORGOTTEN)]
        begin += [self.talk("fay-open", customer=FORGOTTEN)]
        await self.each(*begin)
        await self.without_worker("kept-before", "kept-after")
        await self.keep("kept-before")
        load = asyncio.create_task(self.load())
        await asyncio.sleep(0.5)
        snapshot = await self.place.snapshot()
        await load
        return snapshot

    async def decidable(self, run_id: str, tool: str = "refund") -> None:
        """Start a run that waits for a person or a courier."""
        handle = await self.start(run_id, f"{tool} {run_id}")
        await handle.wait(lambda state: state.status in {"waiting", "parked"})

    async def talk(self, run_id: str, how: str = "", **options: Any) -> None:
        """Begin a conversation."""
        handle = await self.start(run_id, f"pay {run_id}-0{how}", keep_open=True, **options)
        await handle.wait(lambda state: state.status == "idle")

    async def load(self) -> None:
        """Pay many orders while the snapshot is made; callers whose server stops try again."""

        async def one(run_id: str) -> None:
            while True:
                with suppress(AgentsException, RPCError):
                    return await self.complete(run_id, f"pay {run_id}")
                await asyncio.sleep(0.2)

        await self.each(*(one(f"load-{number}") for number in range(4 * self.scale)))

    async def after(self) -> None:
        """Work on: the server will know nothing of it, and only the archive of some of it."""
        await self.keep("kept-after")
        work = [self.decide(one) for one in self.ids("refund", half=0)]
        work += [self.deliver(one) for one in self.ids("ship", half=0)]
        for kind, how in (("talk", ""), ("anew", " anew")):
            work += [
                self.messages(one, how, ends=one in self.ids(kind, half=0))
                for one in self.ids(kind)
            ]
        work += [self.complete(one, f"pay {one}") for one in self.ids("new")]
        await self.each(*work)
        await RunHandle(self.client, "fay-open").cancel("after_turn")
        await RunHandle(self.client, "fay-open").result()
        await self.until_archived()
        deletion = Deletion(self.client, self.archive, by="dpo", why="request 17")
        assert len(await deletion.delete_person(FORGOTTEN)) == 2

    async def messages(self, run_id: str, how: str, *, ends: bool) -> None:
        """Go on with a conversation, and end it or leave it open."""
        for number in range(1, 4):
            text = f"pay {run_id}-{number}{how}"
            await self.send(run_id, text, f"{run_id}-{number}")
        if ends:
            handle = RunHandle(self.client, run_id)
            await handle.cancel("after_turn")
            await handle.result()

    async def until_archived(self) -> None:
        """Wait until everything that has ended is in the archive, and readers see it."""

        async def is_archived() -> bool:
            status = await archive_status(self.client, self.archive, QUEUE)
            return not status.missing

        await until(is_archived)

    async def lose_everything(self, snapshot: Path) -> None:
        """Go back to the snapshot, and do what the page says, in its order."""
        await self.close()
        await self.place.restore(snapshot)
        self.client = await self.place.connect()
        use_archive(self.client, self.archive)
        self.comparison = await compare_archive(self.client, self.archive)
        deletion = Deletion(self.client, self.archive, by="dpo", why="after the restore")
        self.deleted_again = await deletion.delete_returned()
        await set_aside(self.archive, self.comparison.lost, self.client.namespace)
        await self.open()

    async def again(self) -> None:
        """Repeat what callers, people and couriers did."""
        starts = {
            run_id: made for run_id, made in self.starts.items() if not run_id.startswith("fay")
        }
        await self.each(
            *(self.start(run_id, text, **options) for run_id, (text, options) in starts.items())
        )
        messages: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for run_id, text, message_id in self.sent:
            messages[run_id].append((text, message_id))

        async def send_again(run_id: str) -> None:
            handle = RunHandle(self.client, run_id)
            for text, message_id in messages[run_id]:
                await handle.wait_for_answer((await handle.send(text, message_id=message_id)).id)
            await handle.cancel("after_turn")

        await self.each(*map(send_again, messages))
        await self.each(*map(self.decide, self.ids("refund")))
        await self.each(*map(self.deliver, self.ids("ship")))
        async with self.worker_of(KEPT):
            await RunHandle(self.client, "kept-before").result()
            await self.deliver("kept-after")
            await RunHandle(self.client, "kept-after").result()
        await self.each(*(RunHandle(self.client, run_id).result() for run_id in starts))
        await self.until_archived()

    async def listed(self) -> set[str]:
        """Return the ids of the runs that the server lists."""
        query = "WorkflowType = 'AgentRun'"
        return {one.execution.workflow_id async for one in executions(self.client, query)}
