"""The case of a realtime line: the run that records the conversation."""

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from outlast.loop.approvals import Decision
from outlast.loop.calls import ModelReply
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject


class Case(Protocol):
    """The run that a line belongs to."""

    @property
    def run_id(self) -> str:
        """The id of the run."""
        ...

    async def state(self) -> LoopState:
        """Return the current state."""
        ...

    def follow(self) -> AsyncGenerator[LoopState]:
        """Yield the states of the run from now on, until it has ended."""
        ...

    async def attach(self) -> str:
        """Open a line, which makes the model calls from now on, and keep it alive until `hang_up`.

        Returns:
            The id of the line, which is a new one each time.

        Raises:
            RunClosed: the run has ended.
        """
        ...

    async def reply(self, said: Sequence[JsonObject], reply: ModelReply) -> None:
        """Record the user's words on the line and the model's answer."""
        ...

    async def send(self, content: Sequence[JsonObject]) -> None:
        """Send a message of the user that no realtime model has answered."""
        ...

    async def decide(self, decision: Decision) -> None:
        """Send a person's decision about a tool call."""
        ...

    async def hang_up(self) -> None:
        """Say that the line is closed: workers make the model calls again."""
        ...
