"""A tool with which an agent lets time pass: its run sleeps without a worker."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, cast

from outlast.agents.checks import InvalidType
from outlast.agents.context.waits import Wait
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import UserError
from outlast.agents.tools.asked_time import asked_length, shown
from outlast.agents.tools.definition import FunctionTool
from outlast.agents.tools.function_tool import function_tool
from outlast.edges.clock import now_ms

LONGEST: Final = timedelta(days=7)
"""How long an agent may sleep at a time, unless the program says otherwise."""


def sleep_tool(*, longest: timedelta = LONGEST, name: str = "sleep") -> FunctionTool:
    """Make a tool with which an agent waits for a time, such as until the shop opens.

    The run sleeps in its state: no worker is needed, and workers may be replaced. A message of the
    user wakes it, and so does `outlast.client.finish` with the token of its wait. A model that asks
    for more than `longest` is told so, and does not sleep.

    Args:
        longest: how long the agent may sleep at a time.
        name: the name of the tool.

    Raises:
        UserError: `longest` is not longer than zero, or the name is no name of a tool.
    """
    if not isinstance(cast("object", longest), timedelta):
        raise InvalidType(f"sleep_tool(longest=...) must be a timedelta, not {longest!r:.80}.")
    if longest <= timedelta():
        raise UserError("sleep_tool(longest=...) must be longer than zero.")

    @function_tool(name_override=name)
    def sleep(
        ctx: ToolContext[Any],
        minutes: Annotated[float | None, "For how many minutes; or give `until`."] = None,
        until: Annotated[
            str | None, "Until when, in ISO 8601 with its offset: 2026-11-30T09:00:00+01:00."
        ] = None,
    ) -> str | Wait[str]:
        """Wait until a time has come, and go on then. A message of the user ends it earlier."""
        now = datetime.fromtimestamp(now_ms() / 1000, UTC)
        lasts = asked_length(minutes, until, now, name="until")
        if isinstance(lasts, str):
            return f"Not slept: {lasts}"
        if lasts > longest:
            return f"Not slept: {shown(lasts)} is longer than you may sleep, which is {shown(longest)}."
        if lasts <= timedelta():
            return "Not slept: that time has come already."
        due = (now + lasts).isoformat(timespec="seconds")
        woke = f"You slept until {due}, or until the user wrote."
        return ctx.wait_for("time", timeout=lasts, schema=str, default=woke, until_message=True)

    return sleep
