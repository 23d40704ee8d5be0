"""Random runs as sources of feeds: as a process read them that was there, and as a late one does."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from outlast.client.read.events import StreamedState, changes
from outlast.loop.calls import ModelReply
from outlast.loop.effects import CallModel, EffectAnswered
from outlast.loop.items import refusal_of, text_of
from outlast.loop.machine import advance
from outlast.loop.state import LoopState
from outlast.serve.wires.answer_steps import answer_of
from outlast.views.run import snapshot_of
from tests.laws.driver import Play
from tests.unit.serve.scripted_source import COMPLETED, RESTART, Streamed, delta, pieces


@dataclass
class RandomStreams:
    """The streams of one run.

    Attributes:
        live: with void attempts, and texts in pieces.
        late: what the history has.
        message_ids: the messages that reached the run.
    """

    live: list[Streamed] = field(default_factory=list[Streamed])
    late: list[Streamed] = field(default_factory=list[Streamed])
    message_ids: list[str] = field(default_factory=list[str])
    state: LoopState = field(default_factory=LoopState)
    _answered: set[str] = field(default_factory=set[str])
    _retried: set[str] = field(default_factory=set[str])

    @classmethod
    def of(cls, play: Play, chance: random.Random) -> "RandomStreams":
        """Return the streams of a run that was played."""
        made, count = cls(), 0
        for event in play.events:
            before = made.state
            after, _ = advance(before, event)
            if isinstance(event, EffectAnswered):
                made._reply(before, event, chance)
            events = tuple(changes(before, after, count))
            count += len(events)
            both = StreamedState(state=snapshot_of(after), events=events, is_present=False)
            made.live.append(both)
            made.late.append(both)
            made.state = after
            made._note_messages(after)
        return made

    def _reply(self, state: LoopState, event: EffectAnswered[Any], chance: random.Random) -> None:
        calls = [one for one in state.pending if isinstance(one, CallModel)]
        if not isinstance(event.result, ModelReply) or event.effect not in {
            one.effect for one in calls
        }:
            return
        texts = [
            text_of(raw) or refusal_of(raw) or ""
            for raw in event.result.items
            if raw.get("type") == "message"
        ]
        if chance.random() < 0.4:
            for piece in pieces(chance, "".join(texts) + "xyz"):
                self.live.append(delta(piece))
            self.live.append(RESTART)
        for number, text in enumerate(texts):
            self.live += (delta(piece, number) for piece in pieces(chance, text))
            self.late += [delta(text, number)] if text else []
        self.live.append(COMPLETED)
        self.late.append(COMPLETED)

    @property
    def kept_ids(self) -> list[str]:
        """The messages whose answers are kept: of those without an item, only the newest is.

        The failures of questions that were retried are not kept either.
        """
        found: list[str] = []
        for one in self.message_ids:
            if one in self._retried:
                continue
            answer = answer_of(snapshot_of(self.state), one)
            is_lost = answer is not None and answer.failure is None and answer.item is None
            if not is_lost or answer is self.state.answers[-1]:
                found.append(one)
        return found

    def _note_messages(self, state: LoopState) -> None:
        self._answered.update(one for answer in state.answers for one in answer.to)
        self._retried |= self._answered & {*state.question.answering}
        for one in _ids(state):
            if one not in self.message_ids:
                self.message_ids.append(one)


def _ids(state: LoopState) -> Iterator[str]:
    yield from (one.id for one in state.inbox)
    yield from state.question.answering
    for answer in state.answers:
        yield from answer.to
