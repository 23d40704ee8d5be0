"""The workflow that delivers the notices which the end of a run leaves.

A run does not wait for those who hear of it, so its last notices are delivered by a workflow that
outlives it. Its result says what was not delivered.
"""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import FailureError

from outlast.contract import names, policies, records
from outlast.contract.effects import kind_of
from outlast.edges.rendering import engine_summary
from outlast.loop.effects import NotifyPeople
from outlast.loop.notices import NoticeReceipt, undelivered
from outlast.loop.values import JsonObject
from outlast.temporal.payloads.failures import engine_failure
from outlast.workflows.translation import read_input, received_json, retry_policy


@workflow.defn(name=names.WORKFLOW_NOTICES, sandboxed=False)
class PeopleNotices:
    """Delivers notices of one run, and returns a `NoticeReceipt`."""

    @workflow.run
    async def run(self, payload: RawValue) -> JsonObject:
        """Deliver the notices through the worker's notifiers, with retries.

        Raises:
            ApplicationError: the input is unreadable.
        """
        record = read_input(records.NoticesRecord, payload, "The notices are")
        effect = NotifyPeople(effect=1, run_id=record.run_id, notices=record.notices)
        kind = kind_of(effect)
        policy = kind.policy(effect)
        try:
            result = await workflow.execute_activity(
                names.ACTIVITY_NOTIFY,
                records.write(effect),
                activity_id="1",
                result_type=RawValue,
                start_to_close_timeout=timedelta(
                    milliseconds=policy.timeout_ms + policies.SLACK_MS
                ),
                schedule_to_close_timeout=timedelta(milliseconds=policies.LONGEST_MS),
                heartbeat_timeout=timedelta(
                    milliseconds=policies.heartbeat_ms(None, kind.heartbeat_ms)
                ),
                retry_policy=retry_policy(policy),
                summary=engine_summary("Notify people of the end of ", record.run_id),
            )
            receipt = records.read(NoticeReceipt, received_json(result))
        except (FailureError, records.UnreadableRecordError) as error:
            why = engine_failure(error).message if isinstance(error, FailureError) else str(error)
            why = why or "no worker delivered it in time"
            receipt = NoticeReceipt(
                undelivered=tuple(undelivered(one, why) for one in record.notices)
            )
        return records.write(receipt)
