"""Prints runs: events, answers, and growing replies."""

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Self

from outlast.cli import terminal
from outlast.client.moments import RunEvent
from outlast.client.results.run_result import RunResult
from outlast.contract.failures import MAX_TURNS_EXCEEDED
from outlast.contract.streams.delta_reader import GAP, RESTARTED
from outlast.edges import rendering
from outlast.edges.rendering import LONGEST_EXCERPT, Shown, cut, joined
from outlast.views.records import ApprovalRequest, Json, JsonObject
from outlast.views.run import RunSnapshot
from outlast.workflows.presentation import doing as effects_of

WHO_WIDTH = 10
"""The width of the column for agents' names."""

NUMBER_WIDTH = 4
"""The width of the column for the numbers of items."""

_STYLES = {
    "message_input": "bold",
    "message_output_created": "green",
    "tool_called": "cyan",
    "tool_output": "dim",
    "agent_updated": "magenta",
    "approval": "bold yellow",
    "failed": "bold red",
    "ignored": "red",
    "held": "bold magenta",
    "released": "bold magenta",
    "set_aside": "bold yellow",
    "blocked": "bold yellow",
    "note": "dim",
    "draft": "dim",
}
_WHO_STYLE = "bold blue"
_SIGNS = {"tool_called": "→ ", "tool_output": "← "}
_USAGE = (
    "requests",
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "cached_tokens",
    "reasoning_tokens",
)
_APPROVAL = ("id", "agent", "arguments", "args_digest", "digest", "reason", "status")
"""The fields in the JSON of a result."""

_TEXT_DELTAS = frozenset({"response.output_text.delta", "response.refusal.delta"})
_ARGUMENTS_DELTA = "response.function_call_arguments.delta"


def event_cells(event: RunEvent, *, user: str = "user") -> tuple[terminal.Part, terminal.Part]:
    """Return an event as two cells: the name of the agent or person, and the text."""
    is_message = event.type in {"message_input", "message_output_created"}
    text = event.text if is_message else joined(_SIGNS.get(event.type, ""), one_line(event.text))
    who = rendering.named(user if event.type == "message_input" else event.who)
    if event.data.get("by_person"):
        who = joined(who, " (team)")
    return (who, _WHO_STYLE), (text, _STYLES.get(event.type, ""))


def say_event(console: terminal.Screen, event: RunEvent) -> None:
    """Print an event."""
    terminal.say_columns(console, *event_cells(event), widths=[WHO_WIDTH])


class Journal:
    """Prints events with their times, and a line with the date where a day begins.

    With `numbers`, the items of the transcript have their numbers.
    """

    def __init__(self, console: terminal.Screen, *, numbers: bool = False) -> None:
        self._console = console
        self._numbers = numbers
        self._day = ""

    def say(self, event: RunEvent) -> None:
        """Print an event with its local time."""
        at = datetime.fromtimestamp(event.at_ms / 1000, UTC).astimezone()
        if (day := at.strftime("%Y-%m-%d")) != self._day and event.at_ms:
            terminal.say(self._console, (day, "dim"))
            self._day = day
        time = (at.strftime("%H:%M:%S") if event.at_ms else "", "dim")
        cells, widths = [time, *event_cells(event)], [len("00:00:00"), WHO_WIDTH]
        if self._numbers:
            number = "" if event.item is None else f"{event.item}"
            cells.insert(1, (number, "dim"))
            widths.insert(1, NUMBER_WIDTH)
        terminal.say_columns(self._console, *cells, widths=widths)


def one_line(text: str) -> Shown:
    """Return the beginning of a text in one line, JSON with room for line breaks."""
    if isinstance(text, Shown):
        return rendering.excerpt(text)
    try:
        text = rendering.json_text(json.loads(text))
    except (ValueError, RecursionError):
        text = re.sub("[ \t\r\n]+", " ", text).strip()
    return rendering.excerpt(text)


def doing(state: RunSnapshot) -> Shown:
    """Return the run's current activity, as the text of a spinner."""
    lines = [rendering.excerpt(one) for one in effects_of(state)]
    if not lines:
        return joined(state.agent or "the run", " · ", state.status)
    first, *others = lines
    return rendering.excerpt(joined(first, *(joined(" · ", other) for other in others)))


def answer_text(output: Json) -> str:
    """Return an answer as text, or as JSON if it is not a string."""
    if output is None:
        return ""
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, indent=2)


def result_record(result: RunResult) -> JsonObject:
    """Return the result of a run or question as JSON, for programs."""
    return {
        "type": "result",
        "run_id": result.run_id,
        "status": result.status,
        "final_output": result.final_output,
        "agent": result.last_agent.name,
        "turns": result.turns,
        "usage": {name: getattr(result.usage, name) for name in _USAGE},
        "approvals": [_approval_record(one.request) for one in result.interruptions],
    }


def _approval_record(request: ApprovalRequest) -> JsonObject:
    return {"tool": request.name, **{name: getattr(request, name) for name in _APPROVAL}}


def say_facts(console: terminal.Screen, rows: Iterable[tuple[str, str]]) -> None:
    """Print names with values."""
    for name, value in rows:
        label = (f"  {name}", "dim")
        terminal.say_columns(console, label, value, widths=[WHO_WIDTH + 2])


def after_failure(run_id: str, state: RunSnapshot) -> str:
    """Return what to do about a failed question, or nothing if the run was stopped."""
    if state.failure is None or state.outcome not in {None, "failed"}:
        return ""
    again = f"`{rendering.command('retry', run_id)}` asks the question again"
    if state.outcome is None:
        return f"{again}, `{rendering.command('send', run_id, '...')}` asks another one."
    if state.failure.code == MAX_TURNS_EXCEEDED:
        return "Another --id starts a new run."
    return f"{again}, from the step that failed; `outlast run` with the same --id starts it anew."


class LiveView:
    """Prints a run live: entries as lines, and below them the growing reply.

    On a terminal, the growing reply is updated in place and removed when its complete entry is
    printed. Elsewhere, only the lines are printed. Use the view as a context manager, so that it
    removes an unfinished reply.
    """

    def __init__(self, console: terminal.Screen) -> None:
        self._console = console
        self._agent = ""
        self._text = ""
        self._is_behind = False
        self._calls: dict[int, str] = {}
        self._growing = terminal.Growing(console, WHO_WIDTH)
        self._journal = Journal(console)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._clear()

    def show_event(self, event: RunEvent) -> None:
        """Print an event, unless it has no text for people."""
        if event.text:
            self._journal.say(event)

    def note(self, text: str) -> None:
        """Print a note about the run."""
        terminal.say(self._console, (text, "dim"))

    def show_delta(self, agent: str, raw: JsonObject) -> None:
        """Add a piece of a model's reply."""
        self._agent = agent
        match raw.get("type"):
            case "response.created" | "response.completed":
                self._clear()
            case "response.output_item.added":
                self._begin(raw)
            case kind if kind == RESTARTED:
                self._clear()
                self.note(f"attempt {raw['attempt']}: {agent or 'the agent'} calls the model again")
            case kind if kind == GAP:
                self._is_behind = True
                self._show()
            case kind if kind in _TEXT_DELTAS:
                self._is_behind = False
                self._text += str(raw.get("delta", ""))
                self._show()
            case kind if kind == _ARGUMENTS_DELTA:
                index = int(raw.get("output_index", 0))
                self._calls[index] = self._calls.get(index, "→ ") + str(raw.get("delta", ""))
                self._show()
            case _:
                pass

    def text(self) -> str:
        """Return the unfinished reply: its text, and its calls with their arguments."""
        calls = [cut(call, LONGEST_EXCERPT) for _, call in sorted(self._calls.items())]
        reply = self._text + ("…" if self._is_behind else "")
        return "\n".join([*([reply] if reply else []), *calls])

    def _begin(self, raw: JsonObject) -> None:
        item = raw.get("item")
        if isinstance(item, dict) and "name" in item:
            self._calls[int(raw.get("output_index", 0))] = f"→ {item['name']} "
            self._show()

    def _show(self) -> None:
        self._growing.show((self._agent, _WHO_STYLE), self.text)

    def _clear(self) -> None:
        self._growing.clear()
        self._text = ""
        self._is_behind = False
        self._calls.clear()
