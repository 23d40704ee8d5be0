"""Counts the runs of a namespace: by Temporal's visibility, and by a look at each that may fail.

Visibility knows how many wait, for whom and until when. Since when a request waits, whether attempts
fail and what no worker has taken, only a look at the run says: some at each count, in turn.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from time import monotonic
from typing import Any, Final, get_args

from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.archive import Archive
from outlast.archive.sweep import last_look
from outlast.client.read.in_turn import read_each
from outlast.client.runs import (
    Attributes,
    attributes_of,
    count_executions,
    executions,
    is_nested,
    state_of,
    texts_of,
)
from outlast.client.transport.executions import describe_newest
from outlast.client.trouble import facts_of
from outlast.contract import names, records
from outlast.edges.clock import ms_of, now_ms, time_of
from outlast.loop.approvals import Risk
from outlast.loop.notices import NoticeReceipt
from outlast.monitor.counts import (
    Counts,
    Queue,
    Waiting,
    labels_of,
    queue_labels,
)
from outlast.monitor.queues import queue_of
from outlast.temporal.visibility.queries import search_error, time_text
from outlast.views.trouble import TAKEN_WITHIN_MS, ServerFacts

MOST_OPEN: Final = 5_000
"""How many open runs are listed at each count; those that wait for a message are only counted."""

MOST_LOOKS: Final = 200
LOOKS_FOR: Final = timedelta(seconds=5)
"""How many runs are looked at in one count, and for how long at most."""

LOOKS_AGAIN: Final = timedelta(seconds=30)
"""After what time a run without trouble is looked at again."""

READS_AGAIN: Final = timedelta(minutes=5)
"""After what time the history of a run that waits is read again, for notices."""

OVERDUE_AFTER: Final = timedelta(minutes=1)
"""How late a deadline may be acted on: workers have other work, and visibility lags."""

NOTICES_LAST: Final = timedelta(hours=1)
"""For how long the notices of a run that has ended count that nobody has heard of."""

PATIENCE: Final = timedelta(seconds=5)

ERRORS_LAST_MS: Final = 3_600_000
"""For how long a failing model call is noted."""

_OF_RUNS: Final = f"WorkflowType = '{names.WORKFLOW}'"
_OPEN: Final = f"{_OF_RUNS} AND ExecutionStatus = 'Running'"
_RESTS: Final = (*sorted(names.RESTING), "on_call")
_STATUSES: Final = ("waiting", "parked", "held", "blocked", *_RESTS)
_BUSY: Final = (
    f"{_OPEN} AND ({names.ATTRIBUTE_STATUS} IS NULL OR "
    f"{names.ATTRIBUTE_STATUS} NOT IN ({', '.join(map(repr, _RESTS))}))"
)
_NOTICES: Final = f"WorkflowType = '{names.WORKFLOW_NOTICES}'"
_GROUPED: Final = {
    "Completed": "completed",
    "Failed": "failed",
    "TimedOut": "failed",
    "Canceled": "cancelled",
    "Terminated": "terminated",
}


@dataclass(slots=True)
class Seen:
    """What is known of an open run.

    Attributes:
        signature: what visibility says of its requests.
        asked_ms: since when it is known to wait for people.
        looked: when it was last looked at, by a clock that only runs forward; None for never.
        read: when its history was last read.
        oldest_ms: when its oldest request was made; None if it is not known.
        kinds: what keeps it from going on, in the words of `outlast.views.trouble`.
        is_unsettled: whether something in it waits that a worker may take at any moment.
        kept_ms: since when the server keeps something for it.
        lost: how many notices about its requests nobody has heard of.
        retries_notices: whether notices are sent again.
    """

    signature: object = None
    asked_ms: int = 0
    looked: float | None = None
    read: float | None = None
    oldest_ms: int | None = None
    kinds: frozenset[str] = frozenset()
    is_unsettled: bool = False
    kept_ms: int | None = None
    lost: int = 0
    retries_notices: bool = False


@dataclass(frozen=True, slots=True)
class _Open:
    info: WorkflowExecutionInfo
    found: Attributes
    seen: Seen

    @property
    def pending(self) -> int:
        """How many requests wait; those of a nested run are counted for the run above it."""
        return 0 if is_nested(self.info) else self.found.get(names.ATTRIBUTE_APPROVALS) or 0

    @property
    def status(self) -> str:
        """What it waits for; empty while it works."""
        return self.found.get(names.ATTRIBUTE_STATUS) or ""

    @property
    def risk(self) -> str:
        """The highest risk of its requests."""
        risk: str | None = self.found.get(names.ATTRIBUTE_RISK)
        return risk if risk is not None and risk in get_args(Risk) else "low"


@dataclass
class NamespaceReader:
    """Counts the runs of a client's namespace, again and again; what it keeps may be lost.

    Attributes:
        client: connected to the namespace.
        groups: the groups that are counted by name.
        queues: task queues that are looked at also without a run.
        archive: the archive of the runs.
        is_brief: whether only what `Health` says is counted: not the runs by status, nor notices.
    """

    client: Client
    groups: Collection[str] = ()
    queues: Sequence[str] = ()
    archive: Archive | None = None
    is_brief: bool = False
    _seen: dict[str, Seen] = field(default_factory=dict[str, Seen])
    _model_errors: dict[str, int] = field(default_factory=dict[str, int])
    _lost: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    _began_ms: int = field(default_factory=now_ms)

    async def count(self) -> Counts:
        """Count once.

        Raises:
            AgentsException: the server refuses, or does not answer.
            RPCError: the same.
        """
        at_ms, began = now_ms(), monotonic()
        runs = {} if self.is_brief else await self._statuses()
        listed = [one async for one in self._listed(at_ms)]
        await self._look(listed)
        by_risk = defaultdict[str, Waiting](Waiting)
        by_group = defaultdict[tuple[str, str], Waiting](Waiting)
        for one in filter(lambda one: one.pending, listed):
            waits = _waiting(one, at_ms)
            by_risk[one.risk] += waits
            for group in labels_of(texts_of(one.found), self.groups):
                by_group[group, one.risk] += waits
        seen = [one.seen for one in listed]
        return Counts(
            at_ms=at_ms,
            runs=runs,
            by_risk=by_risk,
            by_group=by_group,
            troubles={kind: sum(kind in one.kinds for one in seen) for kind in KINDS},
            oldest_kept_ms=min((one.kept_ms for one in seen if one.kept_ms), default=None),
            undelivered={} if self.is_brief else await self._undelivered(seen, at_ms),
            queues=await self._queues(listed, at_ms),
            open=len(listed),
            looked_at=sum(one.looked is not None for one in seen),
            model_errors=self._noted_errors(at_ms),
            since_ms=max(self._began_ms, at_ms - ERRORS_LAST_MS),
            took=monotonic() - began,
        )

    # --- Visibility ------------------------------------------------------------------------------

    async def _count(self, query: str) -> int:
        return await count_executions(self.client, query, PATIENCE)

    async def _statuses(self) -> dict[str, int]:
        """Return how many runs there are, by their status in lists."""
        found = {
            one: await self._count(f"{_OPEN} AND {names.ATTRIBUTE_STATUS} = '{one}'")
            for one in _STATUSES
        }
        found["running"] = max(await self._count(_OPEN) - sum(found.values()), 0)
        try:
            grouped = await self.client.count_workflows(
                f"{_OF_RUNS} AND ExecutionStatus != 'Running' GROUP BY ExecutionStatus"
            )
        except RPCError as error:
            raise search_error(self.client.namespace, error) from error
        found |= dict.fromkeys(_GROUPED.values(), 0)
        for group in grouped.groups:
            status = _GROUPED.get(str(group.group_values[0]))
            if status is not None:  # not of a run that continued as new: it is another one now
                found[status] += group.count
        return found

    async def _listed(self, at_ms: int) -> AsyncGenerator[_Open]:
        """Yield the open runs that do not rest, with what is known of each."""
        before, self._seen = self._seen, {}
        async with aclosing(executions(self.client, _BUSY, PATIENCE)) as found:
            async for info in found:
                if len(self._seen) == MOST_OPEN:
                    return
                seen = before.get(info.execution.run_id) or Seen()
                one = _Open(info, attributes_of(info), seen)
                _note(one, at_ms)
                self._seen[info.execution.run_id] = seen
                yield one

    # --- Looks -----------------------------------------------------------------------------------

    async def _look(self, listed: Iterable[_Open]) -> None:
        """Look at the runs that are due, the longest not seen first, for a while."""
        at = monotonic()
        due = [one for one in listed if _is_due(one.seen, at)]
        due.sort(key=lambda one: one.seen.looked or 0.0)
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOKS_FOR.total_seconds()):
                await read_each(islice(due, MOST_LOOKS), self._look_at)

    async def _look_at(self, one: _Open) -> None:
        run_id, execution_id = one.info.execution.workflow_id, one.info.execution.run_id
        try:
            described = await describe_newest(self.client, run_id, one.info.first_run_id or None)
            facts = await facts_of(self.client, described, works=False)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:  # it has ended and is gone
                raise
            return
        _note_facts(one.seen, facts, is_blocked=one.status == "blocked")
        if any(attempt.failed and attempt.name == names.ACTIVITY_MODEL for attempt in facts.tries):
            self._model_errors[execution_id] = now_ms()
        at = monotonic()
        if one.pending and (one.seen.read is None or at - one.seen.read > _seconds(READS_AGAIN)):
            state = await state_of(self.client, run_id, execution_id)
            waits = () if state is None else state.pending_approvals
            asked = {request.id for request in waits}
            one.seen.read = at
            one.seen.oldest_ms = min((one.requested_at_ms for one in waits), default=None)
            lost = () if state is None else state.undelivered
            one.seen.lost = sum(
                not notice.request_id or notice.request_id in asked for notice in lost
            )
        one.seen.looked = at

    def _noted_errors(self, at_ms: int) -> int:
        """Return how many runs were seen with a failing model call in the last hour."""
        recent = {key: at for key, at in self._model_errors.items() if at_ms - at < ERRORS_LAST_MS}
        self._model_errors = recent
        return len(recent)

    # --- Notices, queues, archive ----------------------------------------------------------------

    async def _undelivered(self, seen: Sequence[Seen], at_ms: int) -> dict[str, int]:
        """Count the notices that nobody has heard of, of open runs and of those that ended."""
        late = time_text(time_of(at_ms - TAKEN_WITHIN_MS * 60))
        retried = await self._count(
            f"{_NOTICES} AND ExecutionStatus = 'Running' AND StartTime < '{late}'"
        )
        since_ms = at_ms - NOTICES_LAST // timedelta(milliseconds=1)
        ended = f"{_NOTICES} AND ExecutionStatus = 'Completed' AND CloseTime >= '{time_text(time_of(since_ms))}'"
        self._lost = {key: one for key, one in self._lost.items() if one[0] >= since_ms}
        new: list[WorkflowExecutionInfo] = []
        async with aclosing(executions(self.client, ended, PATIENCE)) as found:
            async for info in found:
                if info.execution.run_id not in self._lost:
                    new.append(info)
                if len(new) == MOST_LOOKS:
                    break
        for info, lost in zip(new, await read_each(new, self._lost_of), strict=True):
            self._lost[info.execution.run_id] = info.close_time.ToMilliseconds(), lost
        return {
            "retrying": retried + sum(one.retries_notices for one in seen),
            "given_up": sum(one.lost for one in seen)
            + sum(lost for _, lost in self._lost.values()),
        }

    async def _lost_of(self, info: WorkflowExecutionInfo) -> int:
        """Return how many notices a workflow has not delivered; 0 if its result cannot be read."""
        handle: Any = self.client.get_workflow_handle(
            info.execution.workflow_id, run_id=info.execution.run_id, result_type=dict
        )
        with suppress(Exception):  # a codec's own, too
            async with asyncio.timeout(PATIENCE.total_seconds()):
                return len(records.read(NoticeReceipt, await handle.result()).undelivered)
        return 0

    async def _queues(self, listed: Iterable[_Open], at_ms: int) -> dict[str, Queue]:
        runs = Counter(one.info.task_queue for one in listed)
        found: dict[str, Queue] = {}
        for name in queue_labels(runs, self.queues):
            queue = await queue_of(self.client, name)
            lag = await self._lag(name, at_ms)
            found[name] = replace(queue, archive_lag=lag)
        return found

    async def _lag(self, queue: str, at_ms: int) -> float | None:
        """Return for how many seconds the workers of a queue have not archived all that ended."""
        if self.archive is None:
            return None
        last = await last_look(self.archive, self.client.namespace, queue)
        complete = None if last is None else last.complete
        since_ms = self._began_ms if complete is None else ms_of(complete)
        return max(at_ms - since_ms, 0) / 1_000


KINDS: Final = ("retry", "untaken", "kept")
"""The kinds of trouble that a look finds; visibility counts runs that lack something as blocked."""


def _seconds(length: timedelta) -> float:
    return length.total_seconds()


def _note(one: _Open, at_ms: int) -> None:
    """Note what visibility says of a run; if its requests changed, it has to be looked at."""
    due: datetime | None = one.found.get(names.ATTRIBUTE_DUE)
    signature = one.pending, due, one.risk, one.status
    seen = one.seen
    if signature != seen.signature:
        seen.signature, seen.looked, seen.read = signature, None, None
    if not one.pending:
        seen.asked_ms, seen.oldest_ms, seen.lost = 0, None, 0
    elif not seen.asked_ms:
        seen.asked_ms = at_ms


def _note_facts(seen: Seen, facts: ServerFacts, *, is_blocked: bool) -> None:
    asked_ms = now_ms() if facts.at_ms is None else facts.at_ms
    waits = [one.waits_since_ms for one in facts.tries if not one.failed]
    late = [
        one for one in (*waits, facts.task_since_ms) if one and asked_ms - one >= TAKEN_WITHIN_MS
    ]
    kept = [one.at_ms for one in facts.kept if asked_ms - one.at_ms >= TAKEN_WITHIN_MS]
    failed = {one.name for one in facts.tries if one.failed}
    seen.retries_notices = names.ACTIVITY_NOTIFY in failed
    found = {
        # What no worker has is tried again, too, and is counted as blocked.
        "retry": not is_blocked and bool(failed - {names.ACTIVITY_NOTIFY}),
        "untaken": bool(late),
        "kept": bool(kept),
    }
    seen.kinds = frozenset(kind for kind, there in found.items() if there)
    seen.kept_ms = min(kept, default=None)
    seen.is_unsettled = facts.asks_again


def _is_due(seen: Seen, at: float) -> bool:
    return seen.looked is None or seen.is_unsettled or at - seen.looked > _seconds(LOOKS_AGAIN)


def _waiting(one: _Open, at_ms: int) -> Waiting:
    due: datetime | None = one.found.get(names.ATTRIBUTE_DUE)
    late = time_of(at_ms) - OVERDUE_AFTER
    return Waiting(
        requests=one.pending,
        overdue=int(due is not None and due.astimezone(UTC) < late),
        oldest_ms=one.seen.oldest_ms or one.seen.asked_ms,
    )
