"""The workflow that a schedule starts to send a message to a conversation.

A schedule can only start workflows. This one has a single activity, so that the Temporal UI shows
what became of the message, and why it waits.
"""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RawValue

from outlast.contract import names, policies, records
from outlast.edges.rendering import engine_summary
from outlast.loop.values import JsonObject
from outlast.workflows.translation import read_input, retry_policy


@workflow.defn(name=names.WORKFLOW_SCHEDULED, sandboxed=False)
class ScheduledMessage:
    """Sends one message, and returns which conversation has it."""

    @workflow.run
    async def run(self, payload: RawValue) -> JsonObject:
        """Send the message, and start the conversation with it where it is not open.

        Raises:
            ApplicationError: the input is unreadable.
        """
        record = read_input(records.ScheduledRecord, payload, "The scheduled message is")
        sent: JsonObject = await workflow.execute_activity(
            names.ACTIVITY_SCHEDULED,
            records.write(record),
            activity_id="1",
            result_type=dict,
            start_to_close_timeout=timedelta(milliseconds=policies.SCHEDULED.timeout_ms),
            retry_policy=retry_policy(policies.SCHEDULED),
            priority=workflow.info().priority,  # a conversation that it starts is the same tenant's
            summary=engine_summary("Send to ", record.run_id),
        )
        return sent
