"""`outlast list` and `outlast show`: which runs there are, and where one is.

Owns: the two commands. Both read what the server has stored, so they need no worker.
"""

import asyncio
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from outlast.cli import options, terminal
from outlast.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

    from outlast.cli.run_list import Row

_STATUS_STYLES = {
    "running": "cyan",
    "waiting": "bold yellow",
    "idle": "blue",
    "completed": "green",
    "failed": "bold red",
    "cancelled": "red",
}

_COLUMNS = ("ID", "STATUS", "AGENT", "APPROVALS", "STARTED", "TOOK")
_LEFT_OUT_FIRST = ("STARTED", "AGENT", "TOOK", "APPROVALS")
"""What a narrow terminal does without, rather than cut everything short."""

_NO_BOUND = 10_000


def list_runs(
    status: Annotated[
        Literal["running", "waiting", "idle", "completed", "failed", "cancelled"] | None,
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
    console, left_out = terminal.out(), list(_LEFT_OUT_FIRST)
    table = _table(rows, _COLUMNS)
    while left_out and _width(console, table) > console.width:
        del left_out[0]
        kept = [one for one in _COLUMNS if one not in _LEFT_OUT_FIRST or one in left_out]
        table = _table(rows, kept)
    console.print(table)
    if len(rows) == limit:
        terminal.say(terminal.err(), f"There may be more than these {limit}; see --limit.")


def _table(rows: "list[Row]", columns: "Sequence[str]") -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        # An id can be copied as it is, also where it does not fit into a line.
        is_id, is_number = name == "ID", name in {"APPROVALS", "TOOK"}
        table.add_column(
            name,
            no_wrap=not is_id,
            overflow="fold" if is_id else "ellipsis",
            justify="right" if is_number else "left",
        )
    for row in rows:
        cells = {
            "ID": Text(row.run_id),
            "STATUS": Text(row.status, style=_STATUS_STYLES.get(row.status, "")),
            "AGENT": Text(row.agent or "-"),
            "APPROVALS": Text(str(row.approvals) if row.approvals else "-"),
            "STARTED": Text(row.started.astimezone().strftime("%Y-%m-%d %H:%M:%S")),
            "TOOK": Text(row.took),
        }
        table.add_row(*(cells[name] for name in columns))
    return table


def _width(console: "Console", table: "Table") -> int:
    """Return how wide a table is if nothing in it wraps."""
    from rich.measure import Measurement

    unbounded = console.options.update(max_width=_NO_BOUND)
    return Measurement.get(console, unbounded, table).maximum
