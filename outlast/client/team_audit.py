"""The audit of teams: who went on duty and left it, and who changed how a team assigns.

Read from the history of the team's own workflow, as the audit of a run is. A team checks no proofs,
so no entry says that it is verified.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.archive import workflow_handle
from outlast.client.read.history import CLOSING
from outlast.contract import names, records
from outlast.contract.team_records import TeamHistory
from outlast.edges.rendering import iso_time
from outlast.loop.actions import TeamReport
from outlast.loop.team.events import DutyRecord, TermsRecord
from outlast.temporal.payloads.readable import values_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamEntry:
    """What somebody did with a team, or tried in vain.

    Attributes:
        at_ms: when it came, in milliseconds since the epoch.
        event: `duty` for that of a person, `team` for everything else that has an effect.
        by: who says so, or the identity of the client that sent a signal.
        note: what it is.
        channel: `signal` for what nobody's client sends; empty for an update.
    """

    at_ms: int
    event: Literal["duty", "team", "ignored"] = "ignored"
    by: str = ""
    note: str = ""
    channel: str = ""


@dataclass(slots=True)
class TeamReading:
    """What the histories of a team say, from the first one that is there.

    Attributes:
        opened_by: the first record of the newest history.
        closed_by: its last record, if the team has ended.
        found: the entries, in order.
        lost: the newest history that is not there any more; entries of it and before are missing.
    """

    opened_by: HistoryEvent | None = None
    closed_by: HistoryEvent | None = None
    found: tuple[TeamEntry, ...] = ()
    lost: tuple[str, ...] = ()


async def read_team(client: Client, workflow_id: str, execution_id: str) -> TeamReading:
    """Read the audit of a team, of this execution and of those that it continues.

    Raises:
        RPCError: the server refused, or does not answer, or the execution is gone.
    """
    read, parts = TeamReading(), list[list[TeamEntry]]()
    while execution_id:
        before = ""
        try:
            part = list[TeamEntry]()
            async for event, entries in _entries(client, workflow_id, execution_id):
                if event.HasField("workflow_execution_started_event_attributes"):
                    started = event.workflow_execution_started_event_attributes
                    before = started.continued_execution_run_id
                    read.opened_by = read.opened_by or event
                elif event.event_type in CLOSING and not parts:
                    read.closed_by = event
                part += entries
            parts.append(part)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND or not parts:
                raise
            read.lost = (execution_id,)
        execution_id = before
    read.found = tuple(one for part in reversed(parts) for one in part)
    return read


async def _entries(
    client: Client, workflow_id: str, execution_id: str
) -> AsyncIterator[tuple[HistoryEvent, list[TeamEntry]]]:
    """Yield each record of a history with the entries that it makes."""
    converter, team, admitted = client.data_converter, None, dict[int, Any]()
    async for event in workflow_handle(client, workflow_id, execution_id).fetch_history_events():
        at_ms = event.event_time.ToMilliseconds()
        blank = TeamEntry(at_ms=at_ms)
        name, sent, by = "", None, ""
        if event.HasField("workflow_execution_started_event_attributes"):
            started = event.workflow_execution_started_event_attributes
            values = await values_of(converter, started.input.payloads)
            team = TeamHistory(values[0] if values else None, at_ms)
        elif event.HasField("workflow_execution_signaled_event_attributes"):
            signal = event.workflow_execution_signaled_event_attributes
            if not signal.external_workflow_execution.workflow_id:  # else a run has sent it
                name, sent, by = signal.signal_name, signal.input.payloads, signal.identity
                blank = replace(blank, channel="signal")
        elif event.HasField("workflow_execution_update_admitted_event_attributes"):
            admitted[event.event_id] = event.workflow_execution_update_admitted_event_attributes
        elif event.HasField("workflow_execution_update_accepted_event_attributes"):
            accepted = event.workflow_execution_update_accepted_event_attributes
            came_at = accepted.accepted_request_sequencing_event_id
            request = accepted.accepted_request
            # An update that a reset applies again is only in the record of its admission.
            request = admitted[came_at].request if came_at in admitted else request
            name, sent = request.input.name, request.input.args.payloads
        entries = list[TeamEntry]()
        if name and team is not None:
            values = await values_of(converter, sent or ())
            entries = [*_taken(team, name, values[0] if values else None, blank, by)]
        yield event, entries


def _taken(
    team: TeamHistory, name: str, payload: Any, blank: TeamEntry, sender: str
) -> Iterator[TeamEntry]:
    """Yield the entry of what somebody has sent, and let the team take it."""
    refused = team.refusal(name, payload, blank.at_ms)
    team.take(name, payload, blank.at_ms)
    if refused is not None:
        note = f"{name}: {refused}"
        yield replace(blank, by=sender, note=note)
    elif name == names.UPDATE_DUTY:
        duty = records.read(DutyRecord, payload)
        yield replace(blank, event="duty", by=duty.by, note=duty_words(duty))
    elif name == names.UPDATE_TERMS:
        terms = records.read(TermsRecord, payload)
        yield replace(blank, event="team", by=terms.by, note=terms_words(terms))
    else:
        report = records.read(TeamReport, payload)
        note = f"a report about {report.run_id} that no run has sent"
        yield replace(blank, event="team", by=sender, note=note)


def duty_words(duty: DutyRecord) -> str:
    """Return what somebody has said about the duty of a person."""
    if not duty.on_duty:
        return f"{duty.subject} off duty"
    most = "" if duty.capacity is None else f", at most {duty.capacity}"
    until = "" if duty.until_ms is None else f", until {iso_time(duty.until_ms)}"
    return f"{duty.subject} on duty{most}{until}"


def terms_words(record: TermsRecord) -> str:
    """Return how somebody lets a team assign."""
    terms = record.terms
    within = f" of {terms.within}" if terms.within else ""
    back = "" if terms.return_ms is None else f", back after {terms.return_ms / 1000:g} s{within}"
    return f"{terms.rule}, at most {terms.capacity} for each{back}"
