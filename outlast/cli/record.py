"""`outlast record`: a run as a document, for a test."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import typer

from outlast.agents.errors import UserError
from outlast.cli import options, terminal
from outlast.cli.caller import Caller, on_server
from outlast.cli.exit_codes import ExitCode
from outlast.views.records import JsonObject

if TYPE_CHECKING:
    from outlast.client.recordings import Recording

Unredacted: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--unredacted", help="Keep the values that approval policies redact, such as card numbers."
    ),
]

RedactBy: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--redact",
        metavar="MODULE:NAME",
        help="A function that gets each document and returns what is written; None leaves it out.",
    ),
]


@on_server
async def record(
    caller: Caller,
    run_id: options.RunId,
    unredacted: Unredacted = False,
    redact: RedactBy = None,
    app_dir: options.AppDir = Path(),
) -> ExitCode:
    """Print a run as a recording: one JSON document that `@replays` makes a test of.

    Read from the run's history; needs no worker. Exits with 1 if a history of the run is lost.
    """
    from outlast.client.recordings import record_run

    change = redactor(redact, app_dir)
    connection = await caller.connect()
    async with terminal.waiting(terminal.err(), "reading the history"):
        recording = await record_run(connection.client, run_id, redact=not unredacted)
    document = change(recording.record())
    if document is None:
        raise UserError(f"{redact} leaves the run {run_id} out.")
    terminal.print_json(document)
    for line in remarks(recording):
        terminal.say(terminal.err(), line)
    return ExitCode.FAILED if recording.lost else ExitCode.OK


def remarks(recording: "Recording") -> list[str]:
    """Return what a reader has to know about a recording."""
    found: list[str] = []
    if recording.starts_late:
        found.append(
            "The beginning of the run is no longer retained, or is that of another run, which it was "
            "forked from: the recording cannot be replayed."
        )
    found += [
        f"The history {one} of the run, or more before it, is lost: what happened in it is missing."
        for one in recording.lost
    ]
    if not recording.complete:
        found.append(f"The run is still open ({recording.status}): the recording ends here.")
    return found


def redactor(target: str | None, app_dir: Path) -> Callable[[JsonObject], JsonObject | None]:
    """Return the function that changes documents before they leave."""
    if target is None:
        return lambda document: document
    from outlast.cli.application import load_object

    function = load_object(target, app_dir)
    if not callable(function):
        raise UserError(f"--redact {target}: {type(function).__name__} is not a function.")

    def change(document: JsonObject) -> JsonObject | None:
        changed: Any = function(document)
        if changed is not None and not isinstance(changed, dict):
            kind = type(changed).__name__
            raise UserError(f"--redact {target} returned {kind}: return the document, or None.")
        return cast("JsonObject | None", changed)

    return change
