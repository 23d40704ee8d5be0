"""The records of a team's workflow, and the events that they become."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

from outlast.contract import names, records
from outlast.loop.actions import TeamReport
from outlast.loop.team.events import (
    DutyChanged,
    DutyRecord,
    RunReported,
    TeamEvent,
    TermsChanged,
    TermsRecord,
)
from outlast.loop.team.state import TeamState
from outlast.loop.values import Json, JsonObject

MOST_MEMBERS: Final = 10_000
"""How many people may ever have been on duty in a team."""


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


_EVENTS: Final[Mapping[str, tuple[type, type[TeamEvent]]]] = {
    names.SIGNAL_REPORT: (TeamReport, RunReported),
    names.UPDATE_DUTY: (DutyRecord, DutyChanged),
    names.UPDATE_TERMS: (TermsRecord, TermsChanged),
}
"""What may reach a team, by name: the record of its payload, and the event that inherits it."""


def team_event(name: str, payload: Json | records.Unreadable, at_ms: int) -> TeamEvent:
    """Return the event of a signal or an update.

    Raises:
        UnreadableRecordError: there is no such signal, or its payload does not fit.
    """
    if name not in _EVENTS:
        raise records.UnreadableRecordError(
            f"There is no {name!r:.80} of a team. It takes {', '.join(_EVENTS)}."
        )
    record, event = _EVENTS[name]
    return reported_as(event, records.read(record, payload), at_ms)


def reported_as(event: type[TeamEvent], record: object, at_ms: int) -> TeamEvent:
    """Return the event that inherits a record: the record with its time."""
    sent = {one.name: getattr(record, one.name) for one in fields(record)}  # type: ignore[arg-type]
    return event(at_ms=at_ms, **sent)


def read_team(record: TeamInput) -> TeamState:
    """Return the state with which a team's history begins.

    Raises:
        UnreadableRecordError: what it carries does not fit.
    """
    if record.carried is None:
        return TeamState()
    return records.read_written(TeamState, record.carried, "TeamState")
