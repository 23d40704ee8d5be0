"""Where an effect belongs in the trace of its run.

Owns: `TraceMark`, which travels with the effects of runs that are traced, and with no others. Must
not know: spans, or whom they are told to; the activities make spans of marks.
"""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from outlast.loop.values import NO_USAGE, Usage

Beginning: TypeAlias = Literal["trace", "agent", "turn"]
"""What begins with an effect: the trace of a question, the work of one more agent in it, or only
one more turn of the same agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnMark:
    """A turn: one model call, and what it leads to.

    Attributes:
        number: its number in the question; the first is 1.
        since_ms: when it began.
        spent: what the run had spent by then.
    """

    number: int
    since_ms: int = 0
    spent: Usage = NO_USAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceMark:
    """Which question an effect belongs to, which agent has the run in hand, and which turn it is.

    Attributes:
        started_at_ms: when the run began: tells it from others that had its id.
        since_ms: when the agent took the run in hand.
        question: how many questions were settled before; -1 before the first begins.
        handovers: how often the run has changed hands.
        begins: what begins with this effect.
        asked_ms: when the question began.
        spent: what the run had spent by then.
        turn: the turn the effect belongs to; None outside of turns.
        ended: the turn of the same agent that was over when this effect was asked for.
    """

    started_at_ms: int
    since_ms: int = 0
    question: int = -1
    handovers: int = 0
    begins: Beginning | None = None
    asked_ms: int = 0
    spent: Usage = NO_USAGE
    turn: TurnMark | None = None
    ended: TurnMark | None = None

    def key(self, run_id: str) -> str:
        """Return the name of the question, which no other has."""
        return f"{run_id}@{self.started_at_ms}.{self.question}"

    def moved(
        self, *, question: int, handovers: int, turn: int | None, spent: Usage, now_ms: int
    ) -> "TraceMark":
        """Return the mark of the next effect.

        Args:
            question: how many questions are settled.
            handovers: how often the run has changed hands.
            turn: the turn of the effect; 0 outside of turns, None for whichever it is.
            spent: what the run has spent.
            now_ms: the time.
        """
        is_asked = question != self.question
        is_other = is_asked or handovers != self.handovers
        before = None if is_other else self.turn
        latest = before.number if before is not None else 0
        if not is_other and turn in {None, latest}:
            if self.begins is None and self.ended is None:
                return self
            return replace(self, begins=None, ended=None)
        begun = TurnMark(number=turn, since_ms=now_ms, spent=spent) if turn else None
        mark = replace(self, begins="turn" if begun else None, turn=begun, ended=before)
        if is_other:
            mark = replace(mark, begins="agent", handovers=handovers, since_ms=now_ms)
        if is_asked:
            mark = replace(mark, begins="trace", question=question, asked_ms=now_ms, spent=spent)
        return mark
