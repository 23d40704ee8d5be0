"""Creates schedules, and finds, pauses, fires and deletes them."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar, Unpack

from temporalio import client as temporal
from temporalio.client import Client, ScheduleAlreadyRunningError, ScheduleOverlapPolicy
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.errors import (
    RunClosed,
    RunNotFound,
    ScheduleAlreadyExists,
    ScheduleNotFound,
    UserError,
)
from outlast.blobs import use_blob_store
from outlast.client.schedules import descriptions
from outlast.client.schedules.descriptions import Schedule
from outlast.client.schedules.plans import (
    Overlap,
    ScheduleOptions,
    check_note,
    check_schedule,
    digest_of,
    plan_of,
    schedule_of,
)
from outlast.client.schedules.times import Times
from outlast.client.start.options import check_names, check_place
from outlast.client.transport.connection import with_search_attributes
from outlast.client.transport.messages import check_choice
from outlast.client.transport.outages import patience_of, retry_during_outage
from outlast.client.transport.run_address import RunAddress, check_size
from outlast.contract import names
from outlast.loop.values import JsonObject
from outlast.ports.blobs import BlobStore, check_blob_store

T = TypeVar("T")


class Schedules:
    """The schedules of a namespace that start runs of agents, or message conversations.

    Args:
        client: connected to the server.
        task_queue: the task queue of the workers that host the runs.
        patience: how long to wait for a server that does not answer.
        blob_store: the store for large content; the workers need the same one.

    Raises:
        UserError: an argument does not fit.
    """

    def __init__(
        self,
        client: Client,
        *,
        task_queue: str = names.TASK_QUEUE,
        patience: timedelta | None = None,
        blob_store: BlobStore | None = None,
    ) -> None:
        check_place(client=client, task_queue=task_queue)
        check_blob_store(blob_store)
        if blob_store is not None:
            use_blob_store(client, blob_store)
        self._client = client
        self._queue = task_queue
        self._patience = patience_of(patience)

    async def create(
        self,
        id: str,
        input: str | list[JsonObject],
        times: Times,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Create a schedule.

        With `agent`, each firing starts a run, whose id is that of the schedule and the time:
        `report-2026-11-30T09:00:00Z`. With `to`, each firing sends a message to that conversation,
        once; if it is not open, the message starts it with `agent`, or fails without one. The same
        call again returns the schedule.

        Args:
            id: the schedule's id.
            input: a text, or Responses items.
            times: when it fires.
            **options: `ScheduleOptions`.

        Raises:
            ScheduleAlreadyExists: another schedule has the id.
            UserError: an argument does not fit.
            RunNotFound: there is no conversation `to`, and no agent to start it.
            RunClosed: it has ended, and there is no agent to start it.
            ServerUnavailable: the server does not answer.
        """
        check_names(options, ScheduleOptions, caller="create")
        check_schedule(id, times, options)
        to = options.get("to")
        if to is not None:
            await self._check_conversation(to, options.get("agent"))
        plan = await plan_of(self._client, id, input, options)
        await check_size(self._client, plan.payload(visibility=True))
        digest = digest_of(plan, self._queue, times, options)
        memo = plan.memo(times, digest)

        async def start(*, visibility: bool, owners: bool = True) -> object:
            action = plan.action(self._queue, visibility=visibility, owners=owners)
            schedule = schedule_of(action, times, options)
            return await self._client.create_schedule(id, schedule, memo=memo)

        try:
            await self._ask(id, lambda: with_search_attributes(self._client, start))
        except ScheduleAlreadyRunningError:
            found = await self._description(id)
            if (await descriptions.memo_of(found)).get("digest") != digest:
                raise ScheduleAlreadyExists(
                    f"There is another schedule with the id {id!r}. Choose another id, or delete that "
                    "one first."
                ) from None
        created = await self.get(id)
        if problem := _never_fires(created, times):
            await self.delete(id)
            raise UserError(problem)
        return created

    async def list(self, *, limit: int = 100) -> tuple[Schedule, ...]:
        """Return schedules of outlast, a moment behind.

        Args:
            limit: how many at most.
        """
        found: list[temporal.ScheduleListDescription] = []

        async def read() -> None:
            found.clear()
            async for one in await self._client.list_schedules():
                if descriptions.workflow_type(one) in descriptions.OURS:
                    found.append(one)
                if len(found) >= limit:
                    return

        await self._ask("", read)
        return tuple([await descriptions.listed(one) for one in found])

    async def get(self, id: str) -> Schedule:
        """Return a schedule with its newest firings.

        Raises:
            ScheduleNotFound: there is no such schedule.
        """
        return await descriptions.described(self._client, await self._description(id))

    async def pause(self, id: str, *, note: str = "") -> None:
        """Let the times of a schedule pass without firing, until `resume`.

        Raises:
            ScheduleNotFound: there is no such schedule.
        """
        check_note(note)
        await self._act(id, lambda handle: handle.pause(note=note or "paused"))

    async def resume(self, id: str, *, note: str = "") -> None:
        """Let a paused schedule fire again. Times that have passed do not count.

        Raises:
            ScheduleNotFound: there is no such schedule.
        """
        check_note(note)
        await self._act(id, lambda handle: handle.unpause(note=note or "resumed"))

    async def trigger(self, id: str, *, overlap: Overlap | None = None) -> None:
        """Fire now, also if the schedule is paused or done.

        Args:
            id: the schedule's id.
            overlap: what happens while a run of the schedule is open; default: as created.

        Raises:
            ScheduleNotFound: there is no such schedule.
        """
        if overlap is not None:
            check_choice("trigger(overlap=...)", overlap, Overlap)
        policy = None if overlap is None else ScheduleOverlapPolicy[overlap.upper()]
        await self._act(id, lambda handle: handle.trigger(overlap=policy))

    async def delete(self, id: str) -> None:
        """Delete a schedule. Runs that it has started go on.

        Raises:
            ScheduleNotFound: there is no such schedule.
        """
        await self._act(id, lambda handle: handle.delete())

    # --- The server -------------------------------------------------------------------------------

    async def _act(
        self, id: str, act: Callable[[temporal.ScheduleHandle], Awaitable[None]]
    ) -> None:
        await self._description(id)  # the schedule of another program is not ours to change
        await self._ask(id, lambda: act(self._client.get_schedule_handle(id)))

    async def _description(self, id: str) -> temporal.ScheduleDescription:
        found = await self._ask(id, self._client.get_schedule_handle(id).describe)
        kind = descriptions.workflow_type(found)
        if kind not in descriptions.OURS:
            raise ScheduleNotFound(
                f"The schedule {id!r} starts workflows of the type {kind!r}, not runs of agents."
            )
        return found

    async def _ask(self, id: str, call: Callable[[], Awaitable[T]]) -> T:
        try:
            return await retry_during_outage(self._client, call, self._patience)
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                raise ScheduleNotFound(
                    f"There is no schedule {id!r} in the namespace {self._client.namespace!r}. "
                    "`outlast schedule list` lists them."
                ) from error
            raise UserError(f"The Temporal server refuses: {error.message}") from error

    async def _check_conversation(self, to: str, agent: object) -> None:
        """Refuse a conversation that no message could reach."""
        address = RunAddress(self._client, to, self._patience)
        try:
            found = address.checked(await address.ask(address.workflow.describe))
        except RunNotFound as error:
            if agent is None or "is not a run" in str(error):
                error.add_note("With an agent, the first message starts the conversation.")
                raise
            return
        if agent is None and found.close_time is not None:
            raise RunClosed(
                f"The conversation {to!r} has ended. Name an agent to start a new one with this id."
            )


def _never_fires(created: Schedule, times: Times) -> str:
    """Return why a new schedule never fires, by the server's calendar and clock; empty if it does."""
    at = times.once()
    if at is not None and created.created is not None and created.created >= at:
        return f"at={at.isoformat()} has passed already, by the server's clock."
    if at is None and created.status == "done" and not created.fired:
        return f"The times of the schedule never come: {times.words()}."
    return ""
