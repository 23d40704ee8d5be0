"""The report of `outlast show` on a run, read from its history."""

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from temporalio.client import WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.service import RPCError

from outlast.cli import costs, review, terminal, view, waits
from outlast.cli.durations import iso_time, shown_time
from outlast.cli.events import RunEvent
from outlast.cli.follower import Follower, Retry, retries_of
from outlast.cli.server import Connection, pollers, without_worker
from outlast.client.costs import NO_COSTS, CostFold, RunCosts
from outlast.client.forks import known_forks
from outlast.client.handle import RunHandle
from outlast.client.people.nested_requests import found_requests, found_waits
from outlast.client.people.words import read_words
from outlast.client.results.pending_waits import PendingWait
from outlast.client.transport.content import reader_of
from outlast.clock import now_ms
from outlast.loop.approvals import ApprovalRequest, Remembered
from outlast.loop.aside import aside_words
from outlast.loop.notices import Undelivered
from outlast.loop.spending import described, spent
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject
from outlast.proofs import proof_reader
from outlast.rendering import counted, excerpt, joined, json_text, named
from outlast.views.proofs import Proof
from outlast.views.redaction import redaction_of
from outlast.workflows import presentation

_PAST_THE_LOOP = {WorkflowExecutionStatus.TERMINATED, WorkflowExecutionStatus.TIMED_OUT}
"""The statuses of runs that Temporal ended without the loop."""


_STATUS_WORDS: Final = {
    "waiting": "waiting for a person to decide",
    "parked": "parked: waiting for something from outside",
    "held": "held: a person has the conversation",
    "blocked": "blocked: no worker can go on",
    "idle": "idle: waiting for the next message",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The report on one run."""

    run_id: str
    state: LoopState
    status: str
    task_queue: str
    events: int
    ui: str | None
    entries: tuple[RunEvent, ...] = ()
    costs: RunCosts = NO_COSTS
    requests: tuple[ApprovalRequest, ...] = ()
    proofs: Mapping[str, tuple[Proof, ...]] = field(default_factory=dict[str, tuple[Proof, ...]])
    waits: tuple[PendingWait, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict[str, str])
    undelivered: tuple[Undelivered, ...] = ()
    lost: tuple[str, ...] = ()
    lost_histories: tuple[str, ...] = ()
    forks: tuple[str, ...] = ()
    retries: tuple[Retry, ...] = ()
    has_worker: bool | None = None
    """Whether a worker polls the task queue; None if the run does not need one now."""

    def record(self, last: int) -> JsonObject:
        """Return the report for programs."""
        source = self.state.fork
        return {
            "run_id": self.run_id,
            **presentation.state_view(self.state),
            "status": self.status,
            "started": iso_time(self.state.start.started_at_ms),
            "task_queue": self.task_queue,
            "has_worker": self.has_worker,
            "retries": [dataclasses.asdict(one) for one in self.retries],
            "history_events": self.events,
            "ui": self.ui,
            "cost": costs.record(self.costs),
            "lost_content": list(self.lost),
            "lost_histories": list(self.lost_histories),
            "forked_from": None if source is None else source.run_id,
            "forked_after_event": None if source is None else source.event,
            "forks": list(self.forks),
            "undelivered": [dataclasses.asdict(one) for one in self.undelivered],
            "waits": [waits.record(one) for one in self.waits],
            "approvals": [
                presentation.approval_view(self.run_id, one, self.proofs.get(one.id))
                for one in self.requests
            ],
            "summaries": [one.record() for one in self.entries if one.type == "compacted"],
            "transcript": presentation.transcript_view(self.state, last) if last else [],
        }


async def read_report(connection: Connection, run_id: str) -> Report:
    """Read a run: everything that happened so far, and the state which that led to."""
    handle = RunHandle(connection.client, run_id)
    description = await handle.check()
    follower = Follower(connection.client, run_id)
    fold = CostFold()
    state, entries = await follower.past(fold)
    found, proofs = (
        await found_requests(state, connection.client),
        await proof_reader(handle.client),
    )
    requests = tuple(one.shown for one in found)
    status: str = state.status
    if description.status is not None and description.status in _PAST_THE_LOOP:
        status = description.status.name.lower().replace("_", " ")
    return Report(
        run_id=run_id,
        state=state,
        status=status,
        task_queue=description.task_queue,
        events=description.history_length,
        ui=connection.link(run_id),
        entries=entries,
        costs=await fold.read(connection.client),
        requests=requests,
        proofs={one.request.id: one.proofs(proofs) for one in found},
        waits=await found_waits(state, connection.client),
        words=await read_words(handle.client, state, requests),
        undelivered=await handle.undelivered() if state.notifies else (),
        lost=tuple(await reader_of(connection.client).lost(state.items)),
        lost_histories=follower.lost,
        forks=await known_forks(connection.client, run_id),
        retries=tuple(retry for _, retry in retries_of(description)),
        has_worker=await _has_worker(connection, description, state),
    )


async def _has_worker(
    connection: Connection, description: WorkflowExecutionDescription, state: LoopState
) -> bool | None:
    if description.close_time is not None or state.status != "running":
        return None
    with suppress(RPCError):  # who may read runs may not be allowed to read task queues
        return bool(await pollers(connection.client, description.task_queue))
    return None


def show_report(report: Report, last: int) -> None:
    """Print the report."""
    console, state = terminal.out(), report.state
    used = (
        counted(state.usage.requests, "model call"),
        counted(state.usage.total_tokens, "token"),
        f"{counted(report.events, 'event')} in the history",
    )
    rows = [
        ("status", _STATUS_WORDS.get(report.status, report.status)),
        *([("agents", named(" → ".join(path)))] if (path := state.handoff_path) else []),
        ("used", ", ".join(used)),
    ]
    rows += _fork_rows(report)
    if state.hold is not None and state.outcome is None:
        since = shown_time(state.hold.at_ms)
        holder = named(state.hold.by or "a person")
        rows.append(("held by", joined(holder, f", since {since}")))
    rows += [
        ("budget", _budget_text(state, at))
        for at, budget in enumerate(state.start.budgets)
        if state.outcome is None or budget.of != "seconds"  # the clock goes on after the end
    ]
    rows += [("remembers", _remembered_text(one)) for one in state.remembered]
    hides = redaction_of(state)
    if state.context:
        rows.append(("context", json_text(hides.json(state.context))))
    if state.failure is not None:
        rows.append(("failure", f"{hides.text(state.failure.message)} ({state.failure.code})"))
        if hint := view.after_failure(report.run_id, state):
            rows.append(("next", hint))
    rows += [
        ("blocked", f"no worker can continue since {shown_time(one.at_ms)}: {one.lacks}")
        for one in state.blocked
    ]
    rows += [("lost", one) for one in (*report.lost, *_lost_histories(report))]
    if state.saving.save_failure is not None:
        since = shown_time(state.saving.save_failure.at_ms)
        problem = state.saving.save_failure.failure.message
        items = presentation.unsaved_items(state)
        rows.append(
            ("unsaved", f"{counted(items, 'item')} not in the session since {since}: {problem}")
        )
    rows += _work_rows(report)
    rows += [("unread", f"message {message.id}") for message in state.inbox]
    rows += [
        ("unheard", f"{one.event}{f' of {one.request_id}' if one.request_id else ''}: {one.why}")
        for one in report.undelivered
    ]
    rows += [("set aside", hides.text(aside_words(one))) for one in state.aside]
    rows += [("ignored", f"{one.what}: {hides.text(one.why)}") for one in state.ignored]
    rows += costs.facts(report.costs)
    if report.ui:
        rows.append(("UI", report.ui))
    terminal.say(console, (report.run_id, "bold"))
    view.say_facts(console, rows)
    costs.show_parts(console, report.costs)
    _show_entries(console, report.entries, last)
    _show_how_to_go_on(console, report)


def _work_rows(report: Report) -> list[tuple[str, str]]:
    """Return what the run does now, and what keeps it from that."""
    state, hides = report.state, redaction_of(report.state)
    rows = [("doing", excerpt(presentation.effect_line(state, effect))) for effect in state.pending]
    rows += [("failing", hides.text(str(retry))) for retry in report.retries]
    if report.has_worker is False:
        rows.append(("no worker", without_worker(report.task_queue)))
    return rows


def _lost_histories(report: Report) -> list[str]:
    return [
        f"history {one}, or more before it: items stay, and times and decisions are gone"
        for one in report.lost_histories
    ]


def _show_how_to_go_on(console: terminal.Screen, report: Report) -> None:
    """Print what the run waits for, and the commands that let it go on."""
    if report.waits:
        terminal.say(console, "")
        waits.show_how_to_finish(console, report.waits)
    if report.requests:
        terminal.say(console, "")
        review.show_how_to_decide(
            console, report.run_id, report.requests, report.words, report.proofs
        )


def _fork_rows(report: Report) -> list[tuple[str, str]]:
    source = report.state.fork
    rows = [("fork of", f"{source.run_id}, after event {source.event}")] if source else []
    return [*rows, *(("fork", named(one)) for one in report.forks)]


def _budget_text(state: LoopState, index: int) -> str:
    budget = state.start.budgets[index]
    used = spent(state, budget, now_ms())
    shown = f"${used / 1_000_000:,.2f}" if budget.of == "cost_micros" else f"{used:,}"
    more = sum(amount for at, amount in state.extended if at == index)
    extended = f", {more:,} of them added by people" if more else ""
    return f"{shown} used of {described(state, index)}{extended}"


def _remembered_text(kept: Remembered) -> str:
    calls = f"calls of {kept.name} by {kept.agent}"
    same = " with the same arguments" if kept.args_digest is not None else ""
    long = ", for this question" if kept.question is not None else ""
    by = f", by {kept.decision.by}" if kept.decision.by else ""
    return f"{kept.decision.type} further {calls}{same}{long}{by}"


def _show_entries(console: terminal.Screen, entries: Sequence[RunEvent], last: int) -> None:
    shown = [entry for entry in entries if entry.text]
    newest = shown[-last:] if last else []
    terminal.say(console, "")
    if len(newest) < len(shown):
        earlier = f"({len(shown) - len(newest)} earlier entries; see --last)"
        terminal.say(console, (earlier, "dim"))
    journal = view.Journal(console, numbers=True)
    for entry in newest:
        journal.say(entry)
