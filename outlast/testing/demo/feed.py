"""Follows the demo's run: its state, conditions, and calls in progress."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import timedelta
from typing import Protocol, Self

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client

from outlast.loop.effects import RunTool
from outlast.testing.demo.processes import DemoFailed
from outlast.testing.demo.proof import Deed
from outlast.views.run import RunSnapshot, loop_state

_POLL_SECONDS = 0.01
_STARTED = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED


class Narrator(Protocol):
    """Shows the demo to people or programs."""

    def scene(self, title: str) -> None:
        """Start a new part of the story."""
        ...

    def note(self, text: str, *, loud: bool = False) -> None:
        """Show what the demo does, or what the viewer can see."""
        ...

    def facts(self, rows: Sequence[tuple[str, str]]) -> None:
        """Show names and values, such as links."""
        ...

    def deeds(self, deeds: Sequence[Deed]) -> None:
        """Show the side effects and how often each happened."""
        ...

    def verdict(self, text: str, *, good: bool) -> None:
        """Show one finding of the proof."""
        ...

    def waiting(self, text: str) -> AbstractAsyncContextManager[object]:
        """Show that the demo is waiting, as long as a block runs."""
        ...

    def follow(self, client: Client, run_id: str) -> AsyncGenerator[RunSnapshot]:
        """Show a run in progress, and yield each of its states until it is closed."""
        ...


class Feed:
    """Follows one run in the background, and passes it to the narrator."""

    def __init__(
        self, client: Client, run_id: str, narrator: Narrator, *, patience: timedelta
    ) -> None:
        self.state: RunSnapshot = RunSnapshot()
        self._client = client
        self._run_id = run_id
        self._narrator = narrator
        self._patience_seconds = patience.total_seconds()
        self._changed = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._following = asyncio.create_task(self._follow())
        self._following.add_done_callback(lambda _: self._announce())
        return self

    async def __aexit__(self, *_error: object) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait({self._following})  # errors are raised elsewhere
            if not self._following.cancelled():
                self._following.exception()

    async def reach(self, what: str, condition: Callable[[RunSnapshot], bool]) -> RunSnapshot:
        """Wait until the state satisfies a condition, and return it."""
        try:
            async with self._patiently(f"the {what}"):
                while not condition(self.state) and not self._has_ended():
                    await self._changed.wait()
        except TimeoutError as error:
            raise DemoFailed(
                f"In {self._patience_seconds:g} s there was no {what}. The run {self._run_id} is "
                f"{self.state.status}."
            ) from error
        if not condition(self.state):
            if self._following is not None:
                await self._following  # raises its error, if any
            raise DemoFailed(f"The run ended ({self.state.status}) before there was any {what}.")
        return self.state

    async def until(self, condition: Callable[[RunSnapshot], bool]) -> None:
        """Wait, as long as it takes, until the state satisfies a condition or the run ends."""
        while not condition(self.state) and not self._has_ended():
            await self._changed.wait()

    async def wait_for_half_done_call(
        self, what: str, is_half_done: Callable[[RunTool], bool]
    ) -> RunTool:
        """Wait for a tool call with a side effect but no recorded result."""
        answers = len(self.state.answers)
        problem = f"In {self._patience_seconds:g} s there was no {what}"
        with suppress(TimeoutError):
            async with self._patiently(f"the {what}"):
                while len(self.state.answers) == answers and not self._has_ended():
                    for effect in loop_state(self.state).pending:
                        if not isinstance(effect, RunTool) or not is_half_done(effect):
                            continue
                        info = await self.pending(effect)
                        if info is not None and info.state == _STARTED:
                            return effect
                    await asyncio.sleep(_POLL_SECONDS)
                problem = f"The model answered without a {what}"
        if self._following is not None and self._following.done():
            await self._following  # raises its error, if any
        raise DemoFailed(f"{problem}, so there was nothing to kill.")

    async def pending(self, effect: RunTool) -> PendingActivityInfo | None:
        """Return Temporal's record of a pending call, or None if the call has a result."""
        description = await self._client.get_workflow_handle(self._run_id).describe()
        for info in description.raw_description.pending_activities:
            if info.activity_id == str(effect.effect):
                return info
        return None

    async def lost(self, effect: RunTool) -> str:
        """Wait until an attempt of a call has failed, and return the reason."""
        with suppress(TimeoutError):
            async with self._patiently("a heartbeat"):
                while info := await self.pending(effect):
                    if info.attempt > 1:
                        return info.last_failure.message
                    await asyncio.sleep(_POLL_SECONDS)
                return "it was tried again"
        raise DemoFailed(f"Temporal has not noticed that the worker of {effect.name} is gone.")

    @asynccontextmanager
    async def _patiently(self, what: str) -> AsyncGenerator[None]:
        async with (
            self._narrator.waiting(f"waiting for {what}"),
            asyncio.timeout(self._patience_seconds),
        ):
            yield

    async def _follow(self) -> None:
        async for state in self._narrator.follow(self._client, self._run_id):
            self.state = state
            self._announce()

    def _announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _has_ended(self) -> bool:
        return self._following is None or self._following.done()
