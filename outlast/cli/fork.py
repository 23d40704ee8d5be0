"""`outlast fork`: starts a run from the state of another run after one of its events."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from outlast.agents.errors import UserError
from outlast.cli import options, terminal
from outlast.cli.caller import Caller, on_server
from outlast.cli.json_values import json_option
from outlast.cli.terminal import Column
from outlast.edges.rendering import command, iso_time, shown_time
from outlast.views.records import JsonObject

if TYPE_CHECKING:
    from temporalio.client import Client

    from outlast.client.forks import ForkPoint
    from outlast.views.redaction import Redaction

_COLUMNS: "tuple[Column[tuple[ForkPoint, str]], ...]" = (
    Column("EVENT", lambda one: f"{one[0].number}", numbers=True),
    Column("TIME", lambda one: shown_time(one[0].event.at_ms)),
    Column(
        "WHAT",
        lambda one: f"{one[1]} ({one[0].obstacle})" if one[0].obstacle else one[1],
        folds=True,
    ),
)


@on_server
async def fork(
    caller: Caller,
    run_id: options.RunId,
    at: Annotated[int | None, typer.Option(min=1)] = None,
    lists: bool = False,
    name: str | None = None,
    prompt: str | None = None,
    model: str | None = None,
    arguments: str | None = None,
    allow: list[str] | None = None,
    task_queue: str | None = None,
) -> None:
    """Start a run from the state that another run had after an event.

    Tools that may have effects are not called: the model reads what the same call returned in the
    source, or that the tool is switched off. --allow names tools that run nevertheless.

    Command line:
        at: The event after which the fork begins. Default: the newest.
        lists (--list): List the events after which a fork can begin.
        name: The fork's name; its id is that of the run, `~` and the name.
        prompt: Instructions for the active agent: a text, or @FILE.
        model: The model for all agents.
        arguments (JSON): Other arguments for calls under way: {"CALL_ID": {…}}, or @FILE.
        allow (TOOL): A tool that may have effects; * for all.
        task_queue (--on QUEUE): The task queue. Default: that of the run.
    """
    from outlast.client.forks import fork_run

    client = (await caller.connect()).client
    if lists:
        await _list(caller, client, run_id)
        return
    made = await fork_run(
        client,
        run_id,
        at=at,
        name=name,
        task_queue=task_queue,
        instructions=_text(prompt),
        model=model,
        arguments=_arguments(arguments),
        allow=allow or (),
    )
    event = "its newest event" if at is None else f"event {at}"
    tail = command("tail", made.id)
    caller.show(
        {"run_id": made.id, "forked_from": run_id, "event": at},
        f"Forked {run_id} after {event}: {made.id}. Follow it: `",
        tail,
        "`.",
    )


async def _list(caller: Caller, client: "Client", run_id: str) -> None:
    from outlast.client.forks import read_fork_points
    from outlast.views.redaction import NOTHING, redaction_of

    async with terminal.waiting(terminal.err(), "reading the history"):
        found = [one async for one in read_fork_points(client, run_id)]
    hides = redaction_of(found[-1].state) if found else NOTHING  # what comes later hides it earlier
    points = [(one, _what(one, hides)) for one in found]
    caller.show_list(_COLUMNS, points, "The run has no events.", record=_record)


def _record(one: "tuple[ForkPoint, str]") -> JsonObject:
    point, what = one
    at = iso_time(point.event.at_ms)
    return {"event": point.number, "at": at, "what": what, "obstacle": point.obstacle}


def _what(point: "ForkPoint", hides: "Redaction") -> str:
    """Return what happened in words: what people see of it, or else the event and its effect."""
    from outlast.client.moments import run_events

    seen = run_events(point.event.at_ms, point.before, point.state, point.event)
    lines = [f"{one.who}: {one.text}" if one.who else one.text for one in seen if one.text]
    return hides.text(" · ".join(lines)) or type(point.event).__name__


def _text(prompt: str | None) -> str | None:
    if prompt is None or not prompt.startswith("@"):
        return prompt
    try:
        return Path(prompt[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--prompt: {prompt[1:]!r:.200} cannot be read: {error}") from error


def _arguments(text: str | None) -> JsonObject | None:
    if text is None:
        return None
    value = json_option(text, "--arguments")
    if not isinstance(value, dict):
        raise UserError('--arguments must be a JSON object: {"CALL_ID": {…}}.')
    return cast("JsonObject", value)
