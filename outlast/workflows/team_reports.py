"""What a run reports to teams, one report after the other."""

import asyncio
import contextlib

from temporalio import workflow
from temporalio.exceptions import FailureError, WorkflowAlreadyStartedError

from outlast.contract import names, records
from outlast.contract.team_records import TeamInput, team_summary
from outlast.loop.effects import ReportToTeam

_TRIES = 3
"""A team may end between the look for it and its start, and begin between its start and the next."""


class TeamReports:
    """Sends the reports of one run; a team that does not exist begins with the report."""

    def __init__(self) -> None:
        self._waiting: list[ReportToTeam] = []
        self._sending: asyncio.Task[None] | None = None

    @property
    def all_sent(self) -> bool:
        """Whether teams have every report."""
        return self._sending is None or self._sending.done()

    def send(self, report: ReportToTeam) -> None:
        """Send a report, after those before it."""
        self._waiting.append(report)
        if self.all_sent:
            self._sending = asyncio.create_task(self._send_all())

    async def until_sent(self) -> None:
        """Wait until teams have every report, whatever happens meanwhile."""
        while not self.all_sent:
            with contextlib.suppress(asyncio.CancelledError):
                await workflow.wait_condition(lambda: self.all_sent)

    async def _send_all(self) -> None:
        while self._waiting:
            report = self._waiting.pop(0)
            for _ in range(_TRIES):
                if await _signalled(report) or await _started_with(report):
                    break


def _id_of(team: str) -> str:
    """Return the id of the team's workflow: the tenant is in the priority, which all inherit."""
    return names.team_id(team, workflow.info().priority.fairness_key or "")


async def _signalled(report: ReportToTeam) -> bool:
    team = workflow.get_external_workflow_handle(_id_of(report.team))
    try:
        await team.signal(names.SIGNAL_REPORT, records.write(report.record))
    except FailureError:
        return False
    return True


async def _started_with(report: ReportToTeam) -> bool:
    """Start the team with a report; False if it has begun meanwhile, and has not heard of it."""
    if report.record.gone:
        return True  # a team that does not exist has nothing to give up
    try:
        started = await workflow.start_child_workflow(
            names.WORKFLOW_TEAM,
            records.write(TeamInput(team=report.team, report=report.record)),
            id=_id_of(report.team),
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            static_summary=team_summary(report.team),
        )
    except (FailureError, WorkflowAlreadyStartedError):
        return False
    started.add_done_callback(lambda team: team.cancelled() or team.exception())  # of no interest
    return True
