"""The report of `outlast show` on a run, read from its history."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError

from outlast.cli import costs, review, terminal, view, waits
from outlast.cli.server import Connection
from outlast.client.costs import NO_COSTS, CostFold, RunCosts
from outlast.client.follower import Follower, Retry
from outlast.client.forks import known_forks
from outlast.client.handle import RunHandle
from outlast.client.moments import RunEvent
from outlast.client.people.nested_requests import found_requests, found_waits
from outlast.client.people.words import read_words
from outlast.client.results.pending_waits import PendingWait
from outlast.client.transport.content import reader_of
from outlast.client.trouble import server_facts
from outlast.edges.clock import now_ms
from outlast.edges.rendering import (
    counted,
    excerpt,
    iso_time,
    joined,
    json_text,
    named,
    shown_time,
)
from outlast.temporal.proofs import proof_reader
from outlast.views.proofs import Proof
from outlast.views.records import ApprovalRequest, JsonObject, Undelivered
from outlast.views.redaction import redaction_of
from outlast.views.run import RunSnapshot, budget_lines, notifies, remembered_lines
from outlast.views.transcript import aside_words, set_aside
from outlast.views.trouble import QUIET, ServerFacts, Trouble, TroubleKind, trouble_words, troubles
from outlast.workflows import presentation

_PAST_THE_LOOP = {WorkflowExecutionStatus.TERMINATED, WorkflowExecutionStatus.TIMED_OUT}
"""The statuses of runs that Temporal ended without the loop."""


_STATUS_WORDS: Final = {
    "waiting": "waiting for a person to decide",
    "parked": "parked: waiting for something from outside",
    "held": "held: a person has the conversation",
    "blocked": "blocked: no worker can go on",
    "idle": "idle: waiting for the next message",
    "snoozed": "snoozed: put off until a time, or until the customer writes",
    "resolved": "resolved: it ends unless the customer writes",
}


_LABELS: Final[dict[TroubleKind, str]] = {
    "no_server": "no server",
    "no_worker": "no worker",
    "untaken": "untaken",
    "lacks": "blocked",
    "retry": "failing",
    "kept": "kept",
    "unsaved": "unsaved",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The report on one run."""

    run_id: str
    state: RunSnapshot
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
    server: ServerFacts = QUIET

    @property
    def trouble(self) -> tuple[Trouble, ...]:
        """What keeps the run from going on."""
        return troubles(self.state, self.server, now_ms())

    @property
    def has_worker(self) -> bool | None:
        """Whether a worker polls the task queue; None if the run does not need one now."""
        return None if self.server.workers is None else self.server.workers > 0

    @property
    def retries(self) -> tuple[Retry, ...]:
        """The newest failed attempt of each effect that is retried."""
        hides = redaction_of(self.state)
        tries = (one for one in self.server.tries if one.failed)
        return tuple(Retry(one.name, one.failed, hides.text(one.why)) for one in tries)

    def record(self, last: int) -> JsonObject:
        """Return the report for programs."""
        return {
            "run_id": self.run_id,
            **presentation.state_view(self.state),
            "status": self.status,
            "started": iso_time(self.state.started_at_ms),
            "task_queue": self.task_queue,
            "has_worker": self.has_worker,
            "retries": [dataclasses.asdict(one) for one in self.retries],
            "trouble": [_trouble_record(one) for one in self.trouble],
            "history_events": self.events,
            "ui": self.ui,
            "cost": costs.record(self.costs),
            "lost_content": list(self.lost),
            "lost_histories": list(self.lost_histories),
            "forked_from": self.state.forked_from,
            "forked_after_event": self.state.forked_after,
            "forks": list(self.forks),
            "follows": self.state.follows,
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
        undelivered=await handle.undelivered() if notifies(state) else (),
        lost=tuple(await reader_of(connection.client).lost(state.items)),
        lost_histories=follower.lost,
        forks=await known_forks(connection.client, run_id),
        server=await _server_facts(connection, run_id, state),
    )


async def _server_facts(connection: Connection, run_id: str, state: RunSnapshot) -> ServerFacts:
    with suppress(RPCError):  # the run has been deleted since
        return await server_facts(connection.client, run_id, works=state.status == "running")
    return QUIET


def show_report(report: Report, last: int) -> None:
    """Print the report."""
    console, state = terminal.out(), report.state
    used = (
        counted(state.usage.requests, "model call"),
        counted(state.usage.total_tokens, "token") + costs.token_details(state.usage),
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
    rows += [("budget", one) for one in budget_lines(state, now_ms())]
    rows += [("remembers", one) for one in remembered_lines(state)]
    hides = redaction_of(state)
    if state.context:
        rows.append(("context", json_text(hides.json(state.context))))
    if state.failure is not None:
        rows.append(("failure", f"{hides.text(state.failure.message)} ({state.failure.code})"))
        if hint := view.after_failure(report.run_id, state):
            rows.append(("next", hint))
    rows += [("lost", one) for one in (*report.lost, *_lost_histories(report))]
    rows += _work_rows(report)
    rows += [("unread", f"message {message.id}") for message in state.unread]
    rows += [
        ("unheard", f"{one.event}{f' of {one.request_id}' if one.request_id else ''}: {one.why}")
        for one in report.undelivered
    ]
    rows += [("set aside", hides.text(aside_words(one))) for one in set_aside(state)]
    rows += [("ignored", f"{one.what}: {hides.text(one.why)}") for one in state.ignored]
    rows += costs.facts(report.costs)
    if report.ui:
        rows.append(("UI", report.ui))
    terminal.say(console, (report.run_id, "bold"))
    view.say_facts(console, rows)
    costs.show_parts(console, report.costs)
    _show_entries(console, report.entries, last)
    _show_how_to_go_on(console, report)


def _work_rows(report: Report) -> Iterator[tuple[str, str]]:
    """Yield what the run does now, and what keeps it from that."""
    state, now = report.state, now_ms()
    for line in presentation.doing(state):
        yield "doing", excerpt(line)
    for one in report.trouble:
        yield _LABELS[one.kind], trouble_words(one, now)


def _trouble_record(one: Trouble) -> JsonObject:
    return {
        "kind": one.kind,
        "what": one.what,
        "why": one.why,
        "since": None if one.since_ms is None else iso_time(one.since_ms),
        "attempt": one.attempt,
        "next": None if one.next_ms is None else iso_time(one.next_ms),
        "words": trouble_words(one),
    }


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
    source, after = report.state.forked_from, report.state.forked_after
    rows = [("fork of", f"{source}, after event {after}")] if source else []
    if report.state.follows:
        rows.append(("follows", named(report.state.follows)))
    return [*rows, *(("fork", named(one)) for one in report.forks)]


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
