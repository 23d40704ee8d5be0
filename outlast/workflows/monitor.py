"""The workflow that lets one process of a namespace count its runs.

Its only activity is the lease: the server gives it to one process at a time, and to another one when
the heartbeats stop. Processes that count host the workflow themselves, so it needs no agents' worker.
"""

from datetime import timedelta
from typing import Final

from temporalio import workflow
from temporalio.common import RetryPolicy

from outlast.contract import names
from outlast.edges.rendering import engine_summary

LEASE: Final = timedelta(seconds=30)
"""How long a process that counts may be silent before another one counts."""

_RETRIES: Final = RetryPolicy(
    initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=5)
)


@workflow.defn(name=names.WORKFLOW_MONITOR, sandboxed=False)
class Monitor:
    """Has one process count, and another one when that process is gone."""

    @workflow.run
    async def run(self) -> None:
        """Wait for the activity, which never ends; its attempts add nothing to the history."""
        await workflow.execute_activity(
            names.ACTIVITY_MONITOR,
            activity_id="1",
            start_to_close_timeout=timedelta(days=1),
            heartbeat_timeout=LEASE,
            retry_policy=_RETRIES,
            summary=engine_summary("Count the runs of this namespace"),
        )
