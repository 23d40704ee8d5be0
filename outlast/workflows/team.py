"""The workflow of a team: an interpreter of the team machine's commands.

Runs report to it by signal, and it tells them by signal whose they are. People change who is on duty
and how it assigns by update. One team has one workflow, so two runs never get one person's last
place, and the time at which a conversation goes on to the next person comes while no worker runs.
"""

from collections.abc import Sequence
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import FailureError

from outlast.contract import names, records
from outlast.contract.failures import USER_ERROR
from outlast.contract.team_records import (
    MOST_MEMBERS,
    TeamInput,
    read_team,
    reported_as,
    team_event,
)
from outlast.edges.rendering import code, counted
from outlast.loop.actions import AssignedRecord
from outlast.loop.team.events import DutyChanged, RunGone, RunReported, TeamEvent, TellRun, TimeCame
from outlast.loop.team.machine import advance
from outlast.loop.team.state import TeamState
from outlast.loop.values import JsonObject
from outlast.workflows.agent_run import described_update
from outlast.workflows.translation import check_size, received_json, typed_error

CASES_SHOWN = 50
"""How many conversations the Temporal UI shows of a team."""

LONGEST_PROBLEM = 500
"""How many characters of a problem it shows."""


@workflow.defn(name=names.WORKFLOW_TEAM, sandboxed=False)
class Team:
    """Says whose the conversations of a team are."""

    @workflow.init
    def __init__(self, payload: RawValue) -> None:
        """Read the input here, so that early signals find a team."""
        self._team = ""
        self._state = TeamState()
        self._commands: list[TellRun] = []
        self._news = False
        self._problem = self._ignored = ""
        try:
            record = records.read(TeamInput, received_json(payload))
            self._team, self._state = record.team, read_team(record)
        except records.UnreadableRecordError as error:
            self._problem = f"The team's input is unreadable: {error}"
            return
        if record.report is not None:
            self._take(reported_as(RunReported, record.report, self._now_ms()))

    @workflow.run
    async def run(self, payload: RawValue) -> None:
        """Tell runs whose they are, until somebody ends the workflow.

        Raises:
            ApplicationError: the input is unreadable.
        """
        del payload
        if self._problem:
            raise typed_error(USER_ERROR, self._problem)
        while True:
            while self._commands:
                await self._tell(self._commands.pop(0))
            if workflow.info().is_continue_as_new_suggested() and workflow.all_handlers_finished():
                carried = records.write_state(self._state)
                workflow.continue_as_new(records.write(TeamInput(team=self._team, carried=carried)))
            await self._until_there_is_news()

    async def _until_there_is_news(self) -> None:
        due_ms = self._state.next_due_ms
        if due_ms is None:
            await workflow.wait_condition(lambda: self._news)
        else:
            left = timedelta(milliseconds=max(due_ms - self._now_ms(), 1))
            try:
                await workflow.wait_condition(
                    lambda: self._news, timeout=left, timeout_summary="The next conversation is due"
                )
            except TimeoutError:
                self._take(TimeCame(at_ms=self._now_ms()))
        self._news = False

    async def _tell(self, command: TellRun) -> None:
        """Tell a run whose it is; a run that has ended is the team's no more."""
        record = AssignedRecord(
            team=self._team,
            chain_id=command.chain_id,
            report=command.report,
            to=command.to,
            due_ms=command.due_ms,
        )
        run = workflow.get_external_workflow_handle(command.run_id)
        try:
            await run.signal(names.SIGNAL_ASSIGNED, records.write(record))
        except FailureError:
            self._take(RunGone(chain_id=command.chain_id, at_ms=self._now_ms()))

    def _take(self, event: TeamEvent) -> None:
        self._state, commands = advance(self._state, event)
        self._commands.extend(commands)
        self._news = True

    @workflow.signal(dynamic=True)
    def signal_any(self, name: str, arguments: Sequence[RawValue]) -> None:
        """Take a report, or what a person sends from the Temporal UI; nothing else has an effect."""
        payload = received_json(arguments[0]) if arguments else None
        try:
            event = team_event(name, payload, self._now_ms())
            refused = self._refusal(event)
        except records.UnreadableRecordError as error:
            refused = str(error)
        else:
            if refused is None:
                self._take(event)
        self._ignored = refused or self._ignored

    update_duty = described_update(
        names.UPDATE_DUTY, 'Go on duty, or leave it: {"subject": "...", "on_duty": true}'
    )
    update_terms = described_update(
        names.UPDATE_TERMS,
        'Assign otherwise: {"terms": {"rule": "round_robin" or "least_busy", "capacity": 5}}',
    )

    def take_update(self, name: str, arguments: Sequence[RawValue]) -> JsonObject:
        """Take an accepted update, and return the state after it."""
        self._take(team_event(name, received_json(arguments[0]), self._now_ms()))
        return records.write(self._state)

    def validate_update(self, name: str, arguments: Sequence[RawValue]) -> None:
        """Refuse an update that is unreadable, before it is written into history.

        Raises:
            ApplicationError: it is refused; the message says why.
        """
        for argument in arguments:
            check_size(argument)
        try:
            event = team_event(name, received_json(arguments[0]), self._now_ms())
        except records.UnreadableRecordError as error:
            raise typed_error(USER_ERROR, str(error)) from None
        refused = self._refusal(event)
        if refused is not None:
            raise typed_error(USER_ERROR, refused)

    def _refusal(self, event: TeamEvent) -> str | None:
        if isinstance(event, DutyChanged) and len(self._state.members) >= MOST_MEMBERS:
            return f"A team has at most {MOST_MEMBERS:,} people."
        return None

    @workflow.query(
        name=names.QUERY_TEAM, description="Who is on duty, and whose each conversation is"
    )
    def query_team(self) -> JsonObject:
        """Return the state."""
        return records.write(self._state)

    def current_details(self) -> str:
        """Return who is on duty, and whose each conversation is, in Markdown."""
        state = self._state
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

    def _now_ms(self) -> int:
        return workflow.time_ns() // 1_000_000
