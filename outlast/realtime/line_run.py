"""The run of a line, on a Temporal server.

The line is an activity of the run that this process keeps open from outside: it heartbeats while
the socket is open, and completes when the call is over. Temporal tells a line that died from one
that is silent.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import Final

from temporalio.client import AsyncActivityCancelledError, AsyncActivityHandle
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.errors import AgentsException, UserError, as_user_error
from outlast.agents.logs import get_logger
from outlast.client.handle import RunHandle, progress_of
from outlast.client.identity import sign
from outlast.client.transport.run_address import RunAddress, check_size
from outlast.contract import blobs, names, policies, records
from outlast.loop import lines
from outlast.loop.actions import AttachLineRecord, LineReplyRecord
from outlast.loop.approvals import Decision
from outlast.loop.calls import ModelReply
from outlast.loop.state import LoopState, line_of
from outlast.loop.values import JsonObject
from outlast.views.run import loop_state

logger: Final = get_logger(__name__)

CLOSING_ATTEMPTS = 20  # with the waits, five seconds
CLOSING_WAIT_SECONDS = 0.25
"""A line may be closed before a worker has begun its activity: closing is tried again."""


class LineRun:
    """The run on a server that records what is said on a line.

    Args:
        label: what people read in the timeline, such as `phone call`.

    Attributes:
        line: the id of the newest line; no other line has it.
    """

    def __init__(self, handle: RunHandle, label: str = "") -> None:
        self.run_id: str = handle.id
        self.line: str = ""
        self._handle = handle
        self._client = handle.client
        self._label = label
        self._address = RunAddress(handle.client, handle.id)
        self._tokens: Iterator[str] = iter(())
        self._activity: AsyncActivityHandle | None = None
        self._beating: asyncio.Task[None] | None = None

    async def state(self) -> LoopState:
        """Return the current state."""
        return loop_state(await self._handle.state())

    async def attach(self) -> str:
        """Open a line, which makes the model calls from now on, and keep it alive until `hang_up`.

        Returns its id, which is a new one each time.

        Raises:
            RunClosed: the run has ended.
            RunNotFound: there is no such run.
            ServerUnavailable: the server did not answer for too long.
        """
        await self._stop_beating()
        self.line = f"line-{secrets.token_hex(8)}"
        owner, *tokens = lines.tokens(secrets.token_hex(32))
        self._tokens = iter(tokens)
        record = AttachLineRecord(line=self.line, label=self._label, owner=owner)
        record = await self._address.ask(
            partial(sign, self._client, record, self.run_id, action=names.UPDATE_ATTACH_LINE)
        )
        payload = records.write(record)
        accepted = await self._address.update(names.UPDATE_ATTACH_LINE, payload, self.line)
        self._activity = self._client.get_async_activity_handle(
            workflow_id=self.run_id, run_id=None, activity_id=str(accepted["effect"])
        )
        seconds = accepted["heartbeat_ms"] / 1_000 / policies.BEATS_WITHIN_TIMEOUT
        self._beating = asyncio.create_task(self._beat(self._activity, seconds))
        return self.line

    def holds(self, state: LoopState) -> bool:
        """Whether the newest line makes the model calls of the run in this state."""
        line = line_of(state)
        return line is not None and line.line == self.line

    async def reply(self, said: Sequence[JsonObject], reply: ModelReply) -> None:
        """Record the user's words, without audio, and the model's reply, whose id counts it once.

        Raises:
            UserError: it is too large, or the reply has no id.
            RunNotFound: there is no such run, or it has ended.
            ServerUnavailable: the server did not answer for too long.
        """
        token = next(self._tokens, None)
        if token is None:
            raise UserError(
                f"A line gives at most {lines.MOST_TOKENS:,} replies. Open another line."
            )
        with as_user_error(ValueError):
            record = LineReplyRecord(
                line=self.line,
                token=token,
                said=[blobs.escape_item(raw) for raw in said],
                reply=replace(
                    reply,
                    items=tuple(blobs.escape_fields(raw) for raw in reply.items),
                    value=blobs.escape(reply.value),
                ),
            )
        payload = records.write(record)
        await check_size(self._client, payload)
        await self._address.ask(
            lambda: self._address.workflow.signal(names.SIGNAL_LINE_REPLY, payload)
        )

    async def send(self, content: Sequence[JsonObject]) -> None:
        """Send a message of the user that no realtime model has answered."""
        await self._handle.send(list(content))

    async def decide(self, decision: Decision) -> None:
        """Send a person's decision about a tool call."""
        await self._handle.decide(decision)

    async def follow(self) -> AsyncGenerator[LoopState]:
        """Yield the run's present state, and then the state after each event, until it ends."""
        present, (history, number) = await self._handle.present()
        yield loop_state(present)
        async with aclosing(progress_of(self._handle, from_start=False)) as progress:
            async for one in progress:
                if one.place[0] != history or one.place[1] > number:
                    yield one.state

    async def hang_up(self) -> None:
        """Close the line: workers make the run's model calls again. Closing twice is once."""
        await self._stop_beating()
        activity, self._activity = self._activity, None
        if activity is None:
            return
        for _ in range(CLOSING_ATTEMPTS):
            try:
                await activity.complete()
            except RPCError as error:
                if error.status != RPCStatusCode.NOT_FOUND:
                    logger.warning("The line of %s could not be closed: %s", self.run_id, error)
                    return
                if not await self._is_attached():
                    return
            else:
                return
            await asyncio.sleep(CLOSING_WAIT_SECONDS)

    async def _is_attached(self) -> bool:
        with suppress(AgentsException):
            return self.holds(loop_state(await self._handle.state()))
        return False

    async def _stop_beating(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
            with suppress(asyncio.CancelledError):
                await self._beating
            self._beating = None

    async def _beat(self, activity: AsyncActivityHandle, seconds: float) -> None:
        """Heartbeat until the run does not need the line any more."""
        while True:
            try:
                await activity.heartbeat()
            except AsyncActivityCancelledError:
                return  # another line has taken over, or the run has ended
            except RPCError as error:
                # Not begun yet, or already over; or the server is away for a moment.
                logger.debug("A heartbeat of the line of %s failed: %s", self.run_id, error)
            await asyncio.sleep(seconds)
