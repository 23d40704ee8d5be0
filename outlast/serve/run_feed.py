"""The runs that people have to do with, live: one look at the server for all lists of a desk."""

from contextlib import aclosing
from datetime import datetime, timedelta
from typing import Final, Literal

from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import Client

from outlast.client.runs import attention_query, executions
from outlast.contract import names
from outlast.edges import clock
from outlast.serve.visibility_feed import PolledFeed

SEARCHED: Final[tuple[Literal["snoozed", "resolved"], ...]] = ("snoozed", "resolved")
"""The statuses whose lists are searched for: they may be long, and nobody has to act."""


class RunFeed(PolledFeed[WorkflowExecutionInfo]):
    """The runs that wait for people, that people share, or that somebody has to look at.

    Args:
        every: the time between two looks at visibility, at least.
    """

    def __init__(self, every: timedelta = timedelta(seconds=2)) -> None:
        super().__init__(every, grace=timedelta())  # the lists that read it have theirs

    async def look(self, client: Client) -> tuple[WorkflowExecutionInfo, ...]:
        """Return them all, in no order."""
        async with aclosing(executions(client, _query(clock.now()))) as listed:
            return tuple([one async for one in listed])


def _query(now: datetime) -> str:
    """Return a search for the runs that somebody may have to do something with."""
    status, waits = names.ATTRIBUTE_STATUS, "('waiting', 'held', 'parked', 'blocked')"
    shared = " OR ".join(
        f"{one} IS NOT NULL"
        for one in (names.ATTRIBUTE_ASSIGNEE, names.ATTRIBUTE_TEAM, names.ATTRIBUTE_TAGS)
    )
    is_away = " AND ".join(f"{status} != '{one}'" for one in SEARCHED)
    is_here = f"({status} IS NULL OR ({is_away})) AND ({status} IN {waits} OR {shared})"
    return (
        f"WorkflowType = '{names.WORKFLOW}' AND ((ExecutionStatus = 'Running' AND "
        f"({names.ATTRIBUTE_APPROVALS} > 0 OR ({is_here}))) OR {attention_query(now)})"
    )
