"""`outlast list`: finds runs by their search attributes."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from outlast.cli import options, terminal
from outlast.cli.caller import Caller, on_server
from outlast.cli.durations import rough
from outlast.contract.names import ListedStatus

if TYPE_CHECKING:
    from outlast.client.runs import ListedRun

TOKENS_UP_TO = 50
"""The longest list whose tokens are read unasked: each run's history is read for them."""

_STATUS_STYLES = {
    "running": "cyan",
    "waiting": "bold yellow",
    "parked": "yellow",
    "held": "magenta",
    "idle": "blue",
    "on_call": "green",
    "completed": "green",
    "failed": "bold red",
    "cancelled": "red",
    "terminated": "red",
    "blocked": "bold magenta",
}

_COLUMNS = (
    # An id stays whole for copying, even if it does not fit into a line.
    terminal.Column(name="ID", folds=True),
    terminal.Column(name="STATUS"),
    terminal.Column(name="AGENT", left_out=4),
    terminal.Column(name="WAITS FOR", left_out=5),
    terminal.Column(name="TOKENS", numbers=True, left_out=2),
    terminal.Column(name="AGE", numbers=True, left_out=3),
    terminal.Column(name="TOOK", numbers=True, left_out=1),
)


@on_server
async def list_runs(
    caller: Caller,
    status: Annotated[
        ListedStatus | None,
        typer.Option("--status", help="Only runs with this status."),
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="Only runs whose current agent is this one.")
    ] = None,
    waiting: Annotated[
        bool, typer.Option("--waiting", help="Only runs that wait for a person's approval.")
    ] = False,
    limit: options.Limit = 20,
    tokens: Annotated[
        bool | None,
        typer.Option(
            "--tokens/--no-tokens",
            help="Read each run's history for its tokens; the default is to do so for up to "
            f"{TOKENS_UP_TO} runs.",
        ),
    ] = None,
) -> None:
    """List runs: open ones first, then closed ones, newest first."""
    from outlast.client import runs

    client = (await caller.connect()).client
    criteria = runs.RunFilter(status=status, agent=agent, waiting=waiting)
    async with terminal.waiting(terminal.err(), "listing runs"):
        found = await runs.find_runs(client, criteria, limit=limit)
        reads = len(found) <= TOKENS_UP_TO if tokens is None else tokens
        rows = await runs.with_tokens(client, found) if reads else found
    if caller.as_json:
        terminal.print_json([row.record() for row in rows])
    else:
        _show_rows(rows, limit)
    if not reads and tokens is None:
        terminal.say(
            terminal.err(),
            f"Tokens are left out of a list of more than {TOKENS_UP_TO} runs: --tokens reads them.",
        )


def _show_rows(rows: "list[ListedRun]", limit: int) -> None:
    if not rows:
        terminal.say(terminal.err(), "No runs found. Start one with `outlast run AGENT TEXT`.")
        return
    now = datetime.now(UTC)  # noqa: TID251
    cells = [
        (
            row.run_id,
            (row.status, _STATUS_STYLES.get(row.status, "")),
            row.agent or "-",
            row.waits_for or "-",
            "-" if row.tokens is None else f"{row.tokens:,}",
            # Estimates for people, so the clock of this machine is good enough.
            rough(now - row.started),
            rough((row.closed or now) - row.started),
        )
        for row in rows
    ]
    terminal.say_table(terminal.out(), _COLUMNS, cells)
    if len(rows) == limit:
        terminal.say(terminal.err(), f"Limited to {limit}: there may be more, see --limit.")
