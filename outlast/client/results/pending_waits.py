"""The calls of a run that wait for something outside of it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from outlast.agents.context.wait_address import WaitAddress
from outlast.edges.clock import time_of
from outlast.views.run import AnyState, loop_state


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingWait:
    """A call that waits for something outside of its run.

    Attributes:
        run_id: the run that made the call.
        agent: the agent that made it.
        tool: the name of its tool.
        call_id: the id of the call.
        name: what it waits for.
        since: when the wait began.
        until: when it ends by itself; None for never.
        schema: JSON Schema of the value; None for any.
        token: finishes the wait: see `finish`.
    """

    run_id: str
    agent: str
    tool: str
    call_id: str
    name: str
    since: datetime
    until: datetime | None
    schema: dict[str, Any] | None
    token: str

    @property
    def what(self) -> str:
        """What the call waits for and until when, for people."""
        until = "without an end" if self.until is None else f"until {self.until:%Y-%m-%d %H:%M} UTC"
        return f"{self.name} ({self.tool}), since {self.since:%Y-%m-%d %H:%M} UTC, {until}"


def pending_waits(run: AnyState) -> tuple[PendingWait, ...]:
    """Return the calls of a run that wait for something outside of it."""
    state = loop_state(run)
    return tuple(
        PendingWait(
            run_id=state.run_id,
            agent=state.agent,
            tool=call.name,
            call_id=call.call_id,
            name=parked.wait.name,
            since=time_of(parked.since_ms),
            until=None if parked.ends_ms is None else time_of(parked.ends_ms),
            schema=parked.wait.schema,
            token=WaitAddress(
                state.run_id,
                len(state.answers),
                state.question.turn,
                call.call_id,
                parked.wait.name,
            ).token,
        )
        for call in state.calls
        if (parked := call.outside) is not None
    )
