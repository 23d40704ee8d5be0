"""Where an effect belongs in the trace of its run.

Owns: `TraceMark`, which travels with the effects of runs that are traced, and with no others. Must
not know: spans, or whom they are told to; the activities make spans of marks.
"""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

Beginning: TypeAlias = Literal["trace", "agent"]
"""What begins with an effect: the trace of a question, or the work of one more agent in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceMark:
    """Which question an effect belongs to, and which agent has the run in hand.

    Attributes:
        started_at_ms: when the run began: tells it from others that had its id.
        since_ms: when the agent took the run in hand.
        question: how many questions were settled before; -1 before the first begins.
        handovers: how often the run has changed hands.
        begins: what begins with this effect.
    """

    started_at_ms: int
    since_ms: int = 0
    question: int = -1
    handovers: int = 0
    begins: Beginning | None = None

    def key(self, run_id: str) -> str:
        """Return the name of the question, which no other has."""
        return f"{run_id}@{self.started_at_ms}.{self.question}"

    def moved(self, *, question: int, handovers: int, now_ms: int) -> "TraceMark":
        """Return the mark of the next effect."""
        if question != self.question:
            begins: Beginning | None = "trace"
        else:
            begins = "agent" if handovers != self.handovers else None
        if begins is None:
            return self if self.begins is None else replace(self, begins=None)
        return replace(self, since_ms=now_ms, question=question, handovers=handovers, begins=begins)
