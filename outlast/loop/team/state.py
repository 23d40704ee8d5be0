"""The state of a team."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from outlast.loop.canonical import canonical_name, same_person

Rule: TypeAlias = Literal["round_robin", "least_busy"]
"""Who gets the next conversation: whoever has waited longest for one, or has the fewest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamTerms:
    """How a team assigns conversations.

    Attributes:
        rule: who gets the next one.
        capacity: how many conversations a person has at most, where nothing else is said.
        return_ms: when a conversation that its person has not taken goes on to the next one; None
            if it stays with them.
        within: the calendar whose hours that time counts; empty for all hours.

    Raises:
        ValueError: nobody could have a conversation, or it would return at once.
    """

    rule: Rule = "round_robin"
    capacity: int = 5
    return_ms: int | None = None
    within: str = ""

    def __post_init__(self) -> None:
        """Refuse what would leave every conversation with nobody."""
        if self.capacity < 1:
            raise ValueError(f"capacity must be 1 or more, not {self.capacity}")
        if self.return_ms is not None and self.return_ms < 1:
            raise ValueError(f"return_ms must be 1 or more, not {self.return_ms}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A person of a team.

    Attributes:
        subject: who it is.
        on_duty: whether conversations are assigned to them.
        capacity: how many they have at most; None for the team's number.
        until_ms: when they leave duty by themselves, in milliseconds since the epoch; None if they
            say so.
        newest: the number of the newest conversation that was assigned to them; 0 for none.
    """

    subject: str
    on_duty: bool = True
    capacity: int | None = None
    until_ms: int | None = None
    newest: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamCase:
    """A conversation that waits for a person of the team, or is with one.

    Attributes:
        chain_id: the first execution of the run, which tells it from every other.
        run_id: its workflow id.
        report: the number of the run's newest report. What the team says answers this one.
        began_ms: when the run started, in milliseconds since the epoch.
        since_ms: since when it is the team's, in milliseconds since the epoch.
        to: whose it is; empty while it waits.
        taken: whether they work on it.
        due_ms: when it goes on to the next person; None if it does not, or no worker has counted yet.
        counts_ms: since when the hours of a calendar count that a worker has to count; None for none.
        passed: who had it and did not take it.
    """

    chain_id: str
    run_id: str
    report: int
    began_ms: int = 0
    since_ms: int
    to: str = ""
    taken: bool = False
    due_ms: int | None = None
    counts_ms: int | None = None
    passed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamState:
    """The whole state of a team.

    Attributes:
        terms: how it assigns.
        members: everybody who was ever on duty, in the order in which they came.
        cases: its conversations, the oldest first; a workflow id has one.
        assigned: how many conversations were assigned so far.
        at_ms: when the newest event happened, in milliseconds since the epoch.
    """

    terms: TeamTerms = TeamTerms()
    members: tuple[Member, ...] = ()
    cases: tuple[TeamCase, ...] = ()
    assigned: int = 0
    at_ms: int = 0

    def knows(self, subject: str) -> bool:
        """Whether a person was ever on duty."""
        return any(same_person(one.subject, subject) for one in self.members)

    def load_of(self, subject: str) -> int:
        """Return how many conversations a person has."""
        name = canonical_name(subject)
        return sum(canonical_name(one.to) == name for one in self.cases if one.to)

    def room_of(self, member: Member) -> int:
        """Return how many conversations more a person may be assigned; 0 off duty."""
        if not member.on_duty:
            return 0
        return max(self.capacity_of(member) - self.load_of(member.subject), 0)

    def capacity_of(self, member: Member) -> int:
        """Return how many conversations a person has at most."""
        return self.terms.capacity if member.capacity is None else member.capacity

    @property
    def next_due_ms(self) -> int | None:
        """When the next conversation goes on to somebody else, or a duty ends; None if none does."""
        times = [one.due_ms for one in self.cases]
        times += [one.until_ms for one in self.members if one.on_duty]
        return min((one for one in times if one is not None), default=None)
