"""The part of a run to read, and when what is read is settled, present or an answer."""

from dataclasses import dataclass
from typing import TypeAlias

from outlast.client.read.history import RunReader
from outlast.contract import names
from outlast.loop.state import Answer, LoopState
from outlast.views.run import AnyState, loop_state

HistoryPlace: TypeAlias = tuple[str, int]
"""A place in a history, as in `RunReader.place`."""

RequestKey: TypeAlias = tuple[str, str]
"""An approval request: the id of its nested run, or an empty text; and its id."""


def is_settled(run: AnyState, without: frozenset[RequestKey] = frozenset()) -> bool:
    """Whether the run only continues after a message or a decision, with its session saved.

    `without` are requests that were decided, although the state may not show it yet.
    """
    state = loop_state(run)
    if state.phase == "closed":
        return True
    waiting = {(request.run_id, request.id) for request in state.pending_approvals}
    return state.status in {"waiting", "held", *names.RESTING} and not without & waiting


def answer_to(state: LoopState, message_id: str) -> Answer | None:
    """Return the answer to a message, or None before there is one."""
    return next((answer for answer in state.answers if message_id in answer.to), None)


@dataclass
class CaughtUp:
    """Whether a reader has read up to a place; a history also shows earlier waits, which are over.

    Attributes:
        from_start: the reader begins with the run's first history instead of the newest.
    """

    place: HistoryPlace | None
    from_start: bool
    _entered: bool = False

    def is_reached(self, place: HistoryPlace) -> bool:
        """Whether a reader's place is this place or after it."""
        if self.place is None:
            return True
        if place[0] == self.place[0]:
            self._entered = True
            return place[1] >= self.place[1]
        return self._entered or not self.from_start


class TakenIn:
    """Whether a run has taken in everything that had reached it when a reader caught up.

    A message may be in the history, and the run may still have the state before it.
    """

    def __init__(self, present: RunReader) -> None:
        self._place = present.place
        self._task = present.tasks + (present.has_more or present.in_task)
        self._in_task = present.in_task

    def is_reached(self, reader: RunReader) -> bool:
        """Whether a reader has read so far; it yields after each workflow task."""
        if reader.place[0] != self._place[0]:  # a run continues when it has taken in everything
            return True
        if self._in_task and reader.tasks == self._task:
            # Behind the task that ran is what has arrived meanwhile; the next one takes it in.
            self._task += reader.has_more
            self._in_task = False
        return reader.tasks >= self._task and reader.place[1] >= self._place[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRange:
    """The part of a run to read.

    Attributes:
        begins: the place where reading begins; None for the run's first event.
        settles: the place from which on a wait counts as settled.
        without: requests that were decided.
    """

    begins: HistoryPlace | None = None
    settles: HistoryPlace | None = None
    without: frozenset[RequestKey] = frozenset()

    def is_settled(self, run: AnyState) -> bool:
        """Whether the run only continues after a message or a decision, with its session saved."""
        state = loop_state(run)
        return state.status != "held" and is_settled(state, self.without)
