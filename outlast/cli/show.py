"""`outlast show` and `cancel`: everything about one run from its history, and its end."""

from typing import Annotated

import typer

from outlast.cli import options, terminal
from outlast.cli.caller import Caller, on_server


@on_server
async def show(
    caller: Caller,
    run_id: options.RunId,
    last: Annotated[int, typer.Option(min=0)] = 50,
) -> None:
    """Show a run: its status, its transcript, and what it waits for. Needs no worker.

    Command line:
        last: Show at most this many entries of the transcript.
    """
    from outlast.cli.report import read_report, show_report

    connection = await caller.connect()
    async with terminal.waiting(terminal.err(), "reading the history"):
        report = await read_report(connection, run_id)
    if not caller.printed_json(report.record(last)):
        show_report(report, last)


@on_server
async def cancel(
    caller: Caller,
    run_id: options.RunId,
    after_turn: bool = False,
) -> None:
    """Cancel a run.

    With --after-turn, a conversation that waits for messages is completed.

    Command line:
        after_turn: Let the current turn finish first.
    """
    from outlast.client.handle import RunHandle

    mode = "after_turn" if after_turn else "immediate"
    await RunHandle((await caller.connect()).client, run_id).cancel(mode)
    when = "after its turn" if after_turn else "now"
    caller.show({"run_id": run_id, "cancel": mode}, f"Asked {run_id} to stop {when}.")
