"""The records of a team's workflow, and the events that its history becomes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from outlast.contract import names, records
from outlast.contract.history import event_of
from outlast.edges.rendering import code, counted, engine_summary, named
from outlast.loop.actions import AssignedRecord, TeamReport
from outlast.loop.effects import CountHours
from outlast.loop.open_hours import Durations, HoursCounted, HoursOfRequest
from outlast.loop.team.events import (
    DutyChanged,
    DutyRecord,
    ReturnsCounted,
    RunGone,
    RunReported,
    TeamEvent,
    TellRun,
    TermsChanged,
    TermsRecord,
    TimeCame,
)
from outlast.loop.team.machine import advance
from outlast.loop.team.state import TeamState
from outlast.loop.values import Json, JsonObject

MOST_MEMBERS: Final = 10_000
"""How many people may ever have been on duty in a team."""

CASES_SHOWN: Final = 50
"""How many conversations the Temporal UI shows of a team."""

LONGEST_PROBLEM: Final = 500
"""How many characters of a problem it shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamInput:
    """The input of a team's workflow.

    Attributes:
        team: the name of the team.
        report: of the run that started it, as the team did not exist; None if a person did.
        carried: the state of the history that this one continues.
        schema_version: the version of this record.
    """

    team: str
    report: TeamReport | None = None
    carried: JsonObject | None = None
    schema_version: int = records.SCHEMA_VERSION


_EVENTS: Final[Mapping[str, tuple[type[Any], type[Any]]]] = {
    names.SIGNAL_REPORT: (TeamReport, RunReported),
    names.UPDATE_DUTY: (DutyRecord, DutyChanged),
    names.UPDATE_TERMS: (TermsRecord, TermsChanged),
}
"""What may reach a team, by name: the record of its payload, and the event that inherits it."""


def team_summary(team: str) -> str:
    """Return one line in Markdown that describes the workflow of a team."""
    return engine_summary("The team ", named(team), ": who has each conversation")


class TeamHistory:
    """A team as its history makes it, event by event.

    Args:
        payload: the input of the workflow.
        at_ms: when it came, in milliseconds since the epoch.

    Attributes:
        problem: why the input cannot be read; empty if it can.
        state: the team after the newest event.
        commands: what runs have to be told, the oldest first.
    """

    def __init__(self, payload: Json | records.Unreadable, at_ms: int) -> None:
        self.problem: str = ""
        self.state: TeamState = TeamState()
        self.commands: list[TellRun] = []
        self._ignored = ""
        self._input = TeamInput(team="")
        try:
            record = self._input = records.read(TeamInput, payload)
            if record.carried is not None:
                self.state = records.read_written(TeamState, record.carried, "TeamState")
        except records.UnreadableRecordError as error:
            self.problem = f"The team's input is unreadable: {error}"
            return
        if record.report is not None:
            self._advance(event_of(RunReported, record.report, at_ms))

    def take(self, name: str, payload: Json | records.Unreadable, at_ms: int) -> None:
        """Take a signal or an accepted update; one that is refused is noted for people to see."""
        refused = self.refusal(name, payload, at_ms)
        if refused is None:
            self._advance(_read(name, payload, at_ms))
        self._ignored = refused or self._ignored

    def refusal(self, name: str, payload: Json | records.Unreadable, at_ms: int) -> str | None:
        """Return why a signal or an update has no effect; None if it has one."""
        try:
            event = _read(name, payload, at_ms)
        except records.UnreadableRecordError as error:
            return str(error)
        is_full = len(self.state.members) >= MOST_MEMBERS
        if is_full and isinstance(event, DutyChanged) and not self.state.knows(event.subject):
            return f"A team has at most {MOST_MEMBERS:,} people."
        return None

    def time_came(self, at_ms: int) -> None:
        """Note that a time has come at which something is due."""
        self._advance(TimeCame(at_ms=at_ms))

    def gone(self, chain_id: str, at_ms: int) -> None:
        """Note that a run has ended, as nothing reaches it."""
        self._advance(RunGone(chain_id=chain_id, at_ms=at_ms))

    def hours(self) -> CountHours | None:
        """Return what a worker has to count by a calendar; None for nothing."""
        terms = self.state.terms
        asked = tuple(
            HoursOfRequest(
                request_id=one.chain_id,
                within=terms.within,
                open=Durations(expires_in_ms=terms.return_ms),
                from_ms=one.counts_ms,
            )
            for one in self.state.cases
            if one.counts_ms is not None
        )
        return CountHours(effect=1, run_id=self._input.team, requests=asked) if asked else None

    def counted(self, asked: CountHours, result: HoursCounted, at_ms: int) -> None:
        """Take what a worker has counted; what none can count stays with its person."""
        known = {one.request_id: one.clock.expires_in_ms for one in result.requests}
        first = asked.requests[0]
        times = ((one.request_id, one.from_ms, known.get(one.request_id)) for one in asked.requests)
        self._advance(
            ReturnsCounted(
                within=first.within,
                return_ms=first.open.expires_in_ms or 0,
                times=tuple(
                    (name, from_ms, None if lasts is None else from_ms + lasts)
                    for name, from_ms, lasts in times
                ),
                at_ms=at_ms,
            )
        )

    def answer(self, command: TellRun) -> JsonObject:
        """Return what a run is told."""
        return records.write(
            AssignedRecord(
                team=self._input.team,
                chain_id=command.chain_id,
                report=command.report,
                to=command.to,
                due_ms=command.due_ms,
            )
        )

    def carried(self) -> JsonObject:
        """Return the input of a history that continues this one."""
        carried = records.write_state(self.state)
        return records.write(TeamInput(team=self._input.team, carried=carried))

    def details(self) -> str:
        """Return who is on duty, and whose each conversation is, in Markdown."""
        state = self.state
        lines = ["**On duty**", ""]
        lines += [
            f"- {code(one.subject)}: {state.load_of(one.subject)} of {state.capacity_of(one)}"
            for one in state.members
            if one.on_duty
        ]
        lines += ["", f"**{counted(len(state.cases), 'conversation')}**", ""]
        lines += [
            f"- {code(one.run_id)}: {code(one.to) if one.to else 'nobody yet'}"
            for one in state.cases[:CASES_SHOWN]
        ]
        if (more := len(state.cases) - CASES_SHOWN) > 0:
            lines.append(f"- and {more:,} more")
        if self._ignored:
            lines += ["", f"A signal had no effect: {code(self._ignored, LONGEST_PROBLEM)}"]
        return "\n".join(lines)

    def _advance(self, event: TeamEvent) -> None:
        self.state, commands = advance(self.state, event)
        self.commands.extend(commands)


def _read(name: str, payload: Json | records.Unreadable, at_ms: int) -> TeamEvent:
    if name not in _EVENTS:
        raise records.UnreadableRecordError(
            f"There is no {name!r:.80} of a team. It takes {', '.join(_EVENTS)}."
        )
    record, event = _EVENTS[name]
    taken: TeamEvent = event_of(event, records.read(record, payload), at_ms)
    return taken
