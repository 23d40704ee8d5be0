"""`outlast tail`: a run as it happens, with the answer while the model gives it.

Owns: the command. Must not know: how a run is read along, and how it looks.
"""

import asyncio
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from outlast.cli import options, terminal
from outlast.rendering import command

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from temporalio.client import Client

    from outlast.cli.tail_events import TailEvent

_FromEvent = Annotated[
    int,
    typer.Option(
        "--from-event",
        metavar="N",
        min=0,
        help="Leave out what came before the event of this number; --json shows the numbers.",
    ),
]


def tail(
    run_id: options.RunId,
    from_event: _FromEvent = 0,
    address: options.Address = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Follow a run until it has ended: what happens, and what the model says while it says it.

    Needs no worker. A conversation that waits for its next message has not ended. Ctrl-C leaves
    the run alone.
    """

    async def follow() -> None:
        from outlast.cli.server_lookup import connect
        from outlast.cli.tail_events import Happened, tail_events

        connection = await connect(address, namespace)
        next_event = from_event
        try:
            async with (
                aclosing(tail_events(connection.client, run_id, from_event=from_event)) as events,
                _printing(connection.client, run_id, as_json=as_json) as show,
            ):
                async for event in events:
                    show(event)
                    if isinstance(event, Happened) and event.number is not None:
                        next_event = event.number + 1
        except asyncio.CancelledError:
            terminal.say(
                terminal.err(),
                f"The run {run_id} goes on without you. ",
                "`",
                command("tail", run_id, options=f"--from-event {next_event}"),
                "` goes on from here.",
            )
            raise

    asyncio.run(follow())


@asynccontextmanager
async def _printing(
    client: "Client", run_id: str, *, as_json: bool
) -> "AsyncGenerator[Callable[[TailEvent], None]]":
    """Yield what shows an event, and leave the terminal as it was."""
    if as_json:
        yield lambda event: terminal.print_json_line(event.record())
        return
    from outlast.cli.retries import tell_retries
    from outlast.cli.tail_events import Happened
    from outlast.cli.tail_view import TailView

    with TailView(terminal.out()) as view:

        def show(event: "TailEvent") -> None:
            if isinstance(event, Happened):
                view.happened(event.event)
            else:
                view.said(event.agent, event.raw)

        async with tell_retries(client, run_id, lambda retry: view.note(f"{retry}")):
            yield show
