"""What the figures count of a conversation: decisions, takeovers, replies of people, and the rating.

The index keeps them with the conversation, so that no page reads a history.
"""

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from outlast.loop.approvals import ApprovalRequest
from outlast.loop.events import Event
from outlast.loop.reply_clock import waits_for_person
from outlast.loop.run_changes import (
    CaseChanged,
    HolderSpoke,
    HoldTaken,
    RequestSettled,
    RequestUpdated,
    run_changes,
)
from outlast.loop.state import LoopState

OccurrenceKind: TypeAlias = Literal["decision", "takeover", "reply", "rating"]

_DECIDED: Final = frozenset({"approved", "edited", "rejected", "responded"})


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One thing that the figures count.

    Attributes:
        kind: a request that people decided, a person who took over, a person's reply to a customer
            who waited, or the customer's rating.
        at_ms: when, in milliseconds since the epoch.
        key: tells it from the others of its kind in the conversation. A rating has none: the newest
            counts.
        value: of a decision and a reply, how many milliseconds somebody waited; of a rating, its
            score.
        team: the team that the conversation was assigned to; empty for none.
    """

    kind: OccurrenceKind
    at_ms: int
    key: str = ""
    value: int = 0
    team: str = ""


@dataclass
class OccurrenceReader:
    """Collects what the figures count from the events of a run, each with the state after it."""

    _state: LoopState | None = None
    _waits_since_ms: int | None = None
    _found: dict[tuple[str, str], Occurrence] = field(
        default_factory=dict[tuple[str, str], Occurrence]
    )

    @property
    def found(self) -> tuple[Occurrence, ...]:
        """What there was so far."""
        return tuple(self._found.values())

    def take(self, event: Event | None, after: LoopState) -> None:
        """Take an event; None for the state in which a history begins."""
        before, self._state = self._state, after
        if event is None or before is None:
            if waits_for_person(after):  # since then, or a moment longer
                self._waits_since_ms = after.at_ms
            return
        at_ms, team = event.at_ms, after.case.team
        for change in run_changes(before, event, after):
            match change:
                case RequestUpdated(request=request, changes=changes):
                    if any(isinstance(one, RequestSettled) for one in changes):
                        self._take_decision(request, at_ms, team)
                case HoldTaken(by=by) if by:
                    self._add(Occurrence("takeover", at_ms, str(at_ms), team=team))
                case HolderSpoke() if self._waits_since_ms is not None:
                    waited = max(0, at_ms - self._waits_since_ms)
                    self._add(Occurrence("reply", at_ms, str(at_ms), waited, team))
                    self._waits_since_ms = None
                case CaseChanged(before=old, after=new):
                    if new.rating is not None and new.rating != old.rating:
                        rated = new.rating
                        self._add(Occurrence("rating", rated.at_ms, value=rated.score, team=team))
                case _:
                    pass
        if not waits_for_person(after):
            self._waits_since_ms = None
        elif self._waits_since_ms is None:
            self._waits_since_ms = at_ms

    def _take_decision(self, request: ApprovalRequest, at_ms: int, team: str) -> None:
        if request.status in _DECIDED and request.votes:
            at_ms = at_ms if request.decided_at_ms is None else request.decided_at_ms
            waited = max(0, at_ms - request.requested_at_ms)
            self._add(Occurrence("decision", at_ms, request.id, waited, team))

    def _add(self, one: Occurrence) -> None:
        self._found[one.kind, one.key] = one
