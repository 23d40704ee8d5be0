"""Runs whose tools wait for something outside."""

from typing import Any

from outlast.loop.calls import OutsideWait
from outlast.loop.effects import Command
from outlast.loop.events import Event, TimePassed, ValueDelivered
from outlast.loop.invariants import check
from outlast.loop.machine import advance
from outlast.loop.values import Json
from tests.laws.driver import Play, tool

TWO_DAYS_MS = 2 * 24 * 3_600_000


class WaitingPlay(Play):
    """A run with a tool that waits; readers of runs are tested with it, and not the loop."""

    def take(self, event: Event) -> tuple[Command, ...]:
        """Take an event into the run."""
        self.state, commands = advance(self.state, event)
        check(self.state)
        self.events.append(event)
        self.outstanding = {one.effect: one for one in self.state.pending}
        return commands

    def begins_to_wait(self, call_id: str = "c1", name: str = "courier", **wait: Any) -> None:
        """Let a running tool begin to wait."""
        wait = {"timeout_ms": TWO_DAYS_MS, **wait}
        self.returns(call_id, None, wait=OutsideWait(name=name, **wait))

    def delivers(
        self, call_id: str = "c1", name: str = "courier", value: Json = "p1", **fields: Any
    ) -> None:
        """Deliver a value to a call."""
        fields = {"delivery_id": "d1", "source": "courier.example", **fields}
        self.take(
            ValueDelivered(
                at_ms=self.now_ms,
                question=len(self.state.answers),
                turn=self.state.question.turn,
                call_id=call_id,
                name=name,
                value=value,
                **fields,
            )
        )

    def nothing_comes(self, call_id: str = "c1") -> None:
        """Let the deadline of a wait pass."""
        [due_ms] = [
            one.parked.due_ms
            for one in self.state.calls
            if one.call_id == call_id and one.parked is not None
        ]
        assert due_ms is not None
        self.take(TimePassed(at_ms=due_ms))


def running_play(*call_ids: str) -> WaitingPlay:
    """Return a run whose calls of the tool `book` run."""
    play = WaitingPlay.ready()
    play.replies(*(tool("book", one) for one in call_ids or ("c1",)))
    return play


def parked_play(**wait: Any) -> WaitingPlay:
    """Return a run with one call, which waits for a courier."""
    play = running_play()
    play.begins_to_wait(**wait)
    return play
