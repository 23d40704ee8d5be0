"""How runs look on the screen: their events, their answers, what they wait for.

Owns: the words and columns. Must not know: where runs come from.
"""

import json
from collections.abc import Iterable
from typing import Any, cast

from rich.console import Console
from rich.text import Text

from outlast.cli import terminal
from outlast.cli.run_events import RunEvent
from outlast.client.results import RunResult
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.state import RunState
from outlast.loop.values import Json, JsonObject
from outlast.workflows.presentation import call_line, summary

WHO_WIDTH = 10
"""Room for the name of an agent, so that what they say stands in one column."""

_LONGEST_TEXT = 160
_STYLES = {
    "message_input": "bold",
    "message_output_created": "green",
    "tool_called": "cyan",
    "tool_output": "dim",
    "agent_updated": "magenta",
    "approval": "bold yellow",
    "failed": "bold red",
    "ignored": "red",
}
_SIGNS = {"tool_called": "→ ", "tool_output": "← "}


def event_cells(event: RunEvent, *, user: str = "user") -> tuple[Text, Text]:
    """Return an event as two cells: who, and what.

    Args:
        event: what happened.
        user: what to call who talks to the agents.
    """
    said = event.type in {"message_input", "message_output_created"}
    text = event.text if said else _SIGNS.get(event.type, "") + shortened(spaced(event.text))
    who = user if event.type == "message_input" else event.who
    return entry_cells(who, text, _STYLES.get(event.type, ""))


def entry_cells(who: str, text: str, style: str = "") -> tuple[Text, Text]:
    """Return an entry of a conversation as two cells."""
    return Text(who, style="bold blue"), Text(text, style=style)


def say_event(console: Console, event: RunEvent) -> None:
    """Print an event."""
    terminal.say_columns(console, *event_cells(event), widths=[WHO_WIDTH])


def spaced(text: str) -> str:
    """Return JSON with room for line breaks; any other text as it is."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False)
    except ValueError:
        return text


def shortened(text: str) -> str:
    """Return the beginning of a text, in one line."""
    flat = " ".join(text.split())
    return flat if len(flat) <= _LONGEST_TEXT else flat[: _LONGEST_TEXT - 1] + "…"


def doing(state: RunState) -> str:
    """Return what a run is doing at the moment, for a spinner."""
    running = [summary(state, effect) for effect in state.pending]
    return " · ".join(running) or f"{state.agent or 'the run'} · {state.status}"


def answer_text(output: Json) -> str:
    """Return an answer as text: its own, or JSON."""
    if output is None:
        return ""
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, indent=2)


def result_record(result: RunResult) -> JsonObject:
    """Return the end of a run, or of a question, for programs."""
    return {
        "type": "result",
        "run_id": result.run_id,
        "status": result.status,
        "final_output": result.final_output,
        "agent": result.last_agent.name,
        "turns": result.turns,
        "usage": {
            "requests": result.usage.requests,
            "input_tokens": result.usage.input_tokens,
            "output_tokens": result.usage.output_tokens,
            "total_tokens": result.usage.total_tokens,
        },
        "approvals": [approval_record(one.request) for one in result.interruptions],
    }


def approval_record(request: ApprovalRequest) -> JsonObject:
    """Return an approval request for programs."""
    return {
        "id": request.id,
        "agent": request.agent,
        "tool": request.name,
        "arguments": request.arguments,
        "args_digest": request.args_digest,
        "reason": request.reason,
        "status": request.status,
    }


def show_approval(console: Console, request: ApprovalRequest) -> None:
    """Print what a person has to decide, so that it can be decided."""
    rows = [
        ("call", f"{request.name} ({request.id})"),
        *_arguments(request.arguments),
        ("asked by", " → ".join(request.handoff_path) or request.agent),
    ]
    if request.reason:
        rows.append(("why", request.reason))
    say_facts(console, rows)


def say_facts(console: Console, rows: Iterable[tuple[str, str]]) -> None:
    """Print names with values."""
    for name, value in rows:
        label = Text(f"  {name}", style="dim")
        terminal.say_columns(console, label, Text(value), widths=[WHO_WIDTH + 2])


def show_how_to_decide(console: Console, run_id: str, requests: Iterable[ApprovalRequest]) -> None:
    """Print what a run waits for, and the commands that decide it."""
    for request in requests:
        call = call_line(request.name, request.arguments)
        terminal.say(console, (f"{run_id} waits for a person: ", "bold yellow"), call)
        terminal.say(console, f"  outlast approve {run_id} {request.id}")
        terminal.say(console, f'  outlast reject {run_id} {request.id} --message "..."')


def _arguments(arguments: str) -> list[tuple[str, str]]:
    try:
        fields: Any = json.loads(arguments)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        return [("arguments", arguments)]
    return [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in cast("dict[str, Any]", fields).items()
    ]
