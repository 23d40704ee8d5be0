"""`outlast show`: everything about one run, from its history."""

import asyncio
from typing import Annotated

import typer

from outlast.cli import options, server, terminal


def show(
    run_id: options.RunId,
    last: Annotated[
        int, typer.Option("--last", min=0, help="Show at most this many entries of the transcript.")
    ] = 50,
    address: options.Address = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Show a run: its status, its transcript, and what it waits for. Needs no worker."""

    async def read_and_show() -> None:
        from outlast.cli.report import read_report, show_report

        connection = await server.connect(address, namespace)
        async with terminal.waiting(terminal.err(), "reading the history"):
            report = await read_report(connection, run_id)
        if as_json:
            terminal.print_json(report.record(last))
        else:
            show_report(report, last)

    asyncio.run(read_and_show())
