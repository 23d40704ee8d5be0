"""`outlast list` and `outlast show`: which runs there are, and where one is.

Owns: the two commands. Both read what the server has stored, so they need no worker.
"""

import asyncio
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from outlast.cli import options, terminal
from outlast.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from outlast.cli.run_list import Row

_STATUS_STYLES = {
    "running": "cyan",
    "waiting": "bold yellow",
    "idle": "blue",
    "completed": "green",
    "failed": "bold red",
    "cancelled": "red",
    "terminated": "red",
    "blocked": "bold magenta",
}

_COLUMNS = (
    # An id can be copied as it is, also where it does not fit into a line.
    terminal.Column(name="ID", folds=True),
    terminal.Column(name="STATUS"),
    terminal.Column(name="AGENT", left_out=2),
    terminal.Column(name="APPROVALS", numbers=True, left_out=4),
    terminal.Column(name="STARTED", left_out=1),
    terminal.Column(name="TOOK", numbers=True, left_out=3),
)


def list_runs(
    status: Annotated[
        Literal[
            "running",
            "waiting",
            "blocked",
            "idle",
            "completed",
            "failed",
            "cancelled",
            "terminated",
        ]
        | None,
        typer.Option("--status", help="Only runs with this status."),
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="Only runs that this agent has at the moment.")
    ] = None,
    waiting: Annotated[
        bool, typer.Option("--waiting", help="Only runs that wait for a person's approval.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most this many.")] = 20,
    address: options.Address = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """List runs: the open ones first, then those that ended last."""

    async def look() -> None:
        from outlast.cli.run_list import Filter, find_runs
        from outlast.cli.server_lookup import connect

        connection = await connect(address, namespace)
        wanted = Filter(status=status, agent=agent, waiting=waiting)
        async with terminal.waiting(terminal.err(), "looking"):
            rows = await find_runs(connection.client, wanted, limit=limit)
        if as_json:
            terminal.print_json([row.record() for row in rows])
        else:
            _show_rows(rows, limit)

    asyncio.run(look())


def show(
    run_id: options.RunId,
    last: Annotated[
        int, typer.Option("--last", min=0, help="At most this many entries of the transcript.")
    ] = 50,
    address: options.Address = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Show where a run is, what was said, and what it waits for. Needs no worker."""

    async def look() -> ExitCode:
        from outlast.cli.run_report import read_report, show_report
        from outlast.cli.server_lookup import connect

        connection = await connect(address, namespace)
        async with terminal.waiting(terminal.err(), "reading the history"):
            report = await read_report(connection, run_id)
        if as_json:
            terminal.print_json(report.record(last))
        else:
            show_report(report, last)
        return ExitCode.OK

    raise typer.Exit(asyncio.run(look()))


def _show_rows(rows: "list[Row]", limit: int) -> None:
    if not rows:
        terminal.say(terminal.err(), "No such runs. Start one with `outlast run AGENT TEXT`.")
        return
    cells = [
        (
            row.run_id,
            (row.status, _STATUS_STYLES.get(row.status, "")),
            row.agent or "-",
            str(row.approvals) if row.approvals else "-",
            row.started.astimezone().strftime("%Y-%m-%d %H:%M:%S"),
            row.took,
        )
        for row in rows
    ]
    terminal.say_table(terminal.out(), _COLUMNS, cells)
    if len(rows) == limit:
        terminal.say(terminal.err(), f"There may be more than these {limit}; see --limit.")
