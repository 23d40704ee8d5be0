"""Compares two versions of agents on a recorded run: observed, baseline, candidate."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from outlast.agents.agent import Agent
from outlast.client.recordings.comparison import Difference
from outlast.client.recordings.recording import Recording
from outlast.edges.rendering import joined
from outlast.loop.values import JsonObject
from outlast.testing.run_replay import Replay, ReplayOptions, replay


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRow:
    """One decision that is not the same in all three lanes; each text is safe to show.

    Attributes:
        question: the number of the question, from 1.
        turn: the number of the model call for the question, from 1; 0 outside of turns.
        agent: the agent that decided.
        observed: the decision as recorded.
        baseline: the decision of the old version.
        candidate: the decision of the new version.
    """

    question: int
    turn: int
    agent: str
    observed: str
    baseline: str
    candidate: str

    @property
    def is_changed(self) -> bool:
        """Whether the new version decides otherwise than the old one."""
        return self.baseline != self.candidate

    def record(self) -> JsonObject:
        """Return the row as JSON."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, kw_only=True)
class Lanes:
    """A recorded run, and what two versions of its agents make of it.

    Attributes:
        recording: the recorded run.
        baseline: its replay with the old version.
        candidate: its replay with the new version.
    """

    recording: Recording
    baseline: Replay
    candidate: Replay

    @property
    def is_changed(self) -> bool:
        """Whether the new version decides otherwise than the old one."""
        stops = self.baseline.stopped != self.candidate.stopped
        return stops or any(one.is_changed for one in self.rows())

    def rows(self) -> tuple[LaneRow, ...]:
        """Return the decisions that are not the same in all three lanes."""
        old, new = _numbered(self.baseline.differences), _numbered(self.candidate.differences)
        keys = sorted({**old, **new})
        return tuple(
            LaneRow(
                question=key[0],
                turn=key[1],
                agent=key[2],
                observed=key[3],
                baseline=old.get(key, key[3]),
                candidate=new.get(key, key[3]),
            )
            for key in keys
        )

    def report(self) -> str:
        """Return the rows as text, three lines each."""
        lines: list[str] = [joined(f"{self.recording.run_id}:", " changed" * self.is_changed)]
        for one in self.rows():
            turn = f", turn {one.turn}" if one.turn else ""
            lines.append(joined(f"  question {one.question}{turn}, {one.agent}"))
            lines += [
                joined(f"    {name:<10}", getattr(one, name))
                for name in ("observed", "baseline", "candidate")
            ]
        for name, lane in (("baseline", self.baseline), ("candidate", self.candidate)):
            if lane.stopped:
                lines.append(joined(f"  {name} stopped: ", lane.stopped))
        return "\n".join(lines)


def _numbered(found: Sequence[Difference]) -> dict[tuple[int, int, str, str, int], str]:
    """Return what a lane decides instead, by place, recorded decision and occurrence."""
    return dict(_with_keys(found))


def _with_keys(
    found: Sequence[Difference],
) -> Iterator[tuple[tuple[int, int, str, str, int], str]]:
    seen: dict[tuple[int, int, str, str], int] = {}
    for one in found:
        place = (one.question, one.turn, one.agent, one.was)
        number = seen[place] = seen.get(place, 0) + 1
        yield (*place, number), one.now


async def replay_lanes(
    recording: Recording,
    *,
    baseline: Agent[Any] | Sequence[Agent[Any]],
    candidate: Agent[Any] | Sequence[Agent[Any]],
    **options: Unpack[ReplayOptions],
) -> Lanes:
    """Replay a run with the old and the new version of its agents.

    Args:
        recording: the recorded run.
        baseline: the old version of the agents.
        candidate: the new version.
        **options: those of `replay`; a `model` makes the replies of both versions, and its `limit` is
            for both together. A model that has another prompt decides otherwise, and a recorded
            one does not.

    Raises:
        UserError: the recording cannot be replayed.
    """
    old, new = [await replay(recording, one, **options) for one in (baseline, candidate)]
    return Lanes(recording=recording, baseline=old, candidate=new)
