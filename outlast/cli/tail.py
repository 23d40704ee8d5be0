"""`outlast tail`: follows a run live, including partial answers."""

import asyncio
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from outlast.cli import options, terminal
from outlast.cli.caller import Caller, on_server
from outlast.edges.rendering import command

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from outlast.client.follower import Follower, TailEvent


@on_server
async def tail(
    caller: Caller,
    run_id: options.RunId,
    from_event: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Follow a run until it ends, with each answer while the model writes it.

    Needs no worker. A conversation that waits for its next message has not ended. Ctrl-C does not
    stop the run.

    Command line:
        from_event (N): Start at the event with this number; --json shows the numbers.
    """
    from outlast.client.follower import Entry, Follower

    follower = Follower((await caller.connect()).client, run_id)
    next_event = from_event
    try:
        async with (
            aclosing(follower.tail(from_event=from_event)) as events,
            _printing(follower, as_json=caller.as_json) as show,
        ):
            async for event in events:
                show(event)
                if isinstance(event, Entry) and event.number is not None:
                    next_event = event.number + 1
    except asyncio.CancelledError:
        again = command("tail", run_id, options=f"--from-event {next_event}")
        terminal.say(
            terminal.err(), f"The run {run_id} continues. `", again, "` resumes from here."
        )
        raise


@asynccontextmanager
async def _printing(
    follower: "Follower", *, as_json: bool
) -> "AsyncGenerator[Callable[[TailEvent], None]]":
    if as_json:
        yield lambda event: terminal.print_json_line(event.record())
        return
    from outlast.cli.view import LiveView
    from outlast.client.follower import Entry

    with LiveView(terminal.out()) as view:

        def show(event: "TailEvent") -> None:
            if isinstance(event, Entry):
                view.show_event(event.event)
            else:
                view.show_delta(event.agent, event.raw)

        async with follower.report_retries(lambda retry: view.note(f"{retry}")):
            yield show
