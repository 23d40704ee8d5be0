"""The workflow of a team: an interpreter of the team machine's commands.

Runs report to it by signal, and it tells them by signal whose they are. People change who is on duty
and how it assigns by update. One team has one workflow, so two runs never get one person's last
place, and the time at which a conversation goes on to the next person comes while no worker runs.

Every worker hosts this workflow, and few have teams: the machine is imported when a team begins.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import FailureError, is_cancelled_exception

from outlast.contract import names, policies, records
from outlast.contract.failures import USER_ERROR
from outlast.loop.values import JsonObject
from outlast.temporal.payloads.failures import engine_failure
from outlast.workflows.agent_run import described_update
from outlast.workflows.translation import check_size, received_json, retry_policy, typed_error

_AGAIN: Final = timedelta(minutes=1)

if TYPE_CHECKING:
    from outlast.loop.effects import CountHours
    from outlast.loop.team.events import TellRun


@workflow.defn(name=names.WORKFLOW_TEAM, sandboxed=False)
class Team:
    """Says whose the conversations of a team are."""

    @workflow.init
    def __init__(self, payload: RawValue) -> None:
        """Read the input here, so that early signals find a team."""
        from outlast.contract.team_records import TeamHistory

        self._events = TeamHistory(received_json(payload), self._now_ms())
        self._news = True
        self._counting: asyncio.Task[None] | None = None
        self._asked: CountHours | None = None

    @workflow.run
    async def run(self, payload: RawValue) -> None:
        """Tell runs whose they are, until somebody ends the workflow.

        Raises:
            ApplicationError: the input is unreadable.
        """
        del payload
        if self._events.problem:
            raise typed_error(USER_ERROR, self._events.problem)
        while True:
            while self._events.commands:
                await self._tell(self._events.commands.pop(0))
            self._count_hours()
            if workflow.info().is_continue_as_new_suggested() and workflow.all_handlers_finished():
                workflow.continue_as_new(self._events.carried())
            await self._until_there_is_news()

    async def _until_there_is_news(self) -> None:
        due_ms = self._events.state.next_due_ms
        left = None if due_ms is None else max(due_ms - self._now_ms(), 1) / 1000
        try:
            await workflow.wait_condition(
                lambda: self._news, timeout=left, timeout_summary="Something is due"
            )
        except TimeoutError:
            self._events.time_came(self._now_ms())
        self._news = False

    def _count_hours(self) -> None:
        """Let a worker count the hours of a calendar; those of another one are counted no more."""
        asked = self._events.hours()
        if asked is None:
            return
        if self._counting is not None and not self._counting.done():
            if self._asked is not None and _counts_same(self._asked, asked):
                return
            self._counting.cancel()
        self._asked, self._counting = asked, asyncio.create_task(self._counted(asked))

    async def _counted(self, asked: "CountHours | None") -> None:
        """Count hours, however long it takes until a worker has the calendar."""
        from outlast.loop.open_hours import HoursCounted

        found = HoursCounted()
        try:
            result = await workflow.execute_activity(
                names.ACTIVITY_HOURS,
                {"effect": records.write(asked), "patient": True},
                result_type=RawValue,
                start_to_close_timeout=timedelta(milliseconds=policies.HOURS.timeout_ms),
                retry_policy=retry_policy(policies.UNTIL_A_WORKER_HAS_IT),
                summary="Count the hours of a calendar",
            )
            found = records.read(HoursCounted, received_json(result))
        except (FailureError, records.UnreadableRecordError) as error:
            if is_cancelled_exception(error):
                return
            is_final = isinstance(error, FailureError) and engine_failure(error).code == USER_ERROR
            if not is_final:  # such as a codec that failed
                await workflow.sleep(_AGAIN)
                asked = None
        if asked is not None:
            self._events.counted(asked, found, self._now_ms())
        self._news = True

    async def _tell(self, command: "TellRun") -> None:
        """Tell a run whose it is; a run that has ended is the team's no more."""
        run = workflow.get_external_workflow_handle(command.run_id)
        try:
            await run.signal(names.SIGNAL_ASSIGNED, self._events.answer(command))
        except FailureError:
            self._events.gone(command.chain_id, self._now_ms())

    @workflow.signal(dynamic=True)
    def signal_any(self, name: str, arguments: Sequence[RawValue]) -> None:
        """Take a report, or what a person sends from the Temporal UI."""
        payload = received_json(arguments[0]) if arguments else None
        self._events.take(name, payload, self._now_ms())
        self._news = True

    update_duty = described_update(
        names.UPDATE_DUTY, 'Go on duty, or leave it: {"subject": "...", "on_duty": true}'
    )
    update_terms = described_update(
        names.UPDATE_TERMS,
        'Assign otherwise: {"terms": {"rule": "round_robin" or "least_busy", "capacity": 5}}',
    )

    def take_update(self, name: str, arguments: Sequence[RawValue]) -> JsonObject:
        """Take an accepted update, and return the state after it."""
        self.signal_any(name, arguments)
        return self.query_team()

    def validate_update(self, name: str, arguments: Sequence[RawValue]) -> None:
        """Refuse an update that is unreadable, before it is written into history.

        Raises:
            ApplicationError: it is refused; the message says why.
        """
        for argument in arguments:
            check_size(argument)
        refused = self._events.refusal(name, received_json(arguments[0]), self._now_ms())
        if refused is not None:
            raise typed_error(USER_ERROR, refused)

    @workflow.query(
        name=names.QUERY_TEAM, description="Who is on duty, and whose each conversation is"
    )
    def query_team(self) -> JsonObject:
        """Return the state."""
        return records.write(self._events.state)

    def current_details(self) -> str:
        """Return who is on duty, and whose each conversation is, in Markdown."""
        return self._events.details()

    def _now_ms(self) -> int:
        return workflow.time_ns() // 1_000_000


def _counts_same(one: "CountHours", other: "CountHours") -> bool:
    """Whether two counts are of as many hours of one calendar."""
    (first, *_), (second, *_) = one.requests, other.requests
    return (first.within, first.open) == (second.within, second.open)
