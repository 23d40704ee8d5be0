"""The case of a line as a run on a Temporal server."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from outlast.client.handle import RunHandle
from outlast.loop.approvals import Decision
from outlast.loop.calls import ModelReply
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject
from outlast.realtime.run_line import RunLine


class RunCase:
    """Implements `Case` for a run on a server.

    Args:
        handle: the run.
        label: what people read of its lines, such as `phone call`.
    """

    def __init__(self, handle: RunHandle, label: str) -> None:
        self._handle = handle
        self._label = label
        self._line = self._new_line()

    def _new_line(self) -> RunLine:
        return RunLine(self._handle.client, self._handle.id, label=self._label)

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._handle.id

    async def state(self) -> LoopState:
        """Return the current state."""
        return await self._handle.state()

    async def follow(self) -> AsyncGenerator[LoopState]:
        """Yield the present state, and then each new one, until the run has ended."""
        async with aclosing(self._line.follow()) as states:
            async for state in states:
                yield state

    async def attach(self) -> str:
        """Open a line.

        Raises:
            RunClosed: the run has ended.
        """
        self._line = self._new_line()
        await self._line.attach()
        return self._line.id

    async def reply(self, said: Sequence[JsonObject], reply: ModelReply) -> None:
        """Record the user's words on the line and the model's answer."""
        await self._line.reply(list(said), reply)

    async def send(self, content: Sequence[JsonObject]) -> None:
        """Send a message of the user that no realtime model has answered."""
        await self._handle.send(list(content))

    async def decide(self, decision: Decision) -> None:
        """Send a person's decision about a tool call."""
        await self._handle.decide(decision)

    async def hang_up(self) -> None:
        """Close the line."""
        await self._line.close()
