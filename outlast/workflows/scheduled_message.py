"""The workflows that schedules start, besides runs: a message to a conversation, a quality check.

A schedule can only start workflows. Of a message it has a single activity, so that the Temporal UI
shows what became of the message, and why it waits.
"""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue, WorkflowIDReusePolicy
from temporalio.exceptions import ActivityError, WorkflowAlreadyStartedError

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


# --- Quality checks ---------------------------------------------------------------------------------

AT_ONCE = 4
"""How many runs are scored at the same time."""


@workflow.defn(name=names.WORKFLOW_QUALITY, sandboxed=False)
class QualityCheck:
    """Scores a sample of the runs of a day, and tells people if too few pass.

    Each day has a workflow of its own, which starts once, so that a schedule that is fired by hand
    scores no run again. Scores are results of activities: a worker that is killed between the
    model's reply and the record repeats one model call.
    """

    @workflow.run
    async def run(self, payload: RawValue) -> JsonObject:
        """Score the runs of a day; without a day, start the workflow of yesterday's.

        Raises:
            ApplicationError: the input is unreadable.
        """
        record = read_input(records.QualityRecord, payload, "The quality check is")
        if record.day:
            return await self._score(record)
        day = str((workflow.info().start_time - timedelta(days=1)).date())
        child = f"quality-{record.check}-{day}"
        try:
            await workflow.start_child_workflow(
                names.WORKFLOW_QUALITY,
                records.write(replace(record, day=day)),
                id=child,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                priority=workflow.info().priority,
                static_summary=engine_summary("Runs that ended on ", day),
            )
        except WorkflowAlreadyStartedError:
            return {"started": "", "already": child}
        return {"started": child}

    async def _score(self, record: records.QualityRecord) -> JsonObject:
        slots = asyncio.Semaphore(AT_ONCE)

        async def scored(one: JsonObject) -> JsonObject:
            async with slots:
                try:
                    return await _step(record, "score", one)
                except ActivityError:
                    return {**one, "score": None}

        chosen = await _step(record, "choose", {})
        scores = await asyncio.gather(*map(scored, chosen["runs"]))
        known = [one["score"] for one in scores if one["score"] is not None]
        mean = sum(known) / len(known) if known else None
        is_low = mean is not None and mean < record.below
        if is_low:
            at_ms = round(workflow.time() * 1_000)
            told = {"passed": sum(known), "scored": len(known), "at_ms": at_ms}
            try:
                await _step(record, "tell", told)
            except ActivityError:
                is_low = False
        return {
            "check": record.check,
            "day": record.day,
            "scores": scores,
            "mean": mean,
            "told": is_low,
        }


async def _step(record: records.QualityRecord, step: str, about: JsonObject) -> Any:
    return await workflow.execute_activity(
        names.ACTIVITY_QUALITY,
        {"check": records.write(record), "step": step, "about": about},
        result_type=dict,
        start_to_close_timeout=timedelta(milliseconds=policies.QUALITY.timeout_ms),
        retry_policy=retry_policy(policies.QUALITY),
        summary=engine_summary(step, " ", str(about.get("run_id", ""))),
    )
