"""The report of `outlast show` on a run, read from its history."""

from dataclasses import dataclass

from temporalio.client import WorkflowExecutionStatus

from outlast.cli import terminal, view
from outlast.cli.events import iso_time
from outlast.cli.server import Connection
from outlast.client.handle import RunHandle
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject
from outlast.rendering import excerpt, joined, json_text
from outlast.workflows import presentation

_PAST_THE_LOOP = {WorkflowExecutionStatus.TERMINATED, WorkflowExecutionStatus.TIMED_OUT}
"""The statuses of runs that Temporal ended without the loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The report on one run.

    Attributes:
        state: the state of the run, read from its history.
        status: the status of the run; another one if Temporal ended the run without the loop.
        task_queue: the queue that the run's workers poll.
        events: the number of events in the run's newest history.
        ui: the run's page in the web UI, if there is one.
    """

    run_id: str
    state: LoopState
    status: str
    task_queue: str
    events: int
    ui: str | None

    def record(self, last: int) -> JsonObject:
        """Return the report for programs."""
        return {
            "run_id": self.run_id,
            **presentation.state_view(self.state),
            "status": self.status,
            "started": iso_time(self.state.start.started_at_ms),
            "task_queue": self.task_queue,
            "history_events": self.events,
            "ui": self.ui,
            "approvals": presentation.approvals_view(self.state),
            "transcript": presentation.transcript_view(self.state, last) if last else [],
        }


async def read_report(connection: Connection, run_id: str) -> Report:
    """Read a run.

    Raises:
        RunNotFound: there is no such run.
    """
    handle = RunHandle(connection.client, run_id)
    await handle.check()
    state = await handle.state()
    description = await connection.client.get_workflow_handle(run_id).describe()
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
    )


def show_report(report: Report, last: int) -> None:
    """Print the report."""
    console, state = terminal.out(), report.state
    usage = state.usage
    calls = "1 model call" if state.turns == 1 else f"{state.turns} model calls"
    turns = f"{calls}, {usage.total_tokens} tokens"
    rows = [
        ("status", report.status),
        ("agents", " → ".join(state.handoff_path)),
        ("used", f"{turns}, {report.events} events in the history"),
    ]
    if state.context:
        rows.append(("context", json_text(state.context)))
    if state.failure is not None:
        rows.append(("failure", f"{state.failure.message} ({state.failure.code})"))
    rows += [
        ("blocked", f"no worker can go on since {iso_time(one.at_ms)}: {one.lacks}")
        for one in state.blocked
    ]
    if state.saving.save_failure is not None:
        since = iso_time(state.saving.save_failure.at_ms)
        problem = state.saving.save_failure.failure.message
        items = presentation.unsaved_items(state)
        rows.append(("unsaved", f"{items} items are not in the session since {since}: {problem}"))
    rows += [
        ("doing", excerpt(presentation.effect_line(state, effect))) for effect in state.pending
    ]
    rows += [("unread", f"message {message.id}") for message in state.inbox]
    rows += [("ignored", f"{one.what}: {one.why}") for one in state.ignored]
    if report.ui:
        rows.append(("UI", report.ui))
    terminal.say(console, (report.run_id, "bold"))
    view.say_facts(console, rows)
    _show_transcript(console, state, last)
    if state.pending_approvals:
        terminal.say(console, "")
        view.show_how_to_decide(console, report.run_id, state.pending_approvals)


def _show_transcript(console: terminal.Screen, state: LoopState, last: int) -> None:
    entries = presentation.transcript_view(state, last) if last else []
    left_out = len(state.items) - len(entries)
    terminal.say(console, "")
    if left_out:
        terminal.say(console, (f"({left_out} entries before; see --last)", "dim"))
    for entry in entries:
        text, style = entry["text"], ""
        assert isinstance(text, str)  # noqa: S101  the view says so
        match entry["kind"]:
            case "tool_call" | "handoff_call":
                text, style = joined("→ ", view.one_line(text)), "cyan"
            case "tool_output" | "handoff_output":
                text, style = joined("← ", view.one_line(text)), "dim"
            case "input":
                style = "bold"
            case _:
                pass
        cells = view.entry_cells(str(entry["who"]), text, style)
        terminal.say_columns(console, *cells, widths=[view.WHO_WIDTH])
