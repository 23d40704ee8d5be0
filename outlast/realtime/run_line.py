"""A realtime line of a run: the process that makes the run's model calls over its own socket.

The line is an activity of the run that this process keeps open from outside: it heartbeats while
the socket is open, and completes when the call is over. Temporal tells a line that died from one
that is silent.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Self

from temporalio.client import AsyncActivityCancelledError, AsyncActivityHandle, Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.errors import UserError
from outlast.agents.logs import get_logger
from outlast.client.identity import sign
from outlast.client.read.history import RunReader
from outlast.client.transport.run_address import RunAddress, check_size
from outlast.contract import blobs, names, policies, records
from outlast.loop import lines
from outlast.loop.calls import ModelReply
from outlast.loop.state import LoopState, line_of
from outlast.loop.values import JsonObject

logger = get_logger(__name__)

CLOSING_ATTEMPTS = 20
CLOSING_WAIT_SECONDS = 0.25
"""A line may be closed before a worker has begun its activity: closing is tried again."""


class RunLine:
    """One line of one run.

    Args:
        client: connected to the run's server.
        run_id: the workflow id.
        label: what people read in the timeline, such as `phone call`.
        patience: how long calls wait for a server that does not answer.

    Attributes:
        id: identifies the line; no other line has it.
        run_id: the workflow id.
    """

    def __init__(
        self, client: Client, run_id: str, *, label: str = "", patience: timedelta | None = None
    ) -> None:
        self.id = f"line-{secrets.token_hex(8)}"
        self.run_id = run_id
        self._client = client
        self._label = label
        owner, *tokens = lines.tokens(secrets.token_hex(32))
        self._owner, self._tokens = owner, iter(tokens)
        self._address = RunAddress(client, run_id, patience)
        self._activity: AsyncActivityHandle | None = None
        self._beating: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Attach the line."""
        await self.attach()
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Close the line."""
        await self.close()

    async def attach(self) -> None:
        """Make this line the one that makes the run's model calls, instead of any other.

        Trying again attaches once.

        Raises:
            RunClosed: the run has ended.
            RunNotFound: there is no such run.
            ServerUnavailable: the server did not answer for too long.
        """
        record = records.AttachLineRecord(line=self.id, label=self._label, owner=self._owner)
        record = await self._address.ask(partial(self._signed, record))
        payload = records.write(record)
        accepted = await self._address.update(names.UPDATE_ATTACH_LINE, payload, self.id)
        self._activity = self._client.get_async_activity_handle(
            workflow_id=self.run_id, run_id=None, activity_id=str(accepted["effect"])
        )
        seconds = accepted["heartbeat_ms"] / 1_000 / policies.BEATS_WITHIN_TIMEOUT
        self._beating = asyncio.create_task(self._beat(self._activity, seconds))

    async def _signed(self, record: records.AttachLineRecord) -> records.AttachLineRecord:
        return await sign(self._client, record, self.run_id, action=names.UPDATE_ATTACH_LINE)

    def holds(self, state: LoopState) -> bool:
        """Whether the line makes the model calls of the run in this state."""
        line = line_of(state)
        return line is not None and line.line == self.id

    async def reply(self, said: list[JsonObject], reply: ModelReply) -> None:
        """Record the user's words on the line and the model's reply. Each reply counts once.

        Args:
            said: the user's items since the reply before, in the Responses format; without audio.
            reply: the reply and the plan of its calls; `response_id` is the provider's.

        Raises:
            UserError: it is too large, or the reply has no id.
            RunNotFound: there is no such run, or it has ended.
            ServerUnavailable: the server did not answer for too long.
        """
        try:
            record = records.LineReplyRecord(
                line=self.id,
                token=self._next_token(),
                said=[blobs.escape_item(raw) for raw in said],
                reply=replace(
                    reply,
                    items=tuple(blobs.escape_fields(raw) for raw in reply.items),
                    value=blobs.escape(reply.value),
                ),
            )
        except ValueError as error:
            raise UserError(str(error)) from None
        payload = records.write(record)
        await check_size(self._client, payload)
        await self._address.ask(
            lambda: self._address.workflow.signal(names.SIGNAL_LINE_REPLY, payload)
        )

    def _next_token(self) -> str:
        token = next(self._tokens, None)
        if token is None:
            raise UserError(
                f"A line gives at most {lines.MOST_TOKENS:,} replies. Open another line."
            )
        return token

    async def follow(self) -> AsyncGenerator[LoopState]:
        """Yield the run's present state, and then the state after each event, until it ends.

        Raises:
            RunNotFound: there is no such run.
        """
        reader = RunReader(self._client, self.run_id, self._address.patience)
        present = RunReader(self._client, self.run_id, self._address.patience)
        try:
            yield await present.catch_up()
            async with aclosing(reader.follow(from_start=False)) as progress:
                async for one in progress:
                    history, number = reader.place
                    if history != present.place[0] or number > present.place[1]:
                        yield one.state
        except RPCError as error:
            raise await self._address.translate(error) from error

    async def close(self) -> None:
        """Hang up: from now on, workers make the run's model calls. Closing twice is once."""
        if self._beating is not None:
            self._beating.cancel()
            with suppress(asyncio.CancelledError):
                await self._beating
            self._beating = None
        activity, self._activity = self._activity, None
        if activity is not None:
            await self._complete(activity)

    async def _complete(self, activity: AsyncActivityHandle) -> None:
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
        with suppress(RPCError):
            return self.holds(await RunReader(self._client, self.run_id).catch_up())
        return False

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
