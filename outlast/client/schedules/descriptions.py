"""Schedules as the server describes them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias, cast

from temporalio.client import (
    Client,
    ScheduleActionExecutionStartWorkflow,
    ScheduleActionResult,
    ScheduleActionStartWorkflow,
    ScheduleDescription,
    ScheduleListActionStartWorkflow,
    ScheduleListDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
)
from temporalio.exceptions import FailureError
from temporalio.service import RPCError

from outlast.client.read.in_turn import read_each
from outlast.contract import names
from outlast.edges.clock import now_ms
from outlast.loop.values import JsonObject

OURS: Final = frozenset({names.WORKFLOW, names.WORKFLOW_SCHEDULED, names.WORKFLOW_QUALITY})
"""The types of workflows that schedules of outlast start."""

ScheduleStatus: TypeAlias = Literal["active", "paused", "done"]

FiringStatus: TypeAlias = Literal[
    "open", "completed", "failed", "cancelled", "terminated", "timed_out", "unknown"
]

_STATUS_OF: Final[Mapping[WorkflowExecutionStatus | None, FiringStatus]] = {
    WorkflowExecutionStatus.RUNNING: "open",
    WorkflowExecutionStatus.CONTINUED_AS_NEW: "open",
    WorkflowExecutionStatus.COMPLETED: "completed",
    WorkflowExecutionStatus.FAILED: "failed",
    WorkflowExecutionStatus.CANCELED: "cancelled",
    WorkflowExecutionStatus.TERMINATED: "terminated",
    WorkflowExecutionStatus.TIMED_OUT: "timed_out",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """One time at which a schedule has fired.

    Attributes:
        at: the scheduled time.
        run_id: the run that it started. For a message, the workflow that sends it, whose id is the
            id of the message.
        status: what has become of that workflow; `unknown` in lists, and if it is gone.
        problem: why it failed; empty if it has not.
    """

    at: datetime
    run_id: str
    status: FiringStatus = "unknown"
    problem: str = ""

    def record(self) -> JsonObject:
        """Return the firing for programs."""
        return {
            "at": self.at.isoformat(),
            "run_id": self.run_id,
            "status": self.status,
            "problem": self.problem or None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule, as the server describes it.

    Attributes:
        id: its id.
        agent: the agent whose runs it starts; empty if it only sends messages.
        to: the conversation that it messages; empty if each firing starts a run of its own.
        text: the beginning of the message.
        when: the times, in words.
        status: `done` if no time is to come.
        note: the note of whoever created, paused or resumed it last.
        next: the next times, up to ten, or five in lists; also of a paused schedule, whose times
            pass.
        recent: the newest firings, oldest first.
        fired: how many times it has fired; None in lists.
        skipped: how many times it has not, because of the overlap policy; None in lists.
        missed: how many times came while the server was down, longer ago than the catch-up window;
            None in lists.
        task_queue: the queue of the workers; empty in lists.
        created: when it was created; None in lists.
    """

    id: str
    agent: str
    to: str
    text: str
    when: str
    status: ScheduleStatus
    note: str
    next: tuple[datetime, ...]
    recent: tuple[Firing, ...]
    fired: int | None = None
    skipped: int | None = None
    missed: int | None = None
    task_queue: str = ""
    created: datetime | None = None

    def record(self) -> JsonObject:
        """Return the schedule for programs."""
        return {
            "id": self.id,
            "agent": self.agent or None,
            "to": self.to or None,
            "text": self.text,
            "when": self.when,
            "status": self.status,
            "note": self.note or None,
            "next": [one.isoformat() for one in self.next],
            "recent": [one.record() for one in self.recent],
            "fired": self.fired,
            "skipped": self.skipped,
            "missed": self.missed,
            "task_queue": self.task_queue or None,
            "created": self.created and self.created.isoformat(),
        }


def workflow_type(found: ScheduleDescription | ScheduleListDescription) -> str:
    """Return the type of the workflows that a schedule starts; empty if it does something else."""
    action = found.schedule and found.schedule.action
    if isinstance(action, ScheduleActionStartWorkflow | ScheduleListActionStartWorkflow):
        return action.workflow
    return ""


async def listed(found: ScheduleListDescription) -> Schedule:
    """Return a schedule of a list."""
    schedule, info = found.schedule, found.info
    return await _described(
        found,
        paused=schedule is not None and schedule.state.paused,
        note=(schedule and schedule.state.note) or "",
        next=() if info is None else tuple(info.next_action_times),
        recent=() if info is None else tuple(map(_firing, info.recent_actions)),
    )


async def described(client: Client, found: ScheduleDescription) -> Schedule:
    """Return a schedule with what has become of its newest firings."""
    info, state = found.info, found.schedule.state
    is_over = state.limited_actions and state.remaining_actions == 0
    schedule = await _described(
        found,
        paused=state.paused,
        note=state.note or "",
        next=() if is_over else tuple(info.next_action_times),
        recent=tuple(map(_firing, info.recent_actions)),
    )
    action = cast("ScheduleActionStartWorkflow", found.schedule.action)
    return replace(
        schedule,
        recent=tuple(await read_each(schedule.recent, lambda one: _followed(client, one))),
        fired=info.num_actions,
        skipped=info.num_actions_skipped_overlap,
        missed=info.num_actions_missed_catchup_window,
        task_queue=action.task_queue,
        created=info.created_at,
    )


async def _described(
    found: ScheduleDescription | ScheduleListDescription,
    *,
    paused: bool,
    note: str,
    next: tuple[datetime, ...],
    recent: tuple[Firing, ...],
) -> Schedule:
    memo = await memo_of(found)
    if paused:  # the server keeps the times that have passed meanwhile
        next = tuple(one for one in next if one.timestamp() * 1000 > now_ms())  # noqa: A001
    return Schedule(
        id=found.id,
        agent=str(memo.get("agent") or ""),
        to=str(memo.get("to") or ""),
        text=str(memo.get("text") or ""),
        when=str(memo.get("when") or ""),
        status="paused" if paused else "active" if next else "done",
        note=note,
        next=next,
        recent=recent,
    )


async def memo_of(found: ScheduleDescription | ScheduleListDescription) -> JsonObject:
    """Return what outlast has noted about a schedule; nothing if it is encrypted for others."""
    try:
        memo: Any = await found.memo_value(names.MEMO_SCHEDULE, {})
    except Exception:  # noqa: BLE001  a codec is users' code
        return {}
    return cast("JsonObject", memo) if isinstance(memo, dict) else {}


def _firing(result: ScheduleActionResult) -> Firing:
    action = result.action
    is_start = isinstance(action, ScheduleActionExecutionStartWorkflow)
    return Firing(at=result.scheduled_at, run_id=action.workflow_id if is_start else "")


async def _followed(client: Client, firing: Firing) -> Firing:
    """Return a firing with what has become of it."""
    handle = client.get_workflow_handle(firing.run_id)
    try:
        status = _STATUS_OF.get((await handle.describe()).status, "unknown")
        problem = await _problem(client, firing.run_id) if status == "failed" else ""
    except RPCError:  # its history is no longer retained
        return firing
    return replace(firing, status=status, problem=problem)


async def _problem(client: Client, run_id: str) -> str:
    try:
        await client.get_workflow_handle(run_id).result()
    except WorkflowFailureError as error:
        cause: BaseException = error.cause
        while isinstance(cause, FailureError) and cause.cause is not None:
            cause = cause.cause
        return cause.message if isinstance(cause, FailureError) else str(cause)
    return ""
