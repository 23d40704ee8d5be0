"""The workflow that a schedule starts to score a sample of yesterday's runs.

Each day has a workflow of its own, which starts once, so that a schedule that is fired by hand scores
no run again. Scores are results of activities: a worker that is killed repeats one model call.
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

AT_ONCE = 4
"""How many runs are scored at the same time."""


@workflow.defn(name=names.WORKFLOW_QUALITY, sandboxed=False)
class QualityCheck:
    """Scores a sample of the runs of a day, and tells people if too few pass."""

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
