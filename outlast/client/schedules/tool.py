"""A tool with which an agent sends itself a message later: "ask again on Monday"."""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, cast

from temporalio import activity

from outlast.agents.checks import InvalidType
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import ScheduleAlreadyExists, UserError
from outlast.agents.tools.asked_time import asked_length, shown
from outlast.agents.tools.definition import FunctionTool
from outlast.agents.tools.function_tool import NeedsApproval, function_tool
from outlast.client.runs import is_nested
from outlast.client.schedules.schedules import Schedules
from outlast.client.schedules.times import Times

LONGEST: Final = timedelta(days=31)
MOST: Final = 20
LONGEST_TEXT: Final = 2_000


def schedule_tool(
    *,
    longest: timedelta = LONGEST,
    most: int = MOST,
    name: str = "remind_me_later",
    needs_approval: NeedsApproval = False,
) -> FunctionTool:
    """Make a tool with which an agent sends itself a message at a later time.

    The call returns at once, and the conversation goes on. The message arrives once, at its time, in
    the same conversation, and says that the agent itself has written it. It does not start a
    conversation that has ended meanwhile. Each is a schedule: `outlast schedule list` has it.

    Args:
        longest: how far ahead the agent may plan.
        most: how many such messages of a conversation may be to come, or have come within the last
            week, after which the server forgets them.
        name: the name of the tool.
        needs_approval: whether people decide first, as for any tool.

    Raises:
        UserError: an argument does not fit.
    """
    if not isinstance(cast("object", longest), timedelta):
        raise InvalidType(f"schedule_tool(longest=...) must be a timedelta, not {longest!r:.80}.")
    if longest <= timedelta() or most < 1:
        raise UserError("schedule_tool(longest=..., most=...) must be longer than zero.")

    @function_tool(name_override=name, needs_approval=needs_approval)
    async def remind(
        ctx: ToolContext[Any],
        text: Annotated[str, "What to do or ask then, with all that you will need to know."],
        minutes: Annotated[float | None, "In how many minutes; or give `at`."] = None,
        at: Annotated[
            str | None, "When, in ISO 8601 with its offset: 2026-11-30T09:00:00+01:00."
        ] = None,
    ) -> str:
        """Send yourself a message later, in this conversation, which goes on meanwhile."""
        if not activity.in_activity():
            return "Not scheduled: this run has no server that could keep the time."
        now = activity.info().scheduled_time.astimezone(UTC)  # the same for each attempt
        length = asked_length(minutes, at, now, name="at")
        if isinstance(length, str):
            return f"Not scheduled: {length}"
        if length > longest:
            return f"Not scheduled: {shown(length)} is further ahead than {shown(longest)}."
        if length <= timedelta():
            return "Not scheduled: that time has come already."
        if not text.strip() or len(text) > LONGEST_TEXT:
            return f"Not scheduled: text must have 1 to {LONGEST_TEXT:,} characters."
        return await _scheduled(ctx, text, now + length, most)

    return remind


async def _scheduled(ctx: ToolContext[Any], text: str, at: datetime, most: int) -> str:
    """Create the schedule of a call in the first free place; a repeated attempt finds its own.

    The places bound the schedules of a conversation exactly, also for calls that run side by side.
    """
    info, client = activity.info(), activity.client()
    run = await client.get_workflow_handle(ctx.run_id).describe()
    if is_nested(run.raw_info):
        return "Not scheduled: only the agent that speaks with the user can do this."
    schedules = Schedules(client, task_queue=run.task_queue)
    written = info.scheduled_time.astimezone(UTC).isoformat(timespec="minutes")
    message = f"[You wrote this to yourself on {written}; the user did not.]\n{text}"
    conversation = hashlib.sha256(ctx.run_id.encode(errors="replace")).hexdigest()[:16]
    times = Times(at=at)
    for place in range(most):
        try:
            await schedules.create(
                f"reminder-{conversation}-{place}",
                message,
                times,
                to=ctx.run_id,
                mode="queue",
                note=f"set by {ctx.run_id:.200}",
            )
        except ScheduleAlreadyExists:
            continue
        return f"Scheduled: the message comes {times.words().removeprefix('once, ')}."
    return (
        f"Not scheduled: {most} messages are to come already, or have come within the last week. "
        "That is the most."
    )
