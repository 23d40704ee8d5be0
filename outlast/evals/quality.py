"""The steps of a quality check: choose runs of a day, score one by a judge, tell people.

No text of a run is kept: a score, the names of the run and its agent, and a digest.
"""

import asyncio
import hashlib
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Final

from temporalio import activity

from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.errors import UserError
from outlast.client.recordings import Recording, record_run
from outlast.client.runs import RunFilter, executions, listed_run
from outlast.contract import records
from outlast.contract.records import QualityRecord
from outlast.evals.datasets import case_of
from outlast.evals.judge import Judge, evidence_of, judging_with
from outlast.evals.trajectory import trajectory_of
from outlast.loop.values import JsonObject
from outlast.ports.notifier import Notification, NotifierRejected
from outlast.temporal.visibility.queries import time_text

NO_CASE: Final[JsonObject] = {"score": None}


async def carry_out(payload: JsonObject, worker: WorkerDeps) -> JsonObject:
    """Carry out a step; see `workflows.scheduled_message.QualityCheck`."""
    check, about = records.read(QualityRecord, payload["check"]), payload["about"]
    match payload["step"]:
        case "choose":
            return {"runs": await _chosen(check)}
        case "score":
            return about | await _scored(check, about, worker)
        case _:
            return await _tell(check, about, worker)


async def _chosen(check: QualityRecord) -> list[JsonObject]:
    """Return the sample: the same runs whenever the same ones are listed."""
    client = activity.client()
    begin = datetime.fromisoformat(check.day).replace(tzinfo=UTC)
    wanted = RunFilter(agent=check.agent or None, tenant=check.tenant or None, nested=False)
    query = (
        f"{wanted.query()} AND ExecutionStatus != 'Running' AND "
        f"CloseTime >= '{time_text(begin)}' AND CloseTime < '{time_text(begin + timedelta(days=1))}'"
    )
    found = list[tuple[str, JsonObject]]()
    async with aclosing(executions(client, query)) as listed:
        async for one in listed:
            run = listed_run(one)
            if wanted.accepts(run):
                order = hashlib.sha256(f"{check.day} {run.execution_id}".encode()).hexdigest()
                found.append((order, {"run_id": run.run_id, "execution_id": run.execution_id}))
    return [one for _, one in sorted(found, key=lambda one: one[0])[: check.sample]]


async def _scored(check: QualityRecord, about: JsonObject, worker: WorkerDeps) -> JsonObject:
    """Return the score of a run: 1 if the judge says that the rubric is true of it, else 0."""
    recording = await record_run(
        activity.client(), about["run_id"], execution_id=about["execution_id"]
    )
    try:
        case = case_of(recording)
    except UserError:
        return NO_CASE  # it has no answer, or its beginning is lost
    done = trajectory_of(recording)
    judge = Judge(check.rubric, check.model or None)
    with judging_with(worker.models):
        verdict = await judge.verdict(evidence_of(case.inputs.messages, done))
    agent = done.agents[-1] if done.agents else recording.start.agent
    return {
        "score": 1 if verdict.value else 0,
        "agent": agent,
        "instructions": _instructions(recording, agent),
        "at_ms": max((one.at_ms for one in recording.entries), default=0),
    }


def _instructions(recording: Recording, agent: str) -> str:
    """Return the digest of the newest instructions of an agent; empty if it had none."""
    replies = (one.result for one in reversed(recording.entries) if one.agent == agent)
    digests = (str(one.get("instructions") or "") for one in replies if one is not None)
    return next(filter(None, digests), "")


async def _tell(check: QualityRecord, about: JsonObject, worker: WorkerDeps) -> JsonObject:
    """Tell people; an attempt after the first repeats it with the same id."""
    passed, scored = about["passed"], about["scored"]
    notice = Notification(
        id=f"quality/{check.check}/{check.day}",
        event="quality_low",
        at_ms=about["at_ms"],
        run_id=f"quality-{check.check}-{check.day}",
        agent=check.agent,
        name=check.check,
        reason=(
            f"{passed} of {scored} conversations that ended on {check.day} pass "
            f"{check.check!r}: {passed / scored:.0%}, and the limit is {check.below:.0%}."
        ),
    )
    told = 0
    for notifier in worker.notifiers:
        if notice.event in notifier.events:
            async with asyncio.timeout(notifier.timeout.total_seconds()):
                try:
                    await notifier.notify(notice)
                    told += 1
                except NotifierRejected:
                    continue
    return {"told": told}
