"""Follows a run live, with the text that its model is writing: what every desk stands on.

Provisional: names may change before 1.0.
"""

from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from outlast.client.handle import RunHandle
from outlast.client.read.events import NumberedEvent, StreamedState
from outlast.client.read.read_range import HistoryPlace
from outlast.contract.streams.delta_reader import GAP, RESTARTED, UNJUDGED
from outlast.loop.values import JsonObject
from outlast.views.customer import shows_text_in_progress, text_delta
from outlast.views.redaction import redaction_of
from outlast.views.run import RunSnapshot, turn_in_progress

__all__ = ("LiveRun", "TextInProgress", "follow")

_BETWEEN_MESSAGES: Final = "\n\n"


@dataclass
class TextInProgress:
    """The text that a model is writing, put together from its events.

    Attributes:
        text: what has come of it.
        number: a number for each text; it grows when one ends or is void.
        turn: the number of the model call that writes it; 0 before the first.
        is_whole: whether the reply is recorded; the next event of the run ends the text.
        is_unjudged: whether nobody judges the text, as the worker says that makes the call.
        has_gap: whether a part of the text is missing until then.
    """

    text: str = ""
    number: int = 0
    turn: int = 0
    is_whole: bool = False
    is_unjudged: bool = False
    has_gap: bool = False
    _message: object = None

    def take(self, raw: JsonObject, run: RunSnapshot) -> bool:
        """Take an event of the model; return whether it means anything to readers.

        Args:
            raw: the event.
            run: the run before the reply.
        """
        self.is_unjudged = self.is_unjudged or raw.get(UNJUDGED) is True
        if piece := text_delta(raw):
            message = raw.get("output_index")
            if self.text and message != self._message:
                self.text += _BETWEEN_MESSAGES
            self._message = message
            self.turn = turn_in_progress(run) or self.turn
            self.text += piece
            return True
        match raw.get("type"):
            case kind if kind == RESTARTED:
                self.renew()
            case "response.completed":
                self.is_whole = True
            case kind if kind == GAP:
                self.has_gap = True
            case _:
                return False
        return True

    def renew(self) -> None:
        """Begin another text: the one before has ended, or is void."""
        self.number += 1
        self.text, self._message = "", None
        self.is_whole = self.has_gap = self.is_unjudged = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRun:
    """A run as it is now, with what has just happened.

    Attributes:
        state: the run.
        events: what led to this state from the one before, numbered as in
            `RunHandle.stream_events`; empty where only the text has grown.
        text: the text in progress, as the model has written it so far.
        is_unjudged: whether no guardrail and no person judges that text before it is an answer.
        is_present: whether all was read that was recorded when the stream began.
        place: how far the run's history was read.
    """

    state: RunSnapshot
    events: tuple[NumberedEvent, ...] = ()
    text: str = ""
    is_unjudged: bool = False
    is_present: bool = False
    place: HistoryPlace = ("", 0)

    def text_for(self, groups: Collection[str] = ()) -> str:
        """Return the text in progress as a member of some groups may see it.

        Its end is held back where it may be the beginning of a hidden value.
        """
        return redaction_of(self.state, groups).draft(self.text)

    @property
    def customer_text(self) -> str:
        """The text in progress as the customer may read it: empty where somebody judges it first."""
        may_read = shows_text_in_progress(self.state, is_unjudged=self.is_unjudged)
        return self.text if may_read else ""


async def follow(run: RunHandle) -> AsyncGenerator[LiveRun]:
    """Yield the states of a run with the text in progress, from its start until it is closed.

    Needs no worker.

    Args:
        run: the run.

    Raises:
        RunNotFound: there is no such run.
        ServerUnavailable: the server does not answer for too long.
    """
    writing, now = TextInProgress(), LiveRun(state=RunSnapshot())
    call: int | None = None
    async with aclosing(run.stream_states()) as updates:
        async for one in updates:
            if isinstance(one, StreamedState):
                if one.model_call != call or (writing.is_whole and one.events):
                    writing.renew()
                call = one.model_call
            elif not writing.take(one.raw, now.state):
                continue
            is_state = isinstance(one, StreamedState)
            now = LiveRun(
                state=one.state if is_state else now.state,
                events=one.events if is_state else (),
                text=writing.text,
                is_unjudged=writing.is_unjudged,
                is_present=now.is_present or (is_state and one.is_present),
                place=one.place if is_state else now.place,
            )
            yield now
