"""Quality checks: a schedule that scores a sample of yesterday's runs by a judge, and its scores."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from temporalio import client as temporal
from temporalio.client import Client, ScheduleAlreadyRunningError

from outlast.agents.errors import ScheduleAlreadyExists, UserError
from outlast.agents.threads import run_in_thread
from outlast.client.schedules import Schedule, Schedules, Times
from outlast.client.schedules.descriptions import memo_of
from outlast.client.schedules.plans import check_schedule, schedule_of
from outlast.client.search import behind_words, search_status, space_of
from outlast.contract import names, records
from outlast.edges.clock import now_ms
from outlast.edges.rendering import cut, engine_summary
from outlast.loop.values import JsonObject
from outlast.search.index import SearchIndex
from outlast.search.scores import Score
from outlast.temporal.visibility.scopes import EVERYTHING, Scopes

DAILY: Final = Times(cron="0 5 * * *")
"""Every day at five, in UTC, when the runs of the day before are listed."""

MOST_SAMPLED: Final = 200
LONGEST_RUBRIC: Final = 10_000
WORST: Final = 20
"""How many of the conversations that failed are listed."""


async def schedule_quality_check(
    client: Client,
    id: str,
    rubric: str,
    *,
    agent: str = "",
    tenant: str = "",
    model: str = "",
    sample: int = 20,
    below: float = 0.0,
    times: Times = DAILY,
    task_queue: str = names.TASK_QUEUE,
) -> Schedule:
    """Create a schedule that scores a sample of the runs that ended the day before.

    The same call again returns the schedule. `Schedules` pauses, fires and deletes it.

    Args:
        client: connected to the runs' server.
        id: the schedule's id.
        rubric: what has to be true of a run, for a judge.
        agent: only runs whose last agent is this one; empty for all.
        tenant: only runs of this tenant; empty for all.
        model: the name of the judge's model; empty for the default of the workers' provider.
        sample: how many runs a day, up to 200.
        below: the share of runs that has to pass, from 0 to 1: people hear of less.
        times: when; default: daily at five, in UTC.
        task_queue: the task queue of the workers, which need the extra `evals`.

    Raises:
        ScheduleAlreadyExists: another schedule has the id.
        UserError: an argument does not fit.
        AgentsException: the server refused, or does not answer.
    """
    check_schedule(id, times, {"agent": "judge"})
    record = records.QualityRecord(
        check=id,
        rubric=rubric,
        agent=agent,
        tenant=tenant,
        model=model,
        sample=sample,
        below=below,
    )
    _check(record)
    made, memo = _schedule(record, times, task_queue)
    try:
        await client.create_schedule(id, made, memo={names.MEMO_SCHEDULE: memo})
    except ScheduleAlreadyRunningError:
        found = await client.get_schedule_handle(id).describe()
        if (await memo_of(found)).get("digest") != memo["digest"]:
            raise ScheduleAlreadyExists(
                f"There is another schedule with the id {id!r}. Choose another id, or delete that "
                "one first."
            ) from None
    return await Schedules(client, task_queue=task_queue).get(id)


def _schedule(
    record: records.QualityRecord, times: Times, task_queue: str
) -> tuple[temporal.Schedule, JsonObject]:
    """Return Temporal's schedule of a check, and what lists show of it."""
    written = records.write(record)
    action = temporal.ScheduleActionStartWorkflow(
        names.WORKFLOW_QUALITY,
        written,
        id=f"quality-{record.check}",
        task_queue=task_queue,
        static_summary=engine_summary("Quality check ", record.check),
    )
    same = json.dumps([written, task_queue, repr(times.spec())])
    memo: JsonObject = {
        "agent": record.agent,
        "text": cut(record.rubric, 200),
        "when": times.words(),
        "digest": hashlib.sha256(same.encode()).hexdigest(),
    }
    return schedule_of(action, times, {}), memo


def _check(record: records.QualityRecord) -> None:
    if not record.rubric.strip() or len(record.rubric) > LONGEST_RUBRIC:
        raise UserError(f"A rubric has 1 to {LONGEST_RUBRIC:,} characters.")
    if not 1 <= record.sample <= MOST_SAMPLED:
        raise UserError(f"sample= must be 1 to {MOST_SAMPLED}, not {record.sample}.")
    if not 0 <= record.below <= 1:
        raise UserError(f"below= must be 0 to 1, not {record.below}.")


# --- Scores --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityFigures:
    """How many of the scored runs of an agent with some instructions pass a check.

    Attributes:
        check: the quality check.
        agent: the agent that answered last.
        instructions: the beginning of the digest of its instructions; empty for none.
        scored: how many runs were scored.
        passed: how many of them pass.
        first_ms: when the first of them was scored, in milliseconds since the epoch.
        last_ms: when the last one was.
    """

    check: str
    agent: str
    instructions: str
    scored: int
    passed: int
    first_ms: int
    last_ms: int

    @property
    def share(self) -> float:
        """The share of runs that pass."""
        return self.passed / self.scored


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """The scores of some days.

    Attributes:
        groups: by check, agent and instructions; the newest instructions of an agent first.
        worst: the newest runs that do not pass.
        as_of_ms: everything before is counted; 0 if that was never so.
        problem: what is wrong with the index, in a sentence; empty for nothing.
    """

    groups: tuple[QualityFigures, ...]
    worst: tuple[Score, ...]
    as_of_ms: int = 0
    problem: str = ""

    def record(self) -> JsonObject:
        """Return the scores for programs."""
        return asdict(self)


async def quality_scores(
    client: Client, index: SearchIndex, *, days: int = 30, scopes: Scopes = EVERYTHING
) -> Quality:
    """Return the scores of the last days, by check, agent and digest of instructions.

    Args:
        client: connected to the runs' server.
        index: the index of search, which has the scores.
        days: how many days.
        scopes: whose runs count; default: all.

    Raises:
        SearchUnavailable: the index is not there, or cannot be read.
        AgentsException: the server refused, or does not answer.
    """
    status, space = await search_status(client, index), await space_of(client)
    since = now_ms() - days * 86_400_000
    scores = await run_in_thread(index.scores, space, scopes, since)
    groups = defaultdict[tuple[str, str, str], list[Score]](list)
    for one in scores:
        groups[one.check, one.agent, one.instructions].append(one)
    shown = [_figures(key, found) for key, found in groups.items()]
    return Quality(
        groups=tuple(sorted(shown, key=lambda one: (one.check, one.agent, -one.last_ms))),
        worst=tuple([one for one in reversed(scores) if one.score < 1][:WORST]),
        as_of_ms=0 if status is None else status.as_of_ms,
        problem=behind_words(status, shows_counts=not scopes),
    )


def _figures(key: tuple[str, str, str], found: Sequence[Score]) -> QualityFigures:
    check, agent, instructions = key
    return QualityFigures(
        check=check,
        agent=agent,
        instructions=instructions,
        scored=len(found),
        passed=sum(one.score for one in found),
        first_ms=found[0].at_ms,
        last_ms=found[-1].at_ms,
    )
