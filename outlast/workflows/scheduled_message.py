"""The workflow that a schedule starts to send a message to a conversation.

A schedule can only start workflows. This one has a single activity, so that the Temporal UI shows
what became of the message, and why it waits.
"""

from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

from outlast.contract import failures, names, policies, records
from outlast.loop.values import JsonObject
from outlast.payloads.readable import json_of
from outlast.rendering import inline_within, joined
from outlast.workflows.translation import retry_policy, typed_error

LONGEST_SUMMARY: int = 200


@workflow.defn(name=names.WORKFLOW_SCHEDULED, sandboxed=False)
class ScheduledMessage:
    """Sends one message, and returns which conversation has it."""

    @workflow.run
    async def run(self, payload: RawValue) -> JsonObject:
        """Send the message, and start the conversation with it where it is not open.

        Raises:
            ApplicationError: the input is unreadable.
        """
        try:
            record = records.read(records.ScheduledRecord, _json(payload))
        except records.UnreadableRecordError as error:
            message = f"The scheduled message is unreadable: {error}"
            raise typed_error(failures.USER_ERROR, message) from None
        sent: JsonObject = await workflow.execute_activity(
            names.ACTIVITY_SCHEDULED,
            records.write(record),
            activity_id="1",
            result_type=dict,
            start_to_close_timeout=timedelta(milliseconds=policies.SCHEDULED.timeout_ms),
            retry_policy=retry_policy(policies.SCHEDULED),
            priority=workflow.info().priority,  # a conversation that it starts is the same tenant's
            summary=inline_within(joined("Send to ", record.run_id), LONGEST_SUMMARY),
        )
        return sent


def _json(value: Any) -> Any:
    return json_of(workflow.payload_converter(), value)
