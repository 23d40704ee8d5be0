"""What happens to a team, and what it asks the shell to do."""

from dataclasses import dataclass
from typing import TypeAlias

from outlast.loop.team.state import TeamTerms


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReported:
    """A run says how it stands with the team; its newest report replaces all before.

    Attributes:
        chain_id: the first execution of the run.
        run_id: its workflow id.
        report: the number of the report, which grows with each one.
        waits: whether the conversation is the team's; False gives it up.
        to: for whom it is, where a person has said so, or who has taken it.
        taken: whether that person works on it.
        at_ms: when it came, in milliseconds since the epoch.
    """

    chain_id: str
    run_id: str
    report: int
    waits: bool = True
    to: str = ""
    taken: bool = False
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DutyChanged:
    """A person is on duty from now on, or not any more.

    Attributes:
        subject: who.
        on_duty: whether conversations are assigned to them.
        capacity: how many they have at most; None for the team's number.
        at_ms: when, in milliseconds since the epoch.
    """

    subject: str
    on_duty: bool = True
    capacity: int | None = None
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TermsChanged:
    """The team assigns by other terms from now on; who has a conversation keeps it."""

    terms: TeamTerms
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGone:
    """A run that was told something has ended."""

    chain_id: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeCame:
    """A time came at which a conversation goes on to the next person."""

    at_ms: int


TeamEvent: TypeAlias = RunReported | DutyChanged | TermsChanged | RunGone | TimeCame


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
