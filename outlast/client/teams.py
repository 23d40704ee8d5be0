"""A team that shares conversations: who is on duty, how it assigns, and whose each conversation is."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import Priority, WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.calendars import Calendar, check_calendar_name
from outlast.agents.checks import check_printable
from outlast.agents.errors import AgentsException, ServerUnavailable, UserError, no_namespace
from outlast.client.people.actions import By, person_of
from outlast.client.people.cases import end_ms
from outlast.client.runs import first_executions
from outlast.client.start.options import check_place
from outlast.client.transport.outages import (
    is_transient,
    patience_of,
    retry_during_outage,
    unavailable,
)
from outlast.contract import names, records
from outlast.contract.team_records import TeamInput, team_summary
from outlast.edges.clock import time_if_any, time_of
from outlast.edges.rendering import json_fields
from outlast.loop.canonical import same_person
from outlast.loop.team.events import DutyRecord, TermsRecord
from outlast.loop.team.state import Rule, TeamState, TeamTerms
from outlast.loop.values import JsonObject

T = TypeVar("T")

LONGEST_UPDATE: Final = timedelta(seconds=10)
"""How long an act waits for a worker."""

MOST_TEAMS: Final = 200
"""How many teams are listed at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamMember:
    """A person of a team.

    Attributes:
        subject: who it is.
        on_duty: whether conversations are assigned to them.
        conversations: how many they have.
        capacity: how many they have at most.
        until: when they leave duty by themselves; None if they say so.
    """

    subject: str
    on_duty: bool
    conversations: int
    capacity: int
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamConversation:
    """A conversation that a team has to act on.

    Attributes:
        run_id: the run.
        to: whose it is; empty while nobody has room for it.
        taken: whether they have answered.
        since: since when it is the team's.
        due: when it goes on to the next person; None if it does not.
    """

    run_id: str
    to: str
    taken: bool
    since: datetime
    due: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamView:
    """A team at one moment.

    Attributes:
        name: the name of the team.
        rule: who gets the next conversation.
        capacity: how many a person has at most, where nothing else is said.
        return_after: after which time a conversation goes on that its person has not taken, or not
            answered once they had it; None if it stays with them.
        within: the calendar whose hours that time counts; empty for all hours.
        tenant: the tenant whose team it is; empty for none.
        members: everybody who was ever on duty.
        conversations: what the team has to act on, the oldest first.
    """

    name: str
    rule: Rule
    capacity: int
    return_after: timedelta | None
    members: tuple[TeamMember, ...] = ()
    conversations: tuple[TeamConversation, ...] = ()
    within: str = ""
    tenant: str = ""

    @property
    def return_after_seconds(self) -> float | None:
        """`return_after` in seconds."""
        return None if self.return_after is None else self.return_after.total_seconds()

    def member(self, person: str) -> TeamMember | None:
        """Return a person of the team, however their name is written; None if there is none."""
        return next((one for one in self.members if same_person(one.subject, person)), None)

    def record(self) -> JsonObject:
        """Return it as JSON; times are in ISO 8601, durations in seconds."""
        return {
            "name": self.name,
            "tenant": self.tenant or None,
            "rule": self.rule,
            "capacity": self.capacity,
            "return_after_seconds": self.return_after_seconds,
            "within": self.within or None,
            "members": list(map(json_fields, self.members)),
            "conversations": list(map(json_fields, self.conversations)),
        }


class Team:
    """A team of people, by its name. Provisional: names may change before 1.0.

    A team begins with the first conversation that is assigned to it, or with the first person who goes
    on duty. Each tenant has teams of its own.

    Args:
        client: connected to the server.
        name: the name of the team, as in `RunHandle.assign(team=)`.
        tenant: the tenant whose team it is; empty for runs without a tenant.
        task_queue: the task queue of the workers that host the team, if it does not exist yet.
        patience: how long to wait for a server that does not answer.

    Raises:
        UserError: an argument does not fit.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        tenant: str = "",
        task_queue: str = names.TASK_QUEUE,
        patience: timedelta | None = None,
    ) -> None:
        check_place(client=client, task_queue=task_queue)
        check_printable("Team(name=...)", name)
        if not name.strip():
            raise UserError("Team(name=...) must be the name of a team.")
        self.name: str = name
        self._client = client
        self._tenant, self._queue = tenant, task_queue
        self._id = names.team_id(name, tenant)
        self._patience = patience_of(patience)

    async def on_duty(
        self,
        person: By,
        *,
        by: By = None,
        capacity: int | None = None,
        until: datetime | timedelta | None = None,
        within: Calendar | str | None = None,
    ) -> TeamView:
        """Let conversations be assigned to a person, from now on.

        A repeated call changes nothing. One with another `capacity` or `until` replaces them.

        Args:
            person: who.
            by: who says it; None for the person.
            capacity: how many conversations they have at most; None for the team's number.
            until: when they leave duty by themselves, as a time with a zone or as a duration from now;
                None if they say so.
            within: the calendar whose hours count for a duration, or its name in the operators' file
                that `OUTLAST_APPROVALS` names; None: all hours count.

        Raises:
            UserError: an argument does not fit.
            ServerUnavailable: the server does not answer, or no worker hosts the team.
        """
        until_ms = None if until is None else end_ms("on_duty", until, within)
        return await self._change_duty(
            person, by, on_duty=True, capacity=capacity, until_ms=until_ms
        )

    async def off_duty(self, person: By, *, by: By = None) -> TeamView:
        """Assign nothing more to a person; what they have not taken goes on to others.

        Raises:
            UserError: an argument does not fit.
            ServerUnavailable: the server does not answer, or no worker hosts the team.
        """
        return await self._change_duty(person, by, on_duty=False)

    async def assign_by(
        self,
        *,
        by: By,
        rule: Rule = "round_robin",
        capacity: int = 5,
        return_after: timedelta | None = None,
        within: Calendar | str | None = None,
    ) -> TeamView:
        """Change how the team assigns conversations; who has one keeps it.

        Args:
            by: who changes it.
            rule: `round_robin` gives the next one to whoever has waited longest for one,
                `least_busy` to whoever has the fewest.
            capacity: how many a person has at most, where nothing else is said.
            return_after: after which time a conversation goes on that its person has not taken, or
                not answered once they had it. It passes while no worker runs. None: it stays.
            within: the calendar whose hours that time counts, or its name, as a worker knows it; None:
                all hours count.

        Raises:
            UserError: an argument does not fit.
            ServerUnavailable: the server does not answer, or no worker hosts the team.
        """
        if rule not in {"round_robin", "least_busy"}:
            raise UserError(f"rule= must be round_robin or least_busy, not {rule!r:.80}.")
        try:
            return_ms = None if return_after is None else _ms(return_after)
            named = _calendar_name(within, return_after)
            terms = TeamTerms(rule=rule, capacity=capacity, return_ms=return_ms, within=named)
        except ValueError as error:
            raise UserError(f"assign_by(): {error}.") from None
        return await self._act(names.UPDATE_TERMS, TermsRecord(terms=terms, by=_name(by)))

    async def view(self) -> TeamView:
        """Return who is on duty, and whose each conversation is.

        Raises:
            ServerUnavailable: the server does not answer, or no worker hosts the team.
        """
        return await self.find() or self._view_of(TeamState())

    async def find(self) -> TeamView | None:
        """Return the same; None if the team does not exist.

        Raises:
            ServerUnavailable: the server does not answer, or no worker hosts the team.
        """
        handle = self._client.get_workflow_handle(self._id)
        try:
            found: JsonObject = await self._ask(
                lambda: handle.query(names.QUERY_TEAM, rpc_timeout=LONGEST_UPDATE)
            )
        except WorkflowQueryFailedError as error:
            raise AgentsException(f"The team {self.name!r} cannot be read: {error}") from error
        except _NoTeam:
            return None
        return self._view_of(records.read(TeamState, found))

    async def _change_duty(
        self,
        person: By,
        by: By,
        *,
        on_duty: bool,
        capacity: int | None = None,
        until_ms: int | None = None,
    ) -> TeamView:
        try:
            record = DutyRecord(
                subject=_name(person),
                on_duty=on_duty,
                capacity=capacity,
                until_ms=until_ms,
                by=_name(by) or _name(person),
            )
        except ValueError as error:
            raise UserError(f"The duty of {_name(person)!r:.80}: {error}.") from None
        return await self._act(names.UPDATE_DUTY, record)

    async def _act(self, name: str, record: object) -> TeamView:
        """Send an update, and start the team with it if there is none."""
        payload = records.write(record)
        try:
            written: JsonObject = await self._ask(
                lambda: self._client.execute_update_with_start_workflow(  # pyright: ignore[reportUnknownMemberType]  the SDK's own annotation
                    name,
                    payload,
                    start_workflow_operation=self._start(),
                    rpc_timeout=LONGEST_UPDATE,
                )
            )
        except WorkflowUpdateFailedError as error:
            cause = error.cause
            words = cause.message if isinstance(cause, ApplicationError) else str(error)
            raise UserError(words) from None
        except _NoTeam:
            raise no_namespace(self._client.namespace) from None
        return self._view_of(records.read(TeamState, written))

    def _start(self) -> WithStartWorkflowOperation[Any, Any]:
        return WithStartWorkflowOperation(
            names.WORKFLOW_TEAM,
            records.write(TeamInput(team=self.name)),
            id=self._id,
            task_queue=self._queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            static_summary=team_summary(self.name),
            priority=Priority(fairness_key=self._tenant) if self._tenant else Priority.default,
        )

    async def _ask(self, call: Callable[[], Awaitable[T]]) -> T:
        try:
            return await retry_during_outage(self._client, call, self._patience)
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            raise self._unserved() from None
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise _NoTeam from None
            if error.status in {RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED}:
                raise self._unserved() from error
            if is_transient(error):
                raise unavailable(error) from error
            raise AgentsException(f"The Temporal server refused: {error.message}") from error

    def _unserved(self) -> ServerUnavailable:
        return ServerUnavailable(
            f"The team {self.name!r} did not answer within {LONGEST_UPDATE.total_seconds():g} s. Is a "
            f"worker of the task queue {self._queue!r} running?"
        )

    def _view_of(self, state: TeamState) -> TeamView:
        terms = state.terms
        return TeamView(
            name=self.name,
            rule=terms.rule,
            capacity=terms.capacity,
            return_after=None
            if terms.return_ms is None
            else timedelta(milliseconds=terms.return_ms),
            within=terms.within,
            tenant=self._tenant,
            members=tuple(
                TeamMember(
                    subject=one.subject,
                    on_duty=one.on_duty,
                    conversations=state.load_of(one.subject),
                    capacity=state.capacity_of(one),
                    until=time_if_any(one.until_ms),
                )
                for one in state.members
            ),
            conversations=tuple(
                TeamConversation(
                    run_id=one.run_id,
                    to=one.to,
                    taken=one.taken,
                    since=time_of(one.since_ms),
                    due=time_if_any(one.due_ms),
                )
                for one in state.cases
            ),
        )


async def find_teams(client: Client, limit: int = MOST_TEAMS) -> list[tuple[str, str]]:
    """Return the names and tenants of the teams of a namespace, in their order.

    Raises:
        AgentsException: the server does not answer.
    """
    query = f"WorkflowType = '{names.WORKFLOW_TEAM}' AND ExecutionStatus = 'Running'"
    found = await first_executions(client, query, limit)
    return sorted(names.team_of(one.execution.workflow_id) for one in found)


def _calendar_name(within: Calendar | str | None, return_after: timedelta | None) -> str:
    if within is None:
        return ""
    if return_after is None:
        raise UserError(
            "assign_by(within=...) counts the hours of return_after=, which is not there."
        )
    name = within.name if isinstance(within, Calendar) else within
    check_calendar_name("assign_by(within)", name)
    return name


class _NoTeam(Exception):
    """There is no workflow of the team."""


def _name(person: By) -> str:
    return person_of(person).subject


def _ms(duration: timedelta) -> int:
    return round(duration.total_seconds() * 1000)
