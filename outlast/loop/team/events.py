"""What happens to a team, and what it asks the shell to do."""

from dataclasses import dataclass
from typing import TypeAlias

from outlast.loop.actions import LONGEST_NAME, TeamReport
from outlast.loop.team.state import TeamTerms


@dataclass(frozen=True, slots=True, kw_only=True)
class DutyRecord:
    """A person goes on duty, or leaves it: the payload of `duty`.

    Attributes:
        subject: who.
        on_duty: whether conversations are assigned to them.
        capacity: how many they have at most; None for the team's number.
        until_ms: when they leave duty by themselves, in milliseconds since the epoch; None if they
            say so.
        by: who says it.

    Raises:
        ValueError: there is no name, or one that is too long, or a number is negative.
    """

    subject: str
    on_duty: bool = True
    capacity: int | None = None
    until_ms: int | None = None
    by: str = ""

    def __post_init__(self) -> None:
        """Refuse what names nobody."""
        if not self.subject.strip() or len(self.subject) > LONGEST_NAME:
            raise ValueError(f"subject must be a name of at most {LONGEST_NAME} characters")
        if self.capacity is not None and self.capacity < 0:
            raise ValueError(f"capacity must be 0 or more, not {self.capacity}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TermsRecord:
    """The team gets other terms: the payload of `terms`."""

    terms: TeamTerms
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReported(TeamReport):
    """A run says how it stands with the team; its newest report replaces all before."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DutyChanged(DutyRecord):
    """A person is on duty from now on, or not any more."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TermsChanged(TermsRecord):
    """The team assigns by other terms from now on; who has a conversation keeps it."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGone:
    """A run of the team has ended without a word."""

    chain_id: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeCame:
    """A time came at which a conversation goes on to the next person, or somebody's duty ends."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnsCounted:
    """A worker has counted the hours of a calendar, until conversations go on to the next person.

    Attributes:
        within: the calendar.
        return_ms: how many of its hours were counted.
        times: of each conversation its first execution, since when the hours count, and when they are
            over; None if no worker can say.
    """

    within: str
    return_ms: int
    times: tuple[tuple[str, int, int | None], ...]
    at_ms: int


TeamEvent: TypeAlias = (
    RunReported | DutyChanged | TermsChanged | RunGone | TimeCame | ReturnsCounted
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TellRun:
    """Tell a run whose it is.

    Attributes:
        chain_id: the first execution of the run.
        run_id: its workflow id.
        report: the report that this answers; the run takes no answer to an older one.
        to: whose it is; empty while nobody has room for it.
        due_ms: until when they may take it, in milliseconds since the epoch; None for no limit.
    """

    chain_id: str
    run_id: str
    report: int
    to: str
    due_ms: int | None = None
